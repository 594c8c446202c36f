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
        let place = hall.lobby.join_future(Arc::new(Waker::from(Arc::clone(&told))));
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

/// When the supervisor looks, and a time after that.
const TURN: [Ticks; 2] = [Ticks(1); 2];
const LATER: [Ticks; 2] = [Ticks(2); 2];

impl Hall {
    /// Two places, where room is told in batches, and both taken.
    fn full_of_two() -> Arc<Hall> {
        let hall = Arc::new(Hall { queue: Queue::with_slots(2, 4), lobby: Lobby::new() });
        push(&hall.queue, 9).unwrap();
        push(&hall.queue, 8).unwrap();
        hall
    }

    /// As a worker does it.
    fn take_minding(&self) -> u64 {
        let found = take_patiently(&self.queue);
        if self.lobby.room_made(&self.queue) {
            self.lobby.mind_the_turn(TURN);
        }
        found
    }

    /// `Core::watch_turns` and what the reaper does then. True: somebody was to be told.
    fn look(&self) -> bool {
        let is_due = self.lobby.turn_is_due(LATER, &self.queue) == Ok(true);
        if is_due && self.lobby.pass_on(&self.queue) {
            self.lobby.mind_the_turn(TURN);
        }
        is_due
    }

    /// There is room: the future was told of it, or is once the supervisor looks.
    fn tells(&self, future: &InLine) -> bool {
        let (clock, _hand) = Clock::manual();
        let is_told = || future.told.park_until(&clock, clock.now());
        is_told() || self.look() && is_told()
    }
}

/// Hysteresis keeps room from a future, a newcomer takes it, and there is some again. The supervisor
/// looks in the midst of it, and who was told then may come too late.
#[test]
fn a_future_that_was_not_told_of_room_will_be() {
    explore(&["in time", "too late", "not told"], |seen| {
        let hall = Hall::full_of_two();
        let future = InLine::join(&hall);
        let (((told, came), future), ()) = together!(
            [hall] {
                hall.look();
                let (clock, _hand) = Clock::manual();
                let told = future.told.park_until(&clock, clock.now());
                let came = told
                    && hall.lobby.take_turn(future.place)
                    && hall.queue.push_inline(inline(1), Standing::FirstInLine).is_ok();
                ((told, came), future)
            },
            [hall] {
                hall.take_minding();
                let _ = push(&hall.queue, 7);
                hall.take_minding();
            },
        );
        seen.met(match (told, came) {
            (true, true) => "in time",
            (true, false) => "too late",
            _ => "not told",
        });
        assert!(came || hall.tells(&future), "nobody tells it");
        future.is_dropped(&hall);
    });
}

#[test]
fn a_future_that_joins_finds_the_room_that_nobody_tells_or_is_told() {
    explore(&["found", "told"], |seen| {
        let hall = Hall::full_of_two();
        let ((future, found), _) = together!(
            [hall] {
                let future = InLine::join(&hall);
                let found = hall.lobby.take_turn(future.place)
                    && hall.queue.push_inline(inline(1), Standing::FirstInLine).is_ok();
                (future, found)
            },
            [hall] hall.take_minding(),
        );
        seen.met(if found { "found" } else { "told" });
        assert!(found || hall.tells(&future), "nobody tells it");
        future.is_dropped(&hall);
    });
}
