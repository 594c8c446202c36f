//! Pools without a bound that run closures, and what each offers by its own
//! documentation.

use std::sync::Arc;

use executors::Executor;
use tidegate_conformance::{Kind, Need};

use crate::peer_pool::{Job, Peer, PeerKind};

pub(crate) fn all() -> [Arc<dyn Kind>; 4] {
    [
        PeerKind::<Rayon>::kind(),
        PeerKind::<Threadpool>::kind(),
        PeerKind::<RustyPool>::kind(),
        PeerKind::<Executors>::kind(),
    ]
}

struct Rayon(rayon::ThreadPool);

impl Peer for Rayon {
    const NAME: &'static str = "rayon-2w";
    const OFFERS: &'static [Need] = &[Need::Fifo, Need::DrainsOnDrop, Need::NamedThreads];

    fn open(name: &str, workers: usize) -> Self {
        let name = name.to_owned();
        let builder = rayon::ThreadPoolBuilder::new()
            .num_threads(workers)
            .thread_name(move |n| format!("{name}-{n}"))
            // Without it, the first panic ends the process.
            .panic_handler(|_payload| ());
        Rayon(builder.build().expect("the system has threads left"))
    }

    fn execute(&self, job: Job) {
        self.0.spawn_fifo(job);
    }

    fn end(self) {
        // Dropping asks its threads to end; there is no join.
    }
}

struct Threadpool(threadpool::ThreadPool);

impl Peer for Threadpool {
    const NAME: &'static str = "threadpool-2w";
    const OFFERS: &'static [Need] = &[Need::Fifo, Need::DrainsOnDrop];

    fn open(name: &str, workers: usize) -> Self {
        Threadpool(threadpool::ThreadPool::with_name(name.to_owned(), workers))
    }

    fn execute(&self, job: Job) {
        self.0.execute(job);
    }

    fn end(self) {
        self.0.join();
    }
}

struct RustyPool(rusty_pool::ThreadPool);

impl Peer for RustyPool {
    const NAME: &'static str = "rusty_pool-2w";
    const OFFERS: &'static [Need] = &[Need::Fifo, Need::DrainsOnDrop];

    fn open(name: &str, workers: usize) -> Self {
        let builder = rusty_pool::Builder::new().name(name.to_owned());
        RustyPool(builder.core_size(workers).max_size(workers).build())
    }

    fn execute(&self, job: Job) {
        self.0.execute(job);
    }

    fn end(self) {
        self.0.shutdown_join();
    }
}

struct Executors(executors::crossbeam_channel_pool::ThreadPool);

impl Peer for Executors {
    const NAME: &'static str = "executors-2w";
    const OFFERS: &'static [Need] = &[Need::Fifo];

    fn open(_name: &str, workers: usize) -> Self {
        Executors(executors::crossbeam_channel_pool::ThreadPool::new(workers))
    }

    fn execute(&self, job: Job) {
        self.0.execute(job);
    }

    fn end(self) {
        // An error says that a worker did not answer: the suite sees that.
        let _ = self.0.shutdown();
    }
}
