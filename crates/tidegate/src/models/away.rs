//! Futures that let others go on: the watch sees who is away, or is woken.

use super::*;
use crate::away_watch::AwayWatch;
use crate::clock::Ticks;

#[test]
fn who_is_away_is_seen_by_the_watch_or_wakes_it() {
    explore(&["seen", "wakes"], |seen| {
        let watch = Arc::new(AwayWatch::new());
        assert!(watch.leave(|| Ticks(0))); // one that is back, for which the watch looks
        watch.come_back();
        let (woke, (_, again)) = together!(
            [watch] watch.leave(|| Ticks(0)),
            [watch] watch.look(Ticks(1 << 40), || Some(7), || false),
        );
        assert!(woke || again != Ticks::NEVER, "nobody looks after it");
        seen.met(if woke { "wakes" } else { "seen" });
    });
}
