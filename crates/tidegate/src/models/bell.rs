//! The bell: a task that comes as the supervisor goes to sleep is seen, or wakes it.

use super::*;
use crate::bell::Bell;
use crate::sync::atomic::AtomicU64;

#[test]
fn a_task_is_seen_by_the_last_look_or_rings_the_bell() {
    explore(&["seen", "rings"], |seen| {
        struct House {
            bell: Bell,
            tasks: AtomicU64,
        }
        let house = Arc::new(House { bell: Bell::new(), tasks: AtomicU64::new(0) });
        let (rang, found) = together!(
            [house] {
                house.tasks.fetch_add(1, SeqCst);
                house.bell.is_armed() && house.bell.ring()
            },
            [house] {
                house.bell.arm();
                house.tasks.load(SeqCst) == 1
            },
        );
        assert!(found || rang, "the supervisor sleeps and a task waits");
        seen.met(if rang { "rings" } else { "seen" });
    });
}

#[test]
fn many_tasks_ring_once() {
    explore(&["the first", "the second"], |seen| {
        let bell = Arc::new(Bell::new());
        bell.arm();
        let (first, second) = together!([bell] bell.ring(), [bell] bell.ring());
        assert!(first != second, "it rang for both, or for none");
        seen.met(if first { "the first" } else { "the second" });
    });
}
