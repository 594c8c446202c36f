package main

import "golang.org/x/sync/errgroup"

// An errgroup with a limit: a goroutine per task, no queue, no results.
func main() {
	run(func(workers int) pool {
		var group errgroup.Group
		group.SetLimit(workers)
		return pool{
			spawn: func(task func()) {
				group.Go(func() error {
					task()
					return nil
				})
			},
			join: func() { _ = group.Wait() },
		}
	})
}
