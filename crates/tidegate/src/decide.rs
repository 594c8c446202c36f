//! Decisions, as pure functions of counts, configuration and `now`.
//!
//! Nothing here locks, waits, reads a clock or starts a thread. The drivers call
//! these and perform what was decided.

use std::time::Duration;

use crate::cell::Kind;
use crate::clock::Ticks;
use crate::config::{Inside, WhenFull};
#[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
use crate::outcome::Cause;
use crate::refused::Reason;
use crate::report::{Mode, Shutdown};

// ---------------------------------------------------------------- admission

/// What a submit does that found no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnFull {
    Refuse(Reason),
    /// At most this long.
    Wait(Duration),
    EvictNew,
    EvictOldest,
    RunHere,
}

/// R4, R5, R8. `depth`: how many tasks of this pool are on the caller's stack.
pub(crate) fn on_full(
    policy: WhenFull,
    inside: Inside,
    may_wait: bool,
    depth: usize,
    max_depth: usize,
) -> OnFull {
    if !may_wait {
        return OnFull::Refuse(Reason::Full);
    }
    let run_here =
        if depth < max_depth { OnFull::RunHere } else { OnFull::Refuse(Reason::WouldDeadlock) };
    match (policy, depth) {
        (WhenFull::Reject, _) => OnFull::Refuse(Reason::Full),
        (WhenFull::DropNewest, _) => OnFull::EvictNew,
        (WhenFull::DropOldest, _) => OnFull::EvictOldest,
        (WhenFull::CallerRuns, _) => run_here,
        (WhenFull::Wait, 0) => OnFull::Wait(Duration::MAX),
        (WhenFull::WaitFor(d), 0) => OnFull::Wait(d),
        (WhenFull::Wait | WhenFull::WaitFor(_), _) => match inside {
            Inside::Refuse => OnFull::Refuse(Reason::WouldDeadlock),
            Inside::RunInline => run_here,
        },
    }
}

/// B1: what a submit does that found too little in a budget. Nothing is pushed out, and
/// nobody runs it: only a wait can make room.
pub(crate) fn on_over_budget(policy: WhenFull, may_wait: bool, depth: usize) -> OnFull {
    match (policy, depth) {
        (WhenFull::Wait | WhenFull::WaitFor(_), 1..) if may_wait => {
            OnFull::Refuse(Reason::WouldDeadlock)
        }
        (WhenFull::Wait, 0) if may_wait => OnFull::Wait(Duration::MAX),
        (WhenFull::WaitFor(d), 0) if may_wait => OnFull::Wait(d),
        _ => OnFull::Refuse(Reason::OverBudget),
    }
}

// ---------------------------------------------------------------- outcomes

/// What a closure's return looked like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Returned {
    Value,
    Error,
    Panic,
}

/// O3: a timeout is strict, a cancel is a request.
pub(crate) fn outcome(returned: Returned, past_limit: bool, told_to_stop: bool) -> Kind {
    match (returned, past_limit, told_to_stop) {
        (Returned::Panic, _, _) => Kind::Panicked,
        (_, true, _) => Kind::TimedOutRunning,
        (Returned::Error, _, true) => Kind::CancelledWithError,
        (Returned::Error, _, false) => Kind::Failed,
        (Returned::Value, _, _) => Kind::Completed,
    }
}

/// O3 for a future that was dropped because it was told to stop.
#[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
pub(crate) fn interrupted(cause: Cause, past_limit: bool) -> Kind {
    match cause {
        Cause::Timeout => Kind::TimedOutRunning,
        _ if past_limit => Kind::TimedOutRunning,
        _ => Kind::Cancelled,
    }
}

// ---------------------------------------------------------------- shutdown

/// A shutdown under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Closing {
    /// The strongest mode asked for or reached.
    pub(crate) mode: Mode,
    pub(crate) began: Ticks,
    /// When it turns Hard by itself.
    pub(crate) hard_at: Ticks,
    /// When it turned Hard.
    pub(crate) hard_since: Option<Ticks>,
    /// A limit passed before everything was done.
    pub(crate) late: bool,
    /// The shortest grace asked for; the pool's own may be shorter still.
    pub(crate) grace: Duration,
}

impl Closing {
    /// When whoever has not returned is given up, in a pool with this grace.
    pub(crate) fn grace_ends(&self, pools: Duration) -> Ticks {
        self.hard_since.map_or(Ticks::NEVER, |since| since.after(pools.min(self.grace)))
    }
}

/// What a request changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) closing: Closing,
    pub(crate) cancel_queued: bool,
    pub(crate) tell_running: bool,
}

/// S2: a stronger mode or an earlier limit escalates; a weaker one changes nothing.
pub(crate) fn escalate(current: Option<Closing>, how: Shutdown, now: Ticks) -> Step {
    let asked_limit = how.limit().map_or(Ticks::NEVER, |d| now.after(d));
    let before = current.map(|c| c.mode);
    let mut closing = current.unwrap_or(Closing {
        mode: how.mode(),
        began: now,
        hard_at: asked_limit,
        hard_since: None,
        late: false,
        grace: how.grace_limit(),
    });
    closing.grace = closing.grace.min(how.grace_limit());
    closing.mode = closing.mode.max(how.mode());
    closing.hard_at = closing.hard_at.min(asked_limit);
    if closing.mode == Mode::Hard && closing.hard_since.is_none() {
        closing.hard_since = Some(now);
    }
    Step {
        closing,
        cancel_queued: closing.mode >= Mode::Soft && before.is_none_or(|m| m < Mode::Soft),
        tell_running: closing.mode == Mode::Hard && before != Some(Mode::Hard),
    }
}

/// The limit of `.within(d)`: turns the shutdown Hard.
pub(crate) fn on_limit(closing: Closing, now: Ticks) -> Option<Step> {
    if closing.mode == Mode::Hard || now < closing.hard_at {
        return None;
    }
    let mut step = escalate(Some(closing), Shutdown::hard(), now);
    step.closing.late = true;
    Some(step)
}

/// What the next of several pools gets (S5): its limit, and what it may take on top.
///
/// The limit is the time left ÷ the pools left. Together they have `grace` on top of
/// `within`; of what will be left of both after this limit, it may take its part.
pub(crate) fn share(
    within: Duration,
    grace: Duration,
    elapsed: Duration,
    pools_left: usize,
) -> (Duration, Duration) {
    let parts = u32::try_from(pools_left.max(1)).unwrap_or(u32::MAX);
    let left = within.saturating_sub(elapsed);
    let limit = left / parts;
    let grace_left = grace.saturating_sub(elapsed.saturating_sub(within));
    let rest = (left - limit).saturating_add(grace_left);
    (limit, grace.min(rest / parts))
}

// ---------------------------------------------------------------- workers

/// W2: how long to wait before the `failures`-th restart in a row. `jitter` is random.
pub(crate) fn backoff(failures: u32, min: Duration, max: Duration, jitter: u64) -> Duration {
    let doubled = min.saturating_mul(1u32 << failures.saturating_sub(1).min(20));
    let full = doubled.min(max);
    // Between half and all of it, so that workers that died together come back apart.
    let half = full / 2;
    let spread = u64::try_from((full - half).as_nanos()).unwrap_or(u64::MAX);
    half + Duration::from_nanos(if spread == 0 { 0 } else { jitter % (spread + 1) })
}

/// S9: while closing, with nobody alive, after this many failures in a row nobody will come.
pub(crate) const HOPELESS_AFTER: u32 = 3;

/// What to do about a worker that ended by itself.
pub(crate) fn is_hopeless(closing: bool, alive: usize, failures: u32) -> bool {
    closing && alive == 0 && failures >= HOPELESS_AFTER
}

#[cfg(all(test, not(any(tidegate_loom, tidegate_shuttle))))]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn r5_every_policy_on_a_full_queue_from_outside() {
        let outside = |policy| on_full(policy, Inside::Refuse, true, 0, 64);
        assert_eq!(outside(WhenFull::Wait), OnFull::Wait(Duration::MAX));
        assert_eq!(outside(WhenFull::WaitFor(SECOND)), OnFull::Wait(SECOND));
        assert_eq!(outside(WhenFull::Reject), OnFull::Refuse(Reason::Full));
        assert_eq!(outside(WhenFull::DropNewest), OnFull::EvictNew);
        assert_eq!(outside(WhenFull::DropOldest), OnFull::EvictOldest);
        assert_eq!(outside(WhenFull::CallerRuns), OnFull::RunHere);
    }

    #[test]
    fn r8_inside_a_task_nothing_waits() {
        for policy in [WhenFull::Wait, WhenFull::WaitFor(SECOND)] {
            let refuse = on_full(policy, Inside::Refuse, true, 1, 64);
            assert_eq!(refuse, OnFull::Refuse(Reason::WouldDeadlock));
            assert_eq!(on_full(policy, Inside::RunInline, true, 1, 64), OnFull::RunHere);
            let too_deep = on_full(policy, Inside::RunInline, true, 64, 64);
            assert_eq!(too_deep, OnFull::Refuse(Reason::WouldDeadlock));
        }
    }

    #[test]
    fn r4_try_is_full_whatever_the_policy() {
        for policy in [
            WhenFull::Wait,
            WhenFull::WaitFor(SECOND),
            WhenFull::Reject,
            WhenFull::DropNewest,
            WhenFull::DropOldest,
            WhenFull::CallerRuns,
        ] {
            for depth in [0, 1] {
                let answer = on_full(policy, Inside::RunInline, false, depth, 64);
                assert_eq!(answer, OnFull::Refuse(Reason::Full));
            }
        }
    }

    #[test]
    fn o3_first_match_of_the_table() {
        use Returned::*;
        assert_eq!(outcome(Panic, true, true), Kind::Panicked);
        assert_eq!(outcome(Value, true, true), Kind::TimedOutRunning);
        assert_eq!(outcome(Error, true, false), Kind::TimedOutRunning);
        assert_eq!(outcome(Error, false, true), Kind::CancelledWithError);
        assert_eq!(outcome(Error, false, false), Kind::Failed);
        assert_eq!(outcome(Value, false, true), Kind::Completed);
        assert_eq!(outcome(Value, false, false), Kind::Completed);
    }

    /// All sequences of up to four requests: the mode never falls, the limit never
    /// moves out, queued tasks are cancelled once and running ones told once.
    #[test]
    fn s2_escalation_is_monotone_over_all_short_sequences() {
        let requests = [
            Shutdown::light(),
            Shutdown::light().within(SECOND),
            Shutdown::soft(),
            Shutdown::soft().within(SECOND),
            Shutdown::hard(),
        ];
        for code in 0..requests.len().pow(4) {
            let mut current = None;
            let (mut cancelled, mut told) = (0, 0);
            for i in 0..4u32 {
                let how = requests[code / requests.len().pow(i) % requests.len()];
                let step = escalate(current, how, Ticks(u64::from(i)));
                if let Some(before) = current {
                    assert!(step.closing.mode >= before.mode);
                    assert!(step.closing.hard_at <= before.hard_at);
                    assert_eq!(step.closing.began, before.began);
                }
                assert!(step.closing.mode >= how.mode());
                cancelled += u32::from(step.cancel_queued);
                told += u32::from(step.tell_running);
                current = Some(step.closing);
            }
            let mode = current.unwrap().mode;
            assert_eq!(cancelled, u32::from(mode >= Mode::Soft));
            assert_eq!(told, u32::from(mode == Mode::Hard));
        }
    }

    #[test]
    fn the_limit_turns_hard_exactly_then() {
        let closing = escalate(None, Shutdown::light().within(SECOND), Ticks(5)).closing;
        let at = Ticks(5).after(SECOND);
        assert_eq!(on_limit(closing, Ticks(at.0 - 1)), None);
        let step = on_limit(closing, at).unwrap();
        assert!(step.cancel_queued && step.tell_running && step.closing.late);
        assert_eq!(step.closing.hard_since, Some(at));
        assert_eq!(on_limit(step.closing, at), None, "once");
        let never = escalate(None, Shutdown::light(), Ticks(5)).closing;
        assert_eq!(on_limit(never, Ticks(u64::MAX - 1)), None);
    }

    #[test]
    fn w2_backoff_doubles_is_capped_and_jitters_within_half() {
        let (min, max) = (Duration::from_millis(10), SECOND);
        for failures in 1..40 {
            for jitter in [0, 1, 12_345, u64::MAX] {
                let wait = backoff(failures, min, max, jitter);
                let full = (min * 2u32.pow(failures.min(12) - 1)).min(max);
                assert!(wait >= full / 2 && wait <= full, "{failures}: {wait:?}");
            }
        }
        assert_eq!(backoff(3, Duration::ZERO, Duration::ZERO, 7), Duration::ZERO);
    }

    /// All pools overrun: each gets something, and all of them end within limit and grace.
    #[test]
    fn s5_no_pool_is_left_without_a_share_and_one_grace_is_for_all() {
        for (within, grace) in [(1, 5), (30, 5), (10, 0), (0, 5), (7, 7), (0, 0)] {
            let (within, grace) = (SECOND * within, SECOND * grace);
            let mut elapsed = Duration::ZERO;
            for pools_left in (1..=5).rev() {
                let (limit, own) = share(within, grace, elapsed, pools_left);
                assert!(own <= grace);
                assert_eq!(limit + own == Duration::ZERO, within + grace == Duration::ZERO);
                elapsed += limit + own;
            }
            assert!(elapsed <= within + grace, "{elapsed:?} of {within:?} + {grace:?}");
        }
        // With time enough each has the whole grace.
        assert_eq!(share(SECOND * 30, SECOND * 5, Duration::ZERO, 3), (SECOND * 10, SECOND * 5));
        assert_eq!(share(SECOND * 30, SECOND * 5, SECOND * 15, 2).1, SECOND * 5);
        let never = share(Duration::MAX, SECOND, SECOND, 1);
        assert_eq!(never, (Duration::MAX - SECOND, SECOND), "no overflow");
    }

    #[test]
    fn s5_the_shortest_grace_counts() {
        let closing = escalate(None, Shutdown::hard().grace(SECOND), Ticks(0)).closing;
        assert_eq!(closing.grace_ends(SECOND * 5), Ticks(0).after(SECOND));
        assert_eq!(closing.grace_ends(SECOND / 2), Ticks(0).after(SECOND / 2));
        let again = escalate(Some(closing), Shutdown::hard(), Ticks(7)).closing;
        assert_eq!(again.grace_ends(SECOND * 5), Ticks(0).after(SECOND), "a weaker request");
        let light = escalate(None, Shutdown::light(), Ticks(0)).closing;
        assert_eq!(light.grace_ends(SECOND), Ticks::NEVER);
    }

    #[test]
    fn s9_gives_up_only_while_closing_with_nobody_alive() {
        assert!(is_hopeless(true, 0, 3));
        assert!(!is_hopeless(true, 0, 2));
        assert!(!is_hopeless(true, 1, 9));
        assert!(!is_hopeless(false, 0, 9));
    }
}
