package main

import "sync"

// Goroutines that read one bounded channel of closures.
func main() {
	run(func(workers int) pool {
		tasks := make(chan func(), queue)
		var working sync.WaitGroup
		for i := 0; i < workers; i++ {
			working.Add(1)
			go func() {
				defer working.Done()
				for task := range tasks {
					isolated(task)
				}
			}()
		}
		return pool{
			spawn: func(task func()) { tasks <- task },
			submit: func(task func() uint64) func() uint64 {
				result := make(chan uint64, 1)
				tasks <- func() { result <- task() }
				return func() uint64 { return <-result }
			},
			join: func() {
				close(tasks)
				working.Wait()
			},
		}
	})
}

// A panic costs its task only, as in the Rust pools.
func isolated(task func()) {
	defer func() { _ = recover() }()
	task()
}
