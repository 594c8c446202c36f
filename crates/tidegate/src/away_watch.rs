//! Minds workers that are futures while they are *away*: they have more to do, and let others on
//! their thread go on first.
//!
//! A submit wakes nobody while somebody searches or works. A thread goes on by itself; a future
//! does so only when its runtime's thread comes back to it, and what runs there meanwhile may not
//! return for long. The supervisor may be behind that, too. So the watch looks, which is a thread
//! of ours, as long as somebody is away; and those are woken, for another thread of the runtime,
//! if the queue stands still, or if tasks wait although somebody searches: others may get on, but
//! no submit wakes one more meanwhile. So is one more if submits count on a worker that was woken and
//! has not come: that may be next on the thread of the very future that woke it.
//!
//! To wake somebody helps only who is not awake already. A worker that lets others go on is woken by
//! its own thread after them, and then must be where the others find it: see `on_tokio/worker.rs`.
//!
//! ```text
//!  worker:  counts itself among those away, then reads `at`      one of the two
//!  watch:   sets `at` to never, then looks who is away           sees the other
//!  submit:  as the worker, once it has seen that a token of the lot was not taken
//! ```

use std::time::Duration;

use crate::clock::Ticks;
use crate::sync::atomic::Ordering::{Relaxed, SeqCst};
use crate::sync::atomic::{AtomicU32, AtomicU64};

/// Two of them make R7's millisecond. It costs some CPU, which an idle pool does not pay.
const LOOK: Duration = Duration::from_micros(500);
/// After so many looks at an empty queue who is away is woken, to go to sleep elsewhere. If that
/// does not help, because the runtime has no other thread, looks become ever rarer.
const EMPTY_LOOKS: u32 = 20;
const RAREST: u32 = 6;

/// After that many looks at a task that nobody comes for they are not rarer still: somebody else may
/// get stuck next.
const RAREST_IN_VAIN: u32 = 4;

/// No task is the next one.
const NONE: u64 = u64::MAX;
/// In the upper half of the number of those away: somebody has left.
const LEFT: u64 = 1 << 32;

#[derive(Debug)]
pub(crate) struct AwayWatch {
    /// How many are; how often somebody has left is in the upper half.
    away: AtomicU64,
    /// When the watch looks, in real time.
    at: AtomicU64,
    /// What it saw at its last look: where the queue was, or NONE, and `away`. Its own, as are the
    /// next two.
    head: AtomicU64,
    seen: AtomicU64,
    /// How many looks have found the queue empty since it was not; and how many the same task, and
    /// nobody who has come back since.
    empty: AtomicU32,
    in_vain: AtomicU32,
}

impl AwayWatch {
    pub(crate) fn new() -> AwayWatch {
        AwayWatch {
            away: AtomicU64::new(0),
            at: AtomicU64::new(u64::MAX),
            head: AtomicU64::new(NONE),
            seen: AtomicU64::new(0),
            empty: AtomicU32::new(0),
            in_vain: AtomicU32::new(0),
        }
    }

    /// A worker lets others go on. True: the watch must be woken.
    pub(crate) fn leave(&self, real_now: impl FnOnce() -> Ticks) -> bool {
        self.away.fetch_add(LEFT | 1, SeqCst);
        self.mind(real_now)
    }

    /// Somebody counts on a worker that was woken and may be long in coming. True: as above.
    pub(crate) fn mind(&self, real_now: impl FnOnce() -> Ticks) -> bool {
        self.at.load(SeqCst) == u64::MAX
            && self.at.fetch_min(real_now().after(LOOK).0, SeqCst) == u64::MAX
    }

    /// And its thread has come back to it.
    pub(crate) fn come_back(&self) {
        self.away.fetch_sub(1, SeqCst);
    }

    /// Whether those who are away must be woken; and when to look again, in real time. `head`:
    /// which task is the next one, if there is one. `is_searched`: submits count on a search.
    /// `is_awaited`: on one that was woken and has not come.
    pub(crate) fn look(
        &self,
        real_now: Ticks,
        head: impl FnOnce() -> Option<u64>,
        is_searched: impl FnOnce() -> bool,
        is_awaited: impl FnOnce() -> bool,
    ) -> (bool, Ticks) {
        let at = Ticks(self.at.load(SeqCst));
        if real_now < at {
            return (false, at);
        }
        self.at.swap(u64::MAX, SeqCst);
        let away = self.away.load(SeqCst);
        if away as u32 == 0 && !is_awaited() {
            self.empty.store(0, Relaxed);
            return (false, Ticks::NEVER); // who leaves after that says so
        }
        let (last, head) = (self.head.load(Relaxed), head());
        let is_as_before = head == Some(last) && self.seen.load(Relaxed) == away;
        let more = |count: &AtomicU32, is_one: bool| {
            let count_now = if is_one { count.load(Relaxed).saturating_add(1) } else { 0 };
            count.store(count_now, Relaxed);
            count_now
        };
        let (empty, in_vain) =
            (more(&self.empty, head.is_none()), more(&self.in_vain, is_as_before));
        self.head.store(head.unwrap_or(NONE), Relaxed);
        self.seen.store(away, Relaxed);
        let rarer = (empty / EMPTY_LOOKS).min(RAREST).max(in_vain.min(RAREST_IN_VAIN));
        let again = real_now.after(LOOK * (1 << rarer));
        self.at.fetch_min(again.0, SeqCst);
        let stands = head.is_some_and(|head| head == last || last != NONE && is_searched());
        // Once is enough: the next thread of the runtime that is free comes to whom it woke.
        (stands && in_vain < 2 || empty == EMPTY_LOOKS, again)
    }
}

#[cfg(all(test, not(any(tidegate_loom, tidegate_shuttle))))]
mod tests {
    use super::*;

    const STEP: u64 = LOOK.as_nanos() as u64;

    /// Somebody leaves at 0; looks at each step, with what the queue is at, and whether somebody
    /// searches: whether those away are woken.
    fn looks(seen: &[(Option<u64>, bool)]) -> Vec<bool> {
        let watch = AwayWatch::new();
        assert!(watch.leave(|| Ticks(0)));
        let look = |(n, (head, searched)): (usize, &(Option<u64>, bool))| {
            let now = STEP * (n as u64 + 1);
            let (wake, again) = watch.look(Ticks(now), || *head, || *searched, || false);
            assert!(again <= Ticks(now + STEP * 16), "{again:?} after {now}");
            wake
        };
        seen.iter().enumerate().map(look).collect()
    }

    #[test]
    fn r7_who_is_away_is_woken_once_the_queue_stands_still() {
        let heads = [5, 6, 6, 6, 7].map(|head| (Some(head), false));
        assert_eq!(looks(&heads), [false, false, true, false, false], "once");
        assert_eq!(looks(&[(Some(7), false), (None, false), (Some(7), false)]), [false; 3]);
    }

    #[test]
    fn r7_who_searches_and_is_away_is_woken_although_others_get_on() {
        let heads = [5, 6, 7].map(|head| (Some(head), true));
        assert_eq!(looks(&heads), [false, true, true]);
        assert_eq!(looks(&[(None, true), (Some(6), true), (None, true)]), [false; 3]);
    }

    #[test]
    fn the_watch_looks_ever_more_seldom_at_a_task_that_nobody_comes_for() {
        let watch = AwayWatch::new();
        assert!(watch.leave(|| Ticks(0)));
        let look = |now, head| watch.look(Ticks(now), || Some(head), || true, || false);
        let (mut now, mut looks, mut woken) = (STEP, 0, 0);
        while now < 2_000_000_000 {
            let (wake, again) = look(now, 5);
            (now, looks, woken) = (again.0, looks + 1, woken + u32::from(wake));
        }
        assert_eq!(woken, 1);
        assert!((200..300).contains(&looks), "{looks} in two seconds");
        // Somebody comes back, and leaves again: another look may help.
        watch.come_back();
        watch.leave(|| Ticks(now));
        assert_eq!(look(now, 5), (true, Ticks(now + STEP)));
        assert_eq!(look(now + STEP, 6), (true, Ticks(now + 2 * STEP)), "there is another task");
    }

    #[test]
    fn the_watch_sleeps_while_nobody_is_away() {
        let watch = AwayWatch::new();
        let look = |at| watch.look(Ticks(at), || Some(5), || true, || false);
        assert_eq!(look(10), (false, Ticks::NEVER));
        assert!(watch.leave(|| Ticks(10)));
        assert!(!watch.leave(|| Ticks(10)), "it knows already");
        assert_eq!(look(10 + STEP - 1), (false, Ticks(10 + STEP)), "not yet");
        watch.come_back();
        assert_eq!(look(10 + STEP), (false, Ticks(10 + 2 * STEP)), "one is still away");
        watch.come_back();
        assert_eq!(look(10 + 2 * STEP), (false, Ticks::NEVER));
        assert!(watch.leave(|| Ticks(10)));
    }

    #[test]
    fn who_is_away_from_an_empty_queue_is_woken_once_and_then_left_alone() {
        let watch = AwayWatch::new();
        assert!(watch.leave(|| Ticks(0)));
        let (mut now, mut looks, mut woken) = (STEP, 0, 0);
        while now < 2_000_000_000 {
            let (wake, again) = watch.look(Ticks(now), || None, || true, || false);
            (now, looks, woken) = (again.0, looks + 1, woken + u32::from(wake));
        }
        assert_eq!(woken, 1);
        assert!(looks < 200, "{looks} in two seconds");
        let (_, again) = watch.look(Ticks(now), || Some(1), || false, || false);
        assert_eq!(again, Ticks(now + STEP), "there is a task again");
    }

    #[test]
    fn r7_one_more_is_woken_for_a_task_that_waits_for_one_who_was_woken_and_does_not_come() {
        let watch = AwayWatch::new();
        assert!(watch.mind(|| Ticks(0)) && !watch.mind(|| Ticks(0)));
        let look = |at, is_awaited| watch.look(Ticks(at), || Some(5), || true, || is_awaited);
        assert_eq!(look(STEP, true), (false, Ticks(2 * STEP)), "it may be on its way");
        assert!(look(2 * STEP, true).0);
        assert_eq!(look(5 * STEP, false), (false, Ticks::NEVER), "it has come");
    }
}
