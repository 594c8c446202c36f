#![cfg_attr(not(tidegate_loom), doc = include_str!("../README.md"))]
// Under loom only the data plane is built, and only its models call it.
#![cfg_attr(
    tidegate_loom,
    allow(dead_code, unreachable_pub, missing_docs, missing_debug_implementations)
)]

mod bell;
mod cell;
mod clock;
mod counter;
mod fences;
mod ids;
mod job;
mod life;
mod limits;
mod lobby;
mod lot;
#[cfg(all(test, tidegate_loom))]
mod models;
mod outcome;
mod panics;
mod parker;
mod publish;
mod queue;
mod ranges;
mod ring;
mod sync;
mod text;
mod turns;
mod watch;

#[cfg(not(tidegate_loom))]
mod admission;
#[cfg(all(any(feature = "prometheus", feature = "top"), not(tidegate_loom)))]
mod any_pool;
#[cfg(not(tidegate_loom))]
mod awaited;
#[cfg(any(tidegate_loom, all(feature = "tokio", not(tidegate_shuttle))))]
mod away_watch;
#[cfg(not(tidegate_loom))]
mod batch;
#[cfg(not(tidegate_loom))]
mod budget;
#[cfg(not(tidegate_loom))]
mod builder;
#[cfg(not(tidegate_loom))]
mod bulk;
#[cfg(doctest)]
mod compile_fail;
/// Its code must run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/migrate.md")]
mod migrate {}
/// So must its code.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/operate.md")]
mod operate_document {}
/// So must its code.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/performance.md")]
mod performance_document {}
/// So must its code.
#[cfg(all(doctest, feature = "toml"))]
#[doc = include_str!("../../../docs/settings.md")]
mod settings_document {}
/// So must its code.
#[cfg(all(doctest, feature = "tokio"))]
#[doc = include_str!("../../../docs/migrate-async.md")]
mod migrate_async {}
/// So must its code.
#[cfg(all(doctest, feature = "tokio"))]
#[doc = include_str!("../../../docs/test-your-code.md")]
mod test_your_code {}
#[cfg(not(tidegate_loom))]
mod completed;
#[cfg(not(tidegate_loom))]
mod config;
#[cfg(not(tidegate_loom))]
mod core;
#[cfg(not(tidegate_loom))]
mod cx;
#[cfg(not(tidegate_loom))]
mod decide;
#[cfg(not(tidegate_loom))]
mod depot;
#[cfg(not(tidegate_loom))]
mod diagnosis;
#[cfg(not(tidegate_loom))]
mod driver;
#[cfg(not(tidegate_loom))]
mod event;
#[cfg(not(tidegate_loom))]
mod extras;
#[cfg(not(tidegate_loom))]
mod first_failure;
#[cfg(not(tidegate_loom))]
mod frames;
#[cfg(not(tidegate_loom))]
mod gauge;
#[cfg(not(tidegate_loom))]
mod group;
#[cfg(not(tidegate_loom))]
mod group_error;
#[cfg(not(tidegate_loom))]
mod handle;
#[cfg(not(tidegate_loom))]
mod histogram;
#[cfg(not(tidegate_loom))]
mod holding;
#[cfg(not(tidegate_loom))]
mod ledger;
#[cfg(not(tidegate_loom))]
mod line;
#[cfg(not(tidegate_loom))]
mod map;
#[cfg(not(tidegate_loom))]
mod map_error;
#[cfg(not(tidegate_loom))]
mod members;
#[cfg(not(tidegate_loom))]
mod nest;
#[cfg(not(tidegate_loom))]
mod observe;
#[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
mod on_tokio;
#[cfg(not(tidegate_loom))]
mod order;
#[cfg(not(tidegate_loom))]
mod pace;
#[cfg(not(tidegate_loom))]
mod permits;
#[cfg(not(tidegate_loom))]
mod poll_watch;
#[cfg(not(tidegate_loom))]
mod pool;
#[cfg(not(tidegate_loom))]
mod pot;
#[cfg(all(feature = "prometheus", not(tidegate_loom)))]
mod prometheus;
#[cfg(not(tidegate_loom))]
mod reaper;
#[cfg(not(tidegate_loom))]
mod refused;
#[cfg(not(tidegate_loom))]
mod report;
#[cfg(not(tidegate_loom))]
mod resize;
#[cfg(not(tidegate_loom))]
mod roll;
#[cfg(not(tidegate_loom))]
mod roster;
#[cfg(not(tidegate_loom))]
mod scope;
#[cfg(not(tidegate_loom))]
mod scoped_task;
#[cfg(not(tidegate_loom))]
mod second;
#[cfg(all(feature = "serde", not(tidegate_loom)))]
mod serialize;
#[cfg(not(tidegate_loom))]
mod settings;
#[cfg(not(tidegate_loom))]
mod settle;
#[cfg(not(tidegate_loom))]
mod short_way;
#[cfg(not(tidegate_loom))]
mod shutdown;
#[cfg(all(feature = "signal", not(any(tidegate_loom, tidegate_shuttle))))]
mod signal;
#[cfg(not(tidegate_loom))]
mod sizing;
#[cfg(not(tidegate_loom))]
mod slice;
#[cfg(not(tidegate_loom))]
mod slot;
#[cfg(not(tidegate_loom))]
mod snapshot;
#[cfg(not(tidegate_loom))]
mod spawn;
#[cfg(not(tidegate_loom))]
mod stamps;
#[cfg(not(tidegate_loom))]
mod steer;
#[cfg(not(tidegate_loom))]
mod stream;
#[cfg(not(tidegate_loom))]
mod submit_async;
#[cfg(not(tidegate_loom))]
mod supervisor;
#[cfg(not(tidegate_loom))]
mod supply;
#[cfg(not(tidegate_loom))]
mod symptoms;
#[cfg(not(tidegate_loom))]
mod task;
#[cfg(not(tidegate_loom))]
mod testing;
#[cfg(not(tidegate_loom))]
mod times;
#[cfg(not(tidegate_loom))]
mod token;
#[cfg(all(feature = "top", not(tidegate_loom)))]
mod top;
#[cfg(all(feature = "tower", not(any(tidegate_loom, tidegate_shuttle))))]
mod tower;
#[cfg(not(tidegate_loom))]
mod trace;
#[cfg(not(tidegate_loom))]
mod unobserved;
#[cfg(not(tidegate_loom))]
mod wait_error;
#[cfg(not(tidegate_loom))]
mod waiting;
#[cfg(not(tidegate_loom))]
mod wake_ups;
#[cfg(not(tidegate_loom))]
mod worker;

#[cfg(not(tidegate_loom))]
mod public {
    #[cfg(any(feature = "prometheus", feature = "top"))]
    pub use crate::any_pool::AnyPool;
    pub use crate::batch::Batch;
    pub use crate::budget::{Acquire, Budget, BudgetError, Permit};
    pub use crate::builder::Builder;
    pub use crate::bulk::Unspawned;
    pub use crate::clock::{Clock, ManualClock};
    pub use crate::config::{BuildError, Inside, WhenFull, Workers};
    pub use crate::cx::Cx;
    pub use crate::diagnosis::{Diagnosis, Evidence, Measure, Verdict};
    pub use crate::group::{Group, GroupBuilder};
    pub use crate::group_error::GroupError;
    pub use crate::handle::{CancelOnDrop, Handle};
    pub use crate::histogram::Histogram;
    pub use crate::ids::{ExternalId, TaskId, TaskInfo, WorkerId};
    pub use crate::map::{Map, MapAsCompleted};
    pub use crate::map_error::MapError;
    #[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
    pub use crate::on_tokio::{
        AsyncCompletions, AsyncGroup, AsyncGroupBuilder, AsyncMap, AsyncMapAsCompleted, AsyncPool,
        AsyncTask,
    };
    pub use crate::order::{Drain, shutdown_in_order};
    pub use crate::outcome::{Cause, OutcomeKind, Stop, Summary, TaskError, TimedOut};
    pub use crate::panics::{Panic, capture_backtraces};
    pub use crate::pool::{Pool, ShutdownFuture};
    #[cfg(feature = "prometheus")]
    pub use crate::prometheus::{Exporter, NameTaken};
    pub use crate::refused::{Reason, Refused};
    pub use crate::report::{Mode, Report, Shutdown, ShutdownError};
    pub use crate::resize::ResizeError;
    pub use crate::scope::{Scope, ScopedHandle, ScopedWaitError};
    pub use crate::scoped_task::ScopedTask;
    pub use crate::settings::{SettingError, Settings};
    #[cfg(all(feature = "signal", not(tidegate_shuttle)))]
    pub use crate::signal::SignalGuard;
    pub use crate::slice::SliceError;
    pub use crate::snapshot::{LongPoll, PoolState, Refusals, Snapshot, WorkerInfo, WorkerState};
    pub use crate::steer::{StopWorker, WorkerError};
    pub use crate::stream::{Completion, Completions};
    pub use crate::task::Task;
    pub use crate::times::TaskTimes;
    pub use crate::token::{Cancelled, Token};
    #[cfg(feature = "top")]
    pub use crate::top::Top;
    #[cfg(all(feature = "tower", not(any(tidegate_loom, tidegate_shuttle))))]
    pub use crate::tower::{
        BudgetLayer, BudgetService, PoolLayer, PoolService, ServiceError, ServiceFuture,
    };
    pub use crate::unobserved::{Unobserved, UnobservedKind};
    pub use crate::wait_error::{WaitError, WaitReason};
}
#[cfg(not(tidegate_loom))]
pub use public::*;
