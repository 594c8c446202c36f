//! G3: a function over many items, each a task.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use tidegate::{MapError, Pool, Reason, TaskError, WhenFull};

use crate::Ctx;
use crate::kit::{
    Gate, deliberate_panic, eventually, give_a_bug_its_chance, idle, in_background, occupy, value,
};

fn open(cx: &Ctx) -> Pool {
    cx.builder().queue(100).build().expect("the pool starts")
}

/// All results, which must be there.
fn all<T, E: std::fmt::Debug>(results: impl Iterator<Item = Result<T, MapError<E>>>) -> Vec<T> {
    results.map(|result| result.expect("every item has a result")).collect()
}

/// Endless; counts what was pulled.
fn counting(pulled: &Arc<AtomicUsize>) -> impl Iterator<Item = usize> + use<> {
    let pulled = Arc::clone(pulled);
    std::iter::repeat_with(move || pulled.fetch_add(1, SeqCst))
}

pub(crate) fn G3_results_come_in_the_order_of_the_items(cx: &Ctx) {
    for queue in [1, 100] {
        let pool = cx.builder().queue(queue).build().expect("the pool starts");
        let texts = all(pool.map((0..500).map(|n| n.to_string()), |text| text + "!"));
        assert_eq!(texts, (0..500).map(|n| format!("{n}!")).collect::<Vec<_>>());
        assert!(pool.map(Vec::<u8>::new(), |n| n).next().is_none(), "nothing of nothing");
        idle(&pool);
        let now = pool.snapshot();
        assert_eq!((now.accepted, now.completed), (500, 500), "each item is a task");
    }
}

pub(crate) fn G3_as_completed_gives_what_is_ready_first(cx: &Ctx) {
    cx.needs_workers(2);
    let pool = open(cx);
    let gate = Gate::new();
    let passage = gate.passage();
    let slow_first = move |n: u64| {
        if n == 0 {
            passage.enter();
        }
        n * n
    };
    let mut results = pool.map(0..50, slow_first).as_completed();
    let mut found = Vec::new();
    for _ in 1..50 {
        let (item, result) = results.next().expect("49 are not held up");
        assert_eq!(result.expect("every item has a result"), (item * item) as u64);
        found.push(item);
    }
    found.sort_unstable();
    assert_eq!(found, (1..50).collect::<Vec<_>>(), "each once, the slow one not yet");
    gate.open();
    assert!(matches!(results.next(), Some((0, Ok(0)))));
    assert!(results.next().is_none());
}

/// What was begun in order comes first; then whatever is ready.
pub(crate) fn G3_a_map_may_change_to_as_completed(cx: &Ctx) {
    let pool = open(cx);
    let mut map = pool.map(0..100u64, |n| n).window(8);
    assert_eq!(map.next().expect("there is one").expect("it has a result"), 0);
    let mut rest: Vec<_> = map.as_completed().map(|(item, _)| item).collect();
    rest.sort_unstable();
    assert_eq!(rest, (1..100).collect::<Vec<_>>());
}

pub(crate) fn G3_items_are_pulled_lazily_within_the_window(cx: &Ctx) {
    let pool = open(cx);
    for window in [1, 4, 64] {
        let pulled = Arc::new(AtomicUsize::new(0));
        let mut map = pool.map(counting(&pulled), |n| n).window(window);
        assert_eq!(pulled.load(SeqCst), 0, "nothing happens before it is asked");
        for given in 0..200 {
            assert_eq!(map.next().expect("endless").expect("it has a result"), given);
            let ahead = pulled.load(SeqCst) - given;
            assert!((1..=window).contains(&ahead), "{ahead} pulled, window {window}");
        }
        let pulled_at_the_end = pulled.load(SeqCst);
        drop(map);
        idle(&pool);
        assert_eq!(pulled.load(SeqCst), pulled_at_the_end);
    }
    let pulled = Arc::new(AtomicUsize::new(0));
    let mut map = pool.map(counting(&pulled), |n| n).window(4).as_completed();
    for given in 0..200 {
        map.next().expect("endless").1.expect("it has a result");
        assert!(pulled.load(SeqCst) - given <= 4);
    }
    idle(&pool);
    pool.snapshot().check().expect("no task was lost");
}

/// A reader that does not read holds up nobody.
pub(crate) fn G3_a_slow_reader_blocks_no_worker(cx: &Ctx) {
    let pool = open(cx);
    let mut map = pool.map(0.., |n: u64| n).window(8);
    map.next().expect("endless").expect("it has a result");
    idle(&pool);
    assert_eq!(value(pool.submit(|| 7).expect("there is room")), 7);
    assert_eq!(map.next().expect("endless").expect("it has a result"), 1);
}

pub(crate) fn G3_the_first_error_stops_it(cx: &Ctx) {
    let pool = open(cx);
    let pulled = Arc::new(AtomicUsize::new(0));
    let fails_at_20 = |n: usize| if n == 20 { Err("twenty") } else { Ok(n) };
    let mut map = pool.map_result(counting(&pulled), fails_at_20).window(10);
    for n in 0..20 {
        assert_eq!(map.next().expect("before the error").expect("it has a result"), n);
    }
    let error = map.next().expect("the error is told").expect_err("the twentieth fails");
    assert!(matches!(error, MapError::Task(TaskError::Failed("twenty"))), "{error:?}");
    assert!(map.next().is_none() && map.next().is_none(), "it is over");
    let at_the_end = pulled.load(SeqCst);
    assert!(at_the_end <= 30, "{at_the_end} pulled");
    assert_eq!(map.into_rest().next(), Some(at_the_end), "the rest was never pulled");
    idle(&pool);
    pool.snapshot().check().expect("no task was lost");
}

pub(crate) fn G3_the_first_panic_stops_it(cx: &Ctx) {
    let pool = open(cx);
    let panics_at_3 = |n: u64| if n == 3 { deliberate_panic("three") } else { n };
    let mut map = pool.map(0.., panics_at_3).as_completed();
    let error = map.find_map(|(item, result)| result.err().map(|error| (item, error)));
    match error {
        Some((3, MapError::Task(TaskError::Panicked(panic)))) => {
            assert!(panic.message().contains("three"));
        }
        other => panic!("{other:?}"),
    }
    assert!(map.next().is_none(), "it is over");
    assert_eq!(value(pool.submit(|| 1).expect("the pool goes on")), 1);
}

/// The reader waits for the first item; the second fails; the others are queued.
pub(crate) fn G3_an_error_stops_what_is_queued_while_the_reader_waits(cx: &Ctx) {
    cx.needs_workers(2);
    let pool = cx.builder().workers(2).queue(100).build().expect("the pool starts");
    let (first, second) = (Gate::new(), Gate::new());
    let (at_first, at_second) = (first.passage(), second.passage());
    let ran = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ran);
    let f = move |n: u32| {
        match n {
            0 => at_first.enter(),
            1 => {
                at_second.enter();
                return Err("the second");
            }
            _ => _ = counted.fetch_add(1, SeqCst),
        }
        Ok(n)
    };
    let map = pool.map_result(0..20, f);
    let reader = in_background(move || map.collect::<Vec<_>>());
    eventually("the others are queued", || pool.snapshot().queued == 18);
    second.open();
    eventually("the others are cancelled", || pool.snapshot().cancelled == 18);
    assert!(!reader.is_finished(), "the first is still to come");
    first.open();
    let results = reader.join();
    assert!(matches!(results.as_slice(), [Ok(0), Err(MapError::Task(TaskError::Failed(_)))]));
    assert_eq!(ran.load(SeqCst), 0, "nothing behind the failed one ran");
}

/// Items 0 and 1 wait at the gate; all of the window is pulled before it opens for item 0.
fn five_in_flight(pool: &Pool) -> (Gate, impl Fn(u32) -> u32 + Send + Sync + use<>) {
    let (gate, watched) = (Gate::new(), pool.clone());
    let passage = gate.passage();
    let f = move |n: u32| {
        match n {
            0 => eventually("all are in flight", || watched.snapshot().accepted == 5),
            1 => passage.enter(),
            _ => {}
        }
        n
    };
    (gate, f)
}

pub(crate) fn G3_dropping_a_map_cancels_what_is_queued(cx: &Ctx) {
    for as_completed in [false, true] {
        let pool = cx.builder().workers(1).queue(100).callers_may_help(false).build();
        let pool = pool.expect("the pool starts");
        let (gate, f) = five_in_flight(&pool);
        let mut map = pool.map(0.., f).window(5);
        if as_completed {
            let mut map = map.as_completed();
            assert!(matches!(map.next(), Some((0, Ok(0)))));
            gate.wait_until_entered(1);
        } else {
            assert!(matches!(map.next(), Some(Ok(0))));
            gate.wait_until_entered(1);
            drop(map);
        }
        let now = pool.snapshot();
        assert_eq!((now.cancelled, now.queued, now.running), (3, 0, 1), "{now}");
        gate.open();
        idle(&pool);
        let now = pool.snapshot();
        now.check().expect("no task was lost");
        assert_eq!((now.completed, now.cancelled, now.accepted), (2, 3, 5));
    }
}

pub(crate) fn G3_a_closed_pool_gives_the_item_back(cx: &Ctx) {
    let pool = open(cx);
    let mut map = pool.map(0..10u64, |n| n).window(3);
    assert_eq!(map.next().expect("there is one").expect("it has a result"), 0);
    pool.close();
    let mut given = 1;
    let refused = loop {
        match map.next() {
            Some(Ok(n)) => {
                assert_eq!(n, given, "what was accepted is still given");
                given += 1;
            }
            other => break other,
        }
    };
    assert!(matches!(refused, Some(Err(MapError::Refused(Reason::Closed)))), "{refused:?}");
    assert!(map.next().is_none());
    let rest: Vec<_> = map.into_rest().collect();
    assert_eq!(rest, (given..10).collect::<Vec<_>>(), "nothing is lost");
}

/// A map within a map, and within a task, with hardly any room.
pub(crate) fn G3_maps_work_inside_the_pool(cx: &Ctx) {
    let pool = cx.builder().queue(1).build().expect("the pool starts");
    let inner = pool.clone();
    let row = move |row: u64| -> u64 {
        let cells = inner.map(0..10, move |column| row * column);
        all(cells).into_iter().sum()
    };
    assert_eq!(all(pool.map(0..10, row)).into_iter().sum::<u64>(), 45 * 45);
    let inner = pool.clone();
    let unordered = pool.submit(move || {
        let results = inner.map(1..=100u64, |n| n).as_completed();
        results.map(|(_, result)| result.expect("it has a result")).sum::<u64>()
    });
    assert_eq!(value(unordered.expect("there is room")), 5_050);
}

pub(crate) fn G3_a_map_in_a_scope_borrows(cx: &Ctx) {
    let pool = open(cx);
    let words: Vec<String> = (0..100).map(|n| format!("word {n}")).collect();
    let suffix = String::from("!");
    let (ordered, longest) = pool.scope(|s| {
        let loud = all(s.map(&words, |word| format!("{word}{suffix}")));
        let lengths = s.map(&words, |word| (word.len(), word.as_str())).as_completed();
        let longest = lengths.filter_map(|(_, result)| result.ok()).max();
        (loud, longest)
    });
    assert_eq!(ordered[99], "word 99!");
    assert_eq!(longest.map(|(length, _)| length), Some(7));
}

/// A panic is the map's to tell; whoever has seen it is not told again by the scope.
pub(crate) fn G3_a_failing_map_in_a_scope_leaves_nothing_behind(cx: &Ctx) {
    let pool = open(cx);
    let live = AtomicUsize::new(0);
    let seen = pool.scope(|s| {
        let f = |n: u32| {
            live.fetch_add(1, SeqCst);
            let result = if n % 7 == 6 { deliberate_panic("in a scope") } else { n };
            live.fetch_sub(1, SeqCst);
            result
        };
        s.map(0..1_000, f).take_while(Result::is_ok).count()
    });
    assert_eq!(seen, 6);
    let ended = live.load(SeqCst);
    give_a_bug_its_chance();
    assert_eq!(live.load(SeqCst), ended, "nothing runs after the scope");
    idle(&pool);
    pool.snapshot().check().expect("no task was lost");
}

pub(crate) fn G3_a_map_waits_for_room_whatever_the_policy(cx: &Ctx) {
    for policy in [WhenFull::Reject, WhenFull::DropNewest, WhenFull::CallerRuns] {
        let builder = cx.builder().queue(1).when_full(policy).callers_may_help(false);
        let pool = builder.build().expect("the pool starts");
        assert_eq!(all(pool.map(0..200u32, |n| n)), (0..200).collect::<Vec<_>>());
        assert_eq!(pool.snapshot().on_caller, 0, "the reader's thread runs nothing");
    }
}

/// What can be given is given, although there is no room for more.
pub(crate) fn G3_a_result_that_is_ready_does_not_wait_for_room(cx: &Ctx) {
    let pool = cx.builder().queue(4).build().expect("the pool starts");
    // The first result comes only when the second item is in: else it might be given alone.
    let gate = Gate::new();
    let passage = gate.passage();
    let f = move |n: u64| {
        if n == 0 {
            passage.enter();
        }
        n
    };
    let opener = {
        let pool = pool.clone();
        in_background(move || {
            eventually("two are in", || pool.snapshot().accepted == 2);
            gate.open();
        })
    };
    let mut map = pool.map(0..100u64, f).window(2);
    assert_eq!(map.next().expect("there is one").expect("it has a result"), 0);
    opener.join();
    idle(&pool);
    let busy = occupy(&pool, cx.workers());
    for _ in 0..4 {
        pool.try_spawn(|| ()).expect("there are four places");
    }
    assert_eq!(map.next().expect("it is ready").expect("it has a result"), 1);
    busy.open();
    assert_eq!(all(map), (2..100).collect::<Vec<_>>(), "nothing was lost meanwhile");
}

/// The failure is in the part that was begun in order; later items are done already.
pub(crate) fn G3_nothing_comes_after_an_error(cx: &Ctx) {
    cx.needs_workers(2);
    let pool = open(cx);
    let (gate, f) = five_in_flight(&pool);
    let f = move |n: u32| if f(n) == 1 { Err("one") } else { Ok(n) };
    let mut map = pool.map_result(0..5, f).window(5);
    assert!(matches!(map.next(), Some(Ok(0))));
    eventually("the others are done", || pool.snapshot().completed == 4);
    let mut rest = map.as_completed();
    gate.open();
    assert!(matches!(rest.next(), Some((1, Err(_)))));
    assert!(rest.next().is_none() && rest.next().is_none());
}

/// Deeper than waits for plain handles may go.
pub(crate) fn G3_maps_nest_deeply_inside_the_pool(cx: &Ctx) {
    fn ordered(pool: &Pool, levels: u32) -> u32 {
        let inner = pool.clone();
        let below = move |n: u32| if n == 0 { 0 } else { 1 + ordered(&inner, n - 1) };
        all(pool.map([levels], below))[0]
    }
    fn completed(pool: &Pool, levels: u32) -> u32 {
        let inner = pool.clone();
        let below = move |n: u32| if n == 0 { 0 } else { 1 + completed(&inner, n - 1) };
        let mut results = pool.map([levels], below).as_completed();
        results.next().expect("there is one").1.expect("it has a result")
    }
    // On workers only: a caller that helps has the stack it has.
    let builder = cx.builder().callers_may_help(false).workers(1).queue(1);
    let pool = builder.stack_size(16 << 20).build().expect("the pool starts");
    assert_eq!((ordered(&pool, 80), completed(&pool, 80)), (80, 80));
}

/// Nobody could run it while its worker waits (W1).
pub(crate) fn G3_a_map_inside_a_pool_with_state_is_refused(cx: &Ctx) {
    let builder = cx.builder().callers_may_help(false).workers(1).queue(100);
    let pool = builder.worker_state(|_| 0u32).build().expect("the pool starts");
    for completed in [false, true] {
        let inner = pool.clone();
        let handle = pool.submit_with(move |_, _| {
            let map = inner.map([1, 2], |n: u32| n);
            match completed {
                false => map.map(|result| result.is_err()).next(),
                true => map.as_completed().map(|(_, result)| result.is_err()).next(),
            }
        });
        assert_eq!(value(handle.expect("there is room")), Some(true), "refused, not stuck");
    }
    assert_eq!(all(pool.map([1, 2], |n: u32| n)), [1, 2], "outside it works");
    // Begun outside, read inside: the second item is queued behind its reader.
    let (gate, (give, take)) = (Arc::new(Gate::new()), std::sync::mpsc::channel());
    let (passage, mut take) = (gate.passage(), Some(take));
    let (readers, opens, inner) = (std::sync::mpsc::channel(), Arc::clone(&gate), pool.clone());
    let (note, reader) = readers;
    let items = (0..2u32).inspect(move |n| {
        if *n == 1 {
            let take: std::sync::mpsc::Receiver<Box<dyn FnMut() -> bool + Send>> =
                take.take().expect("asked once");
            let task = inner.submit(move || take.recv().expect("it is sent")());
            note.send(task.expect("there is room")).expect("the test waits");
            opens.open();
        }
    });
    let f = move |n: u32| {
        passage.enter();
        n
    };
    let mut map = pool.map(items, f).as_completed();
    assert!(matches!(map.next(), Some((0, Ok(0)))));
    let is_refused =
        move || matches!(map.next(), Some((1, Err(MapError::Refused(Reason::WouldDeadlock)))));
    give.send(Box::new(is_refused)).expect("the reader waits");
    assert!(value(reader.recv().expect("it was submitted")), "refused, not stuck");
}

/// A pool that closes and an item that fails: the failure is the last that comes.
pub(crate) fn G3_a_failure_is_told_once_in_a_closing_pool(cx: &Ctx) {
    let pool = open(cx);
    let gate = Gate::new();
    let passage = gate.passage();
    let f = move |_: u32| {
        passage.enter();
        Err::<u32, _>("the only one")
    };
    let closer = pool.clone();
    // The second item closes the pool while the first is in flight, and is refused.
    let items = (0..9u32).inspect(move |n| {
        if *n == 1 {
            closer.close()
        }
    });
    let mut map = pool.map_result(items, f).as_completed();
    let opener = in_background(move || {
        gate.wait_until_entered(1);
        gate.open();
    });
    assert!(matches!(map.next(), Some((0, Err(MapError::Task(_))))));
    assert!(map.next().is_none() && map.next().is_none(), "nothing comes after it");
    opener.join();
    assert_eq!(map.into_rest().next(), Some(1), "the refused item comes back");
}

/// One worker, one place: all but one item run inline, and that one is not forgotten.
pub(crate) fn G3_no_item_is_starved_inside_the_pool(cx: &Ctx) {
    let pool = cx.builder().workers(1).queue(1).build().expect("the pool starts");
    let inner = pool.clone();
    let handle = pool.submit(move || {
        let mut map = inner.map(0u64.., |n| n).window(4).as_completed();
        (0..1_000).position(|_| matches!(map.next(), Some((0, Ok(0)))))
    });
    let at = value(handle.expect("there is room")).expect("the first item comes");
    assert!(at < 100, "it came after {at} others");
}

pub(crate) fn G3_a_window_of_any_size(cx: &Ctx) {
    let pool = open(cx);
    for window in [0, 1, usize::MAX / 2, usize::MAX - 1, usize::MAX] {
        assert_eq!(all(pool.map(0..50, |n: u32| n).window(window)).len(), 50);
        assert_eq!(pool.map(0..50, |n: u32| n).window(window).as_completed().count(), 50);
    }
}

/// A full queue that the pool finds by itself is nobody's refusal, and a participant of a slice
/// that found nothing left to do was not cancelled.
pub(crate) fn A1_what_nobody_asked_for_is_not_counted(cx: &Ctx) {
    let pool = cx.builder().queue(1).build().expect("the pool starts");
    let inner = pool.clone();
    let task = pool.submit(move || {
        let sum: u32 = inner.map(0..50, |n: u32| n).window(10).map(|n| n.expect("it runs")).sum();
        let items: Vec<u32> = (0..50).collect();
        for _ in 0..20 {
            assert_eq!(inner.map_slice(&items, |n| n + 1).expect("nothing panics").len(), 50);
        }
        sum
    });
    assert_eq!(value(task.expect("there is room")), 1225);
    let items: Vec<u32> = (0..50).collect();
    pool.map_slice(&items, |n| n + 1).expect("nothing panics");
    pool.wait_idle().expect("outside the pool");
    let now = pool.snapshot();
    now.check().expect("no task was lost");
    assert_eq!((now.refused.total(), now.cancelled), (0, 0), "{now}");
    assert_eq!((now.accepted, now.items), (now.completed, 50 * 21));
}

/// While the reader waits for room, what it was to give next becomes ready.
pub(crate) fn G3_a_result_ends_the_wait_for_room(cx: &Ctx) {
    for as_completed in [false, true] {
        let pool = cx.builder().workers(1).queue(1).callers_may_help(false).build();
        let pool = pool.expect("the pool starts");
        let (first, strangers) = (Gate::new(), Gate::new());
        let (zero, other) = (first.passage(), pool.clone());
        let f = move |n: u32| {
            if n == 0 {
                zero.enter();
            }
            n
        };
        // When item 1 is pulled, item 0 runs, and a stranger has the only place.
        let passage = strangers.passage();
        let mut stranger = Some(move || passage.enter());
        let watched = pool.clone();
        let items = (0..10u32).inspect(move |n| {
            if *n == 1 {
                eventually("item 0 runs", || watched.snapshot().running == 1);
                other.spawn(stranger.take().expect("once")).expect("there is one place");
            }
        });
        let map = pool.map(items, f).window(4);
        let reader = in_background(move || {
            if as_completed {
                map.as_completed().next().expect("there is one").1.expect("it runs")
            } else {
                let mut map = map;
                map.next().expect("there is one").expect("it runs")
            }
        });
        eventually("the reader waits for room", || pool.snapshot().waiting_submitters == 1);
        // Somebody takes the place that comes free, and the stranger keeps the worker.
        let filler = pool.clone();
        let filler = in_background(move || filler.spawn(|| ()).expect("it waits"));
        first.open();
        strangers.wait_until_entered(1);
        eventually("the queue is full", || pool.snapshot().queued == 1 || filler.is_finished());
        assert_eq!(reader.join(), 0, "the worker is a stranger's, and the result is there");
        strangers.open();
        filler.join();
        idle(&pool);
        let now = pool.snapshot();
        assert_eq!(now.refused.total(), 0, "{now}");
    }
}
