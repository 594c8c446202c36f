//! S2–S5: who may call shutdown, what they get, and several pools in order.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use tidegate::{
    Cause, Clock, Drain, ExternalId, Mode, Pool, PoolState, Reason, Report, Shutdown,
    ShutdownError, Token, shutdown_in_order,
};

use crate::Ctx;
use crate::kit::{
    Gate, block_on, eventually, in_background, occupy, occupy_obediently, refusal, task_error,
    value,
};

const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn S2_every_caller_gets_the_same_report(cx: &Ctx) {
    let pool = cx.builder().queue(10).build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers());
    let callers: Vec<_> = (0..4)
        .map(|_| {
            let pool = pool.clone();
            in_background(move || {
                let report = pool.shutdown(Shutdown::light()).expect("outside the pool");
                (report, pool.state())
            })
        })
        .collect();
    eventually("the pool closes", || pool.state() == PoolState::Closing(Mode::Light));
    assert!(
        callers.iter().all(|caller| !caller.is_finished()),
        "a second caller returned before the end"
    );
    busy.open();
    let mut answers: Vec<(Report, PoolState)> =
        callers.into_iter().map(|caller| caller.join()).collect();
    let late = pool.shutdown(Shutdown::hard()).expect("outside the pool");
    let (first, _) = answers.remove(0);
    assert_eq!(first, late, "a caller after the end gets the same report");
    for (report, state) in answers {
        assert_eq!(report, first, "two callers got different reports");
        assert_eq!(state, PoolState::Stopped { complete: true }, "it returned before the end");
    }
}

pub(crate) fn S2_a_pool_that_closes_cancels_tasks_of_another(cx: &Ctx) {
    let producer = cx.builder().build().expect("the pool starts");
    let consumer = cx.builder().queue(10).build().expect("the pool starts");
    let busy = occupy(&consumer, cx.workers());
    let task = consumer.task("").cancel_with(&producer.closed()).submit(|_| ());
    let task = task.expect("there is room");
    producer.close();
    eventually("it settles", || task.is_settled());
    assert!(task_error(task).is_cancelled());
    busy.open();
}

pub(crate) fn S2_a_token_tells_that_the_pool_closes(cx: &Ctx) {
    type End = fn(Pool, &Token);
    let ends: [End; 4] = [
        |pool, _| pool.close(),
        |pool, _| drop(pool.shutdown(Shutdown::hard()).expect("outside the pool")),
        |_, parent| parent.cancel(),
        |pool, _| drop(pool),
    ];
    for end in ends {
        let parent = Token::new();
        let pool = cx.builder().parent(&parent).build().expect("the pool starts");
        let (closed, again) = (pool.closed(), pool.closed());
        let waiter = in_background(move || closed.wait());
        let alone = pool.closed();
        alone.cancel();
        assert_eq!(pool.state(), PoolState::Running, "a token of ours closes nothing");
        assert!(!again.is_cancelled(), "nor cancels another one");
        end(pool, &parent);
        waiter.join();
        assert!(again.is_cancelled());
    }
}

pub(crate) fn S2_a_stronger_mode_escalates(cx: &Ctx) {
    let pool = cx.builder().queue(10).build().expect("the pool starts");
    let (_gate, running) = occupy_obediently(&pool, cx.workers());
    let queued = pool.submit(|| ()).expect("there is room");
    let call = |how| {
        let pool = pool.clone();
        in_background(move || pool.shutdown(how).expect("outside the pool"))
    };
    let light = call(Shutdown::light());
    eventually("Light", || pool.state() == PoolState::Closing(Mode::Light));
    assert!(!queued.is_settled());
    let soft = call(Shutdown::soft());
    assert_eq!(
        task_error(queued).cause(),
        Some(Cause::Shutdown),
        "Soft cancels what Light would run"
    );
    assert!(running.iter().all(|handle| !handle.is_settled()));
    let hard = call(Shutdown::hard());
    assert!(
        running.into_iter().all(|handle| !value(handle)),
        "Hard tells what Soft would let finish"
    );
    let reports = [light, soft, hard].map(|caller| caller.join());
    assert_eq!(reports[0], reports[1]);
    assert_eq!(reports[1], reports[2]);
    assert_eq!(reports[0].mode, Mode::Hard);
}

pub(crate) fn S2_a_weaker_mode_changes_nothing(cx: &Ctx) {
    let pool = cx.builder().queue(10).build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers());
    let queued = pool.submit(|| ()).expect("there is room");
    let call = |how| {
        let pool = pool.clone();
        in_background(move || pool.shutdown(how).expect("outside the pool"))
    };
    let soft = call(Shutdown::soft());
    assert!(task_error(queued).is_cancelled());
    let light = call(Shutdown::light());
    crate::kit::give_a_bug_its_chance();
    assert_eq!(pool.state(), PoolState::Closing(Mode::Soft));
    busy.open();
    let report = soft.join();
    assert_eq!(report.mode, Mode::Soft);
    assert_eq!(light.join(), report);
}

pub(crate) fn S2_from_async_code(cx: &Ctx) {
    let pool = cx.builder().queue(10).build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers());
    let mut given_up = Box::pin(pool.shutdown_async(Shutdown::light()));
    let first = given_up.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(first.is_pending(), "the workers are still busy");
    drop(given_up);
    let waiting = {
        let pool = pool.clone();
        in_background(move || block_on(pool.shutdown_async(Shutdown::light())))
    };
    eventually("the pool closes", || pool.state() == PoolState::Closing(Mode::Light));
    busy.open();
    let report = waiting.join().expect("outside the pool");
    assert!(report.is_success(), "a future that was given up holds nobody up: {report}");
    let blocking = pool.shutdown(Shutdown::light()).expect("outside the pool");
    assert_eq!(report, blocking, "both ways give the same report");
}

pub(crate) fn S2_async_inside_a_task_is_an_error(cx: &Ctx) {
    let pool = cx.builder().build().expect("the pool starts");
    let inside = pool.clone();
    let handle = pool.submit(move || block_on(inside.shutdown_async(Shutdown::light())).err());
    assert_eq!(value(handle.expect("there is room")), Some(ShutdownError::InsideTask));
}

pub(crate) fn S3_a_parent_token_is_hard_by_default(cx: &Ctx) {
    let parent = Token::new();
    let pool = cx.builder().queue(10).parent(&parent).build().expect("the pool starts");
    let gate = Gate::new();
    let passage = gate.passage();
    let offer = pool.task("").submit(move |task| passage.enter_unless(|| task.stopping()));
    let running = offer.expect("there is room");
    gate.wait_until_entered(1);
    let rest = occupy(&pool, cx.workers() - 1);
    let queued = pool.submit(|| ()).expect("there is room");
    parent.cancel();
    assert_eq!(task_error(queued).cause(), Some(Cause::Shutdown));
    assert!(!value(running), "what runs is told to stop");
    assert_eq!(refusal(pool.submit(|| ())), Reason::Closed);
    rest.open();
    let report = pool.shutdown(Shutdown::light()).expect("outside the pool");
    assert_eq!(report.mode, Mode::Hard);
}

pub(crate) fn S3_what_a_parent_does_is_configurable(cx: &Ctx) {
    let parent = Token::new();
    let builder =
        cx.builder().queue(10).parent(&parent.child()).on_parent_cancel(Shutdown::light());
    let pool = builder.build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers());
    let queued = pool.submit(|| 4).expect("there is room");
    parent.cancel();
    eventually("the pool closes", || pool.state() == PoolState::Closing(Mode::Light));
    busy.open();
    assert_eq!(value(queued), 4, "Light lets it run");
    assert!(pool.shutdown(Shutdown::light()).expect("outside the pool").is_success());
}

pub(crate) fn S4_the_report_counts_what_its_own_close_has_cancelled(cx: &Ctx) {
    for how in [Shutdown::light(), Shutdown::soft(), Shutdown::hard()] {
        let pool = cx.builder().queue(20).build().expect("the pool starts");
        let (gate, _running) = occupy_obediently(&pool, cx.workers());
        let closed = pool.closed();
        for _ in 0..20 {
            let task = pool.task("until it closes").cancel_with(&closed).submit(|_| ());
            task.expect("there is room").detach();
        }
        let ender = {
            let pool = pool.clone();
            in_background(move || pool.shutdown(how).expect("outside the pool"))
        };
        eventually("they are cancelled", || pool.snapshot().cancelled >= 20);
        gate.open();
        let report = ender.join();
        assert_eq!(report.cancelled, pool.snapshot().cancelled, "{report}");
    }
}

pub(crate) fn S4_the_report_counts_since_the_shutdown_began(cx: &Ctx) {
    let pool = cx.builder().queue(10).build().expect("the pool starts");
    for n in 0..5 {
        value(pool.submit(move || n).expect("there is room"));
    }
    crate::kit::idle(&pool);
    let busy = occupy(&pool, cx.workers());
    pool.spawn_result(|| Err::<(), _>("counted")).expect("there is room");
    pool.spawn(|| crate::kit::deliberate_panic("counted")).expect("there is room");
    let shutdown = {
        let pool = pool.clone();
        in_background(move || pool.shutdown(Shutdown::light()).expect("outside the pool"))
    };
    eventually("the pool closes", || pool.state() == PoolState::Closing(Mode::Light));
    busy.open();
    let report = shutdown.join();
    let counts =
        (report.completed, report.failed, report.panicked, report.cancelled, report.abandoned);
    assert_eq!(counts, (cx.workers() as u64, 1, 1, 0, 0), "what came before does not count");
    assert!(report.threads_joined >= cx.workers(), "every worker was joined: {report}");
    assert!(report.still_running.is_empty() && report.abandoned_workers == 0);
    assert!(report.to_string().contains("complete"), "a person can read it");
}

pub(crate) fn S4_the_report_names_what_was_cancelled(cx: &Ctx) {
    let pool = cx.builder().queue(100).build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers());
    let handles: Vec<_> = (0..100_u64)
        .map(|n| pool.task("doomed").external_id(n).submit(|_| ()).expect("there is room"))
        .collect();
    let ids: Vec<_> = handles.iter().map(|handle| handle.id()).collect();
    let shutdown = {
        let pool = pool.clone();
        in_background(move || pool.shutdown(Shutdown::soft()).expect("outside the pool"))
    };
    handles.into_iter().for_each(|handle| assert!(task_error(handle).is_cancelled()));
    busy.open();
    let report = shutdown.join();
    assert_eq!(report.cancelled, 100, "the count is exact");
    assert_eq!(report.cancelled_tasks.len(), 64, "the list is bounded");
    for info in &report.cancelled_tasks {
        assert_eq!(info.name, "doomed");
        assert!(ids.contains(&info.id), "an id that was never given");
        assert!(matches!(info.external_id, Some(ExternalId::U64(n)) if n < 100));
    }
}

pub(crate) fn S4_the_report_names_what_stopped_when_told(cx: &Ctx) {
    let pool = cx.builder().queue(10).build().expect("the pool starts");
    let gate = Gate::new();
    let obeys = gate.passage();
    let offer = pool.task("obeys").external_id("job-7").submit_result(move |task| {
        obeys.enter_unless(|| task.stopping());
        task.check()
    });
    let stopped = offer.expect("there is room");
    let id = stopped.id();
    for _ in 1..cx.workers() {
        let passage = gate.passage();
        let finishes = pool.task("finishes").spawn(move |task| {
            passage.enter_unless(|| task.stopping());
        });
        finishes.expect("there is room");
    }
    gate.wait_until_entered(cx.workers());
    let report = pool.shutdown(Shutdown::hard()).expect("outside the pool");
    assert_eq!(task_error(stopped).cause(), Some(Cause::Shutdown));
    assert_eq!((report.cancelled, report.completed), (1, cx.workers() as u64 - 1), "{report}");
    let named: Vec<_> =
        report.cancelled_tasks.iter().map(|info| (info.id, info.name, &info.external_id)).collect();
    assert_eq!(named, [(id, "obeys", &Some(ExternalId::from("job-7")))]);
}

pub(crate) fn S4_a_missed_deadline_is_never_a_success(cx: &Ctx) {
    let pool = cx.builder().grace(Duration::ZERO).build().expect("the pool starts");
    let gate = Gate::new();
    let passage = gate.passage();
    let offer = pool.task("stuck").external_id("job-1").submit(move |_| passage.enter());
    let handle = offer.expect("there is room");
    let id = handle.id();
    gate.wait_until_entered(1);
    let how = Shutdown::light().within(Duration::from_millis(1));
    let report = pool.shutdown(how).expect("outside the pool");
    assert!(!report.in_time && !report.complete && !report.is_success(), "{report}");
    assert_eq!(report.abandoned_workers, 1);
    assert_eq!(report.still_running.len(), 1, "it names who is still there");
    let info = &report.still_running[0];
    assert_eq!((info.id, info.name), (id, "stuck"));
    assert_eq!(info.external_id, Some(ExternalId::from("job-1")));
    assert!(task_error(handle).is_abandoned());
    assert_eq!(pool.state(), PoolState::Stopped { complete: false });
}

fn in_order(pools: &[&dyn Drain], within: Duration) -> Vec<Report> {
    let answers = shutdown_in_order(pools, within).into_iter();
    answers.map(|answer| answer.expect("outside the pools")).collect()
}

pub(crate) fn S5_producers_before_consumers(cx: &Ctx) {
    let producers = cx.builder().queue(100).build().expect("the pool starts");
    let consumers = cx.builder().queue(1_000).build().expect("the pool starts");
    let consumed = Arc::new(AtomicU64::new(0));
    let busy = occupy(&producers, cx.workers());
    for _ in 0..50 {
        let (target, consumed) = (consumers.clone(), Arc::clone(&consumed));
        let produce = move || {
            let consume = move || {
                consumed.fetch_add(1, SeqCst);
            };
            target.spawn(consume).expect("consumers are open while producers drain");
        };
        producers.spawn(produce).expect("there is room");
    }
    busy.open();
    let reports = in_order(&[&producers, &consumers], Duration::from_secs(600));
    assert_eq!(reports.len(), 2);
    assert!(reports.iter().all(Report::is_success), "{reports:?}");
    assert_eq!(consumed.load(SeqCst), 50, "what was produced is consumed");
}

pub(crate) fn S5_the_last_pool_is_left_a_share(cx: &Ctx) {
    let stuck = cx.builder().grace(Duration::ZERO).build().expect("the pool starts");
    let healthy = cx.builder().queue(10).build().expect("the pool starts");
    let gate = Gate::new();
    stuck.spawn(gate.waiter()).expect("there is room");
    gate.wait_until_entered(1);
    let last = healthy.submit(|| 8).expect("there is room");
    let reports = in_order(&[&stuck, &healthy], Duration::from_millis(400));
    assert!(!reports[0].is_success(), "the first missed its share: {}", reports[0]);
    assert!(reports[1].is_success(), "the last was left with none: {}", reports[1]);
    assert_eq!(value(last), 8);
}

/// What one of several pools was given, and when.
struct Given {
    limit: Duration,
    grace: Duration,
    called: Instant,
    returned: Instant,
}

/// Passes a drain on to a pool, or to nobody, and writes down what it was given.
struct Witness<'a> {
    pool: Option<&'a Pool>,
    grace: Duration,
    log: &'a RefCell<Vec<Given>>,
}

impl Drain for Witness<'_> {
    fn drain(&self, limit: Duration, grace: Duration) -> Result<Report, ShutdownError> {
        let called = Instant::now();
        let nobody = Ok(Report::default());
        let answer = self.pool.map_or(nobody, |pool| pool.drain(limit, grace));
        let given = Given { limit, grace, called, returned: Instant::now() };
        self.log.borrow_mut().push(given);
        answer
    }

    fn grace(&self) -> Duration {
        self.grace
    }
}

/// What each was given, and how much time had gone by then, at least and at most.
fn with_time_spent(
    began: Instant,
    log: RefCell<Vec<Given>>,
) -> impl Iterator<Item = (Given, Duration, Duration)> {
    let mut bounds = None;
    log.into_inner().into_iter().map(move |given| {
        let (first, last) = *bounds.get_or_insert((given.called, given.called));
        bounds = Some((first, given.returned));
        let (least, most) = (last - first, given.called - began);
        (given, least, most)
    })
}

pub(crate) fn S5_one_grace_for_all(cx: &Ctx) {
    let (within, grace) = (Duration::from_millis(30), Duration::from_millis(60));
    let pools = [(); 3].map(|()| cx.builder().grace(grace).build().expect("the pool starts"));
    let gate = Gate::new();
    for (n, pool) in (1..).zip(&pools) {
        pool.spawn(gate.waiter()).expect("there is room");
        gate.wait_until_entered(n);
    }
    let (log, began) = (RefCell::default(), Instant::now());
    let [a, b, c] = pools.each_ref().map(|pool| Witness { pool: Some(pool), grace, log: &log });
    let reports = in_order(&[&a, &b, &c], within);
    let took = began.elapsed();
    for report in reports {
        assert!(!report.in_time && !report.complete, "{report}");
        assert_eq!((report.abandoned, report.abandoned_workers), (1, 1), "{report}");
    }
    for (given, spent, _) in with_time_spent(began, log) {
        let (most, left) = (given.limit + given.grace, (within + grace).saturating_sub(spent));
        assert!(most <= left, "{most:?} where {left:?} were left to all");
    }
    assert!(took >= within, "given up before the limit: {took:?}");
    assert!(took < 20 * (within + grace), "it hangs: {took:?}");
}

pub(crate) fn S5_each_gets_the_time_left_by_the_pools_left(_: &Ctx) {
    let within = Duration::from_secs(600);
    let (log, began) = (RefCell::default(), Instant::now());
    let [a, b, c] = [1, 3, 2].map(|n| Witness { pool: None, grace: n * SECOND, log: &log });
    assert_eq!(in_order(&[&a, &b, &c], within).len(), 3);
    for ((given, least, most), pools_left) in with_time_spent(began, log).zip([3, 2, 1]) {
        let shares = (within - most) / pools_left..=(within - least) / pools_left;
        assert!(shares.contains(&given.limit), "{:?} is not in {shares:?}", given.limit);
        assert_eq!(given.grace, 3 * SECOND, "with time enough each may take the longest grace");
    }
}

pub(crate) fn S5_a_pool_takes_no_more_grace_than_it_is_given(cx: &Ctx) {
    let (clock, hand) = Clock::manual();
    let builder = cx.builder().queue(10).clock(clock).grace(600 * SECOND);
    let pool = builder.build().expect("the pool starts");
    assert_eq!(Drain::grace(&pool), 600 * SECOND);
    let busy = occupy(&pool, cx.workers());
    let queued = pool.submit(|| ()).expect("there is room");
    let draining = {
        let pool = pool.clone();
        in_background(move || pool.drain(10 * SECOND, 2 * SECOND).expect("outside the pool"))
    };
    eventually("the pool closes", || pool.state() == PoolState::Closing(Mode::Light));
    hand.advance(10 * SECOND);
    assert_eq!(task_error(queued).cause(), Some(Cause::Shutdown), "its limit has passed");
    hand.advance(2 * SECOND);
    let report = draining.join();
    assert_eq!(report.abandoned, cx.workers() as u64, "{report}");
    assert_eq!((report.in_time, report.duration), (false, 12 * SECOND));
    busy.open();
}
