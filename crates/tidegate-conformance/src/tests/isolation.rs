//! O5 and O6: panics hurt nobody else, and nothing fails in silence.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::task::{Context, Wake, Waker};

use tidegate::{Handle, Pool, Unobserved, UnobservedKind};

use crate::Ctx;
use crate::kit::{
    Deliberate, Gate, HANG, deliberate_panic, eventually, idle, occupy, task_error, value,
};

/// Panics when dropped, if armed.
struct Grenade(bool);

impl Drop for Grenade {
    fn drop(&mut self) {
        if self.0 {
            deliberate_panic("in drop");
        }
    }
}

/// All workers still work, and no task was lost.
fn assert_whole(pool: &Pool, workers: usize) {
    occupy(pool, workers).open();
    idle(pool);
    pool.snapshot().check().expect("no task was lost");
}

pub(crate) fn O5_panic_in_the_closure(cx: &Ctx) {
    let pool = cx.builder().build().expect("the pool starts");
    for _ in 0..cx.workers() * 2 {
        let handle = pool.submit(|| deliberate_panic("closure")).expect("there is room");
        assert!(task_error::<(), _>(handle).is_panicked());
    }
    assert_eq!(pool.snapshot().panicked, cx.workers() as u64 * 2, "counted once each");
    assert_whole(&pool, cx.workers());
}

pub(crate) fn O5_panic_in_the_drop_of_captures(cx: &Ctx) {
    let pool = cx.builder().queue(10).build().expect("the pool starts");
    let grenade = Grenade(true);
    let ran = pool.submit(move || drop(grenade)).expect("there is room");
    assert!(task_error(ran).is_panicked(), "while running it is the task's panic");
    let busy = occupy(&pool, cx.workers());
    let grenade = Grenade(true);
    let never_ran = pool.submit(move || drop(grenade)).expect("there is room");
    assert!(never_ran.cancel(), "cancel does not pass the panic on");
    assert!(task_error(never_ran).is_cancelled(), "the outcome stays");
    assert_eq!(pool.snapshot().drop_panics, 1, "and the panic is counted");
    busy.open();
    assert_whole(&pool, cx.workers());
    assert_eq!(pool.snapshot().panicked, 1);
}

pub(crate) fn O5_panic_in_the_drop_of_a_result(cx: &Ctx) {
    let pool = cx.builder().queue(10).build().expect("the pool starts");
    let handle = pool.submit(|| Grenade(true)).expect("there is room");
    eventually("it settles", || handle.is_settled());
    // Dropping the handle drops the result: that panic must not reach us.
    drop(handle);
    let busy = occupy(&pool, cx.workers());
    drop(pool.submit(|| Grenade(true)).expect("there is room"));
    busy.open();
    idle(&pool);
    let now = pool.snapshot();
    assert_eq!((now.completed, now.panicked), (2 + cx.workers() as u64, 0), "they completed");
    eventually("both panics in drop are counted", || pool.snapshot().drop_panics == 2);
    assert_whole(&pool, cx.workers());
}

pub(crate) fn O5_panic_in_the_drop_of_a_payload(cx: &Ctx) {
    let pool = cx.builder().build().expect("the pool starts");
    let handle = pool.submit(|| -> () { Deliberate::raise(Grenade(true)) }).expect("there is room");
    let error = task_error(handle);
    assert!(error.is_panicked());
    // Must not panic here either.
    drop(error);
    pool.spawn(|| Deliberate::raise(Grenade(true))).expect("there is room");
    idle(&pool);
    assert_eq!(pool.snapshot().panicked, 2);
    assert_whole(&pool, cx.workers());
}

pub(crate) fn O5_the_payload_is_available_once(cx: &Ctx) {
    let pool = cx.builder().build().expect("the pool starts");
    let handle = pool.submit(|| -> () { Deliberate::raise(41_u64) }).expect("there is room");
    let tidegate::TaskError::Panicked(panic) = task_error(handle) else { panic!("a panic") };
    let payload = panic.into_payload().downcast::<Deliberate<u64>>();
    assert_eq!(payload.map(|payload| payload.0).ok(), Some(41), "the payload came out changed");
}

pub(crate) fn O5_panic_in_a_hook(cx: &Ctx) {
    let armed = Arc::new(AtomicBool::new(false));
    let trigger = Arc::clone(&armed);
    let builder = cx.builder().on_unobserved(move |_| {
        if trigger.load(SeqCst) {
            deliberate_panic("in on_unobserved");
        }
    });
    let pool = builder.build().expect("the pool starts");
    armed.store(true, SeqCst);
    for _ in 0..cx.workers() * 2 {
        pool.spawn(|| deliberate_panic("unseen")).expect("there is room");
    }
    idle(&pool);
    assert!(pool.snapshot().hook_panics > 0, "a panic in a hook is counted");
    assert_whole(&pool, cx.workers());
}

struct PanickingWaker {
    woken: Arc<AtomicU64>,
}

impl Wake for PanickingWaker {
    fn wake(self: Arc<Self>) {
        self.woken.fetch_add(1, SeqCst);
        deliberate_panic("in wake")
    }
}

impl Drop for PanickingWaker {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            deliberate_panic("in the drop of a waker");
        }
    }
}

/// Polls once and leaves the waker behind, as the only one who holds it.
fn leave_a_panicking_waker(handle: &mut Handle<u8>, woken: &Arc<AtomicU64>) {
    let waker = Waker::from(Arc::new(PanickingWaker { woken: Arc::clone(woken) }));
    let pending = std::pin::Pin::new(handle).poll(&mut Context::from_waker(&waker)).is_pending();
    assert!(pending, "the task is still held at the gate");
    let ours = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(waker)));
    assert!(ours.is_ok(), "the handle keeps a clone of the waker");
}

pub(crate) fn O5_panic_in_a_waker(cx: &Ctx) {
    let pool = cx.builder().build().expect("the pool starts");
    let woken = Arc::new(AtomicU64::new(0));
    for _ in 0..cx.workers() * 2 {
        let gate = Gate::new();
        let passage = gate.passage();
        let offer = pool.submit(move || {
            passage.enter();
            6
        });
        let mut handle = offer.expect("there is room");
        gate.wait_until_entered(1);
        leave_a_panicking_waker(&mut handle, &woken);
        gate.open();
        eventually("it settles", || handle.is_settled());
        assert_eq!(value(handle), 6, "the outcome stays");
    }
    let woken = woken.load(SeqCst);
    assert_eq!(woken, cx.workers() as u64 * 2, "every waker was woken");
    eventually("each is counted", || pool.snapshot().callback_panics == woken);
    assert_whole(&pool, cx.workers());
}

/// A pool whose unobserved failures come out of a channel.
fn with_ear(cx: &Ctx) -> (Pool, mpsc::Receiver<Unobserved>) {
    let (tell, told) = mpsc::channel();
    let tell = std::sync::Mutex::new(tell);
    let hook = move |event: &Unobserved| {
        let tell = tell.lock().expect("nobody panics holding it");
        let _ = tell.send(event.clone());
    };
    (cx.builder().on_unobserved(hook).build().expect("the pool starts"), told)
}

pub(crate) fn O6_unobserved_failures_reach_the_hook(cx: &Ctx) {
    let (pool, told) = with_ear(cx);
    let hear = || told.recv_timeout(HANG).expect("the hook is called");
    pool.spawn(|| deliberate_panic("alone")).expect("there is room");
    let event = hear();
    assert_eq!(event.kind, UnobservedKind::Panicked);
    assert!(event.message.contains("alone"), "the message is in it: {}", event.message);
    pool.spawn_result(|| Err::<(), _>("unread")).expect("there is room");
    let event = hear();
    assert_eq!((event.kind, &*event.message), (UnobservedKind::Failed, "unread"));
    pool.task("named").spawn_result(|_| Err::<(), _>("with a name")).expect("there is room");
    let event = hear();
    assert_eq!(event.name, "named");
    assert_eq!(&*event.pool, pool.name());
    pool.task("").on_outcome(|_| deliberate_panic("back")).spawn(|_| ()).expect("there is room");
    assert_eq!(hear().kind, UnobservedKind::CallbackPanicked);
}

pub(crate) fn O6_an_error_dropped_unread_is_reported(cx: &Ctx) {
    let (pool, told) = with_ear(cx);
    let settled = pool.submit_result(|| Err::<(), _>("dropped late")).expect("there is room");
    eventually("it settles", || settled.is_settled());
    drop(settled);
    let event = told.recv_timeout(HANG).expect("the hook is called");
    assert_eq!(event.kind, UnobservedKind::Failed);
    let gate = Gate::new();
    let passage = gate.passage();
    let running = pool.submit(move || {
        passage.enter();
        deliberate_panic("dropped early")
    });
    drop::<Handle<()>>(running.expect("there is room"));
    gate.open();
    let event = told.recv_timeout(HANG).expect("the hook is called");
    assert_eq!(event.kind, UnobservedKind::Panicked);
}

pub(crate) fn O6_what_somebody_saw_is_not_reported(cx: &Ctx) {
    let (pool, told) = with_ear(cx);
    let failed = pool.submit_result(|| Err::<(), _>("seen")).expect("there is room");
    assert!(task_error(failed).is_failed());
    let panicked = pool.submit(|| deliberate_panic("seen")).expect("there is room");
    assert!(task_error::<(), _>(panicked).is_panicked());
    drop(pool.submit(|| 1).expect("there is room"));
    let cancelled = pool.submit(|| ()).expect("there is room");
    cancelled.cancel();
    drop(cancelled);
    pool.shutdown(tidegate::Shutdown::light()).expect("outside the pool");
    assert_eq!(told.try_iter().count(), 0, "a failure that was read was reported again");
}

pub(crate) fn O6_an_abandoned_task_is_told(cx: &Ctx) {
    let (clock, hand) = tidegate::Clock::manual();
    let (tell, told) = mpsc::channel();
    let tell = std::sync::Mutex::new(tell);
    let hook = move |event: &Unobserved| {
        let _ = tell.lock().expect("nobody panics holding it").send((event.kind, event.name));
    };
    let builder = cx.builder().queue(10).clock(clock).task_timeout(GRACE).grace(GRACE);
    let pool = builder.on_unobserved(hook).build().expect("the pool starts");
    for name in ["", "named"] {
        let gate = Gate::new();
        let passage = gate.passage();
        match name {
            "" => pool.spawn(move || passage.enter()).expect("there is room"),
            name => pool.task(name).spawn(move |_| passage.enter()).expect("there is room"),
        }
        gate.wait_until_entered(1);
        eventually("it is given up", || {
            hand.advance(GRACE);
            pool.snapshot().stuck == 1
        });
        let event = told.recv_timeout(HANG).expect("the hook is called");
        assert_eq!(event, (UnobservedKind::Abandoned, name));
        gate.open();
        eventually("its code returns", || pool.snapshot().stuck == 0);
    }
}

const GRACE: std::time::Duration = std::time::Duration::from_secs(1);
