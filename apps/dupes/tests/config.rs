//! A configuration file and variables, through the binary.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use support::{in_time, is_root, json, stderr, write};
use tempfile::TempDir;

/// A home with a tree in it.
struct Home {
    dir: TempDir,
}

impl Home {
    fn new() -> Home {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in [("a", "same"), ("b", "same"), (".c", "same"), ("x.tmp", "same")] {
            write(&dir, &format!("tree/{name}"), text);
        }
        Home { dir }
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join(".config/dupes/config.toml")
    }

    fn set(&self, text: &str) {
        write(&self.dir, ".config/dupes/config.toml", text);
    }

    /// In an environment of its own.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dupes"));
        command.args(words).env_clear().env("HOME", self.dir.path()).stdin(Stdio::null());
        command.current_dir(self.dir.path());
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.run_in(words, &[])
    }

    fn run_in(&self, words: &[&str], variables: &[(&str, &str)]) -> Output {
        let mut command = self.command(words);
        command.envs(variables.iter().copied());
        in_time(&format!("{words:?}"), move || command.output().unwrap())
    }

    fn ok(&self, words: &[&str], variables: &[(&str, &str)]) -> Output {
        let output = self.run_in(words, variables);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {output:?}");
        output
    }
}

/// How many files are in sets.
fn listed(output: &Output) -> usize {
    let paths = |group: &serde_json::Value| group["paths"].as_array().unwrap().len();
    json(output)["groups"].as_array().unwrap().iter().map(paths).sum()
}

#[test]
fn defaults_come_from_the_usual_place() {
    let home = Home::new();
    assert_eq!(listed(&home.ok(&["find", "--format", "json", "tree"], &[])), 4, "nothing is set");
    home.set("[find]\nformat = \"json\"\nhidden = false\nexclude = [\"*.tmp\"]\n");
    assert_eq!(listed(&home.ok(&["find", "tree"], &[])), 2);
    assert_eq!(listed(&home.ok(&["find", "--hidden", "tree"], &[])), 3);
    assert_eq!(
        listed(&home.ok(&["find", "tree"], &[("DUPES_EXCLUDE", "q"), ("DUPES_HIDDEN", "1")])),
        4
    );
    let text = home.ok(&["find", "--no-config", "tree"], &[]);
    assert!(!text.stdout.starts_with(b"{"), "{text:?}");
    // Elsewhere.
    write(&home.dir, "other/dupes/config.toml", "format = \"json\"\nunique = true\n[scan]\n");
    let other = home.dir.path().join("other");
    let all = [("XDG_CONFIG_HOME", other.to_str().unwrap())];
    assert_eq!(listed(&home.ok(&["find", "tree"], &all)), 0);
    let path = home.ok(&["config", "path"], &all);
    let expected = format!("{}/dupes/config.toml\n", other.display());
    assert_eq!(String::from_utf8(path.stdout).unwrap(), expected);
    let named = [("DUPES_CONFIG", "other/dupes/config.toml")];
    assert_eq!(listed(&home.ok(&["find", "tree"], &named)), 0);
    assert_eq!(
        listed(&home.ok(&["find", "--config", ".config/dupes/config.toml", "tree"], &named)),
        2
    );
}

#[test]
fn a_file_that_is_wrong_stops_all_but_those_who_need_none() {
    let home = Home::new();
    home.set("threads = 2\n[scan]\nthread = 2\n");
    for words in [&["find", "tree"][..], &["status"], &["scan", "tree"]] {
        let output = home.run(words);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {output:?}");
        let line = format!("{}, line 3: thread:", home.file().display());
        assert!(stderr(&output).contains(&line), "{output:?}");
        assert!(stderr(&output).contains("did you mean threads?"), "{output:?}");
    }
    assert!(!home.dir.path().join(".local").exists(), "nothing was begun");
    for words in
        [&["config", "path"][..], &["man"], &["exit-codes"], &["--help"], &["completions", "bash"]]
    {
        home.ok(words, &[]);
    }
    home.ok(&["find", "--no-config", "tree"], &[]);
}

#[test]
fn what_is_no_file_does_not_hold_anybody_up() {
    let home = Home::new();
    home.set("");
    fs::remove_file(home.file()).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o644);
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, home.file(), fifo, mode, 0).unwrap();
    for words in [&["find", "tree"][..], &["config", "check"]] {
        let output = home.run(words);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(stderr(&output).contains("no regular file"), "{output:?}");
    }
    let missing = home.run(&["find", "--config", "none.toml", "tree"]);
    assert_eq!(missing.status.code(), Some(1), "{missing:?}");
    assert!(stderr(&missing).contains("none.toml: it was named"), "{missing:?}");
}

/// As after `sudo -u`: HOME is that of somebody whose folders are closed.
#[test]
fn a_home_that_is_closed_to_us_has_no_file_and_a_file_that_is_closed_is_an_error() {
    if !is_root() {
        eprintln!("skipped: needs root, to become somebody whom permissions bind");
        return;
    }
    let home = Home::new();
    home.set("format = \"json\"\n");
    let may = |path: &str, mode| {
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(home.dir.path().join(path), mode).unwrap();
    };
    for path in ["", "tree", ".config/dupes"] {
        may(path, 0o755);
    }
    may(".config/dupes/config.toml", 0o600);
    let run = |mode| {
        may(".config", mode);
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
        command.arg(env!("CARGO_BIN_EXE_dupes")).args(["find", "tree"]);
        command.env("HOME", home.dir.path()).current_dir(home.dir.path()).output().unwrap()
    };
    let behind = run(0o700);
    assert_eq!(behind.status.code(), Some(0), "{behind:?}");
    let closed = run(0o755);
    assert_eq!(closed.status.code(), Some(2), "{closed:?}");
    assert!(
        stderr(&closed).contains("config.toml: can't be read: Permission denied"),
        "{closed:?}"
    );
}

#[test]
fn check_says_what_is_set_and_by_whom() {
    let home = Home::new();
    home.set("threads = 2\nexclude = [\"a\\\\b\", \"*.tmp\"]\n\n[find]\nmin_size = \"1k\"\n");
    let variables = [("DUPES_IO_THREADS", "8"), ("DUPES_FOLOW", "1")];
    let output = home.ok(&["config", "check"], &variables);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let file = home.file().display().to_string();
    for line in [
        format!("# {file} was read"),
        "[find]".into(),
        "[scan]".into(),
        format!("threads = 2 # {file}:1"),
        format!("min_size = \"1k\" # {file}:5"),
        "io_threads = 8 # environment DUPES_IO_THREADS".into(),
        "progress = \"auto\" # default".into(),
        "# depth is not set # default".into(),
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in: {text}");
    }
    assert!(stderr(&output).contains("did you mean DUPES_FOLLOW?"), "{output:?}");
    // What is printed is a file that says the same.
    let values = |output: &Output| {
        let mut settings = json(output)["settings"].clone();
        for table in settings.as_object_mut().unwrap().values_mut() {
            for one in table.as_object_mut().unwrap().values_mut() {
                *one = one["value"].clone();
            }
        }
        settings
    };
    let before = values(&home.ok(&["config", "check", "--json"], &variables));
    assert_eq!(before["find"]["exclude"], serde_json::json!(["a\\b", "*.tmp"]));
    home.set(&text);
    assert_eq!(values(&home.ok(&["config", "check", "--json"], &[])), before);
}

#[test]
fn check_tells_a_command_line_what_it_would_have() {
    let home = Home::new();
    home.set("threads = 2\n");
    let words = ["config", "check", "--json", "find", "--threads", "5", "--no-follow", "tree"];
    let output = home.ok(&words, &[("DUPES_HASH", "sha256")]);
    let settings = json(&output)["settings"].clone();
    assert_eq!(settings.as_object().unwrap().len(), 1, "{settings}");
    let find = &settings["find"];
    assert_eq!(find["threads"], serde_json::json!({ "value": 5, "source": "flag" }));
    assert_eq!(find["follow"]["source"], "flag");
    let hash =
        serde_json::json!({"value": "sha256", "source": "environment", "variable": "DUPES_HASH"});
    assert_eq!(find["hash"], hash);
    assert_eq!(find["format"], serde_json::json!({ "value": "text", "source": "default" }));
    let output = home.run(&["config", "check", "--json", "find", "--threads", "0", "tree"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(json(&output)["errors"][0].as_str().unwrap().contains("--threads"), "{output:?}");
}

#[test]
fn check_has_all_errors_for_machines_too() {
    let home = Home::new();
    home.set("x = 1\nthreads = 0\n");
    let output = home.run(&["config", "check", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let found = json(&output);
    assert_eq!(found["errors"].as_array().unwrap().len(), 2, "{found}");
    assert_eq!(found["settings"], serde_json::Value::Null);
    assert_eq!(home.run(&["config", "check"]).status.code(), Some(1));
}

/// Each is fine by itself; a run would refuse them together.
#[test]
fn check_finds_what_does_not_go_together() {
    let home = Home::new();
    let none = &[][..];
    for (file, variables, run, named) in [
        ("format = \"json\"\nnull = true\n", none, "find tree", ["--null", "--format"]),
        ("[report]\nformat = \"csv\"\nnull = true\n", none, "report files", ["--null", "--format"]),
        ("[find]\nnull = true\n", &[("DUPES_FORMAT", "json")], "find tree", ["--null", "--format"]),
        ("[find]\nformat = \"fdupes\"\nhash = \"xxh3\"\n", none, "find tree", ["--hash", "fdupes"]),
        ("[find]\nrf_over = 3\nrf_under = 3\n", none, "find tree", ["--rf-over", "--rf-under"]),
        (
            "[scan]\nmin_size = \"2k\"\n",
            &[("DUPES_MAX_SIZE", "1k")],
            "scan tree",
            ["--min-size", "--max-size"],
        ),
    ] {
        home.set(file);
        for words in [run, "config check", &format!("config check {run}")] {
            let words: Vec<&str> = words.split(' ').collect();
            let output = home.run_in(&words, variables);
            assert_eq!(output.status.code(), Some(1), "{file}: {words:?}: {output:?}");
            let said = stderr(&output);
            for option in named {
                assert!(said.contains(option), "{option} is not in: {said}");
            }
            assert!(said.contains("config.toml:"), "where it comes from: {said}");
        }
    }
    home.set("[find]\nformat = \"json\"\n[report]\nnull = true\n");
    home.ok(&["config", "check"], &[]);
    for line in ["find --stdin", "find --stdin0", "apply move --to a tree", "scan files", "man"] {
        let words: Vec<&str> = ["config", "check"].into_iter().chain(line.split(' ')).collect();
        home.ok(&words, &[]);
    }
    let mut homeless = home.command(&["config", "check"]);
    homeless.env_remove("HOME");
    assert_eq!(homeless.output().unwrap().status.code(), Some(0), "it needs no home folder");
}

#[test]
fn filters_are_for_roots_that_are_new() {
    let home = Home::new();
    home.set("database = \"~/d/x.db\"\n[scan]\nexclude = [\"*.tmp\"]\n");
    let files = |output: &Output| json(output)["files"].as_u64().unwrap();
    assert_eq!(files(&home.ok(&["scan", "--json", "tree"], &[])), 3);
    assert!(home.dir.path().join("d/x.db").exists(), "~ is the home folder");
    let listed = json(&home.ok(&["roots", "list", "--json"], &[]));
    assert_eq!(listed["roots"][0]["filters"], serde_json::json!(["--exclude=*.tmp"]));
    // Another setting changes nothing of a root that is there, whether it is named or not.
    home.set("database = \"~/d/x.db\"\n[scan]\nhidden = false\n");
    assert_eq!(files(&home.ok(&["scan", "--json"], &[])), 3);
    assert_eq!(files(&home.ok(&["scan", "--json", "tree"], &[])), 3);
    let output = home.run(&["scan", "--exclude", "q", "tree"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(stderr(&output).contains("registered with other filters"), "{output:?}");
    write(&home.dir, "new/.a", "x");
    assert_eq!(files(&home.ok(&["scan", "--json", "new"], &[])), 0);
}

#[test]
fn a_hash_that_is_set_is_that_of_a_new_database() {
    let home = Home::new();
    let hash = |database: &str| {
        let connection = rusqlite::Connection::open(home.dir.path().join(database)).unwrap();
        let sql = "SELECT value FROM settings WHERE name = 'hash'";
        connection.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap()
    };
    home.ok(&["scan", "--database", "one", "tree"], &[]);
    home.set("hash = \"sha256\"\n");
    home.ok(&["scan", "--database", "one", "tree"], &[]);
    assert_eq!(hash("one"), "blake3", "what it has is kept");
    home.ok(&["scan", "tree"], &[("DUPES_DATABASE", "two")]);
    assert_eq!(hash("two"), "sha256");
}

#[test]
fn without_a_home_folder_each_command_says_what_to_set() {
    let home = Home::new();
    let (database, journal) = ("--database FILE", "--journal DIR");
    for (verb, more, option) in [
        ("scan", "", database),
        ("scan", "tree", database),
        ("roots list", "", database),
        ("roots add", "tree", database),
        ("roots remove", "tree", database),
        ("refresh", "", database),
        ("purge", "", database),
        ("verify", "", database),
        ("status", "", database),
        ("report files", "", database),
        ("report folders", "", database),
        ("report", "--html page", database),
        ("plan", "-o plan --report", database),
        ("apply", "remove tree", journal),
        ("undo", "", journal),
        ("recover", "finish", journal),
        ("log", "", journal),
        ("purge-quarantine", "", journal),
        ("config path", "", "--config FILE"),
    ] {
        let words: Vec<&str> = verb.split(' ').chain(more.split_whitespace()).collect();
        let mut command = home.command(&words);
        // A relative one says nothing.
        command.env_remove("HOME").env("XDG_DATA_HOME", "here").env("XDG_CONFIG_HOME", "here");
        let output = in_time(verb, move || command.output().unwrap());
        assert_eq!(output.status.code(), Some(1), "{words:?}: {output:?}");
        let said = stderr(&output);
        for part in ["set HOME or XDG_", option, &format!("Usage: dupes {verb} ")] {
            assert!(said.contains(part), "{words:?}: no {part:?} in: {said}");
        }
    }
}
