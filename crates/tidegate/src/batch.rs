//! Batch mode: a full set in, all outcomes out, the pool gone.

use crate::admission::Patience;
use crate::builder::Builder;
use crate::config::BuildError;
use crate::job::Fallible;
use crate::outcome::TaskError;
use crate::report::{Report, Shutdown};
use crate::task::Offer;

/// What came of a batch: every outcome, in the order of the tasks.
#[derive(Debug)]
#[non_exhaustive]
pub struct Batch<T, E> {
    /// One for each task that was given, in order.
    pub outcomes: Vec<Result<T, TaskError<E>>>,
    /// The positions of those that did not run to their own end: cancelled, timed out,
    /// evicted or abandoned.
    pub unfinished: Vec<usize>,
    /// How the pool ended.
    pub report: Report,
}

impl<T, E> Batch<T, E> {
    /// Done: every task ran to its own end (a value, an error or a panic) and the pool is
    /// gone. Otherwise it is incomplete, and `unfinished` says what is missing.
    pub fn is_done(&self) -> bool {
        self.unfinished.is_empty() && self.report.complete
    }
}

impl Builder<()> {
    /// Runs all `tasks` on a pool of their own and ends it, in the way `how` says; a limit
    /// (`.within`) counts from the start of the batch. The pool's full-queue policy does not
    /// matter: a batch waits for room.
    ///
    /// ```
    /// use tidegate::{Pool, Shutdown};
    ///
    /// let tasks = (1..=4u64).map(|n| move || if n == 3 { Err("three") } else { Ok(n * n) });
    /// let batch = Pool::builder("batch").workers(2).run_batch(tasks, Shutdown::light())?;
    /// assert!(batch.is_done());
    /// assert_eq!(*batch.outcomes[1].as_ref().unwrap(), 4);
    /// assert!(batch.outcomes[2].as_ref().unwrap_err().is_failed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// Inside a poll of a pool's future: it blocks.
    pub fn run_batch<T, E, F>(
        self,
        tasks: impl IntoIterator<Item = F>,
        how: Shutdown,
    ) -> Result<Batch<T, E>, BuildError>
    where
        T: Send + 'static,
        E: Send + 'static,
        F: FnOnce() -> Result<T, E> + Send + 'static,
    {
        crate::frames::must_not_poll("a batch", "call it in `spawn_blocking`");
        let pool = self.when_full(crate::config::WhenFull::Wait).build()?;
        let core = std::sync::Arc::clone(pool.core());
        let began = core.clock.now();
        let deadline = how.limit().map_or(crate::clock::Ticks::NEVER, |d| began.after(d));
        let mut handles = Vec::new();
        for task in tasks {
            let left = deadline.since(core.clock.now());
            let patience = match how.limit() {
                None => Patience::Policy,
                Some(_) => Patience::For(left),
            };
            let offer = Offer { patience, ..Offer::default() };
            handles
                .push(pool.submit_work(Fallible(task), offer).map_err(|refused| refused.reason()));
        }
        let how = match how.limit() {
            None => how,
            Some(_) => how.within(deadline.since(core.clock.now())),
        };
        let report = pool.shutdown(how).expect("a batch runs outside its own pool");
        let mut unfinished = Vec::new();
        let mut outcomes = Vec::with_capacity(handles.len());
        for (position, handle) in handles.into_iter().enumerate() {
            let outcome = match handle {
                Ok(mut handle) => handle.try_take().unwrap_or_else(not_settled),
                Err(_) => not_settled(),
            };
            let ended = match &outcome {
                Ok(_) => true,
                Err(error) => error.is_failed() || error.is_panicked(),
            };
            if !ended {
                unfinished.push(position);
            }
            outcomes.push(outcome);
        }
        Ok(Batch { outcomes, unfinished, report })
    }
}

/// A task that the batch's limit kept from being accepted, or that still borrows.
fn not_settled<T, E>() -> Result<T, TaskError<E>> {
    Err(TaskError::Cancelled { cause: crate::outcome::Cause::Shutdown, error: None })
}
