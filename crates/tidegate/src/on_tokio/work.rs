//! Ways to write a task that is a future.

use std::convert::Infallible;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::cx::Cx;
use crate::frames;
use crate::holding::{Hold, Holding};
use crate::job::{Told, Work};

/// Work that is a future, or gives one.
pub(crate) trait Begin: Work<Closure: Send> + 'static {
    type Future: Future<Output = Result<Self::Value, Self::Error>> + Send + 'static;
    fn begin(self, cx: &Cx) -> Self::Future;
}

/// A future that gives a value.
pub(crate) struct Value<F>(pub(crate) F);
impl<F: Future<Output: Send> + Send> Work for Value<F> {
    type Value = F::Output;
    type Error = Infallible;
    type Closure = F;
    fn into_closure(self) -> F {
        self.0
    }
}
impl<F: Future<Output: Send> + Send + 'static> Begin for Value<F> {
    type Future = Completes<F>;
    fn begin(self, _: &Cx) -> Completes<F> {
        Completes { future: self.0 }
    }
}

/// A future that gives a `Result`.
pub(crate) struct Outcome<F>(pub(crate) F);
impl<T: Send, E: Send, F: Future<Output = Result<T, E>> + Send> Work for Outcome<F> {
    type Value = T;
    type Error = E;
    type Closure = F;
    fn into_closure(self) -> F {
        self.0
    }
}
impl<T, E, F> Begin for Outcome<F>
where
    T: Send,
    E: Send,
    F: Future<Output = Result<T, E>> + Send + 'static,
{
    type Future = F;
    fn begin(self, _: &Cx) -> F {
        self.0
    }
}

/// `|cx| async { … }`
pub(crate) struct Call<F, W>(pub(crate) F, pub(crate) PhantomData<fn() -> W>);
impl<W: Work, F: Send> Work for Call<F, W> {
    type Value = W::Value;
    type Error = W::Error;
    type Closure = F;
    fn into_closure(self) -> F {
        self.0
    }
}
impl<Fut, F> Begin for Call<F, Value<Fut>>
where
    Fut: Future<Output: Send> + Send + 'static,
    F: FnOnce(Cx) -> Fut + Send + 'static,
{
    type Future = Completes<Fut>;
    fn begin(self, cx: &Cx) -> Completes<Fut> {
        Completes { future: (self.0)(cx.twin()) }
    }
}
impl<T, E, Fut, F> Begin for Call<F, Outcome<Fut>>
where
    T: Send,
    E: Send,
    Fut: Future<Output = Result<T, E>> + Send + 'static,
    F: FnOnce(Cx) -> Fut + Send + 'static,
{
    type Future = Fut;
    fn begin(self, cx: &Cx) -> Fut {
        (self.0)(cx.twin())
    }
}

impl<B: Begin> Begin for Told<B>
where
    B::Error: std::fmt::Display,
{
    type Future = B::Future;
    fn begin(self, cx: &Cx) -> B::Future {
        self.0.begin(cx)
    }
}

impl<B: Begin> Begin for Holding<B> {
    type Future = Holds<B::Future>;
    fn begin(self, cx: &Cx) -> Holds<B::Future> {
        let (work, hold) = self.into_parts();
        Holds { future: work.begin(cx), _until_it_is_gone: hold }
    }
}

/// Work of a group, which knows that it is one.
pub(crate) struct Member<B> {
    pub(crate) group: u64,
    pub(crate) work: B,
}
impl<B: Work> Work for Member<B> {
    type Value = B::Value;
    type Error = B::Error;
    type Closure = B::Closure;
    fn into_closure(self) -> B::Closure {
        self.work.into_closure()
    }
}
impl<B: Begin> Begin for Member<B> {
    type Future = IsMember<B::Future>;
    fn begin(self, cx: &Cx) -> IsMember<B::Future> {
        let Member { group, work } = self;
        IsMember { group, future: frames::as_member(group, || work.begin(cx)) }
    }
}

pin_project! {
    /// Gives the value of the future.
    pub(crate) struct Completes<F> {
        #[pin]
        future: F,
    }
}
impl<F: Future> Future for Completes<F> {
    type Output = Result<F::Output, Infallible>;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().future.poll(cx).map(Ok)
    }
}

pin_project! {
    /// Holds its share of budgets for as long as the future is there.
    pub(crate) struct Holds<F> {
        #[pin]
        future: F,
        // After it: whoever takes the share finds the captures gone.
        _until_it_is_gone: Arc<Hold>,
    }
}
impl<F: Future> Future for Holds<F> {
    type Output = F::Output;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().future.poll(cx)
    }
}

pin_project! {
    pub(crate) struct IsMember<F> {
        group: u64,
        #[pin]
        future: F,
    }
}
impl<F: Future> Future for IsMember<F> {
    type Output = F::Output;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        frames::as_member(*this.group, || this.future.poll(cx))
    }
}
