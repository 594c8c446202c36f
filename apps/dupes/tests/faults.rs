//! Every system call of a run fails, one after the other: what is listed is true, what is missing
//! is said, and it ends. By strace, so that there is no code for it in the product.
//!
//! `DUPES_FAULTS=all` tries each call of a run; without it one in a few. Of several errors the first
//! is the one that every call gets.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use support::{can_inject, in_time};
use tempfile::TempDir;

/// One thread for everything, so that calls come in the same order each time.
const ALONE: [&str; 4] = ["--threads", "1", "--progress", "never"];

/// Small and large files, alone and in sets, side by side and hashed, with links and folders.
fn tree() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, size: usize, fill: u8| {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, vec![fill; size]).unwrap();
    };
    for name in ["a", "b", "in/c"] {
        write(name, 5_000, 1);
    }
    write("alone", 5_000, 2);
    write("in/deep/large-1", 100_000, 3);
    write("in/large-2", 100_000, 3);
    write("large-alone", 100_000, 4);
    for n in 0..9 {
        write(&format!("many/{n}"), 70_000, 5);
    }
    fs::hard_link(dir.path().join("a"), dir.path().join("in/a-again")).unwrap();
    dir
}

/// Sets of paths below the tree, or None if the listing is not whole.
fn sets(output: &Output, tree: &Path) -> Option<BTreeSet<BTreeSet<String>>> {
    let listing: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    let below = |path: &serde_json::Value| {
        let path = Path::new(path.as_str().unwrap());
        path.strip_prefix(tree).unwrap().to_str().unwrap().to_owned()
    };
    let groups = listing["groups"].as_array().unwrap().iter();
    Some(
        groups
            .map(|group| group["paths"].as_array().unwrap().iter().map(below).collect())
            .collect(),
    )
}

/// A run in which strace does what `inject` says; and whether there was anything to be done.
fn run(tree: &Path, inject: &str) -> (Output, bool) {
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut command = Command::new("env"); // with signals, whoever runs the tests
    command.args(["--default-signal=INT", "strace", "-f", "-qq", "-o"]).arg(log.path());
    let call = inject.split(':').next().unwrap();
    command.args(["-e", &format!("trace={call}"), "-e", &format!("inject={inject}")]);
    command
        .arg(env!("CARGO_BIN_EXE_dupes"))
        .args(["find", "--format", "json"])
        .args(ALONE)
        .arg(tree);
    command.stdin(Stdio::null());
    let inject = inject.to_owned();
    let output = in_time(&inject, move || command.output().unwrap());
    let log = String::from_utf8_lossy(&fs::read(log.path()).unwrap()).into_owned();
    (output, log.contains("(INJECTED)") || log.contains("--- SIGINT"))
}

/// Each time that the call is made in a run: 1st, 2nd, …
fn each_time(call: &str, what: &str, check: impl Fn(&Output, &Path, &str)) {
    one_in(1, call, what, check);
}

/// One in so many of these times; of all of them in a short run only some.
fn one_in(step: usize, call: &str, what: &str, check: impl Fn(&Output, &Path, &str)) {
    let tree = tree();
    let all = std::env::var("DUPES_FAULTS").is_ok_and(|all| all == "all");
    let step = if all { step } else { 20 * step };
    let mut tried = 0;
    for time in (1..2_000).step_by(step) {
        let inject = format!("{call}:{what}:when={time}");
        let (output, happened) = run(tree.path(), &inject);
        if !happened {
            break;
        }
        tried += 1;
        // What the loader needs before the program begins.
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if said.contains("error while loading shared libraries") || said.contains("ld.so") {
            continue;
        }
        check(&output, tree.path(), &inject);
    }
    // Of two calls that do the same a library has one.
    assert!(tried > 0 || OPENS.contains(&call) || call == "fstatfs", "{call} is never called");
}

fn truth() -> BTreeSet<BTreeSet<String>> {
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let many: Vec<String> = (0..9).map(|n| format!("many/{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    [set(&["a", "b", "in/c"]), set(&["in/deep/large-1", "in/large-2"]), set(&many)].into()
}

/// The link goes by either of its names, if the other one could not be seen.
fn by_first_name(sets: BTreeSet<BTreeSet<String>>) -> BTreeSet<BTreeSet<String>> {
    let rename = |name: String| if name == "in/a-again" { "a".to_owned() } else { name };
    sets.into_iter().map(|set| set.into_iter().map(rename).collect()).collect()
}

/// Whatever failed: exit code 0 says that all is there, 3 that it is not, 2 that nothing is.
fn is_honest(output: &Output, tree: &Path, what: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    let dupes_said = said.lines().any(|line| line.starts_with("dupes: "));
    let sets = || {
        let text = String::from_utf8_lossy(&output.stdout);
        by_first_name(sets(output, tree).unwrap_or_else(|| panic!("{what}: cut off: {text}")))
    };
    match output.status.code() {
        Some(0) => assert_eq!(sets(), truth(), "{what}: not complete, and nothing said: {said}"),
        Some(3) => {
            assert!(dupes_said, "{what}: nothing said");
            for set in sets() {
                let of = truth().into_iter().find(|of| set.is_subset(of));
                assert!(of.is_some() && set.len() > 1, "{what}: {set:?} is no set");
            }
        }
        Some(2) => assert!(dupes_said, "{what}: nothing said"),
        code => panic!("{what}: ended with {code:?}: {:?} {said}", output.status),
    }
}

fn fails_honestly(call: &str, errors: &[&str]) {
    if !can_inject() {
        return;
    }
    for (at, error) in errors.iter().enumerate() {
        let step = if at == 0 { 1 } else { 7 };
        one_in(step, call, &format!("error={error}"), is_honest);
    }
}

/// Interrupted by a signal that means nothing, or not ready: the call is made again.
fn is_made_again(call: &str, error: &str) {
    if !can_inject() {
        return;
    }
    each_time(call, &format!("error={error}"), |output, tree, what| {
        assert_eq!(output.status.code(), Some(0), "{what}: {output:?}");
        is_honest(output, tree, what);
    });
}

/// Which of these a library uses is its own business: rustix has `open` where there is one.
const OPENS: [&str; 2] = ["open", "openat"];

#[test]
fn an_open_that_fails() {
    for call in OPENS {
        fails_honestly(call, &["EACCES", "EIO", "EMFILE", "ENFILE", "ENOENT", "ENOMEM"]);
    }
}

/// What can fail, and is made to by the tests here.
const MADE_TO_FAIL: [&str; 11] = [
    "open",
    "openat",
    "pread64",
    "getdents64",
    "newfstatat",
    "fstat",
    "write",
    "clone3",
    "socketpair",
    "fstatfs",
    "readlink",
];
/// What does not fail, or whose failure means nothing: memory, threads, signals, clocks, and what the
/// loader and the standard library do before `main`. `poll` and `ioctl` look at stderr, `lseek` goes back
/// to the beginning of statistics, `statx` is the standard library's, of those in `/proc`; `sendto`, `recvfrom` and `shutdown` are between threads of our own.
const HARMLESS: [&str; 44] = [
    "access",
    "arch_prctl",
    "brk",
    "clock_nanosleep",
    "close",
    "execve",
    "exit",
    "exit_group",
    "fcntl",
    "futex",
    "getegid",
    "geteuid",
    "getgid",
    "getpgrp",
    "getpid",
    "getrandom",
    "gettid",
    "getuid",
    "ioctl",
    "lseek",
    "madvise",
    "membarrier",
    "mmap",
    "mprotect",
    "mremap",
    "munmap",
    "poll",
    "prctl",
    "prlimit64",
    "read",
    "recvfrom",
    "restart_syscall",
    "rseq",
    "rt_sigaction",
    "rt_sigprocmask",
    "sched_getaffinity",
    "sched_yield",
    "sendto",
    "set_robust_list",
    "set_tid_address",
    "shutdown",
    "sigaltstack",
    "statx",
    "tgkill",
];

/// A call that nobody thought of would be one that nobody has seen fail.
#[test]
fn every_call_of_a_run_is_known() {
    if !can_inject() {
        return;
    }
    let (tree, log) = (tree(), tempfile::NamedTempFile::new().unwrap());
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o"]).arg(log.path()).arg(env!("CARGO_BIN_EXE_dupes"));
    command.args(["find", "--format", "json"]).args(ALONE).arg(tree.path());
    assert!(in_time("a run", move || command.output().unwrap()).status.success());
    let log = fs::read_to_string(log.path()).unwrap();
    let calls: BTreeSet<&str> = log
        .lines()
        .filter_map(|line| line.split_whitespace().nth(1)?.split_once('('))
        .map(|(call, _)| call)
        .filter(|call| call.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'))
        .collect();
    let known = |call: &&str| MADE_TO_FAIL.contains(call) || HARMLESS.contains(call);
    let unknown: Vec<&str> = calls.iter().copied().filter(|call| !known(call)).collect();
    assert_eq!(unknown, Vec::<&str>::new(), "fail them, too, or say why not");
    assert!(
        calls.contains("pread64") && OPENS.iter().any(|call| calls.contains(call)),
        "{calls:?}"
    );
    // The files of the tree are opened by one of the calls that are made to fail.
    let opened = log.lines().any(|line| {
        OPENS.iter().any(|call| line.contains(&format!("{call}(")))
            && line.contains("in/deep/large-1")
    });
    assert!(opened, "{log}");
}

/// Whether it lies in a quarantine can't be told then.
#[test]
fn a_path_that_can_not_be_followed_to_its_end() {
    fails_honestly("readlink", &["EIO"]);
}

#[test]
fn a_file_system_that_does_not_say_what_it_is() {
    fails_honestly("fstatfs", &["EIO"]);
}

#[test]
fn a_read_that_fails() {
    fails_honestly("pread64", &["EIO", "ESTALE", "EAGAIN"]);
}

#[test]
fn a_read_that_ends_early() {
    if can_inject() {
        each_time("pread64", "retval=0", is_honest);
    }
}

#[test]
fn a_listing_of_a_folder_that_fails() {
    fails_honestly("getdents64", &["EIO", "ENOENT"]);
}

/// What was found before is not lost, and what was not is said.
#[test]
fn a_listing_of_a_folder_that_fails_midway() {
    if !can_inject() {
        return;
    }
    const FILES: usize = 3_000; // more than one call lists
    let dir = tempfile::tempdir().unwrap();
    for n in 0..FILES {
        fs::write(dir.path().join(format!("{n:040}")), "the same").unwrap();
    }
    let (output, happened) = run(dir.path(), "getdents64:error=EIO:when=2");
    assert!(happened, "one call was enough");
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("folder not read"), "{output:?}");
    let sets = sets(&output, dir.path()).expect("a whole listing");
    assert!(sets.len() == 1 && (2..FILES).contains(&sets.first().unwrap().len()));
}

/// No stage waits for another one to end.
#[test]
fn large_files_are_compared_while_folders_are_still_found() {
    if !can_inject() {
        return;
    }
    let (dir, log) = (tempfile::tempdir().unwrap(), tempfile::NamedTempFile::new().unwrap());
    for name in ["a", "b"] {
        fs::write(dir.path().join(name), vec![1; 300_000]).unwrap();
    }
    for n in 0..60 {
        fs::create_dir(dir.path().join(n.to_string())).unwrap();
    }
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-e", "trace=getdents64,pread64", "-o"]).arg(log.path());
    command.args(["-e", "inject=getdents64:delay_enter=20ms", env!("CARGO_BIN_EXE_dupes"), "find"]);
    command.args(ALONE).arg(dir.path()).stdout(Stdio::null());
    assert!(in_time("a slow walk", move || command.status().unwrap()).success());
    let log = fs::read_to_string(log.path()).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    // Samples are read in smaller pieces.
    let compared =
        lines.iter().position(|line| line.contains("pread64") && line.contains("65536, 0)"));
    let found = lines.iter().rposition(|line| line.contains("getdents64"));
    assert!(compared.is_some() && compared < found, "{log}");
}

/// As on a mount whose server is gone: whoever opens it hangs.
#[test]
fn a_root_that_does_not_answer_does_not_hold_up_the_end_that_is_asked_for() {
    if !can_inject() {
        return;
    }
    let tree = tree();
    let log = tempfile::NamedTempFile::new().unwrap();
    // As a grandchild: the child is the program itself.
    let mut command = Command::new("env");
    command.args(["--default-signal=INT", "strace", "-D", "-f", "-qq", "--seccomp-bpf", "-o"]);
    command.arg(log.path()).arg("-P").arg(tree.path());
    command.args(["-e", "trace=open,openat", "-e", "inject=open,openat:delay_enter=60s"]);
    command.arg(env!("CARGO_BIN_EXE_dupes")).arg("find").args(ALONE).arg(tree.path());
    let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let hangs = in_time("nobody opens it", {
        let id = child.id();
        move || until_a_thread_is_held(id)
    });
    assert!(hangs, "it ended by itself: {:?}", child.wait_with_output());
    let (id, number) = (rustix::process::Pid::from_child(&child), child.id());
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    // It has ended, but for the thread that the tracer holds: let go by the end of that one.
    let tracer = in_time("it does not end", move || until_it_has_ended(number));
    if let Some(tracer) = tracer {
        rustix::process::kill_process(tracer, rustix::process::Signal::KILL).unwrap();
    }
    let status = in_time("it is not let go", move || child.wait().unwrap());
    assert_eq!(status.code(), Some(130));
}

/// Who traces the threads that are left, if there are any.
fn until_it_has_ended(id: u32) -> Option<rustix::process::Pid> {
    loop {
        let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let of = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        if of("State:").is_some_and(|state| state.trim().starts_with('Z')) {
            let tracer = of("TracerPid:").and_then(|pid| pid.trim().parse().ok());
            return tracer.and_then(rustix::process::Pid::from_raw);
        }
        std::thread::yield_now();
    }
}

/// True when a thread that walks is held by its tracer, in one call for a while: others are only looked at.
/// False if the process has ended.
fn until_a_thread_is_held(id: u32) -> bool {
    const A_WHILE: Duration = Duration::from_millis(300);
    let mut held: Option<(String, Instant)> = None;
    loop {
        let Ok(threads) = fs::read_dir(format!("/proc/{id}/task")) else { return false };
        let read = |path: PathBuf| fs::read_to_string(path).unwrap_or_default();
        let call = threads.flatten().find_map(|thread| {
            let stat = read(thread.path().join("stat"));
            let is_held = stat.contains("(walk-") && stat.contains(") t ");
            is_held.then(|| read(thread.path().join("syscall")))
        });
        held = match (held, call) {
            (Some((before, since)), Some(now)) if before == now => Some((before, since)),
            (_, now) => now.map(|now| (now, Instant::now())),
        };
        if held.as_ref().is_some_and(|(_, since)| since.elapsed() >= A_WHILE) {
            return true;
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_look_at_a_file_that_fails() {
    fails_honestly("newfstatat", &["EIO", "EACCES", "ENOENT", "EOVERFLOW"]);
    fails_honestly("fstat", &["EIO", "ESTALE"]);
}

#[test]
fn a_write_that_fails() {
    if !can_inject() {
        return;
    }
    for error in ["EIO", "ENOSPC", "EDQUOT"] {
        // strace counts by thread: what the first one would say of it fails as well.
        each_time("write", &format!("error={error}"), |output, tree, what| {
            if output.status.code() != Some(2) {
                is_honest(output, tree, what);
            }
        });
    }
}

#[test]
fn a_thread_that_can_not_be_started() {
    fails_honestly("clone3", &["EAGAIN"]);
}

#[test]
fn a_socket_that_can_not_be_had() {
    fails_honestly("socketpair", &["EMFILE"]);
}

#[test]
fn what_was_interrupted_is_made_again() {
    for call in ["pread64", "write"] {
        is_made_again(call, "EINTR");
    }
}

#[test]
fn a_listing_of_a_folder_that_was_interrupted_goes_on() {
    is_made_again("getdents64", "EINTR");
}

/// As if somebody had made it so that a write does not wait.
#[test]
fn a_stdout_that_is_not_ready_is_waited_for() {
    is_made_again("write", "EAGAIN");
}

#[test]
fn an_open_that_was_interrupted_is_made_again() {
    if !can_inject() {
        return;
    }
    // Those of the loader and of the standard library are not ours to make again.
    for call in OPENS {
        one_in(1, call, "error=EINTR", is_honest);
    }
}

#[test]
fn an_end_that_is_asked_for_at_any_call_is_heard() {
    if !can_inject() {
        return;
    }
    for call in ["getdents64", "pread64", "newfstatat"] {
        each_time(call, "signal=INT", |output, tree, what| match output.status.code() {
            Some(0) => is_honest(output, tree, what), // it came too late
            Some(130) => {}
            // Before there is a handler.
            None => assert_eq!(output.stdout, b"", "{what}"),
            code => panic!("{what}: ended with {code:?}"),
        });
    }
}
