//! What is promised for Ctrl-C, exactly: by a clock that is turned by hand. In real time, as a hang
//! detector: `a_read_that_is_never_answered_does_not_hold_up_the_end_that_is_asked_for`.

mod support;

use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use dupes::cli::{self, Command};
use dupes::find::{Live, Run};
use dupes::folders::{FileId, Folder};
use dupes::memory::{Known, Learned, Memory};
use dupes::split::Splitter;
use dupes::stop::PROMISED;
use dupes::walk::Sink;
use support::{LIMIT, in_time};
use tidegate::{Clock, Pool, PoolState};

/// Whoever asks it something waits until the test is over.
struct Stuck {
    entered: mpsc::Sender<()>,
    gate: Mutex<mpsc::Receiver<()>>,
}

impl Sink for Stuck {
    fn files(&self, _: &[Arc<Folder>]) {}
}

impl Memory for Stuck {
    fn reads(&self) -> bool {
        true
    }

    fn recall(&self, _: &Arc<Folder>) -> Vec<Known> {
        self.entered.send(()).unwrap();
        let _ = self.gate.lock().unwrap().recv();
        Vec::new()
    }

    fn is_elsewhere(&self, _: u64) -> bool {
        false
    }

    fn another_name(&self, _: FileId, _: FileId) {}

    fn expect(&self, _: &mut dyn Iterator<Item = FileId>) {}

    fn handed_over(&self, _: &Folder) {}

    fn learned(&self, _: Vec<(FileId, Learned)>) {}

    fn learned_more(&self, _: FileId, _: Learned) {}
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < LIMIT, "{what}");
        thread::yield_now();
    }
}

fn is_closing(pool: &Pool) -> bool {
    !matches!(pool.snapshot().state, PoolState::Running)
}

/// What the pools may take of it; the rest is for those who show and serve (see the unit test
/// `all_waits_of_an_interrupted_run_are_within_what_is_promised`).
const SHARE: Duration = Duration::from_millis(3_020);
/// Of that, to notice.
const LOOK: Duration = Duration::from_millis(20);

#[test]
fn a_worker_that_hears_nothing_is_left_behind_within_what_is_promised() {
    assert!(SHARE < PROMISED);
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a"), "x").unwrap();
    let args = ["dupes", "find", "--progress", "never"].map(Into::into).into_iter();
    let command = cli::parse(args.chain([dir.path().into()]), &mut std::io::empty());
    let Ok(Command::Find(options)) = command else { panic!("it is a good command line") };
    let (clock, hand) = Clock::manual();
    let live = Live { clock: Some(clock), ..Live::default() };
    let (entered, enters) = mpsc::channel();
    let (_open, gate) = mpsc::channel();
    let memory = Arc::new(Stuck { entered, gate: Mutex::new(gate) });
    let run = Run::new(*options, Splitter::default(), live.clone(), Some(memory)).unwrap();
    let pools = run.pools()();
    let ending = thread::spawn(move || run.read_all());
    enters.recv_timeout(LIMIT).expect("nobody looks into the folder");
    until("nobody waits for the walk", || hand.sleepers() > 0);

    live.stop.ask();
    hand.advance(LOOK);
    until("it does not notice", || pools.iter().all(is_closing));
    until("nobody waits for the stuck one", || hand.sleepers() > 0);
    hand.advance(SHARE - LOOK - Duration::from_nanos(1));
    assert!(!ending.is_finished(), "it has no grace");
    hand.advance(Duration::from_nanos(1));
    let complete = in_time("it waits beyond its grace", move || ending.join().unwrap());
    assert!(!complete, "it was to stop");
    assert_eq!(pools[0].snapshot().abandoned, 1, "{:?}", pools[0].snapshot());
}
