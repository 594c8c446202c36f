//! `cargo run --release -p tidegate-conformance`: the suite on every kind.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Duration;

use tidegate_conformance::runner::{self, Options, run_all};
use tidegate_conformance::{all_tests, kinds, kit};

const USAGE: &str = "\
usage: tidegate-conformance [--list] [--filter SUBSTR] [--kind NAME] [--repeat N] [--limit SECONDS]
  --list     print the tests (name, clause, needs) and the kinds, run nothing
  --filter   only tests whose name contains SUBSTR
  --kind     only the pool kind NAME
  --repeat   run each test N times in a row
  --limit    seconds after which a test counts as hanging (60)";

enum Errand {
    Run(Options),
    List,
    Child(String),
}

fn main() -> ExitCode {
    match parse(std::env::args().skip(1)) {
        Ok(Errand::Run(options)) => run(&options),
        Ok(Errand::List) => list(),
        Ok(Errand::Child(name)) => child(&name),
        Err(problem) => {
            eprintln!("{problem}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> ExitCode {
    if let Ok(path) = std::env::current_exe() {
        kit::set_child_program(path);
    }
    let tally = run_all(&kinds::all(), options);
    if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A few tests start this program again to see how a process ends.
fn child(name: &str) -> ExitCode {
    if runner::play_child(name) { ExitCode::SUCCESS } else { ExitCode::from(2) }
}

fn list() -> ExitCode {
    for test in all_tests() {
        let needs: Vec<String> = test.needs.iter().map(ToString::to_string).collect();
        println!("{}  [{}]  needs: {}", test.name, test.clause, needs.join(", "));
    }
    for kind in kinds::all() {
        println!("kind {}", kind.name());
    }
    ExitCode::SUCCESS
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Errand, String> {
    let mut options = Options::default();
    while let Some(flag) = args.next() {
        let mut word = || args.next().ok_or(format!("{flag} needs a value"));
        match flag.as_str() {
            "--list" => return Ok(Errand::List),
            "--child" => return Ok(Errand::Child(word()?)),
            "--filter" => options.filter = word()?,
            "--kind" => options.kind = Some(known_kind(word()?)?),
            "--repeat" => options.repeat = number(&flag, &word()?)?,
            "--limit" => options.limit = Duration::from_secs(number(&flag, &word()?)?.into()),
            _ => return Err(format!("unknown argument: {flag}")),
        }
    }
    Ok(Errand::Run(options))
}

fn known_kind(name: String) -> Result<String, String> {
    let known = kinds::named(&name).is_some();
    known.then_some(name.clone()).ok_or(format!("no kind is called {name}; --list names them"))
}

fn number(flag: &str, text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|n| *n > 0);
    number.ok_or(format!("{flag}: {text} is not a number above 0"))
}
