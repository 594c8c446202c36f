//! Starting and joining threads. The only place where one is made.

#[cfg(not(tidegate_shuttle))]
use crate::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::io;
use std::sync::Arc;

use crate::sync::thread;

/// A replacement for `thread::Builder::spawn`; see [`Builder::spawner`](crate::Builder::spawner).
pub(crate) type Spawner = dyn Fn(std::thread::Builder, Box<dyn FnOnce() + Send>) -> io::Result<std::thread::JoinHandle<()>>
    + Send
    + Sync;

#[derive(Debug)]
pub(crate) struct Joiner(thread::JoinHandle<()>);

impl Joiner {
    /// Waits for the end of a thread that has left our code.
    pub(crate) fn join(self) {
        // Our threads catch every panic; a user's spawner may do as it likes.
        let _ = self.0.join();
    }

    #[cfg(all(feature = "signal", not(any(tidegate_loom, tidegate_shuttle))))]
    pub(crate) fn is_current(&self) -> bool {
        self.0.thread().id() == thread::current().id()
    }
}

/// Says that a body was dropped instead of run.
#[cfg(not(tidegate_shuttle))]
struct Unrun(Option<Arc<AtomicBool>>);

#[cfg(not(tidegate_shuttle))]
impl Unrun {
    fn runs(mut self) {
        self.0 = None;
    }
}

#[cfg(not(tidegate_shuttle))]
impl Drop for Unrun {
    fn drop(&mut self) {
        if let Some(dropped) = &self.0 {
            dropped.store(true, SeqCst);
        }
    }
}

pub(crate) fn spawn(
    name: String,
    stack_size: Option<usize>,
    spawner: Option<&Arc<Spawner>>,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<Joiner> {
    #[cfg(not(tidegate_shuttle))]
    if let Some(spawner) = spawner {
        let mut builder = std::thread::Builder::new().name(name);
        if let Some(size) = stack_size {
            builder = builder.stack_size(size);
        }
        let dropped = Arc::new(AtomicBool::new(false));
        let unrun = Unrun(Some(Arc::clone(&dropped)));
        let body = Box::new(move || {
            unrun.runs();
            body();
        });
        // User code, on threads that must not die of it.
        let answer = crate::panics::quietly(|| spawner(builder, body));
        return match answer {
            Ok(Ok(_)) if dropped.load(SeqCst) => {
                Err(io::Error::other("the spawner dropped the body of the thread unrun"))
            }
            Ok(thread) => thread.map(Joiner),
            Err(panic) => Err(io::Error::other(format!("the spawner {panic}"))),
        };
    }
    let _ = spawner;
    let mut builder = thread::Builder::new().name(name);
    if let Some(size) = stack_size {
        builder = builder.stack_size(size);
    }
    builder.spawn(body).map(Joiner)
}
