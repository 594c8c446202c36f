//! Futures that let others go on: the watch sees who is away, or is woken.

use super::*;
use crate::away_watch::AwayWatch;
use crate::clock::Ticks;
use crate::sync::atomic::AtomicBool;
use crate::sync::atomic::Ordering::SeqCst;

#[test]
fn who_is_away_is_seen_by_the_watch_or_wakes_it() {
    explore(&["seen", "wakes"], |seen| {
        let watch = Arc::new(AwayWatch::new());
        assert!(watch.leave(|| Ticks(0))); // one that is back, for which the watch looks
        watch.come_back();
        let (woke, (_, again)) = together!(
            [watch] watch.leave(|| Ticks(0)),
            [watch] watch.look(Ticks(1 << 40), || Some(7), || false, || false),
        );
        assert!(woke || again != Ticks::NEVER, "nobody looks after it");
        seen.met(if woke { "wakes" } else { "seen" });
    });
}

#[test]
fn who_was_woken_and_has_not_come_is_seen_by_the_watch_or_wakes_it() {
    explore(&["seen", "wakes"], |seen| {
        let watch = Arc::new(AwayWatch::new());
        let token = Arc::new(AtomicBool::new(false));
        assert!(watch.leave(|| Ticks(0)));
        watch.come_back();
        let (woke, (_, again)) = together!(
            [watch, token] {
                token.swap(true, SeqCst); // by whoever woke it; another one counts on it
                watch.mind(|| Ticks(0))
            },
            [watch, token]
                watch.look(Ticks(1 << 40), || Some(7), || false, || token.load(SeqCst)),
        );
        assert!(woke || again != Ticks::NEVER, "nobody looks after it");
        seen.met(if woke { "wakes" } else { "seen" });
    });
}
