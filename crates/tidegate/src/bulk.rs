//! Many fire-and-forget tasks at once.

use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::admission::Patience;
use crate::core::Core;
use crate::job::{InlineJob, Verb};
use crate::pool::Pool;
use crate::refused::Refused;

/// So many share a step. More would make whoever comes next wait longer while they are
/// written: the ticket after them can't be run before theirs.
const CHUNK: usize = 16;

/// What [`Pool::spawn_all`] gives back when it is refused: an iterator over the closures that
/// were not accepted, in order.
pub struct Unspawned<I: Iterator> {
    accepted: u64,
    pulled: VecDeque<I::Item>,
    rest: I,
}

impl<S: 'static> Pool<S> {
    /// As [`spawn`](Pool::spawn) for each closure, in order; gives their number.
    ///
    /// Up to 16 at a time take their places in the queue with one step and one look for a
    /// sleeping worker. They are pulled before that, so a panic of the iterator loses at most
    /// 15 closures that no one has accepted. When one is refused, those before it have been
    /// accepted, and it comes back with all that follow; that counts as one refusal.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use tidegate::{Pool, Shutdown};
    ///
    /// let pool = Pool::builder("bulk").workers(2).build()?;
    /// let sum = Arc::new(AtomicU64::new(0));
    /// let tasks = (1..=100).map(|n| {
    ///     let sum = Arc::clone(&sum);
    ///     move || _ = sum.fetch_add(n, Ordering::Relaxed)
    /// });
    /// let accepted = pool.spawn_all(tasks).map_err(|refused| refused.reason())?;
    /// assert_eq!(accepted, 100);
    /// pool.shutdown(Shutdown::default())?;
    /// assert_eq!(sum.load(Ordering::Relaxed), 5050);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn spawn_all<I>(&self, closures: I) -> Result<u64, Refused<Unspawned<I::IntoIter>>>
    where
        I: IntoIterator<Item: FnOnce() + Send + 'static>,
    {
        let mut rest = closures.into_iter();
        let mut accepted = 0;
        loop {
            // Pulled and boxed before they take places: an iterator may be slow, or panic.
            let mut pulled = Pulled::new();
            while let Some(work) = pulled.room().then(|| rest.next()).flatten() {
                pulled.push(work);
            }
            let count = pulled.len();
            if count == 0 {
                return Ok(accepted);
            }
            let spawned = self.core().spawn_pulled(&mut pulled);
            accepted += (count - pulled.len()) as u64;
            if let Err(refused) = spawned {
                accepted -= 1;
                return Err(refused.map_work(|work| {
                    let pulled = std::iter::once(work).chain(pulled.into_works()).collect();
                    Unspawned { accepted, pulled, rest }
                }));
            }
        }
    }
}

impl Core {
    /// Takes those that were accepted, and one that was refused, out of `pulled`.
    fn spawn_pulled<F: FnOnce() + Send + 'static>(
        self: &Arc<Self>,
        pulled: &mut Pulled<F>,
    ) -> Result<(), Refused<F>> {
        let placed = self
            .queue
            .push_many(pulled.len(), || pulled.next().expect("no more tickets than closures"));
        if placed > 0 {
            self.task_added();
        }
        // At the bound: one by one, as the policy says.
        while let Some(job) = pulled.next() {
            // SAFETY: made from an `F`.
            unsafe { self.spawn_job::<F>(job, Patience::Policy) }?;
        }
        Ok(())
    }
}

/// Closures that were pulled, ready to be put into slots.
struct Pulled<F> {
    jobs: [Option<InlineJob>; CHUNK],
    /// Those before were taken, and so many were put in.
    taken: usize,
    filled: usize,
    from: PhantomData<F>,
}

impl<F: FnOnce() + Send + 'static> Pulled<F> {
    fn new() -> Self {
        Pulled { jobs: [const { None }; CHUNK], taken: 0, filled: 0, from: PhantomData }
    }

    fn room(&self) -> bool {
        self.filled < CHUNK
    }

    fn push(&mut self, work: F) {
        self.jobs[self.filled] = Some(InlineJob::new(work));
        self.filled += 1;
    }

    fn into_works(mut self) -> VecDeque<F> {
        let jobs = std::iter::from_fn(|| self.next());
        // SAFETY: made from an `F`, and each is taken once.
        jobs.map(|job| unsafe { job.into_work() }).collect()
    }
}

impl<F> Pulled<F> {
    fn len(&self) -> usize {
        self.filled - self.taken
    }

    fn next(&mut self) -> Option<InlineJob> {
        let job = self.jobs.get_mut(self.taken)?.take()?;
        self.taken += 1;
        Some(job)
    }
}

impl<F> Drop for Pulled<F> {
    /// Only if the iterator panicked.
    fn drop(&mut self) {
        while let Some(job) = self.next() {
            let _ = crate::panics::quietly(|| job.consume(Verb::Drop));
        }
    }
}

impl<I: Iterator> Unspawned<I> {
    /// How many were accepted before the one that was refused.
    pub fn accepted(&self) -> u64 {
        self.accepted
    }
}

impl<I: Iterator> Iterator for Unspawned<I> {
    type Item = I::Item;
    fn next(&mut self) -> Option<I::Item> {
        self.pulled.pop_front().or_else(|| self.rest.next())
    }
}

impl<I: Iterator> fmt::Debug for Unspawned<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unspawned").field("accepted", &self.accepted).finish_non_exhaustive()
    }
}
