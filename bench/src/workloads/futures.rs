//! W1 to W4 for pools of futures, with the producer inside or outside of
//! their runtime. W1a, W2a and W3a are about what only futures do.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::fire_and_forget::TASKS;
use super::handles::{self, OUTSTANDING};
use super::latency::{self, spin_for};
use super::{Body, Position, QUEUE, Shape, TokenOf};
use crate::body::{self, ShortTask};
use crate::contenders::future_pool::{FuturePool, block_on, runtime_for};
use crate::figures::{Figure, percentiles};
use crate::sink;

const WORKERS: usize = 2;

pub(super) fn fire_and_forget<P: FuturePool>(
    position: Position,
    workers: usize,
    shape: Shape,
) -> Vec<Figure> {
    let elapsed = with_producer(position, workers, move |pool: Arc<P>| async move {
        let started = Instant::now();
        for input in 0..TASKS {
            let task = ShortTask::new(input);
            match shape {
                Shape::Ready => pool.spawn(async move { sink::add(task.run()) }).await,
                Shape::YieldsOnce => {
                    let yields = async move {
                        tokio::task::yield_now().await;
                        sink::add(task.run());
                    };
                    pool.spawn(yields).await;
                }
            }
        }
        until_done(position, TASKS).await;
        started.elapsed()
    });
    sink::check(TASKS);
    vec![Figure::ns_per_task(elapsed, TASKS)]
}

pub(super) fn by_handle<P: FuturePool>(position: Position, shape: Shape) -> Vec<Figure> {
    let (tasks, any) = (handles::TASKS, ShortTask::new(0));
    assert_eq!(size_of_val(&ready(any)), 32, "what a closure captures, and its state");
    let (sum, elapsed) =
        timed::<P>(position, tasks, Submit::Shaped(shape)).expect("every pool takes futures");
    assert_eq!(sum, body::expected_sum(tasks), "a handle gave a wrong result");
    vec![Figure::ns_per_task(elapsed, tasks)]
}

/// `None` if the contender has no such limits.
pub(super) fn with_limits<P: FuturePool>(
    position: Position,
    body: Body,
    token: TokenOf,
) -> Option<Vec<Figure>> {
    let (sum, elapsed) = timed::<P>(position, body.tasks(), Submit::Limited(body, token))?;
    body.check(sum);
    Some(vec![Figure::ns_per_task(elapsed, body.tasks())])
}

/// What is submitted, and how.
#[derive(Clone, Copy)]
enum Submit {
    Shaped(Shape),
    Limited(Body, TokenOf),
}

/// Submits `tasks` tasks, never more than `OUTSTANDING` unwaited: the sum of
/// their results, and the time.
fn timed<P: FuturePool>(position: Position, tasks: u64, how: Submit) -> Option<(u64, Duration)> {
    with_producer(position, WORKERS, move |pool: Arc<P>| async move {
        let started = Instant::now();
        let mut outstanding = VecDeque::with_capacity(OUTSTANDING);
        let mut sum = 0_u64;
        for input in 0..tasks {
            if outstanding.len() == OUTSTANDING
                && let Some(oldest) = outstanding.pop_front()
            {
                sum = sum.wrapping_add(pool.wait(oldest).await);
            }
            outstanding.push_back(match how {
                Submit::Shaped(Shape::Ready) => pool.submit(ready(ShortTask::new(input))).await,
                Submit::Shaped(Shape::YieldsOnce) => {
                    pool.submit(yields(ShortTask::new(input))).await
                }
                Submit::Limited(body, TokenOf::Each) => {
                    pool.submit_limited(body.task(input)).await?
                }
                Submit::Limited(body, TokenOf::All) => {
                    pool.submit_with_token(body.task(input)).await?
                }
            });
        }
        for handle in outstanding {
            sum = sum.wrapping_add(pool.wait(handle).await);
        }
        Some((sum, started.elapsed()))
    })
}

pub(super) fn latency<P: FuturePool>(
    position: Position,
    gap: Duration,
    samples: u64,
) -> Vec<Figure> {
    let round_trips = with_producer(position, latency::WORKERS, move |pool: Arc<P>| async move {
        let mut round_trips = Vec::with_capacity(samples as usize);
        for input in 0..samples {
            spin_for(gap);
            let started = Instant::now();
            let task = ShortTask::new(input);
            let result = pool.wait(pool.submit(ready(task)).await).await;
            round_trips.push(started.elapsed().as_nanos() as u64);
            assert_eq!(result, ShortTask::new(input).run(), "a handle gave a wrong result");
        }
        round_trips
    });
    percentiles(round_trips)
}

/// Runs `produce` where it belongs, on a pool that has nothing to do yet.
fn with_producer<P, T, F, Fut>(position: Position, workers: usize, produce: F) -> T
where
    P: FuturePool,
    T: Send + 'static,
    F: FnOnce(Arc<P>) -> Fut,
    Fut: Future<Output = T> + Send + 'static,
{
    let runtime = runtime_for::<P>(workers);
    let pool = Arc::new(P::start(runtime.handle(), workers, QUEUE));
    thread::sleep(Duration::from_millis(5));
    let producer = produce(Arc::clone(&pool));
    let result = match position {
        Position::Outside => block_on(producer),
        Position::Inside => block_on(runtime.spawn(producer)).expect("the answers are right"),
    };
    let pool = Arc::into_inner(pool).expect("the producer has ended, and its share with it");
    pool.finish();
    result
}

/// Waits for the last task without keeping a thread of the runtime from it.
async fn until_done(position: Position, tasks: u64) {
    match position {
        Position::Outside => sink::wait_for(tasks),
        Position::Inside => {
            while sink::tasks_done() < tasks {
                tokio::task::yield_now().await;
            }
        }
    }
}

/// As a closure does, it captures the task.
#[allow(clippy::manual_async_fn, reason = "an `async fn` would hold its argument twice")]
fn ready(task: ShortTask) -> impl Future<Output = u64> + Send {
    async move { task.run() }
}

#[allow(clippy::manual_async_fn, reason = "an `async fn` would hold its argument twice")]
fn yields(task: ShortTask) -> impl Future<Output = u64> + Send {
    async move {
        tokio::task::yield_now().await;
        task.run()
    }
}
