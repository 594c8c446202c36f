// The workloads W1 and W2 as the Rust program has them: same task, same
// queue, same check of the answers before a figure is printed.
package main

import (
	"fmt"
	"os"
	"sync"
	"time"
)

const (
	seed        = 0x123456789abcdef1
	shortRounds = 3
	queue       = 1000
	outstanding = 100
	declined    = 3
)

// rounds is a variable, so that the loop is not unrolled at compile time.
var rounds = uint64(shortRounds)

// pool takes closures. submit may be nil: then there are no results by handle.
type pool struct {
	spawn  func(task func())
	submit func(task func() uint64) (wait func() uint64)
	// join waits for all tasks.
	join func()
}

type shape struct {
	workers, producers int
}

var fireAndForget = map[string]shape{
	"W1-2w1p": {2, 1},
	"W1-2w4p": {2, 4},
	"W1-8w1p": {8, 1},
}

func mix(x uint64) uint64 {
	for i := uint64(0); i < rounds; i++ {
		x ^= x >> 29
		x *= 0x9e3779b97f4a7c15
	}
	return x
}

func expectedSum(tasks uint64) uint64 {
	sum := uint64(0)
	for input := uint64(0); input < tasks; input++ {
		sum += mix(input ^ seed)
	}
	return sum
}

// run runs the workload that the command line names and prints its figure.
// A goroutine has no memory of its own, so each task leaves its result in a
// place of its own.
func run(open func(workers int) pool) {
	workload := os.Args[1]
	if shape, ok := fireAndForget[workload]; ok {
		forget(open(shape.workers), shape.producers)
		return
	}
	if workload == "W2" {
		byHandle(open(2))
		return
	}
	os.Exit(declined)
}

func forget(p pool, producers int) {
	const tasks = 1000000
	results := make([]uint64, tasks)
	share := tasks / producers
	started := time.Now()
	var producing sync.WaitGroup
	for k := 0; k < producers; k++ {
		producing.Add(1)
		go func(from, to int) {
			defer producing.Done()
			for i := from; i < to; i++ {
				input, result := uint64(i), &results[i]
				p.spawn(func() { *result = mix(input ^ seed) })
			}
		}(k*share, (k+1)*share)
	}
	producing.Wait()
	p.join()
	elapsed := time.Since(started)
	sum := uint64(0)
	for _, result := range results {
		sum += result
	}
	report(sum, tasks, elapsed)
}

func byHandle(p pool) {
	const tasks = 300000
	if p.submit == nil {
		os.Exit(declined)
	}
	waiting := make([]func() uint64, 0, outstanding)
	sum := uint64(0)
	started := time.Now()
	for i := uint64(0); i < tasks; i++ {
		input := i
		wait := p.submit(func() uint64 { return mix(input ^ seed) })
		if len(waiting) < outstanding {
			waiting = append(waiting, wait)
			continue
		}
		// The oldest of a ring.
		oldest := &waiting[i%outstanding]
		sum += (*oldest)()
		*oldest = wait
	}
	for _, wait := range waiting {
		sum += wait()
	}
	elapsed := time.Since(started)
	p.join()
	report(sum, tasks, elapsed)
}

func report(sum, tasks uint64, elapsed time.Duration) {
	if sum != expectedSum(tasks) {
		fmt.Fprintln(os.Stderr, "a task was lost, ran twice or gave a wrong result")
		os.Exit(1)
	}
	fmt.Printf("ns %.4f\n", float64(elapsed.Nanoseconds())/float64(tasks))
}
