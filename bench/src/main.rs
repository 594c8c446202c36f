//! One run of one workload by one contender.
//!
//! ```text
//! tidegate-bench WORKLOAD CONTENDER    one figure per line: "name value"
//! tidegate-bench list                  "workload NAME" and "contender NAME" lines
//! ```
//!
//! A process measures one thing only, so that no pool inherits the threads,
//! the heap or the sinks of another. `bench/compare` starts these processes,
//! mixes their order and compares what they print.
//!
//! Exit codes: 0 figures printed, 2 wrong arguments, 101 (a panic) wrong
//! answer or broken contender.

mod body;
mod contenders;
mod counting;
mod figures;
mod sink;
mod workloads;

use std::process::ExitCode;

use workloads::Workload;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["list"] => {
            list();
            ExitCode::SUCCESS
        }
        [workload, contender] => measure(workload, contender),
        _ => usage("expected WORKLOAD CONTENDER, or list"),
    }
}

fn list() {
    for (name, _) in workloads::ALL {
        println!("workload {name}");
    }
    for name in contenders::NAMES {
        println!("contender {name}");
    }
}

fn measure(workload: &str, contender: &str) -> ExitCode {
    let Some(chosen) = Workload::named(workload) else {
        return usage(&format!("no workload {workload:?}"));
    };
    // Workloads check their answers before they return, so a wrong answer
    // never has a figure beside it.
    let Some(figures) = contenders::run(contender, chosen) else {
        return usage(&format!("no contender {contender:?}"));
    };
    for figure in figures {
        println!("{figure}");
    }
    ExitCode::SUCCESS
}

fn usage(problem: &str) -> ExitCode {
    eprintln!("tidegate-bench: {problem}");
    ExitCode::from(2)
}
