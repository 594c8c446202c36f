//! What can be done to a pool, at random.

use std::time::Duration;

use proptest::prelude::*;
use tidegate::{Shutdown, WhenFull};

use super::CAPACITY;
use super::script::End;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// It takes so much of the budget.
    Submit(u64),
    /// With limits in the queue and of the run, in milliseconds.
    SubmitLimited(u64, u64),
    SubmitMember,
    /// A submission that waits, so many milliseconds at the most, for so much of the budget and
    /// for room, or does what the policy says; polled once.
    LineUp(Option<u64>, u64),
    /// The same by the group.
    LineUpMember,
    /// Drop the n-th submission that has no answer yet (modulo).
    Leave(usize),
    /// Cancel its token.
    CancelInLine(usize),
    /// So many milliseconds pass.
    Advance(u64),
    /// Let the running task at this position (modulo) end.
    Finish(usize, End),
    /// Cancel the n-th open task (modulo), queued or running.
    Cancel(usize),
    CancelGroup,
    /// Poll the handle of the n-th open task (modulo).
    Glance(usize),
    /// Poll it, and drop it.
    Detach(usize),
    Pause,
    Resume,
    /// Recycle an idle or running worker after its task.
    Recycle(usize),
    Stop(usize),
    Close,
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let end = prop_oneof![Just(End::Value), Just(End::Error), Just(End::Panic)];
    prop_oneof![
        6 => weight().prop_map(Step::Submit),
        2 => (1..20u64, 1..20u64).prop_map(|(queue, run)| Step::SubmitLimited(queue, run)),
        2 => Just(Step::SubmitMember),
        4 => (prop::option::of(1..20u64), weight()).prop_map(|(most, weight)| Step::LineUp(most, weight)),
        1 => Just(Step::LineUpMember),
        2 => (0..8usize).prop_map(Step::Leave),
        1 => (0..8usize).prop_map(Step::CancelInLine),
        2 => (1..15u64).prop_map(Step::Advance),
        4 => (0..8usize, end).prop_map(|(n, end)| Step::Finish(n, end)),
        3 => (0..8usize).prop_map(Step::Cancel),
        1 => Just(Step::CancelGroup),
        1 => (0..8usize).prop_map(Step::Glance),
        1 => (0..8usize).prop_map(Step::Detach),
        1 => Just(Step::Pause),
        1 => Just(Step::Resume),
        1 => (0..4usize).prop_map(Step::Recycle),
        1 => (0..4usize).prop_map(Step::Stop),
        1 => Just(Step::Close),
    ]
}

/// Most tasks take nothing of the budget; some want more than there is.
fn weight() -> impl Strategy<Value = u64> {
    prop_oneof![4 => Just(0), 2 => 1..=CAPACITY, 1 => Just(CAPACITY + 1)]
}

pub(crate) fn policy() -> impl Strategy<Value = WhenFull> {
    prop_oneof![
        4 => Just(WhenFull::Wait),
        1 => (1..20u64).prop_map(|most| WhenFull::WaitFor(Duration::from_millis(most))),
        1 => Just(WhenFull::Reject),
        1 => Just(WhenFull::DropNewest),
        1 => Just(WhenFull::DropOldest),
        2 => Just(WhenFull::CallerRuns),
    ]
}

/// A shutdown, or the drop of the pool.
pub(crate) fn ending() -> impl Strategy<Value = Option<Shutdown>> {
    prop_oneof![
        Just(Some(Shutdown::light())),
        Just(Some(Shutdown::soft())),
        Just(Some(Shutdown::hard())),
        Just(None),
    ]
}
