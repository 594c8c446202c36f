//! Lists: paths that come in on standard input, and a listing for somebody who is slow to take it.

mod support;

use std::fs;
use std::io::{self, Read, Write};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use support::{LIMIT, in_time, json, stderr, write};
use tempfile::TempDir;

/// In that folder, with that list.
fn find(dir: &TempDir, options: &[&str], list: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_dupes"))
        .args(["find", "--format", "json", "--progress", "never"])
        .args(options)
        .current_dir(dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(list).unwrap();
    in_time("its end", move || child.wait_with_output().unwrap())
}

fn paths(output: &Output) -> Vec<Vec<String>> {
    let text = |path: &serde_json::Value| path.as_str().unwrap().to_owned();
    let of =
        |group: &serde_json::Value| group["paths"].as_array().unwrap().iter().map(text).collect();
    json(output)["groups"].as_array().unwrap().iter().map(of).collect()
}

const MARK: &str = "\u{feff}";

/// Names are any bytes, so nothing is taken away from one. Whoever has an editor that writes such a mark
/// sees it in what is said.
#[test]
fn a_byte_order_mark_is_part_of_the_first_name() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, &format!("{MARK}a"), "same");
    write(&dir, "b", "same");
    write(&dir, "c", "same");
    let output = find(&dir, &["--stdin"], format!("{MARK}a\nb\n").as_bytes());
    assert_eq!(paths(&output), [["b".to_owned(), format!("{MARK}a")]], "{}", stderr(&output));
    assert_eq!(output.status.code(), Some(0));
    let output = find(&dir, &["--stdin"], format!("{MARK}b\nc\n{MARK}a\n").as_bytes());
    assert_eq!(paths(&output), [["c".to_owned(), format!("{MARK}a")]]);
    assert_eq!(output.status.code(), Some(3));
    let said = r"dupes: \xef\xbb\xbfb: can't look there: No such file";
    assert!(stderr(&output).contains(said), "{}", stderr(&output));
}

#[test]
fn a_name_that_repeats_in_a_list_is_one_file() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, "a", "same");
    write(&dir, "b", "same");
    for (option, end) in [("--stdin", '\n'), ("--stdin0", '\0')] {
        let list =
            |names: &[&str]| names.iter().map(|name| format!("{name}{end}")).collect::<String>();
        let output = find(&dir, &[option], list(&["a", "b", "a", "a", "b", "."]).as_bytes());
        assert_eq!(paths(&output), [["a", "b"]], "{option}");
        let listing = json(&output);
        assert_eq!(listing["groups"][0]["links"], serde_json::json!([]), "{listing}");
        assert_eq!(
            (&listing["totals"]["files"], &listing["totals"]["bytes"]),
            (&2.into(), &8.into())
        );
        assert_eq!(listing["totals"]["bytes_read"], 8, "each is read once: {listing}");
        // Alone it is no duplicate of itself.
        let output = find(&dir, &[option], list(&["a", "a", "a"]).as_bytes());
        assert_eq!((paths(&output).len(), output.status.code()), (0, Some(0)), "{option}");
    }
}

/// Whoever has the other end of the pipe has made it so that writes do not wait, and is slow.
#[test]
fn a_stdout_that_does_not_wait_gets_all_of_the_listing() {
    let dir = tempfile::tempdir().unwrap();
    const SETS: usize = 2_000;
    for n in 0..2 * SETS {
        write(&dir, &format!("a name that fills a pipe, and so on {n}"), &(n / 2).to_string());
    }
    let (mut reader, mut writer) = io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&writer, true).unwrap();
    let mut before = 0;
    while let Ok(written) = writer.write(&[b' '; 4_096]) {
        before += written;
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_dupes"));
    command.args(["find", "--format", "json", "--progress", "never"]).arg(dir.path());
    let mut child = command.stdin(Stdio::null()).stdout(writer).spawn().unwrap();
    drop(command); // it has the pipe as well
    until_it_waits(&mut child);
    let (status, listing) = in_time("its end", move || {
        let mut listing = Vec::new();
        reader.read_to_end(&mut listing).unwrap();
        (child.wait().unwrap(), listing)
    });
    assert_eq!(status.code(), Some(0));
    let listing: serde_json::Value = serde_json::from_slice(&listing[before..]).unwrap();
    assert_eq!(listing["groups"].as_array().unwrap().len(), SETS);
}

/// Until the thread that writes the listing has slept for a while, or there is none any more.
fn until_it_waits(child: &mut Child) {
    const A_WHILE: Duration = Duration::from_millis(200);
    let since = Instant::now();
    let mut asleep = None;
    while asleep.is_none_or(|since: Instant| since.elapsed() < A_WHILE) {
        assert!(since.elapsed() < LIMIT, "it does not write");
        if child.try_wait().unwrap().is_some() {
            return;
        }
        let threads = fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
        let stats = threads.flatten().map(|thread| fs::read_to_string(thread.path().join("stat")));
        let sleeps = |stat: &String| stat.contains("(listing-") && stat.contains(") S ");
        let is_asleep = stats.map_while(Result::ok).any(|stat| sleeps(&stat));
        asleep = is_asleep.then(|| asleep.unwrap_or_else(Instant::now));
        thread::yield_now();
    }
}
