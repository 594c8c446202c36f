//! A hand-written pool over `flume`.

use flume::{Receiver, Sender};

use super::channel_pool::{Channel, ChannelPool, Job};

pub(crate) type Flume = ChannelPool<FlumeChannel>;

pub(crate) struct FlumeChannel;

impl Channel for FlumeChannel {
    type Sender = Sender<Job>;
    type Receiver = Receiver<Job>;

    fn bounded(capacity: usize) -> (Self::Sender, Self::Receiver) {
        flume::bounded(capacity)
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
