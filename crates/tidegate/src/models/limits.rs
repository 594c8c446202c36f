//! Limits: one that is stored while the supervisor looks is seen, or wakes it.

use super::*;
use crate::clock::Ticks;
use crate::limits::Limits;
use crate::sync::atomic::Ordering::Release;
use crate::sync::atomic::{AtomicU64, fence};

#[test]
fn a_limit_is_seen_by_the_look_or_wakes_for_the_next() {
    explore(&["seen", "wakes", "due already"], |seen| {
        struct House {
            limits: Limits,
            task: AtomicU64,
        }
        let house = Arc::new(House { limits: Limits::new(), task: AtomicU64::new(0) });
        house.limits.note(Ticks(5)); // an earlier one, for which the supervisor looks now
        let (woke, found) = together!(
            [house] {
                // As `CellRef::limit_run` and `RunEnv::show` do.
                house.task.store(9, Release);
                fence(SeqCst);
                house.limits.note(Ticks(9))
            },
            [house] {
                house.limits.begin_look();
                let found = house.task.load(SeqCst);
                let next = if found == 0 { Ticks::NEVER } else { Ticks(found) };
                house.limits.end_look(next, Ticks(5), None);
                found == 9
            },
        );
        assert!(found || woke, "nobody will look for it");
        // Looks are at least a millisecond apart, but it is not forgotten.
        assert_ne!(house.limits.due(), Ticks::NEVER);
        seen.met(match (found, woke) {
            (true, true) => "due already",
            (true, false) => "seen",
            (false, _) => "wakes",
        });
    });
}
