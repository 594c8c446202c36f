//! The conformance suite on tidegate and on peers.
//!
//! ```text
//! matrix list                      "kind NAME" and "test NAME" lines
//! matrix KIND FROM_TEST SECONDS    "TEST passed|failed|skipped WHY" lines
//! ```
//!
//! A process is about one kind. A test that hangs ends it (exit code 101)
//! before its line is printed; `bench/compare --matrix` goes on behind it.

mod crossbeam_pool;
mod peer_pool;
mod peers;
mod semaphore_pool;

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tidegate_conformance::runner::{self, Verdict};
use tidegate_conformance::{Kind, all_tests, kinds, kit};

/// Tidegate twice, on threads and on tokio, and whoever can be asked the same.
fn all_kinds() -> Vec<Arc<dyn Kind>> {
    let ours = ["tidegate-2w", "tokio-2w"];
    let ours = ours.map(|name| kinds::named(name).expect("the suite has kinds of these names"));
    let mut all = Vec::from(ours);
    all.push(Arc::new(crossbeam_pool::CrossbeamKind));
    all.extend(peers::all());
    all.push(Arc::new(semaphore_pool::SemaphoreKind));
    all
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["list"] => list(),
        // A few tests start this program again to see how a process ends.
        ["--child", name] if runner::play_child(name) => ExitCode::SUCCESS,
        [kind, from, seconds] => run(kind, from, seconds),
        _ => usage("expected KIND FROM_TEST SECONDS, or list"),
    }
}

fn list() -> ExitCode {
    for kind in all_kinds() {
        println!("kind {}", kind.name());
    }
    for test in all_tests() {
        println!("test {}", test.name);
    }
    ExitCode::SUCCESS
}

fn run(kind: &str, from: &str, seconds: &str) -> ExitCode {
    let Some(kind) = all_kinds().into_iter().find(|known| known.name() == kind) else {
        return usage(&format!("no kind {kind:?}"));
    };
    let Ok(limit) = seconds.parse().map(Duration::from_secs) else {
        return usage(&format!("{seconds:?} is not a number of seconds"));
    };
    if let Ok(path) = std::env::current_exe() {
        kit::set_child_program(path);
    }
    for test in all_tests().iter().skip_while(|test| test.name != from) {
        let (outcome, why) = match runner::run_one(&kind, test, limit) {
            Verdict::Passed(_) => ("passed", String::new()),
            Verdict::Failed(why) => ("failed", why),
            Verdict::Skipped(why) => ("skipped", why),
        };
        println!("{} {outcome} {}", test.name, why.replace('\n', " "));
        let _ = std::io::stdout().flush();
    }
    // At once: a peer may have left threads that wait for ever.
    std::process::exit(0)
}

fn usage(problem: &str) -> ExitCode {
    eprintln!("matrix: {problem}");
    ExitCode::from(2)
}
