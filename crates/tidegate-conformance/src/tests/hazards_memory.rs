//! Known ways to fail: memory, sizes, and things dropped twice or never.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use tidegate::{Pool, Shutdown, Token, WhenFull};

use crate::Ctx;
use crate::kit::{
    Gate, Tracked, assert_keeps_nothing, deliberate_panic, eventually, idle, occupy, task_error,
    value,
};

pub(crate) fn hazard_63_an_idle_worker_pins_nothing(cx: &Ctx) {
    let pool = cx.builder().build().expect("the pool starts");
    for _ in 0..50 {
        let shared = Arc::new(());
        let (capture, result) = (Arc::clone(&shared), Arc::clone(&shared));
        let handle = pool.submit(move || {
            let _held = capture;
            result
        });
        drop(value(handle.expect("there is room")));
        let capture = Arc::clone(&shared);
        pool.spawn(move || drop(capture)).expect("there is room");
        idle(&pool);
        assert_eq!(Arc::strong_count(&shared), 1, "the pool holds on to a closure or a result");
    }
}

/// Submits closures that capture `N` bytes, as spawn and with a handle.
fn sized<const N: usize>(pool: &Pool, sum: &Arc<AtomicUsize>) -> usize {
    let bytes = [1_u8; N];
    let total = Arc::clone(sum);
    let add = move || {
        total.fetch_add(bytes.iter().map(|b| usize::from(*b)).sum(), SeqCst);
    };
    pool.spawn(add).expect("there is room");
    let back = value(pool.submit(move || bytes).expect("there is room"));
    assert!(back.iter().all(|byte| *byte == 1), "{N} bytes came back changed");
    N
}

pub(crate) fn hazard_75_closures_of_every_size(cx: &Ctx) {
    // Three quarters of what a thread gets: copies of the largest must not pile up on the stack,
    // also not in a build without optimisation. The sanitizer puts a margin around each copy, and
    // never uses the place of one for another.
    const STACK: usize = (3 << 20) / 2 * if cfg!(tidegate_asan) { 4 } else { 1 };
    let builder = cx.builder().queue(100).stack_size(STACK);
    let pool = builder.build().expect("the pool starts");
    thread::scope(|s| {
        let caller = thread::Builder::new().stack_size(STACK);
        caller.spawn_scoped(s, || closures_of_every_size(&pool)).expect("a thread");
    });
}

fn closures_of_every_size(pool: &Pool) {
    let sum = Arc::new(AtomicUsize::new(0));
    // Around the size of a slot (48 bytes, less the words beside it), and far beyond.
    macro_rules! sizes { ($($n:literal)*) => { [$(sized::<$n>(pool, &sum)),*] }; }
    let small = sizes!(0 1 7 8 15 16 17 23 24 25 31 32 33 39 40 41 42 46 47 48 49 50 55 56 57);
    let bulk = (0..20).map(|_| {
        let (bytes, total) = ([1_u8; 65536], Arc::clone(&sum));
        move || _ = total.fetch_add(bytes.iter().map(|b| usize::from(*b)).sum(), SeqCst)
    });
    assert_eq!(pool.spawn_all(bulk).expect("there is room"), 20);
    let large = sizes!(63 64 65 71 72 73 100 127 128 129 255 256 257 1000 4096 65536);
    idle(pool);
    let expected = small.iter().chain(&large).sum::<usize>() + 20 * 65536;
    assert_eq!(sum.load(SeqCst), expected, "a closure ran with other bytes than it had");
}

pub(crate) fn hazard_66_zero_sized_and_over_aligned(cx: &Ctx) {
    #[repr(align(256))]
    #[derive(Clone, Copy)]
    struct Wide(u8);
    fn aligned(wide: &Wide) -> bool {
        std::ptr::from_ref(wide).addr().is_multiple_of(256)
    }
    let pool = cx.builder().queue(100).build().expect("the pool starts");
    pool.spawn(|| ()).expect("a closure of size 0");
    value(pool.submit(|| ()).expect("a closure and a value of size 0"));
    for n in 0..20 {
        let wide = Wide(n);
        let handle = pool.submit(move || (aligned(&wide), wide)).expect("there is room");
        let (inside, back) = value(handle);
        assert!(inside && aligned(&back) && back.0 == n, "alignment was ignored");
        #[allow(clippy::result_large_err, reason = "a large error is the point")]
        let fails = move || Err::<(), _>(wide);
        let never = pool.submit_result(fails).expect("there is room");
        let tidegate::TaskError::Failed(error) = task_error(never) else { panic!("it fails") };
        assert_eq!(error.0, n);
    }
}

pub(crate) fn hazard_67_captures_are_dropped_exactly_once(cx: &Ctx) {
    let builder = cx.builder().queue(2).when_full(WhenFull::DropOldest);
    let pool = builder.build().expect("the pool starts");
    let mut counters = Vec::new();
    let mut tracked = || {
        let (capture, drops) = Tracked::new();
        counters.push(drops);
        capture
    };
    let capture = tracked();
    value(pool.submit(move || drop(capture)).expect("there is room"));
    let capture = tracked();
    let panics = pool.submit(move || -> () {
        let _held = capture;
        deliberate_panic("holding a capture")
    });
    assert!(task_error(panics.expect("there is room")).is_panicked());
    let busy = occupy(&pool, cx.workers());
    // Evicted in turn: short ones in a slot, long ones in a box, and with a handle.
    for n in 0..30 {
        let capture = tracked();
        let ballast = [0_u64; 40];
        match n % 3 {
            0 => pool.spawn(move || drop(capture)).expect("the oldest makes room"),
            1 => pool.spawn(move || drop((capture, ballast))).expect("the oldest makes room"),
            _ => drop(pool.submit(move || drop(capture)).expect("the oldest makes room")),
        }
    }
    let capture = tracked();
    let cancelled = pool.submit(move || drop(capture)).expect("the oldest makes room");
    assert!(cancelled.cancel());
    busy.open();
    pool.shutdown(Shutdown::light()).expect("outside the pool");
    let capture = tracked();
    drop(pool.submit(move || drop(capture)).map(drop));
    let drops: Vec<usize> = counters.iter().map(|counter| counter.load(SeqCst)).collect();
    assert_eq!(drops, vec![1; drops.len()], "dropped twice, or never");
}

pub(crate) fn hazard_44_a_forgotten_handle_is_harmless(cx: &Ctx) {
    let pool = cx.builder().queue(100).build().expect("the pool starts");
    let (capture, drops) = Tracked::new();
    let forgotten = pool.submit(move || drop(capture)).expect("there is room");
    std::mem::forget(forgotten);
    for n in 0..100 {
        std::mem::forget(pool.submit(move || vec![n; 100]).expect("there is room"));
    }
    idle(&pool);
    assert_eq!(drops.load(SeqCst), 1, "it ran all the same");
    assert!(pool.shutdown(Shutdown::light()).expect("outside the pool").is_success());
}

pub(crate) fn hazard_46_abandoned_tasks_do_not_kill_the_pool(cx: &Ctx) {
    let pool = cx
        .builder()
        .grace(std::time::Duration::ZERO)
        .max_abandoned(100)
        .build()
        .expect("the pool starts");
    let gates: Vec<Gate> = (0..cx.workers() * 2 + 3)
        .map(|_| {
            let gate = Gate::new();
            let passage = gate.passage();
            let handle = pool.submit(move || passage.enter()).expect("there is room");
            gate.wait_until_entered(1);
            handle.cancel();
            assert!(task_error(handle).is_abandoned());
            gate
        })
        .collect();
    occupy(&pool, cx.workers()).open();
    assert_eq!(
        value(pool.submit(|| 1).expect("there is room")),
        1,
        "N stuck tasks are a dead pool"
    );
    let stuck = gates.len() as u64;
    drop(gates);
    eventually("all return", || pool.snapshot().late_returns == stuck);
    eventually("the burst leaves no thread behind", || {
        pool.snapshot().live_workers == cx.workers() as u64
    });
}

pub(crate) fn hazard_52_tasks_and_children_leave_a_long_lived_token(cx: &Ctx) {
    // A leak of one small node per round would be more.
    const SLACK: u64 = 3 << 20;
    let pool = cx.builder().queue(100).build().expect("the pool starts");
    let root = Token::new();
    let use_it = |rounds: u64| {
        for n in 0..rounds {
            drop(root.child().child());
            let request = root.child();
            let task = pool.task("").cancel_with(&request).submit(move |task| (n, task.token()));
            task.expect("there is room").detach();
        }
        idle(&pool);
    };
    use_it(5_000);
    assert_keeps_nothing("a token keeps its dead", SLACK, || use_it(40_000));
}

pub(crate) fn hazard_63_uncollected_results_do_not_pile_up(cx: &Ctx) {
    const SLACK: u64 = 16 << 20;
    let pool = cx.builder().queue(100).build().expect("the pool starts");
    let use_it = |rounds: usize| {
        for _ in 0..rounds {
            drop(pool.submit(|| vec![0_u8; 4096]).expect("there is room"));
            drop(pool.submit_result(|| Err::<(), _>(vec![0_u8; 4096])).expect("there is room"));
        }
        idle(&pool);
    };
    use_it(2_000);
    assert_keeps_nothing("results that nobody collects pile up", SLACK, || use_it(20_000));
}
