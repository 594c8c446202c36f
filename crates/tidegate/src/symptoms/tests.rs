//! The verdicts as tables: two snapshots in, what holds out.

use proptest::prelude::*;

use super::*;
use crate::histogram::Recorder;
use crate::ids::{TaskId, WorkerId};
use crate::report::Mode;
use crate::snapshot::{LongPoll, Refusals, WorkerInfo};

const MINUTE: Duration = Duration::from_secs(60);

fn took(each: Duration, count: u64) -> Histogram {
    let recorder = Recorder::default();
    recorder.record(each, count);
    let mut histogram = Histogram::default();
    recorder.add_to(&mut histogram);
    histogram
}

fn worker(state: WorkerState) -> WorkerInfo {
    WorkerInfo { id: WorkerId(0), state, started: 1, panicked: 0, restarts: 0 }
}

fn running(since: Duration) -> WorkerInfo {
    worker(WorkerState::Running { name: "", id: TaskId { hi: 0, lo: 0 }, since })
}

fn restarting() -> WorkerInfo {
    worker(WorkerState::Restarting { after: WINDOW, cause: "EAGAIN".into() })
}

fn poll(name: &'static str) -> Option<LongPoll> {
    let (id, worker) = (TaskId { hi: 1, lo: 2 }, WorkerId(3));
    Some(LongPoll { name, id, worker, lasts: 2 * WINDOW })
}

/// After a minute: 4 workers, half busy, 10 ms a task, a share of 1 % fails.
fn before() -> Snapshot {
    Snapshot {
        uptime: MINUTE,
        accepted: 10_000,
        completed: 9_900,
        failed: 100,
        workers: 4,
        live_workers: 4,
        idle_workers: 2,
        queue_capacity: 100,
        run_time: took(Duration::from_millis(10), 10_000),
        submit_wait: took(Duration::from_millis(1), 10),
        busy: 2 * MINUTE,
        worker_time: 4 * MINUTE,
        ..Snapshot::default()
    }
}

/// A second later, with 200 tasks more and one that runs.
fn now() -> Snapshot {
    Snapshot {
        uptime: MINUTE + WINDOW,
        accepted: 10_201,
        running: 1,
        completed: 10_098,
        failed: 102,
        busy: 2 * MINUTE + 2 * WINDOW,
        worker_time: 4 * MINUTE + 4 * WINDOW,
        run_time: took(Duration::from_millis(10), 10_200),
        ..before()
    }
}

/// A second later, and nothing has happened; `busy` of 4 s.
fn quiet(busy: Duration) -> Snapshot {
    let worker_time = 4 * MINUTE + 4 * WINDOW;
    Snapshot { uptime: MINUTE + WINDOW, worker_time, busy: 2 * MINUTE + busy, ..before() }
}

/// All that hold.
#[track_caller]
fn check(before: &Snapshot, now: &Snapshot, expected: &[Verdict]) {
    let diagnosis = diagnose(before, now);
    let found: Vec<_> = std::iter::once(diagnosis.verdict)
        .chain(diagnosis.also.iter().copied())
        .filter(|verdict| *verdict != Verdict::Healthy)
        .collect();
    assert_eq!(found, expected, "{diagnosis}");
    assert!(!diagnosis.evidence.is_empty(), "{diagnosis}");
}

#[test]
fn v3_healthy_is_none_of_the_others() {
    check(&before(), &now(), &[]);
    check(&now(), &before(), &[]);
    check(&Snapshot::default(), &Snapshot::default(), &[]);
    check(&Snapshot::default(), &now(), &[]);
}

#[test]
fn v3_blocked_reactor_is_a_poll_that_goes_on() {
    let blocked = Snapshot { blocked_workers: 2, longest_poll: poll("hash"), ..now() };
    check(&before(), &blocked, &[Verdict::BlockedReactor]);
    // However short the window, and whatever was before: it goes on now.
    check(&blocked, &blocked, &[Verdict::BlockedReactor]);
    check(&blocked, &now(), &[]);
    let text = diagnose(&before(), &blocked).to_string();
    let seen =
        "blocked workers 2, live 4, the longest in hash t1-2, for 2.0s, on worker 3, queued 0";
    assert!(text.contains(seen), "{text}");
    let nameless = Snapshot { longest_poll: poll(""), ..blocked };
    let text = diagnose(&before(), &nameless).to_string();
    assert!(text.contains("the longest in t1-2, for"), "{text}");
}

/// What follows from it is told after it.
#[test]
fn v3_a_blocked_reactor_is_the_cause_and_comes_first() {
    let blocked = Snapshot { blocked_workers: 1, longest_poll: poll("hash"), ..now() };
    let short = Snapshot { live_workers: 3, ..blocked.clone() };
    check(&before(), &short, &[Verdict::BlockedReactor, Verdict::ShortHanded]);
    let stuck = Snapshot { stuck: 1, ..blocked.clone() };
    check(&before(), &stuck, &[Verdict::BlockedReactor, Verdict::Stuck]);
    let stalled = Snapshot { queued: 1, roster: vec![running(2 * WINDOW)], ..blocked };
    check(&before(), &stalled, &[Verdict::BlockedReactor, Verdict::Stalled]);
}

#[test]
fn v3_short_handed_is_missing_workers_that_stay_away() {
    let short = Snapshot { live_workers: 3, ..now() };
    check(&before(), &short, &[Verdict::ShortHanded]);
    let comes = Snapshot { roster: vec![restarting()], starting_workers: 1, ..short.clone() };
    check(&before(), &comes, &[]);
    let starts = Snapshot { starting_workers: 1, ..short.clone() };
    check(&before(), &starts, &[]);
    let was_short = Snapshot { live_workers: 3, ..before() };
    check(&was_short, &comes, &[Verdict::ShortHanded]);
    // A pool that grows, and whose workers take their time to start.
    check(&was_short, &starts, &[]);
    let later =
        |seconds| Snapshot { uptime: MINUTE + Duration::from_secs(seconds), ..starts.clone() };
    check(&was_short, &later(10), &[Verdict::ShortHanded]);
    check(&Snapshot { live_workers: 2, ..before() }, &later(10), &[]);
    let two = Snapshot { live_workers: 2, ..comes };
    check(&before(), &two, &[Verdict::ShortHanded]);
    assert!(diagnose(&before(), &two).to_string().contains("because EAGAIN"));
    check(&before(), &Snapshot { workers: 3, ..short }, &[]);
}

#[test]
fn v3_stuck_is_an_abandoned_task_that_runs() {
    check(&before(), &Snapshot { stuck: 1, ..now() }, &[Verdict::Stuck]);
    check(&before(), &Snapshot { abandoned: 1, late_returns: 1, ..now() }, &[]);
}

#[test]
fn v3_stalled_is_work_that_waits_for_workers_that_hang() {
    let hang = |each: [u64; 2]| Snapshot {
        queued: 1,
        roster: each.map(|millis| running(Duration::from_millis(millis))).into(),
        ..now()
    };
    check(&before(), &hang([1_000, 5_000]), &[Verdict::Stalled]);
    check(&before(), &hang([999, 5_000]), &[]);
    check(&before(), &Snapshot { queued: 0, ..hang([1_000, 5_000]) }, &[]);
    let waits = Snapshot { queued: 0, waiting_submitters: 1, ..hang([1_000, 5_000]) };
    check(&before(), &waits, &[Verdict::Stalled]);
    let mut free = hang([1_000, 5_000]);
    free.roster.push(worker(WorkerState::Idle));
    check(&before(), &free, &[]);
    // 10 s, give or take a bucket, are usual: 20 are not.
    let slow = took(Duration::from_secs(10), 100);
    check(&before(), &Snapshot { run_time: slow.clone(), ..hang([19_000, 19_000]) }, &[]);
    let hangs = Snapshot { run_time: slow, ..hang([26_000, 26_000]) };
    check(&before(), &hangs, &[Verdict::Stalled]);
    // Nobody knows how long tasks take.
    let first = |each| Snapshot { run_time: Histogram::default(), ..hang(each) };
    check(&before(), &first([9_999, 10_000]), &[]);
    check(&before(), &first([10_000, 10_000]), &[Verdict::Stalled]);
}

#[test]
fn v3_stalled_is_also_work_that_nobody_takes() {
    let before = Snapshot { queued: 1, accepted: 10_001, ..before() };
    let now = Snapshot { queued: 3, accepted: 10_003, ..quiet(2 * WINDOW) };
    check(&before, &now, &[Verdict::Stalled]);
    check(&before, &Snapshot { completed: 9_901, ..now.clone() }, &[]);
    check(&before, &Snapshot { running: 1, ..now.clone() }, &[]);
    let soon = Snapshot { uptime: now.uptime - Duration::from_nanos(1), ..now.clone() };
    check(&before, &soon, &[]);
    check(&Snapshot { queued: 0, ..before }, &now, &[]);
}

/// No worker could help who waits for a budget.
#[test]
fn v3_who_waits_for_a_budget_is_no_backlog() {
    let waits = |of: Snapshot| Snapshot { waiting_submitters: 1, waiting_for_budget: 1, ..of };
    let hang = Snapshot { roster: vec![running(MINUTE)], ..now() };
    check(&before(), &waits(hang.clone()), &[]);
    check(&before(), &Snapshot { waiting_submitters: 2, ..waits(hang) }, &[Verdict::Stalled]);
    // Nothing moves, for as long as it waits: the pool has nothing to do with it.
    let (earlier, later) = (waits(before()), waits(quiet(Duration::ZERO)));
    let later = Snapshot { uptime: 2 * MINUTE, ..later };
    check(&earlier, &later, &[]);
    check(&waits(before()), &waits(quiet(WINDOW / 10)), &[]);
    // A queue that is nearly full, and nobody who felt it.
    let full = Snapshot { queued: 80, idle_workers: 0, ..now() };
    check(&before(), &waits(full.clone()), &[]);
    check(&before(), &Snapshot { waiting_submitters: 2, ..waits(full) }, &[Verdict::Saturated]);
}

#[test]
fn v3_what_a_budget_keeps_back_is_evidence_and_no_sign_of_too_many_workers() {
    let refused = |refused| Snapshot { refused, ..quiet(WINDOW / 10) };
    let with = Refusals::default();
    let mut waited = before().submit_wait;
    waited.add_all(&took(WINDOW, 2));
    let waited = Snapshot { submit_wait: waited, budget_wait: 2 * WINDOW, ..now() };
    let waits = Snapshot { waiting_submitters: 3, waiting_for_budget: 3, ..now() };
    let seen = |waiting, waited, over, heavy| {
        format!(
            "waiting for a budget {waiting}, waited for budgets {waited}, \
             refused over budget {over}, refused as too heavy {heavy}, in 1.0s"
        )
    };
    for (now, seen) in [
        (refused(Refusals { over_budget: 7, ..with }), seen(0, "0.0ns", 7, 0)),
        (refused(Refusals { too_heavy: 1, ..with }), seen(0, "0.0ns", 0, 1)),
        (waited.clone(), seen(0, "2.0s", 0, 0)),
        (waits, seen(3, "0.0ns", 0, 0)),
    ] {
        check(&before(), &now, &[]);
        let diagnosis = diagnose(&before(), &now);
        assert!(diagnosis.limited_by_budget, "{diagnosis}");
        let text = diagnosis.to_string();
        assert!(text.contains(&seen), "{text}");
        assert!(text.contains("is healthy: its budget, not its workers, sets the pace"), "{text}");
    }
    // What was before the window is over.
    let idle = Snapshot { uptime: 2 * MINUTE, running: 0, ..waited.clone() };
    check(&waited, &idle, &[Verdict::Starved]);
    assert!(!diagnose(&before(), &now()).limited_by_budget);
    // A full queue, and nobody waited for it; and one for which somebody did, too.
    let full = Snapshot { queued: 80, idle_workers: 0, ..waited };
    check(&before(), &full, &[]);
    let less = Snapshot { budget_wait: WINDOW, ..full };
    check(&before(), &less, &[Verdict::Saturated]);
    let text = diagnose(&before(), &less).to_string();
    assert!(text.contains("\n  budget    raise the budget"), "{text}");
}

#[test]
fn v3_failing_is_half_or_a_jump() {
    let ended = |completed, failed| Snapshot {
        completed: before().completed + completed,
        failed: before().failed + failed,
        ..now()
    };
    check(&before(), &ended(27, 3), &[Verdict::Failing]);
    check(&before(), &ended(28, 3), &[]);
    check(&before(), &ended(18, 2), &[]);
    check(&before(), &ended(0, 3), &[Verdict::Failing]);
    // It fails a lot, as always; half is too much, always or not.
    let always = Snapshot { completed: 9_000, failed: 1_000, ..before() };
    let ended = |completed: u64, failed: u64| Snapshot {
        completed: 9_000 + completed,
        failed: 1_000 + failed,
        ..now()
    };
    check(&always, &ended(85, 15), &[]);
    check(&always, &ended(80, 20), &[Verdict::Failing]);
    let worse = Snapshot { completed: 4_000, failed: 6_000, ..before() };
    let half = Snapshot { completed: 4_050, failed: 6_050, ..now() };
    check(&worse, &half, &[Verdict::Failing]);
    check(&worse, &Snapshot { failed: 6_049, ..half }, &[]);
    // The first look at a pool knows no before.
    let fresh = Snapshot { completed: 0, failed: 0, ..before() };
    let first = |failed| Snapshot { completed: 70, failed, ..now() };
    check(&fresh, &first(30), &[]);
    check(&fresh, &first(70), &[Verdict::Failing]);
    // What was told to stop has not failed.
    check(&before(), &Snapshot { cancelled: 500, evicted: 0, ..now() }, &[]);
    let kinds = Snapshot { panicked: 20, timed_out: 20, abandoned: 20, ..now() };
    check(&before(), &kinds, &[Verdict::Failing]);
}

#[test]
fn v3_flapping_is_restarts_that_do_not_end() {
    let restarts = |count| Snapshot { worker_restarts: count, ..now() };
    check(&before(), &restarts(3), &[Verdict::Flapping]);
    check(&before(), &restarts(2), &[]);
    check(&before(), &Snapshot { abandoned: 1, ..restarts(3) }, &[]);
    check(&Snapshot { worker_restarts: 9, ..before() }, &restarts(11), &[]);
    let later = |seconds| Snapshot { uptime: MINUTE + Duration::from_secs(seconds), ..restarts(3) };
    check(&before(), &later(30), &[Verdict::Flapping]);
    check(&before(), &later(31), &[]);
}

#[test]
fn v3_flapping_is_a_size_that_goes_up_and_down() {
    let turns = |size_turns| Snapshot { size_turns, ..now() };
    check(&before(), &turns(3), &[Verdict::Flapping]);
    check(&before(), &turns(2), &[]);
    let before = Snapshot { size_turns: 7, ..before() };
    check(&before, &turns(9), &[]);
    check(&before, &Snapshot { worker_restarts: 2, ..turns(9) }, &[]);
}

#[test]
fn v3_saturated_is_a_full_queue_and_submitters_that_feel_it() {
    let full = Snapshot { queued: 75, idle_workers: 0, ..now() };
    check(&before(), &full, &[]);
    let waits = Snapshot { waiting_submitters: 1, ..full.clone() };
    check(&before(), &waits, &[Verdict::Saturated]);
    check(&before(), &Snapshot { queued: 74, ..waits.clone() }, &[]);
    let refused = |refused| Snapshot { refused, ..full.clone() };
    let with = Refusals::default();
    check(&before(), &refused(Refusals { full: 1, ..with }), &[Verdict::Saturated]);
    check(&before(), &refused(Refusals { timed_out: 1, ..with }), &[Verdict::Saturated]);
    check(&before(), &refused(Refusals { cancelled: 1, over_budget: 1, ..with }), &[]);
    check(&before(), &Snapshot { evicted: 1, ..full.clone() }, &[Verdict::Saturated]);
    check(&before(), &Snapshot { on_caller: 1, ..full.clone() }, &[Verdict::Saturated]);
    let waited = took(Duration::from_millis(1), 11);
    let waited = Snapshot { submit_wait: waited, ..full };
    check(&before(), &waited, &[Verdict::Saturated]);
    // A burst that is over.
    check(&before(), &Snapshot { queued: 10, ..waited }, &[]);
    // Without a queue.
    let rendezvous = Snapshot { queue_capacity: 0, queued: 0, ..waits };
    check(&before(), &rendezvous, &[Verdict::Saturated]);
    check(&before(), &Snapshot { idle_workers: 1, ..rendezvous }, &[]);
}

#[test]
fn v3_stalled_and_saturated_exclude_each_other() {
    let before = Snapshot { queued: 100, waiting_submitters: 1, ..before() };
    let now = Snapshot { queued: 100, waiting_submitters: 1, ..quiet(4 * WINDOW) };
    check(&before, &now, &[Verdict::Stalled]);
    check(&before, &Snapshot { completed: 9_901, ..now.clone() }, &[Verdict::Saturated]);
    let slow = Snapshot { run_time: took(MINUTE, 1), ..now };
    check(&before, &slow, &[Verdict::Saturated]);
}

#[test]
fn v3_suspiciously_fast_is_many_tasks_and_no_work() {
    let fast = |each, completed| {
        let mut run_time = before().run_time;
        run_time.add_all(&took(each, completed));
        let completed = before().completed + completed;
        Snapshot { accepted: 10_000 + completed, completed, run_time, ..quiet(WINDOW / 10) }
    };
    let no_op = Duration::from_nanos(100);
    check(&before(), &fast(no_op, 100), &[Verdict::SuspiciouslyFast]);
    check(&before(), &fast(no_op, 99), &[Verdict::Overprovisioned]);
    // A hundredth of the 10 ms before.
    check(&before(), &fast(Duration::from_micros(90), 100), &[Verdict::SuspiciouslyFast]);
    check(&before(), &fast(Duration::from_micros(200), 100), &[Verdict::Overprovisioned]);
    let busy = Snapshot { busy: 2 * MINUTE + WINDOW, ..fast(no_op, 100_000) };
    check(&before(), &busy, &[]);
    let fails = Snapshot { failed: 200, ..fast(no_op, 100) };
    check(&before(), &fails, &[Verdict::Failing, Verdict::Overprovisioned]);
}

#[test]
fn v3_starved_is_nothing_that_arrives_and_nothing_left() {
    let idle = quiet(Duration::ZERO);
    check(&before(), &idle, &[Verdict::Starved]);
    check(
        &Snapshot::default(),
        &Snapshot { uptime: WINDOW, ..Snapshot::default() },
        &[Verdict::Starved],
    );
    let soon = Snapshot { uptime: MINUTE + WINDOW - Duration::from_nanos(1), ..idle.clone() };
    check(&before(), &soon, &[]);
    let refused = Refusals { over_budget: 1, ..Refusals::default() };
    let offered = Snapshot { refused, busy: 3 * MINUTE, ..idle.clone() };
    check(&before(), &offered, &[]);
    check(&before(), &Snapshot { running: 1, busy: 3 * MINUTE, ..idle }, &[]);
}

#[test]
fn v3_overprovisioned_is_workers_to_spare() {
    let little = |busy| Snapshot { accepted: 10_001, completed: 9_901, ..quiet(busy) };
    check(&before(), &little(WINDOW / 10), &[Verdict::Overprovisioned]);
    check(&before(), &little(WINDOW / 5), &[]);
    check(&before(), &Snapshot { live_workers: 1, workers: 1, ..little(WINDOW / 10) }, &[]);
    let waited = |each| Snapshot { queue_wait: took(each, 1), ..little(WINDOW / 10) };
    check(&before(), &waited(WINDOW), &[]);
    check(&before(), &waited(Duration::from_millis(1)), &[Verdict::Overprovisioned]);
    let refused = Refusals { full: 1, ..Refusals::default() };
    check(&before(), &Snapshot { refused, ..little(WINDOW / 10) }, &[]);
}

#[test]
fn v3_the_state_decides_what_is_looked_for() {
    use Verdict::{BlockedReactor, Failing, Flapping, Saturated, ShortHanded, Stalled, Stuck};
    let before = Snapshot { queued: 100, waiting_submitters: 1, ..before() };
    let hang = Snapshot {
        state: PoolState::Running,
        queued: 100,
        waiting_submitters: 1,
        live_workers: 3,
        stuck: 1,
        blocked_workers: 1,
        longest_poll: poll(""),
        failed: 200,
        worker_restarts: 5,
        roster: vec![running(MINUTE)],
        ..now()
    };
    let moving = Snapshot { roster: Vec::new(), ..hang.clone() };
    let is = |state, expected: &[Verdict]| {
        check(&before, &Snapshot { state, ..hang.clone() }, expected);
    };
    // And the order in which they are told.
    is(PoolState::Running, &[BlockedReactor, ShortHanded, Stuck, Stalled, Failing, Flapping]);
    let saturated = [BlockedReactor, ShortHanded, Stuck, Failing, Flapping, Saturated];
    check(&before, &moving, &saturated);
    is(PoolState::Paused, &[BlockedReactor, ShortHanded, Stuck, Failing, Flapping]);
    is(PoolState::Closed, &[BlockedReactor, Stuck, Stalled, Failing, Flapping]);
    is(PoolState::Closing(Mode::Light), &[BlockedReactor, Stuck, Stalled, Failing, Flapping]);
    is(PoolState::Stopped { complete: false }, &[BlockedReactor, Stuck]);
    for state in [PoolState::Paused, PoolState::Closed, PoolState::Stopped { complete: true }] {
        check(&before, &Snapshot { state, ..quiet(Duration::ZERO) }, &[]);
    }
}

fn any_snapshot() -> impl Strategy<Value = Snapshot> {
    let number = || prop_oneof![Just(0), Just(u64::MAX), 0..5_u64, any::<u64>()];
    let numbers = proptest::collection::vec(number(), 26);
    (numbers, any::<bool>(), 0..4_usize).prop_map(|(n, paused, workers)| Snapshot {
        state: if paused { PoolState::Paused } else { PoolState::Running },
        uptime: Duration::from_nanos(n[0]),
        accepted: n[1],
        refused: Refusals { full: n[2], timed_out: n[3], closed: n[4], ..Refusals::default() },
        queued: n[5],
        running: n[6],
        completed: n[7],
        failed: n[8],
        panicked: n[9],
        timed_out: n[10],
        cancelled: n[11],
        evicted: n[12],
        abandoned: n[13],
        on_caller: n[14],
        stuck: n[15],
        blocked_workers: n[24],
        worker_restarts: n[16],
        workers: n[17],
        live_workers: n[18],
        idle_workers: n[19],
        queue_capacity: n[20],
        waiting_submitters: n[21],
        waiting_for_budget: n[25],
        budget_wait: Duration::from_nanos(n[25]),
        run_time: took(Duration::from_nanos(n[22]), n[23]),
        submit_wait: took(Duration::from_nanos(n[23]), n[22]),
        queue_wait: took(Duration::from_nanos(n[22]), n[22]),
        busy: Duration::from_nanos(n[22]),
        worker_time: Duration::from_nanos(n[23]),
        roster: (0..workers).map(|w| running(Duration::from_nanos(n[w]))).collect(),
        ..Snapshot::default()
    })
}

proptest! {
    #[test]
    fn v3_any_two_snapshots_have_a_diagnosis(a in any_snapshot(), b in any_snapshot()) {
        let diagnosis = diagnose(&a, &b);
        prop_assert!(!diagnosis.to_string().is_empty());
        prop_assert!(diagnosis.also.is_sorted());
        prop_assert!(diagnosis.also.iter().all(|other| *other > diagnosis.verdict));
        let both = |x, y| {
            let has = |v| diagnosis.verdict == v || diagnosis.also.contains(&v);
            has(x) && has(y)
        };
        prop_assert!(!both(Verdict::Stalled, Verdict::Saturated));
        prop_assert!(!both(Verdict::Starved, Verdict::Overprovisioned));
        prop_assert!(!both(Verdict::SuspiciouslyFast, Verdict::Overprovisioned));
    }
}
