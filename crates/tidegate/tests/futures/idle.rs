//! An idle pool of futures sleeps: no system calls, on no thread.
//!
//! The test runs itself under strace, and looks at what was called between two marks.
//! `TIDEGATE_IDLE_SECONDS=10` makes it look for longer.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use tidegate::AsyncPool;

const CHILD: &str = "TIDEGATE_IDLE_CHILD";
const BEGIN: &str = "idle-begins";
const END: &str = "idle-ends";
/// The marks themselves, the reads in between, and a runtime that goes to sleep late.
const A_FEW: usize = 10;

/// The part under strace: nothing unless it is asked for.
#[test]
fn the_idle_child() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .unwrap();
    let pool = AsyncPool::builder("idle").workers(100).build_async_on(runtime.handle()).unwrap();
    runtime.block_on(async {
        for n in 0..200 {
            let task = pool.task("warm").timeout(Duration::from_millis(50));
            assert_eq!(task.submit(move |_| async move { n }).await.unwrap().await.unwrap(), n);
        }
        pool.wait_idle().await.unwrap();
    });
    let mut byte = [0];
    let (mut input, mut output) = (std::io::stdin(), std::io::stderr());
    input.read_exact(&mut byte).unwrap(); // it has had time to fall asleep
    output.write_all(BEGIN.as_bytes()).unwrap();
    input.read_exact(&mut byte).unwrap();
    output.write_all(END.as_bytes()).unwrap();
}

/// Until so much time has passed.
fn pause(time: Duration) {
    let (_keep, never) = mpsc::channel::<()>();
    assert!(never.recv_timeout(time).is_err());
}

#[test]
fn an_idle_pool_of_futures_makes_no_system_calls() {
    if Command::new("strace").arg("-V").output().is_err() {
        println!("skipped: strace is not installed");
        return;
    }
    let seconds = std::env::var("TIDEGATE_IDLE_SECONDS").ok();
    let seconds = seconds.and_then(|text| text.parse().ok()).unwrap_or(3);
    let log = std::env::temp_dir().join(format!("tidegate-idle-{}.strace", std::process::id()));
    let mut child = Command::new("strace")
        .args(["-f", "-o"])
        .arg(&log)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "idle::the_idle_child", "--nocapture"])
        .env(CHILD, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    pause(Duration::from_secs(2));
    input.write_all(b"b").unwrap();
    pause(Duration::from_secs(seconds));
    input.write_all(b"e").unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let calls = std::fs::read_to_string(&log).unwrap_or_default();
    let _ = std::fs::remove_file(&log);
    if said.contains("ptrace") {
        println!("skipped: strace may not trace here: {said}");
        return;
    }
    assert!(output.status.success(), "{said}");
    let between: Vec<&str> = calls
        .lines()
        .skip_while(|line| !line.contains(BEGIN))
        .skip(1)
        .take_while(|line| !line.contains(END))
        .collect();
    assert!(calls.contains(BEGIN) && calls.contains(END), "the marks are gone");
    println!("{} calls in {seconds} s", between.len());
    assert!(between.len() <= A_FEW, "{} calls:\n{}", between.len(), between.join("\n"));
}
