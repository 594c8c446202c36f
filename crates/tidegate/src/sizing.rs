//! W4: how many workers a pool with a range of them should have. A decision, nothing else: no
//! clock, no lock, no thread.
//!
//! ```text
//!  grow     all are busy, and the head of the queue has waited for `grow_after`, or the queue
//!           has done nothing but grow for that long: by half, but not by more than is queued
//!  shrink   for `shrink_after` fewer would have done, with half to spare over the busiest
//!           moment: half of the way; if that was not all, the rest after each cooldown
//!  hold     for `cooldown` after each change
//! ```
//!
//! The half to spare keeps the two apart: a pool that has shrunk to what it needs has idle
//! workers left, and grows only when none is. What chance can still do, it does once: a pool
//! that had to grow after it shrank is wary, and takes 32 times as long to shrink the next
//! time; until it has been idle altogether for `shrink_after`, which always makes it shrink.
//! Two things do not wait: with no worker at all the
//! first task starts one, and where there is no queue (`queue(0)`) whoever finds nobody idle
//! gets a worker, as long as there may be more.

use std::time::Duration;

use crate::clock::Ticks;

/// What the pool was told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) min: usize,
    pub(crate) max: usize,
    pub(crate) grow_after: Duration,
    pub(crate) shrink_after: Duration,
    pub(crate) cooldown: Duration,
}

impl Rules {
    /// How long to look away while tasks come.
    pub(crate) fn pace(&self) -> Duration {
        (self.grow_after / 4).clamp(Duration::from_millis(1), Duration::from_millis(10))
    }

    /// How long to look away while nothing matters but who falls idle.
    fn slow_pace(&self) -> Duration {
        (self.shrink_after / 8).clamp(Duration::from_millis(1), Duration::from_secs(1))
    }
}

/// What the pool looks like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) now: Ticks,
    pub(crate) queued: u64,
    /// How long the head of the queue has waited, at least.
    pub(crate) waited: Duration,
    /// How many wait for an idle worker because there is no queue.
    pub(crate) wanted: u64,
    /// Something has come since the last look.
    pub(crate) news: bool,
    /// As decided before.
    pub(crate) workers: usize,
    /// Those of them that have nothing to do, or are only about to start.
    pub(crate) idle: usize,
}

impl Load {
    /// Nothing waits and nothing has come.
    pub(crate) fn is_quiet(&self) -> bool {
        self.queued == 0 && self.wanted == 0 && !self.news
    }

    /// Where something comes at all somebody is busy, if only between two looks.
    fn busy(&self) -> usize {
        self.workers.saturating_sub(self.idle).max(usize::from(!self.is_quiet()))
    }
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) workers: usize,
    /// Look again then; if the pool was quiet, also when something comes.
    pub(crate) look_at: Ticks,
}

/// What is remembered from one look to the next.
#[derive(Debug, Default)]
pub(crate) struct Sizer {
    changed: Option<Ticks>,
    /// Since when fewer would do, and the most that were busy at any look since.
    slack: Option<(Ticks, usize)>,
    /// Since when nobody is busy.
    still: Option<Ticks>,
    rise: Rise,
    /// The last change was to fewer although there was work.
    shrunk: bool,
    /// Then it had to grow again.
    wary: bool,
}

/// How much longer a wary pool takes to shrink.
const WARY: u32 = 32;

/// A queue that has not got shorter for a while.
#[derive(Clone, Copy, Debug, Default)]
struct Rise {
    since: Ticks,
    from: u64,
    last: u64,
}

impl Sizer {
    pub(crate) fn look(&mut self, rules: &Rules, load: &Load) -> Verdict {
        self.rise.note(load);
        self.note_slack(rules, load);
        let workers = self.decide(rules, load);
        Verdict { workers, look_at: self.next_look(rules, &Load { workers, ..*load }) }
    }

    /// What was, says nothing about what is: the pool was paused.
    pub(crate) fn forget(&mut self) {
        (self.slack, self.still, self.rise) = (None, None, Rise::default());
    }

    fn decide(&mut self, rules: &Rules, load: &Load) -> usize {
        let Load { now, queued, workers, idle, .. } = *load;
        let within = |wanted: usize| wanted.clamp(rules.min, rules.max);
        if workers == 0 && queued > 0 {
            return within(1); // no change of mind: no cooldown
        }
        let missing = usize::try_from(load.wanted).unwrap_or(usize::MAX).saturating_sub(idle);
        if missing > 0 && workers < rules.max {
            self.grows(now);
            return within(workers.saturating_add(missing));
        }
        if now < self.ready_at(rules) {
            return within(workers);
        }
        let waits = load.waited >= rules.grow_after || self.rise.is_long(rules, load);
        if queued > 0 && waits && idle == 0 && workers < rules.max {
            self.grows(now);
            let step = workers.div_ceil(2).min(usize::try_from(queued).unwrap_or(usize::MAX));
            return within(workers.saturating_add(step));
        }
        if workers > rules.min && now >= self.idle_until(rules) {
            (self.shrunk, self.wary) = (false, false);
            return self.shrinks(now, workers, rules.min);
        }
        match self.slack {
            Some((_, peak)) if now >= self.slack_until(rules) => {
                self.shrunk = true;
                self.shrinks(now, workers, needed(peak).max(rules.min))
            }
            _ => within(workers),
        }
    }

    fn grows(&mut self, now: Ticks) {
        let wary = self.wary || self.shrunk;
        *self = Sizer { changed: Some(now), wary, ..Sizer::default() };
    }

    /// Half of the way.
    fn shrinks(&mut self, now: Ticks, workers: usize, goal: usize) -> usize {
        let next = workers - workers.saturating_sub(goal).div_ceil(2);
        self.changed = Some(now);
        self.slack = self.slack.filter(|_| next > goal);
        next
    }

    /// Until when the pool must have been idle to shrink for that.
    fn idle_until(&self, rules: &Rules) -> Ticks {
        self.still.map_or(Ticks::NEVER, |since| since.after(rules.shrink_after))
    }

    /// Until when fewer must have done to shrink for that.
    fn slack_until(&self, rules: &Rules) -> Ticks {
        let patience = rules.shrink_after.saturating_mul(if self.wary { WARY } else { 1 });
        self.slack.map_or(Ticks::NEVER, |(since, _)| since.after(patience))
    }

    fn ready_at(&self, rules: &Rules) -> Ticks {
        self.changed.map_or(Ticks(0), |at| at.after(rules.cooldown))
    }

    fn note_slack(&mut self, rules: &Rules, load: &Load) {
        let busy = load.busy();
        let fewer_would_do = needed(busy).max(rules.min) < load.workers;
        let (since, peak) = self.slack.unwrap_or((load.now, 0));
        self.slack = fewer_would_do.then_some((since, peak.max(busy)));
        self.still = (busy == 0).then_some(self.still.unwrap_or(load.now));
    }

    fn next_look(&self, rules: &Rules, load: &Load) -> Ticks {
        let Load { now, workers, .. } = *load;
        let mut at = Ticks::NEVER;
        if workers < rules.max && !load.is_quiet() {
            at = now.after(rules.pace());
            if load.queued > 0 {
                let left = rules.grow_after.saturating_sub(load.waited);
                let due = now.after(left).max(self.ready_at(rules));
                at = if due > now { at.min(due) } else { at };
            }
        }
        if workers > rules.min && now.after(rules.shrink_after) != Ticks::NEVER {
            let due = self.idle_until(rules).min(self.slack_until(rules));
            at = at.min(due.max(self.ready_at(rules)));
            // Nobody says so when a worker falls idle.
            if self.still.is_none() {
                at = at.min(now.after(rules.slow_pace()));
            }
        }
        at
    }
}

impl Rise {
    fn note(&mut self, load: &Load) {
        if load.queued < self.last || self.last == 0 {
            (self.since, self.from) = (load.now, load.queued);
        }
        self.last = load.queued;
    }

    /// Each worker has two tasks more ahead of it than it had.
    fn is_long(&self, rules: &Rules, load: &Load) -> bool {
        let grown = load.queued - self.from;
        self.last > 0
            && load.now >= self.since.after(rules.grow_after)
            && grown >= 2 * load.workers as u64
    }
}

/// How many workers so many busy ones call for.
fn needed(busy: usize) -> usize {
    busy + busy.div_ceil(2)
}

#[cfg(all(test, not(any(tidegate_loom, tidegate_shuttle))))]
mod simulation;

#[cfg(all(test, not(any(tidegate_loom, tidegate_shuttle))))]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const RULES: Rules = Rules {
        min: 2,
        max: 16,
        grow_after: Duration::from_millis(10),
        shrink_after: Duration::from_secs(10),
        cooldown: Duration::from_secs(1),
    };
    /// A moment in the life of a pool whose four workers have just enough to do.
    const LOAD: Load = Load {
        now: Ticks(0),
        queued: 0,
        waited: Duration::ZERO,
        wanted: 0,
        news: true,
        workers: 4,
        idle: 1,
    };

    fn at(ms: u64) -> Ticks {
        Ticks(1_000_000 * ms)
    }

    fn decide(rules: Rules, load: Load) -> usize {
        Sizer::default().look(&rules, &load).workers
    }

    #[test]
    fn w4_grows_only_when_all_are_busy_and_the_head_waits() {
        let waits = Load { queued: 100, waited: 10 * MS, idle: 0, ..LOAD };
        let table = [
            ("the head waits", waits, 6),
            ("not long enough", Load { waited: 10 * MS - Duration::from_nanos(1), ..waits }, 4),
            ("one is idle, or about to start", Load { idle: 1, ..waits }, 4),
            ("nothing is queued", Load { queued: 0, ..waits }, 4),
            ("not more than is queued", Load { queued: 1, ..waits }, 5),
            ("half again, rounded up", Load { workers: 5, ..waits }, 8),
            ("not above max", Load { workers: 15, ..waits }, 16),
            ("at max", Load { workers: 16, ..waits }, 16),
            ("very many", Load { queued: u64::MAX, ..waits }, 6),
        ];
        for (what, load, workers) in table {
            assert_eq!(decide(RULES, load), workers, "{what}");
        }
        let at_once = Rules { grow_after: Duration::ZERO, ..RULES };
        assert_eq!(decide(at_once, Load { waited: Duration::ZERO, ..waits }), 6);
        let never = Rules { grow_after: Duration::MAX, ..RULES };
        assert_eq!(decide(never, Load { waited: 1_000_000 * MS, ..waits }), 4);
    }

    #[test]
    fn w4_grows_when_the_queue_does_nothing_but_grow() {
        let look = |queue: &[u64]| {
            let mut sizer = Sizer::default();
            let mut workers = 4;
            for (i, queued) in queue.iter().enumerate() {
                let now = at(5 * i as u64);
                let load = Load { now, queued: *queued, idle: 0, workers, ..LOAD };
                workers = sizer.look(&RULES, &load).workers;
            }
            workers
        };
        assert_eq!(look(&[0, 1, 5, 9]), 6, "eight more in ten milliseconds");
        assert_eq!(look(&[0, 1, 5, 8]), 4, "seven");
        assert_eq!(look(&[0, 1, 9]), 4, "not for long");
        assert_eq!(look(&[0, 1, 5, 4, 13]), 4, "it has got shorter in between");
        assert_eq!(look(&[0, 1, 5, 4, 4, 13]), 6);
        assert_eq!(look(&[9, 9, 9, 9, 9, 9]), 4, "it stands, and its head does not wait");
    }

    #[test]
    fn w4_holds_still_for_the_cooldown_after_each_change() {
        let mut sizer = Sizer::default();
        let mut look = |ms, workers| {
            let load = Load { now: at(ms), queued: 99, waited: 50 * MS, idle: 0, workers, ..LOAD };
            sizer.look(&RULES, &load)
        };
        assert_eq!(look(0, 4).workers, 6);
        let held = look(500, 6);
        assert_eq!(held.workers, 6);
        assert_eq!(held.look_at, at(502).after(MS / 2), "it looks on meanwhile");
        assert_eq!(look(999, 6).look_at, at(1_000), "and again when it may");
        assert_eq!(look(1_000, 6).workers, 9);
    }

    #[test]
    fn w4_shrinks_after_idle_time_half_of_the_way() {
        let mut sizer = Sizer::default();
        let mut look = |ms, workers| {
            let load = Load { now: at(ms), workers, idle: workers, news: false, ..LOAD };
            let verdict = sizer.look(&RULES, &load);
            (verdict.workers, verdict.look_at)
        };
        assert_eq!(look(0, 16), (16, at(10_000)), "nothing to see before that");
        assert_eq!(look(9_999, 16), (16, at(10_000)));
        assert_eq!(look(10_000, 16), (9, at(11_000)));
        assert_eq!(look(10_999, 9), (9, at(11_000)), "cooldown");
        assert_eq!(look(11_000, 9), (5, at(12_000)));
        assert_eq!(look(12_000, 5), (3, at(13_000)));
        assert_eq!(look(13_000, 3), (2, Ticks::NEVER), "at min an idle pool is left alone");
        assert_eq!(look(99_999, 2), (2, Ticks::NEVER));
    }

    #[test]
    fn w4_shrinks_to_what_the_busiest_moment_needed_and_half() {
        let shrinks_to = |busiest: usize| {
            let mut sizer = Sizer::default();
            let mut workers = 16;
            for second in 0..100 {
                let busy = if second % 5 == 3 { busiest } else { 1 };
                let load = Load { now: at(1_000 * second), workers, idle: workers - busy, ..LOAD };
                workers = sizer.look(&RULES, &load).workers;
            }
            workers
        };
        assert_eq!([0, 1, 2, 3, 4, 6, 9, 11].map(shrinks_to), [2, 2, 3, 5, 6, 9, 14, 16]);
    }

    #[test]
    fn w4_a_busy_moment_starts_the_idle_time_anew() {
        let mut sizer = Sizer::default();
        let mut look = |ms, idle| {
            let load = Load { now: at(ms), workers: 8, idle, news: false, ..LOAD };
            let verdict = sizer.look(&RULES, &load);
            (verdict.workers, verdict.look_at)
        };
        assert_eq!(look(0, 8), (8, at(10_000)));
        assert_eq!(look(9_000, 0), (8, at(10_000)), "all busy: when will one fall idle?");
        assert_eq!(look(10_000, 8), (8, at(20_000)));
        assert_eq!(look(19_999, 8), (8, at(20_000)));
        assert_eq!(look(20_000, 8).0, 5);
    }

    #[test]
    fn w4_whoever_had_to_grow_again_is_slow_to_shrink() {
        let mut sizer = Sizer::default();
        let mut look = |seconds: u64, workers, busy, waited| {
            let load = Load {
                now: at(1_000 * seconds),
                queued: u64::from(waited > 0),
                waited: waited * MS,
                workers,
                idle: workers - busy,
                ..LOAD
            };
            sizer.look(&RULES, &load).workers
        };
        assert_eq!(look(0, 8, 2, 0), 8);
        assert_eq!(look(10, 8, 2, 0), 5, "fewer would have done");
        assert_eq!(look(11, 5, 5, 10), 6, "a mistake");
        assert_eq!(look(12, 6, 2, 0), 6);
        assert_eq!(look(22, 6, 2, 0), 6, "it is wary now");
        assert_eq!(look(12 + 319, 6, 2, 0), 6);
        assert_eq!(look(12 + 320, 6, 2, 0), 4);
    }

    #[test]
    fn w4_an_idle_pool_is_not_wary() {
        let mut sizer = Sizer { wary: true, ..Sizer::default() };
        let mut look = |seconds: u64| {
            let load = Load { now: at(1_000 * seconds), workers: 6, idle: 6, news: false, ..LOAD };
            sizer.look(&RULES, &load).workers
        };
        assert_eq!((look(0), look(9), look(10)), (6, 6, 4));
        assert!(!sizer.wary, "and forgets that it was");
    }

    #[test]
    fn w4_never_below_min_nor_above_max() {
        for workers in 0..=40 {
            for (queued, waited, idle) in [(0, 0, workers), (50, 99, 0), (0, 0, 0), (3, 0, 1)] {
                let load = Load { queued, waited: waited * MS, workers, idle, ..LOAD };
                let next = decide(RULES, load);
                assert!((2..=16).contains(&next), "{load:?} gives {next}");
            }
        }
    }

    #[test]
    fn w4_nobody_and_a_task_is_one_at_once() {
        let rules = Rules { min: 0, ..RULES };
        let nobody = Load { workers: 0, idle: 0, news: false, ..LOAD };
        let mut sizer = Sizer::default();
        assert_eq!(sizer.look(&rules, &nobody), Verdict { workers: 0, look_at: Ticks::NEVER });
        let one = Load { queued: 40, news: true, ..nobody };
        assert_eq!(sizer.look(&rules, &one).workers, 1);
        let more = Load { now: at(10), waited: 10 * MS, workers: 1, ..one };
        assert_eq!(sizer.look(&rules, &more).workers, 2, "the first needed no cooldown");
    }

    #[test]
    fn w4_without_a_queue_whoever_finds_nobody_idle_gets_a_worker() {
        let wanted = Load { wanted: 3, idle: 0, ..LOAD };
        assert_eq!(decide(RULES, wanted), 7);
        assert_eq!(decide(RULES, Load { idle: 2, ..wanted }), 5, "two are coming");
        assert_eq!(decide(RULES, Load { idle: 3, ..wanted }), 4);
        assert_eq!(decide(RULES, Load { wanted: u64::MAX, ..wanted }), 16);
        let mut sizer = Sizer::default();
        assert_eq!(sizer.look(&RULES, &wanted).workers, 7);
        let again = Load { now: at(1), workers: 7, ..wanted };
        assert_eq!(
            sizer.look(&RULES, &again).workers,
            10,
            "there is no place to wait out a cooldown"
        );
    }

    #[test]
    fn w4_looks_often_only_while_it_could_grow() {
        let look_at = |load| Sizer::default().look(&RULES, &load).look_at;
        let busy = Load { idle: 0, ..LOAD };
        assert_eq!(look_at(busy), at(2).after(MS / 2), "a quarter of grow_after");
        assert_eq!(look_at(Load { queued: 1, waited: 9 * MS, ..busy }), at(1), "exactly then");
        assert_eq!(look_at(Load { workers: 16, queued: 9, ..busy }), at(1_000), "at max");
        assert_eq!(look_at(Load { news: false, ..busy }), at(1_000), "nothing comes");
        assert_eq!(look_at(Load { workers: 2, news: false, ..busy }), Ticks::NEVER, "at min");
        for (grow_after, pace) in [(0, 1), (3, 1), (20, 5), (90, 10)] {
            let rules = Rules { grow_after: grow_after * MS, ..RULES };
            assert_eq!(rules.pace(), pace * MS);
        }
    }

    #[test]
    fn w4_durations_without_end_are_never() {
        let rules = Rules {
            grow_after: Duration::MAX,
            shrink_after: Duration::MAX,
            cooldown: Duration::MAX,
            ..RULES
        };
        let idle = Load { idle: 4, news: false, ..LOAD };
        let mut sizer = Sizer::default();
        assert_eq!(sizer.look(&rules, &idle), Verdict { workers: 4, look_at: Ticks::NEVER });
        let waits = Load { queued: 9, waited: 1_000_000 * MS, idle: 0, ..LOAD };
        assert_eq!(sizer.look(&rules, &waits).workers, 4);
    }
}
