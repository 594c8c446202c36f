//! Promises about the repository itself: habits that prose would only ask for, and that
//! each rule of `docs/contract.md` and `docs/contract-dupes.md` and each hazard of
//! `docs/testing.md` has a test.
//!
//! Every check is a function from files to complaints, and `each_check_can_fail` feeds it
//! something that it must complain about.
//!
//! ```sh
//! cargo test -p tidegate --test tidy -- --nocapture
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The rules that concern what is built. One that is missing in the contract is a complaint.
const CLAUSES: &[&str] = &[
    "R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8", "R9", "R10", "O1", "O1a", "O2", "O3", "O4",
    "O5", "O6", "L1", "L2", "L3", "L4", "L5", "S1", "S2", "S3", "S4", "S5", "S6", "S7", "S8", "S9",
    "W1", "W2", "W3", "W4", "W5", "A1", "A2", "A3", "G1", "G2", "G3", "G4", "B1", "B2", "V1", "V2",
    "V3", "V4", "C1",
];
const HAZARDS: std::ops::RangeInclusive<u32> = 1..=88;
/// The rows of `docs/contract-dupes.md`: a letter, and how many there are.
const OF_DUPES: &[(&str, u32)] = &[("F", 23), ("M", 27), ("H", 28), ("D", 6), ("A", 44)];

const BANNED_TYPES: &[&str] = &["Inner", "Shared", "Manager"];
const LONGEST_FILE: usize = 700;
const LONGEST_README: usize = 150;

/// Where the product may name std's threads and atomics beside the facade, and why.
const THREADS_ALLOWED: &[(&str, &str)] = &[
    ("sync.rs", "the facade"),
    ("sync/", "the facade"),
    ("spawn.rs", "the one place where threads are made"),
    ("models/", "counts between two steps of loom, which are no steps of the model"),
    ("builder.rs", "the types in the signature of `spawner`"),
    ("config.rs", "available_parallelism"),
    ("frames.rs", "numbers for threads: a counter that orders nothing"),
    ("panics.rs", "the panic hook belongs to the process, not to a pool"),
    ("depot.rs", "under shuttle all threads share one stock on purpose"),
];
/// Where the product may read a clock beside `clock.rs`, and why.
const CLOCKS_ALLOWED: &[(&str, &str)] = &[
    ("clock.rs", "the clock"),
    ("models/", "how long an exploration took"),
    ("order.rs", "one deadline over several pools, whose clocks may differ"),
    ("on_tokio/time.rs", "the clock of a runtime"),
    ("admission.rs", "turns a caller's `Instant` into the pool's time"),
];
/// Examples that sleep because sleeping is the work they show.
const SLEEPS_ALLOWED: &[(&str, &str)] = &[("examples/shutdown_modes.rs", "the work of a task")];

struct File {
    /// From the root of the repository, with slashes.
    path: String,
    text: String,
}

impl File {
    fn is(&self, extension: &str) -> bool {
        self.path.ends_with(extension)
    }

    /// Code with its line number, without comments and without the `tests` module.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines: Vec<&str> = self.text.lines().collect();
        let opens_tests = |i: usize| {
            lines[i].starts_with("#[cfg(")
                && lines[i].contains("test")
                && lines.get(i + 1).is_some_and(|next| next.starts_with("mod tests"))
        };
        let end = (0..lines.len()).find(|i| opens_tests(*i)).unwrap_or(lines.len());
        let code = lines.into_iter().take(end).enumerate();
        code.filter(|(_, line)| !line.trim_start().starts_with("//")).map(|(i, line)| (i + 1, line))
    }
}

/// All text of the repository that people write.
fn repository() -> Vec<File> {
    fn walk(root: &Path, folder: &Path, found: &mut Vec<File>) {
        for entry in fs::read_dir(folder).expect("a readable repository").flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            if path.is_dir() {
                if name != "target" && (!name.starts_with('.') || name == ".ci") {
                    walk(root, &path, found);
                }
            } else if !name.ends_with(".lock")
                && name != ".git" // of a worktree
                && let Ok(text) = fs::read_to_string(&path)
            {
                let path = path.strip_prefix(root).expect("below the root").to_string_lossy();
                found.push(File { path: path.replace('\\', "/"), text });
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    walk(&root, &root, &mut found);
    assert!(found.len() > 60, "the walk found only {} files", found.len());
    found
}

fn find<'a>(files: &'a [File], path: &str) -> &'a str {
    &files.iter().find(|file| file.path == path).unwrap_or_else(|| panic!("{path} is gone")).text
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        !line[..at].chars().next_back().is_some_and(is_word)
            && !line[at + word.len()..].chars().next().is_some_and(is_word)
    })
}

fn complain(file: &File, line: usize, what: &str) -> String {
    format!("{}:{line}: {what}", file.path)
}

// ---------------------------------------------------------------- habits

fn banned_names(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.is(".rs")) {
        for (number, line) in file.code() {
            // An associated type is indented, and says what it is of.
            let keywords = ["struct ", "enum ", "union ", "trait "];
            let alias = !line.starts_with(' ') && line.contains("type ");
            let declares = alias || keywords.iter().any(|k| line.contains(k));
            let mut words = line.split(|c: char| !is_word(c)).filter(|word| !word.is_empty());
            let follows = |word: &str| ["struct", "enum", "union", "trait", "type"].contains(&word);
            if declares
                && let Some(name) = words.by_ref().find(|w| follows(w)).and_then(|_| words.next())
                && BANNED_TYPES.contains(&name)
            {
                found.push(complain(file, number, &format!("a type called {name} says nothing")));
            }
        }
    }
    found
}

/// `pattern` may only stand in files whose path below `scope` starts with an allowed name;
/// an allowance that nobody needs any more is a complaint as well.
fn only_in(
    files: &[File],
    scope: &str,
    patterns: &[&str],
    allowed: &[(&str, &str)],
) -> Vec<String> {
    let mut found = Vec::new();
    let mut used = BTreeSet::new();
    for file in files.iter().filter(|file| file.is(".rs")) {
        let Some(below) = file.path.strip_prefix(scope) else { continue };
        let allowance = allowed.iter().find(|(name, _)| below.starts_with(name));
        for (number, line) in file.code() {
            let Some(pattern) = patterns.iter().find(|p| line.contains(*p)) else { continue };
            match allowance {
                Some((name, _)) => drop(used.insert(*name)),
                None => found.push(complain(file, number, &format!("{pattern} outside its files"))),
            }
        }
    }
    for (name, why) in allowed.iter().filter(|(name, _)| !used.contains(name)) {
        found.push(format!("{scope}{name}: allowed to use {patterns:?} ({why}), but does not"));
    }
    found
}

fn threads_and_atomics(files: &[File]) -> Vec<String> {
    let patterns = ["std::sync::atomic", "std::thread"];
    only_in(files, "crates/tidegate/src/", &patterns, THREADS_ALLOWED)
}

fn clocks(files: &[File]) -> Vec<String> {
    let patterns = ["Instant::now", "SystemTime::now"];
    only_in(files, "crates/tidegate/src/", &patterns, CLOCKS_ALLOWED)
}

/// Tests wait for facts; in unit tests too, so the whole text counts. (Benches may wait.)
fn sleeps(files: &[File]) -> Vec<String> {
    let sleep = concat!("thread::", "sleep");
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.is(".rs") && file.path.starts_with("crates/")) {
        let allowed = SLEEPS_ALLOWED.iter().any(|(name, _)| file.path.ends_with(name));
        for (number, line) in file.text.lines().enumerate() {
            if line.contains(sleep) && !allowed {
                found.push(complain(file, number + 1, "sleeps; wait for a fact instead"));
            }
        }
    }
    found
}

fn long_files(files: &[File]) -> Vec<String> {
    let too_long = |file: &File| {
        let readme = file.path.ends_with("README.md");
        let most = if readme { LONGEST_README } else { LONGEST_FILE };
        let lines = file.text.lines().count();
        (lines > most && (readme || file.is(".rs")))
            .then(|| complain(file, lines, &format!("longer than {most} lines")))
    };
    files.iter().filter_map(too_long).collect()
}

/// Each `unsafe` block or impl has a `SAFETY:` in the comment above its statement.
fn unexplained_unsafe(files: &[File]) -> Vec<String> {
    const REACH: usize = 8;
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.is(".rs")) {
        let lines: Vec<&str> = file.text.lines().collect();
        for (i, line) in lines.iter().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            let opens = code.contains(concat!("unsafe", " {"))
                || code.trim_start().starts_with(concat!("unsafe", " impl"));
            if opens && !lines[i.saturating_sub(REACH)..=i].iter().any(|l| l.contains("SAFETY:")) {
                found.push(complain(file, i + 1, "unsafe without SAFETY"));
            }
        }
    }
    found
}

fn unfinished(files: &[File]) -> Vec<String> {
    let words = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("#[ig", "nore")];
    let mut found = Vec::new();
    for file in files {
        for (number, line) in file.text.lines().enumerate() {
            for word in words.iter().filter(|word| has_word(line, word)) {
                found.push(complain(file, number + 1, &format!("{word}: finish it or file it")));
            }
        }
    }
    found
}

/// Nothing that is true on one machine only.
fn machine_paths(files: &[File]) -> Vec<String> {
    let paths = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];
    let mut found = Vec::new();
    for file in files {
        for (number, line) in file.text.lines().enumerate() {
            if let Some(path) = paths.iter().find(|path| line.contains(*path)) {
                found.push(complain(file, number + 1, &format!("{path}… is somebody's machine")));
            }
        }
    }
    found
}

// ---------------------------------------------------------------- documents

/// The crate's front page is its README, and the root README shows the same quick start.
fn front_page(files: &[File]) -> Vec<String> {
    fn quick_start(text: &str) -> &str {
        let from = text.split_once("```rust\n").map_or("", |(_, rest)| rest);
        from.split_once("```").map_or("", |(code, _)| code)
    }
    let mut found = Vec::new();
    if !find(files, "crates/tidegate/src/lib.rs").contains("doc = include_str!(\"../README.md\")") {
        found.push("crates/tidegate/src/lib.rs: the front page is not the README".to_owned());
    }
    let (root, own) = (find(files, "README.md"), find(files, "crates/tidegate/README.md"));
    if quick_start(own).is_empty() || quick_start(root) != quick_start(own) {
        found
            .push("README.md: its quick start is not that of crates/tidegate/README.md".to_owned());
    }
    found
}

/// What documents and CI name in `scripts/` is there.
fn missing_scripts(files: &[File]) -> Vec<String> {
    let there: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.is(".md") || file.path == ".ci/run") {
        for (number, line) in file.text.lines().enumerate() {
            for (at, _) in line.match_indices("scripts/") {
                let name: String =
                    line[at..].chars().take_while(|c| is_word(*c) || *c == '/').collect();
                if name != "scripts/" && !there.contains(name.as_str()) {
                    found.push(complain(file, number + 1, &format!("{name} does not exist")));
                }
            }
        }
    }
    found
}

/// Names in backticks.
fn names_in(line: &str) -> Vec<&str> {
    line.split('`').skip(1).step_by(2).collect()
}

/// Functions of a file that are marked as tests.
fn tests_in(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut marked = false;
    for line in text.lines().map(str::trim) {
        marked |= line.contains("#[test]") || line.starts_with("#[tokio::test");
        if let Some((_, rest)) = line.split_once("fn ") {
            if marked {
                found.insert(rest.chars().take_while(|c| is_word(*c)).collect());
            }
            marked = false;
        }
    }
    found
}

/// Functions that are tests: marked as such, or rows of the conformance suite.
fn tests_of(files: &[File]) -> BTreeSet<String> {
    let sources = files.iter().filter(|file| file.is(".rs"));
    let mut found: BTreeSet<String> = sources.flat_map(|file| tests_in(&file.text)).collect();
    let rows = find(files, "crates/tidegate-conformance/src/suite.rs").lines();
    for row in rows.filter(|row| row.trim_end().ends_with("];")) {
        let name = row.split_once("::").and_then(|(_, rest)| rest.split_once(" \""));
        found.extend(name.map(|(name, _)| name.to_owned()));
    }
    found
}

/// What is proved out of what there is, and what is not.
struct Coverage {
    proved: usize,
    of: usize,
    complaints: Vec<String>,
}

/// Every rule has a paragraph, and a `Tests:` line with tests that exist.
fn clauses(files: &[File], tests: &BTreeSet<String>) -> Coverage {
    let mut named: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut current = "";
    for line in find(files, "docs/contract.md").lines() {
        if let Some(heading) = line.strip_prefix("### ") {
            current = heading.split(' ').next().unwrap_or_default();
            named.entry(current).or_default();
        } else if line.starts_with("Tests:") {
            named.entry(current).or_default().extend(names_in(line));
        }
    }
    let mut complaints = Vec::new();
    for (clause, names) in &named {
        if !CLAUSES.contains(clause) {
            complaints.push(format!("docs/contract.md: {clause} is no rule of this part"));
        }
        for name in names.iter().filter(|name| !tests.contains(**name)) {
            complaints.push(format!("docs/contract.md: {clause}: there is no test {name}"));
        }
    }
    let is_proved = |clause: &&&str| {
        named.get(**clause).is_some_and(|names| {
            !names.is_empty() && names.iter().all(|name| tests.contains(*name))
        })
    };
    let proved = CLAUSES.iter().filter(is_proved).count();
    for clause in CLAUSES.iter().filter(|clause| named.get(**clause).is_none_or(Vec::is_empty)) {
        complaints.push(format!("docs/contract.md: {clause} has no test"));
    }
    Coverage { proved, of: CLAUSES.len(), complaints }
}

/// Every point of what differs on tokio has a `Tests:` line with tests that exist.
fn on_tokio(files: &[File], tests: &BTreeSet<String>) -> Vec<String> {
    let lines = find(files, "docs/contract.md").lines();
    let section = lines.skip_while(|line| *line != "## On tokio").skip(1);
    let mut lines = section.take_while(|line| !line.starts_with("## ")).peekable();
    let mut complaints = Vec::new();
    while let Some(line) = lines.next() {
        let Some(point) = line.strip_prefix("- ") else { continue };
        let point: String = point.chars().take(30).collect();
        let names = lines.next_if(|next| next.starts_with("  Tests:")).map(names_in);
        let names = names.unwrap_or_default();
        if names.is_empty() {
            complaints.push(format!("docs/contract.md: {point:?} has no test"));
        }
        for name in names.iter().filter(|name| !tests.contains(**name)) {
            complaints.push(format!("docs/contract.md: {point:?}: there is no test {name}"));
        }
    }
    complaints
}

/// Every line of the hazard list has its row: tests that exist, or a sentence, or a part
/// that is not built. `of` counts those that concern what is built.
fn hazards(files: &[File], tests: &BTreeSet<String>) -> Coverage {
    let mut complaints = Vec::new();
    let mut rows: BTreeMap<u32, bool> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for line in find(files, "docs/testing.md").lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let (Some(number), Some(kind)) = (cells.get(1).and_then(|c| c.parse().ok()), cells.get(3))
        else {
            continue;
        };
        let by = cells[4..].join("|");
        let mut wrong =
            |what: String| complaints.push(format!("docs/testing.md: hazard {number}: {what}"));
        if !seen.insert(number) {
            wrong("twice".to_owned());
        }
        match *kind {
            "test" => {
                let names = names_in(&by);
                let missing: Vec<_> = names.iter().filter(|n| !tests.contains(**n)).collect();
                missing.iter().for_each(|name| wrong(format!("there is no test {name}")));
                if names.is_empty() {
                    wrong("names no test".to_owned());
                }
                rows.insert(number, !names.is_empty() && missing.is_empty());
            }
            "construction" => {
                let says_why = by.len() > 60;
                if !says_why {
                    wrong("does not say why it can't happen".to_owned());
                }
                rows.insert(number, says_why);
            }
            other => wrong(format!("{other} {by} is neither tested nor explained")),
        }
    }
    for number in HAZARDS.filter(|number| !seen.contains(number)) {
        complaints.push(format!("docs/testing.md: hazard {number} is missing"));
    }
    Coverage { proved: rows.values().filter(|proved| **proved).count(), of: rows.len(), complaints }
}

/// Every promise of dupes has its row: files, and after each tests that are in it.
fn promises_of_dupes(files: &[File]) -> Coverage {
    let mut complaints = Vec::new();
    let mut rows: BTreeMap<String, bool> = BTreeMap::new();
    for line in find(files, "docs/contract-dupes.md").lines().filter(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, id, _, by, _] = cells[..] else { continue };
        if !OF_DUPES.iter().any(|(letter, _)| id.starts_with(letter)) {
            continue;
        }
        let before = complaints.len();
        let mut wrong = |what| complaints.push(format!("docs/contract-dupes.md: {id}: {what}"));
        let (mut of, mut named) = (None, 0);
        for name in names_in(by) {
            if name.ends_with(".rs") {
                let path = format!("apps/dupes/{name}");
                of = files.iter().find(|file| file.path == path).map(|file| tests_in(&file.text));
                if of.is_none() {
                    wrong(format!("there is no file {name}"));
                }
            } else {
                named += 1;
                if !of.as_ref().is_some_and(|tests| tests.contains(name)) {
                    wrong(format!("there is no test {name} in that file"));
                }
            }
        }
        if named == 0 {
            wrong("names no test".to_owned());
        }
        if rows.insert(id.to_owned(), complaints.len() == before).is_some() {
            complaints.push(format!("docs/contract-dupes.md: {id}: twice"));
        }
    }
    let all =
        OF_DUPES.iter().flat_map(|(letter, most)| (1..=*most).map(move |n| format!("{letter}{n}")));
    let all: Vec<String> = all.collect();
    for id in all.iter().filter(|id| !rows.contains_key(*id)) {
        complaints.push(format!("docs/contract-dupes.md: {id} is missing"));
    }
    for id in rows.keys().filter(|id| !all.contains(id)) {
        complaints.push(format!("docs/contract-dupes.md: {id} is not counted here"));
    }
    Coverage { proved: rows.values().filter(|proved| **proved).count(), of: all.len(), complaints }
}

/// T1–T10 and I1–I8 of the specification, by those names.
fn specification(files: &[File], tests: &BTreeSet<String>) -> Vec<String> {
    let wanted = (1..=10).map(|n| format!("T{n}")).chain((1..=8).map(|n| format!("I{n}")));
    let rows: Vec<&str> = find(files, "docs/testing.md").lines().collect();
    let mapped = |id: &String| {
        rows.iter().any(|row| {
            row.starts_with(&format!("| {id} "))
                && names_in(row)
                    .iter()
                    .any(|n| n.starts_with(&format!("{id}_")) && tests.contains(*n))
        })
    };
    wanted.filter(|id| !mapped(id)).map(|id| format!("docs/testing.md: {id} has no test")).collect()
}

// ---------------------------------------------------------------- the tests

fn assert_none(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn habits_are_kept() {
    let files = repository();
    let mut complaints = banned_names(&files);
    complaints.extend(threads_and_atomics(&files));
    complaints.extend(clocks(&files));
    complaints.extend(sleeps(&files));
    complaints.extend(long_files(&files));
    complaints.extend(unexplained_unsafe(&files));
    complaints.extend(unfinished(&files));
    complaints.extend(machine_paths(&files));
    assert_none(complaints);
}

#[test]
fn documents_tell_the_truth() {
    let files = repository();
    let tests = tests_of(&files);
    let mut complaints = front_page(&files);
    complaints.extend(missing_scripts(&files));
    complaints.extend(specification(&files, &tests));
    complaints.extend(on_tokio(&files, &tests));
    assert_none(complaints);
}

#[test]
fn every_rule_and_every_hazard_has_a_test() {
    let files = repository();
    let tests = tests_of(&files);
    let (clauses, hazards) = (clauses(&files, &tests), hazards(&files, &tests));
    let dupes = promises_of_dupes(&files);
    println!(
        "clauses {}/{}, hazards {}/{}, of dupes {}/{}",
        clauses.proved, clauses.of, hazards.proved, hazards.of, dupes.proved, dupes.of
    );
    assert_none([clauses.complaints, hazards.complaints, dupes.complaints].concat());
}

#[test]
fn each_check_can_fail() {
    let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
    let src = |text: &str| vec![file("crates/tidegate/src/bad.rs", text)];
    let complains = |complaints: Vec<String>, about: &str| {
        assert!(
            complaints.iter().any(|c| c.contains(about)),
            "{about} went unnoticed: {complaints:?}"
        );
    };
    complains(banned_names(&src(concat!("pub(crate) struct", " Inner {"))), "Inner");
    complains(banned_names(&src("type Shared = u8;")), "Shared");
    complains(threads_and_atomics(&src("use std::sync::atomic::AtomicU64;")), "bad.rs:1");
    complains(threads_and_atomics(&src("")), "but does not");
    complains(clocks(&src("let now = Instant::now();")), "bad.rs:1");
    complains(sleeps(&src(concat!("std::thread::", "sleep(d);"))), "bad.rs:1");
    complains(long_files(&src(&"x\n".repeat(701))), "longer than 700");
    complains(long_files(&[file("README.md", &"x\n".repeat(151))]), "longer than 150");
    complains(unexplained_unsafe(&src(concat!("let x = unsafe", " { *p };"))), "SAFETY");
    complains(unfinished(&src(concat!("// TO", "DO: later"))), "bad.rs:1");
    complains(machine_paths(&[file("a.md", concat!("see /ho", "me/me/x"))]), "machine");
    complains(missing_scripts(&[file("a.md", "run `scripts/nothing`")]), "scripts/nothing");

    // A copy of the repository in which one thing is wrong.
    let with = |path: &str, from: &str, to: &str| {
        let mut files = repository();
        let file = files.iter_mut().find(|f| f.path == path).expect("the file to spoil");
        assert!(file.text.contains(from), "{path} has no {from:?} to spoil");
        file.text = file.text.replace(from, to);
        files
    };
    let tests = tests_of(&repository());
    let contract = "docs/contract.md";
    complains(clauses(&with(contract, "### R7 ", "### R77 "), &tests).complaints, "R7 has no test");
    complains(clauses(&with(contract, "Tests: `R1_", "Tests: `R0_"), &tests).complaints, "R0_");
    let limits = "limits_follow_the_paused";
    complains(on_tokio(&with(contract, limits, "limits_go_by_the_paused"), &tests), "limits_go_by");
    complains(on_tokio(&with(contract, "  Tests: `limits", "  `limits"), &tests), "has no test");
    let table = "docs/testing.md";
    complains(
        hazards(&with(table, "\n| 7 |", "\n| seven |"), &tests).complaints,
        "hazard 7 is missing",
    );
    complains(hazards(&with(table, "`hazard_07_", "`hazard_00_"), &tests).complaints, "hazard_00_");
    complains(
        hazards(&with(table, "| construction |", "| later |"), &tests).complaints,
        "neither tested nor explained",
    );
    let dupes = "docs/contract-dupes.md";
    let spoiled = |from: &str, to: &str| promises_of_dupes(&with(dupes, from, to)).complaints;
    complains(spoiled("| F3 |", "| F2 |"), "F3 is missing");
    complains(spoiled("| F3 |", "| F2 |"), "F2: twice");
    complains(spoiled("| H28 |", "| H29 |"), "H29 is not counted");
    complains(spoiled("`candidates_are_few`", "`candidates_were_few`"), "no test candidates_were");
    complains(spoiled("`src/io.rs`", "`src/stop.rs`"), "no test more_while_they_wait");
    complains(spoiled("`src/io.rs`", "`src/oi.rs`"), "no file src/oi.rs");
    complains(
        spoiled("`tests/scan.rs` `a_root_that_is_not_there_is_not_all_gone` |", "|"),
        "H20: names no",
    );
    complains(specification(&with(table, "| T4 bounded", "| T bounded"), &tests), "T4");
    let lib = "crates/tidegate/src/lib.rs";
    complains(front_page(&with(lib, "../README.md", "../OTHER.md")), "front page");
    complains(front_page(&with("README.md", "Pool::builder", "Pool::maker")), "quick start");
    assert!(!tests.contains("eventually"), "a helper was taken for a test");
}
