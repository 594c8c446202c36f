//! What there is to see: a row for each family of series, in the order of the page.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::page::{Series, clean};
use crate::budget::BudgetReading;
use crate::histogram::Histogram;
use crate::snapshot::{PoolState, Snapshot, WorkerState};

/// Where the buckets end, as powers of two nanoseconds: from 1 µs to 137 s, where ours end too.
pub(super) const ENDS: &[u32] = &[10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34, 36, 37];
pub(super) const FIRST_END: u32 = ENDS[0];

pub(super) struct Family<T: 'static> {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) help: &'static str,
    pub(super) write: fn(&T, &mut Series<'_>),
}

#[derive(Clone, Copy)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}
use Kind::{Counter, Gauge};

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Counter => "counter",
            Gauge => "gauge",
            Kind::Histogram => "histogram",
        })
    }
}

const fn family<T>(
    name: &'static str,
    kind: Kind,
    help: &'static str,
    write: fn(&T, &mut Series<'_>),
) -> Family<T> {
    Family { name, kind, help, write }
}

pub(super) const POOL: &[Family<Snapshot>] = &[
    family("tidegate_accepted_total", Counter, "Tasks accepted.", |pool, out| {
        out.count(pool.accepted);
    }),
    family("tidegate_tasks_total", Counter, "Tasks settled, by outcome.", |pool, out| {
        out.each("outcome", pool.outcomes());
    }),
    family("tidegate_refused_total", Counter, "Work handed back, by reason.", |pool, out| {
        out.each("reason", pool.refused.reasons());
    }),
    family("tidegate_running_tasks", Gauge, "Tasks started and not settled.", |pool, out| {
        out.count(pool.running);
    }),
    family("tidegate_queue_depth", Gauge, "Tasks that wait in the queue.", |pool, out| {
        out.count(pool.queued);
    }),
    family("tidegate_queue_capacity", Gauge, "The most tasks that may wait.", |pool, out| {
        out.count(pool.queue_capacity);
    }),
    family(
        "tidegate_waiting_submitters",
        Gauge,
        "Threads and futures that wait in a submit.",
        |pool, out| {
            out.count(pool.waiting_submitters);
        },
    ),
    family(
        "tidegate_waiting_for_budget",
        Gauge,
        "Those of the waiting submitters that wait for a budget.",
        |pool, out| out.count(pool.waiting_for_budget),
    ),
    family(
        "tidegate_budget_wait_seconds_total",
        Counter,
        "How long accepted tasks waited for budgets, all together.",
        |pool, out| out.seconds(pool.budget_wait),
    ),
    family("tidegate_workers", Gauge, "Workers, by what they do.", |pool, out| {
        out.each("state", worker_states(pool));
    }),
    family("tidegate_live_workers", Gauge, "Workers alive and not stuck.", |pool, out| {
        out.count(pool.live_workers);
    }),
    family("tidegate_target_workers", Gauge, "Workers there should be.", |pool, out| {
        out.count(pool.workers);
    }),
    family(
        "tidegate_stuck_workers",
        Gauge,
        "Workers whose task was abandoned and has not returned.",
        |pool, out| out.count(pool.stuck),
    ),
    family(
        "tidegate_blocked_workers",
        Gauge,
        "Workers in one poll of a future for 100 ms or more; each keeps a thread of the runtime.",
        |pool, out| out.count(pool.blocked_workers),
    ),
    family(
        "tidegate_longest_poll_seconds",
        Gauge,
        "The longest of the polls that keep a worker for 100 ms or more; 0 if there is none.",
        |pool, out| out.seconds(pool.longest_poll.map_or(Duration::ZERO, |poll| poll.lasts)),
    ),
    family(
        "tidegate_worker_restarts_total",
        Counter,
        "Workers started again after one was lost.",
        |pool, out| out.count(pool.worker_restarts),
    ),
    family(
        "tidegate_size_turns_total",
        Counter,
        "Times the pool grew after it had shrunk, or shrank after it had grown.",
        |pool, out| out.count(pool.size_turns),
    ),
    family(
        "tidegate_worker_busy_seconds_total",
        Counter,
        "Time of workers in tasks, all together.",
        |pool, out| out.seconds(pool.busy),
    ),
    family(
        "tidegate_worker_seconds_total",
        Counter,
        "Time of workers, all together; the busy part of it is the utilisation.",
        |pool, out| out.seconds(pool.worker_time),
    ),
    family(
        "tidegate_abandoned_tasks",
        Gauge,
        "Abandoned tasks whose code has not returned.",
        |pool, out| out.count(pool.abandoned.saturating_sub(pool.late_returns)),
    ),
    family(
        "tidegate_late_returns_total",
        Counter,
        "Abandoned tasks whose code has returned since.",
        |pool, out| out.count(pool.late_returns),
    ),
    family(
        "tidegate_started_elsewhere_total",
        Counter,
        "Tasks started outside the queue's workers: on a caller's thread, or inside a task.",
        |pool, out| out.each("where", [("caller", pool.on_caller), ("task", pool.nested)]),
    ),
    family("tidegate_items_total", Counter, "Items that map_slice has run.", |pool, out| {
        out.count(pool.items);
    }),
    family(
        "tidegate_side_panics_total",
        Counter,
        "Panics outside of tasks: in callbacks, destructors and hooks.",
        |pool, out| {
            let (callback, drop) = (pool.callback_panics, pool.drop_panics);
            out.each("where", [("callback", callback), ("drop", drop), ("hook", pool.hook_panics)]);
        },
    ),
    family("tidegate_pool_state", Gauge, "1 for the state that the pool is in.", |pool, out| {
        out.each("state", pool_states(pool.state));
    }),
    family(
        "tidegate_submit_wait_seconds",
        Kind::Histogram,
        "From the offer to the acceptance; most take no time.",
        |pool, out| out.histogram(None, &pool.submit_wait),
    ),
    family(
        "tidegate_queue_wait_seconds",
        Kind::Histogram,
        "From the acceptance to the start. Sampled while tasks take less than 20 µs: one in 64 \
         then stands for all.",
        |pool, out| out.histogram(None, &pool.queue_wait),
    ),
    family(
        "tidegate_run_duration_seconds",
        Kind::Histogram,
        "From the start to the return, of all tasks. Sampled while they take less than a \
         microsecond: the mean of up to 32 then stands for each.",
        |pool, out| out.histogram(None, &pool.run_time),
    ),
    family(
        "tidegate_task_duration_seconds",
        Kind::Histogram,
        "From the start to the return, of tasks with a name; the 65th and later names are \
         other. Never sampled.",
        |pool, out| {
            for (name, run_time) in by_name(pool) {
                out.histogram(Some(("task", &name)), &run_time);
            }
        },
    ),
];

pub(super) const BUDGET: &[Family<BudgetReading>] = &[
    family("tidegate_budget_capacity", Gauge, "The whole; of a rate, the burst.", |budget, out| {
        out.count(budget.capacity);
    }),
    family("tidegate_budget_in_use", Gauge, "What is held; 0 of a rate.", |budget, out| {
        out.count(budget.in_use);
    }),
    family("tidegate_budget_available", Gauge, "What can be taken now.", |budget, out| {
        out.count(budget.available);
    }),
    family("tidegate_budget_waiting", Gauge, "How many wait for it.", |budget, out| {
        out.count(budget.waiting);
    }),
    family(
        "tidegate_budget_held_by_abandoned",
        Gauge,
        "What is held by abandoned tasks whose code still runs.",
        |budget, out| out.count(budget.held_by_abandoned),
    ),
];

/// Those that are there; who has ended is none of them.
fn worker_states(pool: &Snapshot) -> [(&'static str, u64); 6] {
    let mut states =
        ["starting", "idle", "running", "stopping", "stuck", "restarting"].map(|name| (name, 0));
    for worker in &pool.roster {
        let at = match worker.state {
            WorkerState::Starting => 0,
            WorkerState::Idle => 1,
            WorkerState::Running { .. } => 2,
            WorkerState::Stopping => 3,
            WorkerState::Stuck => 4,
            WorkerState::Restarting { .. } => 5,
            WorkerState::Ended { .. } => continue,
        };
        states[at].1 += 1;
    }
    states
}

fn pool_states(state: PoolState) -> [(&'static str, u64); 6] {
    let now = match state {
        PoolState::Running => "running",
        PoolState::Paused => "paused",
        PoolState::Closed => "closed",
        PoolState::Closing(_) => "closing",
        PoolState::Stopped { complete: true } => "stopped",
        PoolState::Stopped { complete: false } => "incomplete",
    };
    ["running", "paused", "closed", "closing", "stopped", "incomplete"]
        .map(|name| (name, u64::from(name == now)))
}

/// One series a name: a task may really be called `other`.
fn by_name(pool: &Snapshot) -> BTreeMap<Cow<'_, str>, Histogram> {
    let mut names = BTreeMap::<_, Histogram>::new();
    for task in &pool.tasks {
        names.entry(clean(&task.name)).or_default().add_all(&task.run_time);
    }
    names
}
