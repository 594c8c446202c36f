//! The ring: nothing lost, nothing doubled, in order, and no torn look.

use super::*;
use crate::ring::{Peek, Ring, Ticket};

#[test]
fn two_producers_and_a_taker_lose_and_double_nothing() {
    explore(&["first before second", "second before first"], |seen| {
        let queue = Arc::new(Queue::with_slots(2, 2));
        let ((), (), taken) = together!(
            [queue] push(&queue, 1).unwrap(),
            [queue] push(&queue, 2).unwrap(),
            [queue] take_patiently(&queue) * 10 + take_patiently(&queue),
        );
        match taken {
            12 => seen.met("first before second"),
            21 => seen.met("second before first"),
            other => panic!("taken {other}"),
        }
        assert!(queue.is_empty());
    });
}

/// Two tickets in one step, while another producer takes one.
#[test]
fn a_bulk_and_a_producer_lose_and_double_nothing() {
    explore(&["bulk first", "room for one of the bulk"], |seen| {
        let queue = Arc::new(Queue::with_slots(3, 4));
        push(&queue, 9).unwrap(); // and the limit is known
        assert_eq!(take(&queue), Some(9));
        let (bulk, (), taken) = together!(
            [queue] {
                let mut numbers = 1..;
                queue.push_many(2, || inline(numbers.next().unwrap()))
            },
            [queue] push(&queue, 3).unwrap(),
            [queue] [take(&queue), take(&queue)].into_iter().flatten().collect::<Vec<_>>(),
        );
        let mut all = [taken, super::rest(&queue)].concat();
        match all.as_slice() {
            [1, 2, 3] => seen.met("bulk first"),
            [1, 3] | [3, 1] | [3] => seen.met("room for one of the bulk"),
            other => panic!("{other:?}"),
        }
        assert_eq!(all.len(), bulk + 1, "lost or doubled");
        all.sort_unstable();
        assert!(all.is_sorted_by(|a, b| a < b));
    });
}

/// A place is free as soon as its task was taken, its slot only when it was read.
#[test]
fn a_bulk_takes_only_slots_that_are_free() {
    explore(&["took its place", "found no slot yet"], |seen| {
        let queue = Arc::new(Queue::with_slots(2, 2));
        push(&queue, 1).unwrap();
        push(&queue, 2).unwrap();
        let (bulk, taken) = together!(
            [queue] {
                push_patiently(&queue, 3);
                queue.push_many(1, || inline(4))
            },
            [queue] [take_patiently(&queue), take_patiently(&queue)],
        );
        assert_eq!(taken, [1, 2]);
        match bulk {
            0 => seen.met("found no slot yet"),
            _ => seen.met("took its place"),
        }
        assert_eq!(super::rest(&queue), [3, 4][..1 + bulk], "lost or doubled");
    });
}

#[test]
fn two_takers_share_what_one_producer_brings() {
    explore(&["one each", "both by one", "found nothing yet"], |seen| {
        let queue = Arc::new(Queue::with_slots(2, 2));
        let (_, one, two) = together!(
            [queue] {
                push(&queue, 1).unwrap();
                push(&queue, 2).unwrap();
            },
            [queue] [take(&queue), take(&queue)].into_iter().flatten().collect::<Vec<_>>(),
            [queue] take(&queue).into_iter().collect::<Vec<_>>(),
        );
        match (one.len(), two.len()) {
            (1, 1) => seen.met("one each"),
            (2, 0) => seen.met("both by one"),
            _ => seen.met("found nothing yet"),
        }
        // Each taker sees the order of tickets.
        assert!(one.is_sorted(), "{one:?}");
        let mut all = [one, two, super::rest(&queue)].concat();
        all.sort_unstable();
        assert_eq!(all, [1, 2], "lost or doubled");
    });
}

/// Three tasks through two slots, across ticket 2³² (hazard 54): the second lap must wait
/// for the slot, and the order holds.
#[test]
fn a_slot_is_reused_only_when_it_is_free() {
    explore(&["met a full queue", "never full"], |seen| {
        let queue = Arc::new(Queue::with_slots_from(2, 2, (1 << 32) - 2));
        let (waited, order) = together!(
            [queue] {
                push(&queue, 1).unwrap();
                push(&queue, 2).unwrap();
                match push(&queue, 3) {
                    Ok(()) => false,
                    Err(why) => {
                        assert_eq!(why, NoRoom::Full);
                        push_patiently(&queue, 3);
                        true
                    }
                }
            },
            [queue] (0..3).fold(0, |order, _| order * 10 + take_patiently(&queue)),
        );
        assert_eq!(order, 123, "not in order of tickets");
        seen.met(if waited { "met a full queue" } else { "never full" });
        assert_eq!(queue.accepted(), (1 << 32) + 1);
    });
}

#[test]
fn the_last_place_goes_to_one_of_two_producers() {
    explore(&["first", "second"], |seen| {
        let queue = Arc::new(Queue::with_slots(2, 4));
        push(&queue, 9).unwrap();
        let (first, second) = together!(
            [queue] push(&queue, 1),
            [queue] push(&queue, 2),
        );
        match (first, second) {
            (Ok(()), Err(NoRoom::Full)) => seen.met("first"),
            (Err(NoRoom::Full), Ok(())) => seen.met("second"),
            both => panic!("one place, {both:?}"),
        }
        assert_eq!(super::rest(&queue).len(), 2);
        assert_eq!(room(&queue), 2);
    });
}

/// A peeker that was overtaken by a whole lap sees the old cell or that it is late, never
/// a mixture of two lives of the slot.
#[test]
fn a_late_peek_is_noticed() {
    explore(&["in time", "late"], |seen| {
        let ring = Arc::new(Ring::new(2));
        let (_one, a) = Cell::queued(false);
        let (_two, b) = Cell::queued(false);
        let b2 = CellRef::from_parts(b.address(), 77);
        for cell in [a, a] {
            let Ticket::Granted(t) = ring.take_ticket(2) else { panic!("room for two") };
            ring.publish_cell(t, cell);
        }
        let (late, _) = together!(
            [ring] match ring.peek(0) {
                Peek::Cell(found) => {
                    assert_eq!(found, a, "torn");
                    false
                }
                Peek::Late => true,
                Peek::Nothing | Peek::Inline => panic!("ticket 0 was published as a cell"),
            },
            [ring] {
                assert!(ring.advance(0));
                ring.free(0);
                assert_eq!(ring.take_ticket(3), Ticket::Granted(2));
                ring.publish_cell(2, b2);
            },
        );
        seen.met(if late { "late" } else { "in time" });
    });
}
