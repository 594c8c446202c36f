//! What is wrong with a pool, in one word, with numbers (V3). The words are decided in
//! `symptoms.rs`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::pool::Pool;
use crate::snapshot::{PoolState, Snapshot};
use crate::symptoms::{WINDOW, diagnose};
use crate::sync::Lock;

/// What a pool suffers from, the most urgent first.
///
/// Each is a correlation of what changed between two snapshots, never one number alone. When
/// several hold, the [`verdict`](Diagnosis::verdict) is the first of this list, and the others
/// are [`also`](Diagnosis::also) there: first what costs capacity now, then what loses work,
/// then what will cost, then what wastes.
///
/// A paused pool is only looked at for `BlockedReactor`, `ShortHanded`, `Stuck`, `Failing` and
/// `Flapping`; one that closes for `BlockedReactor`, `Stuck`, `Stalled`, `Failing` and
/// `Flapping`, so a drain that hangs shows; one that has stopped for `BlockedReactor` and
/// `Stuck`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Verdict {
    /// A worker of a pool of futures has been in one poll for 100 ms or more: its future blocks,
    /// or computes, without awaiting. It keeps a thread of the runtime from everything else
    /// there. That is why it comes first: workers that do not start, tasks that do not stop and
    /// a queue that stands still may all follow from it. Only what goes on at the moment of the
    /// snapshot is seen. Never said of a pool on threads, whose tasks may block; a future in
    /// `block_in_place` can't be told apart.
    BlockedReactor,
    /// Fewer workers live than there should be, and it stays so: fewer are on their way than are
    /// missing; or they were missing at the beginning of the window too, and one failed to start
    /// or none has come for ten seconds.
    ShortHanded,
    /// Abandoned tasks have not returned, and keep their threads.
    Stuck,
    /// Work waits, in the queue or for room, and nothing finishes: every worker has been in its task for longer than a
    /// second and twice what 99 of 100 tasks take (10 s while none has finished yet); or work
    /// waited during a window of that length and nothing began or ended.
    Stalled,
    /// At least three tasks failed, panicked, timed out or were abandoned in the window: half
    /// of those that ended; or a tenth, and twice the share in the life of the pool before.
    Failing,
    /// Workers were lost and started again, those that replace a stuck one not counted, or the
    /// pool grew and shrank by turns: at least three times and once per ten seconds.
    Flapping,
    /// The queue is full to three quarters (without a queue: nobody is idle), and in the window
    /// submitters waited for room, ran their work themselves, or lost or got back some of it: there is
    /// more to do than the workers can, and the pool pushes back as it should.
    Saturated,
    /// At least 100 tasks completed, workers were busy for less than a twentieth of their time,
    /// and 99 of 100 took less than a microsecond, or a hundredth of the usual: do they do what
    /// they should?
    SuspiciouslyFast,
    /// For a second or more nothing was offered, nothing was left to do, and nobody waited for a
    /// budget.
    Starved,
    /// There is some work, nobody had to wait for it, no budget kept any back, and two or more
    /// workers were busy for less than a twentieth of their time, over a second or more.
    Overprovisioned,
    /// None of these.
    #[default]
    Healthy,
}

impl Verdict {
    /// All but `Healthy`, the most urgent first.
    pub(crate) const ILLS: [Verdict; 10] = [
        Verdict::BlockedReactor,
        Verdict::ShortHanded,
        Verdict::Stuck,
        Verdict::Stalled,
        Verdict::Failing,
        Verdict::Flapping,
        Verdict::Saturated,
        Verdict::SuspiciouslyFast,
        Verdict::Starved,
        Verdict::Overprovisioned,
    ];

    /// What it means, for a person.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Verdict::BlockedReactor => "a future does not await, and keeps a thread of the runtime",
            Verdict::ShortHanded => "workers are missing and do not come back",
            Verdict::Stuck => "tasks were told to stop, did not, and keep their threads",
            Verdict::Stalled => "tasks wait, and no worker finishes anything",
            Verdict::Failing => "many tasks fail",
            Verdict::Flapping => "workers come and go, again and again",
            Verdict::Saturated => "more arrives than the workers can do, and it pushes back",
            Verdict::SuspiciouslyFast => "tasks take no time, as if they did nothing",
            Verdict::Starved => "nothing arrives",
            Verdict::Overprovisioned => "the workers have next to nothing to do",
            Verdict::Healthy => "nothing stands out",
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn advice(self) -> &'static str {
        match self {
            Verdict::BlockedReactor => {
                "move what blocks or computes to `spawn_blocking` or to a pool on threads, use an \
                 async call in its place, or let it yield now and then"
            }
            Verdict::ShortHanded => {
                "see the roster for the causes; end what is stuck, or allow more `max_abandoned`"
            }
            Verdict::Stuck => {
                "see the roster for which; let these tasks ask `cx.stopping()`, or bound what they \
                 wait for"
            }
            Verdict::Stalled => {
                "see the roster for what runs; look for a lock, a call without a limit, or tasks \
                 that wait for each other; set `task_timeout`"
            }
            Verdict::Failing => "look at the errors, and at what the tasks depend on",
            Verdict::Flapping => {
                "restarts: see the roster for the causes; size: longer `shrink_after`, or a fixed number"
            }
            Verdict::Saturated => "add workers, shed load (`WhenFull`), or slow the producers",
            Verdict::SuspiciouslyFast => "check that the tasks do their work and skip nothing",
            Verdict::Starved => "check the producers, unless there is nothing to do",
            Verdict::Overprovisioned => "fewer workers would do, if this is the usual load",
            Verdict::Healthy => "nothing to do",
        }
    }
}

/// As in "the pool is …".
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::BlockedReactor => "blocking its runtime",
            Verdict::ShortHanded => "short-handed",
            Verdict::Stuck => "stuck",
            Verdict::Stalled => "stalled",
            Verdict::Failing => "failing",
            Verdict::Flapping => "flapping",
            Verdict::Saturated => "saturated",
            Verdict::SuspiciouslyFast => "suspiciously fast",
            Verdict::Starved => "starved",
            Verdict::Overprovisioned => "overprovisioned",
            Verdict::Healthy => "healthy",
        })
    }
}

/// A verdict about a pool and the numbers that it rests on: [`Pool::diagnose`].
///
/// Printed as one sentence, the evidence and the advice.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Diagnosis {
    /// The name of the pool.
    pub pool: Arc<str>,
    /// Where it is in its life, which decides what is looked for.
    pub state: PoolState,
    /// The most urgent that holds.
    pub verdict: Verdict,
    /// What else holds, the most urgent first.
    pub also: Vec<Verdict>,
    /// A budget keeps work from this pool: submitters wait for one or waited in the window, or
    /// work was refused over budget or as too heavy. Whatever the verdict: more workers or fewer
    /// would not change that. The evidence says how much.
    pub limited_by_budget: bool,
    /// How much time lies between the two snapshots.
    pub window: Duration,
    /// What the verdict was seen by.
    pub evidence: Vec<Evidence>,
}

/// What to do about a budget.
const BUDGET_ADVICE: &str = "raise the budget if what it protects can take more, slow the \
     producers, or see who holds it";

impl Diagnosis {
    /// Nothing stands out. A budget that keeps work back is no illness of the pool: see
    /// [`limited_by_budget`](Diagnosis::limited_by_budget).
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.verdict == Verdict::Healthy
    }

    /// What it means, for a person.
    pub(crate) fn meaning(&self) -> &'static str {
        match self.verdict {
            Verdict::Healthy if self.limited_by_budget => {
                "its budget, not its workers, sets the pace"
            }
            verdict => verdict.meaning(),
        }
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (pool, verdict) = (&self.pool, self.verdict);
        write!(f, "pool {pool:?} is {verdict}: {}", self.meaning())?;
        if self.state != PoolState::Running {
            write!(f, " (it is {})", self.state)?;
        }
        write!(f, "\n  seen      ")?;
        for evidence in &self.evidence {
            write!(f, "{evidence}, ")?;
        }
        write!(f, "in {:.1?}", self.window)?;
        for (n, other) in self.also.iter().enumerate() {
            write!(f, "{}{other}", if n == 0 { "\n  also      " } else { ", " })?;
        }
        match (self.limited_by_budget, self.is_healthy()) {
            (false, _) => write!(f, "\n  advice    {}", verdict.advice()),
            (true, true) => write!(f, "\n  advice    {BUDGET_ADVICE}"),
            (true, false) => {
                write!(f, "\n  advice    {}\n  budget    {BUDGET_ADVICE}", verdict.advice())
            }
        }
    }
}

/// One number of a [`Diagnosis`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Evidence {
    /// What it is, as in "12 queued".
    pub what: &'static str,
    /// How much of it.
    pub value: Measure,
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.what, self.value)
    }
}

/// The value of a piece of [`Evidence`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Measure {
    /// So many.
    Count(u64),
    /// 0 to 1.
    Share(f64),
    /// So long.
    Time(Duration),
    /// In words.
    Text(String),
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Measure::Count(count) => count.fmt(f),
            Measure::Share(share) => write!(f, "{:.0} %", share * 100.0),
            Measure::Time(Duration::MAX) => f.write_str("above 137s"),
            Measure::Time(time) => write!(f, "{time:.1?}"),
            Measure::Text(text) => f.write_str(text),
        }
    }
}

// ---------------------------------------------------------------- asking

/// Diagnosing.
impl<S> Pool<S> {
    /// What the pool suffers from, if anything.
    ///
    /// Compares with what the pool looked like a while ago: at its start for the first call,
    /// later at a call before, at least a second ago (the last one, if calls are rarer than
    /// that). Who asks twice within a second gets an answer about more than a second. For a
    /// window of your own see [`Snapshot::diagnose_since`].
    ///
    /// ```
    /// use tidegate::{Pool, Verdict};
    ///
    /// let pool = Pool::builder("fresh").workers(2).build()?;
    /// let diagnosis = pool.diagnose();
    /// assert_eq!(diagnosis.verdict, Verdict::Healthy, "{diagnosis}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Price: that of a [`snapshot`](Pool::snapshot), and the memory of two.
    #[must_use]
    pub fn diagnose(&self) -> Diagnosis {
        self.core().past.diagnose(self.snapshot())
    }

    /// As [`diagnose`](Pool::diagnose), about the time since a snapshot of this pool.
    #[must_use]
    pub fn diagnose_since(&self, earlier: &Snapshot) -> Diagnosis {
        self.snapshot().diagnose_since(earlier)
    }
}

impl Snapshot {
    /// What the pool suffered from between an earlier snapshot of it and this one. What is
    /// about nothing happening needs a second between them.
    #[must_use]
    pub fn diagnose_since(&self, earlier: &Snapshot) -> Diagnosis {
        diagnose(earlier, self)
    }
}

/// What a pool looked like: two snapshots at the most, without roster and names.
///
/// `base` is compared with. `next` takes its place once it is a window old, so a pool that is
/// asked all the time compares with between one window and two.
#[derive(Debug, Default)]
pub(crate) struct Past(Lock<Compared>);

#[derive(Debug, Default)]
struct Compared {
    /// At first what every pool starts as.
    base: Arc<Snapshot>,
    next: Option<Arc<Snapshot>>,
}

impl Past {
    pub(crate) fn diagnose(&self, now: Snapshot) -> Diagnosis {
        let base = self.turn(&now);
        diagnose(&base, &now)
    }

    fn turn(&self, now: &Snapshot) -> Arc<Snapshot> {
        let kept = Snapshot { tasks: Vec::new(), roster: Vec::new(), ..now.clone() };
        let mut past = self.0.lock();
        if let Some(next) = past.next.take_if(|next| now.uptime >= next.uptime + WINDOW) {
            past.base = next;
        }
        past.next.get_or_insert_with(|| Arc::new(kept));
        Arc::clone(&past.base)
    }
}

#[cfg(all(test, not(any(tidegate_loom, tidegate_shuttle))))]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Snapshot {
        Snapshot { uptime: Duration::from_secs_f64(seconds), ..Snapshot::default() }
    }

    #[test]
    fn v3_the_baseline_is_the_start_and_then_one_to_two_windows_old() {
        let past = Past::default();
        let baseline = |now| past.turn(&at(now)).uptime.as_secs_f64();
        for (now, compared_with) in [
            (5.0, 0.0),
            (5.5, 0.0),
            (6.0, 5.0),
            (6.9, 5.0),
            (7.0, 6.0),
            (7.999, 6.0),
            (100.0, 7.0),
            (200.0, 100.0),
            (150.0, 100.0), // two threads, the slower one last
        ] {
            assert_eq!(baseline(now), compared_with, "asked at {now}");
        }
    }

    #[test]
    fn v3_what_is_kept_is_small() {
        let past = Past::default();
        let names = Snapshot { tasks: vec![crate::TaskTimes::default()], ..at(1.0) };
        past.turn(&names);
        assert!(past.turn(&at(2.0)).tasks.is_empty(), "what a base needs not is not kept");
    }

    #[test]
    fn v3_a_diagnosis_reads_as_a_sentence_with_evidence_and_advice() {
        let diagnosis = Diagnosis {
            pool: "images".into(),
            state: PoolState::Closed,
            verdict: Verdict::Stalled,
            also: vec![Verdict::Failing, Verdict::Flapping],
            limited_by_budget: false,
            window: Duration::from_secs(1),
            evidence: vec![
                Evidence { what: "queued", value: Measure::Count(12) },
                Evidence { what: "busy", value: Measure::Share(1.0) },
                Evidence { what: "usually", value: Measure::Time(Duration::from_millis(20)) },
                Evidence { what: "in", value: Measure::Text("resize".into()) },
            ],
        };
        assert_eq!(
            diagnosis.to_string(),
            "pool \"images\" is stalled: tasks wait, and no worker finishes anything (it is closed)\n  \
             seen      queued 12, busy 100 %, usually 20.0ms, in resize, in 1.0s\n  \
             also      failing, flapping\n  \
             advice    see the roster for what runs; look for a lock, a call without a limit, or \
             tasks that wait for each other; set `task_timeout`"
        );
        // What a budget does is said besides, and in a healthy pool it is all there is to say.
        let budget = "raise the budget if what it protects can take more, slow the producers, or \
                      see who holds it";
        let text = Diagnosis { limited_by_budget: true, ..diagnosis.clone() }.to_string();
        assert_eq!(text, format!("{diagnosis}\n  budget    {budget}"));
        let healthy = Diagnosis {
            state: PoolState::Running,
            verdict: Verdict::Healthy,
            also: Vec::new(),
            limited_by_budget: true,
            evidence: Vec::new(),
            ..diagnosis
        };
        assert_eq!(
            healthy.to_string(),
            format!(
                "pool \"images\" is healthy: its budget, not its workers, sets the pace\n  \
                 seen      in 1.0s\n  advice    {budget}"
            )
        );
    }

    #[test]
    fn v3_the_list_of_ills_is_in_the_order_of_the_type() {
        assert!(Verdict::ILLS.is_sorted());
        assert!(Verdict::ILLS.iter().all(|ill| *ill < Verdict::Healthy));
    }
}
