//! A future as work: how it is held, polled, dropped and settled.

use std::future::Future;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::nest::{FirstPoll, drop_wishes};
use super::spare;
use super::work::Begin;
use crate::cell::Ops;
use crate::clock::Ticks;
use crate::core::Core;
use crate::cx::Cx;
use crate::decide::Returned;
use crate::frames;
use crate::job::{Words, Work, put, take};
use crate::life::CellRef;
use crate::outcome::Cause;
use crate::panics::quietly;
use crate::ring::INLINE_WORDS;
use crate::settle::{self, OpsOf, RunEnv};
use crate::short_way;
use crate::sync::atomic::Ordering::Relaxed;
use crate::trace::TaskSpan;

// ---------------------------------------------------------------- typed part

pin_project! {
    /// Work on the heap, where it stays until its end. Small work lies in its cell before, and
    /// comes here when it begins: what is allocated on one thread and freed on another costs more
    /// than the rest of a short task. If it is ready at once its place is used again (`spare.rs`).
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
    pub(crate) const OPS: Ops = OpsOf::<Box<FutureTask<B>>>::with(begin_boxed::<B>, true);
    /// For a `B` that lies in its cell.
    pub(crate) const SMALL_OPS: Ops = OpsOf::<B>::with(begin_small::<B>, true);

    #[inline(always)]
    fn new(work: B) -> FutureTask<B> {
        FutureTask { run: None, stage: Stage::Waits { work: Some(work) } }
    }

    #[inline(always)]
    pub(crate) fn boxed(work: B) -> Box<FutureTask<B>> {
        Box::new(FutureTask::new(work))
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

unsafe fn begin_boxed<B: Begin>(cell: CellRef, env: &RunEnv<'_>) -> bool {
    // SAFETY: the caller has claimed the start, so the payload is ours and holds this.
    begin::<B>(cell, env, || cell.payload(|words| unsafe { take(words) }), drop)
}

unsafe fn begin_small<B: Begin>(cell: CellRef, env: &RunEnv<'_>) -> bool {
    // SAFETY: as above.
    let take = || spare::boxed(FutureTask::new(cell.payload(|words| unsafe { take(words) })));
    begin::<B>(cell, env, take, spare::recycle)
}

/// The task's `run`: polls it where that may be, and puts it into the nest if it has to go on.
/// `leave`: what becomes of it if not.
#[inline(always)]
fn begin<B: Begin>(
    cell: CellRef,
    env: &RunEnv<'_>,
    take: impl FnOnce() -> Box<FutureTask<B>>,
    leave: impl FnOnce(Pin<Box<FutureTask<B>>>),
) -> bool {
    let Some(cx) = Cx::new(cell, env) else {
        settle::settle_expired(cell, env);
        return false;
    };
    let mut task = take();
    let span = TaskSpan::of(cell, cx.name());
    let limit = cx.limit();
    let lowest = env.show(cell);
    env.core.watch_limit(limit);
    task.run = Some(Begun { cx, span, lowest });
    let mut task = Box::into_pin(task);
    let waker = match env.nest.take_first_poll() {
        FirstPoll::AtOnce => env.line.and_then(|line| line.waker.get()),
        _ => None,
    };
    let Some(waker) = waker else {
        will_be_polled(cell, env);
        env.nest.add(Started(task));
        return false;
    };
    // Most futures that are ready at once end here, and never were in a nest.
    let poll = env.nest.top_poll(env.line);
    let polled = poll_once(task.as_mut(), env, &mut Context::from_waker(waker), &poll);
    let wishes = poll.wishes.take();
    if polled.is_pending() {
        let is_told = will_be_polled(cell, env);
        let is_alone = env.nest.add_below(Started(task), wishes);
        if is_alone && !is_told {
            env.nest.is_pending();
        }
    } else {
        leave(task);
        if !wishes.is_empty() {
            drop_wishes(wishes);
        }
    }
    false
}

/// From now on who tells it to stop wakes this worker. True: somebody has before.
fn will_be_polled(cell: CellRef, env: &RunEnv<'_>) -> bool {
    match env.line {
        Some(line) => !line.will_poll(cell),
        None => cell.stop_requested().is_some(),
    }
}

impl<B: Begin> Stage<B> {
    /// One poll. What it gave then lies in `left`, and the future is gone.
    #[inline(always)]
    fn step(
        mut self: Pin<&mut Self>,
        task: &Cx,
        cx: &mut Context<'_>,
        left: &mut Words,
    ) -> Poll<Returned> {
        if let AtStage::Waits { work } = self.as_mut().project() {
            let work = work.take().expect("begun once");
            let future = work.begin(task);
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
}

/// A task whose type may be forgotten.
trait Body: Send {
    fn begun(self: Pin<&mut Self>) -> &mut Begun;
    /// One poll. What it gave then lies in `left`, and the future is gone.
    fn step(self: Pin<&mut Self>, cx: &mut Context<'_>, left: &mut Words) -> Poll<Returned>;
    /// Drops the future.
    fn clear(self: Pin<&mut Self>);
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
    #[inline(always)]
    fn begun(self: Pin<&mut Self>) -> &mut Begun {
        self.project().run.as_mut().expect("begun")
    }

    #[inline(always)]
    fn step(self: Pin<&mut Self>, cx: &mut Context<'_>, left: &mut Words) -> Poll<Returned> {
        let this = self.project();
        this.stage.step(&this.run.as_ref().expect("begun").cx, cx, left)
    }

    fn clear(self: Pin<&mut Self>) {
        self.project().stage.set(Stage::Gone);
    }

    #[inline(always)]
    unsafe fn settle(self: Pin<&mut Self>, env: &RunEnv<'_>, left: Left) {
        let Begun { cx, lowest, .. } = self.project().run.as_ref().expect("begun");
        let Left { how, words, at } = left;
        // SAFETY: by contract.
        unsafe {
            short_way::settle_future::<Box<FutureTask<B>>>(cx.cell(), env, how, words, cx, at);
        }
        env.hide(cx.cell(), *lowest);
    }
}

/// Polls a task; drops it instead if it was told to stop. Ready once it is settled.
#[inline(always)]
fn poll_once<T: Body + ?Sized>(
    mut task: Pin<&mut T>,
    env: &RunEnv<'_>,
    cx: &mut Context<'_>,
    poll: &frames::Poll,
) -> Poll<()> {
    let begun = task.as_mut().begun();
    let (cell, is_timed) = (begun.cx.cell(), begun.cx.started().is_some());
    if cell.stop_requested().is_some() {
        stop(task, env, Cause::Shutdown, poll);
        return Poll::Ready(());
    }
    let span = begun.span.twin();
    let mut words = [MaybeUninit::uninit(); INLINE_WORDS];
    let (polled, at) = span.around(env.core, || {
        let polled = run_code(env, poll, cell, || task.as_mut().step(cx, &mut words));
        // Strict: what counts is when the future was ready.
        let is_over = !matches!(polled, Ok(Poll::Pending));
        (polled, (is_timed && is_over).then(|| env.core.clock.now()))
    });
    let how = match polled {
        Ok(Poll::Pending) => return Poll::Pending,
        Ok(Poll::Ready(how)) => how,
        Err(panic) => {
            let second = clear(task.as_mut(), env, poll);
            second.into_iter().for_each(|second| count_drop(env.core, second));
            // SAFETY: fresh words.
            unsafe { put(&mut words, panic) };
            Returned::Panic
        }
    };
    close_span(task.as_mut(), env);
    // SAFETY: `how` says what was just stored.
    unsafe { task.settle(env, Left { how, words, at }) };
    Poll::Ready(())
}

/// Drops the future and settles it: by the cause it was told, or by this one.
#[cold]
fn stop<T: Body + ?Sized>(
    mut task: Pin<&mut T>,
    env: &RunEnv<'_>,
    cause: Cause,
    poll: &frames::Poll,
) {
    let panicked = clear(task.as_mut(), env, poll);
    close_span(task.as_mut(), env);
    let begun = task.as_mut().begun();
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
                task.settle(env, Left { how: Returned::Panic, words, at });
            }
        }
    }
}

/// Before it is settled: the last one closes the span, which is user code.
#[inline(always)]
fn close_span<T: Body + ?Sized>(task: Pin<&mut T>, env: &RunEnv<'_>) {
    std::mem::take(&mut task.begun().span).close(env.core);
}

#[cold]
fn clear<T: Body + ?Sized>(
    mut task: Pin<&mut T>,
    env: &RunEnv<'_>,
    poll: &frames::Poll,
) -> Option<crate::panics::Panic> {
    let cell = task.as_mut().begun().cx.cell();
    run_code(env, poll, cell, || task.as_mut().clear()).err()
}

// ---------------------------------------------------------------- untyped part

/// A future that has begun and not ended. Whoever has it polls it to its end or stops it.
pub(crate) struct Started(Pin<Box<dyn Body>>);

impl Started {
    /// Polls it; drops it instead if it was told to stop. Ready once it is settled.
    pub(super) fn poll(
        &mut self,
        env: &RunEnv<'_>,
        cx: &mut Context<'_>,
        poll: &frames::Poll,
    ) -> Poll<()> {
        poll_once(self.0.as_mut(), env, cx, poll)
    }

    /// Drops the future and settles it: by the cause it was told, or by this one.
    pub(super) fn stop(&mut self, env: &RunEnv<'_>, cause: Cause, poll: &frames::Poll) {
        stop(self.0.as_mut(), env, cause, poll);
    }

    pub(super) fn cell(&mut self) -> CellRef {
        self.0.as_mut().begun().cx.cell()
    }

    /// A token that is cancelled when it is told to stop.
    pub(super) fn token(&mut self) -> crate::token::Token {
        self.0.as_mut().begun().cx.token()
    }
}

/// Code of the user, which must not block here.
#[inline(always)]
fn run_code<R>(
    env: &RunEnv<'_>,
    poll: &frames::Poll,
    cell: CellRef,
    f: impl FnOnce() -> R,
) -> Result<R, crate::panics::Panic> {
    let shown = env.line.filter(|line| {
        let watch = &env.core.poll_watch;
        let date = || (!watch.is_on()).then(|| env.core.real_time.now());
        let number = line.poll_begins(cell, date);
        if number.is_some_and(|number| number % MANY_POLLS == 0) && !watch.is_on() {
            env.core.polls_come_fast();
        }
        number.is_some()
    });
    let result = quietly(|| frames::enter_poll(env.core.address(), env.line, poll, f));
    shown.into_iter().for_each(|line| line.poll_ends());
    result
}

/// After so many polls of one worker somebody watches them (`poll_watch.rs`), until there are none.
const MANY_POLLS: u64 = 64;

fn count_drop(core: &Core, panic: crate::panics::Panic) {
    core.ledger.drop_panics.fetch_add(1, Relaxed);
    core.discard(panic);
}

impl Core {
    #[cold]
    fn polls_come_fast(&self) {
        if self.poll_watch.turn_on() {
            self.wake_supervisor();
        }
    }
}
