//! A pair of fences of which one side pays for both.
//!
//! Two threads that each store something and then look at what the other has stored need a SeqCst
//! fence in between, both of them, or neither may see the other. It costs as much as a short
//! item. Where one side does that all the time and the other hardly ever, the rare side can pay
//! alone: Linux's `membarrier` makes every thread of the process that runs execute a full fence
//! (one that does not run has passed one). The frequent side then only keeps the compiler from
//! exchanging its two steps.
//!
//! A process has to register for that. It takes no time while there is one thread, and an RCU
//! grace period, some milliseconds, once there are more; so a thread of its own does it, once,
//! and nobody waits for it. Until then, and wherever there is no `membarrier`, both sides pay.

#[cfg(not(tidegate_loom))]
use std::sync::Arc;

#[cfg(not(tidegate_loom))]
use crate::spawn::Spawner;
use crate::sync::atomic::Ordering::SeqCst;
use crate::sync::atomic::fence;
use crate::sync::compiler_fence;

#[cfg(not(all(
    target_os = "linux",
    not(any(tidegate_portable, tidegate_loom, tidegate_shuttle))
)))]
#[path = "fences/absent.rs"]
mod membarrier;
#[cfg(all(target_os = "linux", not(any(tidegate_portable, tidegate_loom, tidegate_shuttle))))]
mod membarrier;

/// What both sides of one protocol use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fences {
    /// A fence on both sides.
    Even,
    /// The frequent side has none.
    #[cfg_attr(tidegate_loom, allow(dead_code))]
    Lopsided,
    /// As `Lopsided` after somebody has put up a sandbox.
    #[cfg(all(test, not(tidegate_loom)))]
    Forbidden,
}

#[cfg(all(test, not(tidegate_loom)))]
thread_local! {
    /// On this thread the best there are.
    pub(crate) static FORBIDDEN: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// While the process has one thread; later it is left to `Fences::best`.
#[cfg(not(tidegate_loom))]
pub(crate) fn prepare_if_alone() {
    membarrier::register_if_alone();
}

impl Fences {
    /// The cheapest that can be had now; sees to it that there are better ones later.
    #[cfg(not(tidegate_loom))]
    pub(crate) fn best(spawner: Option<&Arc<Spawner>>) -> Self {
        #[cfg(test)]
        if FORBIDDEN.get() {
            return Fences::Forbidden;
        }
        if membarrier::is_registered(spawner) { Fences::Lopsided } else { Fences::Even }
    }

    /// Of the side that does it all the time.
    #[inline(always)]
    pub(crate) fn frequent(self) {
        match self {
            Fences::Even => fence(SeqCst),
            Fences::Lopsided => compiler_fence(SeqCst),
            #[cfg(all(test, not(tidegate_loom)))]
            Fences::Forbidden => compiler_fence(SeqCst),
        }
    }

    /// Of the other side. False: there was none, so what is seen after it means nothing.
    #[must_use]
    pub(crate) fn rare(self) -> bool {
        match self {
            Fences::Even => {
                fence(SeqCst);
                true
            }
            Fences::Lopsided => membarrier::everywhere(),
            #[cfg(all(test, not(tidegate_loom)))]
            Fences::Forbidden => false,
        }
    }
}

/// The best there are in this process, after the time that it takes to get them, once.
#[cfg(all(test, not(any(tidegate_loom, tidegate_shuttle))))]
pub(crate) fn best_in_the_end() -> Fences {
    let mut step = 0;
    while Fences::best(None) == Fences::Even && membarrier::is_to_come() {
        crate::sync::snooze(step);
        step += 1;
    }
    Fences::best(None)
}

#[cfg(all(test, not(any(tidegate_loom, tidegate_shuttle))))]
mod tests {
    use super::*;
    use crate::sync::atomic::AtomicU32;
    use crate::sync::atomic::Ordering::Relaxed;
    use crate::sync::{snooze, thread};

    /// Two that store and look: never does neither see the other. On one core this proves
    /// little, and it fails at once where a fence is missing and there are two.
    fn store_and_look(fences: Fences) {
        const ROUNDS: u32 = 2_000;
        let words = [const { AtomicU32::new(0) }; 2];
        let seen = [const { AtomicU32::new(0) }; 2];
        let turn = AtomicU32::new(0);
        let meet = |round: u32| {
            turn.fetch_add(1, SeqCst);
            let mut step = 0;
            while turn.load(SeqCst) < 2 * round {
                snooze(step);
                step += 1;
            }
        };
        let side = |me: usize, pay: &dyn Fn()| {
            for round in 1..=ROUNDS {
                meet(3 * round - 2);
                words[me].store(round, Relaxed);
                pay();
                seen[me].store(words[1 - me].load(Relaxed), Relaxed);
                meet(3 * round - 1);
                let both = [seen[0].load(Relaxed), seen[1].load(Relaxed)];
                assert!(both.contains(&round), "round {round}: neither saw the other: {both:?}");
                meet(3 * round);
            }
        };
        thread::scope(|threads| {
            threads.spawn(|| side(0, &|| fences.frequent()));
            side(1, &|| assert!(fences.rare()));
        });
    }

    #[test]
    fn of_two_that_store_and_look_one_sees_the_other() {
        store_and_look(Fences::Even);
        store_and_look(best_in_the_end());
    }
}
