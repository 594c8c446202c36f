//! How far a run is, and what that looks like: numbers in, text out. No name of a file or folder
//! is among them.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate::Snapshot;

use crate::count::s;

/// One look at a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Since it began.
    pub elapsed: Duration,
    /// There may be more files than were seen.
    pub walking: bool,
    /// Folders that were looked into.
    pub folders: u64,
    /// Files that were seen and fit the filters.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Reads that are known to be needed.
    pub reads_wanted: u64,
    /// And those that were done.
    pub reads_done: u64,
    /// Bytes that are known to be needed.
    pub read_bytes_wanted: u64,
    /// And those that were read.
    pub read_bytes_done: u64,
    /// Files and folders that could not be read.
    pub unread: u64,
    /// Files that changed meanwhile.
    pub unstable: u64,
    /// Bytes read in a second, of late; None while nobody can tell.
    pub rate: Option<u64>,
    /// The pools, in the order in which work goes through them.
    pub stages: Vec<Stage>,
}

/// A pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stage {
    /// What the program calls it.
    pub name: String,
    /// Tasks that wait.
    pub queued: u64,
    /// Workers that have one.
    pub busy: u64,
    /// Workers there are.
    pub workers: u64,
}

impl Stage {
    /// As a pool says it.
    pub fn of(pool: &Snapshot) -> Stage {
        let workers = pool.live_workers;
        // What is just being settled still counts as running there.
        let busy = pool.running.min(workers);
        Stage { name: pool.pool.to_string(), queued: pool.queued, busy, workers }
    }
}

impl View {
    /// How long the reads that are known will take; None while nobody can tell.
    pub fn left(&self) -> Option<Duration> {
        let bytes = self.read_bytes_wanted.saturating_sub(self.read_bytes_done);
        match (bytes, self.rate) {
            // Nothing is known to be needed: that says something only if nothing can follow.
            (0, _) => (!self.walking).then_some(Duration::ZERO),
            (_, None | Some(0)) => None,
            (_, Some(rate)) => Some(Duration::from_secs(bytes.div_ceil(rate))),
        }
    }

    /// A line of up to that many columns, in ASCII. What does not fit is left out from its end
    /// on, part by part.
    pub fn line(&self, width: usize) -> String {
        let mut parts = self.parts().into_iter();
        let mut line = parts.next().unwrap_or_default();
        for part in parts {
            if line.len() + SEPARATOR.len() + part.len() > width {
                break;
            }
            line.push_str(SEPARATOR);
            line.push_str(&part);
        }
        line.truncate(width);
        line
    }

    /// What matters most comes first.
    fn parts(&self) -> Vec<String> {
        let (folders, files) = (grouped(self.folders), grouped(self.files));
        let mut parts = vec![format!(
            "{folders} folder{}, {files} file{}, {}",
            s(self.folders),
            s(self.files),
            size(self.bytes)
        )];
        parts.extend(self.rate.map(|rate| format!("{}/s", size(rate))));
        parts.extend(self.left().map(|left| match self.walking {
            true => format!("at least {}", time(left)),
            false => format!("{} left", time(left)),
        }));
        parts.extend(self.stages.iter().map(|stage| {
            let Stage { name, queued, busy, workers } = stage;
            format!("{name} {} {busy}/{workers}", grouped(*queued))
        }));
        parts
    }

    /// An object, on one line. `done`: there will be no other.
    pub fn json(&self, done: bool) -> Value {
        let stages: Vec<Value> = self.stages.iter().map(Stage::json).collect();
        json!({
            "done": done,
            "elapsed_ms": u64::try_from(self.elapsed.as_millis()).unwrap_or(u64::MAX),
            "walking": self.walking,
            "folders": self.folders,
            "files": self.files,
            "bytes": self.bytes,
            "reads_wanted": self.reads_wanted,
            "reads_done": self.reads_done,
            "read_bytes_wanted": self.read_bytes_wanted,
            "read_bytes_done": self.read_bytes_done,
            "read_bytes_per_second": self.rate,
            "seconds_left": self.left().map(|left| left.as_secs()),
            "unread": self.unread,
            "unstable": self.unstable,
            "stages": stages,
        })
    }
}

impl View {
    /// From what [`json`](View::json) has made; None if it is something else.
    pub fn from_json(object: &Value) -> Option<View> {
        let number = |name: &str| object[name].as_u64();
        let stages = object["stages"].as_array()?.iter().map(Stage::from_json);
        Some(View {
            elapsed: Duration::from_millis(number("elapsed_ms")?),
            walking: object["walking"].as_bool()?,
            folders: number("folders")?,
            files: number("files")?,
            bytes: number("bytes")?,
            reads_wanted: number("reads_wanted")?,
            reads_done: number("reads_done")?,
            read_bytes_wanted: number("read_bytes_wanted")?,
            read_bytes_done: number("read_bytes_done")?,
            unread: number("unread")?,
            unstable: number("unstable")?,
            rate: number("read_bytes_per_second"),
            stages: stages.collect::<Option<_>>()?,
        })
    }
}

impl Stage {
    fn from_json(object: &Value) -> Option<Stage> {
        let number = |name: &str| object[name].as_u64();
        let name = object["name"].as_str()?.to_owned();
        let (queued, busy, workers) = (number("queued")?, number("busy")?, number("workers")?);
        Some(Stage { name, queued, busy, workers })
    }

    fn json(&self) -> Value {
        let Stage { name, queued, busy, workers } = self;
        json!({ "name": name, "queued": queued, "busy": busy, "workers": workers })
    }
}

const SEPARATOR: &str = " | ";

/// 1,234,567
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let first = (digits.len() - 1) % 3 + 1;
    let mut text = digits[..first].to_owned();
    for from in (first..digits.len()).step_by(3) {
        text.push(',');
        text.push_str(&digits[from..from + 3]);
    }
    text
}

/// Three or four digits, and a unit.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1_000 {
        return format!("{bytes} B");
    }
    let mut number = bytes as f64 / 1_024.0;
    let mut unit = 0;
    // 999.95 would be printed with a digit more.
    while number >= 999.95 && unit + 1 < UNITS.len() {
        number /= 1_024.0;
        unit += 1;
    }
    format!("{number:.1} {}", UNITS[unit])
}

/// Minutes and seconds, hours before them, or days.
fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        1..100 => format!("{hours}:{minutes:02}:{seconds:02}"),
        _ => format!("{} days", grouped(hours / 24)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn stage(name: &str, queued: u64, busy: u64, workers: u64) -> Stage {
        Stage { name: name.to_owned(), queued, busy, workers }
    }

    fn usual() -> View {
        View {
            elapsed: Duration::from_millis(2_500),
            walking: true,
            folders: 1_234,
            files: 56_789,
            bytes: 3 * 1_024 * MIB,
            reads_wanted: 40_000,
            reads_done: 20_000,
            read_bytes_wanted: 1_100 * MIB,
            read_bytes_done: 200 * MIB,
            unread: 1,
            unstable: 2,
            rate: Some(10 * MIB),
            stages: vec![
                stage("walk", 1, 2, 2),
                stage("random", 1_500, 7, 8),
                stage("sequential", 0, 0, 2),
            ],
        }
    }

    fn huge() -> View {
        let most = u64::MAX;
        View {
            elapsed: Duration::MAX,
            walking: true,
            folders: most,
            files: most,
            bytes: most,
            reads_wanted: most,
            reads_done: 0,
            read_bytes_wanted: most,
            read_bytes_done: 0,
            unread: most,
            unstable: most,
            rate: Some(1),
            stages: vec![stage("walk", most, most, most); 3],
        }
    }

    #[test]
    fn a_line_says_how_far_it_is() {
        assert_eq!(
            usual().line(200),
            "1,234 folders, 56,789 files, 3.0 GiB | 10.0 MiB/s | at least 1:30 \
             | walk 1 2/2 | random 1,500 7/8 | sequential 0 0/2"
        );
        let walked = View { walking: false, ..usual() };
        assert!(walked.line(200).contains("/s | 1:30 left | walk"), "{}", walked.line(200));
        let begun = View { walking: true, ..View::default() };
        assert_eq!(begun.line(200), "0 folders, 0 files, 0 B");
        assert_eq!(View::default().line(200), "0 folders, 0 files, 0 B | 0:00 left");
        let no_rate = View { rate: None, stages: Vec::new(), ..usual() };
        assert_eq!(no_rate.line(200), "1,234 folders, 56,789 files, 3.0 GiB");
        assert_eq!(
            huge().line(220),
            "18,446,744,073,709,551,615 folders, 18,446,744,073,709,551,615 files, 16.0 EiB \
             | 1 B/s | at least 213,503,982,334,601 days \
             | walk 18,446,744,073,709,551,615 18446744073709551615/18446744073709551615"
        );
    }

    #[test]
    fn a_line_fits() {
        assert_eq!(
            usual().line(79),
            "1,234 folders, 56,789 files, 3.0 GiB | 10.0 MiB/s | at least 1:30 | walk 1 2/2"
        );
        assert_eq!(usual().line(60), "1,234 folders, 56,789 files, 3.0 GiB | 10.0 MiB/s");
        assert_eq!(usual().line(10), "1,234 fold");
        assert_eq!(usual().line(1), "1");
        assert_eq!(usual().line(0), "");
        for view in [usual(), huge(), View::default()] {
            for width in 0..300 {
                let line = view.line(width);
                assert!(line.len() <= width, "{width}: {line}");
                assert!(line.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{line:?}");
            }
        }
    }

    #[test]
    fn what_is_left_is_told_if_it_is_known() {
        let of = |wanted, done, rate, walking| {
            let view = View { walking, rate, ..View::default() };
            let view = View { read_bytes_wanted: wanted, read_bytes_done: done, ..view };
            view.left().map(|left| left.as_secs())
        };
        assert_eq!(of(100, 0, Some(10), true), Some(10));
        assert_eq!(of(101, 0, Some(10), false), Some(11), "not less than it takes");
        assert_eq!(of(100, 50, None, false), None, "no rate yet");
        assert_eq!(of(100, 50, Some(0), false), None, "it stands still");
        assert_eq!(of(100, 100, None, false), Some(0));
        assert_eq!(of(100, 200, Some(1), false), Some(0), "counted before it was wanted");
        assert_eq!(of(100, 100, Some(1), true), None, "more may come");
        assert_eq!(of(u64::MAX, 0, Some(1), true), Some(u64::MAX));
    }

    #[test]
    fn sizes_have_a_unit() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1.0 KiB"),
            (1_024, "1.0 KiB"),
            (1_000 * 1_024, "1.0 MiB"),
            (999 * MIB, "999.0 MiB"),
            (1_023 * MIB, "1.0 GiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(size(bytes), text, "{bytes}");
        }
    }

    #[test]
    fn times_and_numbers_are_readable() {
        for (seconds, text) in [
            (0, "0:00"),
            (59, "0:59"),
            (60, "1:00"),
            (3_599, "59:59"),
            (3_600, "1:00:00"),
            (359_999, "99:59:59"),
            (360_000, "4 days"),
            (u64::MAX, "213,503,982,334,601 days"),
        ] {
            assert_eq!(time(Duration::from_secs(seconds)), text, "{seconds}");
        }
        for (number, text) in
            [(0, "0"), (999, "999"), (1_000, "1,000"), (12_345, "12,345"), (1_234_567, "1,234,567")]
        {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn an_object_has_all_of_it_on_one_line() {
        let text = usual().json(false).to_string();
        assert!(!text.contains('\n'), "{text}");
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            read,
            json!({
                "done": false, "elapsed_ms": 2500, "walking": true,
                "folders": 1234, "files": 56789, "bytes": 3_221_225_472_u64,
                "reads_wanted": 40000, "reads_done": 20000,
                "read_bytes_wanted": 1_153_433_600, "read_bytes_done": 209_715_200,
                "read_bytes_per_second": 10_485_760, "seconds_left": 90,
                "unread": 1, "unstable": 2,
                "stages": [
                    {"name": "walk", "queued": 1, "busy": 2, "workers": 2},
                    {"name": "random", "queued": 1500, "busy": 7, "workers": 8},
                    {"name": "sequential", "queued": 0, "busy": 0, "workers": 2},
                ],
            })
        );
        assert_eq!(View::from_json(&read), Some(usual()));
        assert_eq!(View::from_json(&json!({ "files": 1 })), None);
        let nothing = View { walking: true, ..View::default() }.json(true);
        assert_eq!(nothing["done"], true);
        assert_eq!(nothing["read_bytes_per_second"], Value::Null);
        assert_eq!(nothing["seconds_left"], Value::Null);
        assert_eq!(nothing["stages"], json!([]));
        assert_eq!(huge().json(false)["files"], u64::MAX);
        assert_eq!(huge().json(false)["elapsed_ms"], u64::MAX);
    }
}
