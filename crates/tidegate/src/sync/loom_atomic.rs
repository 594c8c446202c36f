//! loom's atomics, with two gaps of loom 0.7 closed.
//!
//! 1. loom remembers only the *last* access to an object when it looks for orders worth
//!    trying. A thread that loads and then swaps hides the loads of the others behind its
//!    own: that they load before the swap is tried, that they load after it never. So each
//!    access first touches an object on which all accesses conflict (a condvar that nobody
//!    waits on: it orders nothing and carries no value).
//! 2. loom lets a SeqCst load return a value older than the last SeqCst store, if that value
//!    itself was not stored by SeqCst (initial values never are). C++20 forbids it, and
//!    every "publish, then look" pair would seem broken. So such a load reads again.

use std::sync::atomic::{AtomicBool as StdBool, AtomicU64 as StdU64, Ordering::Relaxed};

use loom::sync::Condvar;
pub(crate) use loom::sync::atomic::{Ordering, fence};

use Ordering::{Acquire, SeqCst};

/// The last store, outside loom.
#[derive(Debug, Default)]
struct Latest {
    bits: StdU64,
    seq_cst: StdBool,
}

impl Latest {
    fn stored(&self, bits: u64, order: Ordering) {
        self.bits.store(bits, Relaxed);
        self.seq_cst.store(order == SeqCst, Relaxed);
    }

    /// May a SeqCst load return this?
    fn allows(&self, bits: u64) -> bool {
        !self.seq_cst.load(Relaxed) || self.bits.load(Relaxed) == bits
    }
}

macro_rules! atomic {
    ($name:ident $(<$t:ident>)?, $value:ty) => {
        #[derive(Debug)]
        pub(crate) struct $name$(<$t>)? {
            value: loom::sync::atomic::$name$(<$t>)?,
            touched: Condvar,
            latest: Latest,
        }

        impl$(<$t>)? $name$(<$t>)? {
            pub(crate) fn new(value: $value) -> Self {
                let atomic = loom::sync::atomic::$name::new(value);
                // Not needed for 2., but it spares most of the second reads.
                atomic.swap(value, SeqCst);
                let latest = Latest::default();
                latest.stored(value as u64, SeqCst);
                Self { value: atomic, touched: Condvar::new(), latest }
            }

            fn touch(&self) -> &loom::sync::atomic::$name$(<$t>)? {
                self.touched.notify_one();
                &self.value
            }

            pub(crate) fn load(&self, order: Ordering) -> $value {
                let found = self.touch().load(order);
                if order != SeqCst || self.latest.allows(found as u64) {
                    return found;
                }
                // Fails, and what fails has read the latest value.
                self.value.compare_exchange(found, found, SeqCst, Acquire).unwrap_or_else(|v| v)
            }

            pub(crate) fn store(&self, value: $value, order: Ordering) {
                self.touch().store(value, order);
                self.latest.stored(value as u64, order);
            }

            pub(crate) fn swap(&self, value: $value, order: Ordering) -> $value {
                let old = self.touch().swap(value, order);
                self.latest.stored(value as u64, order);
                old
            }

            pub(crate) fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                let old = self.touch().compare_exchange(current, new, success, failure)?;
                self.latest.stored(new as u64, success);
                Ok(old)
            }

            pub(crate) fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                // loom's never fails without a reason either.
                self.compare_exchange(current, new, success, failure)
            }
        }
    };
}

macro_rules! arithmetic {
    ($($name:ident $value:ty: $($op:ident)*;)*) => {$(
        impl $name {
            $(pub(crate) fn $op(&self, value: $value, order: Ordering) -> $value {
                let old = self.touch().$op(value, order);
                self.latest.stored(arithmetic!($op old value) as u64, order);
                old
            })*
        }
    )*};
    (fetch_add $old:ident $value:ident) => { $old.wrapping_add($value) };
    (fetch_sub $old:ident $value:ident) => { $old.wrapping_sub($value) };
    (fetch_and $old:ident $value:ident) => { $old & $value };
    (fetch_or $old:ident $value:ident) => { $old | $value };
    (fetch_min $old:ident $value:ident) => { $old.min($value) };
}

atomic!(AtomicBool, bool);
atomic!(AtomicU32, u32);
atomic!(AtomicU64, u64);
atomic!(AtomicI64, i64);
atomic!(AtomicUsize, usize);
atomic!(AtomicPtr<T>, *mut T);

arithmetic! {
    AtomicU32 u32: fetch_add fetch_sub fetch_and fetch_or;
    AtomicU64 u64: fetch_add fetch_sub fetch_and fetch_or fetch_min;
    AtomicI64 i64: fetch_add fetch_sub;
}
