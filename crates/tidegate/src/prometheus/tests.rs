use super::families::ENDS;
use super::page::seconds;
use super::*;
use crate::budget::BudgetReading;
use crate::histogram::{Histogram, Recorder};
use crate::ids::{TaskId, WorkerId};
use crate::report::Mode;
use crate::snapshot::{LongPoll, Refusals, WorkerInfo, WorkerState};
use crate::times::TaskTimes;

fn of(times: &[(u64, u64)]) -> Histogram {
    let recorder = Recorder::default();
    for (nanos, weight) in times {
        recorder.record_own(Duration::from_nanos(*nanos), *weight);
    }
    let mut sum = Histogram::default();
    recorder.add_to(&mut sum);
    sum
}

fn named(name: &str, run_time: Histogram) -> TaskTimes {
    TaskTimes { name: name.into(), run_time, ..TaskTimes::default() }
}

fn worker(id: u32, state: WorkerState) -> WorkerInfo {
    WorkerInfo { id: WorkerId(id), state, started: 0, panicked: 0, restarts: 0 }
}

fn images() -> Snapshot {
    let since = Duration::from_millis(5);
    let running = WorkerState::Running { name: "resize", id: TaskId { hi: 1, lo: 2 }, since };
    Snapshot {
        pool: "images".into(),
        uptime: Duration::from_secs(2),
        accepted: 1_024,
        refused: Refusals { full: 5, would_deadlock: 2, ..Refusals::default() },
        queued: 12,
        running: 2,
        completed: 1_000,
        failed: 4,
        panicked: 3,
        timed_out: 1,
        cancelled: 0,
        evicted: 0,
        abandoned: 2,
        on_caller: 7,
        nested: 8,
        stuck: 1,
        blocked_workers: 1,
        longest_poll: Some(LongPoll {
            name: "resize",
            id: TaskId { hi: 1, lo: 2 },
            worker: WorkerId(1),
            lasts: Duration::from_millis(2_500),
        }),
        late_returns: 1,
        items: 9,
        callback_panics: 1,
        drop_panics: 2,
        hook_panics: 3,
        worker_restarts: 6,
        size_turns: 2,
        workers: 4,
        live_workers: 3,
        starting_workers: 0,
        idle_workers: 1,
        queue_capacity: 1_000,
        waiting_submitters: 2,
        waiting_for_budget: 1,
        budget_wait: Duration::from_millis(1_500),
        submit_wait: of(&[(0, 1_023), (2_000_000, 1)]),
        queue_wait: of(&[(1_023, 1), (1_024, 64), (1 << 37, 1)]),
        run_time: of(&[(500, 32), (1_500_000_000, 2)]),
        tasks: vec![named("resize", of(&[(1_500_000_000, 2)]))],
        busy: Duration::from_millis(1_250),
        worker_time: Duration::from_secs(4),
        state: PoolState::Running,
        roster: vec![
            worker(1, running),
            worker(2, WorkerState::Idle),
            worker(3, WorkerState::Stuck),
            worker(4, WorkerState::Ended { cause: "told to".into() }),
        ],
    }
}

fn memory() -> BudgetReading {
    BudgetReading { capacity: 512, in_use: 300, available: 212, waiting: 4, held_by_abandoned: 5 }
}

/// `TIDEGATE_BLESS=1` writes it anew: then read the difference.
#[test]
fn v1_a_page_as_it_was_agreed() {
    let text = page(vec![("images".into(), images())], vec![("memory".into(), memory())]);
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/src/prometheus/golden.txt");
    if std::env::var_os("TIDEGATE_BLESS").is_some() {
        std::fs::write(golden, &text).unwrap();
    }
    let agreed = std::fs::read_to_string(golden).unwrap();
    for (number, (line, want)) in text.lines().zip(agreed.lines()).enumerate() {
        assert_eq!(line, want, "line {}", number + 1);
    }
    assert_eq!(text.len(), agreed.len());
}

#[test]
fn v1_a_family_comes_once_whoever_is_in_it() {
    let second = Snapshot { pool: "a".into(), ..images() };
    let text = page(vec![("images".into(), images()), ("a".into(), second)], vec![]);
    let headers: Vec<_> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
    let mut once = headers.clone();
    once.dedup();
    assert_eq!((headers.len(), once), (families::POOL.len(), headers.clone()));
    let depths: Vec<_> =
        text.lines().filter(|line| line.starts_with("tidegate_queue_depth")).collect();
    let expected =
        ["tidegate_queue_depth{pool=\"a\"} 12", "tidegate_queue_depth{pool=\"images\"} 12"];
    assert_eq!(depths, expected);
    assert_eq!(page(vec![], vec![]), "");
}

#[test]
fn v1_names_that_look_alike_are_one_series() {
    let tasks = ["other", "a\0", "other", "a\u{2400}"].map(|name| named(name, of(&[(100, 1)])));
    let snapshot = Snapshot { tasks: tasks.into(), ..images() };
    let text = page(vec![("p".into(), snapshot)], vec![]);
    let counts: Vec<_> =
        text.lines().filter(|l| l.starts_with("tidegate_task_duration_seconds_count")).collect();
    assert_eq!(counts.len(), 2, "{counts:?}");
    assert!(counts.iter().all(|line| line.ends_with("} 2")), "{counts:?}");
    assert!(!text.contains('\0'));
}

#[test]
fn v1_every_state_of_a_pool_is_one_of_six() {
    let stopped = |complete| PoolState::Stopped { complete };
    let all = [
        (PoolState::Running, "running"),
        (PoolState::Paused, "paused"),
        (PoolState::Closed, "closed"),
        (PoolState::Closing(Mode::Soft), "closing"),
        (stopped(true), "stopped"),
        (stopped(false), "incomplete"),
    ];
    for (state, name) in all {
        let text = page(vec![("p".into(), Snapshot { state, ..images() })], vec![]);
        let states: Vec<_> =
            text.lines().filter(|line| line.starts_with("tidegate_pool_state")).collect();
        let on: Vec<_> = states.iter().filter(|line| line.ends_with(" 1")).collect();
        assert_eq!((states.len(), on.len()), (6, 1));
        assert!(on[0].contains(&format!("state=\"{name}\"")), "{on:?}");
    }
}

/// A counter that falls is one that began anew, to Prometheus.
#[test]
fn v1_what_was_shown_never_falls() {
    let mut floor = Floor::default();
    let mut first = images();
    floor.raise(&mut first);
    assert_eq!(first, images(), "nothing to raise yet");
    let mut less = Snapshot {
        submit_wait: of(&[(0, 1_020), (2_000_000, 2)]),
        busy: Duration::from_millis(1_249),
        worker_time: Duration::from_secs(3),
        ..images()
    };
    floor.raise(&mut less);
    assert_eq!(less.submit_wait.below(ENDS[0]), 1_023);
    assert_eq!(less.submit_wait.count(), 1_025);
    assert_eq!((less.busy, less.worker_time), (first.busy, first.worker_time));
    let mut more = Snapshot { busy: Duration::from_secs(2), ..images() };
    floor.raise(&mut more);
    assert_eq!(more.busy, Duration::from_secs(2));
}

#[test]
fn v1_seconds_are_exact() {
    for (nanos, text) in [
        (0, "0"),
        (1, "0.000000001"),
        (1_024, "0.000001024"),
        (1_500_000_000, "1.5"),
        (10_000_000_000, "10"),
        (1 << 37, "137.438953472"),
        (u128::from(u64::MAX), "18446744073.709551615"),
    ] {
        assert_eq!(seconds(nanos), text);
    }
    assert!(ENDS.is_sorted() && ENDS.len() <= 16);
}
