//! Random trees of tasks that await each other inside one small pool: by handles, in groups, one
//! after the other or together, with limits and cancels, given up halfway. Whatever they do, all
//! of it comes to an end and the numbers add up.
//!
//! A round is a pool of its own; `TIDEGATE_CASES` makes it more rounds, `PROPTEST_RNG_SEED` others.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use futures_util::future::join_all;
use tidegate::{AsyncPool, Handle, Inside, Shutdown, WhenFull};
use tokio::runtime::Runtime;
use tokio::time::{sleep, timeout};

use crate::kit::*;

#[derive(Clone, Copy, Debug)]
struct Config {
    flavour: usize,
    inside: Inside,
    when_full: WhenFull,
}

#[test]
fn a1_random_trees_of_awaits_come_to_rest() {
    let configs = [
        Config { flavour: 0, inside: Inside::Refuse, when_full: WhenFull::Wait },
        Config { flavour: 1, inside: Inside::Refuse, when_full: WhenFull::Wait },
        Config { flavour: 0, inside: Inside::RunInline, when_full: WhenFull::Wait },
        Config { flavour: 1, inside: Inside::RunInline, when_full: WhenFull::CallerRuns },
    ];
    let mut seeds = Random(number("PROPTEST_RNG_SEED").unwrap_or(1).wrapping_add(1));
    for _ in 0..rounds() {
        let seed = seeds.next();
        for config in configs {
            within_limits(config, seed);
        }
    }
}

/// A round is hundreds of tasks: a case of the other property tests is a dozen steps.
fn rounds() -> u64 {
    number("TIDEGATE_CASES").map_or(40, |cases| cases.div_ceil(12))
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|n| n.parse().ok())
}

/// On a thread of its own: one that spins can't be stopped from inside.
fn within_limits(config: Config, seed: u64) {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let (_, runtime) = runtimes().into_iter().nth(config.flavour).unwrap();
        let round = || round(&runtime, config, seed);
        _ = tell.send(catch_unwind(AssertUnwindSafe(round)));
    });
    match told.recv_timeout(2 * LONG) {
        Ok(Ok(())) => {}
        Ok(Err(panic)) => {
            println!("seed {seed}, {config:?}");
            resume_unwind(panic);
        }
        Err(RecvTimeoutError::Timeout) => panic!("seed {seed}, {config:?}: it spins"),
        Err(RecvTimeoutError::Disconnected) => panic!("seed {seed}, {config:?}: no word of it"),
    }
}

fn round(runtime: &Runtime, config: Config, seed: u64) {
    runtime.block_on(async {
        let mut random = Random(seed);
        let builder = quiet("trees").workers(1 + random.below(2) as usize);
        let builder = builder.queue([1, 3, 100][random.below(3) as usize]);
        let builder = builder.when_full_inside(config.inside).when_full(config.when_full);
        let pool = builder.build_async().unwrap();
        let mut roots = Vec::new();
        for _ in 0..4 {
            let root = tree(pool.clone(), 3, random.fork());
            roots.push(pool.submit(root).await.expect("a root waits for room"));
        }
        for root in roots {
            let ended = timeout(LONG, root).await;
            assert!(ended.is_ok(), "it hangs\n{}\n{}", pool.snapshot(), pool.diagnose());
        }
        let mode = if random.one_in(4) { Shutdown::hard() } else { Shutdown::default() };
        let report = timeout(LONG, pool.shutdown(mode)).await.expect("it does not stop").unwrap();
        let now = pool.snapshot();
        now.check().unwrap();
        assert_eq!((now.queued, now.running, now.waiting_submitters), (0, 0, 0), "{now}");
        assert!(report.is_success(), "{report}");
    });
}

// ---------------------------------------------------------------- trees

/// What awaits its branches, some of them or none; how many have come to an end below it.
fn tree(
    pool: AsyncPool,
    depth: u32,
    mut random: Random,
) -> Pin<Box<dyn Future<Output = u64> + Send>> {
    Box::pin(async move {
        if random.one_in(3) {
            tokio::task::yield_now().await;
        }
        if random.one_in(7) {
            sleep(random.micros(1500)).await;
        }
        if depth == 0 {
            return 1;
        }
        let mut branches = Vec::new();
        for _ in 0..random.below(4) {
            branches.extend(branch(&pool, depth, &mut random).await);
        }
        1 + match random.below(5) {
            0 => one_by_one(branches).await,
            1 => together(branches).await,
            2 => timeout(random.micros(3000), together(branches)).await.unwrap_or(0),
            3 => {
                group(&pool, depth, &mut random).await;
                cancel_some(&branches, &mut random);
                one_by_one(branches).await
            }
            _ => {
                cancel_some(&branches, &mut random);
                together(branches).await
            }
        }
    })
}

/// None if it was refused.
async fn branch(pool: &AsyncPool, depth: u32, random: &mut Random) -> Option<Handle<u64>> {
    let mut task = pool.task("branch");
    if random.one_in(5) {
        task = task.queue_timeout(random.micros(2000));
    }
    if random.one_in(5) {
        task = task.timeout(random.micros(2000));
    }
    let (own, below) = (pool.clone(), random.fork());
    task.submit(move |_| tree(own, depth - 1, below)).await.ok()
}

/// Waited for to its end, or for a while.
async fn group(pool: &AsyncPool, depth: u32, random: &mut Random) {
    let group = pool.group().limit(1 + random.below(3) as usize).collect_all().start::<()>();
    for _ in 0..3 {
        let member = tree(pool.clone(), depth - 1, random.fork());
        let member = async move {
            member.await;
            Ok(())
        };
        _ = group.submit(member).await;
    }
    if random.one_in(2) {
        _ = timeout(random.micros(3000), group.wait()).await;
    } else {
        _ = group.wait().await;
    }
}

async fn one_by_one(branches: Vec<Handle<u64>>) -> u64 {
    let mut ended = 0;
    for branch in branches {
        ended += branch.await.unwrap_or(0);
    }
    ended
}

async fn together(branches: Vec<Handle<u64>>) -> u64 {
    join_all(branches).await.into_iter().map(|ended| ended.unwrap_or(0)).sum()
}

fn cancel_some(branches: &[Handle<u64>], random: &mut Random) {
    for branch in branches {
        if random.one_in(2) {
            branch.cancel();
        }
    }
}

// ---------------------------------------------------------------- chance

/// The same numbers for the same seed, by xorshift.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 16) % bound
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn micros(&mut self, bound: u64) -> Duration {
        Duration::from_micros(self.below(bound))
    }

    /// Another one, for somebody else. (Of zero there would only be zeros.)
    fn fork(&mut self) -> Random {
        Random(self.next() | 1)
    }
}
