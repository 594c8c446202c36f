//! Command lines, and what becomes of them.

use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use super::*;
use crate::digest::Algorithm;
use crate::options::Progress;

fn run(args: &[&str], stdin: &[u8]) -> Result<Command, Failure> {
    let args = [&["dupes"], args].concat();
    parse_in(args.into_iter().map(OsString::from), &mut &*stdin, &Environment::default())
}

fn find(args: &[&str]) -> Options {
    find_with(args, b"")
}

fn find_with(args: &[&str], stdin: &[u8]) -> Options {
    match run(&[&["find"], args].concat(), stdin) {
        Ok(Command::Find(options)) => *options,
        other => panic!("{args:?} is {other:?}"),
    }
}

/// The text of an error of usage.
fn refused(args: &[&str]) -> String {
    refused_with(args, b"")
}

fn refused_with(args: &[&str], stdin: &[u8]) -> String {
    let failure = run(&[&["find"], args].concat(), stdin).expect_err("it should be refused");
    assert_eq!(failure.exit, Exit::Usage, "{args:?}: {}", failure.text);
    assert!(!failure.stdout, "{args:?}: {}", failure.text);
    assert!(failure.text.ends_with('\n'), "{args:?}: {}", failure.text);
    failure.text
}

fn printed(args: &[&str]) -> String {
    match run(args, b"") {
        Ok(Command::Print(text)) => String::from_utf8(text).unwrap(),
        Err(failure) if failure.stdout => failure.text,
        other => panic!("{args:?} is {other:?}"),
    }
}

fn paths(options: &Options) -> Vec<&[u8]> {
    options.roots.iter().map(|root| root.path.as_os_str().as_bytes()).collect()
}

#[test]
fn the_definition_is_sound() {
    Args::command().debug_assert();
}

#[test]
fn defaults_are_those_of_the_design() {
    let options = find(&["a", "b"]);
    assert_eq!(paths(&options), [b"a", b"b"]);
    assert!(options.roots.iter().all(|root| !root.reference));
    assert_eq!(options.copies, 2..=usize::MAX);
    assert_eq!((options.format, options.nul), (Format::Text, false));
    assert_eq!(options.progress, Progress::Auto);
    assert_eq!((options.hash, options.threads, options.io_threads), (None, None, None));
    assert_eq!((options.isolate, options.metrics), (false, None));

    let filter = options.filter;
    assert_eq!(filter.size, 1..=u64::MAX);
    assert!(filter.hidden);
    assert!(!filter.ignore_files && !filter.follow && !filter.one_file_system);
    assert_eq!(filter.depth, None);
    for patterns in [filter.only, filter.except] {
        assert!(patterns.names.is_empty() && patterns.paths.is_empty());
        assert!(patterns.regexes.is_none());
    }
}

#[test]
fn every_option_arrives() {
    let options = find(&[
        "--format=fdupes",
        "-0",
        "--min-size=10k",
        "--max-size=2GiB",
        "--no-hidden",
        "--ignore-files",
        "--follow",
        "--one-file-system",
        "--depth=3",
        "--hash=sha3-256",
        "--threads=4",
        "--io-threads=32",
        "--isolate",
        "--reference=r",
        "--rf-over=2",
        "--rf-under=9",
        "--progress=json",
        "--metrics=9090",
        "a",
    ]);
    assert_eq!((options.format, options.nul), (Format::Fdupes, true));
    assert_eq!(options.hash, Some(Algorithm::Sha3));
    assert_eq!(options.threads.map(usize::from), Some(4));
    assert_eq!(options.io_threads.map(usize::from), Some(32));
    assert_eq!(options.copies, 3..=8);
    assert_eq!(options.progress, Progress::Json);
    assert!(options.isolate && options.metrics.is_some());
    let references: Vec<bool> = options.roots.iter().map(|root| root.reference).collect();
    assert_eq!((paths(&options), references), (vec![b"a" as &[u8], b"r"], vec![false, true]));

    let filter = options.filter;
    assert_eq!(filter.size, 10 << 10..=2 << 30);
    assert!(!filter.hidden && filter.ignore_files && filter.follow && filter.one_file_system);
    assert_eq!(filter.depth, Some(3));
}

#[test]
fn every_hash_can_be_named() {
    for (name, algorithm) in Algorithm::NAMES {
        assert_eq!(find(&["--hash", name, "a"]).hash, Some(algorithm));
    }
}

#[test]
fn of_hidden_and_no_hidden_the_last_counts() {
    assert!(find(&["--no-hidden", "--hidden", "a"]).filter.hidden);
    assert!(!find(&["--hidden", "--no-hidden", "a"]).filter.hidden);
}

#[test]
fn numbers_of_copies() {
    assert_eq!(find(&["--unique", "a"]).copies, 1..=1);
    assert_eq!(find(&["--rf-over", "0", "a"]).copies, 1..=usize::MAX);
    assert_eq!(find(&["--rf-over", "3", "a"]).copies, 4..=usize::MAX);
    assert_eq!(find(&["--rf-under", "3", "a"]).copies, 1..=2);
    assert_eq!(find(&["--rf-over", "1", "--rf-under", "3", "a"]).copies, 2..=2);
}

#[test]
fn globs_without_a_slash_see_names_and_others_paths() {
    let only = find(&["--name", "*.jpg", "--name", "b/*.png", "--name", "/top*", "a"]).filter.only;
    assert!(only.names.is_match("x.jpg"));
    assert!(!only.names.is_match("x.png") && !only.names.is_match("top"));
    assert!(only.paths.is_match("b/x.png") && only.paths.is_match("top1"));
    assert!(!only.paths.is_match("b/c/x.png"), "a star stays within a name");
    assert!(!only.paths.is_match("b/top1"), "a leading slash says where it is");
    assert!(only.regexes.is_none());

    let except = find(&["--exclude", "**/target/**", "--exclude-regex", "x(?-u:\\xff)", "a"]);
    let except = except.filter.except;
    assert!(except.names.is_empty());
    assert!(except.paths.is_match("b/c/target/d/e"));
    assert!(except.regexes.unwrap().is_match(b"a/x\xff"));
    assert!(find(&["--regex", "^a", "a"]).filter.only.regexes.unwrap().is_match(b"ab"));
}

#[test]
fn metrics_are_for_this_machine_unless_typed_in_full() {
    let address = |text| find(&["--metrics", text, "a"]).metrics.unwrap().to_string();
    for text in ["9090", ":9090", "localhost:9090", "127.0.0.1:9090"] {
        assert_eq!(address(text), "127.0.0.1:9090");
    }
    assert_eq!(address("[::1]:9090"), "[::1]:9090");
    assert_eq!(address("0.0.0.0:9090"), "0.0.0.0:9090");
}

#[test]
fn paths_are_any_bytes() {
    let hostile = [b"\xff\n".as_slice(), b"-", b"--", b"-0", b" "];
    let words = hostile.iter().map(|bytes| OsString::from_vec(bytes.to_vec()));
    let args = ["dupes", "find", "--"].map(OsString::from).into_iter().chain(words);
    match parse_in(args, &mut io::empty(), &Environment::default()).unwrap() {
        Command::Find(options) => assert_eq!(paths(&options), hostile),
        other => panic!("{other:?}"),
    }
}

#[test]
fn paths_come_from_standard_input() {
    let lines = find_with(&["--stdin", "a"], b"b c\n\n\xff\r\n-x\nlast");
    assert_eq!(paths(&lines), [b"a".as_slice(), b"b c", b"\xff\r", b"-x", b"last"]);
    let zeros = find_with(&["--stdin0"], b"a\nb\0\0c\0");
    assert_eq!(paths(&zeros), [b"a\nb".as_slice(), b"c"]);
}

#[test]
fn standard_input_is_left_alone_unless_asked_for() {
    let args = ["dupes", "find", "a"].map(OsString::from);
    assert!(parse_in(args, &mut io::BufReader::new(Broken), &Environment::default()).is_ok());
}

#[test]
fn standard_input_that_breaks_is_no_error_of_usage() {
    let args = ["dupes", "find", "--stdin"].map(OsString::from);
    let failure =
        parse_in(args, &mut io::BufReader::new(Broken), &Environment::default()).unwrap_err();
    assert_eq!((failure.exit, failure.stdout), (Exit::CouldNotRun, false));
    assert!(failure.text.contains("standard input"), "{}", failure.text);
}

struct Broken;

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("broken"))
    }
}

#[test]
fn standard_input_that_is_no_list_is_refused() {
    assert!(refused_with(&["--stdin"], b"a\nb\0c\n").contains("path 2"));
    assert!(refused_with(&["--stdin"], &[b'a'; 1 << 20]).contains("longer"));
    assert!(refused_with(&["--stdin"], b"\n\n").contains("no path"));
}

/// What is said must name each of these.
#[test]
fn wrong_values_are_named_with_what_would_be_right() {
    let cases: [(&[&str], &[&str]); 19] = [
        (&["--min-size", "-1", "a"], &["'-1'", "--min-size", "10k"]),
        (&["--depth", "-1", "a"], &["'-1'", "--depth", "from 1"]),
        (&["--min-size", "x", "a"], &["'x'", "--min-size", "10k"]),
        (&["--max-size", "16E", "a"], &["'16E'", "--max-size", "at most"]),
        (&["--format", "xml", "a"], &["'xml'", "--format", "text, fdupes, csv, json"]),
        (&["--hash", "md5", "a"], &["'md5'", "--hash", "blake3, sha256, sha512, sha3-256, xxh3"]),
        (&["--progress", "yes", "a"], &["'yes'", "--progress", "auto, never, json"]),
        (&["--threads", "0", "a"], &["'0'", "--threads", "1 to 1024"]),
        (&["--io-threads", "+3", "a"], &["'+3'", "--io-threads", "1 to 1024"]),
        (&["--depth", "0", "a"], &["'0'", "--depth", "from 1"]),
        (&["--rf-under", "1", "a"], &["'1'", "--rf-under", "from 2"]),
        (&["--rf-over", "many", "a"], &["'many'", "--rf-over", "from 0"]),
        (&["--metrics", "example.org:80", "a"], &["'example.org:80'", "--metrics", ":9090"]),
        (&["--metrics", "65536", "a"], &["'65536'", "--metrics", ":9090"]),
        (&["--name", "a[", "a"], &["'a['", "--name", "*.jpg"]),
        (&["--name", "", "a"], &["''", "--name", "*.jpg"]),
        (&["--exclude", "target/", "a"], &["'target/'", "--exclude", "expected 'target'"]),
        (&["--regex", "a(", "a"], &["'a('", "--regex", "unclosed group"]),
        (&["--exclude-regex", "*", "a"], &["'*'", "--exclude-regex", "repetition"]),
    ];
    for (args, named) in cases {
        let text = refused(args);
        named.iter().for_each(|part| assert!(text.contains(part), "{part} is not in: {text}"));
    }
}

#[test]
fn contradictions_are_refused() {
    let cases: [(&[&str], &[&str]); 13] = [
        (&["--rf-over", "3", "--rf-under", "3", "a"], &["--rf-over (3)", "--rf-under (3)"]),
        (&["--rf-over", "3", "--rf-under", "4", "a"], &["--rf-over (3)", "--rf-under (4)"]),
        (&["--rf-over", "9", "--rf-under", "2", "a"], &["--rf-over (9)", "--rf-under (2)"]),
        (&["--min-size", "2k", "--max-size", "1k", "a"], &["2048", "1024"]),
        (&["--max-size", "0", "a"], &["--min-size (1 byte)"]),
        (&["-0", "--format", "csv", "a"], &["--null", "csv"]),
        (&["-0", "--format", "json", "a"], &["--null", "json"]),
        (&["--unique", "--rf-over", "1", "a"], &["--unique", "--rf-over"]),
        (&["--unique", "--rf-under", "2", "a"], &["--unique", "--rf-under"]),
        (&["--hash", "xxh3", "--format", "fdupes", "a"], &["xxh3", "fdupes", "unverified"]),
        (&["--stdin", "--stdin0"], &["--stdin", "--stdin0"]),
        (&["--reference", "a/", "a"], &["'a'", "PATH", "--reference"]),
        (&["--reference", "a"], &["PATH"]),
    ];
    for (args, named) in cases {
        let text = refused(args);
        named.iter().for_each(|part| assert!(text.contains(part), "{part} is not in: {text}"));
    }
}

#[test]
fn an_isolated_path_is_not_alone() {
    for args in [&["a"][..], &["--rf-over", "1", "a"]] {
        let text = refused(&[&["--isolate"], args].concat());
        assert!(text.contains("--isolate") && text.contains("--reference"), "{args:?}: {text}");
    }
    for verb in [&["plan", "--output=p"][..], &["apply", "remove", "--journal=j"]] {
        let run = |paths: &[&str]| run(&[verb, &["--isolate"], paths].concat(), b"");
        assert!(run(&["a"]).unwrap_err().text.contains("--isolate"), "{verb:?}");
        assert!(run(&["a", "b"]).is_ok(), "{verb:?}");
    }
    let enough: [&[&str]; 4] =
        [&["a", "b"], &["--reference", "b", "a"], &["--unique", "a"], &["--rf-under", "2", "a"]];
    for args in enough {
        assert!(find(&[&["--isolate"], args].concat()).isolate);
    }
    assert!(find_with(&["--isolate", "--stdin"], b"a\nb").isolate);
}

#[test]
fn no_path_and_unknown_words_are_errors_of_usage() {
    refused(&[]);
    refused(&[""]);
    refused(&["--nonsense", "a"]);
    refused(&["-n", "a"]);
    for args in [&[] as &[&str], &["look"], &["completions"], &["completions", "tcl"]] {
        let failure = run(args, b"").unwrap_err();
        assert_eq!((failure.exit, failure.stdout), (Exit::Usage, false), "{args:?}");
    }
}

#[test]
fn help_has_every_option_under_a_heading_and_all_exit_codes() {
    let help = printed(&["find", "--help"]);
    let command = Args::command();
    let find = command.find_subcommand("find").unwrap();
    for arg in find.get_arguments() {
        let heading = arg.get_help_heading().unwrap_or("Arguments");
        assert!(arg.is_positional() || heading != "Arguments", "{} has no heading", arg.get_id());
        assert!(help.contains(&format!("{heading}:\n")), "{heading}");
        let name = arg.get_long().map_or("[PATH]...".into(), |long| format!("--{long}"));
        assert!(help.contains(&name), "{name} is not in: {help}");
    }
    assert!(help.contains("Examples:\n"));
    for exit in Exit::ALL {
        let line = format!("{:>5}  {}\n", exit.code(), exit.meaning());
        assert!(help.contains(&line), "{line} is not in: {help}");
    }
}

#[test]
fn help_and_version_are_answers_and_no_failures() {
    for args in
        [&["--help"] as &[&str], &["-h"], &["--version"], &["find", "-h"], &["help", "find"]]
    {
        let failure = run(args, b"").unwrap_err();
        assert_eq!((failure.exit, failure.stdout), (Exit::Complete, true), "{args:?}");
        assert!(!failure.text.contains('\x1b'), "{args:?}");
    }
}

#[test]
fn examples_are_understood() {
    for (example, _) in pages::EXAMPLES {
        let ours = example.split(" | ").find(|part| part.starts_with("dupes")).unwrap();
        let words = ours.split(' ').map(|word| word.trim_matches('\'').into());
        let parsed = parse_in(words, &mut b"a\0".as_slice(), &Environment::default());
        use Command::{Apply, CheckConfig, Find, Plan, ReportFiles, ReportPage, Scan, Undo};
        let is_understood = matches!(
            parsed,
            Ok(Find(_)
                | Scan(_)
                | ReportFiles(..)
                | ReportPage(..)
                | CheckConfig(..)
                | Plan(..)
                | Apply(_)
                | Undo(..))
        );
        assert!(is_understood, "{example}: {parsed:?}");
    }
}

#[test]
fn the_manual_has_verbs_that_have_words_and_lists_of_their_own() {
    let page = printed(&["man"]);
    for words in
        [".SH DUPES REPORT\n", "\\-\\-html", ".SH DUPES REPORT FILES", ".SH DUPES ROOTS ADD"]
    {
        assert!(page.contains(words), "no {words}");
    }
    assert!(!page.contains(".SH DUPES ROOTS\n"), "it does nothing by itself");
}

#[test]
fn every_shell_has_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(printed(&["completions", shell]).contains("one-file-system"), "{shell}");
    }
}

#[test]
fn the_manual_has_every_option_and_all_exit_codes() {
    let page = printed(&["man"]);
    let command = Args::command();
    for arg in command.find_subcommand("find").unwrap().get_arguments() {
        let name = arg.get_long().unwrap_or_default().replace('-', "\\-");
        assert!(page.contains(&name), "{name} is not in: {page}");
    }
    for exit in Exit::ALL {
        assert!(page.contains(&format!("\n.B {}\n", exit.code())), "{}", exit.code());
    }
}
