//! Files that are not what they seem, and files that are not for us to touch: more of the ways in which other
//! tools have lost files.

mod support;

#[path = "support/acts.rs"]
mod acts;

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use acts::{Acts, manifest};
use rustix::fs::{XattrFlags, setxattr};
use serde_json::Value;

const ACTIONS: [&str; 4] = ["remove", "move", "hardlink", "symlink"];

/// The words of an action.
fn words(action: &str) -> Vec<&str> {
    if action == "move" { vec![action, "--to", "moved"] } else { vec![action] }
}

fn three() -> Acts {
    let acts = Acts::with(&[("a", "same"), ("b", "same"), ("x/c", "same"), ("d", "other")]);
    fs::create_dir(acts.beside("moved")).unwrap();
    acts
}

/// Another file in its place, of the same size and mtime.
fn replace_quietly(acts: &Acts, name: &str, text: &str) {
    let (path, new) = (acts.path(name), acts.beside("new"));
    fs::write(&new, text).unwrap();
    let mtime = fs::metadata(&path).unwrap().modified().unwrap();
    File::options().append(true).open(&new).unwrap().set_modified(mtime).unwrap();
    fs::rename(new, path).unwrap();
}

#[test]
fn a_victim_or_a_keeper_that_is_another_file_now_stays_with_its_copies() {
    for action in ACTIONS {
        for which in ["a", "b"] {
            let acts = three();
            acts.runs(&["plan", "tree", "-o", "plan"]);
            replace_quietly(&acts, which, "SAME");
            let (code, said) = acts.apply(&[&words(action)[..], &["--plan", "plan"]].concat());
            assert_eq!(code, 3, "{action} {which}: {said}");
            assert_eq!(acts.read(which), "SAME", "{action}: {said}");
            let others = if which == "a" { ["b", "x/c"] } else { ["a", "a"] };
            for name in others {
                assert_eq!(acts.read(name), "same", "{action} {which}: {said}");
                let found = fs::symlink_metadata(acts.path(name)).unwrap();
                assert!(found.is_file(), "{action} {which} {name}: {said}");
            }
        }
    }
}

/// As by a hash that two contents share: the plan says that they are copies, and all that it knows of them is true.
#[test]
fn a_plan_that_takes_different_files_for_copies_is_not_believed() {
    for action in ACTIONS {
        let acts = Acts::with(&[("a", "same"), ("b", "same"), ("c", "SAME"), ("d", "SAME")]);
        fs::create_dir(acts.beside("moved")).unwrap();
        acts.runs(&["plan", "tree", "-o", "plan"]);
        let text = fs::read_to_string(acts.beside("plan")).unwrap();
        let mut lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 4, "two sets: {text}");
        // The victims of the one for those of the other.
        let victims = [1, 2].map(|at| lines[at]["victims"].take());
        let [first, second] = victims;
        (lines[1]["victims"], lines[2]["victims"]) = (second, first);
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        fs::write(acts.beside("plan"), text).unwrap();
        let before = acts.manifest();
        let (code, said) =
            acts.apply(&[&words(action)[..], &["--plan", "plan", "--json"]].concat());
        assert_eq!(code, 3, "{action}: {said}");
        assert_eq!(said.matches(r#""why":"differs""#).count(), 2, "{action}: {said}");
        assert_eq!(acts.manifest(), before, "{action}: {said}");
    }
}

#[test]
fn a_symbolic_link_is_no_copy() {
    for action in ACTIONS {
        for follow in [&[][..], &["--follow"]] {
            let acts = Acts::with(&[("one", "same"), ("d", "other")]);
            fs::create_dir(acts.beside("moved")).unwrap();
            fs::create_dir(acts.beside("outside")).unwrap();
            fs::write(acts.beside("outside/far"), "same").unwrap();
            // To a file that is listed anyway, before and behind it; to one elsewhere; to its folder.
            symlink("one", acts.path("a-link")).unwrap();
            symlink(acts.path("one"), acts.path("z-link")).unwrap();
            symlink(acts.beside("outside/far"), acts.path("far-link")).unwrap();
            symlink(acts.tree(), acts.path("folder-link")).unwrap();
            let (before, far) = (acts.manifest(), manifest(&acts.beside("outside")));
            let (code, said) = acts.apply(&[&words(action)[..], &["tree"], follow].concat());
            assert!(said.contains(" 0 names"), "{action} {follow:?}: {code} {said}");
            assert_eq!(acts.manifest(), before, "{action} {follow:?}: {said}");
            assert_eq!(manifest(&acts.beside("outside")), far, "{action} {follow:?}: {said}");
        }
    }
}

/// After `symlink` there is one file and links to it: whatever is asked for next, that file stays.
#[test]
fn what_has_become_a_link_is_no_copy_for_the_next_run() {
    for next in ACTIONS {
        let acts = three();
        let (code, said) = acts.apply(&["symlink", "tree"]);
        assert_eq!(code, 0, "{said}");
        let linked = acts.manifest();
        let (code, said) = acts.apply(&[&words(next)[..], &["tree"]].concat());
        assert_eq!((code, said.contains(" 0 names")), (0, true), "{next}: {said}");
        assert_eq!(acts.manifest(), linked, "{next}");
        assert_eq!(["a", "b", "x/c"].map(|name| acts.read(name)), ["same"; 3], "{next}");
    }
}

/// A list for one more user, as the kernel has it: version 2; owner, that user, group, mask, others.
fn access_list(user: u32) -> Vec<u8> {
    let none = u32::MAX;
    let entries = [(1_u16, 6_u16, none), (2, 4, user), (4, 4, none), (16, 4, none), (32, 4, none)];
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(rights.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

#[test]
fn access_lists_that_differ_are_no_reason_to_link() {
    const NAME: &str = "system.posix_acl_access";
    for action in ["hardlink", "symlink"] {
        for which in [&["b"][..], &["a", "b"]] {
            let acts = Acts::with(&[("a", "same"), ("b", "same")]);
            for (at, name) in which.iter().enumerate() {
                let list = access_list(1_000 + at as u32);
                let flags = XattrFlags::empty();
                if setxattr(acts.path(name), NAME, &list, flags).is_err() {
                    return eprintln!("skipped: no access lists here");
                }
            }
            // What the list does to the mode is no difference here.
            if which.len() == 1 {
                let mode = fs::metadata(acts.path("b")).unwrap().permissions().mode();
                fs::set_permissions(acts.path("a"), PermissionsExt::from_mode(mode)).unwrap();
            }
            let before = acts.manifest();
            assert!(
                before.values().any(|item| item.xattrs.iter().any(|it| it.0 == NAME.as_bytes()))
            );
            let (code, said) = acts.apply(&[action, "tree"]);
            assert_eq!(code, 3, "{action} {which:?}: {said}");
            assert!(said.contains("--allow-differing acls"), "{action} {which:?}: {said}");
            assert_eq!(acts.manifest(), before, "{action} {which:?}");
            let (code, said) = acts.apply(&[action, "tree", "--allow-differing", "acls"]);
            assert_eq!(code, 0, "{action} {which:?}: {said}");
            acts.runs(&["undo"]);
            assert_eq!(acts.manifest(), before, "{action} {which:?}: with its list");
        }
    }
}

/// No fall-back to another kind of link, or to a copy.
#[test]
fn what_can_not_be_hard_linked_across_file_systems_is_no_symbolic_link_either() {
    let acts = Acts::with(&[("z", "same")]);
    let elsewhere = match tempfile::tempdir_in("/dev/shm") {
        Ok(dir)
            if fs::metadata(dir.path()).unwrap().dev()
                != fs::metadata(acts.tree()).unwrap().dev() =>
        {
            dir
        }
        _ => return eprintln!("skipped: there is only one file system"),
    };
    let other = elsewhere.path().join("a");
    fs::write(&other, "same").unwrap();
    let mtime = fs::metadata(acts.path("z")).unwrap().modified().unwrap();
    File::options().append(true).open(&other).unwrap().set_modified(mtime).unwrap();
    let before = (acts.manifest(), manifest(elsewhere.path()));
    let given = elsewhere.path().to_str().unwrap();
    for action in ["hardlink", "reflink"] {
        for first in [["tree", given], [given, "tree"]] {
            let (code, said) = acts.apply(&[&[action, "--keep", "first"], &first[..]].concat());
            assert_eq!(code, 3, "{action}: {said}");
            assert!(said.contains("another file system"), "{action}: {said}");
            assert_eq!((acts.manifest(), manifest(elsewhere.path())), before, "{action}: {said}");
        }
    }
}

// ---------------------------------------------------------------- the way back

#[test]
fn undo_does_not_go_where_a_link_leads_or_into_another_root() {
    for action in ACTIONS {
        let acts = three();
        let (code, said) = acts.apply(&[&words(action)[..], &["tree"]].concat());
        assert_eq!(code, 0, "{said}");
        fs::rename(acts.path("x"), acts.beside("elsewhere")).unwrap();
        symlink(acts.beside("elsewhere"), acts.path("x")).unwrap();
        let before = manifest(&acts.beside("elsewhere"));
        let (_, err) = acts.ends(&["undo"], 3);
        assert!(err.contains("links are not followed"), "{action}: {err}");
        assert_eq!(manifest(&acts.beside("elsewhere")), before, "{action}");
        assert_eq!(acts.read("b"), "same", "{action}: the other one is back");
        // All of the tree is another folder, as an empty mount point is.
        fs::remove_file(acts.path("x")).unwrap();
        fs::rename(acts.tree(), acts.beside("away")).unwrap();
        fs::create_dir_all(acts.path("x")).unwrap();
        let (_, err) = acts.ends(&["undo"], 3);
        assert!(err.contains("is it mounted?"), "{action}: {err}");
        assert_eq!(acts.manifest().len(), 2, "{action}: nothing was put there");
        fs::remove_dir_all(acts.tree()).unwrap();
        fs::rename(acts.beside("away"), acts.tree()).unwrap();
        fs::rename(acts.beside("elsewhere"), acts.path("x")).unwrap();
        acts.runs(&["undo"]);
        assert_eq!(["a", "b", "x/c"].map(|name| acts.read(name)), ["same"; 3], "{action}");
    }
}

// ---------------------------------------------------------------- what is our own

/// Copies of the database and of a journal come first, so those in use would go.
#[test]
fn our_own_database_and_journals_are_never_acted_on() {
    for action in ACTIONS {
        for by in ["paths", "report", "plan"] {
            let acts = three();
            fs::create_dir(acts.beside("copies")).unwrap();
            acts.runs(&["scan", "tree"]);
            let (code, said) = acts.apply(&["remove", "tree/b", "tree/a"]);
            assert_eq!(code, 0, "{said}");
            acts.runs(&["undo"]);
            let own = acts.beside("data/dupes");
            let copy = |from: &std::path::Path| {
                let to = acts.beside("copies").join(from.file_name().unwrap());
                fs::copy(from, &to).unwrap();
                let mtime = fs::metadata(from).unwrap().modified().unwrap();
                File::options().append(true).open(to).unwrap().set_modified(mtime).unwrap();
            };
            fs::copy(own.join("dupes.db"), own.join("dupes.db-before-1")).unwrap();
            copy(&own.join("dupes.db"));
            let mut journals: Vec<_> =
                fs::read_dir(own.join("journal")).unwrap().map(|it| it.unwrap().path()).collect();
            journals.retain(|path| path.extension().is_some());
            copy(&journals[0]);
            let journal = fs::read(&journals[0]).unwrap();
            let database = acts.inode("../data/dupes/dupes.db");
            let given = ["copies", "data"];
            let source: Vec<&str> = match by {
                "paths" => given.to_vec(),
                "report" => {
                    acts.runs(&["scan", "--database", "other/dupes.db", "copies", "data"]);
                    vec!["--report", "--database", "other/dupes.db"]
                }
                _ => {
                    // Made by one who knew of no database and no journal.
                    let mut command = acts.command(&["plan", "copies", "data", "-o", "plan"]);
                    command.env("XDG_DATA_HOME", acts.beside("nowhere"));
                    assert!(command.output().unwrap().status.success());
                    vec!["--plan", "plan"]
                }
            };
            let (code, said) = acts.apply(&[&words(action)[..], &source].concat());
            let what = format!("{action} by {by}: {said}");
            // A plan that says so was not carried out as a whole.
            let expected = if by == "plan" { 3 } else { 0 };
            assert!(code == expected && said.contains(" 0 names"), "{what}");
            assert_eq!(said.contains("of dupes itself"), by == "plan", "{what}");
            assert_eq!(acts.inode("../data/dupes/dupes.db"), database, "{what}");
            assert_eq!(fs::read(&journals[0]).unwrap(), journal, "{what}");
            assert_eq!(fs::metadata(&journals[0]).unwrap().nlink(), 1, "{what}");
            assert!(fs::symlink_metadata(&journals[0]).unwrap().is_file(), "{what}");
        }
    }
}

#[test]
fn a_database_that_is_damaged_newer_or_not_ours_is_not_acted_by() {
    let acts = three();
    acts.runs(&["scan", "tree"]);
    let path = acts.beside("data/dupes/dupes.db");
    let whole = fs::read(&path).unwrap();
    let before = acts.manifest();
    let refused = |words: &str| {
        for command in [
            &["apply", "remove", "--report", "--execute", "--quarantine", "aside"][..],
            &["plan", "--report", "-o", "plan"],
        ] {
            let (out, err) = acts.ends(command, 2);
            assert!(err.contains(words), "{words}: {out}{err}");
            assert_eq!(acts.manifest(), before, "{words}");
            assert!(!acts.beside("plan").exists(), "{words}");
        }
    };
    let mut damaged = whole.clone();
    damaged[..16].copy_from_slice(b"no such database");
    fs::write(&path, &damaged).unwrap();
    refused("damaged");
    // The number that says which tables it has: at 60, by SQLite's description of its files.
    let mut newer = whole.clone();
    newer[60..64].copy_from_slice(&1_000_u32.to_be_bytes());
    fs::write(&path, &newer).unwrap();
    refused("has version 1000");
    let mut foreign = whole.clone();
    foreign[68..72].copy_from_slice(&7_u32.to_be_bytes());
    fs::write(&path, &foreign).unwrap();
    refused("is not a database of dupes");
    fs::write(&path, &whole).unwrap();
    if support::is_root() {
        std::os::unix::fs::chown(&path, Some(12_345), None).unwrap();
        refused("belongs to another user");
        std::os::unix::fs::chown(&path, Some(0), None).unwrap();
    }
    fs::remove_file(&path).unwrap();
    refused("there is none");
    fs::write(&path, &whole).unwrap();
    let (code, said) = acts.apply(&["remove", "--report"]);
    assert_eq!(code, 0, "{said}");
}

#[test]
fn a_plan_that_is_damaged_newer_or_none_is_not_carried_out() {
    let acts = three();
    acts.runs(&["plan", "tree", "-o", "plan"]);
    let whole = fs::read_to_string(acts.beside("plan")).unwrap();
    let before = acts.manifest();
    let cut = whole.strip_suffix("{\"end\":true}\n").unwrap();
    let cases = [
        (cut.to_owned(), "its end is missing"),
        (whole.replace("\"dupes-plan\":1", "\"dupes-plan\":2"), "its version is 2"),
        (whole.replace("\"dupes-plan\":1", "\"plan\":1"), "this is no plan"),
        (format!("{whole}{whole}"), "behind its end"),
        (whole.replacen("keepers", "keeper", 1), "makes no sense"),
        (String::new(), "it is empty"),
        ("{\"tree\"".to_owned(), "not JSON"),
    ];
    for (text, words) in cases {
        fs::write(acts.beside("plan"), &text).unwrap();
        for action in ACTIONS {
            let (code, said) =
                acts.apply(&[&self::words(action)[..], &["--plan", "plan"]].concat());
            assert_eq!(code, 2, "{words}: {said}");
            assert!(said.contains(words), "{words}: {said}");
            assert_eq!(acts.manifest(), before, "{words}");
        }
    }
    fs::remove_file(acts.beside("plan")).unwrap();
    let (code, _) = acts.apply(&["remove", "--plan", "plan"]);
    assert_eq!((code, acts.manifest() == before), (2, true));
}

/// `chattr +a`: a link could be made there, but neither put in its place nor taken away.
#[test]
fn a_folder_that_one_may_only_add_to_keeps_its_files() {
    use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
    let acts = three();
    let folder = File::open(acts.tree()).unwrap();
    let Ok(flags) = ioctl_getflags(&folder) else { return eprintln!("skipped: no such flags") };
    for flag in [IFlags::APPEND, IFlags::IMMUTABLE] {
        let before = acts.manifest();
        if ioctl_setflags(&folder, flags | flag).is_err() {
            return eprintln!("skipped: may not set it");
        }
        let ends = ACTIONS.map(|action| {
            let words = [&words(action)[..], &["tree/a", "tree/b"]].concat();
            let aside = if action == "remove" { &["--quarantine", "aside"][..] } else { &[] };
            let dry = acts.run(&[&["apply"][..], &words, aside].concat());
            (action, dry.status.code(), acts.apply(&words))
        });
        ioctl_setflags(&folder, flags).unwrap();
        for (action, dry, (code, said)) in ends {
            assert_eq!((dry, code), (Some(3), 3), "{action}: {said}");
            assert!(said.contains("chattr +a or +i"), "{action}: {said}");
        }
        assert_eq!(acts.manifest(), before, "and no temporary name is left");
        assert!(!acts.runs(&["log"]).contains("INTERRUPTED"));
    }
}

/// A link that was made, and can neither be put in its place nor be taken away.
#[test]
fn what_is_neither_done_nor_as_it_was_is_said_to_be_so() {
    let acts = Acts::with(&[("a", "same"), ("b", "same")]);
    let mut strace = std::process::Command::new("strace");
    let inject = "inject=renameat2,unlinkat:error=EPERM";
    strace.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=renameat2,unlinkat", "-e", inject]);
    strace.arg(env!("CARGO_BIN_EXE_dupes"));
    let command = acts.command(&["apply", "hardlink", "tree", "--execute"]);
    let Ok(output) = acts::through(strace, &command).output() else {
        return eprintln!("skipped: there is no strace");
    };
    let said = support::stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("tree/b: neither done nor as it was"), "{said}");
    assert!(!said.contains("left as it is") && said.contains("dupes recover"), "{said}");
    acts.runs(&["recover", "roll-back"]);
    assert_eq!(fs::read_dir(acts.tree()).unwrap().count(), 2, "the link is gone");
}

/// The database knows by what a file is known again: who only looks says what has changed, too.
#[test]
fn a_file_that_is_another_one_since_the_scan_is_in_no_plan() {
    let replaced = |acts: &Acts| {
        fs::remove_file(acts.path("z")).unwrap();
        acts.write("other", "else");
        fs::rename(acts.path("other"), acts.path("z")).unwrap();
    };
    let changes: [(&str, &dyn Fn(&Acts)); 3] = [
        ("replaced, of one size and age", &replaced),
        ("written to", &|acts| fs::write(acts.path("z"), "else").unwrap()),
        ("written to, of one age", &|acts| acts.write("z", "else")),
    ];
    for (what, change) in changes {
        let acts = Acts::with(&[("a", "same"), ("b", "same"), ("z", "same")]);
        acts.runs(&["scan", "tree"]);
        change(&acts);
        let before = acts.manifest();
        for words in [&["apply", "remove", "--report"][..], &["plan", "--report", "-o", "plan"]] {
            let (out, err) = acts.ends(words, 3);
            assert!(err.contains("tree/z: left as it is: was changed"), "{what}: {out}{err}");
            assert!(!out.contains("tree/z"), "{what}: {out}");
        }
        let (code, said) = acts.apply(&["remove", "--plan", "plan"]);
        assert_eq!(code, 0, "{what}: {said}");
        assert!(!acts.has("b"), "{what}: {said}");
        assert_eq!(
            acts.manifest()[std::path::Path::new("z")],
            before[std::path::Path::new("z")],
            "{what}"
        );
    }
}
