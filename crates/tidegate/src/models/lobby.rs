//! The lobby: a waiter for room hears of it, in its turn, without counting on naps (the
//! clock of these models stands still).

use std::task::Waker;

use super::*;
use crate::clock::{Clock, Ticks};
use crate::lobby::{Lobby, Waited};
use crate::parker::Parker;

struct Hall {
    queue: Queue,
    lobby: Lobby,
}

impl Hall {
    /// One place, and it is taken by task 9.
    fn full() -> Arc<Hall> {
        let hall = Arc::new(Hall { queue: Queue::with_slots(1, 4), lobby: Lobby::new() });
        push(&hall.queue, 9).unwrap();
        hall
    }

    fn wait_for_room(&self, number: u64) -> Waited {
        self.wait_minding(number, || ())
    }

    /// As `wait_for_room`; calls `joined` in line.
    fn wait_minding(&self, number: u64, joined: impl FnOnce()) -> Waited {
        let (clock, _hand) = Clock::manual();
        let parker = Parker::new();
        self.lobby.wait(
            &self.queue,
            (&clock, Ticks::NEVER),
            &parker,
            || false,
            joined,
            |standing| self.queue.push_inline(inline(number), standing).map_err(|(why, _)| why),
        )
    }

    fn take(&self) -> u64 {
        let found = take_patiently(&self.queue);
        self.lobby.room_made(&self.queue);
        found
    }
}

/// A future that stands in line, and its waker; whoever is told finds a token there.
struct InLine {
    place: u64,
    told: Arc<Parker>,
}

impl InLine {
    fn join(hall: &Hall) -> InLine {
        let told = Parker::new();
        let place = hall.lobby.join_future(&Waker::from(Arc::clone(&told)));
        InLine { place, told }
    }

    /// Polled to its end, as `awaited.rs` does it.
    fn wait(&self, hall: &Hall, number: u64) {
        while !hall.lobby.take_turn(self.place)
            || hall.queue.push_inline(inline(number), Standing::FirstInLine).is_err()
        {
            self.told.park();
        }
        hall.lobby.leave(self.place, &hall.queue);
    }

    /// Whether it was told before it left.
    fn is_dropped(&self, hall: &Hall) -> bool {
        let (clock, _hand) = Clock::manual();
        let told = self.told.park_until(&clock, clock.now());
        hall.lobby.leave(self.place, &hall.queue);
        told
    }
}

#[test]
fn a_waiter_hears_of_room() {
    explore(&["admitted"], |seen| {
        let hall = Hall::full();
        let (waited, _) = together!(
            [hall] hall.wait_for_room(1),
            [hall] hall.take(),
        );
        assert_eq!(waited, Waited::Admitted);
        seen.met("admitted");
        assert_eq!(super::rest(&hall.queue), [1]);
        assert_eq!(hall.lobby.waiting(), 0);
    });
}

#[test]
fn a_waiter_hears_of_a_cancelled_task() {
    explore(&["admitted"], |seen| {
        let hall = Arc::new(Hall { queue: Queue::with_slots(1, 4), lobby: Lobby::new() });
        let (_cell, life) = Cell::queued(false);
        push_cell(&hall.queue, life).unwrap();
        let (waited, _) = together!(
            [hall] hall.wait_for_room(1),
            [hall] {
                assert!(cancel(&hall.queue, life));
                hall.lobby.wake_first(&hall.queue);
            },
        );
        assert_eq!(waited, Waited::Admitted);
        seen.met("admitted");
    });
}

#[test]
fn two_waiters_pass_the_turn_on() {
    explore(&["first before second", "second before first"], |seen| {
        let hall = Hall::full();
        let ((), (), order) = together!(
            [hall] assert_eq!(hall.wait_for_room(1), Waited::Admitted),
            [hall] assert_eq!(hall.wait_for_room(2), Waited::Admitted),
            [hall] { assert_eq!(hall.take(), 9); hall.take() },
        );
        seen.met(if order == 1 { "first before second" } else { "second before first" });
        assert_eq!(super::rest(&hall.queue), [3 - order]);
    });
}

#[test]
fn a_waiter_hears_of_the_closing() {
    explore(&["closed"], |seen| {
        let hall = Hall::full();
        let (waited, _) = together!(
            [hall] hall.wait_for_room(1),
            [hall] {
                hall.queue.close();
                hall.lobby.wake_all();
            },
        );
        assert_eq!(waited, Waited::Closed);
        seen.met("closed");
    });
}

#[test]
fn a_future_takes_its_turn_and_passes_it_on_to_a_thread() {
    explore(&["the thread came before there was room", "and after"], |seen| {
        let hall = Hall::full();
        let future = InLine::join(&hall);
        let ((), came_late, (nine, first)) = together!(
            [hall] future.wait(&hall, 1),
            [hall] {
                let late = hall.queue.room() > 0;
                assert_eq!(hall.wait_for_room(2), Waited::Admitted);
                late
            },
            [hall] (hall.take(), hall.take()),
        );
        assert_eq!((nine, first), (9, 1), "the thread went by the future");
        seen.met(if came_late { "and after" } else { "the thread came before there was room" });
        assert_eq!(super::rest(&hall.queue), [2]);
        assert_eq!(hall.lobby.waiting(), 0);
    });
}

#[test]
fn a_future_that_is_dropped_when_it_was_told_passes_the_turn_on() {
    explore(&["it was told", "it was not told"], |seen| {
        let hall = Hall::full();
        let future = InLine::join(&hall);
        let (told, waited, _) = together!(
            [hall] future.is_dropped(&hall),
            [hall] hall.wait_for_room(2),
            [hall] hall.take(),
        );
        assert_eq!(waited, Waited::Admitted);
        seen.met(if told { "it was told" } else { "it was not told" });
        assert_eq!(super::rest(&hall.queue), [2]);
        assert_eq!(hall.lobby.waiting(), 0);
    });
}

/// Hazard 79. In place of the supervisor, who is asked to mind the turn does so at once.
#[test]
fn a_future_that_is_told_and_not_polled_holds_up_nobody() {
    const OUTCOMES: &[&str] = &["who made room minds it", "who joined minds it"];
    explore(OUTCOMES, |seen| {
        let hall = Hall::full();
        let future = InLine::join(&hall);
        let (waited, ()) = together!(
            [hall, seen] hall.wait_minding(2, || {
                if hall.lobby.may_be_held_up(&hall.queue) {
                    seen.met("who joined minds it");
                    hall.lobby.pass_on(&hall.queue);
                }
            }),
            [hall, seen] {
                assert_eq!(take_patiently(&hall.queue), 9);
                if hall.lobby.room_made(&hall.queue) {
                    seen.met("who made room minds it");
                    hall.lobby.pass_on(&hall.queue);
                }
            },
        );
        assert_eq!(waited, Waited::Admitted);
        assert_eq!(super::rest(&hall.queue), [2]);
        assert!(future.is_dropped(&hall), "the first in line was not told");
        assert_eq!(hall.lobby.waiting(), 0);
    });
}
