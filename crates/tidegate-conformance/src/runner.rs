//! Runs tests on kinds, one at a time, each under a watchdog.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError, RwLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::ctx::{Ctx, Skip};
use crate::kit::{install_quiet_hook, take_last_panic};
use crate::port::{Kind, Need};
use crate::suite::{TestInfo, all_tests};
use crate::watchdog;

/// Tests that need the process to themselves run a million tasks: on a busy
/// machine that takes its time without hanging.
const ALONE_TAKES_LONGER: u32 = 5;

/// Which tests to run, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Only tests whose name contains this.
    pub filter: String,
    /// Only the kind of this name.
    pub kind: Option<String>,
    /// Each test this many times in a row.
    pub repeat: u32,
    /// A test that takes longer hangs.
    pub limit: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options { filter: String::new(), kind: None, repeat: 1, limit: Duration::from_secs(60) }
    }
}

/// How one run of one test ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// After this long.
    Passed(Duration),
    /// With what it said.
    Failed(String),
    /// It can't run here: why.
    Skipped(String),
}

/// The sum of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Tally {
    pub passed: u32,
    pub failed: u32,
    pub skipped: u32,
}

/// Runs what `options` pick and prints a line for each; the tally comes last.
pub fn run_all(kinds: &[Arc<dyn Kind>], options: &Options) -> Tally {
    let mut tally = Tally::default();
    for kind in kinds.iter().filter(|kind| options.picks_kind(kind.name())) {
        for test in all_tests().iter().filter(|test| test.name.contains(&options.filter)) {
            tally.add(&run_repeated(kind, test, options));
        }
    }
    println!("{} skipped, each with its reason", tally.skipped);
    println!("{} passed, {} failed", tally.passed, tally.failed);
    tally
}

fn run_repeated(kind: &Arc<dyn Kind>, test: &'static TestInfo, options: &Options) -> Verdict {
    print!("{}  {} ... ", kind.name(), test.name);
    let _ = std::io::stdout().flush();
    let mut took = Duration::ZERO;
    let mut verdict = Verdict::Passed(took);
    for _ in 0..options.repeat.max(1) {
        verdict = run_one(kind, test, options.limit);
        match &verdict {
            Verdict::Passed(time) => took += *time,
            _ => break,
        }
    }
    match &verdict {
        Verdict::Passed(_) => println!("ok ({} ms)", took.as_millis()),
        Verdict::Failed(why) => println!("FAILED: {}", why.replace('\n', " ")),
        Verdict::Skipped(why) => println!("skipped: {why}"),
    }
    verdict
}

/// Runs one test on a thread of its own; ends the process if it takes longer than `limit`.
pub fn run_one(kind: &Arc<dyn Kind>, test: &'static TestInfo, limit: Duration) -> Verdict {
    if let Some(reason) = why_skip(&**kind, test) {
        return Verdict::Skipped(reason);
    }
    install_quiet_hook();
    let alone = test.needs.contains(&Need::Alone);
    let _turn = Turn::take(alone);
    let (tell, end) = mpsc::channel();
    let cx = Ctx::new(Arc::clone(kind));
    let run = test.run;
    let started = Instant::now();
    let body = thread::Builder::new().name("test".to_owned()).spawn(move || {
        let result = catch_unwind(AssertUnwindSafe(|| run(&cx)));
        let _ = tell.send(result.map_err(|payload| {
            payload
                .downcast::<Skip>()
                .map_err(|_| take_last_panic().unwrap_or_else(|| "panicked".to_owned()))
        }));
    });
    let body = body.expect("the system gives the runner a thread");
    let limit = limit * if alone { ALONE_TAKES_LONGER } else { 1 };
    let Ok(result) = end.recv_timeout(limit) else {
        watchdog::bite(kind.name(), test.name, limit);
    };
    body.join().expect("the thread of the test has caught its panic");
    match result {
        Ok(()) => Verdict::Passed(started.elapsed()),
        Err(Ok(skip)) => Verdict::Skipped(skip.0),
        Err(Err(why)) => Verdict::Failed(why),
    }
}

/// For `#[test]` functions: panics on failure, prints a skip.
pub fn check(kind: &Arc<dyn Kind>, name: &str) {
    let test = all_tests().iter().find(|test| test.name == name).expect("a test of the suite");
    match run_one(kind, test, Options::default().limit) {
        Verdict::Passed(_) => {}
        Verdict::Skipped(why) => println!("skipped: {why}"),
        Verdict::Failed(why) => panic!("{}  {name}: {why}", kind.name()),
    }
}

/// Plays a child of the tests about the end of a process; false if there is no such child.
pub fn play_child(name: &str) -> bool {
    crate::tests::hazards_panics::play_child(name)
}

fn why_skip(kind: &dyn Kind, test: &TestInfo) -> Option<String> {
    if let Some(reason) = kind.leaves_out(test) {
        return Some(reason.to_owned());
    }
    let missing = test.needs.iter().find(|need| **need != Need::Alone && !kind.offers(**need));
    missing.map(|need| format!("needs {need}"))
}

/// Tests share the process, except one that needs it to itself.
enum Turn {
    Shared { _held: std::sync::RwLockReadGuard<'static, ()> },
    Alone { _held: std::sync::RwLockWriteGuard<'static, ()> },
}

impl Turn {
    fn take(alone: bool) -> Turn {
        static PROCESS: RwLock<()> = RwLock::new(());
        if alone {
            return Turn::Alone { _held: PROCESS.write().unwrap_or_else(PoisonError::into_inner) };
        }
        Turn::Shared { _held: PROCESS.read().unwrap_or_else(PoisonError::into_inner) }
    }
}

impl Options {
    fn picks_kind(&self, name: &str) -> bool {
        self.kind.as_deref().is_none_or(|wanted| wanted == name)
    }
}

impl Tally {
    fn add(&mut self, verdict: &Verdict) {
        match verdict {
            Verdict::Passed(_) => self.passed += 1,
            Verdict::Failed(_) => self.failed += 1,
            Verdict::Skipped(_) => self.skipped += 1,
        }
    }
}
