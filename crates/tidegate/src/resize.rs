//! How a pool's number of workers changes: by its load (W4), or because somebody says so.
//!
//! `target` says how many there should be; it changes only under the roster's lock, so no two
//! deciders can take the same worker away. The supervisor then makes it so (`staff`).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Ticks;
use crate::config::Workers;
use crate::core::{Core, PAUSED, STOPPING};
use crate::gauge::{Gauge, Line};
use crate::pool::Pool;
use crate::roster::Roster;
use crate::settings::{SettingError, Settings};
use crate::sizing::{Load, Rules, Sizer};
use crate::sync::atomic::Ordering::{Relaxed, SeqCst};
use crate::trace::News;

/// Why a pool could not be resized.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResizeError {
    /// The number is out of range.
    Setting(SettingError),
    /// The pool is shutting down: its workers are on their way out.
    Closing,
}

impl fmt::Display for ResizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResizeError::Setting(error) => error.fmt(f),
            ResizeError::Closing => f.write_str("the pool is shutting down and can't be resized"),
        }
    }
}

impl std::error::Error for ResizeError {}

impl<S> Pool<S> {
    /// Changes how many workers there are, at once and without waiting for it: a number, or a
    /// range within which the pool then sizes itself.
    ///
    /// More workers take what is queued and let submitters in that wait. Fewer: idle ones go
    /// first, busy ones after their task; no task is lost or disturbed. A paused pool can be
    /// resized, a closed one too, so that it drains faster; one that shuts down can't.
    ///
    /// ```
    /// use tidegate::{Pool, Shutdown};
    ///
    /// let pool = Pool::builder("thumbnails").workers(2).build()?;
    /// pool.resize(8)?;
    /// pool.resize(1..=4)?; // from now on as the load asks
    /// assert!(pool.resize(0).is_err());
    /// pool.shutdown(Shutdown::default())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Everything else stays as it was built: the queue, `max_abandoned`, and the room for
    /// tasks that need no lock (with `queue(0)` and more workers than at first, some
    /// hand-overs take one).
    pub fn resize(&self, workers: impl Into<Workers>) -> Result<(), ResizeError> {
        let workers = workers.into();
        let core = self.core();
        let asked = Settings { workers: Some(workers), ..Settings::default() };
        asked.check().map_err(|error| ResizeError::Setting(error.of_pool(&core.name)))?;
        let (from, to) = {
            // Held, so that a shutdown comes before or after.
            let control = core.control.lock();
            if control.closing.is_some() {
                return Err(ResizeError::Closing);
            }
            let mut roster = core.roster.lock();
            roster.limits = workers;
            let from = core.target();
            let to = from.clamp(workers.min, workers.max);
            core.set_target(&mut roster, to);
            (from, to)
        };
        core.tell_resized(from, to);
        core.wake_supervisor();
        Ok(())
    }
}

/// What the supervisor keeps about the size of its pool.
#[derive(Debug, Default)]
pub(crate) struct Sizing {
    sizer: Sizer,
    gauge: Gauge,
    pace: Option<Duration>,
}

impl Sizing {
    /// How often the supervisor looks by itself, while it does.
    pub(crate) fn pace(&self) -> Option<Duration> {
        self.pace
    }
}

impl Core {
    /// W4: looks at the load and says how many workers there should be. When to look again.
    pub(crate) fn size(self: &Arc<Self>, now: Ticks, sizing: &mut Sizing) -> Ticks {
        sizing.pace = None;
        loop {
            let Some((rules, limits)) = self.sizing_rules() else {
                self.bell.disarm();
                sizing.sizer.forget();
                sizing.gauge.forget();
                return Ticks::NEVER;
            };
            let load = self.load(now, &rules, &mut sizing.gauge);
            let verdict = sizing.sizer.look(&rules, &load);
            if verdict.workers != load.workers {
                let mut roster = self.roster.lock();
                if self.target() != load.workers || roster.limits != limits {
                    continue; // somebody else has changed it, or what it may be
                }
                self.set_target(&mut roster, verdict.workers);
                let grows = verdict.workers > load.workers;
                let turned = roster.grew.replace(grows).is_some_and(|grew| grew != grows);
                self.ledger.size_turns.fetch_add(u64::from(turned), Relaxed);
                drop(roster);
                self.tell_resized(load.workers, verdict.workers);
            }
            if verdict.workers > load.workers || self.lot.idle() > 0 {
                self.hear_of_the_next_turned_away();
            }
            if !load.is_quiet() {
                self.bell.disarm();
                sizing.pace = (verdict.workers < rules.max).then_some(rules.pace());
                return verdict.look_at;
            }
            // Once more after it was armed: a task that came in between has not rung it.
            if self.bell.arm() {
                return verdict.look_at;
            }
        }
    }

    /// And the range that they were made of. None: nothing is to be decided.
    fn sizing_rules(&self) -> Option<(Rules, Workers)> {
        let limits = self.roster.lock().limits;
        let Workers { min, max } = limits;
        let flags = self.flags.load(SeqCst);
        let stopping = flags & STOPPING != 0;
        let over = stopping && self.queue.is_drained();
        if min == max || over || flags & PAUSED != 0 {
            return None;
        }
        let config = &self.config;
        // A pool that closes has no use for fewer.
        let (min, shrink_after) = match stopping {
            true => (min.max(self.target()), Duration::MAX),
            false => (min, config.shrink_after),
        };
        let (grow_after, cooldown) = (config.grow_after, config.resize_cooldown);
        let rules = Rules { min, max: max.max(min), grow_after, shrink_after, cooldown };
        Some((rules, limits))
    }

    fn load(&self, now: Ticks, rules: &Rules, gauge: &mut Gauge) -> Load {
        let (issued, entries, queued) = self.look_at_queue();
        let waiting = u64::from(self.lobby.waiting());
        let hand_over = self.queue.bound() == 0;
        let full = !hand_over && queued > 0 && (waiting > 0 || self.queue.room() == 0);
        // Entries that are all dead may stand for ever: nobody waits there.
        let left = if queued == 0 { 0 } else { entries };
        let line = Line { issued, head: issued.saturating_sub(left), full };
        let news = gauge.has_news(line);
        let waited = gauge.read(now, line, rules.grow_after / 4);
        let mut wanted = 0;
        if hand_over {
            wanted = waiting.max(u64::from(self.turned_away.load(SeqCst)));
            // Whoever is about to take one of them does not show as idle yet.
            wanted = wanted.saturating_sub(self.roster.lock().untried() as u64);
            if !waited.is_zero() {
                wanted += queued; // its worker went as it came
            }
        }
        let workers = self.target();
        let starting = workers.saturating_sub(self.live());
        let idle = (self.lot.idle() as usize).saturating_add(starting).min(workers);
        Load { now, queued, waited, wanted, news, workers, idle }
    }

    /// How many tasks ever came, how many entries are left, how many of these are alive. Of
    /// one moment if there is one; if not, the head looks younger than it is, never older.
    fn look_at_queue(&self) -> (u64, u64, u64) {
        const TRIES: usize = 4;
        let mut before = self.queue.accepted();
        for left in (0..TRIES).rev() {
            let (entries, queued) = self.queue.backlog();
            let issued = self.queue.accepted();
            if issued == before || left == 0 {
                return (issued, entries, queued);
            }
            before = issued;
        }
        unreachable!("the last try returns")
    }

    /// An offer found the pool full. Where there is no queue, nothing else would show that.
    pub(crate) fn turn_away(&self) {
        let heard = self.queue.bound() != 0 || self.turned_away.load(SeqCst);
        if !heard && !self.turned_away.swap(true, SeqCst) {
            self.wake_supervisor();
        }
    }

    /// Not while all are busy and nobody can be added: the next one would wake us for nothing.
    fn hear_of_the_next_turned_away(&self) {
        if self.turned_away.load(SeqCst) {
            self.turned_away.store(false, SeqCst);
        }
    }

    fn tell_resized(self: &Arc<Self>, from: usize, to: usize) {
        if from != to {
            self.tell_later(News::Resized { from, to });
        }
    }

    pub(crate) fn set_target(&self, roster: &mut Roster, workers: usize) {
        let before = self.target();
        roster.new_places = (roster.new_places + workers).saturating_sub(before);
        self.target.store(workers, SeqCst);
    }
}
