//! Cancel × finish × drop, every combination: {value, error, panic, panic in
//! drop, obeys} × {awaited, polled, dropped, forgotten} × {before, while,
//! after it runs}.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};

use tidegate::{Cx, Handle, OutcomeKind, Pool};

use crate::Ctx;
use crate::kit::{Gate, HANG, Passage, block_on, deliberate_panic, eventually, idle, occupy};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Does {
    Value,
    Error,
    Panic,
    PanicInDrop,
    Obeys,
}

#[derive(Clone, Copy, Debug)]
enum Fate {
    Awaited,
    Polled,
    Dropped,
    Forgotten,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum CancelComes {
    Before,
    While,
    After,
}

pub(crate) fn O1_cancel_finish_drop_enumerated(cx: &Ctx) {
    use {CancelComes::*, Does::*, Fate::*};
    let pool = cx.builder().queue(10).build().expect("the pool starts");
    for does in [Value, Error, Panic, PanicInDrop, Obeys] {
        for fate in [Awaited, Polled, Dropped, Forgotten] {
            for comes in [Before, While, After] {
                play(&pool, cx.workers(), does, fate, comes);
            }
        }
    }
    idle(&pool);
    pool.snapshot().check().expect("no task was lost");
}

fn play(pool: &Pool, workers: usize, does: Does, fate: Fate, comes: CancelComes) {
    let case = format!("{does:?}, {fate:?}, cancel {comes:?}");
    let busy = (comes == CancelComes::Before).then(|| occupy(pool, workers));
    let (gate, drops) = (Gate::new(), Arc::new(AtomicUsize::new(0)));
    let (tell, told) = mpsc::channel();
    let capture = Capture { panics: does == Does::PanicInDrop, drops: Arc::clone(&drops) };
    let passage = gate.passage();
    let offer = pool.task("played").on_outcome(move |end| {
        let _ = tell.send(end.kind);
    });
    let handle = offer.submit_result(move |task| act(does, &passage, capture, task));
    let handle = handle.unwrap_or_else(|_| panic!("{case}: refused"));
    let said = cancel(comes, &handle, &gate);
    assert_eq!(said, comes != CancelComes::After, "{case}: what cancel said");
    let expected = expected(does, comes);
    meet(fate, handle, expected, &case);
    gate.open();
    drop(busy);
    assert_eq!(told.recv_timeout(HANG), Ok(expected), "{case}: the callback");
    idle(pool);
    assert_eq!(told.try_recv().ok(), None, "{case}: a second outcome");
    assert_eq!(drops.load(SeqCst), 1, "{case}: captures are dropped exactly once");
}

fn act(does: Does, passage: &Passage, capture: Capture, task: &Cx) -> Result<u8, String> {
    passage.enter();
    let _held_to_the_end = capture;
    match does {
        Does::Value | Does::PanicInDrop => Ok(1),
        Does::Error => Err("error".to_owned()),
        Does::Panic => deliberate_panic("played"),
        Does::Obeys if task.stopping() => Err("obeyed".to_owned()),
        Does::Obeys => Ok(2),
    }
}

/// Brings the task to the point where the cancel belongs, and cancels.
fn cancel(comes: CancelComes, handle: &Handle<u8, String>, gate: &Gate) -> bool {
    match comes {
        CancelComes::Before => handle.cancel(),
        CancelComes::While => {
            gate.wait_until_entered(1);
            let told = handle.cancel();
            gate.open();
            told
        }
        CancelComes::After => {
            gate.open();
            eventually("it settles", || handle.is_settled());
            handle.cancel()
        }
    }
}

fn expected(does: Does, comes: CancelComes) -> OutcomeKind {
    match (does, comes) {
        (_, CancelComes::Before) => OutcomeKind::Cancelled,
        (Does::Panic | Does::PanicInDrop, _) => OutcomeKind::Panicked,
        (Does::Error | Does::Obeys, CancelComes::While) => OutcomeKind::Cancelled,
        (Does::Error, _) => OutcomeKind::Failed,
        (Does::Value | Does::Obeys, _) => OutcomeKind::Completed,
    }
}

fn meet(fate: Fate, mut handle: Handle<u8, String>, expected: OutcomeKind, case: &str) {
    let outcome = match fate {
        Fate::Awaited => handle.wait_timeout(HANG).expect("it settles"),
        Fate::Polled => block_on(handle),
        Fate::Dropped => return drop(handle),
        Fate::Forgotten => return std::mem::forget(handle),
    };
    let kind = outcome.map_or_else(|error| error.kind(), |_| OutcomeKind::Completed);
    assert_eq!(kind, expected, "{case}: the handle");
}

struct Capture {
    panics: bool,
    drops: Arc<AtomicUsize>,
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.drops.fetch_add(1, SeqCst);
        if self.panics {
            deliberate_panic("in the drop of a capture");
        }
    }
}
