//! The spill: order, bound and closing while the ring is full of dead slots.

use super::*;

/// A queue whose two slots are dead: places are free, slots are not.
fn full_of_dead(bound: usize) -> (Arc<Queue>, [Cell; 2]) {
    let queue = Arc::new(Queue::with_slots(bound, 2));
    let owners = [(); 2].map(|()| {
        let (owner, life) = Cell::queued(false);
        push_cell(&queue, life).unwrap();
        assert!(cancel(&queue, life));
        owner
    });
    (queue, owners)
}

#[test]
fn the_spill_keeps_order_and_loses_nothing() {
    explore(&["by the spill", "by the ring"], |seen| {
        let (queue, _owners) = full_of_dead(2);
        let (_, order) = together!(
            [queue] {
                // A skip under way holds a place back for a moment.
                push_patiently(&queue, 1);
                push_patiently(&queue, 2);
            },
            [queue] take_patiently(&queue) * 10 + take_patiently(&queue),
        );
        assert_eq!(order, 12, "out of order");
        seen.met(if queue.tickets() == 2 { "by the spill" } else { "by the ring" });
        assert_eq!(queue.accepted(), 4);
        assert!(queue.is_empty());
        assert_eq!(room(&queue), 2, "the credit is wrong");
    });
}

#[test]
fn two_takers_empty_the_spill_once() {
    explore(&["one each", "both by one"], |seen| {
        let queue = Arc::new(Queue::with_slots(4, 2));
        (1..=4).for_each(|n| push(&queue, n).unwrap());
        assert_eq!((take(&queue), take(&queue)), (Some(1), Some(2)));
        let (one, two) = together!(
            [queue] [take(&queue), take(&queue)].into_iter().flatten().collect::<Vec<_>>(),
            [queue] take(&queue).into_iter().collect::<Vec<_>>(),
        );
        assert!(one.is_sorted());
        seen.met(if two.is_empty() { "both by one" } else { "one each" });
        let mut all = [one, two].concat();
        all.sort_unstable();
        assert_eq!(all, [3, 4], "lost or doubled");
        assert!(queue.is_empty());
        assert_eq!(room(&queue), 4);
    });
}

/// A taker that meant to take from the spill and was held up finds another one: it must not
/// overtake what lies in the ring by now.
#[test]
fn a_late_taker_does_not_overtake_the_ring() {
    explore(&["found the old task", "found a new one"], |seen| {
        let queue = Arc::new(Queue::with_slots(4, 2));
        (1..=3).for_each(|n| push(&queue, n).unwrap());
        assert_eq!((take(&queue), take(&queue)), (Some(1), Some(2)));
        let (late, other) = together!(
            [queue] take(&queue),
            [queue] {
                let taken = take(&queue);
                (4..=6).for_each(|n| push(&queue, n).unwrap());
                taken
            },
        );
        assert_eq!([late, other].iter().filter(|n| **n == Some(3)).count(), 1);
        match late {
            Some(3) => seen.met("found the old task"),
            Some(new) => {
                seen.met("found a new one");
                assert_eq!(new, 4, "overtook older tasks");
            }
            None => {}
        }
        assert!(super::rest(&queue).is_sorted());
    });
}

/// A limit that a producer computes while tasks die in the spill must not outlive the spill.
#[test]
fn dead_tasks_of_the_spill_make_no_lasting_room() {
    explore(&["both let in", "one refused"], |seen| {
        let (queue, _owners) = full_of_dead(1);
        let (_cell, life) = Cell::queued(false);
        let (plain, spilled) = together!(
            [queue] push(&queue, 1).is_ok(),
            [queue] push_cell(&queue, life).is_ok() && cancel(&queue, life),
        );
        assert!(plain || spilled);
        seen.met(if plain && spilled { "both let in" } else { "one refused" });
        super::rest(&queue);
        assert!(queue.is_empty());
        assert_eq!(room(&queue), 1, "a place too many");
    });
}

#[test]
fn close_and_a_push_into_the_spill() {
    explore(&["accepted", "refused"], |seen| {
        let queue = Arc::new(Queue::with_slots(4, 2));
        push(&queue, 1).unwrap();
        push(&queue, 2).unwrap();
        let (accepted, found) = together!(
            [queue] usize::from(push(&queue, 3).is_ok()),
            [queue] {
                queue.close();
                let mut found = 0;
                while !queue.is_drained() {
                    match take(&queue) {
                        Some(_) => found += 1,
                        None => thread::yield_now(),
                    }
                }
                found
            },
        );
        assert_eq!(found, 2 + accepted, "lost, or accepted after drained was seen");
        seen.met(if accepted == 1 { "accepted" } else { "refused" });
        assert_eq!(push(&queue, 4), Err(NoRoom::Closed));
    });
}
