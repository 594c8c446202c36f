//! Parking: no task waits while a worker sleeps, no order is overheard, no place is used twice.

use super::*;
use crate::lot::{Lot, Rest};
use crate::parker::Parker;
use crate::sync::RaceCell;
use crate::sync::atomic::AtomicU32;

/// Queue and lot as a pool has them.
struct House {
    queue: Queue,
    lot: Lot,
}

impl House {
    fn new() -> Arc<House> {
        Arc::new(House { queue: Queue::with_slots(2, 2), lot: Lot::new() })
    }

    /// `Core::spawn_plain`. True if somebody was woken.
    fn submit(&self, number: u64) -> bool {
        push(&self.queue, number).unwrap();
        self.wake()
    }

    /// `Core::task_added`, without the pause for thought.
    fn wake(&self) -> bool {
        self.lot.needs_wake() && self.lot.wake_one()
    }

    /// `Core::wake_for_rest`.
    fn wake_for_rest(&self) {
        if self.queue.looks_nonempty() {
            self.lot.wake_one();
        }
    }

    /// `Worker::work` until the first task or the order to go.
    fn work(&self, called: impl Fn() -> bool) -> Option<u64> {
        loop {
            if called() {
                self.wake_for_rest();
                return None;
            }
            if let Some(found) = take(&self.queue) {
                if self.lot.needs_wake() && self.queue.looks_nonempty() {
                    self.lot.wake_one();
                }
                return Some(found);
            }
            self.lot.rest(0, false, || self.queue.looks_nonempty(), &called);
        }
    }

    /// With workers that are futures.
    fn of_futures() -> Arc<House> {
        Arc::new(House { queue: Queue::with_slots(2, 2), lot: Lot::of_futures() })
    }

    /// As `work`, by the worker `number`, which is a future that a thread polls. It looks for work
    /// so many times before it sleeps.
    fn poll_work(&self, number: u32, looks: u32, called: impl Fn() -> bool) -> Option<u64> {
        let parker = Parker::new();
        let waker = std::task::Waker::from(std::sync::Arc::clone(&parker));
        let mut rest = Rest::Awake;
        let mut left = looks;
        let mut poll_rest = |rest: &mut Rest| {
            let (workable, search) = (|| self.queue.looks_nonempty(), left > 0);
            left = left.saturating_sub(1);
            let rested = self.lot.poll_rest(rest, search, (number, &waker), workable, &called);
            match *rest {
                Rest::Searching => crate::sync::snooze(0), // it is polled again by itself
                _ if rested.is_pending() => parker.park(),
                _ => {}
            }
        };
        loop {
            while rest != Rest::Awake {
                poll_rest(&mut rest);
            }
            if called() {
                self.wake_for_rest();
                return None;
            }
            if let Some(found) = take(&self.queue) {
                if self.lot.needs_wake() && self.queue.looks_nonempty() {
                    self.lot.wake_one();
                }
                return Some(found);
            }
            poll_rest(&mut rest);
        }
    }
}

/// A worker that is a future is not missed either.
#[test]
fn a_submit_and_a_future_that_goes_to_sleep_do_not_miss_each_other() {
    explore(&["woken", "awake"], |seen| {
        let house = House::of_futures();
        let (taken, woke) = together!(
            [house] house.poll_work(1, 0, || false).unwrap(),
            [house] house.submit(1),
        );
        assert_eq!(taken, 1);
        seen.met(if woke { "woken" } else { "awake" });
        assert_eq!(house.lot.idle(), 0);
    });
}

/// Nor one that looks for work first.
#[test]
fn a_submit_and_a_future_that_searches_do_not_miss_each_other() {
    explore(&["woken", "awake"], |seen| {
        let house = House::of_futures();
        let (taken, woke) = together!(
            [house] house.poll_work(1, 1, || false).unwrap(),
            [house] house.submit(1),
        );
        assert_eq!(taken, 1);
        seen.met(if woke { "woken" } else { "awake" });
        assert_eq!(house.lot.idle(), 0);
    });
}

/// Two searches at a time, as for the participants of a map.
#[test]
fn two_that_are_woken_side_by_side_take_one_task_each() {
    explore(&["both woken", "one woken", "awake"], |seen| {
        let house = House::new();
        let (one, two, woken) = together!(
            [house] house.work(|| false).unwrap(),
            [house] house.work(|| false).unwrap(),
            [house] {
                push(&house.queue, 1).unwrap();
                push(&house.queue, 2).unwrap();
                // As `Core::tasks_added`.
                let first = house.wake();
                let second = house.queue.looks_nonempty() && house.lot.wake_another();
                usize::from(first) + usize::from(second)
            },
        );
        assert_eq!(one + two, 3);
        seen.met(["awake", "one woken", "both woken"][woken]);
        assert_eq!(house.lot.idle(), 0);
    });
}

/// Two futures, two tasks: a waker that its own worker has used is not the one that counts.
#[test]
fn two_futures_take_one_task_each() {
    explore(&["woken", "awake"], |seen| {
        let house = House::of_futures();
        let (one, two, woke) = together!(
            [house] house.poll_work(1, 0, || false).unwrap(),
            [house] house.poll_work(2, 0, || false).unwrap(),
            [house] {
                let first = house.submit(1);
                house.submit(2) || first
            },
        );
        assert_eq!(one + two, 3);
        seen.met(if woke { "woken" } else { "awake" });
        assert_eq!(house.lot.idle(), 0);
    });
}

/// An order reaches a future that is just going to sleep.
#[test]
fn a_call_and_a_future_that_goes_to_sleep_do_not_miss_each_other() {
    explore(&["called"], |seen| {
        let house = House::of_futures();
        let order = Arc::new(AtomicU32::new(0));
        let (found, ()) = together!(
            [house, order] house.poll_work(1, 0, || order.load(SeqCst) != 0),
            [house, order] {
                order.fetch_or(1, SeqCst);
                house.lot.kick_all();
            },
        );
        assert_eq!(found, None);
        seen.met("called");
        assert_eq!(house.lot.idle(), 0);
    });
}

#[test]
fn a_token_is_neither_lost_nor_kept() {
    explore(&["token first", "sleeper first"], |seen| {
        struct Yard(std::sync::Arc<Parker>, RaceCell<u32>);
        let shared = Arc::new(Yard(Parker::new(), RaceCell::new(0)));
        let left = Arc::new(AtomicUsize::new(0));
        let noted = Arc::clone(seen);
        together!(
            [shared, left] {
                noted.met(if left.load(SeqCst) == 1 { "token first" } else { "sleeper first" });
                shared.0.park();
                // SAFETY: the token says that the writer is done.
                assert_eq!(shared.1.with_mut(|value| unsafe { *value }), 7);
            },
            [shared, left] {
                // SAFETY: the reader waits for the token.
                shared.1.with_mut(|value| unsafe { *value = 7 });
                shared.0.unpark();
                left.store(1, SeqCst);
            },
        );
        shared.0.reset();
    });
}

/// Two unparks are one token or two, and each park takes one.
#[test]
fn two_unparks_wake_at_least_once() {
    explore(&["one token", "two tokens"], |seen| {
        let parker = Parker::new();
        let parked = Arc::new(AtomicUsize::new(0));
        let between = Arc::new(AtomicUsize::new(0));
        together!(
            [parker, parked] {
                parker.park();
                parked.fetch_add(1, SeqCst);
            },
            [parker, parked, between] {
                parker.unpark();
                between.store(parked.load(SeqCst), SeqCst);
                parker.unpark();
            },
        );
        seen.met(if between.load(SeqCst) == 1 { "two tokens" } else { "one token" });
    });
}

/// One worker, one producer: whatever the order, the task is taken (else loom reports a
/// deadlock).
#[test]
fn a_submit_and_a_worker_that_goes_to_sleep_do_not_miss_each_other() {
    explore(&["woken", "awake"], |seen| {
        let house = House::new();
        let (taken, woke) = together!(
            [house] house.work(|| false).unwrap(),
            [house] house.submit(1),
        );
        assert_eq!(taken, 1);
        seen.met(if woke { "woken" } else { "awake" });
        assert_eq!(house.lot.idle(), 0);
    });
}

/// As above, with a cell.
#[test]
fn a_submit_of_a_cell_wakes_as_well() {
    explore(&["woken", "awake"], |seen| {
        let house = House::new();
        let (_cell, life) = Cell::queued(false);
        let (taken, woke) = together!(
            [house] house.work(|| false).unwrap(),
            [house] {
                push_cell(&house.queue, life).unwrap();
                house.wake()
            },
        );
        assert_eq!(taken, address(life));
        seen.met(if woke { "woken" } else { "awake" });
        assert_eq!(house.lot.idle(), 0);
    });
}

/// As above, with a task that goes into the spill.
#[test]
fn a_submit_into_the_spill_wakes_as_well() {
    explore(&["woken", "awake", "by the spill"], |seen| {
        let house = Arc::new(House { queue: Queue::with_slots(4, 2), lot: Lot::new() });
        let owners = [(); 2].map(|()| {
            let (owner, life) = Cell::queued(false);
            push_cell(&house.queue, life).unwrap();
            assert!(cancel(&house.queue, life));
            owner
        });
        let (taken, woke) = together!(
            [house] house.work(|| false).unwrap(),
            [house] house.submit(1),
        );
        assert_eq!(taken, 1);
        seen.met(if woke { "woken" } else { "awake" });
        if house.queue.tickets() == 2 {
            seen.met("by the spill");
        }
        drop(owners);
    });
}

/// Two tasks that wait for each other need two workers: the first to find one wakes the next.
#[test]
fn the_finder_wakes_the_next() {
    explore(&["submitter woke one", "submitter woke nobody"], |seen| {
        let house = House::new();
        let parkers = Arc::new([Parker::new(), Parker::new()]);
        let worker = |me: usize, house: &House, parkers: &[Arc<Parker>; 2]| {
            let found = house.work(|| false).unwrap();
            parkers[1 - me].unpark();
            parkers[me].park();
            found
        };
        let (one, two, woke) = together!(
            [house, parkers] worker(0, &house, &parkers),
            [house, parkers] worker(1, &house, &parkers),
            [house] house.submit(1) | house.submit(2),
        );
        assert_eq!(one + two, 3);
        seen.met(if !woke { "submitter woke nobody" } else { "submitter woke one" });
    });
}

/// A worker at full speed wakes nobody when it takes the next task, so whoever goes to sleep
/// meanwhile must see the one behind it, even if the slot it looks at is taken under its eyes.
#[test]
fn a_look_that_is_overtaken_looks_again() {
    explore(&["the busy one was first", "the busy one rested"], |seen| {
        let house = House::new();
        let parkers = Arc::new([Parker::new(), Parker::new()]);
        let meet = |me: usize, parkers: &[Arc<Parker>; 2]| {
            parkers[1 - me].unpark();
            parkers[me].park();
        };
        let (busy, _, ()) = together!(
            [house, parkers] {
                let next = take(&house.queue);
                let found = next.or_else(|| house.work(|| false));
                meet(0, &parkers);
                (next.is_some(), found)
            },
            [house, parkers] {
                let found = house.work(|| false);
                meet(1, &parkers);
                found
            },
            [house] {
                house.submit(1);
                house.submit(2);
            },
        );
        seen.met(if busy.0 { "the busy one was first" } else { "the busy one rested" });
    });
}

/// Short mode: of two workers one may step aside without a look at the queue, and a submit
/// that wakes nobody because one is active is right about that.
#[test]
fn the_one_who_stays_active_is_enough() {
    explore(&["first aside", "second aside", "woken", "awake"], |seen| {
        let house = House::new();
        let done = Arc::new(AtomicU32::new(0));
        let worker = |house: &House, done: &AtomicU32| {
            let called = || done.load(SeqCst) != 0;
            let aside = house.lot.step_aside(2);
            if aside {
                house.lot.rest(0, true, || house.queue.looks_nonempty(), called);
            }
            let found = house.work(called);
            if found.is_some() {
                done.store(1, SeqCst);
                house.lot.kick_all();
            }
            (aside, found)
        };
        let (one, two, woke) = together!(
            [house, done] worker(&house, &done),
            [house, done] worker(&house, &done),
            [house] {
                push(&house.queue, 1).unwrap();
                house.lot.needs_wake() && house.lot.all_asleep(2) && house.lot.wake_one()
            },
        );
        assert_eq!(one.1.or(two.1), Some(1));
        assert!(!(one.0 && two.0), "nobody stayed");
        if one.0 || two.0 {
            seen.met(if one.0 { "first aside" } else { "second aside" });
        }
        seen.met(if woke { "woken" } else { "awake" });
    });
}

/// An order reaches a worker that is just going to sleep.
#[test]
fn a_call_and_a_worker_that_goes_to_sleep_do_not_miss_each_other() {
    explore(&["called"], |seen| {
        let house = House::new();
        let order = Arc::new(AtomicU32::new(0));
        let (found, ()) = together!(
            [house, order] house.work(|| order.load(SeqCst) != 0),
            [house, order] {
                order.fetch_or(1, SeqCst);
                house.lot.kick_all();
            },
        );
        assert_eq!(found, None);
        seen.met("called");
        assert_eq!(house.lot.idle(), 0);
    });
}

/// One of two workers is told to go while a task comes: the other one takes it.
#[test]
fn a_worker_that_goes_leaves_no_task_behind() {
    explore(&["taken by the one that stays", "taken by the one that goes"], |seen| {
        let house = House::new();
        let order = Arc::new(AtomicU32::new(0));
        let tell = |house: &House, order: &AtomicU32, whom| {
            order.fetch_or(whom, SeqCst);
            house.lot.kick_all();
        };
        let (goes, stays, ()) = together!(
            [house, order] {
                let found = house.work(|| order.load(SeqCst) & 1 != 0);
                if found.is_some() {
                    tell(&house, &order, 2); // nothing will come for the other one
                }
                found
            },
            [house, order] house.work(|| order.load(SeqCst) & 2 != 0),
            [house, order] {
                house.submit(1);
                tell(&house, &order, 1);
            },
        );
        match (goes, stays) {
            (Some(1), None) => seen.met("taken by the one that goes"),
            (None, Some(1)) => seen.met("taken by the one that stays"),
            other => panic!("{other:?}"),
        }
    });
}

/// R10: a helping caller and the worker whose place it holds never run at the same time.
#[test]
fn a_held_place_is_not_used_twice() {
    explore(&["held", "nobody was idle"], |seen| {
        let house = House::new();
        let running = Arc::new(AtomicUsize::new(0));
        let run = |running: &AtomicUsize| {
            assert_eq!(running.fetch_add(1, SeqCst), 0, "two at work in a pool of one");
            thread::yield_now();
            running.fetch_sub(1, SeqCst);
        };
        let (taken, held) = together!(
            [house, running] {
                let found = house.work(|| false).unwrap();
                run(&running);
                found
            },
            [house, running] {
                let held = house.lot.hold();
                house.submit(1);
                if held {
                    run(&running);
                    house.lot.release();
                    house.wake_for_rest();
                }
                held
            },
        );
        assert_eq!(taken, 1);
        seen.met(if held { "held" } else { "nobody was idle" });
    });
}
