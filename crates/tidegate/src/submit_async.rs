//! Thread pools from async code, as their users see it.

use std::future::{Future, poll_fn};
use std::marker::PhantomData;
use std::sync::Arc;
use std::task::Poll;

use crate::awaited;
use crate::cx::Cx;
use crate::handle::Handle;
use crate::job::{Fallible, FallibleWithCx, Plain, Run, WithCx, WithState};
use crate::pool::{Pool, may_wait};
use crate::refused::Refused;
use crate::report::ShutdownError;
use crate::task::{Offer, Task};

/// From async code, on any runtime. What waits for room is a future, in one line with the threads
/// that wait.
impl<S: 'static> Pool<S> {
    /// As [`submit`](Pool::submit), for async code: where that would block until there is room,
    /// this is awaited.
    ///
    /// Nothing happens before it is polled. Dropped while it waits it leaves the line and takes
    /// the closure along, which was not accepted; from its first `Ready` on, dropping changes
    /// nothing. The policy decides as it does for `submit`, but for
    /// [`CallerRuns`](crate::WhenFull::CallerRuns): a closure that may block must not run inside
    /// a poll, so it waits for room. Inside a task of this pool it never waits (R8).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tidegate::{Pool, Shutdown};
    ///
    /// let pool = Pool::builder("hashes").workers(1).queue(1).build()?;
    /// let mut sums = Vec::new();
    /// for n in 0..10_u64 {
    ///     sums.push(pool.submit_async(move || (0..=n).sum::<u64>()).await?);
    /// }
    /// assert_eq!(sums.pop().unwrap().await?, 45);
    /// pool.shutdown_async(Shutdown::default()).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Price: that of `submit`; one allocation more if it has to wait.
    pub async fn submit_async<T, F>(&self, f: F) -> Result<Handle<T>, Refused<F>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.submit_awaited(Plain(f), Offer::default()).await
    }

    /// As [`submit_async`](Pool::submit_async), for a closure that returns a `Result`: `Err`
    /// counts as failed.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tidegate::{Pool, Shutdown, TaskError};
    ///
    /// let pool = Pool::builder("parse").workers(1).build()?;
    /// let number = pool.submit_result_async(|| "x".parse::<u64>()).await?;
    /// assert!(matches!(number.await, Err(TaskError::Failed(_))));
    /// pool.shutdown_async(Shutdown::default()).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn submit_result_async<T, E, F>(&self, f: F) -> Result<Handle<T, E>, Refused<F>>
    where
        T: Send + 'static,
        E: Send + 'static,
        F: FnOnce() -> Result<T, E> + Send + 'static,
    {
        self.submit_awaited(Fallible(f), Offer::default()).await
    }

    /// Fire and forget, as [`spawn`](Pool::spawn); awaits room as
    /// [`submit_async`](Pool::submit_async) does.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tidegate::{Pool, Shutdown};
    ///
    /// let pool = Pool::builder("log").workers(1).build()?;
    /// pool.spawn_async(|| println!("written by a thread that may block")).await?;
    /// pool.shutdown_async(Shutdown::default()).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn spawn_async<F>(&self, f: F) -> Result<(), Refused<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        let core = Arc::clone(self.core());
        awaited::offer(core, Plain(f), false, Offer::default()).await.map(drop)
    }

    /// As [`wait_idle`](Pool::wait_idle), for async code. Dropping it changes nothing.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tidegate::{Pool, Shutdown};
    ///
    /// let pool = Pool::builder("import").workers(2).build()?;
    /// for _ in 0..10 {
    ///     pool.spawn_async(|| ()).await?;
    /// }
    /// pool.wait_idle_async().await?;
    /// assert_eq!(pool.snapshot().completed, 10);
    /// pool.shutdown_async(Shutdown::default()).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[allow(clippy::manual_async_fn, reason = "that it is `Send` is said, not left to be found")]
    pub fn wait_idle_async(&self) -> impl Future<Output = Result<(), ShutdownError>> + Send {
        async move {
            let core = self.core();
            may_wait(core)?;
            let watching = core.watch.begin();
            poll_fn(|cx| {
                watching.leave(cx.waker());
                if core.is_idle() { Poll::Ready(Ok(())) } else { Poll::Pending }
            })
            .await
        }
    }

    async fn submit_awaited<W: Run + 'static>(
        &self,
        work: W,
        offer: Offer<'_>,
    ) -> Result<Handle<W::Value, W::Error>, Refused<W::Closure>> {
        let cell = awaited::offer(Arc::clone(self.core()), work, true, offer).await?;
        Ok(Handle::new(cell, self.core().config.callers_may_help))
    }
}

/// Submitting from async code; see [`Pool::submit_async`].
impl<S: 'static> Task<'_, S> {
    /// As [`submit`](Task::submit), for async code: waits for budgets and for room without
    /// blocking, no longer than [`wait_at_most`](Task::wait_at_most) or
    /// [`wait_until`](Task::wait_until) say. Dropped while it waits it holds nothing, and takes
    /// the closure along.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use tidegate::{Pool, Reason, Shutdown};
    ///
    /// let pool = Pool::builder("thumbs").workers(1).queue(1).build()?;
    /// pool.pause();
    /// pool.spawn(|| ())?;
    /// let short = Duration::from_millis(5);
    /// let late = pool.task("resize").wait_at_most(short).submit_async(|_cx| 42).await;
    /// assert_eq!(late.unwrap_err().reason(), Reason::TimedOut); // and has the closure
    /// pool.shutdown_async(Shutdown::default()).await?; // ends the pause, too
    /// # Ok(())
    /// # }
    /// ```
    pub async fn submit_async<T, F>(self, f: F) -> Result<Handle<T>, Refused<F>>
    where
        T: Send + 'static,
        F: FnOnce(&Cx) -> T + Send + 'static,
    {
        let (pool, offer) = self.into_parts();
        pool.submit_awaited(WithCx(f), offer).await
    }

    /// As [`submit_async`](Task::submit_async), for a closure that returns a `Result`.
    pub async fn submit_result_async<T, E, F>(self, f: F) -> Result<Handle<T, E>, Refused<F>>
    where
        T: Send + 'static,
        E: Send + 'static,
        F: FnOnce(&Cx) -> Result<T, E> + Send + 'static,
    {
        let (pool, offer) = self.into_parts();
        pool.submit_awaited(FallibleWithCx(f), offer).await
    }

    /// As [`submit_async`](Task::submit_async), with the worker's state.
    pub async fn submit_with_async<T, F>(self, f: F) -> Result<Handle<T>, Refused<F>>
    where
        T: Send + 'static,
        F: FnOnce(&mut S, &Cx) -> T + Send + 'static,
    {
        let (pool, offer) = self.into_parts();
        pool.submit_awaited(WithState(f, PhantomData), offer).await
    }
}
