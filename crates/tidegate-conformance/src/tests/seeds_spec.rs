//! The conformance tests T1–T10 of the specification, by its names. Portable.

use std::io::{ErrorKind, Read};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use crate::kit::{
    Gate, Peak, assert_keeps_nothing, deliberate_panic, eventually, in_background, job,
    occupy_port, taken, threads_named, until_stopped, workers_of,
};
use crate::{Ctx, Ending, How, StopSignal, SuitePool, Work};

pub(crate) fn T1_drain_ordering(cx: &Ctx) {
    let pool = cx.open();
    let runs: Arc<Vec<AtomicU32>> = Arc::new((0..2_000).map(|_| AtomicU32::new(0)).collect());
    let offer = |n: usize| {
        let runs = Arc::clone(&runs);
        taken(pool.submit(job(move || {
            runs[n].fetch_add(1, SeqCst);
            n as u64
        })))
    };
    let handles: Vec<_> = (0..runs.len()).map(offer).collect();
    pool.shutdown(How::Light);
    for (n, handle) in handles.into_iter().enumerate() {
        assert_eq!(handle.wait(), Ending::Value(n as u64), "job {n} lost its result");
        assert_eq!(runs[n].load(SeqCst), 1, "job {n} did not run exactly once");
    }
}

pub(crate) fn T2_cancellation_stops_everything(cx: &Ctx) {
    let (jobs, finished) = (cx.workers() + 100, 5);
    let wish = cx.wish().queue(jobs);
    let threads = format!("{}-", wish.name);
    let pool = cx.open_with(wish);
    let gate = Gate::new();
    let handles: Vec<_> =
        (0..jobs).map(|_| taken(pool.submit(until_stopped(gate.passage())))).collect();
    gate.let_through(finished);
    eventually("the first jobs finish", || {
        handles.iter().filter(|h| h.is_settled()).count() >= finished
    });
    pool.shutdown(How::Hard);
    let endings: Vec<Ending> = handles.into_iter().map(|h| h.wait()).collect();
    let values = endings.iter().filter(|e| **e == Ending::Value(1)).count();
    let cancelled = endings.iter().filter(|e| **e == Ending::Cancelled).count();
    assert_eq!(values, finished, "only what was let through has a value");
    assert_eq!(cancelled, jobs - finished, "everything else is cancelled");
    eventually("the workers are gone", || threads_named(&threads).unwrap_or(0) == 0);
}

pub(crate) fn T3_no_panic_on_double_close(cx: &Ctx) {
    let pool = cx.open();
    let closers: Vec<_> = (0..8)
        .map(|_| {
            let pool = Arc::clone(&pool);
            in_background(move || pool.close())
        })
        .collect();
    closers.into_iter().for_each(|closer| closer.join());
    pool.close();
    pool.shutdown(How::Light);
    pool.shutdown(How::Light);
    pool.close();
}

pub(crate) fn T4_bounded_concurrency(cx: &Ctx) {
    let pool = cx.open();
    let peak = Peak::new();
    let rounds = 500.max(cx.workers() * 3);
    for _ in 0..rounds {
        let peak = Arc::clone(&peak);
        let work = move || peak.during(std::thread::yield_now);
        pool.spawn(Box::new(work)).expect("an open pool accepts");
    }
    // Not only an upper bound: all of them can be busy at once.
    let busy = occupy_port(&*pool, cx.workers());
    busy.open();
    pool.shutdown(How::Light);
    assert!(peak.most() <= cx.workers(), "{} ran at once on {} workers", peak.most(), cx.workers());
}

pub(crate) fn T5_panic_safety(cx: &Ctx) {
    let pool = cx.open();
    for n in 0..cx.workers() * 3 {
        let handle = taken(pool.submit(Box::new(|_| deliberate_panic("job"))));
        let Ending::Panicked(message) = handle.wait() else {
            panic!("panic {n} was not reported as one");
        };
        assert!(message.contains("job"), "the message of the panic was lost: {message}");
    }
    // Capacity is whole: every worker can still be busy at the same time.
    occupy_port(&*pool, cx.workers()).open();
    assert_eq!(taken(pool.submit(job(|| 7))).wait(), Ending::Value(7), "the pool goes on");
    pool.shutdown(How::Light);
}

pub(crate) fn T6_producer_error_path(cx: &Ctx) {
    let wish = cx.wish();
    let threads = format!("{}-", wish.name);
    let pool = cx.open_with(wish);
    let ran = Arc::new(AtomicU64::new(0));
    let accepted = produce_until_it_fails(pool, &ran);
    eventually("accepted work drains after the producer is gone", || ran.load(SeqCst) == accepted);
    eventually("the workers are gone", || threads_named(&threads).unwrap_or(0) == 0);
}

/// Returns early, and drops the only reference to the pool on the way out.
fn produce_until_it_fails(pool: Arc<dyn SuitePool>, ran: &Arc<AtomicU64>) -> u64 {
    for n in 0.. {
        if n == 137 {
            return n;
        }
        let ran = Arc::clone(ran);
        let work = move || {
            ran.fetch_add(1, SeqCst);
        };
        pool.spawn(Box::new(work)).expect("an open pool accepts");
    }
    unreachable!("the producer fails before")
}

pub(crate) fn T7_context_inside_process(cx: &Ctx) {
    let pool = cx.open();
    let server = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = server.local_addr().expect("a bound socket has an address");
    let request: Work = Box::new(move |task| {
        let mut answer = TcpStream::connect(address).map_err(|e| e.to_string())?;
        read_until_stopped(&mut answer, task)
    });
    let handle = taken(pool.submit(request));
    let (mut silent_peer, _) = server.accept().expect("the task connects");
    pool.shutdown(How::Hard);
    assert_eq!(handle.wait(), Ending::Cancelled, "the call returns early and says why");
    let hung_up = silent_peer.read(&mut [0; 1]).unwrap_or(0);
    assert_eq!(hung_up, 0, "the request was really given up");
}

/// A call to a server that never answers, which looks at the stop signal now and then.
fn read_until_stopped(answer: &mut TcpStream, task: &dyn StopSignal) -> Result<u64, String> {
    answer.set_read_timeout(Some(Duration::from_millis(1))).map_err(|e| e.to_string())?;
    while !task.stopping() {
        match answer.read(&mut [0; 16]) {
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(e) => return Err(e.to_string()),
            Ok(_) => return Ok(0),
        }
    }
    Err("told to stop".to_owned())
}

pub(crate) fn T8_result_for_every_job(cx: &Ctx) {
    let pool = cx.open();
    let producers: Vec<_> = (0..4_u64)
        .map(|producer| {
            let pool = Arc::clone(&pool);
            in_background(move || {
                let offer = |n| taken(pool.submit(job(move || producer * 1_000 + n)));
                let handles: Vec<_> = (0..500).map(offer).collect();
                handles.into_iter().map(|h| h.wait()).collect::<Vec<_>>()
            })
        })
        .collect();
    let mut values: Vec<u64> = producers
        .into_iter()
        .flat_map(|producer| producer.join())
        .map(|ending| match ending {
            Ending::Value(value) => value,
            other => panic!("a job without a result: {other:?}"),
        })
        .collect();
    values.sort_unstable();
    let expected: Vec<u64> = (0..4).flat_map(|p| (0..500).map(move |n| p * 1_000 + n)).collect();
    assert_eq!(values, expected, "a result was lost, doubled or changed");
    pool.shutdown(How::Light);
}

pub(crate) fn T9_first_error_stops_the_group(cx: &Ctx) {
    let pool = cx.open();
    let group = pool.group().expect("the kind offers groups");
    let gate = Gate::new();
    for _ in 1..cx.workers() {
        group.submit(until_stopped(gate.passage())).expect("an open pool accepts");
    }
    gate.wait_until_entered(cx.workers() - 1);
    group.submit(Box::new(|_| Err("first".to_owned()))).expect("an open pool accepts");
    assert_eq!(group.wait(), Err("first".to_owned()), "the group's error is its first");
    pool.shutdown(How::Light);
}

pub(crate) fn T10_memory_stability(cx: &Ctx) {
    const SLACK: u64 = 16 << 20;
    // A million hand-overs through a queue of 1 would measure the machine's load.
    let wish = cx.wish().queue(1_000);
    let name = wish.name.clone();
    let pool = cx.open_with(wish);
    occupy_port(&*pool, cx.workers()).open(); // then every thread has begun
    feed(&*pool, 100_000);
    let workers = workers_of(&name);
    assert_keeps_nothing("a million jobs", SLACK, || feed(&*pool, 1_000_000));
    assert_eq!(workers_of(&name), workers, "the number of threads has changed");
    pool.shutdown(How::Light);
}

/// Mostly fire and forget; every eighth gives a result, of which every eighth
/// is left uncollected.
fn feed(pool: &dyn SuitePool, tasks: u64) {
    let mut open = Vec::new();
    for n in 0..tasks {
        if n % 8 != 0 {
            pool.spawn(Box::new(|| ())).expect("an open pool accepts");
            continue;
        }
        let handle = taken(pool.submit(job(move || n)));
        if n % 64 != 0 {
            open.push((n, handle));
        }
        // In batches: on a busy machine a wait costs more than a hundred tasks.
        if open.len() == 70 || n + 8 >= tasks {
            for (n, handle) in open.drain(..) {
                assert_eq!(handle.wait(), Ending::Value(n), "a result was lost");
            }
        }
    }
}
