//! The pool that people write by hand: threads around a bounded channel of
//! boxed closures. The contenders differ in the channel only.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{self, JoinHandle};

use super::Contender;
use super::by_oneshot::results_by_oneshot;

pub(super) type Job = Box<dyn FnOnce() + Send>;

/// A bounded channel that many threads send to and many receive from.
pub(super) trait Channel: 'static {
    type Sender: Send + Sync + 'static;
    type Receiver: Clone + Send + 'static;

    fn bounded(capacity: usize) -> (Self::Sender, Self::Receiver);

    /// Waits for room. Panics when nobody receives any more.
    fn send(sender: &Self::Sender, job: Job);

    /// Waits for a job. `None` when the sender is gone and the channel empty.
    fn receive(receiver: &Self::Receiver) -> Option<Job>;
}

pub(crate) struct ChannelPool<C: Channel> {
    sender: C::Sender,
    threads: Vec<JoinHandle<()>>,
}

impl<C: Channel> Contender for ChannelPool<C> {
    results_by_oneshot!();

    fn new(workers: usize, queue: usize) -> Self {
        let (sender, receiver) = C::bounded(queue);
        let threads = (0..workers)
            .map(|_| {
                let receiver = receiver.clone();
                thread::spawn(move || work::<C>(&receiver))
            })
            .collect();
        ChannelPool { sender, threads }
    }

    #[inline]
    fn spawn<F: FnOnce() + Send + 'static>(&self, task: F) {
        C::send(&self.sender, Box::new(task));
    }

    fn join(self) {
        drop(self.sender);
        for thread in self.threads {
            thread.join().expect("a worker catches its tasks' panics");
        }
    }
}

fn work<C: Channel>(receiver: &C::Receiver) {
    while let Some(job) = C::receive(receiver) {
        // A pool that dies of one panicking task would be no fair peer.
        let _ = catch_unwind(AssertUnwindSafe(job));
    }
}

/// The pool `$pool` over a crate whose bounded channel is called and used as
/// that of `crossbeam-channel` is.
macro_rules! channel_pool_over {
    ($pool:ident, $channel:ident, $krate:ident) => {
        pub(crate) type $pool = $crate::contenders::channel_pool::ChannelPool<$channel>;

        pub(crate) struct $channel;

        impl $crate::contenders::channel_pool::Channel for $channel {
            type Sender = $krate::Sender<$crate::contenders::channel_pool::Job>;
            type Receiver = $krate::Receiver<$crate::contenders::channel_pool::Job>;

            fn bounded(capacity: usize) -> (Self::Sender, Self::Receiver) {
                $krate::bounded(capacity)
            }

            #[inline]
            fn send(sender: &Self::Sender, job: $crate::contenders::channel_pool::Job) {
                sender.send(job).expect("the workers outlive the sender");
            }

            #[inline]
            fn receive(receiver: &Self::Receiver) -> Option<$crate::contenders::channel_pool::Job> {
                receiver.recv().ok()
            }
        }
    };
}
pub(super) use channel_pool_over;
