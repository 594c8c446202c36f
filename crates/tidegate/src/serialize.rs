//! Snapshots and reports through serde, by hand: each field is named once, and one that is
//! forgotten does not compile.
//!
//! For people's tools: durations are seconds, ids and states are the texts that are printed.

use serde::ser::{Serialize, SerializeMap, SerializeStruct, Serializer};

use crate::diagnosis::{Diagnosis, Evidence, Measure, Verdict};
use crate::histogram::Histogram;
use crate::ids::{ExternalId, TaskInfo};
use crate::report::Report;
use crate::snapshot::{LongPoll, Refusals, Snapshot, WorkerInfo, WorkerState};
use crate::times::TaskTimes;

macro_rules! fields {
    ($type:ident { $($field:ident $($how:ident)?),* $(,)? }) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let $type { $($field),* } = self;
                let count = [$(stringify!($field)),*].len();
                let mut out = serializer.serialize_struct(stringify!($type), count)?;
                $(out.serialize_field(stringify!($field), fields!(= $field $($how)?))?;)*
                out.end()
            }
        }
    };
    (= $field:ident) => { $field };
    (= $field:ident text) => { &$field.to_string() };
    (= $field:ident seconds) => { &$field.as_secs_f64() };
}

fields!(Snapshot {
    pool text, state text, uptime seconds, accepted, refused, queued, running, completed, failed, panicked,
    timed_out, cancelled, evicted, abandoned, on_caller, nested, stuck, blocked_workers, longest_poll, late_returns, items,
    callback_panics, drop_panics, hook_panics, worker_restarts, size_turns, workers, live_workers, starting_workers,
    idle_workers, queue_capacity, waiting_submitters, waiting_for_budget, submit_wait, budget_wait seconds, queue_wait, run_time, tasks,
    busy seconds, worker_time seconds, roster,
});

fields!(Refusals {
    full,
    timed_out,
    cancelled,
    closed,
    would_deadlock,
    over_budget,
    too_heavy,
    spawn_failed,
});

fields!(TaskTimes { name text, submit_wait, queue_wait, run_time });

fields!(LongPoll { name, id text, worker text, lasts seconds });

fields!(WorkerInfo { id text, state, started, panicked, restarts });

fields!(TaskInfo { id text, name, external_id });

fields!(Report {
    mode text, duration seconds, in_time, complete, completed, failed, panicked, timed_out,
    cancelled, evicted, abandoned, cancelled_tasks, still_running, still_borrowing,
    workers_lost, abandoned_workers, threads_joined,
});

fields!(Diagnosis { pool text, state text, verdict text, also, limited_by_budget, window seconds, evidence });

/// The word.
impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fields!(Evidence { what, value });

/// A number, in seconds for a time, or the text.
impl Serialize for Measure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Measure::Count(count) => serializer.serialize_u64(*count),
            Measure::Share(share) => serializer.serialize_f64(*share),
            Measure::Time(time) => serializer.serialize_f64(time.as_secs_f64()),
            Measure::Text(text) => serializer.serialize_str(text),
        }
    }
}

impl Serialize for ExternalId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What there is beside the word differs.
impl Serialize for WorkerState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_map(None)?;
        let mut is = |word: &str| out.serialize_entry("is", word);
        match self {
            WorkerState::Starting => is("starting")?,
            WorkerState::Idle => is("idle")?,
            WorkerState::Stopping => is("stopping")?,
            WorkerState::Stuck => is("stuck")?,
            WorkerState::Running { name, id, since } => {
                is("running")?;
                out.serialize_entry("task", name)?;
                out.serialize_entry("id", &id.to_string())?;
                out.serialize_entry("since", &since.as_secs_f64())?;
            }
            WorkerState::Restarting { after, cause } => {
                is("restarting")?;
                out.serialize_entry("after", &after.as_secs_f64())?;
                out.serialize_entry("cause", cause)?;
            }
            WorkerState::Ended { cause } => {
                is("ended")?;
                out.serialize_entry("cause", cause)?;
            }
        }
        out.end()
    }
}

/// With its usual quantiles, and the buckets as `[end, count]`; `null` is no end.
impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let seconds = |time: std::time::Duration| {
            (time != std::time::Duration::MAX).then_some(time.as_secs_f64())
        };
        let quantile = |share| self.quantile(share).and_then(seconds);
        let buckets: Vec<_> = self.buckets().map(|(end, count)| (seconds(end), count)).collect();
        let mut out = serializer.serialize_struct("Histogram", 7)?;
        out.serialize_field("count", &self.count())?;
        out.serialize_field("samples", &self.samples())?;
        out.serialize_field("sum", &self.sum().as_secs_f64())?;
        out.serialize_field("p50", &quantile(0.5))?;
        out.serialize_field("p90", &quantile(0.9))?;
        out.serialize_field("p99", &quantile(0.99))?;
        out.serialize_field("buckets", &buckets)?;
        out.end()
    }
}

#[cfg(all(test, feature = "json", not(any(tidegate_loom, tidegate_shuttle))))]
mod tests {
    use crate::{Pool, Shutdown};

    #[test]
    fn a2_a_snapshot_is_plain_json() {
        let pool = Pool::builder("plain").workers(1).build().unwrap();
        let task = pool.task("named").external_id("order-7").submit(|_| 5).unwrap();
        assert_eq!(task.wait().unwrap(), 5);
        pool.wait_idle().unwrap();
        let json = serde_json::to_value(pool.snapshot()).unwrap();
        assert_eq!((&json["pool"], &json["state"]), (&"plain".into(), &"running".into()));
        assert_eq!((&json["completed"], &json["refused"]["full"]), (&1.into(), &0.into()));
        assert_eq!(json["tasks"][0]["name"], "named");
        assert_eq!(json["tasks"][0]["run_time"]["count"], 1);
        assert!(json["tasks"][0]["run_time"]["p99"].as_f64().unwrap() < 60.0);
        assert_eq!(json["roster"][0]["id"], "0");
        assert!(json["worker_time"].as_f64().unwrap() > 0.0);
        let diagnosis = serde_json::to_value(pool.diagnose()).unwrap();
        assert_eq!(diagnosis["verdict"], "healthy");
        assert_eq!(diagnosis["evidence"][0]["value"], 1);
        let report = serde_json::to_value(pool.shutdown(Shutdown::default()).unwrap()).unwrap();
        assert_eq!((&report["mode"], &report["complete"]), (&"light".into(), &true.into()));
    }
}
