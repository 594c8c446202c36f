//! A hand-written pool over `crossfire`.

use crossfire::mpmc::Array;
use crossfire::{MRx, MTx};

use super::channel_pool::{Channel, ChannelPool, Job};

pub(crate) type Crossfire = ChannelPool<CrossfireChannel>;

pub(crate) struct CrossfireChannel;

impl Channel for CrossfireChannel {
    type Sender = MTx<Array<Job>>;
    type Receiver = MRx<Array<Job>>;

    fn bounded(capacity: usize) -> (Self::Sender, Self::Receiver) {
        // Its documentation asks for this at the start of a program: without
        // it the channel spins as if it had a machine to itself.
        crossfire::detect_backoff_cfg();
        crossfire::mpmc::bounded_blocking(capacity)
    }

    #[inline]
    fn send(sender: &Self::Sender, job: Job) {
        // Not `expect`: crossfire's error is not `Debug` for a boxed closure.
        if sender.send(job).is_err() {
            panic!("the workers outlive the sender");
        }
    }

    #[inline]
    fn receive(receiver: &Self::Receiver) -> Option<Job> {
        receiver.recv().ok()
    }
}
