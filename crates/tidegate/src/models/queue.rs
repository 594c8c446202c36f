//! The exact bound: places, credit, claims.

use std::sync::atomic::AtomicI64;

use super::*;
use crate::outcome::Cause;

/// Counts what is accepted and not yet claimed. A task is counted only when its push has
/// returned; a violation at the ticket shows all the same, in the execution where the
/// producer goes on at once.
#[derive(Default)]
struct Inside(AtomicI64);

impl Inside {
    fn pushed(&self, bound: i64) {
        let waiting = self.0.fetch_add(1, SeqCst) + 1;
        assert!(waiting <= bound, "{waiting} tasks wait in {bound} places");
    }

    fn start(&self, cell: CellRef) -> bool {
        cell.claim_start() && self.claimed()
    }

    fn cancel(&self, queue: &Queue, cell: CellRef) -> bool {
        let won = cell.claim_queued(Cause::Handle).is_some() && self.claimed();
        if won {
            queue.give_credit();
        }
        won
    }

    fn claimed(&self) -> bool {
        self.0.fetch_sub(1, SeqCst);
        true
    }
}

#[test]
fn start_and_cancel_of_a_queued_task_exclude_each_other() {
    explore(&["started", "cancelled"], |seen| {
        let queue = Arc::new(Queue::with_slots(1, 2));
        let (_cell, life) = Cell::queued(false);
        push_cell(&queue, life).unwrap();
        let (started, cancelled) = together!(
            [queue] take(&queue).is_some(),
            [queue] cancel(&queue, life),
        );
        assert!(started ^ cancelled, "started {started}, cancelled {cancelled}");
        seen.met(if started { "started" } else { "cancelled" });
        // Its place is free whoever won, and only its place.
        assert_eq!(room(&queue), 1, "the credit is wrong");
        assert_eq!(super::rest(&queue).len(), 1);
        assert_eq!(room(&queue), 1, "the credit is wrong after a lap");
    });
}

/// Two takers and a canceller meet at one cell: whoever skips, the sum stays right.
#[test]
fn a_claim_and_two_skips_leave_the_credit_right() {
    explore(&["started", "cancelled", "one skipped the other's claim"], |seen| {
        let queue = Arc::new(Queue::with_slots(2, 2));
        let (_cell, life) = Cell::queued(false);
        push_cell(&queue, life).unwrap();
        push(&queue, 1).unwrap();
        let (one, two, cancelled) = together!(
            [queue] take(&queue),
            [queue] take(&queue),
            [queue] cancel(&queue, life),
        );
        let took = |what| [one, two].contains(&Some(what));
        assert!(took(1), "two looks must find the second task");
        assert!(took(address(life)) ^ cancelled);
        if cancelled {
            seen.met("cancelled");
        } else {
            seen.met("started");
            // The one that got task 1 can only have come past the claimed cell.
            seen.met("one skipped the other's claim");
        }
        assert_eq!(room(&queue), 2, "the credit is wrong");
    });
}

/// R10: a helper and a worker meet at the head, while the place is waited for.
#[test]
fn a_helper_takes_its_own_task_or_none() {
    explore(&["helper", "worker", "let in", "refused"], |seen| {
        let queue = Arc::new(Queue::with_slots(1, 2));
        let inside = Arc::new(Inside::default());
        let (_one, own) = Cell::queued(false);
        let (_two, other) = Cell::queued(false);
        push_cell(&queue, own).unwrap();
        inside.pushed(1);
        let (helped, taken, pushed) = together!(
            [queue, inside] queue.take_first(own, |cell| inside.start(cell)),
            [queue, inside] queue.take(false, |cell| inside.start(cell)).map(name),
            [queue, inside] {
                let pushed = push_cell(&queue, other).is_ok();
                if pushed { inside.pushed(1) }
                pushed
            },
        );
        assert!(helped ^ (taken == Some(address(own))), "helped {helped}, taken {taken:?}");
        seen.met(if helped { "helper" } else { "worker" });
        seen.met(if pushed { "let in" } else { "refused" });
        super::rest(&queue);
        assert_eq!(room(&queue), 1, "the credit is wrong");
    });
}

/// R6 with one place: submit × cancel × take.
#[test]
fn one_place_never_holds_two() {
    explore(&["let in", "refused", "started", "cancelled"], |seen| {
        let queue = Arc::new(Queue::with_slots(1, 4));
        let inside = Arc::new(Inside::default());
        let (_one, a) = Cell::queued(false);
        let (_two, b) = Cell::queued(false);
        push_cell(&queue, a).unwrap();
        inside.pushed(1);
        let (pushed, started, cancelled) = together!(
            [queue, inside] {
                let pushed = push_cell(&queue, b).is_ok();
                if pushed { inside.pushed(1) }
                pushed
            },
            [queue, inside] queue.take(false, |cell| inside.start(cell)).is_some(),
            [queue, inside] inside.cancel(&queue, a),
        );
        seen.met(if pushed { "let in" } else { "refused" });
        seen.met(if cancelled { "cancelled" } else { "started" });
        assert!(started || cancelled);
        super::rest(&queue);
        assert_eq!(room(&queue), 1, "the credit is wrong");
    });
}

/// R6 while a taker steps over a dead slot: the credit of the dead one must be gone before
/// `head` moves.
#[test]
fn a_skip_makes_no_room() {
    explore(&["let in", "refused"], |seen| {
        let queue = Arc::new(Queue::with_slots(1, 4));
        let inside = Arc::new(Inside::default());
        let (_one, dead) = Cell::queued(false);
        let (_two, live) = Cell::queued(false);
        push_cell(&queue, dead).unwrap();
        assert!(cancel(&queue, dead));
        push_cell(&queue, live).unwrap();
        inside.pushed(1);
        let (pushed, started) = together!(
            [queue, inside] {
                let pushed = push(&queue, 1).is_ok();
                if pushed { inside.pushed(1) }
                pushed
            },
            [queue, inside] queue.take(false, |cell| inside.start(cell)).is_some(),
        );
        assert!(started);
        seen.met(if pushed { "let in" } else { "refused" });
        super::rest(&queue);
        assert_eq!(room(&queue), 1, "the credit is wrong");
    });
}

/// The same step must not refuse anybody either: the place of the dead one is free.
#[test]
fn a_skip_refuses_nobody() {
    explore(&["skipped first", "pushed first"], |seen| {
        let queue = Arc::new(Queue::with_slots(1, 4));
        let (_cell, dead) = Cell::queued(false);
        push_cell(&queue, dead).unwrap();
        assert!(cancel(&queue, dead));
        let (pushed, taken) = together!(
            [queue] push(&queue, 1),
            [queue] take(&queue),
        );
        assert_eq!(pushed, Ok(()), "refused although nothing waits");
        seen.met(if taken.is_some() { "pushed first" } else { "skipped first" });
        super::rest(&queue);
        assert_eq!(room(&queue), 1, "the credit is wrong");
    });
}

/// Nor does a worker that takes its task refuse the one that another worker waits for.
#[test]
fn a_hand_over_refuses_nobody() {
    explore(&["both"], |seen| {
        let queue = Arc::new(Queue::with_slots(0, 4));
        queue.give_credit();
        queue.give_credit();
        push(&queue, 1).unwrap();
        let (pushed, taken) = together!(
            [queue] push(&queue, 2),
            [queue] queue.take(true, CellRef::claim_start).map(name),
        );
        assert_eq!(pushed, Ok(()), "refused although a worker waits");
        assert_eq!(taken, Some(1));
        seen.met("both");
    });
}

/// A place that a cancel gave back can be taken at once, by one (hazard 51).
#[test]
fn a_cancelled_task_frees_its_place_for_one() {
    explore(&["first", "second", "too early for both"], |seen| {
        let queue = Arc::new(Queue::with_slots(1, 4));
        let (_cell, life) = Cell::queued(false);
        push_cell(&queue, life).unwrap();
        let (cancelled, first, second) = together!(
            [queue] cancel(&queue, life),
            [queue] push(&queue, 1).is_ok(),
            [queue] push(&queue, 2).is_ok(),
        );
        assert!(cancelled);
        assert!(!(first && second), "one place was given twice");
        seen.met(match (first, second) {
            (true, _) => "first",
            (_, true) => "second",
            _ => "too early for both",
        });
        assert_eq!(room(&queue), usize::from(!first && !second));
    });
}

/// Closing: what was accepted is found before "drained" is seen, and nothing comes after.
#[test]
fn nothing_is_accepted_after_drained_was_seen() {
    explore(&["accepted", "refused", "closed between ticket and publication"], |seen| {
        let queue = Arc::new(Queue::with_slots(2, 2));
        let noted = Arc::clone(seen);
        let (accepted, found) = together!(
            [queue] match push(&queue, 1) {
                Ok(()) => 1,
                Err(why) => {
                    assert_eq!(why, NoRoom::Closed);
                    0
                }
            },
            [queue] {
                assert!(queue.close());
                drain(&queue, || noted.met("closed between ticket and publication"))
            },
        );
        assert_eq!(found, accepted, "lost, or accepted after drained was seen");
        seen.met(if accepted == 1 { "accepted" } else { "refused" });
        assert!(queue.is_drained() && !queue.close());
        assert_eq!(push(&queue, 2), Err(NoRoom::Closed));
    });
}

/// `Core::drain_queue`.
fn drain(queue: &Queue, publishing: impl Fn()) -> usize {
    let mut found = 0;
    while !queue.is_drained() {
        match take(queue) {
            Some(_) => found += 1,
            None => {
                publishing();
                thread::yield_now();
            }
        }
    }
    found
}

/// Dropping a pool while others push (RUSTSEC-2025-0024): each closure is dropped once, by
/// the pool if it was accepted and by the producer if not.
#[test]
fn drop_and_push_drop_each_closure_once() {
    struct Counted(Arc<[AtomicUsize; 2]>, usize);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0[self.1].fetch_add(1, SeqCst);
        }
    }
    explore(&["all accepted", "all refused", "one accepted"], |seen| {
        let queue = Arc::new(Queue::with_slots(2, 2));
        let drops = Arc::new([0.into(), 0.into()]);
        let producer = |number: usize, queue: &Queue, drops: &Arc<_>| {
            let counted = Counted(Arc::clone(drops), number);
            let job = InlineJob::new(move || drop(counted));
            match queue.push_inline(job, Standing::Newcomer) {
                Ok(()) => 1,
                Err((_, job)) => {
                    drop_job(job);
                    0
                }
            }
        };
        let (one, two, dropped) = together!(
            [queue, drops] producer(0, &queue, &drops),
            [queue, drops] producer(1, &queue, &drops),
            [queue] {
                queue.close();
                let mut dropped = 0;
                while !queue.is_drained() {
                    match queue.take(false, CellRef::claim_start) {
                        Some(Item::Inline(job)) => {
                            drop_job(job);
                            dropped += 1;
                        }
                        Some(Item::Cell(_)) => panic!("no cell was pushed"),
                        None => thread::yield_now(),
                    }
                }
                dropped
            },
        );
        assert_eq!(one + two, dropped);
        seen.met(["all refused", "one accepted", "all accepted"][dropped]);
        for count in drops.iter() {
            assert_eq!(count.load(SeqCst), 1, "dropped twice, or never");
        }
    });
}

/// `queue(0)`: a ticket is granted only against a worker that waits, and the worker takes
/// its credit back with the task.
#[test]
fn a_queue_of_none_hands_over() {
    explore(&["first", "second", "too early for both"], |seen| {
        let queue = Arc::new(Queue::with_slots(0, 2));
        let (_, first, second) = together!(
            [queue] {
                queue.give_credit();
                queue.take(true, CellRef::claim_start).is_some()
            },
            [queue] push(&queue, 1).is_ok(),
            [queue] push(&queue, 2).is_ok(),
        );
        assert!(!(first && second), "one worker, two tasks");
        seen.met(match (first, second) {
            (true, _) => "first",
            (_, true) => "second",
            _ => "too early for both",
        });
        if queue.head() == queue.tickets() && (first || second) {
            // Handed over: nobody waits any more.
            assert_eq!(room(&queue), 0, "the worker's credit outlived its task");
        }
    });
}

/// `queue(0)` with a cell: claim, skip and credit of the waiting worker in one.
#[test]
fn a_queue_of_none_counts_a_cancelled_task_right() {
    explore(&["started", "cancelled"], |seen| {
        let queue = Arc::new(Queue::with_slots(0, 4));
        let (_cell, life) = Cell::queued(false);
        queue.give_credit();
        queue.give_credit();
        push_cell(&queue, life).unwrap();
        let (one, two, cancelled) = together!(
            [queue] queue.take(true, CellRef::claim_start).is_some(),
            [queue] queue.take(true, CellRef::claim_start).is_some(),
            [queue] cancel(&queue, life),
        );
        assert_eq!(u8::from(one) + u8::from(two) + u8::from(cancelled), 1);
        seen.met(if cancelled { "cancelled" } else { "started" });
        // Every worker that got nothing still waits.
        assert_eq!(room(&queue), if cancelled { 2 } else { 1 });
    });
}
