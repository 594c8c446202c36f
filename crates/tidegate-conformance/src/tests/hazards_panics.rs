//! Known ways to fail: panics in odd places, and children of the process.

use std::fmt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Wake, Waker};

use tidegate::{Pool, Shutdown};

use crate::Ctx;
use crate::kit::{
    Deliberate, Gate, block_on, child_program, deliberate_panic, eventually, idle, in_background,
    occupy, refusal, task_error, value,
};

pub(crate) fn hazard_26_panics_never_shrink_the_pool(cx: &Ctx) {
    let pool = cx.builder().queue(100).build().expect("the pool starts");
    for _ in 0..1_000 {
        pool.spawn(|| deliberate_panic("many")).expect("there is room");
    }
    idle(&pool);
    occupy(&pool, cx.workers()).open();
    let now = pool.snapshot();
    assert_eq!((now.panicked, now.live_workers), (1_000, cx.workers() as u64));
}

pub(crate) fn hazard_40_a_display_of_the_user_panics(cx: &Ctx) {
    #[derive(Debug)]
    struct Shy;
    impl fmt::Display for Shy {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            deliberate_panic("in Display")
        }
    }
    let pool = cx.builder().queue(100).build().expect("the pool starts");
    for _ in 0..cx.workers() * 2 {
        pool.spawn_result(|| Err(Shy)).expect("there is room");
        let offer = pool.task("").on_outcome(|_| ());
        let handle = offer.submit_result(|_| Err::<(), _>(Shy)).expect("there is room");
        assert!(task_error(handle).is_failed(), "the outcome stays");
    }
    idle(&pool);
    assert_eq!(pool.snapshot().failed, cx.workers() as u64 * 4);
    occupy(&pool, cx.workers()).open();
}

/// Panics in wake and, when nobody else panics, in drop.
struct Bomb;

impl Wake for Bomb {
    fn wake(self: Arc<Self>) {
        deliberate_panic("in wake")
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            deliberate_panic("in the drop of a waker");
        }
    }
}

pub(crate) fn hazard_83_a_panicking_waker_starves_nobody(cx: &Ctx) {
    let pool = cx.builder().queue(100).build().expect("the pool starts");
    let gate = Gate::new();
    let offer = |n: u8| {
        let passage = gate.passage();
        let work = move || {
            passage.enter();
            n
        };
        pool.submit(work).expect("there is room")
    };
    let mut replaced = offer(1);
    gate.wait_until_entered(1);
    let poll = |handle: &mut tidegate::Handle<u8>, waker: Waker| {
        let answer = std::pin::Pin::new(handle).poll(&mut Context::from_waker(&waker));
        assert!(answer.is_pending());
    };
    poll(&mut replaced, Arc::new(Bomb).into());
    // Polled again, the bomb is dropped: on our own thread, and it must not come through.
    poll(&mut replaced, Waker::noop().clone());
    let mut dropped = offer(2);
    poll(&mut dropped, Arc::new(Bomb).into());
    drop(dropped);
    gate.open();
    assert!(matches!(block_on(replaced), Ok(1)), "the good waker was not woken");
    idle(&pool);
    occupy(&pool, cx.workers()).open();
}

pub(crate) fn hazard_84_payloads_that_panic_in_drop_nested(cx: &Ctx) {
    struct Nested(usize);
    impl Drop for Nested {
        fn drop(&mut self) {
            if let Some(less) = self.0.checked_sub(1) {
                Deliberate::raise(Nested(less));
            }
        }
    }
    let pool = cx.builder().queue(100).build().expect("the pool starts");
    for depth in 0..4 {
        pool.spawn(move || Deliberate::raise(Nested(depth))).expect("there is room");
        let seen =
            pool.submit(move || -> () { Deliberate::raise(Nested(depth)) }).expect("there is room");
        drop(task_error(seen));
        let unseen =
            pool.submit(move || -> () { Deliberate::raise(Nested(depth)) }).expect("there is room");
        eventually("it settles", || unseen.is_settled());
        drop(unseen);
    }
    idle(&pool);
    assert_eq!(pool.snapshot().panicked, 12);
    occupy(&pool, cx.workers()).open();
}

pub(crate) fn hazard_66_closures_that_never_return_a_value(cx: &Ctx) {
    let pool = cx.builder().build().expect("the pool starts");
    let diverges: fn() -> u8 = || deliberate_panic("diverges");
    assert!(task_error(pool.submit(diverges).expect("there is room")).is_panicked());
    let plain: fn() -> u8 = || 3;
    assert_eq!(
        value(pool.submit(plain).expect("there is room")),
        3,
        "a function pointer is a closure"
    );
}

/// Runs this program again as the child `name`; true if it ended by itself, and well.
fn child_ends_well(cx: &Ctx, name: &str) -> bool {
    let Some(program) = child_program() else {
        cx.skip("needs the runner's program to start a child");
    };
    let mut child = Command::new(program);
    child.args(["--child", name]).stdout(Stdio::null());
    // A child that hangs shows as a background thread that never ends.
    let status = in_background(move || child.status()).join();
    status.expect("the runner's program starts").success()
}

pub(crate) fn hazard_24_the_process_ends_with_running_workers(cx: &Ctx) {
    for name in ["leaves-running-workers", "exits-inside-a-task", "drops-at-the-end"] {
        assert!(child_ends_well(cx, name), "{name}: a crash at exit");
    }
}

pub(crate) fn hazard_24_thread_locals_may_use_the_pool(cx: &Ctx) {
    assert!(child_ends_well(cx, "waits-in-a-thread-local"));
}

/// What the children do; called from `main` with `--child`. False: no such child.
pub(crate) fn play_child(name: &str) -> bool {
    crate::kit::install_quiet_hook();
    let pool =
        Pool::builder("child").workers(2).on_unobserved(|_| ()).build().expect("the pool starts");
    match name {
        "leaves-running-workers" => {
            let gate = Gate::new();
            (0..10).for_each(|_| pool.spawn(gate.waiter()).expect("there is room"));
            gate.wait_until_entered(2);
            std::mem::forget((gate, pool));
        }
        "exits-inside-a-task" => {
            let handle = pool.submit(|| std::process::exit(0)).expect("there is room");
            let _: Result<(), _> = handle.wait();
        }
        "drops-at-the-end" => {
            let ran = Arc::new(AtomicUsize::new(0));
            for _ in 0..100 {
                let ran = Arc::clone(&ran);
                pool.spawn(move || {
                    ran.fetch_add(1, SeqCst);
                })
                .expect("there is room");
            }
        }
        "waits-in-a-thread-local" => wait_in_a_thread_local(pool),
        _ => return false,
    }
    true
}

fn wait_in_a_thread_local(pool: Pool) {
    struct Late(Pool);
    impl Drop for Late {
        fn drop(&mut self) {
            let handle = self.0.submit(|| 4).expect("the pool is open");
            assert_eq!(value(handle), 4);
        }
    }
    thread_local! {
        static LATE: std::cell::RefCell<Option<Late>> = const { std::cell::RefCell::new(None) };
    }
    let late = pool.clone();
    let thread =
        std::thread::spawn(move || LATE.with(|slot| *slot.borrow_mut() = Some(Late(late))));
    thread.join().expect("the destructor does not panic");
    pool.shutdown(Shutdown::light()).expect("outside the pool");
}

/// A callback of work that is refused, whose captures panic when they are dropped.
pub(crate) fn R3_a_bad_callback_does_not_keep_the_work(cx: &Ctx) {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            deliberate_panic("in the drop of a callback")
        }
    }
    let builder = cx.builder().queue(1).when_full(tidegate::WhenFull::Reject);
    let pool = builder.build().expect("the pool starts");
    let (cancelled, budget) = (tidegate::Token::new(), tidegate::Budget::new("budget", 1));
    cancelled.cancel();
    let busy = occupy(&pool, cx.workers());
    let queued = pool.submit(|| ()).expect("there is one place");
    let task = || {
        let bomb = Bomb;
        pool.task("").on_outcome(move |_| drop(bomb))
    };
    let refusals = [
        refusal(task().cancel_with(&cancelled).submit(|_| ())),
        refusal(task().submit(|_| ())),
        refusal(task().budget(&budget, 2).submit(|_| ())),
    ];
    let reasons = [tidegate::Reason::Cancelled, tidegate::Reason::Full, tidegate::Reason::TooHeavy];
    assert_eq!(refusals, reasons);
    let now = pool.snapshot();
    assert_eq!((now.refused.total(), now.drop_panics), (3, 3), "{now}");
    busy.open();
    value(queued);
}
