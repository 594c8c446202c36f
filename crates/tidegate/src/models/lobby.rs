//! The lobby: a waiter for room hears of it, in its turn, without counting on naps (the
//! clock of these models stands still).

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
        let (clock, _hand) = Clock::manual();
        let parker = Parker::new();
        self.lobby.wait(
            &self.queue,
            (&clock, Ticks::NEVER),
            &parker,
            || false,
            || (),
            |standing| self.queue.push_inline(inline(number), standing).map_err(|(why, _)| why),
        )
    }

    fn take(&self) -> u64 {
        let found = take_patiently(&self.queue);
        self.lobby.room_made(&self.queue);
        found
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
