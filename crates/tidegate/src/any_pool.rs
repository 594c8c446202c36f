//! Pools of either kind, for what looks at them from outside.

use std::ops::Deref;
use std::sync::Arc;

use crate::pool::{Owner, Pool};

/// A [`Pool`], an `AsyncPool`, or a pointer to one: whatever can be shown. It has no methods,
/// and nobody else can be one.
///
/// Pools of both kinds in one list are `&dyn AnyPool`.
pub trait AnyPool: Owned {}

/// Keeps the trait ours.
pub trait Owned {
    #[doc(hidden)]
    fn owner(&self) -> &Arc<Owner>;
}

impl<S> AnyPool for Pool<S> {}
impl<S> Owned for Pool<S> {
    fn owner(&self) -> &Arc<Owner> {
        self.owner()
    }
}

#[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
impl AnyPool for crate::on_tokio::AsyncPool {}
#[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
impl Owned for crate::on_tokio::AsyncPool {
    fn owner(&self) -> &Arc<Owner> {
        let pool: &Pool = self.as_ref();
        pool.owner()
    }
}

// A generic argument is not dereferenced by itself, as `&Pool` would be.
impl<P: Deref<Target: AnyPool>> AnyPool for P {}
impl<P: Deref<Target: AnyPool>> Owned for P {
    fn owner(&self) -> &Arc<Owner> {
        (**self).owner()
    }
}
