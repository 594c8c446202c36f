//! The one door to threads, atomics and locks.
//!
//! Everything concurrent in this crate goes through here, so that loom
//! (`--cfg tidegate_loom`, the data plane) and shuttle (`--cfg
//! tidegate_shuttle`, the whole pool) can stand in for std. The tidy test
//! refuses `std::sync::atomic` and `std::thread` elsewhere.

use std::time::Duration;

#[cfg(tidegate_loom)]
pub(crate) mod loom_atomic;
#[cfg(tidegate_loom)]
mod imp {
    pub(crate) use super::loom_atomic as atomic;
    pub(crate) use loom::hint::spin_loop;
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use loom::thread;
}
#[cfg(tidegate_shuttle)]
mod imp {
    pub(crate) use shuttle::hint::spin_loop;
    pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard, atomic};
    pub(crate) use shuttle::thread;
}
#[cfg(not(any(tidegate_loom, tidegate_shuttle)))]
mod imp {
    pub(crate) use std::hint::spin_loop;
    #[cfg(any(not(target_os = "linux"), tidegate_portable))]
    pub(crate) use std::sync::Condvar;
    pub(crate) use std::sync::{Mutex, MutexGuard, atomic};
    pub(crate) use std::thread;
}
pub(crate) use imp::{atomic, spin_loop, thread};
/// Binds the compiler only, so no model checker needs to know.
pub(crate) use std::sync::atomic::compiler_fence;

/// True where another thread's step must be let in by a yield because time
/// alone does not pass (model checkers).
pub(crate) const MODELLED: bool = cfg!(any(tidegate_loom, tidegate_shuttle));

/// How many steps to wait awake. In models time does not pass, so one look is as good as
/// many; and loom must let another thread go on at each yield, which hides what happens if
/// none does.
pub(crate) const fn steps(wanted: u32) -> u32 {
    if MODELLED { 1 } else { wanted }
}

/// A mutex without poisoning: nothing of ours panics while holding one, and
/// user code never runs under one.
#[derive(Debug, Default)]
pub(crate) struct Lock<T>(imp::Mutex<T>);

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Self {
        Lock(imp::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> imp::MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Memory that the protocol around it, not the compiler, keeps from being raced.
#[derive(Debug)]
pub(crate) struct RaceCell<T>(
    #[cfg(tidegate_loom)] loom::cell::UnsafeCell<T>,
    #[cfg(not(tidegate_loom))] std::cell::UnsafeCell<T>,
);

impl<T> RaceCell<T> {
    pub(crate) fn new(value: T) -> Self {
        #[cfg(tidegate_loom)]
        return RaceCell(loom::cell::UnsafeCell::new(value));
        #[cfg(not(tidegate_loom))]
        RaceCell(std::cell::UnsafeCell::new(value))
    }

    /// Gives the address. loom checks that no other thread is inside at the
    /// same time; otherwise it costs nothing.
    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        #[cfg(tidegate_loom)]
        return self.0.with_mut(f);
        #[cfg(not(tidegate_loom))]
        f(self.0.get())
    }
}

/// A number that several threads guess at: nothing rests on it, so no model checker needs to know.
#[derive(Debug, Default)]
pub(crate) struct Guess(std::sync::atomic::AtomicU32);

impl Guess {
    pub(crate) fn get(&self) -> u32 {
        self.0.load(std::sync::atomic::Ordering::Relaxed)
    }

    pub(crate) fn set(&self, value: u32) {
        self.0.store(value, std::sync::atomic::Ordering::Relaxed);
    }
}

/// Keeps what is written by one side off the cache lines of the other.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Padded<T>(pub(crate) T);

impl<T> std::ops::Deref for Padded<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

/// A value per thread, made by a constant expression.
macro_rules! per_thread {
    ($(#[$meta:meta])* static $name:ident: $ty:ty = $init:expr;) => {
        #[cfg(not(tidegate_shuttle))]
        std::thread_local! { $(#[$meta])* static $name: $ty = const { $init }; }
        #[cfg(tidegate_shuttle)]
        shuttle::thread_local! { $(#[$meta])* static $name: $ty = $init; }
    };
}
pub(crate) use per_thread;

/// One step of waiting awake: 1, 2, 4, 8, 16 pauses, then 16 pauses and a yield,
/// because on a full machine the other side must get the core.
#[inline]
pub(crate) fn snooze(step: u32) {
    if MODELLED {
        thread::yield_now();
        return;
    }
    for _ in 0..1u32 << step.min(4) {
        spin_loop();
    }
    if step >= 5 {
        thread::yield_now();
    }
}

/// A word that threads can sleep on: futex on Linux, mutex and condvar elsewhere.
///
/// Change the value first, then call `wake`. A sleeper that saw the old value
/// is woken, one that had not looked yet sees the new one.
#[derive(Debug)]
pub(crate) struct WaitWord {
    pub(crate) value: atomic::AtomicU32,
    #[cfg(any(not(target_os = "linux"), tidegate_portable, tidegate_loom, tidegate_shuttle))]
    sleepers: (Lock<()>, imp::Condvar),
}

impl WaitWord {
    pub(crate) fn new(value: u32) -> Self {
        WaitWord {
            value: atomic::AtomicU32::new(value),
            #[cfg(any(
                not(target_os = "linux"),
                tidegate_portable,
                tidegate_loom,
                tidegate_shuttle
            ))]
            sleepers: (Lock::new(()), imp::Condvar::new()),
        }
    }
}

#[cfg(all(target_os = "linux", not(any(tidegate_portable, tidegate_loom, tidegate_shuttle))))]
impl WaitWord {
    /// Sleeps while the value is `expected`, at most `limit`; may return early.
    pub(crate) fn wait(&self, expected: u32, limit: Option<Duration>) {
        let spec = limit.map(|limit| libc::timespec {
            tv_sec: libc::time_t::try_from(limit.as_secs()).unwrap_or(libc::time_t::MAX),
            // Always below 10⁹: fits in every platform's c_long.
            tv_nsec: limit.subsec_nanos() as libc::c_long,
        });
        let spec = spec.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the word is a live, aligned u32 and `spec` is null or points to a
        // timespec on this stack; FUTEX_WAIT only reads both.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.value.as_ptr(),
                libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                expected,
                spec,
            );
        }
    }

    pub(crate) fn wake(&self, count: i32) {
        // SAFETY: FUTEX_WAKE only uses the address as a key.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.value.as_ptr(),
                libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                count,
            );
        }
    }
}

#[cfg(not(all(
    target_os = "linux",
    not(any(tidegate_portable, tidegate_loom, tidegate_shuttle))
)))]
impl WaitWord {
    pub(crate) fn wait(&self, expected: u32, limit: Option<Duration>) {
        let (lock, condvar) = &self.sleepers;
        let guard = lock.lock();
        // Under the lock, so that a wake between this look and the wait can't be missed.
        if self.value.load(atomic::Ordering::SeqCst) != expected {
            return;
        }
        match limit {
            // Model checkers have no time: there only a wake ends the wait.
            Some(limit) if !MODELLED => drop(condvar.wait_timeout(guard, limit)),
            _ => drop(condvar.wait(guard)),
        }
    }

    pub(crate) fn wake(&self, count: i32) {
        let (lock, condvar) = &self.sleepers;
        drop(lock.lock());
        if count == 1 {
            condvar.notify_one();
        } else {
            condvar.notify_all();
        }
    }
}
