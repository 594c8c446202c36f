//! The binary, at places where finders get lost: what it prints, what it says, how it ends.

mod support;

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use support::{copy_program_to, dupes_with_signals, in_time, is_root, json, stderr, write};
use tempfile::TempDir;

fn dupes(args: &[&OsStr]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dupes"));
    command.arg("find").args(["--progress", "never"]).args(args).stdin(Stdio::null());
    in_time("dupes find", move || command.output().unwrap())
}

fn find(dir: &TempDir, more: &[&str]) -> Output {
    let mut args: Vec<&OsStr> = more.iter().map(OsStr::new).collect();
    args.push(dir.path().as_os_str());
    dupes(&args)
}

/// The names of all files in sets, without their folders.
fn listed(output: &Output) -> Vec<Vec<String>> {
    let groups = json(output)["groups"].as_array().unwrap().clone();
    let name =
        |path: &serde_json::Value| path.as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    let paths =
        |group: &serde_json::Value| group["paths"].as_array().unwrap().iter().map(name).collect();
    groups.iter().map(paths).collect()
}

#[test]
fn fifos_sockets_and_symlinks_are_never_opened() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, "a", "same");
    write(&dir, "b", "same");
    let fifo = dir.path().join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o644),
        0,
    )
    .unwrap();
    let _socket = UnixListener::bind(dir.path().join("socket")).unwrap();
    symlink(dir.path().join("a"), dir.path().join("link")).unwrap();
    symlink(".", dir.path().join("circle")).unwrap();
    symlink("nowhere", dir.path().join("broken")).unwrap();
    let output = find(&dir, &["--format", "json"]);
    assert_eq!(listed(&output), [["a", "b"]]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    // Followed, the link is one more name of the same file, and the circle ends.
    let output = find(&dir, &["--format", "json", "--follow"]);
    assert_eq!(listed(&output), [["a", "b"]]);
    assert_eq!(output.status.code(), Some(0));
    // A root that is none of both is said to be so.
    let output = dupes(&[fifo.as_os_str()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("neither a folder nor a file"), "{}", stderr(&output));
}

#[test]
fn hard_links_overlapping_roots_and_the_same_root_twice_are_one_file() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, "in/a", "same");
    fs::hard_link(dir.path().join("in/a"), dir.path().join("in/b")).unwrap();
    let (all, inner) = (dir.path().as_os_str(), dir.path().join("in"));
    let output = dupes(&["--format".as_ref(), "json".as_ref(), all, inner.as_os_str(), all]);
    assert_eq!(listed(&output).len(), 0, "one file has no duplicate");
    write(&dir, "c", "same");
    let output = dupes(&["--format".as_ref(), "json".as_ref(), all, inner.as_os_str(), all]);
    assert_eq!(listed(&output), [["c", "a"]]);
    let group = &json(&output)["groups"][0];
    assert_eq!(group["links"].as_array().unwrap().len(), 1);
}

#[test]
fn what_another_link_keeps_alive_is_not_reclaimable() {
    let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(&dir, "a", &"x".repeat(5_000));
    write(&dir, "b", &"x".repeat(5_000));
    let reclaimable =
        || json(&find(&dir, &["--format", "json"]))["totals"]["reclaimable_bytes"].as_u64();
    assert!(reclaimable() >= Some(5_000));
    fs::hard_link(dir.path().join("b"), outside.path().join("kept")).unwrap();
    assert_eq!(reclaimable(), Some(0));
}

#[test]
fn trees_deeper_than_a_path_may_be_long() {
    let dir = tempfile::tempdir().unwrap();
    let name = "d".repeat(200);
    // Step by step: no path to its end can be given to the system at once.
    let mut at =
        rustix::fs::open(dir.path(), rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty())
            .unwrap();
    for _ in 0..50 {
        rustix::fs::mkdirat(&at, &name, rustix::fs::Mode::from_raw_mode(0o755)).unwrap();
        at = rustix::fs::openat(&at, &name, rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty())
            .unwrap();
    }
    for file in ["a", "b"] {
        let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::CREATE;
        let file = rustix::fs::openat(&at, file, flags, rustix::fs::Mode::from_raw_mode(0o644));
        fs::File::from(file.unwrap()).write_all(&vec![3; 70_000]).unwrap();
    }
    let output = find(&dir, &["--format", "json"]);
    assert_eq!(listed(&output), [["a", "b"]], "{}", stderr(&output));
    assert_eq!(output.status.code(), Some(0));
    let removed = Command::new("rm").arg("-rf").arg(dir.path()).status().unwrap();
    assert!(removed.success());
}

/// As somebody who may not read everything: root hands its rights over to nobody.
#[test]
fn what_may_not_be_read_is_said_and_in_no_set() {
    const NOBODY: u32 = 65_534;
    let dir = tempfile::tempdir().unwrap();
    for name in ["a", "b", "c", "in/d"] {
        write(&dir, name, "same");
    }
    fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    for name in ["b", "in"] {
        fs::set_permissions(dir.path().join(name), PermissionsExt::from_mode(0o000)).unwrap();
    }
    // A copy that nobody may start, wherever the build is.
    let program = dir.path().with_extension("dupes");
    copy_program_to(&program);
    let run = |root: &Path| {
        let mut command = Command::new(&program);
        command.args(["find", "--progress", "never", "--format", "json"]).arg(root);
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command.current_dir("/").stdin(Stdio::null());
        in_time("dupes find", move || command.output().unwrap())
    };
    let (some, none) = (run(dir.path()), run(&dir.path().join("in")));
    fs::remove_file(&program).unwrap();
    fs::set_permissions(dir.path().join("in"), PermissionsExt::from_mode(0o755)).unwrap();
    assert_eq!(listed(&some), [["a", "c"]]);
    assert_eq!(some.status.code(), Some(3));
    assert_eq!(stderr(&some).lines().count(), 3, "two and a summary: {}", stderr(&some));
    // No permission at all.
    assert!(stderr(&none).contains("in: can't look there: Permission denied"), "{}", stderr(&none));
    assert_eq!(none.status.code(), Some(2));
}

#[test]
fn some_roots_missing_is_3_and_all_missing_is_2() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, "a", "same");
    write(&dir, "b", "same");
    let output = dupes(&[
        "--format".as_ref(),
        "json".as_ref(),
        dir.path().as_os_str(),
        "/no/where".as_ref(),
    ]);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(listed(&output), [["a", "b"]]);
    let output = dupes(&["/no/where".as_ref()]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
}

#[test]
fn names_of_any_bytes_survive() {
    let dir = tempfile::tempdir().unwrap();
    let names: [&[u8]; 4] = [b"new\nline", b"esc\x1b[31m", b"\xff\xfe", b"-rf \"quoted\", 'x'"];
    for name in names {
        fs::write(dir.path().join(OsStr::from_bytes(name)), "same").unwrap();
    }
    let output = find(&dir, &["--format", "fdupes", "-0"]);
    let mut found: Vec<&[u8]> = output
        .stdout
        .split(|byte| *byte == 0)
        .filter(|path| !path.is_empty())
        .map(|path| path.rsplit(|byte| *byte == b'/').next().unwrap())
        .collect();
    found.sort_unstable();
    let mut expected = names;
    expected.sort_unstable();
    assert_eq!(found, expected);
    let output = find(&dir, &["--format", "text"]);
    assert!(!output.stdout.contains(&0x1b), "an escape sequence reached the terminal");
}

#[test]
fn a_closed_pipe_and_a_full_disk_end_it() {
    let dir = tempfile::tempdir().unwrap();
    for n in 0..3_000 {
        write(&dir, &format!("a{n}"), &(n / 2).to_string());
    }
    let mut child = Command::new(env!("CARGO_BIN_EXE_dupes"))
        .args(["find", "--format", "json"])
        .arg(dir.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 10];
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut first).unwrap();
    drop(out);
    let status = in_time("its end", move || child.wait().unwrap());
    assert_eq!(status.code(), Some(141));

    if Path::new("/dev/full").exists() {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_dupes"));
        command.args(["find", "--format", "json"]).arg(dir.path()).stdout(full);
        let output = in_time("its end", move || command.stderr(Stdio::piped()).output().unwrap());
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("could not be written"), "{}", stderr(&output));
    }
}

#[test]
fn proc_can_be_looked_at_and_is_skipped_elsewhere() {
    let output = dupes(&["--format".as_ref(), "json".as_ref(), "/proc/self/fdinfo".as_ref()]);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
    // By its folders, and not by what lies elsewhere.
    let patterns = ["--format", "json", "--regex", "^proc/|^sys/", "--exclude", "[!ps]*", "/"];
    let output = dupes(&patterns.map(OsStr::new));
    let totals = &json(&output)["totals"];
    assert_eq!(totals["files"], 0, "{totals}");
}

#[test]
fn filters_choose_what_counts() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a.txt", "b.txt", "c.log", ".hidden", "deep/er/d.txt", "skip/e.txt"] {
        write(&dir, name, "same");
    }
    write(&dir, ".gitignore", "*.log\nskip/\n");
    let rows: [(&[&str], &[&str]); 8] = [
        (&[], &[".hidden", "a.txt", "b.txt", "c.log", "d.txt", "e.txt"]),
        (&["--no-hidden"], &["a.txt", "b.txt", "c.log", "d.txt", "e.txt"]),
        (&["--name", "*.txt"], &["a.txt", "b.txt", "d.txt", "e.txt"]),
        (&["--exclude", "skip"], &[".hidden", "a.txt", "b.txt", "c.log", "d.txt"]),
        (&["--regex", "^deep|^a"], &["a.txt", "d.txt"]),
        (&["--depth", "1"], &[".hidden", "a.txt", "b.txt", "c.log"]),
        (&["--ignore-files"], &[".hidden", "a.txt", "b.txt", "d.txt"]),
        (&["--min-size", "5"], &[]),
    ];
    for (more, expected) in rows {
        let output = find(&dir, &[more, &["--format", "json"][..]].concat());
        let mut found = listed(&output).concat();
        found.sort();
        assert_eq!(found, expected, "{more:?}: {}", stderr(&output));
    }
}

#[test]
fn isolated_and_reference_roots() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(&one, "a", "same");
    write(&one, "b", "same");
    write(&one, "x", "only here");
    write(&one, "y", "only here");
    write(&two, "c", "same");
    write(&two, "p", "only there");
    write(&two, "q", "only there");
    let sets = |args: &[&OsStr]| {
        let mut all: Vec<&OsStr> = vec!["--format".as_ref(), "json".as_ref()];
        all.extend(args);
        let mut sets = listed(&dupes(&all));
        sets.iter_mut().for_each(|set| set.sort());
        sets.sort();
        sets
    };
    let (one, two) = (one.path().as_os_str(), two.path().as_os_str());
    assert_eq!(sets(&["--isolate".as_ref(), one, two]), [["a", "b", "c"]]);
    let expected = [vec!["a", "b", "c"], vec!["x", "y"]];
    assert_eq!(sets(&["--reference".as_ref(), two, one]), expected);
}

/// Two files that would take minutes to compare.
fn endless() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        fs::File::create(dir.path().join(name)).unwrap().set_len(1 << 40).unwrap();
    }
    dir
}

#[test]
fn a_signal_ends_it_and_says_what_was_done() {
    let dir = endless();
    let mut child = dupes_with_signals()
        .args(["find", "--progress", "json"])
        .arg(dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    in_time("its end", move || {
        // It reads the files to their end by now.
        let is_reading = |line: &String| {
            let view: serde_json::Value = serde_json::from_str(line).unwrap();
            view["read_bytes_done"].as_u64() > Some(1 << 20)
        };
        assert!(lines.any(|line| is_reading(&line)));
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        let said: Vec<String> = lines.filter(|line| line.starts_with("dupes:")).collect();
        assert_eq!(child.wait().unwrap().code(), Some(130));
        assert!(said.concat().contains("interrupted: 1 folder and 2 files were seen"), "{said:?}");
        let mut listing = String::new();
        child.stdout.take().unwrap().read_to_string(&mut listing).unwrap();
        assert_eq!(listing, "");
    });
}

#[test]
fn a_folder_that_is_given_belongs_to_its_own_root() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, "archive/1", "kept");
    write(&dir, "archive/2", "kept");
    write(&dir, "a", "same");
    write(&dir, "archive/b", "same");
    let archive = dir.path().join("archive");
    let reference =
        [OsStr::new("--format"), "json".as_ref(), "--reference".as_ref(), archive.as_ref()];
    let output = dupes(&[&reference[..], &[dir.path().as_os_str()]].concat());
    assert_eq!(listed(&output), [["a", "b"]], "a set of references alone is not listed");
    assert_eq!(json(&output)["groups"][0]["reference"].as_array().unwrap().len(), 1);
    for roots in [[dir.path(), &archive], [&archive, dir.path()]] {
        let isolate = [OsStr::new("--format"), "json".as_ref(), "--isolate".as_ref()];
        let output = dupes(&[&isolate[..], &roots.map(AsRef::as_ref)].concat());
        assert_eq!(listed(&output), [["a", "b"]], "whatever their order");
    }
}

#[test]
fn a_file_with_names_in_two_roots_is_in_both() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(&one, "x", "same");
    fs::hard_link(one.path().join("x"), two.path().join("x")).unwrap();
    write(&two, "y", "same");
    let (one, two) = (one.path().as_os_str(), two.path().as_os_str());
    let format = [OsStr::new("--format"), "json".as_ref()];
    let output = dupes(&[&format[..], &["--reference".as_ref(), two, one]].concat());
    assert_eq!(listed(&output).concat().len(), 2);
    assert_eq!(json(&output)["totals"]["reclaimable_bytes"], 0, "its other name stays");
    let output = dupes(&[&format[..], &["--isolate".as_ref(), one, two]].concat());
    assert_eq!(listed(&output).concat().len(), 2);
}

#[test]
fn files_that_are_named_are_filtered_and_named_once() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a.jpg", "b.txt", "c.jpg"] {
        write(&dir, name, "same");
    }
    let paths = ["a.jpg", "b.txt", "c.jpg", "a.jpg"].map(|name| dir.path().join(name));
    let mut args: Vec<&OsStr> = ["--format", "json", "--name", "*.jpg"].map(OsStr::new).into();
    args.extend(paths.iter().map(|path| path.as_os_str()));
    args.push(dir.path().as_ref());
    let output = dupes(&args);
    assert_eq!(listed(&output), [["a.jpg", "c.jpg"]]);
    assert_eq!(json(&output)["groups"][0]["links"].as_array().unwrap().len(), 0);
}

#[test]
fn files_that_only_say_that_they_are_empty_are_no_set() {
    let files = ["/proc/self/status", "/proc/self/cmdline"].map(OsStr::new);
    let args = ["--format", "json", "--min-size", "0"].map(OsStr::new);
    let output = dupes(&[&args[..], &files].concat());
    assert_eq!((listed(&output).len(), output.status.code()), (0, Some(3)));
    let dir = tempfile::tempdir().unwrap();
    write(&dir, "a", "");
    write(&dir, "b", "");
    assert_eq!(listed(&find(&dir, &["--format", "json", "--min-size", "0"])), [["a", "b"]]);
}

/// Whoever reads it has stopped in the middle, and holds nobody up who wants it to end.
#[test]
fn an_end_that_is_asked_for_does_not_wait_for_who_reads_the_listing() {
    let dir = tempfile::tempdir().unwrap();
    for n in 0..4_000 {
        write(&dir, &format!("a name that fills a pipe {n}"), &(n / 2).to_string());
    }
    let mut child = dupes_with_signals()
        .args(["find", "--format", "json"])
        .arg(dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0; 10]).unwrap();
    let since = std::time::Instant::now();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = in_time("its end", move || child.wait_with_output().unwrap());
    assert_eq!(output.status.code(), Some(130));
    assert!(stderr(&output).contains("it is not complete"), "{}", stderr(&output));
    assert!(since.elapsed() < std::time::Duration::from_secs(20));
    drop(out);
}

/// A file and its folder that can also be reached by links go by their own names, in every run.
#[test]
fn followed_links_never_stand_for_the_file() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, "real/x", "same");
    write(&dir, "z", "same");
    symlink(dir.path().join("z"), dir.path().join("a-link")).unwrap();
    symlink(dir.path().join("real"), dir.path().join("a-folder")).unwrap();
    fs::create_dir(dir.path().join("0")).unwrap();
    symlink(dir.path().join("real"), dir.path().join("0/also")).unwrap();
    for _ in 0..20 {
        let output = find(&dir, &["--format", "json", "--follow"]);
        let group = &json(&output)["groups"][0];
        assert_eq!(listed(&output), [["z", "x"]], "{group}");
        assert!(group["paths"][1].as_str().unwrap().ends_with("/real/x"), "{group}");
        assert_eq!(group["links"].as_array().unwrap().len(), 1, "{group}");
    }
}

#[test]
fn bytes_of_a_file_with_two_names_count_once() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, "a", "12345");
    fs::hard_link(dir.path().join("a"), dir.path().join("b")).unwrap();
    let totals = &json(&find(&dir, &["--format", "json"]))["totals"];
    assert_eq!((&totals["files"], &totals["bytes"]), (&1.into(), &5.into()), "{totals}");
}

#[test]
fn few_descriptors_are_enough() {
    let dir = tempfile::tempdir().unwrap();
    for n in 0..200 {
        write(&dir, &format!("{}/{n}", n % 20), &"x".repeat(70_000 + n % 3));
    }
    let script = format!(
        "ulimit -n 48; exec {} find --format json {}",
        env!("CARGO_BIN_EXE_dupes"),
        dir.path().display()
    );
    let output =
        in_time("its end", move || Command::new("sh").args(["-c", &script]).output().unwrap());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(listed(&output).len(), 3);
}

#[test]
fn links_to_one_file_are_one_file_in_all_sums() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, "a", &"x".repeat(70_000));
    for n in 0..20 {
        symlink("a", dir.path().join(format!("link-{n}"))).unwrap();
    }
    let totals = &json(&find(&dir, &["--format", "json", "--follow"]))["totals"];
    assert_eq!((&totals["files"], &totals["bytes"]), (&1.into(), &70_000.into()), "{totals}");
    assert_eq!(totals["bytes_read"], 0, "it was read as its own duplicate: {totals}");
}

#[test]
fn a_file_that_is_given_in_two_spellings_has_one_name() {
    let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(&dir, "x", &"x".repeat(5_000));
    write(&dir, "y", &"x".repeat(5_000));
    for name in ["x", "y"] {
        fs::hard_link(dir.path().join(name), outside.path().join(name)).unwrap();
    }
    let spelled = ["./x", "./y"].map(|name| dir.path().join(name));
    symlink(dir.path().join("y"), outside.path().join("link")).unwrap();
    let link = outside.path().join("link");
    let roots = [dir.path(), &spelled[0], &spelled[1], &link].map(Path::as_os_str);
    let output = dupes(&[&["--format", "json"].map(OsStr::new)[..], &roots].concat());
    assert_eq!(listed(&output).len(), 1);
    assert_eq!(json(&output)["totals"]["reclaimable_bytes"], 0, "{}", json(&output));
}

#[test]
fn sparse_files_and_long_names() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["s".repeat(255), "t".repeat(255)] {
        fs::File::create(dir.path().join(name)).unwrap().set_len(3 << 20).unwrap();
    }
    let output = find(&dir, &["--format", "json"]);
    assert_eq!(listed(&output), [["s".repeat(255), "t".repeat(255)]]);
    assert_eq!(json(&output)["totals"]["reclaimable_bytes"], 0, "they take no room");
    assert_eq!(json(&output)["totals"]["redundant_bytes"], 3 << 20);
}

/// Far more of them than could be compared with each other.
#[test]
fn very_many_equal_files_are_one_set() {
    let dir = tempfile::tempdir().unwrap();
    for n in 0..20_000 {
        write(&dir, &format!("{}/{n}", n % 100), "");
    }
    let output = find(&dir, &["--format", "json", "--min-size", "0"]);
    assert_eq!(listed(&output).iter().map(Vec::len).collect::<Vec<_>>(), [20_000]);
}

#[test]
fn many_files_from_stdin() {
    let dir = tempfile::tempdir().unwrap();
    let mut names = Vec::new();
    for n in 0..1_000 {
        write(&dir, &n.to_string(), &(n / 2).to_string());
        names.extend(dir.path().join(n.to_string()).as_os_str().as_bytes());
        names.push(0);
    }
    let mut child = Command::new(env!("CARGO_BIN_EXE_dupes"))
        .args(["find", "--format", "json", "--stdin0"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&names).unwrap();
    let output = in_time("its end", move || child.wait_with_output().unwrap());
    assert_eq!((listed(&output).len(), output.status.code()), (500, Some(0)));
}

#[test]
fn links_into_what_the_kernel_shows_of_itself_are_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    for (name, to) in [("a", "/proc/version"), ("b", "/proc/self/status")] {
        std::os::unix::fs::symlink(to, dir.path().join(name)).unwrap();
    }
    let output = find(&dir, &["--follow", "--min-size", "0", "--format", "json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(json(&output)["totals"]["files"], 0);
}

#[test]
fn every_problem_has_a_line() {
    if !is_root() {
        eprintln!("skipped: needs root, to become somebody whom permissions bind");
        return;
    }
    const MANY: usize = 10_500;
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for n in 0..MANY {
        write(&dir, &format!("{n:05}"), "x");
        fs::set_permissions(dir.path().join(format!("{n:05}")), fs::Permissions::from_mode(0o000))
            .unwrap();
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    let output =
        command.arg(env!("CARGO_BIN_EXE_dupes")).arg("find").arg(dir.path()).output().unwrap();
    assert_eq!(stderr(&output).lines().filter(|line| line.contains("file not read")).count(), MANY);
    assert!(stderr(&output).ends_with("10500 problems: what was not read is in no set\n"));
}

/// Whoever should read the messages does not: the end that is asked for comes all the same.
#[test]
fn an_end_that_is_asked_for_does_not_wait_for_who_reads_the_messages() {
    let dir = tempfile::tempdir().unwrap();
    let missing =
        |n: usize| dir.path().join(format!("a long name that is not there, to fill a pipe {n}"));
    let mut child = dupes_with_signals()
        .arg("find")
        .args((0..3_000).map(missing))
        .arg(dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It says something, and we read no more of it.
    let mut err = child.stderr.take().unwrap();
    err.read_exact(&mut [0; 10]).unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let status = in_time("its end", move || child.wait().unwrap());
    assert!(matches!(status.code(), Some(130 | 3)), "{status:?}");
    drop(err);
}
