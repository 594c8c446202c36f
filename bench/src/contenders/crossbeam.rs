//! A hand-written pool over `crossbeam-channel`.

use crossbeam_channel::{Receiver, Sender};

use super::channel_pool::{Channel, ChannelPool, Job};

pub(crate) type Crossbeam = ChannelPool<CrossbeamChannel>;

pub(crate) struct CrossbeamChannel;

impl Channel for CrossbeamChannel {
    type Sender = Sender<Job>;
    type Receiver = Receiver<Job>;

    fn bounded(capacity: usize) -> (Self::Sender, Self::Receiver) {
        crossbeam_channel::bounded(capacity)
    }

    #[inline]
    fn send(sender: &Self::Sender, job: Job) {
        sender.send(job).expect("the workers outlive the sender");
    }

    #[inline]
    fn receive(receiver: &Self::Receiver) -> Option<Job> {
        receiver.recv().ok()
    }
}
