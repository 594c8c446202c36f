//! Futures that have begun and not ended, where they were begun.
//!
//! A closure ends where it begins, so on threads there is never any. What begins a task hands
//! over a nest; whoever owns it polls what is in it.

#[cfg(all(feature = "tokio", not(tidegate_shuttle)))]
pub(crate) use crate::on_tokio::Nest;

#[cfg(not(all(feature = "tokio", not(tidegate_shuttle))))]
pub(crate) use none::Nest;

#[cfg(not(all(feature = "tokio", not(tidegate_shuttle))))]
mod none {
    use crate::settle::RunEnv;

    #[derive(Default)]
    pub(crate) struct Nest {}

    impl Nest {
        #[inline(always)]
        pub(crate) fn is_empty(&self) -> bool {
            true
        }
        #[inline(always)]
        pub(crate) fn finish_here(&self, _: &RunEnv<'_>) {}
    }
}
