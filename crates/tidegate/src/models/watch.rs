//! Watching: whoever waits for the counts sees the last one, or is told of it.

use std::task::Waker;

use super::*;
use crate::parker::Parker;
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::{Acquire, Release};
use crate::watch::Watch;

/// `Worker::rest` after the last outcome × `Pool::wait_idle`.
#[test]
fn a_watcher_sees_the_count_or_is_told() {
    explore(&["saw it", "was told"], |seen| {
        let shared = Arc::new((Watch::new(), AtomicU64::new(0)));
        let (told, slept) = together!(
            [shared] {
                shared.1.store(1, Release); // as `ledger::bump`
                let wakers = shared.0.settled();
                let told = wakers.is_some();
                wakers.into_iter().flatten().for_each(Waker::wake);
                told
            },
            [shared] {
                let parker = Parker::new();
                let waker = Waker::from(Arc::clone(&parker));
                let watching = shared.0.begin();
                let mut slept = false;
                loop {
                    watching.leave(&waker);
                    if shared.1.load(Acquire) == 1 {
                        break slept;
                    }
                    parker.park();
                    slept = true;
                }
            },
        );
        assert!(told || !slept);
        seen.met(if slept { "was told" } else { "saw it" });
    });
}
