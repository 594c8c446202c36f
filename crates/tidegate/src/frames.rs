//! Which pools' code runs on this thread right now.
//!
//! A worker thread is inside its pool for as long as it lives; a caller that runs a
//! task itself (CallerRuns, helping, inline) is inside for that call. Asked only on
//! slow paths, so a short task never pays for it.

use std::cell::Cell;
use std::task::Waker;

use crate::line::WorkerLine;

use crate::sync::per_thread;

/// Tasks on one stack, one waiting for the next: more is a design error (R9).
pub(crate) const MAX_DEPTH: usize = 64;

struct Frame {
    pool: *const (),
    /// Null on a caller's thread.
    line: *const WorkerLine,
    /// Null unless a future is polled here.
    #[cfg_attr(not(feature = "tokio"), allow(dead_code))]
    poll: *const Poll,
    /// A runtime polls here: nothing may block.
    is_polled: bool,
    below: *const Frame,
}

/// A poll of a task that is a future, as the code in it sees it.
#[cfg_attr(not(feature = "tokio"), allow(dead_code))]
pub(crate) struct Poll {
    /// The nest of whoever polls it, a worker or a caller: there go tasks that this one begins on
    /// top of itself.
    pub(crate) inbox: *const (),
    /// It is the top of its nest, and has begun nothing.
    pub(crate) may_begin: Cell<bool>,
    /// Who is to be woken when it may.
    pub(crate) wishes: Cell<Vec<(usize, Waker)>>,
    line: *const WorkerLine,
}

#[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
impl Poll {
    pub(crate) fn new(inbox: *const (), line: Option<&WorkerLine>, is_top: bool) -> Poll {
        let line = line.map_or(std::ptr::null(), std::ptr::from_ref);
        Poll { inbox, may_begin: Cell::new(is_top), wishes: Cell::default(), line }
    }

    /// The worker that polls it, if it is one.
    pub(crate) fn line(&self) -> Option<&WorkerLine> {
        // SAFETY: whoever made this borrows the line for as long as it polls.
        unsafe { self.line.as_ref() }
    }

    /// Whether it may begin a task on top of itself; if not, `waker` is woken when it may. Of one
    /// `who` only the last waker is kept.
    pub(crate) fn may_begin_or_wish(&self, who: usize, waker: &Waker) -> bool {
        if !self.may_begin.get() {
            let waker = waker.clone(); // may be user code, which may come here
            let mut wishes = self.wishes.take();
            wishes.push((who, waker));
            self.wishes.set(wishes);
        }
        self.may_begin.get()
    }
}

per_thread! {
    static TOP: Cell<*const Frame> = Cell::new(std::ptr::null());
}
per_thread! {
    static RUNNER: Cell<u64> = Cell::new(0);
}

/// Runs `f` as code of `pool` (the address of its core), on a worker or on a caller.
pub(crate) fn enter<R>(pool: *const (), line: Option<&WorkerLine>, f: impl FnOnce() -> R) -> R {
    enter_with(pool, line, std::ptr::null(), false, f)
}

/// As `enter`, on a thread that a runtime polls us on: whatever runs here must not block,
/// callbacks and hooks included. `may_block`: of a pool of closures they may.
#[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
pub(crate) fn enter_on_runtime<R>(
    pool: *const (),
    line: Option<&WorkerLine>,
    may_block: bool,
    f: impl FnOnce() -> R,
) -> R {
    enter_with(pool, line, std::ptr::null(), !may_block, f)
}

/// Runs `f` as a poll of a task of `pool`: it must not block.
#[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
pub(crate) fn enter_poll<R>(
    pool: *const (),
    line: Option<&WorkerLine>,
    poll: &Poll,
    f: impl FnOnce() -> R,
) -> R {
    enter_with(pool, line, poll, true, f)
}

fn enter_with<R>(
    pool: *const (),
    line: Option<&WorkerLine>,
    poll: *const Poll,
    is_polled: bool,
    f: impl FnOnce() -> R,
) -> R {
    struct Leave(*const Frame);
    impl Drop for Leave {
        fn drop(&mut self) {
            let _ = TOP.try_with(|top| top.set(self.0));
        }
    }
    let below = TOP.try_with(Cell::get).unwrap_or(std::ptr::null());
    let line = line.map_or(std::ptr::null(), std::ptr::from_ref);
    let frame = Frame { pool, line, poll, is_polled, below };
    let _ = TOP.try_with(|top| top.set(&raw const frame));
    let _leave = Leave(below);
    f()
}

/// How many frames of `pool` are on this thread's stack; 0 = outside.
pub(crate) fn depth(pool: *const ()) -> usize {
    let mut at = TOP.try_with(Cell::get).unwrap_or(std::ptr::null());
    let mut depth = 0;
    // SAFETY: frames lie on this thread's stack, below the caller, and unlink
    // themselves when they leave, also by unwinding.
    while let Some(frame) = unsafe { at.as_ref() } {
        depth += usize::from(frame.pool == pool);
        at = frame.below;
    }
    depth
}

/// Whether a future is polled on this thread, of whichever pool: what blocks here may keep
/// what it waits for from running.
pub(crate) fn polls() -> bool {
    let mut at = TOP.try_with(Cell::get).unwrap_or(std::ptr::null());
    // SAFETY: as in `depth`.
    while let Some(frame) = unsafe { at.as_ref() } {
        if frame.is_polled {
            return true;
        }
        at = frame.below;
    }
    false
}

/// The pool whose code runs on this thread.
pub(crate) fn innermost() -> Option<*mut ()> {
    let top = TOP.try_with(Cell::get).unwrap_or(std::ptr::null());
    // SAFETY: as in `depth`.
    unsafe { top.as_ref() }.map(|frame| frame.pool.cast_mut())
}

/// For what blocks and has no error to give.
#[track_caller]
pub(crate) fn must_not_poll(what: &str, instead: &str) {
    assert!(!polls(), "{what} blocks its thread, which polls a future of a pool: {instead}");
}

/// Runs `f` with the innermost poll of a task of `pool` on this thread, if there is one.
#[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
pub(crate) fn with_poll<R>(pool: *const (), f: impl FnOnce(Option<&Poll>) -> R) -> R {
    let mut at = TOP.try_with(Cell::get).unwrap_or(std::ptr::null());
    // SAFETY: as in `depth`; a frame's poll is borrowed for as long as its `enter_poll` runs.
    while let Some(frame) = unsafe { at.as_ref() } {
        if frame.pool == pool && !frame.poll.is_null() {
            // SAFETY: as above.
            return f(Some(unsafe { &*frame.poll }));
        }
        at = frame.below;
    }
    f(None)
}

/// Runs `f` with the worker of `pool` whose thread this is, if it is one.
pub(crate) fn with_line<R>(pool: *const (), f: impl FnOnce(Option<&WorkerLine>) -> R) -> R {
    let mut at = TOP.try_with(Cell::get).unwrap_or(std::ptr::null());
    // SAFETY: as in `depth`; a frame's line is borrowed for as long as its `enter` runs.
    while let Some(frame) = unsafe { at.as_ref() } {
        if frame.pool == pool && !frame.line.is_null() {
            // SAFETY: as above.
            return f(Some(unsafe { &*frame.line }));
        }
        at = frame.below;
    }
    f(None)
}

struct MemberFrame {
    group: u64,
    below: *const MemberFrame,
}

per_thread! {
    static MEMBER_OF: Cell<*const MemberFrame> = Cell::new(std::ptr::null());
}

/// Runs `f` as a member of the group with this number.
pub(crate) fn as_member<R>(group: u64, f: impl FnOnce() -> R) -> R {
    struct Leave(*const MemberFrame);
    impl Drop for Leave {
        fn drop(&mut self) {
            let _ = MEMBER_OF.try_with(|top| top.set(self.0));
        }
    }
    let below = MEMBER_OF.try_with(Cell::get).unwrap_or(std::ptr::null());
    let frame = MemberFrame { group, below };
    let _ = MEMBER_OF.try_with(|top| top.set(&raw const frame));
    let _leave = Leave(below);
    f()
}

/// Whether a member of that group is on this thread's stack.
pub(crate) fn is_member(group: u64) -> bool {
    let mut at = MEMBER_OF.try_with(Cell::get).unwrap_or(std::ptr::null());
    // SAFETY: as in `depth`.
    while let Some(frame) = unsafe { at.as_ref() } {
        if frame.group == group {
            return true;
        }
        at = frame.below;
    }
    false
}

/// A number that was never given before, and is not 0.
pub(crate) fn fresh_number() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

/// A number for this thread that no other ever has.
pub(crate) fn runner() -> u64 {
    RUNNER
        .try_with(|runner| {
            if runner.get() == 0 {
                runner.set(fresh_number());
            }
            runner.get()
        })
        .unwrap_or_else(|_| fresh_number())
}
