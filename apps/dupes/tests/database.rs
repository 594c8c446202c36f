//! A database, and a clock, with which something is wrong; and trees that change under the scan. Whatever it is,
//! it is said, nothing is lost, and the next scan makes it good.

mod support;

#[path = "support/scans.rs"]
mod scans;

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, SystemTime};

use rusqlite::Connection;
use scans::{Bench, assert_as_good_as_fresh, dump, number};
use support::{in_time, is_root, json, stderr};

const PAGE: usize = 4096;

fn scanned() -> Bench {
    let bench = Bench::new();
    for n in 0..60 {
        bench.write(&format!("{}/{}", n % 5, n), format!("{:200}", n % 20));
    }
    bench.scan(&[]);
    bench
}

fn is_as_fresh(bench: &Bench) {
    let fresh = bench.dir.path().join("fresh/dupes.db");
    let _ = fs::remove_dir_all(fresh.parent().unwrap());
    bench.scan_into(&fresh, &[], Duration::from_secs(10));
    assert_as_good_as_fresh(&bench.dump(), &dump(&fresh));
}

// ------------------------------------------------------------ damaged

/// Any page of it is garbage: nobody crashes or hangs, what fails says so, and `verify` always sees it.
#[test]
fn a_damaged_page_is_noticed_and_nobody_crashes() {
    let bench = scanned();
    Connection::open(bench.database())
        .unwrap()
        .execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
        .unwrap();
    let whole = fs::read(bench.database()).unwrap();
    let tree = bench.tree();
    for page in 0..whole.len() / PAGE {
        let mut bytes = whole.clone();
        bytes[page * PAGE..(page + 1) * PAGE].fill(0xa5);
        for verb in [&["report", "files"][..], &["status"], &["verify"], &["scan"]] {
            for end in ["-wal", "-shm"] {
                let _ = fs::remove_file(format!("{}{end}", bench.database().display()));
            }
            fs::write(bench.database(), &bytes).unwrap();
            let mut words = verb.to_vec();
            if verb == ["scan"] {
                words.push(tree.to_str().unwrap());
            }
            let output = bench.dupes(&words);
            let code = output.status.code();
            let is_said = stderr(&output).contains("dupes: ");
            assert!(matches!(code, Some(0 | 2)), "page {page}, {verb:?}: {output:?}");
            assert!(code == Some(0) || is_said, "page {page}, {verb:?}: nothing said");
            if verb == ["verify"] {
                assert_eq!(code, Some(2), "page {page}: it is not in order: {output:?}");
                let repaired = bench.dupes(&["verify", "--repair", "--yes"]);
                let can_be = stderr(&output).contains("verify --repair puts it right");
                let is_repaired = repaired.status.code() == Some(0);
                assert_eq!(can_be, is_repaired, "page {page}: {output:?}, {repaired:?}");
            }
        }
    }
}

/// A row that no program of ours has written.
#[test]
fn what_is_no_text_or_number_where_it_should_be_is_said() {
    let bench = scanned();
    let connection = Connection::open(bench.database()).unwrap();
    connection.execute_batch("UPDATE files SET hash = zeroblob(1000)").unwrap();
    drop(connection);
    let verified = bench.dupes(&["verify"]);
    assert_eq!(verified.status.code(), Some(2), "{verified:?}");
    let repaired = bench.dupes(&["verify", "--repair", "--yes"]);
    assert_eq!(repaired.status.code(), Some(0), "{repaired:?}");
    bench.scan(&[]);
    is_as_fresh(&bench);
}

// ------------------------------------------------------------ out of reach

/// Somebody else's transaction does not end: it is waited for, and then said.
#[test]
fn a_database_that_is_locked_by_another_program_is_said_to_be() {
    let bench = scanned();
    let before = bench.dump();
    bench.write("new", "x");
    let other = Connection::open(bench.database()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let output = bench.dupes(&["scan", "--progress", "never"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(stderr(&output).contains("locked"), "{output:?}");
    let report = bench.dupes(&["report", "files"]);
    assert_eq!(report.status.code(), Some(0), "who only reads is not held up: {report:?}");
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(bench.dump(), before);
    bench.scan(&[]);
    is_as_fresh(&bench);
}

/// As somebody whom permissions bind.
fn as_nobody(bench: &Bench, args: &[&str]) -> Output {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    command.arg(env!("CARGO_BIN_EXE_dupes")).args(args).args(["--no-config", "--database"]);
    command.arg(bench.database()).stdin(Stdio::null());
    in_time(&format!("{args:?}"), move || command.output().unwrap())
}

fn skipped_without_root() -> bool {
    if !is_root() {
        eprintln!("skipped: needs root, to become somebody else");
    }
    !is_root()
}

#[test]
fn a_database_of_somebody_else_is_not_believed() {
    if skipped_without_root() {
        return;
    }
    let bench = scanned();
    let before = fs::read(bench.database()).unwrap();
    chown(bench.database(), Some(65_534), Some(65_534)).unwrap();
    for verb in [&["status"][..], &["report", "files"], &["scan"], &["verify", "--repair", "--yes"]]
    {
        let output = bench.dupes(verb);
        assert_eq!(output.status.code(), Some(2), "{verb:?}: {output:?}");
        assert!(stderr(&output).contains("another user"), "{verb:?}: {output:?}");
    }
    assert_eq!(fs::read(bench.database()).unwrap(), before);
}

/// What says only what is recorded.
const QUESTIONS: [&[&str]; 4] =
    [&["report", "files"], &["report", "folders"], &["roots", "list"], &["verify"]];

fn mode(path: &Path, mode: u32) {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
    fs::set_permissions(path, mode).unwrap();
}

/// All files of it, and their folder, are those of a user who may only read them.
fn only_to_read(bench: &Bench) {
    let data = bench.database().parent().unwrap().to_owned();
    mode(bench.dir.path(), 0o755);
    for path in fs::read_dir(&data).unwrap().map(|file| file.unwrap().path()) {
        chown(&path, Some(65_534), Some(65_534)).unwrap();
        mode(&path, 0o400);
    }
    chown(&data, Some(65_534), Some(65_534)).unwrap();
    mode(&data, 0o500);
}

#[test]
fn a_database_that_can_only_be_read_is_not_changed_and_that_is_said() {
    if skipped_without_root() {
        return;
    }
    let bench = scanned();
    let answers = QUESTIONS.map(|question| bench.dupes(question).stdout);
    only_to_read(&bench);
    let before = fs::read(bench.database()).unwrap();
    for verb in [&["scan"][..], &["purge", "--yes"], &["verify", "--repair", "--yes"]] {
        let output = as_nobody(&bench, verb);
        assert_eq!(output.status.code(), Some(2), "{verb:?}: {output:?}");
        assert!(stderr(&output).contains("can't be written to: Permission denied"), "{output:?}");
    }
    for (question, answer) in QUESTIONS.iter().zip(answers) {
        let output = as_nobody(&bench, question);
        assert_eq!(output.status.code(), Some(0), "{question:?}: {output:?}");
        assert_eq!(output.stdout, answer, "{question:?}");
    }
    assert_eq!(as_nobody(&bench, &["status"]).status.code(), Some(0));
    assert_eq!(fs::read(bench.database()).unwrap(), before);
    // As one that was killed leaves it.
    let wal = format!("{}-wal", bench.database().display());
    fs::write(&wal, "something").unwrap();
    chown(&wal, Some(65_534), Some(65_534)).unwrap();
    let output = as_nobody(&bench, &["report", "files"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(stderr(&output).contains("copy both to where you may write"), "{output:?}");
    mode(&bench.database(), 0);
    for verb in [&["status"][..], &["scan"]] {
        let output = as_nobody(&bench, verb);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(stderr(&output).contains("can't be opened: Permission denied"), "{output:?}");
    }
}

/// A snapshot, or a disk with a backup.
#[test]
fn a_database_on_a_read_only_mount_answers() {
    let bench = scanned();
    let answer = bench.dupes(&["report", "files"]).stdout;
    assert!(!answer.is_empty());
    let mut script = Command::new("unshare");
    script.args(["--mount", "--propagation", "private", "sh", "-c"]);
    script.arg(
        r#"mount --bind "$DATA" "$DATA" && mount -o remount,ro,bind "$DATA" || { echo unmountable; exit 0; }
        exec "$DUPES" report files --no-config --database "$DATA/dupes.db""#,
    );
    script.env("DATA", bench.database().parent().unwrap());
    script.env("DUPES", env!("CARGO_BIN_EXE_dupes")).stdin(Stdio::null());
    let Ok(output) = in_time("a read-only mount", move || script.output()) else {
        return eprintln!("skipped: there is no unshare");
    };
    if output.stdout.starts_with(b"unmountable") || stderr(&output).starts_with("unshare") {
        return eprintln!("skipped: may not mount: {}", stderr(&output));
    }
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(output.stdout, answer, "{output:?}");
}

/// On a disk of its own that is too small, and then not any more.
#[test]
fn a_full_disk_is_said_and_the_next_scan_goes_on() {
    let bench = Bench::new();
    for n in 0..3_000 {
        bench.write(&format!("{}/{:0200}", n % 7, n), format!("{:100}", n / 2));
    }
    let data = bench.dir.path().join("data");
    fs::create_dir(&data).unwrap();
    let mut script = Command::new("unshare");
    script.args(["--mount", "--propagation", "private", "sh", "-c"]);
    script.arg(
        r#"mount -t tmpfs -o size=600k,mode=700 none "$DATA" || { echo unmountable; exit 0; }
        scan() { "$DUPES" scan --no-config --progress never --database "$DATA/dupes.db" "$@"; }
        scan "$TREE"; echo "full $?"
        "$DUPES" verify --no-config --database "$DATA/dupes.db"; echo "verified $?"
        mount -o remount,size=64m "$DATA"
        scan; echo "roomy $?"
        cp "$DATA/dupes.db" "$OUT""#,
    );
    let out = bench.dir.path().join("out.db");
    script.env("DATA", &data).env("TREE", bench.tree()).env("OUT", &out);
    script.env("DUPES", env!("CARGO_BIN_EXE_dupes")).stdin(Stdio::null());
    let Ok(output) = in_time("a full disk", move || script.output()) else {
        return eprintln!("skipped: there is no unshare");
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() || said.contains("unmountable") {
        return eprintln!("skipped: may not mount: {}", stderr(&output));
    }
    assert!(said.contains("full 2"), "{output:?}");
    assert!(stderr(&output).contains("make room and run it again"), "{output:?}");
    assert!(said.contains("verified 0"), "what was written is sound: {output:?}");
    assert!(said.contains("roomy 0"), "{output:?}");
    let fresh = bench.dir.path().join("fresh.db");
    bench.scan_into(&fresh, &[], Duration::from_secs(10));
    assert_as_good_as_fresh(&dump(&out), &dump(&fresh));
}

// ------------------------------------------------------------ clocks and inodes

/// By a clock that is behind, files are of the future: what was read of them is not relied on.
#[test]
fn a_clock_that_goes_back_makes_nothing_wrong() {
    let bench = Bench::new();
    for name in ["a", "b"] {
        bench.write(name, "the same");
    }
    let yesterday = SystemTime::now() - Duration::from_secs(86_400);
    let scan_at = |now| bench.scan_at(&bench.database(), &[], now);
    assert_eq!(number(&scan_at(yesterday), "reads"), 2);
    assert_eq!(number(&scan_at(yesterday), "reads"), 2, "they may have changed since");
    assert_eq!(number(&bench.scan(&[]), "reads"), 2, "and so may they by a clock that is right");
    assert_eq!(number(&bench.scan(&[]), "reads"), 0);
    // What was known when the clock was right is known.
    assert_eq!(number(&scan_at(yesterday), "reads"), 0);
    bench.write("b", "two ones");
    assert_eq!(number(&scan_at(yesterday), "changed"), 1);
    bench.write("b", "no other");
    bench.scan(&[]);
    is_as_fresh(&bench);
}

/// Another file under the number, the name, the size and the time of one that is gone.
#[test]
fn an_inode_that_is_given_again_is_another_file() {
    let bench = Bench::new();
    bench.write("a", "the same");
    bench.write("b", "the same");
    bench.scan(&[]);
    let before = fs::metadata(bench.path("b")).unwrap();
    fs::remove_file(bench.path("b")).unwrap();
    // Others stay, so that the number comes by again.
    let is_given_again = (0..2_000).any(|n| {
        let name = format!("b-{n}");
        bench.write(&name, "another!");
        fs::metadata(bench.path(&name)).unwrap().ino() == before.ino()
            && fs::rename(bench.path(&name), bench.path("b")).is_ok()
    });
    if !is_given_again {
        return eprintln!("skipped: this file system gives no number twice so soon");
    }
    let file = fs::File::options().write(true).open(bench.path("b")).unwrap();
    file.set_modified(before.modified().unwrap()).unwrap();
    let now = fs::metadata(bench.path("b")).unwrap();
    assert_eq!(
        (now.ino(), now.len(), now.mtime_nsec()),
        (before.ino(), before.len(), before.mtime_nsec())
    );
    assert_eq!(number(&bench.scan(&[]), "changed"), 1);
    is_as_fresh(&bench);
}

// ------------------------------------------------------------ races

/// Others write, remove, rename and link while it is scanned, again and again; the first scan that is left
/// alone has everything right.
#[test]
fn writers_that_race_with_scans_leave_nothing_wrong() {
    let bench = Bench::new();
    for n in 0..200 {
        bench.write(&format!("{}/{}", n % 10, n), format!("{:100}", n % 30));
    }
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for writer in 0..3_usize {
            let (bench, over) = (&bench, &over);
            scope.spawn(move || {
                let mut n = writer;
                while !over.load(Relaxed) {
                    n = n
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    let pick = |shift: usize| (n >> shift) % 200;
                    let (one, other) = (pick(20), pick(33));
                    let path = |n: usize| bench.path(&format!("{}/{n}", n % 10));
                    // Most fail at times: another one was quicker.
                    let _ = match (n >> 50) % 6 {
                        0 | 1 => fs::write(path(one), format!("{:100}", other % 30)),
                        2 => fs::remove_file(path(one)),
                        3 => fs::rename(path(one), path(other)),
                        4 => fs::hard_link(path(one), path(other)),
                        _ => fs::rename(
                            bench.path(&format!("{}", one % 10)),
                            bench.path(&format!("moved-{}", one % 10)),
                        )
                        .and_then(|()| fs::create_dir(bench.path(&format!("{}", one % 10)))),
                    };
                }
            });
        }
        for _ in 0..10 {
            let summary = bench.scan(&[]);
            assert!(matches!(summary["state"].as_str(), Some("complete" | "unread")), "{summary}");
        }
        over.store(true, Relaxed);
    });
    bench.scan(&[]);
    let again = bench.scan(&[]);
    assert_eq!((number(&again, "reads"), number(&again, "changed")), (0, 0), "nothing has changed");
    is_as_fresh(&bench);
    let verified = bench.dupes(&["verify"]);
    assert_eq!(verified.status.code(), Some(0), "{verified:?}");
}

/// A large file is sampled first, and read to its end when the folder that it lies in may have been recorded.
#[test]
fn whatever_is_learned_of_large_files_is_recorded() {
    let bench = Bench::new();
    for n in 0..150 {
        // Read when all of their folder but the large ones was.
        (0..8).for_each(|small| bench.write(&format!("{n}/{small}"), "y"));
        bench.write(&format!("{n}/a"), "x".repeat(70_000 + n % 3));
        bench.write(&format!("{n}/b"), "x".repeat(70_000 + n % 3));
    }
    let tree = bench.tree();
    for _ in 0..5 {
        let output = bench.dupes(&["scan", "--restart", tree.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let found: serde_json::Value = json(&bench.dupes(&["report", "files", "--json"]));
        let sets = found["groups"].as_array().unwrap().iter();
        let sizes: Vec<usize> = sets.map(|set| set["paths"].as_array().unwrap().len()).collect();
        assert_eq!(sizes, [100, 100, 100, 1_200]);
    }
}
