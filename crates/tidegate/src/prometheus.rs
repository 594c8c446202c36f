//! Snapshots as Prometheus text (V1, feature `prometheus`).
//!
//! `families.rs` says what there is, a row each; `page.rs` how it is written; here is who is
//! shown. An exporter reads what everybody can read and holds nothing: neither a pool nor a
//! budget lives longer for it.

mod families;
mod page;

use std::error::Error;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::any_pool::AnyPool;
use crate::budget::{Budget, WeakBudget};
use crate::core::Core;
use crate::pool::Owner;
use crate::snapshot::{PoolState, Snapshot};
use crate::sync::Lock;

use families::{BUDGET, POOL};
use page::{Page, clean};

/// Pools and budgets as Prometheus reads them: text format 0.0.4.
///
/// ```
/// use tidegate::{Exporter, Pool, Shutdown};
///
/// let pool = Pool::builder("images").workers(2).build()?;
/// let exporter = Exporter::new();
/// exporter.add(&pool)?;
/// pool.submit(|| ())?.wait()?;
/// // Serve it under /metrics, with `Exporter::CONTENT_TYPE`.
/// let page = exporter.render();
/// assert!(page.contains("tidegate_queue_capacity{pool=\"images\"} 1000"));
/// pool.shutdown(Shutdown::default())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Every series carries the name of its pool or budget, and two that live at once cannot have
/// the same: [`add`](Exporter::add) refuses the second. It keeps nothing alive. A pool is shown
/// until its last [`Pool`](crate::Pool) is dropped and what it had accepted has drained.
///
/// The number of series is bounded: 105 per pool, 18 more for each name of a task, of which 65
/// are kept apart (64, and `other`): at most 1,275. A budget has 5.
///
/// `ops/` in the repository has alert rules and a Grafana dashboard for these names.
///
/// Clones are the same exporter. Price: a [`snapshot`](crate::Pool::snapshot) of each pool for a page;
/// nothing in between.
#[derive(Clone, Default)]
pub struct Exporter {
    shown: Arc<Lock<Shown>>,
}

#[derive(Default)]
struct Shown {
    pools: Vec<PoolEntry>,
    budgets: Vec<BudgetEntry>,
}

struct PoolEntry {
    name: Arc<str>,
    owner: Weak<Owner>,
    core: Weak<Core>,
    floor: Arc<Lock<Floor>>,
}

struct BudgetEntry {
    /// As it is shown, which is what must not come twice.
    name: Arc<str>,
    budget: WeakBudget,
}

impl Exporter {
    /// What to send as `Content-Type` with a page.
    pub const CONTENT_TYPE: &'static str = "text/plain; version=0.0.4; charset=utf-8";

    /// Shows nothing yet.
    #[must_use]
    pub fn new() -> Exporter {
        Exporter::default()
    }

    /// Shows a pool from now on. Refused if another one of that name is there and has not
    /// stopped; adding the same pool again changes nothing.
    pub fn add<P: AnyPool + ?Sized>(&self, pool: &P) -> Result<(), NameTaken> {
        let (owner, core) = (pool.owner(), pool.owner().core());
        let name = clean(&core.name);
        // Dropped after the lock: what was shared last may run destructors of hooks.
        let held;
        let mut shown = self.shown.lock();
        if let Some(at) = shown.pools.iter().position(|entry| *entry.name == *name) {
            let entry = &shown.pools[at];
            if std::ptr::eq(entry.core.as_ptr(), Arc::as_ptr(core)) {
                return Ok(());
            }
            held = entry.core.upgrade();
            let stopped = |core: &Arc<Core>| matches!(core.state(), PoolState::Stopped { .. });
            if entry.owner.strong_count() > 0 && !held.as_ref().is_none_or(stopped) {
                return Err(NameTaken { kind: "pool", name: name.into() });
            }
            shown.pools.swap_remove(at);
        }
        shown.pools.push(PoolEntry {
            name: name.into(),
            owner: Arc::downgrade(owner),
            core: Arc::downgrade(core),
            floor: Arc::default(),
        });
        Ok(())
    }

    /// Shows a budget from now on. Refused if another one of that name is there; adding the
    /// same again changes nothing.
    pub fn add_budget(&self, budget: &Budget) -> Result<(), NameTaken> {
        let name = clean(budget.name());
        let mut shown = self.shown.lock();
        shown.budgets.retain(|entry| entry.budget.is_alive());
        match shown.budgets.iter().find(|entry| *entry.name == *name) {
            Some(entry) if entry.budget.is(budget) => Ok(()),
            Some(_) => Err(NameTaken { kind: "budget", name: name.into() }),
            None => {
                let budget = budget.downgrade();
                shown.budgets.push(BudgetEntry { name: name.into(), budget });
                Ok(())
            }
        }
    }

    /// The page as of now.
    #[must_use]
    pub fn render(&self) -> String {
        // Under the lock only who is there; they are asked after it.
        let (pools, budgets) = {
            let mut shown = self.shown.lock();
            shown.pools.retain(|entry| entry.core.strong_count() > 0);
            shown.budgets.retain(|entry| entry.budget.is_alive());
            let pools = shown.pools.iter().filter_map(|entry| {
                let owned = entry.owner.strong_count() > 0;
                let (name, floor) = (Arc::clone(&entry.name), Arc::clone(&entry.floor));
                entry.core.upgrade().map(|core| (name, core, owned, floor))
            });
            let budgets = shown.budgets.iter().filter_map(|entry| {
                entry.budget.upgrade().map(|budget| (Arc::clone(&entry.name), budget))
            });
            (pools.collect::<Vec<_>>(), budgets.collect::<Vec<_>>())
        };
        let mut snapshots = Vec::with_capacity(pools.len());
        for (name, core, owned, floor) in pools {
            let mut snapshot = core.snapshot();
            let over = snapshot.state == PoolState::Stopped { complete: true };
            if owned || !over {
                floor.lock().raise(&mut snapshot);
                snapshots.push((name, snapshot));
            }
        }
        let budgets = budgets.into_iter().map(|(name, budget)| (name, budget.reading()));
        page(snapshots, budgets.collect())
    }
}

fn page(
    mut pools: Vec<(Arc<str>, Snapshot)>,
    mut budgets: Vec<(Arc<str>, crate::budget::BudgetReading)>,
) -> String {
    pools.sort_by(|a, b| a.0.cmp(&b.0));
    budgets.sort_by(|a, b| a.0.cmp(&b.0));
    let mut page = Page::default();
    for family in POOL {
        page.family(family, "pool", &pools);
    }
    for family in BUDGET {
        page.family(family, "budget", &budgets);
    }
    page.into_text()
}

/// What was shown last, of what a snapshot derives from two readings. It may then be a little
/// less than before, and Prometheus takes a counter that falls for one that began anew.
#[derive(Default)]
struct Floor {
    submits_without_wait: u64,
    busy: Duration,
    worker_time: Duration,
}

impl Floor {
    fn raise(&mut self, snapshot: &mut Snapshot) {
        let without_wait = snapshot.submit_wait.below(families::FIRST_END);
        let missing = self.submits_without_wait.saturating_sub(without_wait);
        snapshot.submit_wait.add_none(missing);
        self.submits_without_wait = without_wait + missing;
        snapshot.busy = snapshot.busy.max(self.busy);
        self.busy = snapshot.busy;
        snapshot.worker_time = snapshot.worker_time.max(self.worker_time);
        self.worker_time = snapshot.worker_time;
    }
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.shown.lock();
        let pools: Vec<_> = shown.pools.iter().map(|entry| &entry.name).collect();
        let budgets: Vec<_> = shown.budgets.iter().map(|entry| &entry.name).collect();
        f.debug_struct("Exporter").field("pools", &pools).field("budgets", &budgets).finish()
    }
}

/// Why an [`Exporter`] did not take a pool or a budget: its name belongs to another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameTaken {
    kind: &'static str,
    name: Arc<str>,
}

impl NameTaken {
    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for NameTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NameTaken { kind, name } = self;
        write!(f, "another {kind} named {name:?} is exported and still there: ")?;
        write!(f, "their series would be one, so give one of them another name")
    }
}

impl Error for NameTaken {}

#[cfg(all(test, not(tidegate_shuttle)))]
mod tests;
