//! A future as work: how it is held, polled, dropped and settled.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::Future;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use pin_project_lite::pin_project;

use crate::cell::Ops;
use crate::clock::Ticks;
use crate::core::Core;
use crate::cx::Cx;
use crate::decide::Returned;
use crate::frames;
use crate::holding::{Hold, Holding};
use crate::job::{Told, Words, Work, put, take};
use crate::life::CellRef;
use crate::outcome::Cause;
use crate::panics::quietly;
use crate::parker::with_parker;
use crate::ring::INLINE_WORDS;
use crate::settle::{self, OpsOf, RunEnv};
use crate::sync::atomic::Ordering::{Relaxed, SeqCst};
use crate::token::{Listener, Registration};
use crate::trace::TaskSpan;

// ---------------------------------------------------------------- ways to write one

/// Work that is a future, or gives one.
pub(crate) trait Begin: Work + 'static {
    type Future: Future<Output = Result<Self::Value, Self::Error>> + Send + 'static;
    fn begin(self, cx: Cx) -> Self::Future;
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
    fn begin(self, _: Cx) -> Completes<F> {
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
    fn begin(self, _: Cx) -> F {
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
    fn begin(self, cx: Cx) -> Completes<Fut> {
        Completes { future: (self.0)(cx) }
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
    fn begin(self, cx: Cx) -> Fut {
        (self.0)(cx)
    }
}

impl<B: Begin> Begin for Told<B>
where
    B::Error: std::fmt::Display,
{
    type Future = B::Future;
    fn begin(self, cx: Cx) -> B::Future {
        self.0.begin(cx)
    }
}

impl<B: Begin> Begin for Holding<B> {
    type Future = Holds<B::Future>;
    fn begin(self, cx: Cx) -> Holds<B::Future> {
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
    fn begin(self, cx: Cx) -> IsMember<B::Future> {
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

// ---------------------------------------------------------------- typed part

pin_project! {
    /// Work on the heap, where it stays from its submission to its end: one allocation a task.
    pub(crate) struct FutureTask<B: Begin> {
        // Once it has begun.
        run: Option<Begun>,
        #[pin]
        stage: Stage<B>,
    }
}

pin_project! {
    #[project = AtStage]
    enum Stage<B: Begin> {
        Waits { work: Option<B> },
        Polled { #[pin] future: B::Future },
        Gone,
    }
}

/// What is known of a task that has begun.
struct Begun {
    cx: Cx,
    span: TaskSpan,
    /// As `RunEnv::show` says.
    lowest: bool,
}

impl<B: Begin> FutureTask<B> {
    pub(crate) const OPS: Ops = OpsOf::<Box<FutureTask<B>>>::with(begin::<B>, true);

    pub(crate) fn boxed(work: B) -> Box<FutureTask<B>> {
        Box::new(FutureTask { run: None, stage: Stage::Waits { work: Some(work) } })
    }
}

impl<B: Begin> Work for FutureTask<B> {
    type Value = B::Value;
    type Error = B::Error;
    type Closure = B::Closure;
    fn into_closure(self) -> B::Closure {
        match self.stage {
            Stage::Waits { work: Some(work) } => work.into_closure(),
            _ => unreachable!("only work that was not begun is given back"),
        }
    }
    fn describe(error: &B::Error) -> String {
        B::describe(error)
    }
}

/// The task's `run`: puts it into the nest, where it will be polled.
unsafe fn begin<B: Begin>(cell: CellRef, env: &RunEnv<'_>) -> bool {
    let Some(cx) = Cx::new(cell, env) else {
        settle::settle_expired(cell, env);
        return false;
    };
    // SAFETY: the caller has claimed the start, so the payload is ours and holds this.
    let mut task: Box<FutureTask<B>> = cell.payload(|words| unsafe { take(words) });
    let span = TaskSpan::of(cell, cx.name());
    let limit = cx.limit();
    if let Some(line) = env.line {
        cell.set_runner(line.id);
    }
    let lowest = env.show(cell);
    env.core.watch_limit(limit);
    task.run = Some(Begun { cx, span, lowest });
    env.nest.add(Started(Box::into_pin(task)));
    false
}

/// A stage whose type is forgotten.
trait Steps {
    /// One poll. What it gave then lies in `left`, and the future is gone.
    fn step(
        self: Pin<&mut Self>,
        task: &Cx,
        cx: &mut Context<'_>,
        left: &mut Words,
    ) -> Poll<Returned>;
    /// Drops what is there.
    fn clear(self: Pin<&mut Self>);
}

impl<B: Begin> Steps for Stage<B> {
    fn step(
        mut self: Pin<&mut Self>,
        task: &Cx,
        cx: &mut Context<'_>,
        left: &mut Words,
    ) -> Poll<Returned> {
        if let AtStage::Waits { work } = self.as_mut().project() {
            let work = work.take().expect("begun once");
            let future = work.begin(task.twin());
            self.set(Stage::Polled { future });
        }
        let AtStage::Polled { future } = self.as_mut().project() else {
            unreachable!("a future that is gone is not polled");
        };
        let Poll::Ready(returned) = future.poll(cx) else { return Poll::Pending };
        self.set(Stage::Gone); // before its outcome can be seen (O1)
        Poll::Ready(match returned {
            Ok(value) => {
                // SAFETY: fresh words.
                unsafe { put(left, value) };
                Returned::Value
            }
            Err(error) => {
                // SAFETY: fresh words.
                unsafe { put(left, error) };
                Returned::Error
            }
        })
    }

    fn clear(mut self: Pin<&mut Self>) {
        self.set(Stage::Gone);
    }
}

/// A task whose type is forgotten.
trait Body: Send {
    fn parts(self: Pin<&mut Self>) -> (&Begun, Pin<&mut dyn Steps>);
    /// # Safety
    /// As `Left` says.
    unsafe fn settle(self: Pin<&mut Self>, env: &RunEnv<'_>, left: Left);
}

/// What a future left behind, and when if that matters. `words` hold what `how` says.
struct Left {
    how: Returned,
    words: Words,
    at: Option<Ticks>,
}

impl<B: Begin> Body for FutureTask<B> {
    fn parts(self: Pin<&mut Self>) -> (&Begun, Pin<&mut dyn Steps>) {
        let this = self.project();
        (this.run.as_ref().expect("begun"), this.stage)
    }

    unsafe fn settle(self: Pin<&mut Self>, env: &RunEnv<'_>, left: Left) {
        let run = self.project().run.as_ref().expect("begun");
        let Left { how, words, at } = left;
        // SAFETY: by contract.
        unsafe {
            settle::settle_returned::<Box<FutureTask<B>>>(
                run.cx.cell(),
                env,
                how,
                words,
                &run.cx,
                at,
            );
        }
    }
}

// ---------------------------------------------------------------- untyped part

/// A future that has begun and not ended. Whoever has it polls it to its end or stops it.
pub(crate) struct Started(Pin<Box<dyn Body>>);

impl Started {
    /// Polls it; drops it instead if it was told to stop. Ready once it is settled.
    pub(crate) fn poll(&mut self, env: &RunEnv<'_>, cx: &mut Context<'_>) -> Poll<()> {
        let (begun, steps) = self.0.as_mut().parts();
        if begun.cx.cell().stop_requested().is_some() {
            self.stop(env, Cause::Shutdown);
            return Poll::Ready(());
        }
        let mut words = [MaybeUninit::uninit(); INLINE_WORDS];
        let (polled, at) = begun.span.twin().around(env.core, || {
            let polled = run_code(env, begun.cx.cell(), || steps.step(&begun.cx, cx, &mut words));
            // Strict: what counts is when the future was ready.
            (polled, begun.cx.started().map(|_| env.core.clock.now()))
        });
        let how = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(how)) => how,
            Err(panic) => {
                self.clear(env).into_iter().for_each(|second| count_drop(env.core, second));
                // SAFETY: fresh words.
                unsafe { put(&mut words, panic) };
                Returned::Panic
            }
        };
        // SAFETY: `how` says what was just stored.
        unsafe { self.settle(env, Left { how, words, at }) };
        Poll::Ready(())
    }

    /// Drops the future and settles it: by the cause it was told, or by this one.
    pub(crate) fn stop(&mut self, env: &RunEnv<'_>, cause: Cause) {
        let panicked = self.clear(env);
        let (begun, _) = self.0.as_mut().parts();
        let at = begun.cx.started().map(|_| env.core.clock.now());
        match panicked {
            None => {
                settle::settle_stopped(begun.cx.cell(), env, &begun.cx, at, cause);
                env.hide(begun.cx.cell(), begun.lowest);
            }
            Some(panic) => {
                let mut words = [MaybeUninit::uninit(); INLINE_WORDS];
                // SAFETY: fresh words, of which `how` says what they hold.
                unsafe {
                    put(&mut words, panic);
                    self.settle(env, Left { how: Returned::Panic, words, at });
                }
            }
        }
    }

    fn cell(&mut self) -> CellRef {
        self.0.as_mut().parts().0.cx.cell()
    }

    /// A token that is cancelled when it is told to stop.
    fn token(&mut self) -> crate::token::Token {
        self.0.as_mut().parts().0.cx.token()
    }

    fn clear(&mut self, env: &RunEnv<'_>) -> Option<crate::panics::Panic> {
        let (begun, steps) = self.0.as_mut().parts();
        run_code(env, begun.cx.cell(), || steps.clear()).err()
    }

    /// # Safety
    /// As `Left` says.
    unsafe fn settle(&mut self, env: &RunEnv<'_>, left: Left) {
        let (begun, _) = self.0.as_mut().parts();
        let (cell, lowest) = (begun.cx.cell(), begun.lowest);
        // SAFETY: by contract.
        unsafe { self.0.as_mut().settle(env, left) };
        env.hide(cell, lowest);
    }
}

/// Code of the user, which must not block here.
fn run_code<R>(
    env: &RunEnv<'_>,
    cell: CellRef,
    f: impl FnOnce() -> R,
) -> Result<R, crate::panics::Panic> {
    let poll = frames::Poll { inbox: std::ptr::from_ref(env.nest).cast() };
    let now = || env.core.real_time.now();
    let shown = env.line.filter(|line| line.poll_begins(cell, now));
    let result = quietly(|| frames::enter_poll(env.core.address(), env.line, &poll, f));
    shown.into_iter().for_each(|line| line.poll_ends());
    result
}

fn count_drop(core: &Core, panic: crate::panics::Panic) {
    core.ledger.drop_panics.fetch_add(1, Relaxed);
    core.discard(panic);
}

// ---------------------------------------------------------------- where they wait

/// Futures that were begun: one as a rule, more if that one begins others on top of itself.
#[derive(Default)]
pub(crate) struct Nest {
    /// The oldest, if there is any: that one needs no list.
    first: Cell<Option<Started>>,
    more: Cell<Vec<Started>>,
}

impl Nest {
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        let first = self.first.take();
        let empty = first.is_none();
        self.first.set(first);
        empty
    }

    fn add(&self, task: Started) {
        match self.first.take() {
            None => self.first.set(Some(task)),
            first => {
                self.first.set(first);
                let mut more = self.more.take();
                more.push(task);
                self.more.set(more);
            }
        }
    }

    /// All of them, the oldest first.
    fn take_all(&self) -> impl Iterator<Item = Started> + use<> {
        self.first.take().into_iter().chain(self.more.take())
    }

    /// Polls what is in it, until all of it is pending (Pending) or over.
    pub(crate) fn poll(&self, env: &RunEnv<'_>, cx: &mut Context<'_>) -> Poll<()> {
        // What has begun meanwhile must be polled once, or nothing would wake us for it.
        while self.retain(|task| task.poll(env, cx).is_pending()) {}
        if self.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Drops what is in it, and what its destructors begin.
    pub(crate) fn stop(&self, env: &RunEnv<'_>, cause: Cause) {
        while !self.is_empty() {
            self.take_all().for_each(|mut task| task.stop(env, cause));
        }
    }

    /// As `poll`, where no worker is woken when one of them is told to stop.
    pub(crate) fn poll_hosted(
        &self,
        env: &RunEnv<'_>,
        cx: &mut Context<'_>,
        told: &mut StopWakes,
    ) -> Poll<()> {
        loop {
            told.watch(self, cx.waker());
            let polled = self.poll(env, cx);
            if polled.is_ready() || told.watches(self) {
                return polled;
            }
        }
    }

    /// What `f` gives for each, the oldest first.
    fn each<R>(&self, f: impl FnMut(&mut Started) -> R) -> Vec<R> {
        let (mut first, mut more) = (self.first.take(), self.more.take());
        let found = first.iter_mut().chain(&mut more).map(f).collect();
        self.first.set(first);
        self.more.set(more);
        found
    }

    /// Keeps those that `keep` says; what begins meanwhile comes behind them. False if nothing
    /// did.
    fn retain(&self, mut keep: impl FnMut(&mut Started) -> bool) -> bool {
        let (mut first, mut more) = (self.first.take(), self.more.take());
        if first.as_mut().is_some_and(|task| !keep(task)) {
            first = None;
        }
        more.retain_mut(keep);
        let before = more.len();
        more.extend(self.take_all());
        let grew = more.len() > before;
        if first.is_none() && !more.is_empty() {
            first = Some(more.remove(0));
        }
        self.first.set(first);
        self.more.set(more);
        grew
    }

    /// Polls what is in it to the end, on this thread.
    #[inline(always)]
    pub(crate) fn finish_here(&self, env: &RunEnv<'_>) {
        if !self.is_empty() {
            self.finish(env);
        }
    }

    #[cold]
    fn finish(&self, env: &RunEnv<'_>) {
        let _inside = env.core.driver.enter();
        with_parker(|parker, waker| {
            let (mut cx, mut told) = (Context::from_waker(waker), StopWakes::default());
            while self.poll_hosted(env, &mut cx, &mut told).is_pending() {
                parker.park();
            }
        });
    }
}

/// Wakes whoever polls a nest that is no worker's, when a task in it is told to stop.
#[derive(Default)]
pub(crate) struct StopWakes {
    waker: Option<Waker>,
    of: Vec<CellRef>,
    registrations: Vec<Registration>,
}

impl StopWakes {
    fn watch(&mut self, nest: &Nest, waker: &Waker) {
        let same = self.waker.as_ref().is_some_and(|old| old.will_wake(waker));
        if same && self.watches(nest) {
            return;
        }
        self.waker = Some(waker.clone());
        self.of = nest.each(Started::cell);
        let tokens = nest.each(Started::token).into_iter();
        // One that was told already is dropped by the poll that follows.
        let registered = tokens.filter_map(|t| t.register(Listener::Waker(waker.clone())));
        self.registrations = registered.collect();
    }

    /// Nothing has begun since.
    fn watches(&self, nest: &Nest) -> bool {
        nest.each(Started::cell).iter().all(|cell| self.of.contains(cell))
    }
}

/// R9 for futures: a target of the same pool that is still queued is begun by the worker that
/// waits for it, on top of the task that is polled there. False if that can't be.
pub(crate) fn begin_queued(cell: CellRef) -> bool {
    let pool = cell.cell().core.load(SeqCst);
    frames::with_poll(pool.cast_const(), |poll| {
        let Some(poll) = poll else { return false };
        let Some(core) = Core::find(pool) else { return false };
        core.begin_on_top(cell, poll)
    })
}

impl Core {
    /// Begins a queued task on top of the one that is polled; false if somebody else was first.
    pub(crate) fn begin_on_top(self: &Arc<Self>, cell: CellRef, poll: &frames::Poll) -> bool {
        if !cell.claim_start() {
            return false;
        }
        self.queue.give_credit();
        self.room_is_free();
        self.begin_claimed_on_top(cell, poll);
        true
    }

    /// As `begin_on_top`, for a task that was claimed.
    pub(crate) fn begin_claimed_on_top(self: &Arc<Self>, cell: CellRef, poll: &frames::Poll) {
        // SAFETY: `run_code` made it of a nest that lives as long as the poll, on this thread.
        let nest = unsafe { &*poll.inbox.cast::<Nest>() };
        frames::with_line(self.address(), |line| {
            self.ledger.nested.fetch_add(1, SeqCst);
            match line {
                Some(line) => line.count_nested(),
                None => {
                    self.ledger.started.fetch_add(1, SeqCst);
                    self.callers.lock().push((cell, frames::fresh_number()));
                }
            }
            let env = RunEnv { core: self, line, state: crate::worker::no_state(), nest };
            crate::worker::run_claimed(cell, &env);
        });
    }
}
