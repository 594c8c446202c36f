//! `dupes report --html`: one page that says what the other reports say, and from which no name breaks out.

mod support;

#[path = "support/scans.rs"]
mod scans;

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use dupes::escape::escaped;
use dupes::report::html::{Limits, gather};
use dupes::stop::Stop;
use dupes::store::Store;
use scans::Bench;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use support::{in_time, is_root, stderr};

/// Each is the name of a file.
const HOSTILE: [&[u8]; 12] = [
    b"<img src=x onerror=alert(1)>",
    b"<!--<script>",
    b"]]>-->",
    b"\" onclick=\"alert(1)",
    b"' onfocus='alert(1)",
    b"&lt;&#60;",
    b"{{data}}",
    b"__proto__",
    b"a\nb\tc\rd\\n",
    b"\x01\x1b[31m\x7f",
    b"sep\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xae",
    b"\xff\xfe not UTF-8",
];

/// Sets of them, hard links, equal, similar and held folders, and a name across a slash.
fn tree() -> Bench {
    let bench = Bench::new();
    for (number, name) in HOSTILE.iter().enumerate() {
        for folder in ["one", "two", "th<ree>\u{f6}"] {
            let path = bench.path(folder).join(std::ffi::OsStr::from_bytes(name));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            if folder != "two" || number > 2 {
                fs::write(path, vec![number as u8; 1_000 + number * 9_000]).unwrap();
            }
        }
    }
    bench.write("</script><script>alert(1)<", "across");
    bench.write("held/script>", "across");
    bench.write("same/a/<b>", vec![7; 3_000]);
    bench.write("same/b/<b>", vec![7; 3_000]);
    fs::hard_link(bench.path("one/]]>-->"), bench.path("one/more")).unwrap();
    for number in 0..12 {
        bench.write(&format!("alike/{number}"), vec![100 + number; 20_000]);
        bench.write(&format!("like/{number}"), vec![100 + number % 8; 20_000]);
        bench.write(&format!("alone/in/{number}"), vec![200; 30_000 + usize::from(number)]);
    }
    bench
}

fn page_of(bench: &Bench) -> PathBuf {
    bench.dir.path().join("page.html")
}

/// Writes it with the program.
fn write(bench: &Bench) -> String {
    let page = page_of(bench);
    let output = bench.dupes(&["report", "--html", page.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(output.stdout, b"");
    fs::read_to_string(page).unwrap()
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("no {before}"));
    rest.split_once(after).unwrap_or_else(|| panic!("no {after}")).0
}

fn data(page: &str) -> Value {
    let data = between(page, "<script type=\"application/json\" id=\"data\">", "</script>");
    serde_json::from_str(data).unwrap()
}

fn listing(bench: &Bench, what: &str) -> Value {
    serde_json::from_slice(&bench.dupes(&["report", what, "--json"]).stdout).unwrap()
}

/// A path of a listing, as people see it.
fn shown(path: &Value) -> String {
    match path {
        Value::String(text) => escaped(text.as_bytes()).to_string(),
        other => escaped(&STANDARD.decode(other["bytes"].as_str().unwrap()).unwrap()).to_string(),
    }
}

/// Of a folder of the page.
fn folder(data: &Value, number: &Value) -> String {
    let number = usize::try_from(number.as_i64().unwrap()).unwrap();
    let name = data["folders"]["name"][number].as_str().unwrap();
    match &data["folders"]["parent"][number] {
        root if root == -1 => name.to_owned(),
        parent => format!("{}/{name}", folder(data, parent)),
    }
}

fn array(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap()
}

fn sum(column: &Value, data: &Value) -> u64 {
    let roots = array(&data["folders"]["parent"]).iter().zip(array(column));
    roots.filter(|(parent, _)| **parent == -1).map(|(_, value)| value.as_u64().unwrap()).sum()
}

// ------------------------------------------------------------ what it says

#[test]
fn it_has_the_sets_that_are_listed_with_all_names() {
    let bench = tree();
    bench.scan(&[]);
    let (data, listing) = (data(&write(&bench)), listing(&bench, "files"));
    let names = |group: &Value| {
        let names =
            array(&group["paths"]).iter().chain(array(&group["links"]).iter().map(|l| &l["path"]));
        let mut names: Vec<String> = names.map(shown).collect();
        names.sort();
        names
    };
    let mut expected: Vec<(Value, Value, usize, Vec<String>)> = array(&listing["groups"])
        .iter()
        .map(|group| {
            let copies = array(&group["paths"]).len();
            (group["size"].clone(), group["reclaimable"].clone(), copies, names(group))
        })
        .collect();
    // The largest winnings first, then the largest files; the listing has the others in this order.
    expected.sort_by_key(|(_, reclaimable, ..)| std::cmp::Reverse(reclaimable.as_u64()));
    let mut found = Vec::new();
    for row in array(&data["sets"]) {
        let (mut names, mut last) = (Vec::new(), "");
        for name in array(&row[4]).chunks(3) {
            last = name[1].as_str().unwrap_or(last);
            names.push(format!("{}/{last}", folder(&data, &name[0])));
        }
        names.sort();
        let copies = usize::try_from(row[2].as_u64().unwrap()).unwrap();
        found.push((row[0].clone(), row[1].clone(), copies, names));
    }
    assert!(found.len() > HOSTILE.len());
    assert_eq!(found, expected);
    let totals = &listing["totals"];
    assert_eq!(data["totals"]["reclaimable"], totals["reclaimable_bytes"]);
    assert_eq!(
        [&data["totals"]["sets"], &data["totals"]["files"]],
        [&totals["sets"], &totals["files"]]
    );
}

#[test]
fn it_has_the_folders_that_are_alike() {
    let bench = tree();
    bench.scan(&[]);
    let (data, listing) = (data(&write(&bench)), listing(&bench, "folders"));
    let mut expected = Vec::new();
    for (kind, field) in [("equal", "exact"), ("alike", "partial"), ("held", "contained")] {
        assert!(!array(&listing[field]).is_empty(), "the tree has none that are {kind}");
        for claim in array(&listing[field]) {
            let folders: Vec<String> = match kind {
                "held" => vec![shown(&claim["folder"]), shown(&claim["within"])],
                _ => array(&claim["folders"]).iter().map(shown).collect(),
            };
            expected.push((
                kind,
                claim["reclaimable"].as_u64().unwrap(),
                claim["files"].clone(),
                folders,
            ));
        }
    }
    expected.sort_by_key(|(_, reclaimable, ..)| std::cmp::Reverse(*reclaimable));
    let found: Vec<(&str, u64, Value, Vec<String>)> = array(&data["claims"])
        .iter()
        .map(|claim| {
            let folders = array(&claim["folders"]).iter().map(|number| folder(&data, number));
            let (kind, free) =
                (claim["kind"].as_str().unwrap(), claim["reclaimable"].as_u64().unwrap());
            (kind, free, claim["files"].clone(), folders.collect())
        })
        .collect();
    assert_eq!(found, expected);
    let differ = json!([4, ["10", "11", "8", "9"]]);
    let claims = &data["claims"];
    assert!(array(claims).iter().any(|claim| claim["other_content"] == differ), "{claims}");
}

#[test]
fn the_treemap_adds_up() {
    let bench = tree();
    bench.scan(&[]);
    let (data, listing) = (data(&write(&bench)), listing(&bench, "files"));
    let (folders, totals) = (&data["folders"], &listing["totals"]);
    assert_eq!(sum(&folders["files"], &data), totals["files"].as_u64().unwrap());
    assert_eq!(sum(&folders["bytes"], &data), totals["bytes"].as_u64().unwrap());
    assert_eq!(sum(&folders["reclaimable"], &data), totals["reclaimable_bytes"].as_u64().unwrap());
    assert_eq!(sum(&folders["disk"], &data), on_disk(&bench.tree(), &mut HashSet::new()));
    let number = |name: &str| {
        let mut all = 0..array(&folders["name"]).len();
        let path = escaped(bench.path(name).as_os_str().as_bytes()).to_string();
        all.find(|number| folder(&data, &json!(number)) == path).unwrap()
    };
    let (alone, alike) = (number("alone"), number("alike"));
    assert_eq!([&folders["copied"][alone], &folders["own_disk"][alone]], [0, 0]);
    assert_eq!(folders["children"][alone], 1);
    let copied = folders["copied"][alike].as_u64().unwrap();
    let whole = folders["disk"][alike].as_u64().unwrap();
    assert_eq!(copied * 12, whole * 8, "8 of 12 have an equal file");
}

/// Of each file once.
fn on_disk(folder: &Path, seen: &mut HashSet<u64>) -> u64 {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let sizes = entries.map(|entry| match entry.metadata().unwrap() {
        found if found.is_dir() => on_disk(&entry.path(), seen),
        found if seen.insert(found.ino()) => found.blocks() * 512,
        _ => 0,
    });
    sizes.sum()
}

#[test]
fn what_is_gone_is_not_in_it_and_what_is_offline_is_marked() {
    let (here, away) = (Bench::new(), Bench::new());
    for (bench, name) in [(&here, "here"), (&here, "in/too"), (&here, "gone"), (&away, "there")] {
        bench.write(name, vec![1; 10_000]);
    }
    here.scan(&[]);
    let elsewhere = away.tree();
    here.dupes(&["scan", "--progress", "never", elsewhere.to_str().unwrap()]);
    fs::remove_file(here.path("gone")).unwrap();
    here.scan(&[]);
    drop(away);
    let page = write(&here);
    assert!(!page.contains("gone"));
    let data = data(&page);
    assert_eq!(array(&data["totals"]["offline"]).len(), 1);
    let (row, block) = (&data["sets"][0], fs::metadata(here.path("here")).unwrap().blocks() * 512);
    assert_eq!((&row[1], &row[2]), (&json!(block), &json!(3)), "two are here, one of them may go");
    let mut kinds: Vec<(&Value, &Value)> =
        array(&row[4]).chunks(3).map(|name| (&name[1], &name[2])).collect();
    kinds.sort_by_key(|(name, _)| name.to_string());
    assert_eq!(
        kinds,
        [(&json!("here"), &json!(0)), (&json!("there"), &json!(2)), (&json!("too"), &json!(0))]
    );
    assert!(between(&page, "<table id=\"roots\">", "</table>").contains(">offline<"));
    for claim in array(&data["claims"]) {
        let folders = array(&claim["folders"]).iter().map(|number| folder(&data, number));
        let away = folders.map(|path| path.starts_with(elsewhere.to_str().unwrap()));
        let away: Vec<usize> =
            away.enumerate().filter(|(_, is_away)| *is_away).map(|(at, _)| at).collect();
        assert_eq!((&claim["offline"], away.len()), (&json!(away), 1), "{claim}");
        assert_eq!(claim["reclaimable"], 0, "one of both is not here: {claim}");
    }
    assert!(!array(&data["claims"]).is_empty());
}

#[test]
fn an_empty_database_is_a_page_too() {
    let bench = Bench::new();
    bench.scan(&[]);
    let page = write(&bench);
    let data = data(&page);
    assert_eq!([&data["sets"], &data["claims"]], [&json!([]), &json!([])]);
    assert!(between(&page, "<dl id=\"totals\">", "</dl>").contains("<dd>0 bytes</dd>"));
}

#[test]
fn what_is_too_much_is_left_out_and_the_page_says_so() {
    let bench = tree();
    bench.scan(&[]);
    let (store, stop) = (Store::open(&bench.database()).unwrap(), Stop::new());
    let limits = Limits { sets: 3, names: 100, names_of_set: 2, claims: 1, folders: 2 };
    let mut page = Vec::new();
    gather(&store, false, &limits, &stop).unwrap().write(&mut page, &stop).unwrap();
    let page = String::from_utf8(page).unwrap();
    let (data, listing) = (data(&page), listing(&bench, "files"));
    assert_eq!([array(&data["sets"]).len(), array(&data["claims"]).len()], [3, 1]);
    assert!(array(&data["sets"]).iter().all(|row| array(&row[4]).len() <= 6));
    let mut winnings: Vec<u64> = array(&listing["groups"])
        .iter()
        .map(|group| group["reclaimable"].as_u64().unwrap())
        .collect();
    winnings.sort_unstable_by(|one, other| other.cmp(one));
    let told: Vec<u64> = array(&data["sets"]).iter().map(|row| row[1].as_u64().unwrap()).collect();
    assert_eq!(told, winnings[..3]);
    let left_out = winnings.len() - 3;
    assert!(
        page.contains(&format!("{left_out} are left out: <code>dupes report files</code>")),
        "{page}"
    );
    assert!(page.contains("are left out: <code>dupes report folders</code>"));
    assert!(page.contains("The 2 largest of 13 folders"));
    assert_eq!(array(&data["folders"]["disk"]).len(), 2);
    assert_eq!(sum(&data["folders"]["files"], &data), listing["totals"]["files"].as_u64().unwrap());
    // Folders that are only named have a place, too.
    assert!(array(&data["folders"]["name"]).len() > 2);
}

// ------------------------------------------------------------ what it can't do

#[test]
fn no_name_breaks_out_of_its_place() {
    let bench = tree();
    bench.scan(&[]);
    let page = write(&bench);
    let hostile = |c: char| c.is_control() && c != '\n' || "\u{2028}\u{2029}\u{202e}".contains(c);
    assert_eq!(page.find(hostile), None, "control characters are spelled out");
    assert!(!between(&page, "id=\"data\">", "</script>").contains(['<', '>', '&']));
    // Whatever names there are, no tag and no attribute comes of them.
    let plain = Bench::new();
    for (folder, number) in (0..3).flat_map(|folder| (0..3).map(move |number| (folder, number))) {
        plain.write(&format!("{folder}/{number}"), vec![number; 5_000]);
    }
    plain.scan(&[]);
    let ours = write(&plain);
    let (ours, found) = (tags(&ours), tags(&page));
    assert!(ours.len() > 30, "{ours:?}");
    assert_eq!(found.difference(&ours).collect::<Vec<_>>(), Vec::<&&str>::new());
    let table = between(&page, "<noscript>", "</noscript>");
    assert!(table.contains("/&lt;/script&gt;&lt;script&gt;alert(1)&lt;"), "{table}");
    assert!(table.contains("&lt;img src=x onerror=alert(1)&gt;"), "{table}");
    assert!(table.contains(r"a\nb\tc\rd\\n") && table.contains(r"\xff\xfe not UTF-8"), "{table}");
}

/// All there are, with their attributes; those of the policy and of the parts that are ours alone left out.
fn tags(page: &str) -> HashSet<&str> {
    let (before, rest) = page.split_once("<script>").unwrap();
    let (_, after) = rest.split_once("</script>").unwrap();
    let (_, body) = before.split_once("</style>").unwrap();
    let tags = [body, after].into_iter().flat_map(|part| part.split('<').skip(1));
    tags.map(|tag| tag.split_once('>').expect("each ends").0).collect()
}

#[test]
fn it_asks_nobody_and_runs_nothing_but_its_own_script() {
    let bench = tree();
    bench.scan(&[]);
    let page = write(&bench);
    let policy = between(&page, "http-equiv=\"Content-Security-Policy\" content=\"", "\"");
    assert!(policy.starts_with("default-src 'none';"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    let hash =
        |text: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text.as_bytes())));
    let style = between(&page, "<style>", "</style>");
    let (_, scripts) = page.split_once("<script>").unwrap();
    let script = scripts.split_once("</script>").unwrap().0;
    assert!(policy.contains(&format!("script-src {};", hash(script))), "{policy}");
    assert!(policy.contains(&format!("style-src {};", hash(style))), "{policy}");
    assert!(!page.contains("http://") && !page.contains("https://"));
    for link in page.split("href=\"").skip(1).map(|rest| rest.split('"').next().unwrap()) {
        assert!(link.starts_with('#') || link == "data:,", "{link}");
    }
}

// ------------------------------------------------------------ where it goes

#[test]
fn a_page_that_is_there_is_replaced_and_nothing_stays_beside_it() {
    let bench = tree();
    bench.scan(&[]);
    let page = page_of(&bench);
    fs::write(&page, "something else").unwrap();
    fs::set_permissions(&page, fs::Permissions::from_mode(0o640)).unwrap();
    let before = names(bench.dir.path());
    assert!(write(&bench).starts_with("<!doctype html>"));
    assert_eq!(fs::metadata(&page).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(names(bench.dir.path()), before);
    fs::remove_file(&page).unwrap();
    write(&bench);
    assert_eq!(fs::metadata(&page).unwrap().permissions().mode() & 0o777, 0o600);
}

fn names(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

/// What is said, and that the exit code says that it could not run.
fn refused(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    stderr(output)
}

#[test]
fn places_where_no_page_can_be_are_named_with_the_reason() {
    let bench = tree();
    bench.scan(&[]);
    bench.write("file", "");
    let cases = [
        (bench.dir.path().join("no/page.html"), "no file can be made in its folder: No such file"),
        (bench.path("file/page.html"), "Not a directory"),
        (bench.tree(), "it is no regular file"),
        (PathBuf::from("/dev/full"), "it is no regular file"),
        (bench.database(), "belongs to the database"),
    ];
    for (path, reason) in cases {
        let path = path.to_str().unwrap();
        let said = refused(&bench.dupes(&["report", "--html", path]), 2);
        assert!(said.contains(reason) && said.contains(path), "{path}: {said}");
    }
    assert_eq!(bench.dupes(&["verify"]).status.code(), Some(0), "the database is as it was");
}

#[test]
fn a_page_that_does_not_fit_leaves_the_one_that_was_there() {
    let bench = tree();
    bench.scan(&[]);
    let page = page_of(&bench);
    fs::write(&page, "before").unwrap();
    let before = names(bench.dir.path());
    // As on a full disk, in the middle of a write: a file may have 40 KiB, the page has more.
    let limited = "trap '' XFSZ; ulimit -f 40; exec \"$0\" \"$@\"";
    let mut command = Command::new("bash");
    command.args(["-c", limited, env!("CARGO_BIN_EXE_dupes"), "report", "--html"]).arg(&page);
    command.arg("--database").arg(bench.database());
    let output = in_time("a page that does not fit", move || command.output().unwrap());
    let said = refused(&output, 2);
    assert!(said.contains("can't be written, and is as it was: File too large"), "{said}");
    assert_eq!(fs::read(&page).unwrap(), b"before");
    assert_eq!(names(bench.dir.path()), before);
}

#[test]
fn a_folder_that_may_not_be_written_to_is_named() {
    if is_root() {
        return eprintln!("skipped: nothing is forbidden to root");
    }
    let bench = tree();
    bench.scan(&[]);
    let folder = bench.dir.path().join("locked");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o500)).unwrap();
    let path = folder.join("page.html");
    let said = refused(&bench.dupes(&["report", "--html", path.to_str().unwrap()]), 2);
    assert!(said.contains("no file can be made in its folder: Permission denied"), "{said}");
}

#[test]
fn who_is_asked_to_stop_does() {
    let bench = tree();
    bench.scan(&[]);
    let (store, stop) = (Store::open(&bench.database()).unwrap(), Stop::new());
    let page = gather(&store, false, &Limits::default(), &stop).unwrap();
    stop.ask();
    let interrupted = |error: io::Error| error.kind() == io::ErrorKind::Interrupted;
    assert!(page.write(&mut Vec::new(), &stop).is_err_and(interrupted));
    assert!(gather(&store, false, &Limits::default(), &stop).is_err_and(interrupted));
}

#[test]
fn what_is_asked_for_must_make_sense() {
    let bench = Bench::new();
    let cases: [(&[&str], &str); 5] = [
        (&["report"], "say what is to be told: files, folders, or --html FILE"),
        (&["report", "--html", "x", "files"], "'files' cannot be used with '--html <FILE>'"),
        (&["report", "files", "--html", "x"], "dupes report --html FILE"),
        (&["report", "folders", "--html", "x"], "dupes report --html FILE"),
        (&["report", "--html", "-"], "expected the name of a file"),
    ];
    for (words, reason) in cases {
        let said = refused(&bench.dupes(words), 1);
        assert!(said.contains(reason), "{words:?}: {said}");
    }
    let said = refused(&bench.dupes(&["report", "--html", "/no/page"]), 2);
    assert!(said.contains("`dupes scan PATH` makes one"), "{said}");
}
