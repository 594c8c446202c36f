//! The table of shutdown modes, and S1: nothing accepted is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use tidegate::{Cause, Clock, Mode, Pool, PoolState, Reason, Report, Shutdown, Token};

use crate::kit::{
    Background, Gate, Passage, eventually, in_background, job, occupy, occupy_obediently, refusal,
    taken, task_error, value,
};
use crate::{Ctx, Ending, How, SuiteHandle, SuitePool};

const GRACE: Duration = Duration::from_secs(5);
const LIMIT: Duration = Duration::from_secs(10);

fn shut_down(pool: &Pool, how: Shutdown) -> Background<Report> {
    let pool = pool.clone();
    in_background(move || pool.shutdown(how).expect("outside the pool"))
}

fn closing(pool: &Pool, mode: Mode) {
    eventually("the pool closes", || pool.state() == PoolState::Closing(mode));
}

pub(crate) fn S1_row_light(cx: &Ctx) {
    let pool = cx.builder().queue(10).build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers());
    let queued: Vec<_> = (0..3).map(|n| pool.submit(move || n).expect("there is room")).collect();
    let shutdown = shut_down(&pool, Shutdown::light());
    closing(&pool, Mode::Light);
    assert!(queued.iter().all(|handle| !handle.is_settled()), "Light cancelled what was queued");
    busy.open();
    let report = shutdown.join();
    assert_eq!(
        queued.into_iter().map(value).collect::<Vec<_>>(),
        [0, 1, 2],
        "all queued tasks run"
    );
    assert_eq!((report.completed, report.cancelled), (cx.workers() as u64 + 3, 0));
    assert!(report.is_success() && report.mode == Mode::Light, "{report}");
    assert_eq!(pool.state(), PoolState::Stopped { complete: true });
}

pub(crate) fn S1_row_soft(cx: &Ctx) {
    let pool = cx.builder().queue(10).build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers());
    let queued: Vec<_> = (0..3).map(|n| pool.submit(move || n).expect("there is room")).collect();
    let shutdown = shut_down(&pool, Shutdown::soft());
    // The running ones still hold the gate: what is queued is settled now, not later.
    for handle in queued {
        assert_eq!(task_error(handle).cause(), Some(Cause::Shutdown));
    }
    assert!(!shutdown.is_finished(), "Soft waits for what runs");
    busy.open();
    let report = shutdown.join();
    assert_eq!((report.completed, report.cancelled), (cx.workers() as u64, 3));
    assert!(report.is_success() && report.mode == Mode::Soft, "{report}");
}

/// One task that ignores the stop; as many as there are workers left obey it.
fn stubborn_and_obedient(
    cx: &Ctx,
    pool: &Pool,
    gate: &Gate,
) -> Vec<tidegate::Handle<(), &'static str>> {
    let stubborn = gate.passage();
    let first = pool.task("stubborn").submit_result(move |_| {
        stubborn.enter();
        Ok(())
    });
    let mut running = vec![first.expect("there is room")];
    for _ in 1..cx.workers() {
        let passage = gate.passage();
        let obedient = pool.task("obedient").submit_result(move |task| {
            match passage.enter_unless(|| task.stopping()) {
                true => Ok(()),
                false => Err("stopped"),
            }
        });
        running.push(obedient.expect("there is room"));
    }
    gate.wait_until_entered(cx.workers());
    running
}

pub(crate) fn S1_row_hard(cx: &Ctx) {
    let (clock, hand) = Clock::manual();
    let pool = cx.builder().queue(10).clock(clock).grace(GRACE).build().expect("the pool starts");
    let gate = Gate::new();
    let mut running = stubborn_and_obedient(cx, &pool, &gate);
    let queued = pool.submit(|| ()).expect("there is room");
    let shutdown = shut_down(&pool, Shutdown::hard());
    assert_eq!(task_error(queued).cause(), Some(Cause::Shutdown), "queued: cancelled now");
    for obedient in running.drain(1..) {
        assert_eq!(task_error(obedient).cause(), Some(Cause::Shutdown), "running: told to stop");
    }
    hand.advance(GRACE - Duration::from_millis(2));
    crate::kit::give_a_bug_its_chance();
    assert!(!shutdown.is_finished(), "the grace is not over");
    hand.advance(Duration::from_millis(2));
    let report = shutdown.join();
    assert_eq!((report.abandoned, report.cancelled), (1, cx.workers() as u64));
    assert!(!report.complete && !report.is_success(), "code still runs: {report}");
    assert_eq!(pool.state(), PoolState::Stopped { complete: false });
    assert!(task_error(running.remove(0)).is_abandoned());
}

pub(crate) fn S1_row_light_within(cx: &Ctx) {
    let (clock, hand) = Clock::manual();
    let pool = cx.builder().queue(10).clock(clock).grace(GRACE).build().expect("the pool starts");
    let gate = Gate::new();
    let mut running = stubborn_and_obedient(cx, &pool, &gate);
    let queued = pool.submit(|| ()).expect("there is room");
    let shutdown = shut_down(&pool, Shutdown::light().within(LIMIT));
    closing(&pool, Mode::Light);
    hand.advance(LIMIT - Duration::from_millis(2));
    crate::kit::give_a_bug_its_chance();
    assert!(!queued.is_settled(), "it turned Hard before the limit");
    hand.advance(Duration::from_millis(2));
    assert_eq!(task_error(queued).cause(), Some(Cause::Shutdown), "then it is Hard");
    closing(&pool, Mode::Hard);
    let stubborn = running.remove(0);
    for obedient in running {
        assert_eq!(task_error(obedient).cause(), Some(Cause::Shutdown), "running: told to stop");
    }
    hand.advance(GRACE);
    let report = shutdown.join();
    assert_eq!(
        (report.mode, report.in_time, report.complete),
        (Mode::Hard, false, false),
        "{report}"
    );
    assert_eq!(report.abandoned, 1);
    assert!(task_error(stubborn).is_abandoned());
}

pub(crate) fn S1_row_soft_within(cx: &Ctx) {
    let (clock, hand) = Clock::manual();
    let pool = cx.builder().queue(10).clock(clock).grace(GRACE).build().expect("the pool starts");
    let (_gate, obedient) = occupy_obediently(&pool, cx.workers());
    let shutdown = shut_down(&pool, Shutdown::soft().within(LIMIT));
    closing(&pool, Mode::Soft);
    assert!(obedient.iter().all(|handle| !handle.is_settled()), "Soft lets what runs finish");
    hand.advance(LIMIT);
    let report = shutdown.join();
    assert!(obedient.into_iter().all(|handle| !value(handle)), "then they are told");
    assert_eq!((report.mode, report.in_time), (Mode::Hard, false), "a missed limit is no success");
    assert!(report.complete, "but everything has ended: {report}");
}

/// A capture whose destructor hangs until the gate opens.
struct StuckDrop(Passage);

impl Drop for StuckDrop {
    fn drop(&mut self) {
        self.0.enter();
    }
}

pub(crate) fn O1a_a_hanging_destructor_holds_up_no_other_task(cx: &Ctx) {
    let pool = cx.builder().queue(10).build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers());
    let (destructor, token) = (Gate::new(), Token::new());
    let capture = StuckDrop(destructor.passage());
    let hanging = pool.task("").cancel_with(&token).submit(move |_| drop(capture));
    let hanging = hanging.expect("there is room");
    token.cancel();
    destructor.wait_until_entered(1);
    for _ in 0..3 {
        let token = Token::new();
        let other = pool.task("").cancel_with(&token).submit(|_| ()).expect("there is room");
        token.cancel();
        assert!(task_error(other).is_cancelled(), "while the destructor hangs");
    }
    assert!(!hanging.is_settled(), "its captures are not gone yet");
    destructor.open();
    assert!(task_error(hanging).is_cancelled());
    busy.open();
}

pub(crate) fn O1a_a_destructor_that_hangs_in_the_callers_shutdown(cx: &Ctx) {
    let pool = cx.builder().queue(10).build().expect("the pool starts");
    let (busy, destructor) = (occupy(&pool, cx.workers()), Gate::new());
    let capture = StuckDrop(destructor.passage());
    let hanging = pool.submit(move || drop(capture)).expect("there is room");
    let behind: Vec<_> = (0..5).map(|n| pool.submit(move || n).expect("there is room")).collect();
    // `shutdown` drops what is queued on its own thread, which is the user's to lose; the
    // others are settled all the same.
    let shutdown = shut_down(&pool, Shutdown::hard());
    destructor.wait_until_entered(1);
    for handle in behind {
        assert_eq!(task_error(handle).cause(), Some(Cause::Shutdown));
    }
    busy.open();
    destructor.open();
    assert_eq!(task_error(hanging).cause(), Some(Cause::Shutdown));
    shutdown.join();
}

pub(crate) fn S1_hard_returns_though_a_destructor_hangs(cx: &Ctx) {
    let (clock, hand) = Clock::manual();
    let pool = cx.builder().queue(10).clock(clock).grace(GRACE).build().expect("the pool starts");
    let (busy, destructor) = (Gate::new(), Gate::new());
    for _ in 0..cx.workers() {
        let passage = busy.passage();
        let obedient = pool.task("obedient").spawn(move |task| {
            passage.enter_unless(|| task.stopping());
        });
        obedient.expect("there is room");
    }
    busy.wait_until_entered(cx.workers());
    let capture = StuckDrop(destructor.passage());
    let hanging = pool.submit(move || drop(capture)).expect("there is room");
    let behind: Vec<_> = (0..5).map(|n| pool.submit(move || n).expect("there is room")).collect();
    let shutdown = shut_down(&pool, Shutdown::light().within(LIMIT));
    closing(&pool, Mode::Light);
    // The supervisor notices, so that not the caller has to drop what was captured.
    hand.advance(LIMIT);
    destructor.wait_until_entered(1);
    hand.advance(GRACE);
    let report = shutdown.join();
    assert!(!report.complete && !report.is_success(), "a destructor still hangs: {report}");
    eventually("those behind it are settled", || behind.iter().all(|h| h.is_settled()));
    for handle in behind {
        assert_eq!(task_error(handle).cause(), Some(Cause::Shutdown));
    }
    assert!(!hanging.is_settled(), "its captures are not gone yet");
    destructor.open();
    assert_eq!(task_error(hanging).cause(), Some(Cause::Shutdown));
}

pub(crate) fn S1_within_that_is_kept_is_a_success(cx: &Ctx) {
    let pool = cx.builder().build().expect("the pool starts");
    pool.spawn(|| ()).expect("there is room");
    let report = pool.shutdown(Shutdown::default()).expect("outside the pool");
    assert!(report.is_success() && report.mode == Mode::Light, "{report}");
    assert_eq!(Shutdown::default(), Shutdown::light().within(Duration::from_secs(30)));
}

pub(crate) fn S1_blocked_submitters_are_released_as_closed(cx: &Ctx) {
    for close in [Pool::close as fn(&Pool), |pool| drop(pool.shutdown_async(Shutdown::light()))] {
        let pool = cx.builder().queue(1).build().expect("the pool starts");
        let busy = occupy(&pool, cx.workers());
        pool.spawn(|| ()).expect("there is one place");
        let blocked: Vec<_> = (0..4)
            .map(|_| {
                let pool = pool.clone();
                in_background(move || refusal(pool.submit(|| ())))
            })
            .collect();
        eventually("all wait", || pool.snapshot().waiting_submitters == 4);
        close(&pool);
        pool.close();
        for submitter in blocked {
            assert_eq!(submitter.join(), Reason::Closed, "while every worker is still busy");
        }
        busy.open();
        pool.shutdown(Shutdown::light()).expect("outside the pool");
    }
}

pub(crate) fn S1_blocked_submitters_are_released_by_close(cx: &Ctx) {
    let pool = cx.open_with(cx.wish().queue(1));
    let busy = crate::kit::occupy_port(&*pool, cx.workers());
    drop(taken(pool.submit(job(|| 0))));
    let blocked: Vec<_> = (0..4)
        .map(|_| {
            let pool = Arc::clone(&pool);
            in_background(move || crate::kit::why_refused(pool.submit(job(|| 0))))
        })
        .collect();
    crate::kit::give_a_bug_its_chance();
    pool.close();
    for submitter in blocked {
        assert_eq!(submitter.join(), Reason::Closed);
    }
    busy.open();
    pool.shutdown(How::Light);
}

/// Producers that submit until they are refused, against a shutdown in the middle.
pub(crate) fn S1_nothing_accepted_is_lost(cx: &Ctx) {
    for round in 0..12 {
        for how in [How::Light, How::Soft, How::Hard] {
            let pool = cx.open();
            let ran = Arc::new(AtomicU64::new(0));
            let producers: Vec<_> = (0..3)
                .map(|_| {
                    let (pool, ran) = (Arc::clone(&pool), Arc::clone(&ran));
                    in_background(move || produce(&*pool, &ran))
                })
                .collect();
            crate::kit::dawdle(round * 2_000);
            pool.shutdown(how);
            let handles: Vec<_> =
                producers.into_iter().flat_map(|producer| producer.join()).collect();
            assert!(
                handles.iter().all(|handle| handle.is_settled()),
                "{how:?}: accepted, but never settled"
            );
            let values = handles.into_iter().map(|h| h.wait());
            let values = values.filter(|ending| matches!(ending, Ending::Value(_))).count() as u64;
            assert_eq!(values, ran.load(SeqCst), "{how:?}: ran without a result, or the reverse");
        }
    }
}

fn produce(pool: &dyn SuitePool, ran: &Arc<AtomicU64>) -> Vec<Box<dyn SuiteHandle>> {
    let mut handles = Vec::new();
    while handles.len() < 5_000 {
        let ran = Arc::clone(ran);
        match pool.submit(job(move || ran.fetch_add(1, SeqCst))) {
            Ok(handle) => handles.push(handle),
            Err(refusal) => {
                assert_eq!(refusal.reason, Reason::Closed);
                break;
            }
        }
    }
    handles
}
