//! What the model is played on.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tidegate::{Budget, Builder, Handle, Pool, Reason, Report, Shutdown, TaskError, Token};

use super::script::Script;

pub(crate) type Outcome = Result<u32, TaskError<&'static str>>;

/// Gives a handle, or none for a member.
pub(crate) type Submission =
    Pin<Box<dyn Future<Output = Result<Option<Handle<u32, &'static str>>, Reason>>>>;

/// What a task is offered with.
#[allow(dead_code, reason = "where only threads can wait, nobody does")]
#[derive(Clone, Default)]
pub(crate) struct Terms {
    /// In the queue and of the run.
    pub(crate) limits: Option<(Duration, Duration)>,
    pub(crate) budget: Option<(Budget, u64)>,
    /// How long its submission waits.
    pub(crate) patience: Option<Duration>,
    pub(crate) token: Token,
}

/// Puts limits and budget on a task, whoever's it is.
macro_rules! on_terms {
    ($task:expr, $terms:expr) => {{
        let mut task = $task;
        if let Some((queue, run)) = $terms.limits {
            task = task.timeout(run).queue_timeout(queue);
        }
        if let Some((budget, weight)) = &$terms.budget {
            task = task.budget(budget, *weight);
        }
        task
    }};
}
pub(crate) use on_terms;

/// A kind of pool, and what drives it.
pub(crate) trait Ground: Sized {
    type Pool;
    type Group;
    type Closing;
    /// What is told to stop is dropped at its next await; a closure goes on.
    const DROPS: bool;

    fn build(builder: Builder) -> (Self, Self::Pool);
    fn pool(pool: &Self::Pool) -> &Pool;
    /// Lets others go on for a moment. No time passes.
    fn go_on(&self);
    fn advance(&self, by: Duration);

    fn try_submit(
        pool: &Self::Pool,
        script: Script,
        terms: &Terms,
    ) -> Result<Handle<u32, &'static str>, Reason>;
    fn outcome(&self, handle: Handle<u32, &'static str>) -> Outcome;
    /// None where only threads can wait for room.
    fn line_up(_pool: &Self::Pool, _script: Script, _terms: Terms) -> Option<Submission> {
        None
    }

    /// It collects all failures.
    fn group(pool: &Self::Pool, limit: usize) -> Self::Group;
    fn try_member(group: &Self::Group, script: Script) -> Result<(), Reason>;
    fn line_up_member(_group: &Self::Group, _script: Script) -> Option<Submission> {
        None
    }
    fn cancel_group(group: &Self::Group);
    fn unsettled(group: &Self::Group) -> usize;
    /// Waits for it: the number of failures.
    fn conclude(&self, group: &Self::Group) -> usize;

    /// Begins it, and does not wait.
    fn shut_down(pool: &Self::Pool, how: Shutdown) -> Self::Closing;
    fn report(&self, closing: Self::Closing) -> Report;
}
