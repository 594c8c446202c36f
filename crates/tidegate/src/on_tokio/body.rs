//! A future as work: how it is held, polled, dropped and settled.

use std::future::Future;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

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
use crate::sync::atomic::Ordering::Relaxed;
use crate::trace::TaskSpan;

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
    pub(super) fn poll(
        &mut self,
        env: &RunEnv<'_>,
        cx: &mut Context<'_>,
        poll: &frames::Poll,
    ) -> Poll<()> {
        let (begun, steps) = self.0.as_mut().parts();
        if begun.cx.cell().stop_requested().is_some() {
            self.stop(env, Cause::Shutdown, poll);
            return Poll::Ready(());
        }
        let mut words = [MaybeUninit::uninit(); INLINE_WORDS];
        let (polled, at) = begun.span.twin().around(env.core, || {
            let polled =
                run_code(env, poll, begun.cx.cell(), || steps.step(&begun.cx, cx, &mut words));
            // Strict: what counts is when the future was ready.
            (polled, begun.cx.started().map(|_| env.core.clock.now()))
        });
        let how = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(how)) => how,
            Err(panic) => {
                self.clear(env, poll).into_iter().for_each(|second| count_drop(env.core, second));
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
    pub(super) fn stop(&mut self, env: &RunEnv<'_>, cause: Cause, poll: &frames::Poll) {
        let panicked = self.clear(env, poll);
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

    pub(super) fn cell(&mut self) -> CellRef {
        self.0.as_mut().parts().0.cx.cell()
    }

    /// A token that is cancelled when it is told to stop.
    pub(super) fn token(&mut self) -> crate::token::Token {
        self.0.as_mut().parts().0.cx.token()
    }

    fn clear(&mut self, env: &RunEnv<'_>, poll: &frames::Poll) -> Option<crate::panics::Panic> {
        let (begun, steps) = self.0.as_mut().parts();
        run_code(env, poll, begun.cx.cell(), || steps.clear()).err()
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
    poll: &frames::Poll,
    cell: CellRef,
    f: impl FnOnce() -> R,
) -> Result<R, crate::panics::Panic> {
    let now = || env.core.real_time.now();
    let shown = env.line.filter(|line| line.poll_begins(cell, now));
    let result = quietly(|| frames::enter_poll(env.core.address(), env.line, poll, f));
    shown.into_iter().for_each(|line| line.poll_ends());
    result
}

fn count_drop(core: &Core, panic: crate::panics::Panic) {
    core.ledger.drop_panics.fetch_add(1, Relaxed);
    core.discard(panic);
}
