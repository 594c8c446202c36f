//! A scan while it runs: seen by `status`, shown, served, stopped and killed. By strace, which makes
//! every read take its time, so that the program needs no code for it.

mod support;

#[path = "support/scans.rs"]
mod scans;

#[path = "support/terminal.rs"]
mod screen;

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process};
use scans::{Bench, assert_as_good_as_fresh, number};
use screen::{has, terminal, watch};
use serde_json::Value;
use support::{LIMIT, can_inject, in_time, json, stderr};

/// Pairs of files: a scan reads all.
const FILES: usize = 600;

/// Before each read of a file; of the database, too.
const DELAY: &str = "inject=pread64:delay_enter=10ms";

/// Between two looks.
const A_MOMENT: Duration = Duration::from_millis(5);

/// What is to happen to the first signal, once strace has gone.
const WITHIN: Duration = Duration::from_secs(5);

fn bench() -> Bench {
    let bench = Bench::new();
    for n in 0..FILES {
        bench.write(&format!("{}/{n}", n % 20), format!("{:04}", n / 2));
    }
    bench
}

/// A slow scan. It is killed at the end, if it has not ended.
struct Slow(Child);

impl Slow {
    fn start(bench: &Bench, words: &[&str], stderr: impl Into<Stdio>) -> Slow {
        let mut command = Command::new("env");
        command.args(["--default-signal=INT", "strace", "-D", "-f", "-qq", "--seccomp-bpf"]);
        command.args(["-o", "/dev/null", "-e", "trace=pread64", "-e", DELAY]);
        command.args([env!("CARGO_BIN_EXE_dupes"), "--no-config", "scan", "--threads", "1"]);
        command.args(["--io-threads", "1"]).args(words).arg("--database").arg(bench.database());
        command.arg(bench.tree()).env("TERM", "xterm").stdin(Stdio::null());
        Slow(command.stdout(Stdio::piped()).stderr(stderr).spawn().unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    fn end(&mut self) -> Option<i32> {
        let since = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status.code();
            }
            assert!(since.elapsed() < LIMIT, "it does not end");
            thread::park_timeout(A_MOMENT);
        }
    }

    /// Waits until more than so many reads are done. By its board, and not by `status`: a process for each look
    /// would slow down what it watches, and be late.
    fn until_read(&self, bench: &Bench, more_than: u64) {
        let board = bench.dir.path().join("data/dupes.db-lock");
        let own = format!("process {}:", self.0.id());
        let since = Instant::now();
        loop {
            let text = std::fs::read_to_string(&board).unwrap_or_default();
            let mut lines = text.lines();
            // Of one that was killed before, its board may still be there.
            let progress = lines.next().filter(|note| note.starts_with(&own)).and(lines.next());
            // In the middle of being written it is no object.
            let object: Option<Value> = progress.and_then(|line| serde_json::from_str(line).ok());
            if object.is_some_and(|it| it["progress"]["reads_done"].as_u64() > Some(more_than)) {
                return;
            }
            assert!(since.elapsed() < LIMIT, "{text}");
            thread::park_timeout(A_MOMENT);
        }
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn status(bench: &Bench) -> Output {
    bench.dupes(&["status", "--json"])
}

/// What `status` says as soon as more than so many reads are done.
fn until_status_says(bench: &Bench, more_than: u64) -> Value {
    let since = Instant::now();
    loop {
        let output = status(bench);
        // Before its first step there is no database.
        if output.status.success() {
            let said = json(&output);
            let done = &said["running"]["progress"]["reads_done"];
            if done.as_u64().is_some_and(|done| done > more_than) {
                return said;
            }
        }
        assert!(since.elapsed() < LIMIT, "{output:?}");
    }
}

/// So that what is recorded of them is used again.
fn until_nothing_is_racy(bench: &Bench) {
    let newest = std::fs::metadata(bench.path("19/599")).unwrap().ctime();
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    while now() < newest.cast_unsigned() + 4 {
        thread::park_timeout(Duration::from_millis(20));
    }
}

#[test]
fn status_shows_a_scan_that_runs_and_one_that_was_killed() {
    if !can_inject() {
        return;
    }
    let bench = bench();
    let mut slow = Slow::start(&bench, &[], Stdio::inherit());
    let first = until_status_says(&bench, 0);
    let running = &first["running"];
    let owner = running["owner"].as_str().unwrap();
    assert_eq!(owner, format!("process {}: scan all", slow.0.id()));
    assert!(running["seconds_old"].as_i64().unwrap() < 30, "{running}");
    let progress = &running["progress"];
    assert_eq!(progress["folders"], 21, "{progress}");
    assert_eq!(progress["files"], FILES, "{progress}");
    assert_eq!(progress["bytes"], FILES * 4, "{progress}");
    let stages = progress["stages"].as_array().unwrap();
    let names: Vec<&str> = stages.iter().map(|stage| stage["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["walk", "random", "sequential", "database"], "{progress}");
    assert!(stages.iter().all(|stage| stage["workers"].as_u64() > Some(0)), "{progress}");
    assert_eq!(first["scans"][0]["state"], "active");
    // It goes on.
    let done = progress["reads_done"].as_u64().unwrap();
    let second = until_status_says(&bench, done);
    assert!(second["running"]["progress"]["elapsed_ms"].as_u64() > progress["elapsed_ms"].as_u64());
    let text = String::from_utf8(bench.dupes(&["status"]).stdout).unwrap();
    for part in
        ["running: process ", "600 files", "pool random: ", " busy, ", "scan 1 (all): active"]
    {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
    // Whoever wants to write is told.
    let purge = bench.dupes(&["purge", "--yes"]);
    assert_eq!(purge.status.code(), Some(2));
    assert!(stderr(&purge).contains(owner), "{purge:?}");
    // What it has told is still there, and nobody believes it.
    slow.signal(Signal::KILL);
    assert_eq!(slow.end(), None);
    let note = std::fs::read_to_string(bench.dir.path().join("data/dupes.db-lock")).unwrap();
    assert!(note.contains("reads_done"), "{note}");
    let killed = json(&status(&bench));
    assert_eq!(killed["running"], Value::Null, "{killed}");
    assert_eq!(killed["scans"][0]["state"], "killed", "{killed}");
    let text = String::from_utf8(bench.dupes(&["status"]).stdout).unwrap();
    assert!(text.contains("scan 1 (all): killed") && !text.contains("running"), "{text}");
    assert_eq!(bench.dupes(&["scan"]).status.code(), Some(0));
    let after = json(&status(&bench));
    assert_eq!(after["running"], Value::Null);
    assert_eq!(after["scans"][0]["state"], "complete");
    assert_eq!(after["roots"][0]["last_scan"], after["scans"][0]["id"]);
    let note = std::fs::read_to_string(bench.dir.path().join("data/dupes.db-lock")).unwrap();
    assert!(!note.contains("reads_done"), "it was wiped: {note}");
}

#[test]
fn a_scan_that_is_stopped_is_seen_to_say_nothing() {
    if !can_inject() {
        return;
    }
    let bench = bench();
    let slow = Slow::start(&bench, &[], Stdio::inherit());
    slow.until_read(&bench, 0);
    slow.signal(Signal::STOP);
    let since = Instant::now();
    loop {
        let text = String::from_utf8(bench.dupes(&["status"]).stdout).unwrap();
        if text.contains("it has said nothing for ") {
            return;
        }
        assert!(since.elapsed() < LIMIT, "{text}");
        thread::park_timeout(Duration::from_millis(50));
    }
}

#[test]
fn ctrl_c_keeps_what_was_found_and_the_next_scan_goes_on() {
    if !can_inject() {
        return;
    }
    let bench = bench();
    until_nothing_is_racy(&bench);
    let mut slow = Slow::start(&bench, &[], Stdio::piped());
    slow.until_read(&bench, 60);
    let since = Instant::now();
    slow.signal(Signal::INT);
    assert_eq!(slow.end(), Some(130));
    assert!(since.elapsed() < WITHIN, "{:?}", since.elapsed());
    let mut said = String::new();
    slow.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("interrupted: what was found so far is recorded"), "{said}");
    let said = json(&status(&bench));
    assert_eq!(said["scans"][0]["state"], "interrupted", "{said}");
    assert_eq!(said["running"], Value::Null);
    let kept = number(&said["scans"][0]["counts"], "reads");
    assert!(kept > 60, "{said}");
    let next = bench.dupes(&["scan", "--json"]);
    assert_eq!(next.status.code(), Some(0), "{next:?}");
    let reads = number(&json(&next), "reads");
    // What was in a folder that was not through is read once more.
    assert!(reads > 0 && reads <= FILES as u64 - kept / 2, "{kept} kept, {reads} read");
    assert_eq!(number(&json(&bench.dupes(&["scan", "--json"])), "reads"), 0);
}

/// In its last stage it reads files of other roots.
#[test]
fn ctrl_c_among_files_of_other_roots_keeps_what_was_read() {
    if !can_inject() {
        return;
    }
    let bench = Bench::new();
    let other = bench.dir.path().join("other");
    std::fs::create_dir(&other).unwrap();
    for n in 0..FILES {
        bench.write(&format!("{}/{n}", n % 20), vec![0; n + 1]);
        std::fs::write(other.join(n.to_string()), vec![0; n + 1]).unwrap();
    }
    until_nothing_is_racy(&bench);
    assert_eq!(bench.dupes(&["scan", other.to_str().unwrap()]).status.code(), Some(0));
    for (signal, code) in [(Signal::INT, Some(130)), (Signal::KILL, None)] {
        let mut slow = Slow::start(&bench, &[], Stdio::inherit());
        slow.until_read(&bench, if signal == Signal::INT { FILES as u64 + 60 } else { 20 });
        let since = Instant::now();
        slow.signal(signal);
        assert_eq!(slow.end(), code);
        assert!(since.elapsed() < WITHIN, "{:?}", since.elapsed());
    }
    let next = bench.dupes(&["scan", "--json", bench.tree().to_str().unwrap()]);
    assert_eq!(next.status.code(), Some(0), "{next:?}");
    let reads = number(&json(&next), "reads");
    assert!(reads > 0 && reads < FILES as u64, "{reads} read of those that were left");
    let report = json(&bench.dupes(&["report", "files", "--json"]));
    assert_eq!(report["groups"].as_array().unwrap().len(), FILES);
}

#[test]
fn a_second_ctrl_c_ends_it_at_once_and_hurts_nothing() {
    if !can_inject() {
        return;
    }
    let bench = bench();
    let mut slow = Slow::start(&bench, &[], Stdio::inherit());
    slow.until_read(&bench, 10);
    let since = Instant::now();
    slow.signal(Signal::INT);
    slow.signal(Signal::INT);
    assert_eq!(slow.end(), Some(130));
    assert!(since.elapsed() < WITHIN, "{:?}", since.elapsed());
    assert_eq!(bench.dupes(&["scan"]).status.code(), Some(0));
    assert_eq!(bench.dupes(&["verify"]).status.code(), Some(0));
    assert_eq!(bench.dump().files.len(), FILES);
}

fn hashes(bench: &Bench) -> usize {
    bench.dump().files.values().filter(|(_, hash)| hash.is_some()).count()
}

/// What it has not read yet is kept, however it ends.
#[test]
fn a_restart_that_is_cut_off_throws_no_hash_away() {
    if !can_inject() {
        return;
    }
    let bench = bench();
    for n in 0..40 {
        bench.write(&format!("large/{n}"), vec![n / 2; 70_000]);
    }
    let all = FILES + 40;
    bench.scan(&[]);
    assert_eq!(hashes(&bench), all);
    for (signal, code, reads) in
        [(Signal::INT, Some(130), 20), (Signal::KILL, None, 20), (Signal::KILL, None, 300)]
    {
        let mut slow = Slow::start(&bench, &["--restart"], Stdio::inherit());
        slow.until_read(&bench, reads);
        slow.signal(signal);
        assert_eq!(slow.end(), code);
        assert_eq!(hashes(&bench), all, "after {signal:?} at {reads} reads");
    }
    let report = json(&bench.dupes(&["report", "files", "--json"]));
    assert_eq!(report["groups"].as_array().unwrap().len(), all / 2);
    assert_eq!(bench.dupes(&["scan"]).status.code(), Some(0));
    assert_eq!(hashes(&bench), all);
}

/// At any moment a row says on which device its file was.
#[test]
fn what_was_on_another_device_is_never_taken_for_what_is_there() {
    if !can_inject() {
        return;
    }
    let bench = bench();
    bench.scan(&[]);
    let fresh = bench.dump();
    // Of another device: with other contents.
    let elsewhere = "UPDATE folders SET device = 7; UPDATE roots SET device = 7;
        UPDATE files SET hash = zeroblob(32)";
    Connection::open(bench.database()).unwrap().execute_batch(elsewhere).unwrap();
    for reads in [100, 200] {
        let mut slow = Slow::start(&bench, &[], Stdio::inherit());
        slow.until_read(&bench, reads);
        slow.signal(Signal::KILL);
        assert_eq!(slow.end(), None);
    }
    bench.scan(&[]);
    assert_as_good_as_fresh(&bench.dump(), &fresh);
}

#[test]
fn its_progress_is_shown_to_machines() {
    if !can_inject() {
        return;
    }
    let bench = bench();
    let mut slow = Slow::start(&bench, &["--progress", "json"], Stdio::piped());
    let mut lines = BufReader::new(slow.0.stderr.take().unwrap()).lines();
    let (first, lines) = in_time("the first object", move || {
        let first = lines.find_map(|line| serde_json::from_str::<Value>(&line.unwrap()).ok());
        (first, lines)
    });
    assert_eq!(first.unwrap()["done"], false);
    slow.until_read(&bench, 10);
    slow.signal(Signal::INT);
    assert_eq!(slow.end(), Some(130));
    let rest: Vec<Value> = in_time("the rest", move || {
        lines.map_while(Result::ok).filter_map(|line| serde_json::from_str(&line).ok()).collect()
    });
    let last = rest.last().unwrap();
    assert_eq!((&last["done"], &last["files"]), (&true.into(), &FILES.into()));
    assert!(last["reads_done"].as_u64() > Some(10), "{last}");
    let stages = last["stages"].as_array().unwrap();
    assert!(stages.iter().any(|stage| stage["name"] == "database"), "{last}");
}

#[test]
fn its_progress_is_a_line_on_a_terminal() {
    if !can_inject() {
        return;
    }
    let bench = bench();
    let (screen, line) = terminal(120);
    let slow = Slow::start(&bench, &[], line);
    let (_screen, seen) =
        watch(screen, Vec::new(), |seen| has(seen, "21 folders, 600 files") && has(seen, "walk"));
    assert!(has(&seen, "\r21 folders, 600 files"), "{}", seen.escape_ascii());
    drop(slow);
}

#[test]
fn its_metrics_are_served() {
    if !can_inject() {
        return;
    }
    let bench = bench();
    let mut slow = Slow::start(&bench, &["--metrics", ":0"], Stdio::piped());
    let mut lines = BufReader::new(slow.0.stderr.take().unwrap()).lines();
    let address = in_time("the address", move || {
        lines.find_map(|line| {
            let line = line.unwrap();
            Some(
                line.strip_prefix("dupes: metrics on http://")?
                    .strip_suffix("/metrics")?
                    .to_owned(),
            )
        })
    });
    slow.until_read(&bench, 0);
    let mut stream = TcpStream::connect(address.unwrap()).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    assert!(page.contains("\ndupes_files_total 600\n"), "{page}");
    for pool in ["walk", "random", "database"] {
        assert!(page.contains(&format!("pool=\"{pool}\"")), "{pool} is not in: {page}");
    }
    assert_eq!(json(&status(&bench))["scans"][0]["state"], "active");
}

#[test]
fn who_only_looks_holds_up_nobody() {
    let bench = Bench::new();
    bench.write("a", "x");
    bench.scan(&[]);
    let path = bench.dir.path().join("data/dupes.db-lock");
    // As `status` does, for longer.
    let file = File::open(&path).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockShared).unwrap();
    assert_eq!(json(&status(&bench))["running"], Value::Null, "they are not in each other's way");
    drop(file);
    assert_eq!(bench.dupes(&["scan"]).status.code(), Some(0));
}
