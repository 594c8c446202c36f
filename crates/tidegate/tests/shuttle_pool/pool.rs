//! Tasks, workers and shutdowns.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use shuttle::sync::Mutex;
use shuttle::thread;
use tidegate::*;

use crate::frame::*;

scenarios! {
    submit_and_wait {
        let pool = pool(2, 2).build().unwrap();
        let clients = [1, 2].map(|n| {
            let pool = pool.clone();
            thread::spawn(move || pool.submit(move || n * 10).unwrap().wait().unwrap())
        });
        let values = clients.map(|client| client.join().unwrap());
        assert_eq!(values, [10, 20]);
        assert_eq!(finish(&pool, Shutdown::light()).threads_joined, 2);
    }

    spawn_and_wait_idle {
        let pool = pool(2, 2).build().unwrap();
        let ran = Arc::new(AtomicUsize::new(0));
        for _ in 0..3 {
            let ran = Arc::clone(&ran);
            let count = move || {
                ran.fetch_add(1, SeqCst);
            };
            pool.spawn(count).unwrap();
        }
        pool.wait_idle().unwrap();
        assert_eq!(ran.load(SeqCst), 3);
        finish(&pool, Shutdown::light());
    }

    /// The supervisor is about to make it larger when somebody says how large it is to be.
    a_resize_meets_growth {
        let builder = pool(1, 4).workers(1..=3).grow_after(ZERO).resize_cooldown(ZERO);
        let pool = builder.shrink_after(Duration::MAX).build().unwrap();
        let gate = Gate::default();
        for _ in 0..3 {
            let gate = gate.clone();
            pool.spawn(move || gate.pass()).unwrap();
        }
        let now = pool.snapshot().workers;
        pool.resize(now as usize).unwrap();
        gate.open();
        pool.wait_idle().unwrap();
        assert_eq!(pool.snapshot().workers, now, "somebody else had the last word");
        finish(&pool, Shutdown::light());
    }

    submit_and_shutdown_light { submit_and_shutdown(Shutdown::light()); }
    submit_and_shutdown_soft { submit_and_shutdown(Shutdown::soft()); }
    submit_and_shutdown_hard { submit_and_shutdown(Shutdown::hard()); }

    two_shutdowns_get_one_report {
        let pool = pool(1, 2).build().unwrap();
        let handle = pool.submit(|| 7).unwrap();
        let other = {
            let pool = pool.clone();
            thread::spawn(move || pool.shutdown(Shutdown::soft()).unwrap())
        };
        let mine = finish(&pool, Shutdown::light());
        let theirs = other.join().unwrap();
        assert_eq!((mine.completed, mine.cancelled), (theirs.completed, theirs.cancelled));
        match handle.wait() {
            Ok(value) => assert_eq!(value, 7),
            Err(error) => assert!(error.is_cancelled()),
        }
    }

    cancel_and_run {
        let pool = pool(1, 2).build().unwrap();
        let drops = Arc::new(AtomicUsize::new(0));
        let counted = Counted(Arc::clone(&drops));
        let handle = Arc::new(pool.submit(move || { drop(counted); 7 }).unwrap());
        let id = handle.id();
        let canceller = {
            let pool = pool.clone();
            thread::spawn(move || pool.cancel_task(id))
        };
        let mine = handle.cancel();
        let theirs = canceller.join().unwrap();
        assert!(!(mine && theirs), "both were the first");
        let outcome = Arc::into_inner(handle).unwrap().wait();
        match outcome {
            Ok(value) => assert_eq!(value, 7),
            Err(error) => assert!(error.is_cancelled() && (mine || theirs)),
        }
        assert_eq!(drops.load(SeqCst), 1, "captures were dropped twice, or never");
        finish(&pool, Shutdown::light());
    }

    detach_and_run {
        let pool = pool(1, 2).build().unwrap();
        let drops = Arc::new(AtomicUsize::new(0));
        for _ in 0..2 {
            let counted = Counted(Arc::clone(&drops));
            drop(pool.submit(move || counted).unwrap());
        }
        finish(&pool, Shutdown::light());
        assert_eq!(drops.load(SeqCst), 2, "results were dropped twice, or never");
    }

    blocked_submitter_and_close {
        let pool = pool(1, 1).build().unwrap();
        let gate = Gate::default();
        let inside = gate.clone();
        let first = pool.submit(move || inside.pass()).unwrap();
        let submitters = [1, 2].map(|n| {
            let pool = pool.clone();
            thread::spawn(move || pool.submit(move || n))
        });
        pool.close();
        // Nobody makes room before the gate is open: only the closing can end their wait.
        let offers = submitters.map(|submitter| submitter.join().unwrap());
        gate.open();
        for offer in offers {
            match offer {
                Ok(handle) => assert!(handle.wait().unwrap() > 0),
                Err(refused) => assert_eq!(refused.reason(), Reason::Closed),
            }
        }
        first.wait().unwrap();
        finish(&pool, Shutdown::light());
    }

    blocked_submitters_all_get_in {
        let pool = pool(1, 1).build().unwrap();
        let submitters = [1, 2, 3].map(|n| {
            let pool = pool.clone();
            thread::spawn(move || pool.submit(move || n).unwrap().wait().unwrap())
        });
        let values = submitters.map(|submitter| submitter.join().unwrap());
        assert_eq!(values, [1, 2, 3]);
        finish(&pool, Shutdown::light());
    }

    blocked_submitter_and_cancel {
        let pool = pool(1, 1).build().unwrap();
        let gate = Gate::default();
        let inside = gate.clone();
        let first = pool.submit(move || inside.pass()).unwrap();
        let second = pool.submit(|| 2).unwrap();
        let third = {
            let pool = pool.clone();
            thread::spawn(move || pool.submit(|| 3).unwrap())
        };
        // Either it is cancelled in its place and the third gets that, or it runs later.
        let cancelled = second.cancel();
        if cancelled {
            third.join().unwrap().detach();
            gate.open();
        } else {
            gate.open();
            third.join().unwrap().detach();
        }
        first.wait().unwrap();
        assert_eq!(second.wait().is_err(), cancelled);
        finish(&pool, Shutdown::light());
    }

    dead_tasks_fill_the_ring {
        let pool = pool(1, 1).build().unwrap();
        let gate = Gate::default();
        let inside = gate.clone();
        let first = pool.submit(move || inside.pass()).unwrap();
        let client = {
            let pool = pool.clone();
            thread::spawn(move || {
                // More than the ring has slots: the last ones go through the spill.
                for _ in 0..4 {
                    let doomed = pool.submit(|| ()).unwrap();
                    doomed.cancel();
                }
                let [one, two] = [1, 2].map(|n| pool.submit(move || n).unwrap());
                one.wait().unwrap() + two.wait().unwrap()
            })
        };
        gate.open();
        first.wait().unwrap();
        assert_eq!(client.join().unwrap(), 3);
        finish(&pool, Shutdown::light());
    }

    nested_wait {
        let pool = pool(1, 2).build().unwrap();
        let inner = pool.clone();
        let outer = pool.submit(move || {
            let child = inner.submit(|| 4).unwrap();
            child.wait().unwrap() + 1
        });
        assert_eq!(outer.unwrap().wait().unwrap(), 5);
        finish(&pool, Shutdown::light());
    }

    two_nested_waits_on_two_workers {
        let pool = pool(2, 4).build().unwrap();
        let outers = [1, 2].map(|n| {
            let inner = pool.clone();
            pool.submit(move || inner.submit(move || n).unwrap().wait().unwrap() * 10).unwrap()
        });
        assert_eq!(outers.map(|outer| outer.wait().unwrap()), [10, 20]);
        finish(&pool, Shutdown::light());
    }

    helping_callers {
        let pool = pool(1, 2).callers_may_help(true).build().unwrap();
        let running = Arc::new(AtomicUsize::new(0));
        let clients = [1, 2].map(|n| {
            let (pool, running) = (pool.clone(), Arc::clone(&running));
            thread::spawn(move || {
                let task = move || {
                    assert_eq!(running.fetch_add(1, SeqCst), 0, "two at work in a pool of one");
                    thread::yield_now();
                    running.fetch_sub(1, SeqCst);
                    n
                };
                pool.submit(task).unwrap().wait().unwrap()
            })
        });
        assert_eq!(clients.map(|client| client.join().unwrap()), [1, 2]);
        finish(&pool, Shutdown::light());
    }

    a_helper_and_one_that_waits_for_its_place {
        let pool = pool(1, 1).callers_may_help(true).build().unwrap();
        let clients = [1, 2].map(|n| {
            let pool = pool.clone();
            thread::spawn(move || pool.submit(move || n).unwrap().wait().unwrap())
        });
        assert_eq!(clients.map(|client| client.join().unwrap()), [1, 2]);
        finish(&pool, Shutdown::light());
    }

    pause_and_resume {
        let pool = pool(2, 2).build().unwrap();
        let other = {
            let pool = pool.clone();
            thread::spawn(move || {
                pool.pause();
                pool.resume();
            })
        };
        let one = pool.submit(|| 1).unwrap();
        let two = pool.submit(|| 2).unwrap();
        assert_eq!(one.wait().unwrap() + two.wait().unwrap(), 3);
        other.join().unwrap();
        finish(&pool, Shutdown::light());
    }

    a_pause_as_the_worker_of_a_queue_of_none_goes_to_rest {
        let pool = pool(1, 0).build().unwrap();
        pool.submit(|| ()).unwrap().wait().unwrap();
        let other = {
            let pool = pool.clone();
            thread::spawn(move || {
                pool.pause();
                pool.resume();
            })
        };
        assert_eq!(pool.submit(|| 2).unwrap().wait().unwrap(), 2);
        other.join().unwrap();
        finish(&pool, Shutdown::light());
    }

    a_pause_comes_after_a_task_that_was_handed_over {
        let pool = pool(2, 0).build().unwrap();
        let other = {
            let pool = pool.clone();
            thread::spawn(move || {
                pool.pause();
                pool.resume();
                pool.pause();
            })
        };
        // Whichever worker is woken for it, and whether or not that one has announced itself.
        let task = pool.try_submit(|| 1);
        other.join().unwrap();
        if let Ok(task) = task {
            assert_eq!(task.wait().unwrap(), 1);
        }
        finish(&pool, Shutdown::light());
    }

    pause_and_shutdown {
        let pool = pool(1, 2).build().unwrap();
        let handle = pool.submit(|| 1).unwrap();
        let other = {
            let pool = pool.clone();
            thread::spawn(move || pool.pause())
        };
        finish(&pool, Shutdown::light());
        other.join().unwrap();
        assert_eq!(handle.wait().unwrap(), 1);
    }

    drop_of_the_last_pool_with_work {
        let pool = pool(2, 2).build().unwrap();
        let second = pool.clone();
        let one = pool.submit(|| 1).unwrap();
        let two = pool.submit(|| 2).unwrap();
        let other = thread::spawn(move || drop(second));
        drop(pool);
        assert_eq!(one.wait().unwrap() + two.wait().unwrap(), 3);
        other.join().unwrap();
    }

    drop_of_the_last_pool_by_its_own_task {
        let pool = pool(1, 2).build().unwrap();
        let inner = pool.clone();
        let handle = pool.submit(move || drop(inner)).unwrap();
        drop(pool);
        handle.wait().unwrap();
    }

    queue_of_none {
        let pool = pool(1, 0).build().unwrap();
        let clients = [1, 2].map(|n| {
            let pool = pool.clone();
            thread::spawn(move || pool.submit(move || n).unwrap().wait().unwrap())
        });
        assert_eq!(clients.map(|client| client.join().unwrap()), [1, 2]);
        finish(&pool, Shutdown::light());
    }

    queue_of_none_and_stop_worker {
        let pool = pool(2, 0).build().unwrap();
        let client = {
            let pool = pool.clone();
            thread::spawn(move || pool.submit(|| 1).unwrap().wait().unwrap())
        };
        let first = pool.roster()[0].id;
        pool.stop_worker(first, StopWorker::AfterTask).unwrap();
        assert_eq!(client.join().unwrap(), 1);
        finish(&pool, Shutdown::light());
    }

    stop_worker_and_submit {
        let pool = pool(2, 2).build().unwrap();
        let first = pool.roster()[0].id;
        let client = {
            let pool = pool.clone();
            thread::spawn(move || pool.submit(|| 1).unwrap().wait().unwrap())
        };
        pool.stop_worker(first, StopWorker::AfterTask).unwrap();
        assert_eq!(client.join().unwrap(), 1);
        finish(&pool, Shutdown::light());
    }

    stop_both_workers_at_once {
        let pool = pool(2, 2).build().unwrap();
        let [first, second] = [pool.roster()[0].id, pool.roster()[1].id];
        let other = {
            let pool = pool.clone();
            thread::spawn(move || pool.stop_worker(second, StopWorker::AfterTask).is_ok())
        };
        let mine = pool.stop_worker(first, StopWorker::AfterTask).is_ok();
        assert!(mine ^ other.join().unwrap(), "one must stay");
        assert_eq!(pool.submit(|| 1).unwrap().wait().unwrap(), 1);
        finish(&pool, Shutdown::light());
    }

    recycle_worker_and_submit {
        let pool = pool(1, 2).build().unwrap();
        let first = pool.roster()[0].id;
        let client = {
            let pool = pool.clone();
            thread::spawn(move || pool.submit(|| 1).unwrap().wait().unwrap())
        };
        pool.recycle_worker(first, StopWorker::AfterTask).unwrap();
        assert_eq!(client.join().unwrap(), 1);
        finish(&pool, Shutdown::light());
    }

    drop_oldest_and_run {
        let pool = pool(1, 1).when_full(WhenFull::DropOldest).build().unwrap();
        let handles = [1, 2, 3].map(|n| pool.submit(move || n).unwrap());
        let ran = handles.into_iter().filter_map(|handle| handle.wait().ok()).count();
        let books = pool.snapshot();
        finish(&pool, Shutdown::light());
        assert_eq!(books.evicted as usize + ran, 3);
    }

    token_and_run {
        let pool = pool(1, 2).build().unwrap();
        let token = Token::new();
        let canceller = {
            let token = token.clone();
            thread::spawn(move || token.cancel())
        };
        match pool.task("t").cancel_with(&token).submit(|_| 7) {
            Ok(handle) => match handle.wait() {
                Ok(value) => assert_eq!(value, 7),
                Err(error) => assert!(error.is_cancelled()),
            },
            Err(refused) => assert_eq!(refused.reason(), Reason::Cancelled),
        }
        canceller.join().unwrap();
        finish(&pool, Shutdown::light());
    }

    token_and_start {
        let pool = pool(1, 2).build().unwrap();
        let token = Token::new();
        let canceller = {
            let token = token.clone();
            thread::spawn(move || token.cancel())
        };
        // One that has begun before its token knew it ends only if it is told all the same.
        match pool.task("").cancel_with(&token).submit(|cx| cx.token().wait()) {
            Ok(handle) => assert!(handle.wait().err().is_none_or(|error| error.is_cancelled())),
            Err(refused) => assert_eq!(refused.reason(), Reason::Cancelled),
        }
        canceller.join().unwrap();
        finish(&pool, Shutdown::light());
    }

    a_child_goes_as_its_parent_is_cancelled {
        let pool = pool(1, 2).build().unwrap();
        let parent = Token::new();
        let child = parent.child();
        let task = pool.task("").cancel_with(&child).submit(|cx| cx.token().wait()).unwrap();
        let dropper = thread::spawn(move || drop(child));
        parent.cancel();
        assert!(task.wait().err().is_none_or(|error| error.is_cancelled()));
        dropper.join().unwrap();
        finish(&pool, Shutdown::light());
    }

    abandon_and_finish {
        let (clock, hand) = Clock::manual();
        let pool = pool(1, 2).clock(clock).grace(SECOND).build().unwrap();
        let gate = Gate::default();
        let inside = gate.clone();
        let drops = Arc::new(AtomicUsize::new(0));
        let counted = Counted(Arc::clone(&drops));
        let handle = pool.submit(move || { inside.pass(); counted }).unwrap();
        let cancelled = handle.cancel();
        assert!(cancelled);
        let time = thread::spawn(move || hand.advance(2 * SECOND));
        gate.open();
        let outcome = handle.wait();
        time.join().unwrap();
        let name = match outcome {
            Ok(value) => { drop(value); "completed" }
            Err(error) if error.is_cancelled() => "cancelled",
            Err(WaitError::Task(TaskError::Abandoned(_))) => "abandoned",
            Err(error) => panic!("{error:?}"),
        };
        // Whoever has the place now: it works.
        assert_eq!(pool.submit(|| 1).unwrap().wait().unwrap(), 1, "after it {name}");
        finish_late(&pool);
        // An abandoned task ends in its own time, and drops its value then.
        let dropped = drops.load(SeqCst);
        assert!(dropped == 1 || dropped == 0 && name == "abandoned", "dropped {dropped} times");
    }

    // Given up between its start and its first step, while others want a cell.
    abandon_at_once_and_refill {
        let pool = pool(1, 4).grace(Duration::ZERO).build().unwrap();
        let gate = Gate::default();
        let inside = gate.clone();
        let drops = Arc::new(AtomicUsize::new(0));
        let ran = Arc::new(AtomicUsize::new(0));
        let (counted, runs) = (Counted(Arc::clone(&drops)), Arc::clone(&ran));
        let first = pool.submit(move || {
            runs.fetch_add(1, SeqCst);
            inside.pass();
            drop(counted);
        }).unwrap();
        first.cancel();
        let _ = first.wait(); // settled in the queue, or given up: the gate is closed
        let (counted, runs) = (Counted(Arc::clone(&drops)), Arc::clone(&ran));
        let next = pool.submit(move || { runs.fetch_add(1, SeqCst); drop(counted) });
        next.unwrap().wait().unwrap();
        gate.open();
        finish_late(&pool);
        assert!(ran.load(SeqCst) <= 2, "a closure ran twice");
        assert!((1..=2).contains(&drops.load(SeqCst)), "captures dropped {drops:?} times");
    }

    abandon_inline_and_finish {
        let (clock, hand) = Clock::manual();
        let pool = pool(2, 2).clock(clock).grace(SECOND).build().unwrap();
        let gate = Gate::default();
        let inside = gate.clone();
        pool.spawn(move || inside.pass()).unwrap();
        for worker in pool.roster() {
            let _ = pool.recycle_worker(worker.id, StopWorker::Hard);
        }
        let time = thread::spawn(move || hand.advance(2 * SECOND));
        gate.open();
        time.join().unwrap();
        assert_eq!(pool.submit(|| 1).unwrap().wait().unwrap(), 1);
        finish_late(&pool);
    }

    parent_token_and_submit {
        let parent = Token::new();
        let pool = pool(1, 2).parent(&parent).on_parent_cancel(Shutdown::soft()).build().unwrap();
        let canceller = thread::spawn(move || parent.cancel());
        match pool.submit(|| 7) {
            Ok(handle) => match handle.wait() {
                Ok(value) => assert_eq!(value, 7),
                Err(error) => assert!(error.is_cancelled()),
            },
            Err(refused) => assert_eq!(refused.reason(), Reason::Closed),
        }
        canceller.join().unwrap();
        finish(&pool, Shutdown::light());
    }

    callbacks_and_wait_idle {
        let pool = pool(2, 2).build().unwrap();
        let told = Arc::new(AtomicUsize::new(0));
        let handles = [1, 2].map(|n| {
            let told = Arc::clone(&told);
            let count = move |_: &Summary| {
                thread::yield_now();
                told.fetch_add(1, SeqCst);
            };
            pool.task("t").on_outcome(count).submit(move |_| n).unwrap()
        });
        handles[0].cancel();
        pool.wait_idle().unwrap();
        assert_eq!(told.load(SeqCst), 2, "idle before every callback has returned");
        drop(handles);
        finish(&pool, Shutdown::light());
    }

    a_stream_gives_every_outcome {
        let pool = pool(2, 2).build().unwrap();
        let mut stream = pool.stream::<u64, std::convert::Infallible>(2);
        stream.submit(|| 1).unwrap();
        stream.submit(|| 2).unwrap();
        let sum: u64 = stream.by_ref().map(|completion| completion.outcome.unwrap()).sum();
        assert_eq!(sum, 3);
        drop(stream);
        finish(&pool, Shutdown::light());
    }

    a_worker_that_fails_is_followed_by_another {
        let made = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&made);
        let make = move |_| match count.fetch_add(1, SeqCst) {
            1 => Err("the second fails"),
            n => Ok(n),
        };
        let pool = pool(1, 2).restart_backoff(ZERO..=ZERO).try_worker_state(make).build().unwrap();
        // The state is made anew after a panic; that fails, and a new worker comes.
        let bad = pool.submit(|| std::panic::resume_unwind(Box::new("no"))).unwrap();
        let good = pool.submit_with(|state, _| *state).unwrap();
        assert!(bad.wait().is_err_and(|error: WaitError<()>| error.is_panicked()));
        assert_eq!(good.wait().unwrap(), 2);
        let report = pool.shutdown(Shutdown::light()).unwrap();
        assert!(report.complete, "{report}");
    }

    two_tasks_that_wait_for_each_other {
        let pool = pool(2, 4).build().unwrap();
        type Slot = Arc<Mutex<Option<Handle<bool>>>>;
        let slots: [Slot; 2] = Default::default();
        let ready = Gate::default();
        let task = |mine: &Slot, other: &Slot| {
            let (ready, other) = (ready.clone(), Arc::clone(other));
            let task = move || {
                ready.pass();
                let handle = other.lock().unwrap().take().expect("only one waits for it");
                // True if the wait was refused: at least one of the two must be.
                match handle.wait() {
                    Ok(_) => false,
                    Err(error) => error.is_would_deadlock(),
                }
            };
            *mine.lock().unwrap() = Some(pool.submit(task).unwrap());
        };
        task(&slots[0], &slots[1]);
        task(&slots[1], &slots[0]);
        ready.open();
        finish(&pool, Shutdown::light());
        assert_eq!(pool.snapshot().completed, 2);
    }

    a_panic_leaves_the_worker {
        let pool = pool(1, 2).build().unwrap();
        // Without the hook, whose message nobody needs a million times.
        let bad = pool.submit(|| std::panic::resume_unwind(Box::new("no"))).unwrap();
        let good = pool.submit(|| 1).unwrap();
        assert!(bad.wait().is_err_and(|error: WaitError<()>| error.is_panicked()));
        assert_eq!(good.wait().unwrap(), 1);
        finish(&pool, Shutdown::light());
    }
}

/// Submits while another thread shuts down: each offer is refused as closed or has one
/// outcome, and Light lets everything run.
fn submit_and_shutdown(how: Shutdown) {
    let pool = pool(1, 2).build().unwrap();
    let drops = Arc::new(AtomicUsize::new(0));
    let client = {
        let (pool, drops) = (pool.clone(), Arc::clone(&drops));
        thread::spawn(move || {
            let offers = [1, 2].map(|n| {
                let counted = Counted(Arc::clone(&drops));
                pool.submit(move || {
                    drop(counted);
                    n
                })
            });
            let counted = Counted(Arc::clone(&drops));
            let spawned = pool.try_spawn(move || drop(counted)).is_ok();
            let outcomes = offers.map(|offer| match offer {
                Ok(handle) => match handle.wait() {
                    Ok(_) => "completed",
                    Err(error) => {
                        assert!(error.is_cancelled() && how.mode() != Mode::Light);
                        "cancelled"
                    }
                },
                Err(refused) => {
                    assert_eq!(refused.reason(), Reason::Closed);
                    "refused"
                }
            });
            let accepted = outcomes.iter().filter(|o| **o != "refused").count();
            (accepted + usize::from(spawned)) as u64
        })
    };
    finish(&pool, how);
    let accepted = client.join().unwrap();
    assert_eq!(pool.snapshot().accepted, accepted);
    assert_eq!(drops.load(SeqCst), 3, "captures were dropped twice, or never");
}
