//! Tasks that do nothing but wait for a word of the test.
#![allow(dead_code, reason = "a closure blocks, a future waits")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use tidegate::{Reason, Refused};
use tokio::sync::oneshot;

#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Value,
    Error,
    Panic,
}

/// A task that ends as it is told. It has to be whole when it comes back.
pub(crate) struct Script {
    number: u32,
    word: oneshot::Receiver<End>,
    begins: Option<oneshot::Sender<()>>,
    fate: Fate,
}

/// How often a task was dropped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fate(Arc<AtomicU32>);

impl Fate {
    pub(crate) fn drops(&self) -> u32 {
        self.0.load(SeqCst)
    }

    /// A refusal has the work, not a copy and not its remains.
    pub(crate) fn given_back<F>(&self, refused: Refused<F>) -> Reason {
        let reason = refused.reason();
        let work = refused.into_work();
        assert_eq!(self.drops(), 0, "refused for {reason:?}, and its work is gone");
        drop(work);
        assert_eq!(self.drops(), 1, "the work that came back was not all of it");
        reason
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.fate.0.fetch_add(1, SeqCst);
    }
}

impl Script {
    /// With the sender of its word, and what tells that it has begun.
    pub(crate) fn new(
        number: u32,
        fate: Fate,
    ) -> (Script, oneshot::Sender<End>, oneshot::Receiver<()>) {
        let (end, word) = oneshot::channel();
        let (begins, begun) = oneshot::channel();
        (Script { number, word, begins: Some(begins), fate }, end, begun)
    }

    pub(crate) fn block(mut self) -> Result<u32, &'static str> {
        drop(self.begins.take());
        let word = std::mem::replace(&mut self.word, oneshot::channel().1);
        self.act(word.blocking_recv().unwrap_or(End::Value))
    }

    pub(crate) async fn wait(mut self) -> Result<u32, &'static str> {
        drop(self.begins.take());
        let end = (&mut self.word).await.unwrap_or(End::Value);
        self.act(end)
    }

    pub(crate) fn fate(&self) -> Fate {
        self.fate.clone()
    }

    fn act(&self, end: End) -> Result<u32, &'static str> {
        match end {
            End::Value => Ok(self.number),
            End::Error => Err("error"),
            End::Panic => std::panic::resume_unwind(Box::new("panic")),
        }
    }
}
