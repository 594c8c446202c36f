//! Futures that are dropped halfway.
//!
//! A scene is a future and the events that bring it to its end. It is played again and again,
//! each time one act longer: poll, event, poll, event … and then the future is dropped. All of
//! it happens on one thread, in paused time.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::{Duration, Instant};

use crate::kit::LONG;
use crate::sleeper::Sleeper;

pub(crate) type Boxed<T> = Pin<Box<dyn Future<Output = T>>>;

pub(crate) enum Event {
    Now(Box<dyn FnOnce()>),
    /// So much of tokio's time passes.
    Later(Duration),
    /// For what needs the supervisor, which a slow machine makes rest for a while.
    Once(&'static str, Box<dyn Fn() -> bool>),
}

pub(crate) fn event(event: impl FnOnce() + 'static) -> Event {
    Event::Now(Box::new(event))
}

pub(crate) fn once(what: &'static str, fact: impl Fn() -> bool + 'static) -> Event {
    Event::Once(what, Box::new(fact))
}

/// A future, and what happens between its polls.
pub(crate) struct Scene<W, T> {
    pub(crate) world: W,
    pub(crate) future: Boxed<T>,
    pub(crate) events: Vec<Event>,
}

/// Drops the future of a scene at every point. `at_once` looks as soon as it is gone,
/// `at_last` once all events have happened; both are told whether it was ready by itself.
pub(crate) fn cut_everywhere<W, T>(
    awaits: usize,
    scene: impl AsyncFn() -> Scene<W, T>,
    at_once: impl Fn(&W, bool),
    at_last: impl AsyncFn(W, Option<T>),
) {
    for cut in 0.. {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let (pending, ready) = runtime.block_on(async {
            let Scene { world, future, events } = scene().await;
            let mut events = VecDeque::from(events);
            let (pending, ready) = acts(cut, future, &mut events).await;
            let is_ready = ready.is_some();
            at_once(&world, is_ready);
            for event in events {
                happens(event).await;
            }
            at_last(world, ready).await;
            (pending, is_ready)
        });
        if ready {
            println!("pending {pending} times, dropped at {cut} points");
            assert!(pending >= awaits, "it was pending {pending} times, not {awaits}");
            return;
        }
        assert!(cut < 40, "it is never ready");
    }
}

/// So many acts; then the future is gone.
pub(crate) async fn acts<T>(
    cut: usize,
    future: Boxed<T>,
    events: &mut VecDeque<Event>,
) -> (usize, Option<T>) {
    let mut future = Sleeper::new(future);
    let mut pending = 0;
    for act in 0..cut {
        if act % 2 == 0 {
            match future.poll() {
                Poll::Ready(value) => return (pending, Some(value)),
                Poll::Pending => pending += 1,
            }
        } else {
            match events.pop_front() {
                Some(event) => happens(event).await,
                None => until("it is woken", || future.is_woken()).await,
            }
        }
    }
    (pending, None)
}

pub(crate) async fn happens(event: Event) {
    match event {
        Event::Now(event) => event(),
        Event::Later(time) => tokio::time::advance(time).await,
        Event::Once(what, fact) => until(what, fact).await,
    }
    rest().await;
}

/// Everybody who can goes on until they can't. There is one thread: nothing of it is luck.
pub(crate) async fn rest() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

/// For what a thread has a part in. It never parks: a paused clock would run away.
pub(crate) async fn until(what: &str, fact: impl Fn() -> bool) {
    let deadline = Instant::now() + LONG;
    while !fact() {
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::task::yield_now().await;
    }
}

pub(crate) async fn finish<F: Future>(future: F) -> F::Output {
    let future = pin!(future);
    let mut future = Sleeper::new(future);
    loop {
        until("it is woken", || future.is_woken()).await;
        if let Poll::Ready(value) = future.poll() {
            return value;
        }
    }
}
