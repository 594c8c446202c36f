//! Names for things: tasks, workers, and the caller's own ids.

use std::fmt;
use std::sync::Arc;

/// The id of one accepted task, unique among the tasks of its pool.
///
/// You see it on a handle, in the roster, in reports, summaries and log lines;
/// use it to match those up, or to cancel the task by id. It says nothing about
/// order: a larger id is not a later task. Printed as two short hexadecimal
/// numbers, `t3a-12`.
///
/// For an id of your own (a request, a row) see [`ExternalId`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId {
    pub(crate) hi: u64,
    pub(crate) lo: u64,
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("t{:x}-{:x}", self.hi, self.lo))
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskId({self})")
    }
}

/// The id of a worker of one pool.
///
/// You see it in the roster, in worker hooks and in the context of a running
/// task; use it to stop or recycle that worker, or to pick per-worker data. The
/// worker's thread is named after it: worker 3 of pool `images` is `images-3`.
/// Ids of different pools overlap.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerId(pub(crate) u32);

impl WorkerId {
    /// The id as a number.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WorkerId({})", self.0)
    }
}

/// The caller's own id for a task: a row, a request, a trace.
///
/// Give one with `pool.task("resize").external_id(42_u64)`; it comes back in
/// summaries, reports and the task's context, so that a log line can be matched
/// with the thing that caused the work. The pool never interprets it and does
/// not ask that it be unique.
///
/// ```
/// use tidegate::ExternalId;
///
/// assert_eq!(ExternalId::from(42_u64).to_string(), "42");
/// assert_eq!(ExternalId::from("order-7").to_string(), "order-7");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ExternalId {
    /// A number, such as a row's key; printed in decimal.
    U64(u64),
    /// A wide number, such as a UUID or a trace id; printed as 32 hexadecimal digits.
    U128(u128),
    /// Text; printed as it is. Copies share it.
    Text(Arc<str>),
}

impl From<u64> for ExternalId {
    fn from(id: u64) -> Self {
        ExternalId::U64(id)
    }
}

impl From<u128> for ExternalId {
    fn from(id: u128) -> Self {
        ExternalId::U128(id)
    }
}

impl From<Arc<str>> for ExternalId {
    fn from(id: Arc<str>) -> Self {
        ExternalId::Text(id)
    }
}

impl From<&str> for ExternalId {
    fn from(id: &str) -> Self {
        ExternalId::Text(id.into())
    }
}

impl From<String> for ExternalId {
    fn from(id: String) -> Self {
        ExternalId::Text(id.into())
    }
}

impl fmt::Display for ExternalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExternalId::U64(id) => write!(f, "{id}"),
            ExternalId::U128(id) => write!(f, "{id:032x}"),
            ExternalId::Text(id) => f.write_str(id),
        }
    }
}

/// Which task it was: its id, its name and the caller's id for it.
///
/// You see it in the lists of a shutdown report. Printed as
/// `resize t4f3a-12 (order-7)`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct TaskInfo {
    /// The pool's id for the task.
    pub id: TaskId,
    /// The name given with `pool.task(name)`; may be empty.
    pub name: &'static str,
    /// The caller's id for it, if one was given.
    pub external_id: Option<ExternalId>,
}

impl fmt::Display for TaskInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.name.is_empty() {
            write!(f, "{} ", self.name)?;
        }
        write!(f, "{}", self.id)?;
        match &self.external_id {
            Some(external) => write!(f, " ({external})"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: TaskId = TaskId { hi: 0x4f3a, lo: 0x12 };

    #[test]
    fn task_ids_print_as_short_hex() {
        assert_eq!(ID.to_string(), "t4f3a-12");
        assert_eq!(format!("{ID:?}"), "TaskId(t4f3a-12)");
        assert_eq!(format!("[{ID:<10}]"), "[t4f3a-12  ]");
    }

    #[test]
    fn worker_ids_print_as_their_number() {
        assert_eq!(WorkerId(3).to_string(), "3");
        assert_eq!(WorkerId(3).index(), 3);
    }

    #[test]
    fn external_ids_print_as_their_owner_writes_them() {
        assert_eq!(ExternalId::from(7_u64).to_string(), "7");
        let trace = 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c_u128;
        assert_eq!(ExternalId::from(trace).to_string(), "0af7651916cd43dd8448eb211c80319c");
        for text in [ExternalId::from("a"), String::from("a").into(), Arc::<str>::from("a").into()]
        {
            assert_eq!(text.to_string(), "a");
        }
    }

    #[test]
    fn task_info_prints_what_it_has() {
        let mut info = TaskInfo { id: ID, name: "resize", external_id: Some("order-7".into()) };
        assert_eq!(info.to_string(), "resize t4f3a-12 (order-7)");
        info.external_id = None;
        info.name = "";
        assert_eq!(info.to_string(), "t4f3a-12");
    }
}
