//! What acting says of itself before and after: what it leaves alone, what it would do, and what it came to.

mod support;

#[path = "support/acts.rs"]
mod acts;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown};
use std::process::{Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};

use acts::{Acts, manifest};
use support::{can_inject, in_time};

fn three() -> Acts {
    let acts = Acts::with(&[("a", "same"), ("b", "same"), ("x/c", "same"), ("d", "other")]);
    fs::create_dir(acts.beside("moved")).unwrap();
    acts
}

/// The journals in a folder, by name.
fn journals(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "journal")).collect();
    all.sort();
    all
}

// ---------------------------------------------------------------- what is left alone

#[test]
fn journals_are_never_acted_on() {
    for action in ["remove", "hardlink"] {
        let acts = three();
        let (code, said) = acts.apply(&["remove", "tree", "--journal", "tree/journals"]);
        assert_eq!(code, 0, "{said}");
        let journal = journals(&acts.path("journals")).pop().unwrap();
        for copy in ["0", "1"] {
            fs::copy(&journal, acts.path(copy)).unwrap();
        }
        // By somebody who does not know what it is.
        acts.runs(&["plan", "tree", "-o", "plan", "--keep", "name:0"]);
        let before = fs::read(&journal).unwrap();
        for more in [&["tree", "--keep", "name:0"][..], &["--plan", "plan"]] {
            let words = [&[action], more, &["--journal", "tree/journals"]].concat();
            let (_, said) = acts.apply(&words);
            assert!(journal.exists(), "{said}");
            assert_eq!(fs::read(&journal).unwrap(), before, "{said}");
            assert_eq!(acts.has("1"), action == "hardlink", "the copy is a file as any: {said}");
            let of_dupes = "is a journal, a database or in a quarantine of dupes itself";
            assert_eq!(said.contains(of_dupes), more[0] == "--plan", "{said}");
        }
        acts.runs(&["log", "--journal", "tree/journals"]);
    }
}

#[test]
fn databases_are_never_acted_on() {
    let acts = three();
    acts.runs(&["scan", "tree", "--database", "tree/db"]);
    fs::copy(acts.path("db"), acts.path("0")).unwrap();
    let (code, said) = acts.apply(&["remove", "tree", "--database", "tree/db", "--keep", "name:0"]);
    assert_eq!(code, 0, "{said}");
    assert!(acts.has("db") && !acts.has("b"), "{said}");
}

#[test]
fn nothing_is_put_below_a_reference() {
    let acts = three();
    fs::create_dir_all(acts.beside("ref/deep")).unwrap();
    fs::write(acts.beside("ref/z"), "same").unwrap();
    let before = manifest(&acts.beside("ref"));
    for place in ["ref", "ref/deep", "tree/../ref"] {
        for words in [&["remove", "--quarantine", place][..], &["move", "--to", place]] {
            for execute in [&["--execute"][..], &[]] {
                let search = ["tree", "--reference", "ref"];
                let (_, err) = acts.ends(&[&["apply"], words, &search, execute].concat(), 1);
                assert!(err.contains("lies below a reference"), "{err}");
                acts.runs(&["plan", "tree", "--reference", "ref", "-o", "plan"]);
                let words = [&["apply"], words, &["--plan", "plan"], execute].concat();
                let (_, err) = acts.ends(&words, 1);
                assert!(err.contains("lies below a reference"), "{err}");
            }
        }
    }
    assert_eq!(manifest(&acts.beside("ref")), before);
    assert!(acts.has("a") && acts.has("b"));
}

// ---------------------------------------------------------------- sums

#[test]
fn a_file_with_a_name_that_was_renamed_since_frees_nothing() {
    let acts = Acts::with(&[("a", "same"), ("b", "same")]);
    fs::hard_link(acts.path("b"), acts.path("b2")).unwrap();
    acts.runs(&["plan", "tree", "-o", "plan"]);
    fs::rename(acts.path("b2"), acts.path("b3")).unwrap();
    let words = ["apply", "remove", "--plan", "plan", "--json"];
    for more in [&[][..], &["--execute", "--quarantine", "aside"]] {
        // The one that is not there any more is told.
        let all = events(&acts.ends(&[&words[..], more].concat(), 3).0);
        let end = all.last().unwrap();
        assert_eq!((&end["done"], &end["freed_by_purge"]), (&1.into(), &0.into()), "{all:?}");
    }
}

fn events(out: &str) -> Vec<serde_json::Value> {
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn what_is_deleted_at_once_is_told_once_and_as_it_went() {
    let text = "x".repeat(10_000);
    let scene = || Acts::with(&[("a", &text), ("b", &text), ("x/c", &text)]);
    let words =
        ["apply", "remove", "tree", "--no-undo", "--yes", "--execute", "--quarantine", "aside"];
    let acts = scene();
    let out = acts.runs(&words);
    let last = out.lines().last().unwrap();
    assert!(last.starts_with("deleted 2 names; ") && last.contains(" 0 bytes by "), "{out}");
    assert!(!out.contains("undo"), "there is nothing to take back: {out}");
    let acts = scene();
    let all = events(&acts.runs(&[&words[..], &["--json"]].concat()));
    let ends: Vec<_> = all.iter().filter(|event| event["event"] == "end").collect();
    assert_eq!(ends.len(), 1, "{all:?}");
    assert_eq!((&ends[0]["deleted"], &ends[0]["freed_by_purge"]), (&2.into(), &0.into()));
    assert!(ends[0]["freed_now"].as_u64() >= Some(20_000), "{all:?}");

    // One that can't be deleted is in the quarantine, and said to be there.
    if !can_inject() {
        return;
    }
    let acts = scene();
    let mut traced = Command::new("strace");
    let inject = "inject=unlinkat:error=EIO:when=1";
    traced.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=unlinkat", "-e", inject]);
    let plain = acts.command(&[&words[..], &["--json", "--threads", "1"]].concat());
    traced.arg(plain.get_program());
    let mut traced = acts::through(traced, &plain);
    let output = in_time("a purge that fails", move || traced.output().unwrap());
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let all = events(std::str::from_utf8(&output.stdout).unwrap());
    assert_eq!(all.iter().filter(|event| event["event"] == "kept").count(), 1, "{all:?}");
    let end = all.last().unwrap();
    assert_eq!((&end["event"], &end["deleted"]), (&"end".into(), &1.into()));
    let sums = [&end["freed_now"], &end["freed_by_purge"]].map(|sum| sum.as_u64().unwrap());
    assert!(sums[0] >= 10_000 && sums[0] == sums[1], "{end}");
    acts.runs(&["undo", end["id"].as_str().unwrap()]);
    assert!(acts.has("b") != acts.has("x/c"));
}

/// It was to delete at once, and was told to stop: what is in the quarantine is not said to be freed.
#[test]
fn what_was_stopped_before_it_was_deleted_frees_nothing_yet() {
    let acts = Acts::new();
    let count = 3_000;
    for n in 0..count {
        acts.write(&format!("{}/{n}", n % 7), "same");
    }
    let words = [
        "apply",
        "remove",
        "tree",
        "--no-undo",
        "--yes",
        "--json",
        "--execute",
        "--quarantine",
        "aside",
    ];
    let mut child = acts.command(&words).stdout(Stdio::piped()).spawn().unwrap();
    // More than fits into a pipe is still to come: it is in the middle of it.
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    out.read_line(&mut text).unwrap();
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    let (text, status) = in_time("it ends when it is told to", move || {
        out.read_to_string(&mut text).unwrap();
        (text, child.wait().unwrap())
    });
    assert_eq!(status.code(), Some(130));
    let all = events(&text);
    let end = all.last().unwrap();
    assert_eq!((&end["event"], &end["stopped"]), (&"end".into(), &true.into()));
    assert_eq!(
        (&end["freed_now"], &end["deleted"]),
        (&0.into(), &serde_json::Value::Null),
        "{end}"
    );
    assert!(end["freed_by_purge"].as_u64() > Some(0), "{end}");
    let (done, id) = (end["done"].as_u64().unwrap(), end["id"].as_str().unwrap());
    assert!(done > 0 && done < count - 1, "{end}");
    assert_eq!(acts.runs(&["undo", id]).lines().count() as u64, done + 1);
}

// ---------------------------------------------------------------- how it ends

/// A reader that goes away: what was begun goes on, all of it.
#[test]
fn a_closed_pipe_stops_nothing_that_was_begun() {
    let acts = three();
    let closed = |words: &[&str]| {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = acts.command(words);
        command.stdout(writer).stderr(Stdio::null());
        in_time("a run that nobody reads", move || command.status().unwrap().code())
    };
    let words = ["apply", "remove", "--execute", "--quarantine", "aside"];
    assert_eq!(closed(&[&words[..], &["tree/a", "tree/b"]].concat()), Some(141));
    assert_eq!(closed(&[&words[..], &["tree/a", "tree/x"]].concat()), Some(141));
    assert!(acts.has("a") && !acts.has("b") && !acts.has("x/c"));
    for _ in 0..2 {
        assert_eq!(closed(&["undo"]), Some(141));
    }
    assert!(acts.has("b") && acts.has("x/c"));
    acts.apply(&["remove", "tree/a", "tree/b"]);
    acts.apply(&["remove", "tree/a", "tree/x"]);
    assert_eq!(closed(&["purge-quarantine", "--yes"]), Some(141));
    assert_eq!(acts.runs(&["log"]).matches("purged 1").count(), 2, "of both runs");
}

// ---------------------------------------------------------------- what is given back

#[test]
fn a_file_that_its_owner_may_not_write_to_gets_its_attributes_back() {
    for action in ["hardlink", "symlink"] {
        let acts = Acts::with(&[("a", "same"), ("b", "same")]);
        for name in ["a", "b"] {
            let path = acts.path(name);
            let flags = rustix::fs::XattrFlags::empty();
            if rustix::fs::setxattr(&path, "user.note", b"mine", flags).is_err() {
                return eprintln!("skipped: no attributes here");
            }
            let file = File::options().append(true).open(&path).unwrap();
            file.set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000)).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
        }
        // What a list lets others do is not what the mode says of it.
        let list = |words: &[&str], name: &str| {
            let done = Command::new("setfacl").args(words).arg(acts.path(name)).status();
            done.is_ok_and(|done| done.success())
        };
        let has_lists = ["a", "b"].into_iter().all(|name| list(&["-m", "u:1000:r"], name));
        if !has_lists {
            eprintln!("skipped in part: no access lists here");
        }
        let words = ["apply", action, "tree", "--execute"];
        let Some((code, said)) = acts.as_nobody(&words) else { return };
        assert_eq!(code, 0, "{said}");
        let linked = acts.manifest();
        let (code, said) = acts.as_nobody(&["undo"]).unwrap();
        assert_eq!(code, 0, "{said}");
        let after = acts.manifest();
        assert_ne!(after, linked);
        let [one, other] = ["a", "b"].map(|name| after[std::path::Path::new(name)].clone());
        assert_eq!(one.xattrs, other.xattrs);
        assert_eq!(one.xattrs.len(), 1 + usize::from(has_lists));
        assert_eq!(
            (one.mode, one.mtime, other.content),
            (other.mode, other.mtime, b"same".to_vec())
        );
        assert_ne!(acts.inode("a"), acts.inode("b"));
    }
}

const NOBODY: u32 = 65_534;

/// None, said to be skipped, where that can't be.
fn all_is_nobodys_but(acts: &Acts, name: &str) -> Option<()> {
    acts.as_nobody(&["find", "tree"])?;
    chown(acts.path(name), Some(1000), Some(1000)).unwrap();
    Some(())
}

/// What undo could not give back is not taken.
#[test]
fn a_file_that_only_root_could_give_back_to_its_owner_is_not_linked() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: only root can give a file to somebody else");
    }
    let words = ["--allow-differing", "owner", "tree"];
    for action in ["hardlink", "symlink"] {
        for (more, execute) in [(&[][..], false), (&words[..2], false), (&words[..2], true)] {
            let acts = Acts::with(&[("a", "same"), ("b", "same")]);
            let mut words = [&["apply", action, "tree"], more].concat();
            words.extend(execute.then_some("--execute"));
            let Some(()) = all_is_nobodys_but(&acts, "b") else { return };
            let (code, said) = acts.as_nobody(&words).unwrap();
            assert!(code == 3 && said.contains("undo could not give back"), "{code}: {said}");
            assert!(said.contains(" 0 names"), "{said}");
            assert_ne!(acts.inode("a"), acts.inode("b"));
        }
    }
    // One that is ours can be ours again.
    let acts = Acts::with(&[("a", "same"), ("b", "same")]);
    let before = acts.inode("b");
    let words = [&["apply", "symlink", "--execute"], &words[..]].concat();
    all_is_nobodys_but(&acts, "a").unwrap();
    let (code, said) = acts.as_nobody(&words).unwrap();
    assert!(code == 0 && acts.inode("b") != before, "{said}");
    let (code, said) = acts.as_nobody(&["undo"]).unwrap();
    assert_eq!(code, 0, "{said}");
    let all = acts.manifest();
    let owner = |name: &str| all[std::path::Path::new(name)].owner;
    assert_eq!((owner("a"), owner("b")), ((1000, 1000), (NOBODY, NOBODY)));
}

/// A folder that gives new files an access list gives none to what is restored.
#[test]
fn a_file_that_had_no_access_list_gets_none_from_its_folder() {
    for action in ["hardlink", "symlink"] {
        let acts = Acts::with(&[("a", "same"), ("b", "same")]);
        let before = acts.manifest();
        let given =
            Command::new("setfacl").args(["-d", "-m", "u:1000:rwx"]).arg(acts.tree()).status();
        if !given.is_ok_and(|given| given.success()) {
            return eprintln!("skipped: no access lists here");
        }
        let (code, said) = acts.apply(&[action, "tree"]);
        assert_eq!(code, 0, "{said}");
        acts.runs(&["undo"]);
        assert_eq!(acts.manifest(), before, "{action}");
    }
}

#[test]
fn holes_stay_holes_when_a_link_is_undone() {
    let acts = Acts::new();
    let size = 64 << 20;
    for name in ["a", "b"] {
        let file = File::create(acts.path(name)).unwrap();
        for at in [5_000_000, 20_000_001] {
            file.write_all_at(&[7; 9_000], at).unwrap();
        }
        file.set_len(size).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000)).unwrap();
    }
    let blocks = |name| fs::metadata(acts.path(name)).unwrap().blocks() * 512;
    if blocks("a") > size / 2 {
        return eprintln!("skipped: no holes here");
    }
    let before = acts.manifest();
    for action in ["hardlink", "symlink"] {
        let (code, said) = acts.apply(&[action, "tree"]);
        assert_eq!(code, 0, "{said}");
        acts.runs(&["undo"]);
        assert_eq!(acts.manifest(), before);
        assert!(blocks("b") <= blocks("a") + (1 << 16), "{} and {}", blocks("b"), blocks("a"));
    }
}

// ---------------------------------------------------------------- what a dry run promises

/// It says what the run says then: what it would do, and what it would leave.
#[track_caller]
fn foretold(acts: &Acts, words: &[&str], expected: &str) {
    let all = |more: &[&str]| {
        let output = acts.run(&[&["apply"], words, &["--json"], more].concat());
        let events = events(std::str::from_utf8(&output.stdout).unwrap());
        let word = |event: &serde_json::Value| {
            let word = event["event"].as_str().unwrap().replace("would", "done");
            (word, event["path"].to_string(), event["why"].to_string())
        };
        let mut all: Vec<_> = events.iter().map(word).filter(|it| it.0 != "end").collect();
        all.sort();
        (output.status.code(), all)
    };
    let (said, done) = (all(&[]), all(&["--execute"]));
    assert_eq!(said, done, "{words:?}");
    let words = said.1.iter().map(|(word, _, why)| format!("{word} {why}"));
    assert!(words.clone().any(|it| it == expected), "{:?}", words.collect::<Vec<_>>());
}

#[test]
fn a_dry_run_promises_nothing_that_can_be_seen_not_to_be() {
    let acts = three();
    fs::create_dir(acts.beside("moved/x")).unwrap();
    fs::write(acts.beside("moved/b"), "in the way").unwrap();
    foretold(&acts, &["move", "tree", "--to", "moved"], "refused \"occupied\"");
    assert!(!acts.has("x/c") && acts.has("b"), "the other was moved");
    // Two ways to one place.
    let acts = three();
    for root in ["one", "two"] {
        fs::create_dir(acts.beside(root)).unwrap();
        fs::write(acts.beside(root).join("same"), "same").unwrap();
    }
    let words = ["move", "tree/a", "one", "two", "--to", "moved", "--keep", "first"];
    foretold(&acts, &words, "refused \"occupied\"");
    // A file where a folder would have to be.
    let acts = three();
    fs::write(acts.beside("moved/x"), "no folder").unwrap();
    foretold(&acts, &["move", "tree", "--to", "moved"], "refused \"folder-is-link\"");

    let acts = three();
    let elsewhere = tempfile::tempdir_in("/dev/shm");
    let device = |path: &std::path::Path| fs::metadata(path).unwrap().dev();
    match elsewhere.as_ref().ok().filter(|it| device(it.path()) != device(&acts.tree())) {
        None => eprintln!("skipped: there is only one file system"),
        Some(other) => {
            let other = other.path().to_str().unwrap();
            let words = ["move", "tree", "--to", other];
            foretold(&acts, &words, "refused \"other-file-system\"");
            let words = ["remove", "tree", "--quarantine", other];
            foretold(&acts, &words, "refused \"no-quarantine\"");
            // In memory nothing is shared.
            for name in ["a", "b"] {
                fs::write(std::path::Path::new(other).join(name), "same").unwrap();
            }
            foretold(&acts, &["reflink", other], "refused \"unsupported\"");
        }
    }
    // Somebody else could take it away.
    fs::set_permissions(acts.quarantine(), fs::Permissions::from_mode(0o777)).unwrap();
    let words = ["remove", "tree", "--quarantine", "aside"];
    foretold(&acts, &words, "refused \"no-quarantine\"");
    assert_eq!(fs::read_dir(acts.quarantine()).unwrap().count(), 0);
    assert!(["a", "b", "x/c"].into_iter().all(|name| acts.has(name)));
}

#[test]
fn a_dry_run_knows_what_may_not_be_changed() {
    let acts = three();
    fs::set_permissions(acts.path("x"), fs::Permissions::from_mode(0o555)).unwrap();
    for action in ["remove", "hardlink", "symlink"] {
        let words = ["apply", action, "tree", "--keep", "name:b", "--json"];
        let Some((code, said)) = acts.as_nobody(&words) else { return };
        assert_eq!(code, 3, "{said}");
        let all = events(
            &said.lines().filter(|line| line.starts_with('{')).collect::<Vec<_>>().join("\n"),
        );
        let why = |name: &str| {
            let is = |event: &&serde_json::Value| {
                event["path"].as_str().is_some_and(|path| path.ends_with(name))
            };
            all.iter().find(is).unwrap()["why"].clone()
        };
        assert_eq!(
            (why("x/c"), why("tree/a")),
            ("failed".into(), serde_json::Value::Null),
            "{said}"
        );
    }
    fs::set_permissions(acts.path("x"), fs::Permissions::from_mode(0o755)).unwrap();
}

// ---------------------------------------------------------------- deleting for good

/// What stayed for one run went in the next: the bytes are where they stayed then.
#[test]
fn what_stayed_later_is_a_copy_too() {
    for folders in [false, true] {
        let acts = Acts::new();
        for name in ["a", "b", "c"] {
            acts.write(&format!("{name}/f/1"), "same");
            acts.write(&format!("{name}/f/2"), "other");
        }
        let remove = |keep: &str, go: &str| {
            let mut words = vec!["remove", keep, go, "--keep", "first"];
            words.extend(folders.then_some("--folders"));
            let (code, said) = acts.apply(&words);
            assert_eq!(code, 0, "{said}");
            said.trim_end().rsplit(' ').next().unwrap().to_owned()
        };
        let first = remove("tree/a", "tree/b");
        remove("tree/c", "tree/a");
        assert!(acts.has("c/f/1") && !acts.has("a/f/1") && !acts.has("b/f/2"));
        acts.runs(&["purge-quarantine", &first, "--yes"]);
        assert!(acts.runs(&["log", &first]).contains("purged"));
        // The last copy of a content is not purged, whoever stayed.
        fs::remove_file(acts.path("c/f/1")).unwrap();
        let (out, err) = acts.ends(&["purge-quarantine", "--yes"], 3);
        assert!(err.contains("it may be the last one"), "{out}{err}");
        acts.runs(&["undo"]);
        assert_eq!((acts.read("a/f/1"), acts.has("a/f/2")), ("same".into(), folders));
    }
}

#[test]
fn a_folder_with_an_unread_child_is_no_duplicate() {
    for unread in ["a/more", "b/more", "a/folder", "b/folder"] {
        let acts =
            Acts::with(&[("a/x", "same"), ("a/y", "twice"), ("b/x", "same"), ("b/y", "twice")]);
        // Equal but for what nobody can look at; an unread file has a copy for whoever could.
        for folder in ["a", "b"] {
            acts.write(&format!("{folder}/more"), "more");
            acts.write(&format!("{folder}/folder/in"), "in it");
        }
        fs::set_permissions(acts.path(unread), PermissionsExt::from_mode(0o000)).unwrap();
        for more in [&[][..], &["--execute", "--quarantine", "aside"]] {
            let words = [&["apply", "remove", "tree", "--folders"], more].concat();
            let Some((code, said)) = acts.as_nobody(&words) else { return };
            assert!(code == 3 && !said.contains("tree/b/  of "), "{unread}: {said}");
            assert!(said.contains("tree/b/x  (stays: "), "{unread}: file by file: {said}");
        }
        fs::set_permissions(acts.path(unread), PermissionsExt::from_mode(0o700)).unwrap();
        for folder in ["a", "b"] {
            assert!(acts.has(unread) && acts.has(folder), "{unread}");
        }
    }
}
