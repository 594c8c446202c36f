//! The picture of the live view in the documents: a frame of three pools whose numbers are fixed,
//! so that it shows what the view draws now, on every machine.
//!
//! ```sh
//! TIDEGATE_BLESS=1 cargo test -p tidegate --features top --lib v4_the_picture     # draw it anew
//! ```

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use super::{COLUMNS, add_pool, with_title};
use crate::histogram::{Histogram, Recorder};
use crate::ids::{TaskId, WorkerId};
use crate::snapshot::{Refusals, Snapshot, WorkerInfo, WorkerState};

const LETTER: f64 = 8.4;
const LINE: usize = 18;
const MARGIN: usize = 14;
const PAPER: &str = "#1d2128";
const PLAIN: &str = "#d8dee9";
/// What a pool with this verdict is called in.
const COLOURS: [(&str, &str); 3] =
    [("healthy", "#7ec699"), ("saturated", "#f0c674"), ("failing", "#f08d7e")];

#[test]
fn v4_the_picture_is_what_the_view_draws() {
    let frame = frame();
    for (verdict, _) in COLOURS {
        assert!(frame.contains(&format!("  {verdict}: ")), "one is {verdict}:\n{frame}");
    }
    let svg = draw(&format!("{frame}\nq: quit"));
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/top.svg");
    if std::env::var_os("TIDEGATE_BLESS").is_some() {
        fs::write(&file, &svg).unwrap();
    }
    let drawn = fs::read_to_string(&file).unwrap();
    assert!(drawn == svg, "docs/top.svg is another frame: run this test with TIDEGATE_BLESS=1");
}

/// A second in the life of three pools.
fn frame() -> String {
    let mut body = String::new();
    let pools = [calm(), overrun(), failing()];
    for now in &pools {
        let before = Snapshot { completed: 1_000, accepted: 1_000, ..Snapshot::default() };
        add_pool(&mut body, now, &before, COLUMNS);
    }
    with_title(pools.len(), &body)
}

fn calm() -> Snapshot {
    Snapshot {
        pool: "calm".into(),
        accepted: 1_150,
        completed: 1_150,
        submit_wait: times(&[(60, 150)]),
        queue_wait: times(&[(49_000, 148), (4_000_000, 2)]),
        run_time: times(&[(4_000_000, 148), (6_000_000, 2)]),
        ..staffed(&[WorkerState::Idle, WorkerState::Idle], 100, Duration::from_millis(580))
    }
}

fn overrun() -> Snapshot {
    let id = TaskId { hi: 0x12e, lo: 2 };
    let runs = WorkerState::Running { name: "burst", id, since: Duration::from_micros(4_200) };
    Snapshot {
        pool: "overrun".into(),
        accepted: 1_170,
        completed: 1_119,
        queued: 50,
        running: 1,
        refused: Refusals { timed_out: 428, ..Refusals::default() },
        waiting_submitters: 3,
        submit_wait: times(&[(60, 51), (48_000_000, 119)]),
        queue_wait: times(&[(403_000_000, 119)]),
        run_time: times(&[(8_000_000, 119)]),
        ..staffed(&[runs], 50, Duration::from_secs(1))
    }
}

fn failing() -> Snapshot {
    Snapshot {
        pool: "failing".into(),
        accepted: 1_150,
        completed: 1_000,
        failed: 150,
        submit_wait: times(&[(60, 150)]),
        queue_wait: times(&[(20_000, 148), (4_000_000, 2)]),
        run_time: times(&[(6_000_000, 148), (9_000_000, 2)]),
        ..staffed(&[WorkerState::Idle, WorkerState::Idle], 100, Duration::from_millis(900))
    }
}

/// After a second, with these workers.
fn staffed(states: &[WorkerState], queue_capacity: u64, busy: Duration) -> Snapshot {
    let idle = states.iter().filter(|state| **state == WorkerState::Idle).count() as u64;
    let worker = |(number, state): (u32, &WorkerState)| WorkerInfo {
        id: WorkerId(number),
        state: state.clone(),
        started: 1,
        panicked: 0,
        restarts: 0,
    };
    let count = states.len() as u64;
    Snapshot {
        uptime: Duration::from_secs(1),
        workers: count,
        live_workers: count,
        idle_workers: idle,
        queue_capacity,
        busy,
        worker_time: Duration::from_secs(count),
        roster: (0..).zip(states).map(worker).collect(),
        ..Snapshot::default()
    }
}

/// So many nanoseconds, so often.
fn times(each: &[(u64, u64)]) -> Histogram {
    let (recorder, mut histogram) = (Recorder::default(), Histogram::default());
    for (nanos, count) in each {
        recorder.record(Duration::from_nanos(*nanos), *count);
    }
    recorder.add_to(&mut histogram);
    histogram
}

fn draw(text: &str) -> String {
    let longest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    let width = 2 * MARGIN + (LETTER * longest as f64).round() as usize;
    let height = 2 * MARGIN + LINE * text.lines().count();
    let mut svg = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">
<rect width="{width}" height="{height}" rx="6" fill="{PAPER}"/>
<g font-family="monospace" font-size="14" xml:space="preserve">
"#
    );
    for (number, line) in text.lines().enumerate() {
        let y = 2 * MARGIN + LINE * number;
        let says = |(verdict, _): &&(&str, &str)| line.contains(&format!("  {verdict}: "));
        let colour = COLOURS.iter().find(says).map_or(PLAIN, |(_, colour)| colour);
        let line = line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let _ = writeln!(svg, r#"<text x="{MARGIN}" y="{y}" fill="{colour}">{line}</text>"#);
    }
    svg + "</g>\n</svg>\n"
}
