//! Tasks that are waited for together: groups, scopes, maps, slices.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use shuttle::thread;
use tidegate::*;

use crate::frame::*;

scenarios! {
    a_group_waits_for_what_its_members_add {
        let pool = pool(2, 2).build().unwrap();
        let group: Group<()> = pool.group().start();
        let ran = Arc::new(AtomicUsize::new(0));
        for _ in 0..2 {
            let (inner, ran) = (group.clone(), Arc::clone(&ran));
            let member = move |_: &Cx| {
                let counted = Arc::clone(&ran);
                let child = move |_: &Cx| {
                    counted.fetch_add(1, SeqCst);
                    Ok(())
                };
                inner.submit(child).map_err(drop)
            };
            group.submit(member).unwrap();
        }
        group.wait().unwrap();
        assert_eq!(ran.load(SeqCst), 2);
        finish(&pool, Shutdown::light());
    }

    the_first_failure_releases_who_waits_for_a_slot {
        let pool = pool(1, 2).build().unwrap();
        let group: Group<&str> = pool.group().limit(1).start();
        let other = {
            let group = group.clone();
            thread::spawn(move || group.submit(|_| Ok(())).is_ok())
        };
        let mine = group.submit(|_| Err("first")).is_ok();
        let others = other.join().unwrap();
        assert!(mine || others, "one of them got the slot");
        let failed = group.wait().is_err();
        assert_eq!(failed, mine);
        finish(&pool, Shutdown::light());
    }

    /// Both workers are taken: one by a member that waits for the late one, one by the waiter.
    a_waiter_inside_is_woken_for_what_is_added {
        let pool = pool(2, 2).build().unwrap();
        let group: Group<()> = pool.group().start();
        let gate = Gate::default();
        let member = {
            let gate = gate.clone();
            move |_: &Cx| {
                gate.pass();
                Ok(())
            }
        };
        group.submit(member).unwrap();
        let inner = group.clone();
        let waiter = pool.submit(move || inner.wait().is_ok()).unwrap();
        let late = move |_: &Cx| {
            gate.open();
            Ok(())
        };
        // Refused if the waiter was there between the two: then the first is over.
        let _ = group.submit(late);
        assert!(waiter.wait().unwrap());
        finish(&pool, Shutdown::light());
    }

    a_scope_outlives_its_tasks_whatever_happens {
        let pool = pool(1, 2).build().unwrap();
        let closing = {
            let pool = pool.clone();
            thread::spawn(move || pool.shutdown(Shutdown::soft()).unwrap())
        };
        let frame = AtomicUsize::new(0);
        pool.scope(|s| {
            for _ in 0..2 {
                let _ = s.spawn(|| {
                    frame.fetch_add(1, SeqCst);
                });
            }
        });
        assert!(frame.load(SeqCst) <= 2);
        closing.join().unwrap();
        finish(&pool, Shutdown::light());
    }

    scopes_nest_on_one_worker {
        let pool = pool(1, 1).build().unwrap();
        let inner = pool.clone();
        let sum = pool.submit(move || {
            inner.scope(|s| {
                let left = s.submit(|| 1).unwrap();
                let right = s.submit(|| 2).unwrap();
                left.wait().unwrap() + right.wait().unwrap()
            })
        });
        assert_eq!(sum.unwrap().wait().unwrap(), 3);
        finish(&pool, Shutdown::light());
    }

    a_map_ends_at_its_first_failure {
        let pool = pool(2, 2).build().unwrap();
        let f = |n: u32| if n == 1 { Err("one") } else { Ok(n) };
        let mut map = pool.map_result(0.., f).window(3);
        assert!(matches!(map.next(), Some(Ok(0))));
        assert!(matches!(map.next(), Some(Err(MapError::Task(TaskError::Failed("one"))))));
        assert!(map.next().is_none());
        drop(map);
        finish(&pool, Shutdown::light());
    }

    a_map_as_completed_tells_the_failure_itself {
        let pool = pool(2, 2).build().unwrap();
        let f = |n: u32| if n == 0 { Err("zero") } else { Ok(n) };
        let map = pool.map_result(0..4, f).as_completed();
        let last = map.last().expect("something comes");
        assert!(matches!(last, (0, Err(MapError::Task(TaskError::Failed("zero"))))), "{last:?}");
        finish(&pool, Shutdown::light());
    }

    a_slice_is_shared_out {
        let pool = pool(2, 2).build().unwrap();
        let doubled = pool.map_slice(&[1, 2, 3], |n| n * 2).unwrap();
        assert_eq!(doubled, [2, 4, 6]);
        finish(&pool, Shutdown::light());
        assert_eq!(pool.snapshot().items, 3);
    }

    /// What the first item submits keeps both workers until the slice is done: whoever of its
    /// tasks is queued behind that must not be waited for.
    a_slice_does_not_wait_for_busy_workers {
        let pool = pool(2, 3).build().unwrap();
        let gate = Gate::default();
        let doubled = pool.map_slice(&[1, 2, 3], |n| {
            for _ in 0..if *n == 1 { 2 } else { 0 } {
                let gate = gate.clone();
                pool.try_spawn(move || gate.pass()).unwrap();
            }
            n * 2
        });
        assert_eq!(doubled.unwrap(), [2, 4, 6]);
        gate.open();
        finish(&pool, Shutdown::light());
    }

    a_slice_and_a_shutdown {
        let pool = pool(2, 2).build().unwrap();
        let closing = {
            let pool = pool.clone();
            thread::spawn(move || pool.shutdown(Shutdown::hard()).unwrap())
        };
        match pool.map_slice(&[1, 2, 3], |n| n * 2) {
            Ok(all) => assert_eq!(all, [2, 4, 6]),
            Err(error) => {
                let right = |(n, result): (usize, &Option<i32>)| {
                    result.is_none_or(|found| found == 2 * (n as i32 + 1))
                };
                assert!(error.results.iter().enumerate().all(right));
                assert_eq!(error.refused, Some(Reason::Closed));
            }
        }
        closing.join().unwrap();
        finish(&pool, Shutdown::light());
    }

    a_bulk_wakes_who_is_needed {
        let pool = pool(2, 2).build().unwrap();
        let ran = Arc::new(AtomicUsize::new(0));
        let tasks = (0..4).map(|_| {
            let ran = Arc::clone(&ran);
            move || {
                ran.fetch_add(1, SeqCst);
            }
        });
        assert_eq!(pool.spawn_all(tasks).map_err(|refused| refused.reason()), Ok(4));
        pool.wait_idle().unwrap();
        assert_eq!(ran.load(SeqCst), 4);
        finish(&pool, Shutdown::light());
    }

    /// Three submitters and one that gives up: everybody gets a turn, and nothing stays held.
    a_budget_is_passed_on {
        let pool = pool(2, 4).build().unwrap();
        let budget = Budget::new("shared", 2);
        let token = Token::new();
        let submitters: Vec<_> = (1..3)
            .map(|weight| {
                let (pool, budget) = (pool.clone(), budget.clone());
                thread::spawn(move || {
                    let task = pool.task("").budget(&budget, weight).submit(|_| ());
                    task.unwrap().wait().unwrap();
                })
            })
            .collect();
        let gives_up = {
            let (pool, budget, token) = (pool.clone(), budget.clone(), token.clone());
            thread::spawn(move || {
                let task = pool.task("").budget(&budget, 2).cancel_with(&token);
                let _ = task.submit(|_| ()).map(Handle::wait);
            })
        };
        token.cancel();
        submitters.into_iter().chain([gives_up]).for_each(|thread| thread.join().unwrap());
        assert_eq!((budget.in_use(), budget.waiting()), (0, 0));
        finish(&pool, Shutdown::light());
    }

    /// A close meets a submitter that waits for a budget which nobody gives back.
    a_close_meets_a_wait_for_a_budget {
        let pool = pool(1, 2).build().unwrap();
        let budget = Budget::new("shared", 1);
        let held = budget.acquire(1).unwrap();
        let submitter = {
            let (pool, budget) = (pool.clone(), budget.clone());
            thread::spawn(move || {
                let offer = pool.task("").budget(&budget, 1).submit(|_| ());
                assert_eq!(offer.map(drop).unwrap_err().reason(), Reason::Closed);
            })
        };
        finish(&pool, Shutdown::light());
        submitter.join().unwrap();
        drop(held);
        assert_eq!((budget.in_use(), budget.waiting()), (0, 0));
    }

    /// The only worker waits for the group, somebody outside wants to join it.
    a_wait_inside_meets_one_that_wants_to_join {
        let pool = pool(1, 1).build().unwrap();
        let group: Group<()> = pool.group().start();
        let (inner, gate) = (group.clone(), Gate::default());
        let passes = gate.clone();
        let waiter = pool.submit(move || {
            passes.pass();
            inner.wait().unwrap();
        });
        let filler = pool.submit(|| ()).unwrap();
        let joiner = {
            let group = group.clone();
            thread::spawn(move || drop(group.submit(|_| Ok(()))))
        };
        gate.open();
        waiter.unwrap().wait().unwrap();
        filler.wait().unwrap();
        joiner.join().unwrap();
        finish(&pool, Shutdown::light());
    }
}
