//! Work in its two stored forms: inline in a slot, or behind a vtable in a cell.

use std::convert::Infallible;
use std::fmt::Display;
use std::marker::PhantomData;
use std::mem::{MaybeUninit, align_of, size_of};

use crate::ring::INLINE_WORDS;

#[cfg(not(tidegate_loom))]
use crate::cx::Cx;
#[cfg(tidegate_loom)]
pub(crate) struct Cx;

/// Bytes of a closure or a result that are stored without a box.
pub(crate) const INLINE_BYTES: usize = INLINE_WORDS * 8;

pub(crate) type Words = [MaybeUninit<u64>; INLINE_WORDS];

/// Whether a `V` can lie in a slot or a cell as it is.
pub(crate) const fn fits<V>() -> bool {
    size_of::<V>() <= INLINE_BYTES && align_of::<V>() <= align_of::<u64>()
}

/// Stores `value` in `words`, boxed if it does not fit.
///
/// # Safety
/// `words` is valid for writes and holds nothing that still has to be dropped.
#[inline(always)]
pub(crate) unsafe fn put<V>(words: *mut Words, value: V) {
    // SAFETY: by contract of this function; `fits` checked size and alignment, and a
    // box is one word.
    unsafe {
        if fits::<V>() {
            words.cast::<V>().write(value);
        } else {
            words.cast::<Box<V>>().write(Box::new(value));
        }
    }
}

/// Moves out what `put::<V>` stored.
///
/// # Safety
/// `words` holds a `V` stored by `put::<V>`, and nobody reads it again.
#[inline(always)]
pub(crate) unsafe fn take<V>(words: *mut Words) -> V {
    // SAFETY: by contract of this function.
    unsafe { if fits::<V>() { words.cast::<V>().read() } else { *words.cast::<Box<V>>().read() } }
}

/// Moves what `put::<V>` stored in `from` on to `to`.
///
/// # Safety
/// As for `take` and `put`.
#[inline(always)]
pub(crate) unsafe fn pass_on<V>(from: &Words, to: *mut Words) {
    // Only what is filled: reading 40 bytes where 8 were just written would wait for the cache.
    let bytes = if fits::<V>() { size_of::<V>() } else { size_of::<Box<V>>() };
    // SAFETY: by contract of this function.
    unsafe { to.cast::<u8>().copy_from_nonoverlapping(from.as_ptr().cast(), bytes) }
}

/// Borrows what `put::<V>` stored.
///
/// # Safety
/// `words` holds a `V` stored by `put::<V>`, which nobody moves out during `'a`.
pub(crate) unsafe fn peek<'a, V>(words: *const Words) -> &'a V {
    // SAFETY: by contract of this function.
    unsafe { if fits::<V>() { &*words.cast::<V>() } else { &*words.cast::<Box<V>>() } }
}

// ---------------------------------------------------------------- inline jobs

/// What to do with an inline job: both consume it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Run,
    Drop,
}

pub(crate) type InlineCall = unsafe fn(*mut Words, Verb);

/// A `FnOnce()` whose captures lie in five words, or in a box if they are larger.
///
/// It has no `Drop`: whoever takes it out of the queue runs it or drops it, once.
#[derive(Debug)]
pub(crate) struct InlineJob {
    pub(crate) call: InlineCall,
    pub(crate) captures: Words,
}

impl InlineJob {
    #[inline(always)]
    pub(crate) fn new<F: FnOnce() + Send + 'static>(work: F) -> Self {
        let mut captures = [MaybeUninit::uninit(); INLINE_WORDS];
        // SAFETY: fresh words.
        unsafe { put(&mut captures, work) };
        InlineJob { call: call_inline::<F>, captures }
    }

    /// Runs or drops the work. May panic as the work does.
    #[inline(always)]
    pub(crate) fn consume(mut self, verb: Verb) {
        // SAFETY: `call` was made for what lies in `captures`, and `self` is gone after.
        unsafe { (self.call)(&mut self.captures, verb) }
    }

    /// Gives the closure back: it is the `F` that `new` was called with.
    ///
    /// # Safety
    /// `self` was made by `new::<F>`.
    pub(crate) unsafe fn into_work<F>(mut self) -> F {
        // SAFETY: by contract.
        unsafe { take(&mut self.captures) }
    }
}

unsafe fn call_inline<F: FnOnce()>(words: *mut Words, verb: Verb) {
    // SAFETY: the caller owns the words, which hold an `F`.
    let work: F = unsafe { take(words) };
    match verb {
        Verb::Run => work(),
        Verb::Drop => drop(work),
    }
}

// ---------------------------------------------------------------- cell work

/// Work that ends in a value or an error: what a cell task holds.
///
/// One adapter per way of writing it; each gives the user's part back when the pool refuses it.
pub(crate) trait Work: Send {
    type Value: Send;
    type Error: Send;
    type Closure;
    fn into_closure(self) -> Self::Closure;
    /// How an error that nobody collects is told to `on_unobserved`.
    fn describe(_error: &Self::Error) -> String {
        format!("an error of type {}", std::any::type_name::<Self::Error>())
    }
}

/// Work that is a closure.
pub(crate) trait Run: Work {
    /// `state` points to the worker's state of the pool's type, or is null.
    fn run(self, state: *mut (), cx: &Cx) -> Result<Self::Value, Self::Error>;
}

/// Work too large for a cell, boxed at the door: every move of 64 KiB is a copy, and without
/// optimisation each copy has a place of its own on the stack.
impl<W: Work> Work for Box<W> {
    type Value = W::Value;
    type Error = W::Error;
    type Closure = W::Closure;
    fn into_closure(self) -> W::Closure {
        (*self).into_closure()
    }
    fn describe(error: &W::Error) -> String {
        W::describe(error)
    }
}
impl<W: Run> Run for Box<W> {
    fn run(self, state: *mut (), cx: &Cx) -> Result<W::Value, W::Error> {
        (*self).run(state, cx)
    }
}

/// `|| value`
pub(crate) struct Plain<F>(pub(crate) F);
impl<T: Send, F: FnOnce() -> T + Send> Work for Plain<F> {
    type Value = T;
    type Error = Infallible;
    type Closure = F;
    fn into_closure(self) -> F {
        self.0
    }
}
impl<T: Send, F: FnOnce() -> T + Send> Run for Plain<F> {
    #[inline(always)]
    fn run(self, _: *mut (), _: &Cx) -> Result<T, Infallible> {
        Ok((self.0)())
    }
}

/// `|| Result`
pub(crate) struct Fallible<F>(pub(crate) F);
impl<T: Send, E: Send, F: FnOnce() -> Result<T, E> + Send> Work for Fallible<F> {
    type Value = T;
    type Error = E;
    type Closure = F;
    fn into_closure(self) -> F {
        self.0
    }
}
impl<T: Send, E: Send, F: FnOnce() -> Result<T, E> + Send> Run for Fallible<F> {
    #[inline(always)]
    fn run(self, _: *mut (), _: &Cx) -> Result<T, E> {
        (self.0)()
    }
}

/// `|cx| value`
pub(crate) struct WithCx<F>(pub(crate) F);
impl<T: Send, F: FnOnce(&Cx) -> T + Send> Work for WithCx<F> {
    type Value = T;
    type Error = Infallible;
    type Closure = F;
    fn into_closure(self) -> F {
        self.0
    }
}
impl<T: Send, F: FnOnce(&Cx) -> T + Send> Run for WithCx<F> {
    #[inline(always)]
    fn run(self, _: *mut (), cx: &Cx) -> Result<T, Infallible> {
        Ok((self.0)(cx))
    }
}

/// `|cx| Result`
pub(crate) struct FallibleWithCx<F>(pub(crate) F);
impl<T: Send, E: Send, F: FnOnce(&Cx) -> Result<T, E> + Send> Work for FallibleWithCx<F> {
    type Value = T;
    type Error = E;
    type Closure = F;
    fn into_closure(self) -> F {
        self.0
    }
}
impl<T: Send, E: Send, F: FnOnce(&Cx) -> Result<T, E> + Send> Run for FallibleWithCx<F> {
    #[inline(always)]
    fn run(self, _: *mut (), cx: &Cx) -> Result<T, E> {
        (self.0)(cx)
    }
}

/// Fire and forget, `|cx| Result`: nobody but `on_unobserved` will see the error, so
/// it must be printable.
pub(crate) struct Told<W>(pub(crate) W);
impl<W: Work> Work for Told<W>
where
    W::Error: Display,
{
    type Value = W::Value;
    type Error = W::Error;
    type Closure = W::Closure;
    fn into_closure(self) -> W::Closure {
        self.0.into_closure()
    }
    fn describe(error: &W::Error) -> String {
        // A user's Display may panic too (hazard 40).
        crate::panics::quietly(|| error.to_string())
            .unwrap_or_else(|panic| format!("an error whose Display panicked: {}", panic.message()))
    }
}
impl<W: Run> Run for Told<W>
where
    W::Error: Display,
{
    fn run(self, state: *mut (), cx: &Cx) -> Result<W::Value, W::Error> {
        self.0.run(state, cx)
    }
}

/// `|state, cx| value` in a pool with `worker_state`.
pub(crate) struct WithState<F, S>(pub(crate) F, pub(crate) PhantomData<fn(&mut S)>);
impl<S, T: Send, F: FnOnce(&mut S, &Cx) -> T + Send> Work for WithState<F, S> {
    type Value = T;
    type Error = Infallible;
    type Closure = F;
    fn into_closure(self) -> F {
        self.0
    }
}
impl<S, T: Send, F: FnOnce(&mut S, &Cx) -> T + Send> Run for WithState<F, S> {
    fn run(self, state: *mut (), cx: &Cx) -> Result<T, Infallible> {
        // SAFETY: tasks of this type are only submitted to a `Pool<S>`, whose workers
        // pass their own `S`; a pool with state runs one task at a time per worker and
        // never runs tasks elsewhere (W1), so this is the only reference.
        Ok((self.0)(unsafe { &mut *state.cast::<S>() }, cx))
    }
}

/// `|state, cx| Result` in a pool with `worker_state`.
pub(crate) struct FallibleWithState<F, S>(pub(crate) F, pub(crate) PhantomData<fn(&mut S)>);
impl<S, T: Send, E: Send, F: FnOnce(&mut S, &Cx) -> Result<T, E> + Send> Work
    for FallibleWithState<F, S>
{
    type Value = T;
    type Error = E;
    type Closure = F;
    fn into_closure(self) -> F {
        self.0
    }
}
impl<S, T: Send, E: Send, F: FnOnce(&mut S, &Cx) -> Result<T, E> + Send> Run
    for FallibleWithState<F, S>
{
    fn run(self, state: *mut (), cx: &Cx) -> Result<T, E> {
        // SAFETY: as in `WithState`.
        (self.0)(unsafe { &mut *state.cast::<S>() }, cx)
    }
}
