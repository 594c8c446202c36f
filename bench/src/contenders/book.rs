//! The pool of the Rust book: threads that take turns at one `std` receiver
//! behind a mutex. Bounded, unlike in the book, by a `sync_channel`.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use super::channel_pool::{Channel, ChannelPool, Job};

pub(crate) type Book = ChannelPool<BookChannel>;

pub(crate) struct BookChannel;

impl Channel for BookChannel {
    type Sender = SyncSender<Job>;
    type Receiver = Arc<Mutex<Receiver<Job>>>;

    fn bounded(capacity: usize) -> (Self::Sender, Self::Receiver) {
        let (sender, receiver) = sync_channel(capacity);
        (sender, Arc::new(Mutex::new(receiver)))
    }

    #[inline]
    fn send(sender: &Self::Sender, job: Job) {
        sender.send(job).expect("the workers outlive the sender");
    }

    #[inline]
    fn receive(receiver: &Self::Receiver) -> Option<Job> {
        // Waits with the lock held, as the book does: the others wait for it.
        receiver.lock().expect("no task runs under the lock").recv().ok()
    }
}
