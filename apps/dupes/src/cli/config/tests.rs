//! Files and variables, and what becomes of them.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;

use clap::CommandFactory as _;
use tempfile::NamedTempFile;

use super::*;
use crate::cli::args::Args;
use crate::cli::{Command as Verb, Line, parse_in};
use crate::options::{Format, Options};

/// A file with that in it.
fn file(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn line(words: &[&str], text: &str, environment: &Environment) -> Result<Line, Failure> {
    let file = file(text);
    let mut all: Vec<OsString> = vec!["dupes".into(), "--config".into(), file.path().into()];
    all.extend(words.iter().map(OsString::from));
    Line::read(all, environment)
}

fn effective(words: &[&str], text: &str, environment: &Environment, name: &str) -> Effective {
    let line = line(words, text, environment).unwrap_or_else(|failure| panic!("{}", failure.text));
    line.effective.into_iter().find(|one| one.name() == name).unwrap()
}

fn find(words: &[&str], text: &str, environment: &Environment) -> Result<Options, Failure> {
    let file = file(text);
    let mut all: Vec<OsString> = vec!["dupes".into(), "--config".into(), file.path().into()];
    all.extend(["find"].iter().chain(words).map(OsString::from));
    match parse_in(all, &mut std::io::empty(), environment)? {
        Verb::Find(options) => Ok(*options),
        other => panic!("{other:?}"),
    }
}

fn none() -> Environment {
    Environment::default()
}

fn refused(text: &str) -> String {
    let failure = find(&["a"], text, &none()).expect_err(text);
    assert_eq!((failure.exit, failure.stdout), (Exit::Usage, false), "{}", failure.text);
    failure.text
}

/// Who adds an option decides here whether it may be a silent default; if not, it goes into `NEVER`.
const SETTINGS: &[&str] = &[
    "all_hashes",
    "database",
    "depth",
    "exclude",
    "exclude_regex",
    "follow",
    "format",
    "hash",
    "hidden",
    "ignore_files",
    "ignore_names",
    "io_threads",
    "isolate",
    "journal",
    "json",
    "keep",
    "keep_copies",
    "max_errors",
    "max_size",
    "metrics",
    "min_size",
    "name",
    "null",
    "one_file_system",
    "partial",
    "progress",
    "protect",
    "quarantine",
    "regex",
    "rf_over",
    "rf_under",
    "threads",
    "trust_inodes",
    "unique",
];

#[test]
fn every_option_can_be_set_or_has_a_reason_why_not() {
    let leaves = settings::leaves(&Args::command());
    let all = leaves.iter().flat_map(|leaf| &leaf.settings);
    let names: BTreeSet<&str> = all.map(|setting| setting.name.as_str()).collect();
    assert_eq!(names.into_iter().collect::<Vec<_>>(), SETTINGS);
    let mut never = BTreeSet::new();
    check_options(&Args::command(), &mut never);
    let listed: BTreeSet<&str> = NEVER.iter().map(|(name, _)| *name).collect();
    assert_eq!(never.iter().map(String::as_str).collect::<BTreeSet<_>>(), listed, "none too many");
}

/// All options of a command, and of those below it: each is a setting, or one that is noted in `never`.
fn check_options(command: &Command, never: &mut BTreeSet<String>) {
    for arg in command.get_arguments().filter(|arg| arg.get_long().is_some()) {
        let id = arg.get_id().as_str();
        let is_set = SETTINGS.contains(&id.strip_prefix("no_").unwrap_or(id));
        let is_this_file = id == "config";
        if !is_set && !is_this_file {
            assert!(NEVER.iter().any(|(name, _)| *name == id), "--{id} of {}", command.get_name());
            never.insert(id.to_owned());
        }
    }
    command.get_subcommands().for_each(|below| check_options(below, never));
}

/// In a file, and as words.
fn sample(setting: &Setting) -> (&'static str, Vec<&'static str>) {
    match (setting.kind, setting.name.as_str()) {
        (Kind::Flag, _) if setting.opposite.is_some() => ("false", vec!["false"]),
        (Kind::Flag, _) => ("true", vec!["true"]),
        (Kind::Number, _) => ("7", vec!["7"]),
        (Kind::NumberOrText, "metrics") => ("\":9\"", vec![":9"]),
        (Kind::NumberOrText, _) => ("\"7k\"", vec!["7k"]),
        (Kind::Text, "hash") => ("\"sha256\"", vec!["sha256"]),
        (Kind::Text, _) => ("\"json\"", vec!["json"]),
        (Kind::Path, _) => ("\"/d\"", vec!["/d"]),
        (Kind::List, "keep") => ("[\"newest\", \"name:a\"]", vec!["newest", "name:a"]),
        (Kind::List, _) => ("[\"a\", \"b\"]", vec!["a", "b"]),
    }
}

/// A command line, without options.
fn alone(leaf: &Leaf) -> Vec<&str> {
    let mut words: Vec<&str> = leaf.path.iter().map(String::as_str).collect();
    if matches!(words[..], ["find"] | ["roots", "add" | "remove"]) {
        words.push("a");
    }
    match words[..] {
        ["plan"] => words.extend(["-o", "a", "b"]),
        ["apply"] => words.extend(["remove", "b"]),
        ["recover"] => words.push("finish"),
        _ => {}
    }
    words
}

#[test]
fn every_setting_arrives_from_everywhere_and_a_flag_takes_it_back() {
    let leaves = settings::leaves(&Args::command());
    assert!(leaves.len() >= 9, "{leaves:?}");
    for (leaf, setting) in
        leaves.iter().flat_map(|leaf| leaf.settings.iter().map(move |s| (leaf, s)))
    {
        let ((text, words), name) = (sample(setting), setting.name.as_str());
        let what = format!("{name} of {:?}", leaf.path);
        let expected: Vec<OsString> = words.iter().map(OsString::from).collect();
        let (table, variable) = (leaf.table(), setting.variable());
        let environment = Environment::from([(variable.as_str(), words.join("\n").as_str())]);
        let in_table = format!("[{table}]\n{name} = {text}\n");
        // Top levels must suit all commands: those that do are tried, too.
        for (text, environment) in
            [(in_table.as_str(), none()), (&format!("{name} = {text}"), none()), ("", environment)]
        {
            let line = line(&alone(leaf), text, &environment);
            let line = line.unwrap_or_else(|failure| panic!("{what}: {}", failure.text));
            let one = line.effective.iter().find(|one| one.name() == name).unwrap();
            assert!(one.origin.is_outside(), "{what}: {}", one.origin);
            assert_eq!(one.words, expected, "{what}");
            assert_eq!(arrived(&line, leaf, setting), expected, "{what}: not in effect");
        }
        let back = match setting.arg.get_default_values().first() {
            Some(usual) => format!("{}={}", setting.long(), usual.to_string_lossy()),
            None if setting.opposite.is_some() => setting.long(),
            None => format!("--no-{}", &setting.long()[2..]),
        };
        let mut words = alone(leaf);
        words.push(&back);
        let line =
            line(&words, &in_table, &none()).unwrap_or_else(|f| panic!("{what}: {}", f.text));
        assert_eq!(arrived(&line, leaf, setting), setting.usual(), "{what}: {back}");
    }
}

/// As the program sees it, behind the command line.
fn arrived(line: &Line, leaf: &Leaf, setting: &Setting) -> Vec<OsString> {
    let mut matches = &line.matches;
    for name in &leaf.path {
        matches = matches.subcommand_matches(name).unwrap();
    }
    match (setting.kind, &setting.opposite) {
        (Kind::Flag, Some(opposite)) => vec![(!matches.get_flag(opposite)).to_string().into()],
        (Kind::Flag, None) => vec![matches.get_flag(setting.id()).to_string().into()],
        _ => matches.get_raw(setting.id()).into_iter().flatten().map(OsStr::to_owned).collect(),
    }
}

#[test]
fn flag_then_environment_then_table_then_top_then_built_in() {
    let environment = Environment::from([("DUPES_THREADS", "2")]);
    let text = "threads = 4\n\n[find]\nthreads = 3\n";
    let path = |one: &Effective| match &one.origin {
        Origin::Table(_, line) | Origin::Top(_, line) => format!("line {line}"),
        other => other.to_string(),
    };
    let cases: [(&[&str], &str, &Environment, &str, &str); 5] = [
        (&["find", "--threads=1", "a"], text, &environment, "1", "flag"),
        (&["find", "a"], text, &environment, "2", "environment DUPES_THREADS"),
        (&["find", "a"], text, &none(), "3", "line 4"),
        (&["scan"], text, &none(), "4", "line 1"),
        (&["find", "a"], "", &none(), "", "default"),
    ];
    for (words, text, environment, value, origin) in cases {
        let one = effective(words, text, environment, "threads");
        let shown: Vec<_> = one.words.iter().map(|word| word.to_string_lossy()).collect();
        assert_eq!((shown.concat().as_str(), path(&one).as_str()), (value, origin), "{words:?}");
    }
}

#[test]
fn a_flag_replaces_a_list() {
    let text = "exclude = [\"a\", \"b\"]";
    let except = |words: &[&str]| find(words, text, &none()).unwrap().filter.except.names;
    assert!(except(&["x"]).is_match("a") && except(&["x"]).is_match("b"));
    let replaced = except(&["--exclude", "c", "x"]);
    assert!(replaced.is_match("c") && !replaced.is_match("a"));
    assert!(except(&["--no-exclude", "x"]).is_empty());
    assert!(except(&["--no-exclude", "--exclude", "c", "x"]).is_match("c"), "the last counts");
}

#[test]
fn what_is_wrong_is_named_with_its_line_and_what_would_be_right() {
    let cases: &[(&str, &[&str])] = &[
        ("thread = 4", &["line 1", "thread:", "did you mean threads?"]),
        ("\n\nio-threads = 4", &["line 3", "did you mean io_threads?"]),
        ("qqq = 4", &["qqq", "expected one of all_hashes, database, depth,"]),
        ("[fnd]\nthreads = 1", &["line 1", "[fnd]", "did you mean find?"]),
        ("[config]\njson = true", &["[config]", "expected find, scan"]),
        ("[scan]\nformat = \"json\"", &["line 2", "format", "scan has no such", "find, report"]),
        ("[scan.more]\nx = 1", &["line 1", "more", "there is no such setting"]),
        ("[scan]\nthreads.x = 1", &["line 2", "threads", "expected a number, found a table"]),
        ("threads = 0", &["'0'", "1 to 1024"]),
        ("threads = -1", &["'-1'", "1 to 1024"]),
        ("threads = 0x401", &["'1025'", "1 to 1024"]),
        ("threads = 99999999999999999999999999999999999999999", &["too large"]),
        ("threads = \"4\"", &["expected a number, found a text"]),
        ("threads = true", &["expected a number, found true or false"]),
        ("threads = 1.5", &["found a number with a point"]),
        ("threads = 2026-11-18", &["found a date"]),
        ("threads = [1]", &["found a list"]),
        ("hidden = \"no\"", &["expected true or false, found a text"]),
        ("hidden = 1", &["expected true or false, found a number"]),
        ("exclude = \".git\"", &["expected a list of texts", "found a text"]),
        ("exclude = [1]", &["expected a list of texts", "found a number in it"]),
        ("exclude = [\"ok\", \"a[\"]", &["'a['", "expected a glob"]),
        ("regex = [\"(\"]", &["'('", "unclosed group"]),
        ("min_size = \"many\"", &["'many'", "10k"]),
        ("format = \"xml\"", &["'xml'", "text, fdupes, csv, json"]),
        ("hash = \"xxh3\"", &["'xxh3'", "blake3, sha256", "for scan", "[scan]"]),
        ("metrics = \"example.org:80\"", &[":9090"]),
        ("database = \"here.db\"", &["'here.db'", "begins with / or ~/"]),
        ("yes = true", &["yes", "only by --yes", "consent"]),
        ("[scan]\nrestart = true", &["line 2", "only by --restart"]),
        ("threads = 1\nthreads = 2", &["line 2", "duplicate key"]),
        ("[find]\nhidden = true\n[find]\nnull = true", &["line 3", "duplicate key"]),
        ("threads = \n", &["line 1"]),
        ("threads", &["line 1"]),
        ("a = [[[[", &["line 1"]),
        ("unique = true\nrf_over = 2", &["unique", "rf_over", "can't be set together"]),
    ];
    for (text, named) in cases {
        let said = refused(text);
        for part in *named {
            assert!(said.contains(part), "{part} is not in: {said}");
        }
        assert!(said.starts_with("error: "), "{said}");
    }
}

#[test]
fn all_that_is_wrong_is_said_in_the_order_of_lines() {
    let said = refused("threads = 0\n[scan]\nx = 1\n[find]\ndepth = 0\n");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 3, "{said}");
    for (line, at) in lines.iter().zip(["line 1:", "line 3:", "line 5:"]) {
        assert!(line.contains(at), "{said}");
    }
    let nasty = refused("\"\\u001b[2J\" = 1");
    assert!(!nasty.contains('\u{1b}'), "{nasty:?}");
}

#[test]
fn numbers_and_sizes_may_be_written_as_toml_does() {
    let options =
        find(&["a"], "threads = 1_0\nmin_size = 0x10\nmax_size = \"2k\"", &none()).unwrap();
    assert_eq!(options.threads.map(usize::from), Some(10));
    assert_eq!(options.filter.size, 16..=2_048);
}

#[test]
fn variables_are_read_as_people_write_them() {
    for (text, is_hidden) in [("1", true), ("yes", true), ("ON", true), ("0", false), ("no", false)]
    {
        let environment = Environment::from([("DUPES_HIDDEN", text)]);
        assert_eq!(find(&["a"], "", &environment).unwrap().filter.hidden, is_hidden, "{text}");
    }
    let environment =
        Environment::from([("DUPES_EXCLUDE", "a b\n\nc,d:e\n"), ("DUPES_FORMAT", "")]);
    let options = find(&["a"], "format = \"csv\"", &environment).unwrap();
    let except = &options.filter.except.names;
    assert!(except.is_match("a b") && except.is_match("c,d:e") && !except.is_match("a"));
    assert_eq!(options.format, Format::Csv, "one that is empty is not set");
    let cases = [
        ("DUPES_HIDDEN", "maybe", "true or false"),
        ("DUPES_THREADS", "0", "1 to 1024"),
        ("DUPES_FORMAT", "xml", "text, fdupes, csv, json"),
        ("DUPES_EXCLUDE", "ok\na[", "expected a glob"),
        ("DUPES_YES", "1", "only said by --yes: consent"),
        ("DUPES_RESTART", "1", "only said by --restart"),
    ];
    for (name, value, named) in cases {
        let failure = find(&["a"], "", &Environment::from([(name, value)])).unwrap_err();
        assert_eq!(failure.exit, Exit::Usage, "{}", failure.text);
        assert!(failure.text.contains(name) && failure.text.contains(named), "{}", failure.text);
    }
    // What is for another command says nothing here.
    assert!(find(&["a"], "", &Environment::from([("DUPES_PARTIAL", "x")])).is_ok());
}

#[test]
fn of_two_that_exclude_each_other_the_higher_one_stays() {
    let unique = "[find]\nunique = true";
    let copies =
        |words: &[&str], text: &str, all: &Environment| find(words, text, all).unwrap().copies;
    assert_eq!(copies(&["a"], unique, &none()), 1..=1);
    assert_eq!(copies(&["--rf-over", "2", "a"], unique, &none()), 3..=usize::MAX);
    let environment = Environment::from([("DUPES_RF_OVER", "4")]);
    assert_eq!(copies(&["a"], unique, &environment), 5..=usize::MAX);
    assert_eq!(copies(&["--unique", "a"], unique, &environment), 1..=1);
    assert_eq!(copies(&["a"], "rf_over = 3\n[find]\nunique = true", &none()), 1..=1);
    assert_eq!(copies(&["a"], "[find]\nrf_over = 3\nunique = false", &none()), 4..=usize::MAX);
}

#[test]
fn a_contradiction_says_where_its_parts_come_from() {
    let failure = find(&["--max-size", "1k", "a"], "\nmin_size = \"1M\"", &none()).unwrap_err();
    assert!(failure.text.contains("note: --min-size comes from "), "{}", failure.text);
    assert!(failure.text.trim_end().ends_with(":2"), "{}", failure.text);
    assert!(!failure.text.contains("note: --max-size"), "{}", failure.text);
}

fn words(line: &[&str], text: &str) -> crate::cli::Words {
    let file = file(text);
    let mut all: Vec<OsString> = vec!["dupes".into(), "--config".into(), file.path().into()];
    all.extend(line.iter().map(OsString::from));
    let environment = Environment::from([("DUPES_DATABASE", "/d")]);
    match parse_in(all, &mut std::io::empty(), &environment) {
        Ok(Verb::Scan(scan)) => scan.words,
        Ok(Verb::AddRoot(_, _, words, _)) => words,
        other => panic!("{other:?}"),
    }
}

#[test]
fn filters_of_a_file_are_for_new_roots_and_not_said() {
    let text = "hidden = false\nexclude = [\"a\", \"b\"]\nfollow = true\nthreads = 2";
    let all = ["--follow", "--exclude=a", "--exclude=b", "--no-hidden"];
    for line in [&["scan", "r"][..], &["scan"], &["roots", "add", "r"]] {
        let words = words(line, text);
        assert_eq!((words.all, words.are_said), (all.map(String::from).into(), false), "{line:?}");
    }
    let some = words(&["scan", "--exclude", "c", "--no-follow", "r"], text);
    assert_eq!((some.all, some.are_said), (vec!["--exclude=c".into(), "--no-hidden".into()], true));
    assert_eq!(words(&["scan", "r"], "").all, [""; 0]);
    assert_eq!(words(&["scan", "--hidden", "r"], text).all.last().unwrap(), "--hidden");
}

#[test]
fn a_hash_that_is_only_set_changes_no_database() {
    let scan = |words: &[&str], text: &str| {
        let file = file(text);
        let mut all: Vec<OsString> = vec!["dupes".into(), "--config".into(), file.path().into()];
        all.extend(["scan", "--database=/d"].iter().chain(words).map(OsString::from));
        match parse_in(all, &mut std::io::empty(), &none()) {
            Ok(Verb::Scan(scan)) => {
                (scan.request.hash.map(|hash| hash.name()), scan.may_change_hash)
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(scan(&[], "hash = \"sha256\""), (Some("sha256"), false));
    assert_eq!(scan(&["--hash", "sha512"], "hash = \"sha256\""), (Some("sha512"), true));
    assert_eq!(scan(&["--no-hash"], "hash = \"sha256\"").0, None);
}

#[test]
fn what_is_no_file_of_settings_is_said_to_be_so() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo");
    let mode = rustix::fs::Mode::from_raw_mode(0o644);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let huge = dir.path().join("huge");
    fs::File::create(&huge).unwrap().set_len(1 << 30).unwrap();
    let odd = dir.path().join("odd");
    fs::write(&odd, b"threads = 1\n# \xff").unwrap();
    let cases = [
        (dir.path(), Exit::Usage, "it is a folder"),
        (&fifo, Exit::Usage, "no regular file"),
        (Path::new("/dev/zero"), Exit::Usage, "no regular file"),
        (&huge, Exit::Usage, "larger than 1 MiB"),
        (&odd, Exit::Usage, "line 2: it is not UTF-8"),
        (&dir.path().join("none"), Exit::Usage, "it was named, and there is no such file"),
        (&odd.join("below"), Exit::Usage, "there is no such file"),
        (Path::new("/proc/self/mem"), Exit::CouldNotRun, "can't be read"),
    ];
    for (path, exit, named) in cases {
        let all = ["dupes", "--config", path.to_str().unwrap(), "find", "a"].map(OsString::from);
        let Err(failure) = Line::read(all.into(), &none()) else { panic!("{path:?} was read") };
        assert_eq!(failure.exit, exit, "{}", failure.text);
        assert!(failure.text.contains(named), "{}", failure.text);
        assert!(failure.text.contains(path.to_str().unwrap()), "{}", failure.text);
    }
}

#[test]
fn variables_that_look_like_ours_are_noticed() {
    let environment = Environment::from([
        ("DUPES_THREDS", "1"),
        ("DUPES_THREADS", "1"),
        ("DUPES_CONFIG", "x"),
        ("DUPES_QQ", ""),
        ("OTHER", "1"),
    ]);
    let sources = Sources::read(&Args::command(), &Wanted::Nothing, &environment).unwrap();
    let warnings = sources.unknown_variables();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("DUPES_THREDS") && warnings[0].contains("mean DUPES_THREADS?"));
}
