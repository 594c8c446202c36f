//! A hand-written pool over `kanal`.

use kanal::{Receiver, Sender};

use super::channel_pool::{Channel, ChannelPool, Job};

pub(crate) type Kanal = ChannelPool<KanalChannel>;

pub(crate) struct KanalChannel;

impl Channel for KanalChannel {
    type Sender = Sender<Job>;
    type Receiver = Receiver<Job>;

    fn bounded(capacity: usize) -> (Self::Sender, Self::Receiver) {
        kanal::bounded(capacity)
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
