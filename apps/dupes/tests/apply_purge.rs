//! What is deleted for good, and what a purge that did not come to its end leaves: told as it is, and never for more.

mod support;

#[path = "support/acts.rs"]
mod acts;

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use acts::{Acts, manifest, through};
use rustix::process::{Pid, Signal, kill_process};
use support::{can_inject, copy_program_to, in_time, in_time_of};

/// `A` and `B` are equal.
fn two_folders() -> Acts {
    let acts = Acts::new();
    for top in ["A", "B"] {
        for name in ["a", "b", "fixed/c"] {
            acts.write(&format!("{top}/{name}"), format!("content {name}"));
        }
    }
    acts
}

fn files(folder: &Path) -> usize {
    manifest(folder).into_values().filter(|item| item.mode & 0o170_000 == 0o100_000).count()
}

/// As a cache of modules has them: nobody may change what is in it, not even its owner, and all of it is his.
#[test]
fn a_folder_with_a_read_only_one_in_it_is_purged_by_its_owner() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: needs root, to become somebody whom permissions bind");
    }
    for at_once in [false, true] {
        let acts = two_folders();
        let binary = acts.beside("dupes");
        copy_program_to(&binary);
        for top in ["A", "B"] {
            fs::set_permissions(acts.path(top).join("fixed"), PermissionsExt::from_mode(0o555))
                .unwrap();
        }
        let dir = acts.beside("");
        let mut all = vec![dir.clone(), acts.quarantine(), acts.tree()];
        all.extend(manifest(&acts.tree()).into_keys().map(|path| acts.tree().join(path)));
        all.iter()
            .for_each(|path| std::os::unix::fs::chown(path, Some(65_534), Some(65_534)).unwrap());
        let run = |words: &[&str]| {
            let mut wrapper = Command::new("setpriv");
            wrapper.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&binary);
            let mut command = through(wrapper, &acts.command(words));
            let output = in_time("dupes", move || command.output().unwrap());
            let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
            (output.status.code().unwrap(), said)
        };
        let mut words =
            vec!["apply", "remove", "tree", "--folders", "--execute", "--quarantine", "aside"];
        if at_once {
            words.extend(["--no-undo", "--yes"]);
        }
        let (code, said) = run(&words);
        assert_eq!(code, 0, "{said}");
        if !at_once {
            let (code, said) = run(&["purge-quarantine", "--yes"]);
            assert_eq!(code, 0, "{said}");
            assert!(said.contains("deleted: 1\n"), "{said}");
        }
        assert_eq!((files(&acts.quarantine()), files(&acts.tree())), (0, 3));
        let (code, said) = run(&["undo"]);
        assert!(code != 0 && said.contains("nothing to undo"), "{said}");
    }
}

/// In the middle of a folder: what is gone is gone, and everybody says so until the rest is.
#[test]
fn a_folder_that_was_purged_in_part_is_never_told_to_be_restored() {
    if !can_inject() {
        return;
    }
    // Killed, or an error of the disk.
    for what in ["signal=KILL", "error=EIO"] {
        let acts = two_folders();
        acts.apply(&["remove", "tree", "--folders"]);
        let mut strace = Command::new("strace");
        strace.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=unlinkat"]);
        strace.args(["-e", &format!("inject=unlinkat:{what}:when=3")]);
        strace.arg(env!("CARGO_BIN_EXE_dupes"));
        let mut command = through(strace, &acts.command(&["purge-quarantine", "--yes"]));
        let output = in_time("purge", move || command.output().unwrap());
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        if what == "signal=KILL" {
            let (out, err) = acts.ends(&["recover", "roll-back"], 3);
            assert!(out.contains("settled: 0, not: 1"), "{out}{err}");
        } else {
            assert_eq!(output.status.code(), Some(3), "{said}");
            assert!(said.contains("deleted: 0, in part: 1"), "{said}");
            assert!(said.contains("not all of it deleted: could not delete it"), "{said}");
        }
        let left = files(&acts.quarantine());
        let gone = format!("{} of its 3 files ", 3 - left);
        assert!(left < 3, "{what}: {said}");
        let log = acts.runs(&["log"]);
        assert!(log.contains("partly purged 1") && !log.contains("INTERRUPTED"), "{log}");
        let (out, err) = acts.ends(&["undo"], 3);
        assert!(out.contains("restored: 0, not: 1"), "{out}{err}");
        assert!(err.contains(&gone) && err.contains("B: not restored"), "{err}");
        assert!(!acts.has("B") && files(&acts.quarantine()) == left);
        let out = acts.runs(&["purge-quarantine", "--yes"]);
        assert!(out.contains("deleted: 1\n"), "{out}");
        assert_eq!((files(&acts.quarantine()), files(&acts.tree())), (0, 3));
    }
}

const AT_ONCE: [&str; 10] = [
    "apply",
    "remove",
    "tree",
    "--no-undo",
    "--yes",
    "--execute",
    "--quarantine",
    "aside",
    "--threads",
    "1",
];

/// Whatever moment that is: the same command deletes the rest, and what is said of it is so.
#[test]
fn deleting_at_once_that_is_killed_at_any_step_is_gone_on_with_by_the_same_command() {
    if !can_inject() {
        return;
    }
    let mut waited = 0;
    for call in ["fdatasync", "renameat2", "unlinkat"] {
        for when in 1.. {
            let acts = Acts::with(&[("a", "same"), ("b", "same"), ("x/c", "same")]);
            let mut strace = Command::new("strace");
            strace.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}")]);
            strace.args(["-e", &format!("inject={call}:signal=KILL:when={when}")]);
            strace.arg(env!("CARGO_BIN_EXE_dupes"));
            let mut command = through(strace, &acts.command(&AT_ONCE));
            if in_time(call, move || command.output().unwrap()).status.success() {
                break; // so often it is not called
            }
            let what = format!("killed at the {when}. {call}");
            let all = || files(&acts.tree()) + files(&acts.quarantine());
            loop {
                let (aside, before) = (files(&acts.quarantine()), all());
                let output = acts.run(&AT_ONCE);
                let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
                let what = format!("{what}: {said}");
                if said.contains("was interrupted") {
                    assert_eq!((output.status.code(), all()), (Some(2), before), "{what}");
                    let (_, err) = acts.ends(&["recover", "finish"], 0);
                    let left = files(&acts.quarantine());
                    let are = if left == 1 { "1 name is" } else { &format!("{left} names are") };
                    let is_said = err.contains(&format!("{are} in the quarantine: dupes purge-q"));
                    assert_eq!(is_said, left > 0, "{what}{err}");
                    continue;
                }
                assert_eq!(output.status.code(), Some(0), "{what}");
                let (gone, left) = (before - all(), format!("{aside} name"));
                assert!(said.contains(&format!("deleted {gone} name")), "{gone}: {what}");
                assert!(said.contains(", 0 bytes by dupes purge-quarantine"), "{what}");
                assert_eq!(said.contains("in the quarantine: dupes purge-"), aside > 0, "{what}");
                assert!(aside == 0 || said.contains(&left), "{left}: {what}");
                waited += aside;
                break;
            }
            assert_eq!((files(&acts.quarantine()), files(&acts.tree())), (0, 1), "{what}");
            assert_eq!(acts.read("a"), "same", "{what}");
            let (out, err) = acts.ends(&AT_ONCE, 0);
            assert!(out.contains("deleted 0 names;") && err.is_empty(), "{what}: {out}{err}");
        }
    }
    assert!(waited > 0, "some were in the quarantine when it was killed");
}

/// Others say so, and leave it alone; who takes it back wants it.
#[test]
fn what_was_to_be_deleted_at_once_is_deleted_by_nobody_else() {
    if !can_inject() {
        return;
    }
    let acts = Acts::with(&[("a", "same"), ("b", "same"), ("c", "more"), ("d", "more")]);
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=unlinkat"]);
    strace.args(["-e", "inject=unlinkat:error=EIO:when=1+"]);
    strace.arg(env!("CARGO_BIN_EXE_dupes"));
    let mut command = through(strace, &acts.command(&AT_ONCE));
    assert_eq!(in_time("dupes", move || command.output().unwrap()).status.code(), Some(3));
    assert_eq!(files(&acts.quarantine()), 2);
    let words = "2 names are in the quarantine: dupes purge-quarantine 2";
    let apply = ["apply", "remove", "tree", "--quarantine", "aside"];
    for more in [&[][..], &["--no-undo"], &["--execute"]] {
        let (_, err) = acts.ends(&[&apply, more].concat(), 0);
        assert!(err.contains(words), "{err}");
        assert_eq!(files(&acts.quarantine()), 2, "{more:?}");
    }
    // It is asked for them, too.
    let (_, err) = acts.ends(&[&apply[..], &["--execute", "--no-undo"]].concat(), 1);
    assert!(err.contains("Delete 2 files (8.0 KiB) for good?"), "{err}");
    // One can't go back.
    acts.write("b", "in the way");
    acts.ends(&["undo"], 3);
    let (out, err) = acts.ends(&AT_ONCE, 0);
    assert!(!err.contains("was to delete") && out.contains("deleted 1 name;"), "{out}{err}");
    assert_eq!(files(&acts.quarantine()), 1, "that one is still there");
}

/// Three names of two files, one of them with holes, and a folder.
#[test]
fn it_asks_for_as_much_as_apply_has_told() {
    let acts = Acts::new();
    let bytes = vec![7; 1 << 20];
    for top in ["A", "B"] {
        acts.write(&format!("{top}/in"), "in a folder");
        acts.write(&format!("{top}/other"), "another one");
    }
    acts.write("a", &bytes);
    acts.write("b", &bytes);
    fs::hard_link(acts.path("b"), acts.path("c")).unwrap();
    for name in ["sparse1", "sparse2"] {
        acts.write(name, "");
        let file = fs::File::options().write(true).open(acts.path(name)).unwrap();
        file.set_len(100 << 20).unwrap();
    }
    let words = ["remove", "tree", "--folders"];
    let asked = |words: &[&str]| acts.ends(words, 1).1;
    let at_once = asked(&[&["apply"], &words[..], &["--execute", "--no-undo"]].concat());
    let (code, said) = acts.apply(&words);
    assert_eq!(code, 0, "{said}");
    let later = said.split("freed now, ").nth(1).unwrap().split(" by dupes").next().unwrap();
    let question = format!("Delete 2 files and 1 folder ({later}) for good?");
    assert!(at_once.contains(&question), "{at_once}{said}");
    let later = asked(&["purge-quarantine"]);
    assert!(later.contains(&question), "{later}{said}");
    // What has another name elsewhere frees nothing.
    let removed = manifest(&acts.quarantine());
    let one = removed.iter().find(|(_, item)| item.content == bytes).unwrap().0;
    fs::hard_link(acts.quarantine().join(one), acts.beside("elsewhere")).unwrap();
    let less = asked(&["purge-quarantine"]);
    assert!(less.contains("2 files and 1 folder (8.0 KiB)"), "{less}");
}

#[test]
fn one_of_them_is_said_to_be_one() {
    let acts = Acts::with(&[("a", "same"), ("b", "same")]);
    let out = acts.run(&["plan", "tree", "-o", "plan"]);
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(said.contains("of 1 set, 1 file that can go"), "{said}");
    acts.apply(&["remove", "tree"]);
    let (_, err) = acts.ends(&["purge-quarantine"], 1);
    assert!(err.contains("Delete 1 file (4.0 KiB) for good?"), "{err}");
}

// ---------------------------------------------------------------- Ctrl-C

/// Every read takes as long as on a disk that is slow. It is told to stop when `begun` is in the log of calls.
fn interrupted(
    acts: &Acts,
    words: &'static [&'static str],
    begun: &'static str,
) -> (ExitStatus, Duration) {
    let log = acts.beside("log");
    let mut strace = Command::new("env");
    strace.args(["--default-signal=INT", "strace", "-D", "-f", "-qq", "-o"]).arg(&log);
    strace.args(["-e", "trace=pread64,unlinkat,renameat2"]);
    strace.args(["-e", "inject=pread64:delay_exit=20000"]);
    strace.arg(env!("CARGO_BIN_EXE_dupes"));
    let mut command = through(strace, &acts.command(words));
    let mut child: Child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = Pid::from_child(&child);
    in_time_of(Duration::from_secs(60), "it ends when it is told to", move || {
        while !fs::read_to_string(&log).unwrap_or_default().contains(begun) {
            assert!(child.try_wait().unwrap().is_none(), "it has ended before");
            std::thread::yield_now();
        }
        kill_process(pid, Signal::INT).unwrap();
        let told = Instant::now();
        let status = child.wait().unwrap();
        let took = told.elapsed();
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        eprintln!("{words:?}: {took:?} {said}");
        (status, took)
    })
}

/// Not a measure: a hang detector. Without a stop each of these reads for half a minute.
const PROMISED: Duration = Duration::from_secs(5);

#[test]
fn a_signal_stops_a_purge_in_the_middle_of_a_folder_and_it_goes_on() {
    if !can_inject() {
        return;
    }
    let acts = Acts::new();
    for top in ["A", "B"] {
        fs::create_dir(acts.path(top)).unwrap();
        fs::write(acts.path(top).join("0"), "small").unwrap();
        let big = fs::File::create(acts.path(top).join("1")).unwrap();
        big.set_len(96 << 20).unwrap();
    }
    acts.apply(&["remove", "tree", "--folders"]);
    let (status, took) = interrupted(&acts, &["purge-quarantine", "--yes"], "unlinkat(");
    assert_eq!(status.code(), Some(130));
    assert!(took < PROMISED, "{took:?}");
    assert!(files(&acts.quarantine()) == 1 && acts.runs(&["log"]).contains("partly purged 1"));
    acts.runs(&["purge-quarantine", "--yes"]);
    assert_eq!((files(&acts.quarantine()), files(&acts.tree())), (0, 2));
}

#[test]
fn a_signal_stops_an_undo_in_the_middle_and_it_goes_on() {
    if !can_inject() {
        return;
    }
    let acts = Acts::new();
    for name in ["a", "b"] {
        acts.write(name, "");
        let file = fs::File::options().write(true).open(acts.path(name)).unwrap();
        file.set_len(256 << 20).unwrap();
    }
    fs::hard_link(acts.path("b"), acts.path("c")).unwrap();
    for name in ["a", "b"] {
        let file = fs::File::options().write(true).open(acts.path(name)).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(1_000_000)).unwrap();
    }
    let (code, said) = acts.apply(&["hardlink", "tree"]);
    assert_eq!(code, 0, "{said}");
    // The first name is in its place, and the other one is compared with it before it is linked to it.
    let (status, took) = interrupted(&acts, &["undo"], "RENAME_EXCHANGE");
    assert_eq!(status.code(), Some(130));
    assert!(took < PROMISED, "{took:?}");
    acts.runs(&["undo"]);
    assert_eq!(acts.inode("b"), acts.inode("c"));
    assert_ne!(acts.inode("a"), acts.inode("b"));
}

#[test]
fn what_somebody_has_taken_out_of_the_quarantine_is_not_told_to_be_deleted() {
    for how in [&["remove", "tree"][..], &["remove", "--folders", "tree"]] {
        let acts = two_folders();
        let (code, said) = acts.apply(how);
        assert_eq!(code, 0, "{said}");
        let below = |folder: &Path| fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
        let run = below(&below(&acts.quarantine()));
        let others = fs::read_dir(&run).unwrap().count() - 1;
        fs::rename(run.join("1"), acts.path("mine")).unwrap();
        let (out, err) = acts.ends(&["purge-quarantine", "--yes"], 0);
        assert!(out.ends_with(&format!("deleted: {others}, missing: 1\n")), "{out}");
        assert!(err.contains("not deleted") && err.contains("is not there any more"), "{err}");
        let log = acts.runs(&["log"]);
        assert!(log.contains("missing 1") && log.contains("purged") == (others > 0), "{log}");
        let (_, err) = acts.ends(&["purge-quarantine", "--yes"], 0);
        assert!(err.contains("nothing in the quarantine"), "it is settled: {err}");
        assert!(acts.has("mine"));
    }
}

/// Told to stop at the first line of the journal, while each change takes a while: in the middle of the first batch.
#[test]
fn what_was_not_begun_when_it_was_told_to_stop_is_counted_and_not_told_one_by_one() {
    if !can_inject() {
        return;
    }
    const COUNT: usize = 300;
    let acts = Acts::new();
    (0..=COUNT).for_each(|n| acts.write(&n.to_string(), "same"));
    for (words, done) in [(&["undo"][..], "restored"), (&["purge-quarantine", "--yes"], "deleted")]
    {
        acts.apply(&["remove", "tree"]);
        let mut strace = Command::new("env");
        strace.args(["--default-signal=INT", "strace", "-f", "-qq", "-o", "/dev/null"]);
        strace.args(["-e", "trace=fdatasync,renameat2,unlinkat"]);
        strace.args(["-e", "inject=fdatasync:signal=INT:when=1"]);
        strace.args(["-e", "inject=renameat2,unlinkat:delay_enter=20ms"]);
        strace.arg(env!("CARGO_BIN_EXE_dupes"));
        let mut command = through(strace, &acts.command(words));
        let out = in_time("it ends when it is told to", move || command.output().unwrap());
        let [said, err] = [out.stdout, out.stderr].map(|text| String::from_utf8(text).unwrap());
        assert_eq!(out.status.code(), Some(130), "{said}{err}");
        let lines = said.lines().filter(|line| line.starts_with(&format!("{done} "))).count();
        let sum = format!("{done}: {lines}, {} were not begun\n", COUNT - lines);
        assert!(said.ends_with(&sum), "{sum}: {said}");
        assert!(COUNT - lines > 64, "more than a batch: {lines}");
        assert!(!err.contains("was not begun"), "{err}");
        let how = format!("stopped before all was {done}: the same command goes on");
        assert!(err.contains(&how), "{err}");
        let rest = acts.runs(words);
        assert!(rest.ends_with(&format!("{done}: {}\n", COUNT - lines)), "{rest}");
    }
}
