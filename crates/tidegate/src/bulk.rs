//! Many fire-and-forget tasks at once.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use crate::admission::Patience;
use crate::core::Core;
use crate::job::InlineJob;
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
            // Pulled before they take places: an iterator may be slow, or panic.
            let mut pulled = [const { None }; CHUNK];
            let mut count = 0;
            while count < CHUNK
                && let Some(work) = rest.next()
            {
                pulled[count] = Some(work);
                count += 1;
            }
            if count == 0 {
                return Ok(accepted);
            }
            if let Err((at, refused)) = self.core().spawn_chunk(&mut pulled[..count]) {
                accepted += at as u64;
                return Err(refused.map_work(|work| {
                    pulled[at] = Some(work);
                    let pulled = pulled.into_iter().flatten().collect();
                    Unspawned { accepted, pulled, rest }
                }));
            }
            accepted += count as u64;
        }
    }
}

impl Core {
    /// The number of those accepted, if one is refused.
    fn spawn_chunk<F: FnOnce() + Send + 'static>(
        self: &Arc<Self>,
        closures: &mut [Option<F>],
    ) -> Result<(), (usize, Refused<F>)> {
        const ONCE: &str = "each is taken once";
        let mut jobs = closures.iter_mut().map(|work| work.take().expect(ONCE));
        let placed = self.queue.push_many(jobs.len(), || {
            InlineJob::new(jobs.next().expect("no more tickets than closures"))
        });
        if placed > 0 {
            self.task_added();
        }
        // At the bound: one by one, as the policy says.
        for (at, work) in closures.iter_mut().enumerate().skip(placed) {
            let work = work.take().expect(ONCE);
            self.spawn_plain(work, Patience::Policy).map_err(|refused| (at, refused))?;
        }
        Ok(())
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
