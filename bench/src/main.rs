//! One run of one workload by one contender.
//!
//! ```text
//! tidegate-bench WORKLOAD CONTENDER    one figure per line: "name value"
//! tidegate-bench list                  "workload NAME" and "contender NAME ROLE" lines
//! ```
//!
//! A process measures one thing only, so that no pool inherits the threads,
//! the heap or the sinks of another. `bench/compare` starts these processes,
//! mixes their order and compares what they print.
//!
//! Exit codes: 0 figures printed, 2 wrong arguments, 3 the contender does not
//! offer what the workload asks for, 101 (a panic) wrong answer or broken
//! contender.

mod body;
mod contenders;
mod counting;
mod figures;
mod process;
mod sink;
mod workloads;

use std::process::ExitCode;

use figures::Figure;
use workloads::Workload;

const DECLINED: u8 = 3;

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
    for (name, role, _) in contenders::ALL {
        println!("contender {name} {role}");
    }
}

fn measure(workload: &str, contender: &str) -> ExitCode {
    let Some(chosen) = Workload::named(workload) else {
        return usage(&format!("no workload {workload:?}"));
    };
    let Some(run) = contenders::named(contender) else {
        return usage(&format!("no contender {contender:?}"));
    };
    // Workloads check their answers before they return, so a wrong answer
    // never has a figure beside it.
    let Some(mut figures) = run(chosen) else {
        return ExitCode::from(DECLINED);
    };
    figures.extend(process::peak_resident_kb().map(|peak| Figure::new("rss_kb", peak)));
    for figure in figures {
        println!("{figure}");
    }
    ExitCode::SUCCESS
}

fn usage(problem: &str) -> ExitCode {
    eprintln!("tidegate-bench: {problem}");
    ExitCode::from(2)
}
