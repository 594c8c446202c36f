//! loom's atomics, with two gaps of loom 0.7 closed.
//!
//! 1. loom remembers only the *last* access to an object when it looks for orders worth
//!    trying. A thread that loads and then swaps hides the loads of the others behind its
//!    own: "they load before the swap" is run, "after it" never. Seen here: a model with
//!    one producer and one taker ran 8 executions and never let the producer in. So each
//!    access first touches an object on which all accesses conflict (a condvar that nobody
//!    waits on: it orders nothing and carries no value).
//! 2. loom counts only SeqCst *stores* into the total order, and an initial value is none:
//!    a SeqCst load may return it although a SeqCst store came before, which C++20
//!    forbids. So the initial value is stored once more.

use loom::sync::Condvar;
pub(crate) use loom::sync::atomic::Ordering;

use Ordering::SeqCst;

macro_rules! atomic {
    ($name:ident $(<$t:ident>)?, $value:ty) => {
        #[derive(Debug)]
        pub(crate) struct $name$(<$t>)? {
            value: loom::sync::atomic::$name$(<$t>)?,
            touched: Condvar,
        }

        impl$(<$t>)? $name$(<$t>)? {
            pub(crate) fn new(value: $value) -> Self {
                let atomic = loom::sync::atomic::$name::new(value);
                atomic.swap(value, SeqCst);
                Self { value: atomic, touched: Condvar::new() }
            }

            fn touch(&self) -> &loom::sync::atomic::$name$(<$t>)? {
                self.touched.notify_one();
                &self.value
            }

            pub(crate) fn load(&self, order: Ordering) -> $value {
                self.touch().load(order)
            }

            pub(crate) fn store(&self, value: $value, order: Ordering) {
                self.touch().store(value, order);
            }

            pub(crate) fn swap(&self, value: $value, order: Ordering) -> $value {
                self.touch().swap(value, order)
            }

            pub(crate) fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.touch().compare_exchange(current, new, success, failure)
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
                self.touch().$op(value, order)
            })*
        }
    )*};
}

atomic!(AtomicBool, bool);
atomic!(AtomicU32, u32);
atomic!(AtomicU64, u64);
atomic!(AtomicI64, i64);
atomic!(AtomicUsize, usize);
atomic!(AtomicPtr<T>, *mut T);

arithmetic! {
    AtomicU32 u32: fetch_add fetch_sub fetch_and fetch_or;
    AtomicU64 u64: fetch_add fetch_sub fetch_and fetch_or;
    AtomicI64 i64: fetch_add fetch_sub;
}
