//! O2 and O3: what a waiter sees, and which outcome a return means.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tidegate::{Cause, Cx, Pool, Stop, TaskError, Token};

use crate::kit::{Gate, deliberate_panic, job, taken, task_error};
use crate::{Ctx, Ending, How};

pub(crate) fn O2_whoever_waits_sees_what_the_task_wrote(cx: &Ctx) {
    let pool = cx.open();
    for round in 1..=1_000 {
        // Relaxed on both sides: only the wait itself orders them.
        let written = Arc::new([const { AtomicU64::new(0) }; 4]);
        let inside = Arc::clone(&written);
        let handle = taken(pool.submit(job(move || {
            inside.iter().for_each(|word| word.store(round, Relaxed));
            round
        })));
        assert_eq!(handle.wait(), Ending::Value(round));
        assert!(
            written.iter().all(|word| word.load(Relaxed) == round),
            "told before it was written"
        );
    }
    pool.shutdown(How::Light);
}

/// Runs `task`, tells it to stop while it runs, and gives its outcome.
fn told_while_running<T: Send + 'static>(
    pool: &Pool,
    task: fn(&Cx) -> Result<T, String>,
) -> Result<T, TaskError<String>> {
    let gate = Gate::new();
    let passage = gate.passage();
    let handle = pool.task("told").submit_result(move |cx| {
        passage.enter();
        task(cx)
    });
    let mut handle = handle.expect("there is room");
    gate.wait_until_entered(1);
    assert!(handle.cancel(), "a running task can be told");
    gate.open();
    handle.wait_timeout(crate::kit::HANG).expect("it ends")
}

pub(crate) fn O3_a_cancel_is_a_request(cx: &Ctx) {
    let pool = cx.builder().build().expect("the pool starts");
    let finished = told_while_running(&pool, |_| Ok(7));
    assert!(matches!(finished, Ok(7)), "a value after a stop request counts: {finished:?}");
    let gave_up = told_while_running(&pool, |_| Err::<u8, _>("halfway".to_owned()));
    match gave_up {
        Err(TaskError::Cancelled { cause: Cause::Handle, error: Some(error) }) => {
            assert_eq!(error, "halfway")
        }
        other => panic!("an error after a stop request is Cancelled and kept: {other:?}"),
    }
    let panicked = told_while_running::<u8>(&pool, |_| deliberate_panic("told"));
    assert!(matches!(panicked, Err(TaskError::Panicked(_))), "a panic comes first: {panicked:?}");
    let unasked = pool.submit_result(|| Err::<u8, _>("alone")).expect("there is room");
    assert!(task_error(unasked).is_failed(), "without a request an error is a failure");
}

pub(crate) fn O3_check_carries_the_stop_out(cx: &Ctx) {
    #[derive(Debug)]
    struct Mine(Stop);
    impl From<Stop> for Mine {
        fn from(stop: Stop) -> Mine {
            Mine(stop)
        }
    }
    let pool = cx.builder().build().expect("the pool starts");
    let gate = Gate::new();
    let passage = gate.passage();
    let handle = pool.task("").submit_result(move |task| -> Result<(), Mine> {
        task.check()?;
        passage.enter();
        loop {
            task.check()?;
        }
    });
    let handle = handle.expect("there is room");
    gate.wait_until_entered(1);
    gate.open();
    handle.cancel();
    match task_error(handle) {
        TaskError::Cancelled { cause: Cause::Handle, error: Some(Mine(stop)) } => {
            assert_eq!(stop.cause, Cause::Handle);
        }
        other => panic!("check did not carry the stop out: {other:?}"),
    }
}

pub(crate) fn O3_the_first_cause_stays(cx: &Ctx) {
    let pool = cx.builder().build().expect("the pool starts");
    let (gate, token) = (Gate::new(), Token::new());
    let passage = gate.passage();
    let offer = pool.task("").cancel_with(&token);
    let handle = offer.submit_result(move |_| -> Result<(), &str> {
        passage.enter();
        Err("stopped")
    });
    let handle = handle.expect("there is room");
    gate.wait_until_entered(1);
    token.cancel();
    handle.cancel();
    gate.open();
    assert_eq!(task_error(handle).cause(), Some(Cause::Token), "a later cause replaced the first");
}
