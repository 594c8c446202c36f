//! The unit, integration and race cases of the worker-pool contracts. Portable
//! but for two that need a token.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, mpsc};

use tidegate::{Reason, Token};

use crate::kit::{
    Gate, deliberate_panic, eventually, give_a_bug_its_chance, in_background, job, occupy_port,
    refusal, taken, until_stopped, why_refused, workers_of,
};
use crate::{Ctx, Ending, How};

pub(crate) fn C_unit_pool_creates_the_specified_number_of_workers(cx: &Ctx) {
    let pool = cx.open_with(cx.wish().queue(1));
    let busy = occupy_port(&*pool, cx.workers());
    let ran = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&ran);
    pool.spawn(Box::new(move || seen.store(true, SeqCst))).expect("there is one place");
    give_a_bug_its_chance();
    assert!(!ran.load(SeqCst), "there are more workers than asked for");
    busy.open();
    pool.shutdown(How::Light);
    assert!(ran.load(SeqCst), "the queued task was lost");
}

pub(crate) fn C_unit_no_workers_is_an_error(cx: &Ctx) {
    let answer = cx.try_open(cx.wish().workers(0));
    assert!(answer.is_err(), "a pool without workers would never run anything");
}

pub(crate) fn C_unit_submit_blocks_when_the_queue_is_full(cx: &Ctx) {
    let pool = cx.open_with(cx.wish().queue(1));
    let busy = occupy_port(&*pool, cx.workers());
    let queued = taken(pool.submit(job(|| 1)));
    let (calling, called) = mpsc::channel();
    let blocked = {
        let pool = Arc::clone(&pool);
        in_background(move || {
            calling.send(()).expect("the test listens");
            taken(pool.submit(job(|| 2)))
        })
    };
    called.recv().expect("the submitter starts");
    give_a_bug_its_chance();
    assert!(!blocked.is_finished(), "submit returned although the queue was full");
    busy.open();
    assert_eq!(blocked.join().wait(), Ending::Value(2));
    assert_eq!(queued.wait(), Ending::Value(1));
    pool.shutdown(How::Light);
}

pub(crate) fn C_unit_submit_returns_an_error_when_cancelled(cx: &Ctx) {
    let pool = cx.builder().build().expect("the pool starts");
    let token = Token::new();
    token.cancel();
    let offer = pool.task("late").cancel_with(&token).submit(|_| ());
    assert_eq!(refusal(offer), Reason::Cancelled, "also when there is room");
}

pub(crate) fn C_unit_submit_returns_an_error_when_closed(cx: &Ctx) {
    let pool = cx.open();
    pool.close();
    assert_eq!(why_refused(pool.submit(job(|| 0))), Reason::Closed);
    assert_eq!(why_refused(pool.try_submit(job(|| 0))), Reason::Closed);
    assert_eq!(pool.spawn(Box::new(|| ())), Err(Reason::Closed));
    pool.shutdown(How::Light);
}

pub(crate) fn C_unit_submit_returns_an_error_when_stopped(cx: &Ctx) {
    let pool = cx.open();
    pool.shutdown(How::Light);
    assert_eq!(why_refused(pool.submit(job(|| 0))), Reason::Closed);
    assert_eq!(pool.spawn(Box::new(|| ())), Err(Reason::Closed));
}

pub(crate) fn C_unit_stop_cancels_and_closes_the_queue(cx: &Ctx) {
    let pool = cx.open_with(cx.wish().queue(10));
    let gate = Gate::new();
    let running: Vec<_> =
        (0..cx.workers()).map(|_| taken(pool.submit(until_stopped(gate.passage())))).collect();
    gate.wait_until_entered(cx.workers());
    let queued: Vec<_> = (0..10).map(|n| taken(pool.submit(job(move || n)))).collect();
    pool.shutdown(How::Hard);
    for handle in running.into_iter().chain(queued) {
        assert_eq!(handle.wait(), Ending::Cancelled);
    }
    assert_eq!(why_refused(pool.submit(job(|| 0))), Reason::Closed);
}

pub(crate) fn C_unit_wait_returns_all_errors(cx: &Ctx) {
    let pool = cx.open();
    let offer = |n: u64| {
        taken(pool.submit(Box::new(move |_| {
            if n.is_multiple_of(3) { Err(format!("item {n}")) } else { Ok(n) }
        })))
    };
    let handles: Vec<_> = (0..30).map(offer).collect();
    pool.shutdown(How::Light);
    for (n, handle) in handles.into_iter().enumerate() {
        let expected =
            if n % 3 == 0 { Ending::Failed(format!("item {n}")) } else { Ending::Value(n as u64) };
        assert_eq!(handle.wait(), expected, "an error was lost or given to another item");
    }
}

pub(crate) fn C_unit_worker_recovers_from_panic(cx: &Ctx) {
    let wish = cx.wish();
    let name = wish.name.clone();
    let pool = cx.open_with(wish);
    occupy_port(&*pool, cx.workers()).open();
    let before = workers_of(&name);
    for _ in 0..20 {
        let handle = taken(pool.submit(Box::new(|_| deliberate_panic("recovered"))));
        assert!(matches!(handle.wait(), Ending::Panicked(_)));
    }
    assert_eq!(workers_of(&name), before, "a panic cost a thread");
    pool.shutdown(How::Light);
}

pub(crate) fn C_unit_metrics_counters_are_updated(cx: &Ctx) {
    let pool = cx.open_with(cx.wish().queue(3));
    let busy = occupy_port(&*pool, cx.workers());
    let queued: Vec<_> = (0..3).map(|n| taken(pool.submit(job(move || n)))).collect();
    assert_eq!(why_refused(pool.try_submit(job(|| 0))), Reason::Full);
    let now = pool.counts().expect("the kind counts");
    assert_eq!(now.running, cx.workers() as u64, "every worker is busy");
    assert_eq!(now.queued, 3, "three tasks wait");
    busy.open();
    queued.into_iter().for_each(|handle| drop(handle.wait()));
    drop(taken(pool.submit(Box::new(|_| Err("counted".to_owned())))).wait());
    drop(taken(pool.submit(Box::new(|_| deliberate_panic("counted")))).wait());
    pool.shutdown(How::Light);
    let end = pool.counts().expect("the kind counts");
    assert_eq!(end.completed, cx.workers() as u64 + 3, "the blockers and the queued");
    assert_eq!((end.failed, end.panicked, end.refused), (1, 1, 1));
    assert_eq!((end.queued, end.running), (0, 0), "a gauge stuck");
    assert_eq!(end.accepted, end.settled(), "a task was lost or counted twice");
}

pub(crate) fn C_integration_1000_items_all_complete(cx: &Ctx) {
    let pool = cx.open();
    let handles: Vec<_> = (0..1_000).map(|n| taken(pool.submit(job(move || n * n)))).collect();
    for (n, handle) in handles.into_iter().enumerate() {
        assert_eq!(handle.wait(), Ending::Value((n * n) as u64));
    }
    pool.shutdown(How::Light);
}

pub(crate) fn C_integration_errors_do_not_stop_the_pool(cx: &Ctx) {
    let pool = cx.open();
    let handles: Vec<_> =
        (0..200)
            .map(|n| {
                taken(pool.submit(Box::new(
                    move |_| if n < 100 { Err("denied".to_owned()) } else { Ok(n) },
                )))
            })
            .collect();
    let values = handles.into_iter().map(|h| h.wait()).filter(|e| matches!(e, Ending::Value(_)));
    assert_eq!(values.count(), 100, "items after a hundred errors were not processed");
    pool.shutdown(How::Light);
}

pub(crate) fn C_integration_cancel_during_processing_ends_in_time(cx: &Ctx) {
    // Five seconds are promised; the watchdog is the hang detector, and the
    // exact bound is tested with a clock of our own in `S1_row_hard`.
    let pool = cx.open();
    let gate = Gate::new();
    let running: Vec<_> =
        (0..cx.workers()).map(|_| taken(pool.submit(until_stopped(gate.passage())))).collect();
    gate.wait_until_entered(cx.workers());
    pool.shutdown(How::Hard);
    for handle in running {
        assert!(handle.is_settled(), "shutdown returned before a task had ended");
        assert_eq!(handle.wait(), Ending::Cancelled);
    }
}

pub(crate) fn C_integration_submit_from_many_threads(cx: &Ctx) {
    let pool = cx.open();
    let sum = Arc::new(AtomicU64::new(0));
    let producers: Vec<_> = (0..16_u64)
        .map(|_| {
            let (pool, sum) = (Arc::clone(&pool), Arc::clone(&sum));
            in_background(move || {
                for n in 1..=200 {
                    let sum = Arc::clone(&sum);
                    let work = move || {
                        sum.fetch_add(n, SeqCst);
                    };
                    pool.spawn(Box::new(work)).expect("an open pool accepts");
                }
            })
        })
        .collect();
    producers.into_iter().for_each(|producer| producer.join());
    pool.shutdown(How::Light);
    assert_eq!(sum.load(SeqCst), 16 * 200 * 201 / 2, "an item was lost or ran twice");
}

pub(crate) fn C_integration_panic_on_one_item_others_continue(cx: &Ctx) {
    let pool = cx.open();
    let offer =
        |n: u64| taken(pool.submit(job(move || if n == 17 { deliberate_panic("17") } else { n })));
    let handles: Vec<_> = (0..100).map(offer).collect();
    for (n, handle) in handles.into_iter().enumerate() {
        match handle.wait() {
            Ending::Panicked(_) => assert_eq!(n, 17, "another item got the panic"),
            ending => assert_eq!(ending, Ending::Value(n as u64)),
        }
    }
    pool.shutdown(How::Light);
}

/// Every folder is visited, and none before its parent.
pub(crate) fn C_integration_breadth_first_traversal(cx: &Ctx) {
    const FOLDERS: u64 = 364; // three children each, five levels below the root
    let pool = cx.open();
    let (found, results) = mpsc::channel();
    let visit = |folder: u64| {
        let found = found.clone();
        taken(pool.submit(job(move || {
            let children: Vec<u64> =
                (1..=3).map(|c| folder * 3 + c).filter(|c| *c < FOLDERS).collect();
            found.send((folder, children)).expect("the consumer listens");
            folder
        })))
    };
    let mut handles = vec![visit(0)];
    let mut visited = HashMap::new();
    while visited.len() < FOLDERS as usize {
        let (folder, children) = results.recv_timeout(crate::kit::HANG).expect("a folder was lost");
        let parent_seen = folder == 0 || visited.contains_key(&((folder - 1) / 3));
        assert!(parent_seen, "folder {folder} came before its parent");
        assert!(visited.insert(folder, ()).is_none(), "folder {folder} came twice");
        handles.extend(children.into_iter().map(visit));
    }
    pool.shutdown(How::Light);
    assert_eq!(handles.len() as u64, FOLDERS);
}

pub(crate) fn C_race_concurrent_submit(cx: &Ctx) {
    let pool = cx.open();
    let start = Gate::new();
    let producers: Vec<_> = (0..8_u64)
        .map(|producer| {
            let (pool, start) = (Arc::clone(&pool), start.passage());
            in_background(move || {
                start.enter();
                (0..300).all(|n| {
                    taken(pool.submit(job(move || producer + n))).wait()
                        == Ending::Value(producer + n)
                })
            })
        })
        .collect();
    start.wait_until_entered(8);
    start.open();
    for producer in producers {
        assert!(producer.join(), "a producer got another one's result");
    }
    pool.shutdown(How::Light);
}

pub(crate) fn C_race_concurrent_metrics_reads(cx: &Ctx) {
    let pool = cx.open();
    let done = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let (pool, done) = (Arc::clone(&pool), Arc::clone(&done));
            in_background(move || {
                while !done.load(SeqCst) {
                    let now = pool.counts().expect("the kind counts");
                    assert!(now.settled() <= now.accepted, "more ended than began: {now:?}");
                }
            })
        })
        .collect();
    for n in 0..1_000 {
        drop(taken(pool.submit(job(move || n))));
    }
    eventually("everything settles", || pool.counts().is_some_and(|now| now.settled() == 1_000));
    done.store(true, SeqCst);
    readers.into_iter().for_each(|reader| reader.join());
    pool.shutdown(How::Light);
}

pub(crate) fn C_race_cancel_during_submit(cx: &Ctx) {
    for _ in 0..50 {
        let pool = cx.builder().queue(2).build().expect("the pool starts");
        let token = Token::new();
        let submitter = {
            let (pool, token) = (pool.clone(), token.clone());
            in_background(move || {
                loop {
                    match pool.task("raced").cancel_with(&token).submit(|_| ()) {
                        Ok(handle) => drop(handle.wait()),
                        Err(refused) => return refused.reason(),
                    }
                }
            })
        };
        token.cancel();
        assert_eq!(
            submitter.join(),
            Reason::Cancelled,
            "a cancelled token was let in, or called something else"
        );
        pool.shutdown(tidegate::Shutdown::light()).expect("outside the pool");
        pool.snapshot().check().expect("no task was lost");
    }
}
