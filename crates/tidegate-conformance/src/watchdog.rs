//! When a test hangs: say which, show where every thread stands, and end.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{fs, io};

/// Prints what can be found out about the hanging test and ends the process.
pub(crate) fn bite(kind: &str, test: &str, limit: Duration) -> ! {
    // Not eprintln: under `cargo test` that would be captured and lost.
    let mut err = io::stderr().lock();
    let _ = writeln!(err, "\n{kind}  {test} ... HANGS (watchdog after {} s)", limit.as_secs());
    let _ = writeln!(err, "{}", stacks().unwrap_or_else(names));
    let _ = writeln!(err, "aborted: {kind}  {test} did not end");
    let _ = err.flush();
    std::process::exit(101)
}

fn stacks() -> Option<String> {
    let gdb = Command::new("timeout")
        .args([
            "-s",
            "KILL",
            "30",
            "gdb",
            "-batch",
            "-ex",
            "set pagination off",
            "-ex",
            "thread apply all bt 16",
        ])
        .args(["-p", &std::process::id().to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&gdb.stdout).into_owned();
    text.contains("#0").then_some(text)
}

fn names() -> String {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else {
        return "no gdb and no /proc: nothing to show".to_owned();
    };
    let describe = |task: fs::DirEntry| {
        let read = |file: &str| fs::read_to_string(task.path().join(file)).unwrap_or_default();
        format!(
            "thread {:?}: {} in {}",
            task.file_name(),
            read("comm").trim(),
            read("wchan").trim()
        )
    };
    let lines: Vec<String> = tasks.flatten().map(describe).collect();
    format!("no gdb; threads by name:\n{}", lines.join("\n"))
}
