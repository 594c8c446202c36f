//! A journal, its folder or its lock that is damaged, newer, somebody else's or no file: refused with words, and
//! nothing is changed.

mod support;

#[path = "support/acts.rs"]
mod acts;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::PathBuf;

use acts::{Acts, Manifest, manifest};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use support::{in_time, is_root};

/// Two of three files were removed, and wait in the quarantine.
fn removed() -> Acts {
    let acts =
        Acts::with(&[("a", "same"), ("b", "same"), ("x/c", "same"), ("d", "more"), ("e", "more")]);
    let (code, said) = acts.apply(&["remove", "tree/a", "tree/b", "tree/x"]);
    assert_eq!(code, 0, "{said}");
    acts
}

fn shelf(acts: &Acts) -> PathBuf {
    acts.beside("data/dupes/journal")
}

fn journal(acts: &Acts) -> PathBuf {
    let mut all = fs::read_dir(shelf(acts)).unwrap().map(|entry| entry.unwrap().path());
    all.find(|path| path.extension().is_some_and(|end| end == "journal")).unwrap()
}

/// With its checksum.
fn line(text: &str) -> String {
    format!("{} {text}\n", &blake3::hash(text.as_bytes()).to_hex()[..8])
}

/// Everybody who would act by a journal, or write one.
const ALL: [&[&str]; 5] = [
    &["apply", "remove", "tree", "--execute", "--quarantine", "aside"],
    &["undo"],
    &["recover", "finish"],
    &["recover", "roll-back"],
    &["purge-quarantine", "--yes"],
];

fn all_that_is_there(acts: &Acts) -> [Manifest; 2] {
    [manifest(&acts.tree()), manifest(&acts.quarantine())]
}

/// All are refused, in these words, and what is there is as it was.
#[track_caller]
fn all_are_refused(acts: &Acts, words: &str) {
    let before = all_that_is_there(acts);
    for command in ALL {
        let (out, err) = acts.ends(command, 2);
        assert!(err.contains(words), "{command:?}: {out}{err}");
        assert_eq!(out, "", "{command:?}");
        assert_eq!(all_that_is_there(acts), before, "{command:?}: {err}");
    }
}

/// They are what they were: the way back is still there.
#[track_caller]
fn undo_goes(acts: &Acts) {
    acts.runs(&["undo"]);
    assert_eq!(["a", "b", "x/c"].map(|name| acts.read(name)), ["same"; 3]);
}

#[test]
fn a_damaged_journal_stops_everybody_and_is_left_as_it_is() {
    let acts = removed();
    let (path, whole) = (journal(&acts), fs::read(journal(&acts)).unwrap());
    let lines = whole.split_inclusive(|byte| *byte == b'\n').count();
    assert!(lines > 5, "{lines}");
    let first = whole.iter().position(|byte| *byte == b'\n').unwrap();
    for at in [0, 9, first, first + 1, whole.len() / 2] {
        let mut damaged = whole.clone();
        damaged[at] ^= 4;
        fs::write(&path, &damaged).unwrap();
        all_are_refused(&acts, "damaged: nothing is done by it");
        assert_eq!(fs::read(&path).unwrap(), damaged, "byte {at}");
    }
    // A line that is whole, in the wrong place.
    let twice = [&whole[..=first], &whole].concat();
    fs::write(&path, &twice).unwrap();
    all_are_refused(&acts, "it begins a second time");
    fs::write(&path, &whole).unwrap();
    undo_goes(&acts);
}

#[test]
fn a_journal_of_a_newer_version_is_said_to_be_one() {
    let acts = removed();
    let (path, whole) = (journal(&acts), fs::read_to_string(journal(&acts)).unwrap());
    let (first, rest) = whole.split_once('\n').unwrap();
    let newer = line(&first[9..].replace("\"version\":1", "\"version\":1000"));
    // With lines that nobody knows yet, and before it has said anything else.
    let unknown = line(r#"{"swapped":1}"#);
    for text in [format!("{newer}{rest}"), format!("{newer}{unknown}"), newer] {
        fs::write(&path, &text).unwrap();
        all_are_refused(&acts, "version 1000");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
    fs::write(&path, &whole).unwrap();
    undo_goes(&acts);
}

#[test]
fn a_line_that_nobody_knows_is_not_cut_off() {
    let acts = removed();
    let (path, whole) = (journal(&acts), fs::read_to_string(journal(&acts)).unwrap());
    // Its last, and whole: nobody was killed while he wrote it.
    let text = whole.clone() + &line(r#"{"swapped":1}"#);
    fs::write(&path, &text).unwrap();
    all_are_refused(&acts, "what this program does not know");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    fs::write(&path, &whole).unwrap();
    undo_goes(&acts);
}

#[test]
fn a_folder_of_journals_that_is_somebody_elses_is_refused() {
    let acts = removed();
    let folder = shelf(&acts);
    for mode in [0o770, 0o707, 0o777] {
        fs::set_permissions(&folder, PermissionsExt::from_mode(mode)).unwrap();
        all_are_refused(&acts, "is not yours alone to write to");
    }
    fs::set_permissions(&folder, PermissionsExt::from_mode(0o700)).unwrap();
    if is_root() {
        chown(&folder, Some(12_345), None).unwrap();
        all_are_refused(&acts, "is not yours alone to write to");
        chown(&folder, Some(0), None).unwrap();
    } else {
        eprintln!("skipped: only root can give it to somebody else");
    }
    undo_goes(&acts);
}

#[test]
fn a_folder_of_journals_that_is_a_link_or_a_file_is_refused() {
    let acts = removed();
    let folder = shelf(&acts);
    let away = acts.beside("away");
    fs::rename(&folder, &away).unwrap();
    for target in ["away", "none"] {
        symlink(acts.beside(target), &folder).unwrap();
        all_are_refused(&acts, "is a link");
        fs::remove_file(&folder).unwrap();
    }
    assert!(!acts.beside("none").exists());
    fs::write(&folder, "text").unwrap();
    all_are_refused(&acts, "journal");
    assert_eq!(fs::read_to_string(&folder).unwrap(), "text");
    fs::remove_file(&folder).unwrap();
    fs::rename(&away, &folder).unwrap();
    undo_goes(&acts);
}

#[test]
fn a_journal_that_is_no_file_of_ours_is_not_followed_and_nobody_waits() {
    let acts = removed();
    let odd = shelf(&acts).join("20000101-000000.journal");
    symlink(journal(&acts), &odd).unwrap();
    all_are_refused(&acts, "20000101-000000.journal");
    fs::remove_file(&odd).unwrap();
    mknodat(CWD, &odd, FileType::Fifo, Mode::RWXU, 0).unwrap();
    all_are_refused(&acts, "20000101-000000.journal");
    fs::remove_file(&odd).unwrap();
    fs::create_dir(&odd).unwrap();
    all_are_refused(&acts, "20000101-000000.journal");
    fs::remove_dir(&odd).unwrap();
    if is_root() {
        fs::copy(journal(&acts), &odd).unwrap();
        chown(&odd, Some(12_345), None).unwrap();
        all_are_refused(&acts, "20000101-000000.journal");
        fs::remove_file(&odd).unwrap();
    }
    undo_goes(&acts);
}

/// Its code, and all that it said, with this as the folder of all data.
fn with_data(acts: &Acts, data: &OsStr, words: &[&str]) -> (i32, String) {
    let mut command = acts.command(words);
    command.env("XDG_DATA_HOME", acts.beside("").join(data));
    let output = in_time("dupes", move || command.output().unwrap());
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.code().unwrap(), said)
}

#[test]
fn journals_are_found_in_a_folder_whose_path_is_not_text() {
    let acts = Acts::with(&[("a", "same"), ("b", "same"), ("c", "more"), ("d", "more")]);
    let run = |words: &[&str]| with_data(&acts, OsStr::from_bytes(b"j\xff"), words);
    let one = ["apply", "remove", "tree/a", "tree/b", "--execute", "--quarantine", "aside"];
    let (code, said) = run(&one);
    assert_eq!(code, 0, "{said}");
    let other = ["apply", "remove", "tree/c", "tree/d", "--execute", "--quarantine", "aside"];
    assert_eq!(run(&other).0, 0);
    let (_, log) = run(&["log"]);
    assert_eq!(log.lines().filter(|line| line.contains("done 1")).count(), 2, "{log}");
    let (_, said) = run(&["undo"]);
    assert!(acts.has("d") && !acts.has("b"), "the last one: {said}");
    // One that was interrupted stops the next one.
    let folder = acts.beside("").join(OsStr::from_bytes(b"j\xff")).join("dupes/journal");
    let first = folder.join(format!("{}.journal", log.split_whitespace().next().unwrap()));
    let text = fs::read_to_string(&first).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let done = lines.iter().position(|line| line.contains("{\"done")).unwrap();
    fs::write(&first, lines[..done].concat()).unwrap();
    let (code, said) = run(&other);
    assert!(code == 2 && said.contains("was interrupted"), "{said}");
    assert_eq!(run(&["recover", "roll-back"]).0, 0);
    assert!(acts.has("b"));
}

#[test]
fn control_bytes_in_the_path_of_a_journal_do_not_reach_the_terminal() {
    let acts = Acts::with(&[("a", "same"), ("b", "same")]);
    let data = OsStr::from_bytes(b"\x1b[31m");
    let apply = ["apply", "remove", "tree", "--execute", "--quarantine", "aside"];
    assert_eq!(with_data(&acts, data, &apply).0, 0);
    let folder = acts.beside("").join(data).join("dupes/journal");
    let mut all = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let path = all.find(|path| path.extension().is_some_and(|end| end == "journal")).unwrap();
    let says = |words: &str| {
        for command in [&["undo"][..], &["log"], &["recover", "finish"], &apply] {
            let (_, said) = with_data(&acts, data, command);
            assert!(!said.contains('\x1b'), "{command:?}: {said:?}");
            assert!(said.contains(r"\x1b[31m") || command == ["log"], "{command:?}: {said}");
            assert!(said.contains(words), "{command:?}: {said}");
        }
    };
    let whole = fs::read(&path).unwrap();
    let copy = folder.join("copy.journal");
    fs::write(&copy, &whole).unwrap();
    let (_, said) = with_data(&acts, data, &["log"]);
    assert!(said.contains(r"\x1b[31m/dupes/journal/copy.journal"), "{said:?}");
    fs::remove_file(copy).unwrap();
    fs::write(&path, "not\nwhole\n").unwrap();
    says("damaged");
    fs::set_permissions(&folder, PermissionsExt::from_mode(0o777)).unwrap();
    says("is not yours alone");
    fs::set_permissions(&folder, PermissionsExt::from_mode(0o700)).unwrap();
    fs::write(&path, &whole).unwrap();
    fs::remove_file(folder.join("lock")).unwrap();
    fs::create_dir(folder.join("lock")).unwrap();
    let (_, said) = with_data(&acts, data, &["undo"]);
    assert!(!said.contains('\x1b') && said.contains("can't be locked"), "{said:?}");
}

/// What was interrupted is settled in the journal that has its name.
#[test]
fn a_copy_of_a_journal_is_said_to_be_one_and_stops_nobody() {
    for is_damaged in [false, true] {
        let acts = removed();
        let (path, whole) = (journal(&acts), fs::read_to_string(journal(&acts)).unwrap());
        let lines: Vec<&str> = whole.split_inclusive('\n').collect();
        let done = lines.iter().position(|line| line.contains("{\"done")).unwrap();
        let cut = lines[..done].concat();
        let copy = path.with_file_name("backup.journal");
        let text = if is_damaged { cut.replacen("intent", "intend", 1) } else { cut.clone() };
        fs::write(&path, &cut).unwrap();
        fs::write(&copy, &text).unwrap();
        let id = path.file_stem().unwrap().to_str().unwrap();
        let words = format!("backup.journal: a copy of {id}.journal");
        let log = acts.runs(&["log"]);
        assert!(log.contains(&words) && log.contains("backup  COPY"), "{log}");
        assert_eq!(log.lines().filter(|line| line.contains("INTERRUPTED")).count(), 1, "{log}");
        let (_, err) = acts.ends(&["recover", "finish"], 0);
        assert!(err.contains(&words), "{err}");
        let (_, err) = acts.ends(&["recover", "finish"], 0);
        assert!(err.contains("nothing was interrupted"), "{err}");
        let (_, err) = acts.ends(&["undo", "backup"], 2);
        assert!(err.contains(&words), "{err}");
        acts.runs(ALL[0]);
        acts.runs(&["undo", id]);
        assert_eq!(fs::read_to_string(&copy).unwrap(), text, "it is as it was");
        assert_eq!(["a", "b", "x/c"].map(|name| acts.read(name)), ["same"; 3]);
    }
}

#[test]
fn a_lock_that_is_no_file_is_refused_and_what_it_leads_to_is_left_alone() {
    let acts = removed();
    let (lock, precious) = (shelf(&acts).join("lock"), acts.beside("precious"));
    fs::remove_file(&lock).unwrap();
    fs::write(&precious, "text").unwrap();
    symlink(&precious, &lock).unwrap();
    all_are_refused(&acts, "can't be locked");
    assert_eq!(fs::read_to_string(&precious).unwrap(), "text");
    fs::remove_file(&lock).unwrap();
    fs::create_dir(&lock).unwrap();
    all_are_refused(&acts, "can't be locked");
    fs::remove_dir(&lock).unwrap();
    undo_goes(&acts);
}

/// What a dead owner has written into it is not believed; what it was cut off in is.
#[test]
fn a_stale_lock_with_any_text_stops_nobody() {
    for text in [&b""[..], b"process 1: apply\n", b"\xff\0", &[b'x'; 100_000]] {
        let acts = removed();
        fs::write(shelf(&acts).join("lock"), text).unwrap();
        undo_goes(&acts);
    }
}

#[test]
fn a_journal_that_can_not_be_written_stops_it_before_anything_is_done() {
    let acts = Acts::with(&[("a", "same"), ("b", "same")]);
    let before = acts.manifest();
    let file = acts.beside("file");
    File::create(&file).unwrap();
    for folder in ["file", "file/below", "/proc/nothing"] {
        let words =
            ["apply", "remove", "tree", "--execute", "--quarantine", "aside", "--journal", folder];
        let (out, err) = acts.ends(&words, 2);
        assert!(out.is_empty() && !err.is_empty(), "{folder}: {out}{err}");
        assert_eq!(acts.manifest(), before, "{folder}");
    }
}
