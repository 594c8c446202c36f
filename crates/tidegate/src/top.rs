//! Pools as `top` shows processes (V4, feature `top`).
//!
//! A frame is text, made of two snapshots of each pool; `terminal.rs` draws it once a second.

#[cfg(all(test, not(any(tidegate_loom, tidegate_shuttle))))]
mod picture;
#[cfg(all(target_os = "linux", not(tidegate_portable)))]
mod terminal;
#[cfg(not(all(target_os = "linux", not(tidegate_portable))))]
#[path = "top/plain.rs"]
mod terminal;

use std::fmt::Write as _;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::any_pool::AnyPool;
use crate::core::Core;
use crate::histogram::Histogram;
use crate::snapshot::{PoolState, Snapshot, WorkerState};

/// A live view of the pools of this process, in a terminal.
///
/// For each pool: how full its queue is, what its workers do, what comes and goes per second,
/// how long tasks wait and run, which task runs the longest, and what
/// [`diagnose`](crate::Pool::diagnose) makes of it. It holds no pool alive, and one that has gone
/// disappears. Where it is drawn is [`run`](Top::run)'s matter; [`frame`](Top::frame) is text
/// for any place.
///
/// ```
/// use tidegate::{Pool, Shutdown, Top};
///
/// let pool = Pool::builder("images").workers(2).build()?;
/// let mut top = Top::new();
/// top.add(&pool);
/// pool.submit(|| ())?.wait()?;
/// let frame = top.frame(80); // `top.run()` draws it once a second, until `q`
/// assert!(frame.contains("images") && frame.contains("0 of 1000"));
/// pool.shutdown(Shutdown::default())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct Top {
    pools: Vec<(Weak<Core>, Snapshot)>,
    /// There was one to show.
    had_any: bool,
}

impl Top {
    /// Without a pool.
    #[must_use]
    pub fn new() -> Top {
        Top::default()
    }

    /// Shows this pool as well.
    pub fn add<P: AnyPool + ?Sized>(&mut self, pool: &P) {
        let core = pool.owner().core();
        self.had_any = true;
        self.pools.push((Arc::downgrade(core), core.snapshot()));
    }

    /// The pools as text of this many columns; rates are since the last frame.
    pub fn frame(&mut self, width: usize) -> String {
        let mut body = String::new();
        // One look at each: what the first line counts is what is drawn below it.
        self.pools.retain_mut(|(core, before)| {
            let Some(core) = core.upgrade() else { return false };
            let now = core.snapshot();
            add_pool(&mut body, &now, before, width);
            *before = now;
            true
        });
        with_title(self.pools.len(), &body)
    }

    /// As of the last frame.
    fn all_have_stopped(&self) -> bool {
        let stopped = |state| matches!(state, PoolState::Stopped { .. });
        self.had_any && self.pools.iter().all(|(_, last)| stopped(last.state))
    }
}

impl std::fmt::Debug for Top {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Top").field("pools", &self.pools.len()).finish_non_exhaustive()
    }
}

fn with_title(pools: usize, body: &str) -> String {
    let s = if pools == 1 { "" } else { "s" };
    format!("tidegate top, {pools} pool{s}\n{body}")
}

fn add_pool(body: &mut String, now: &Snapshot, before: &Snapshot, width: usize) {
    body.push('\n');
    for line in draw(now, before) {
        body.extend(line.chars().flat_map(visible).take(width));
        body.push('\n');
    }
}

/// What one pool looks like.
fn draw(now: &Snapshot, before: &Snapshot) -> [String; 7] {
    let elapsed = now.uptime.saturating_sub(before.uptime);
    let rate = |now: u64, before: u64| per_second(now.saturating_sub(before), elapsed);
    let diagnosis = now.diagnose_since(before);
    let title = match now.state {
        PoolState::Running => format!("{}: {}", diagnosis.verdict, diagnosis.meaning()),
        state => state.to_string(),
    };
    let waiting = match (now.waiting_for_room(), now.waiting_for_budget) {
        (0, 0) => String::new(),
        (room, 0) => format!(", {room} wait for room"),
        (0, budget) => format!(", {budget} wait for a budget"),
        (room, budget) => format!(", {room} wait for room, {budget} for a budget"),
    };
    let busy = 100.0 * now.utilisation_since(before);
    let (accepted, settled) =
        (rate(now.accepted, before.accepted), rate(now.settled(), before.settled()));
    [
        format!("{}  {title}", now.pool),
        format!(
            "  queue    [{}] {} of {}{waiting}",
            bar(now.queued, now.queue_capacity),
            now.queued,
            now.queue_capacity
        ),
        format!("  workers  [{}] {}, {busy:.0} % busy", letters(now), states(now)),
        format!(
            "  per s    {accepted} in, {settled} out, {} refused, {} failed",
            rate(now.refused.total(), before.refused.total()),
            rate(now.failures(), before.failures()),
        ),
        format!(
            "  waits    submit {}  queue {}",
            tail(&now.submit_wait.since(&before.submit_wait)),
            tail(&now.queue_wait.since(&before.queue_wait)),
        ),
        format!("  runs     {}", tail(&now.run_time.since(&before.run_time))),
        format!("  longest  {}", longest(now)),
    ]
}

/// How often it is drawn.
const EVERY: Duration = Duration::from_secs(1);
/// What a terminal that does not say has.
const COLUMNS: usize = 80;
const BAR: u64 = 24;

/// Names may come from a request, and must not write to the terminal.
fn visible(c: char) -> impl Iterator<Item = char> {
    let (plain, escaped) = match c.is_control() {
        false => (Some(c), None),
        true => (None, Some(c.escape_default())),
    };
    plain.into_iter().chain(escaped.into_iter().flatten())
}

/// Not empty if anything is there, not full unless it is.
fn bar(part: u64, whole: u64) -> String {
    let full = (u128::from(part) * u128::from(BAR)).checked_div(u128::from(whole)).unwrap_or(0);
    let full = (full as u64).clamp(u64::from(part > 0), BAR);
    (0..BAR).map(|n| if n < full { '#' } else { '.' }).collect()
}

/// A letter for each worker, as many as fit.
fn letters(now: &Snapshot) -> String {
    let present = now.roster.iter().filter(|w| !matches!(w.state, WorkerState::Ended { .. }));
    present.take(BAR as usize).map(|worker| letter(&worker.state)).collect()
}

fn letter(state: &WorkerState) -> char {
    match state {
        WorkerState::Running { .. } => 'R',
        WorkerState::Idle => '.',
        WorkerState::Stuck => '!',
        WorkerState::Starting | WorkerState::Restarting { .. } => '+',
        WorkerState::Stopping | WorkerState::Ended { .. } => '-',
    }
}

fn states(now: &Snapshot) -> String {
    let running = now.roster.iter().filter(|w| letter(&w.state) == 'R').count();
    let mut text = format!("{running} run, {} idle", now.idle_workers);
    if now.stuck > 0 {
        let _ = write!(text, ", {} STUCK", now.stuck);
    }
    if now.blocked_workers > 0 {
        let _ = write!(text, ", {} BLOCKED", now.blocked_workers);
    }
    if now.live_workers != now.workers {
        let _ = write!(text, ", {} of {} live", now.live_workers, now.workers);
    }
    text
}

/// What runs for the longest time, and where: who is looked for at 3 a.m.
fn longest(now: &Snapshot) -> String {
    let running = now.roster.iter().filter_map(|worker| match worker.state {
        WorkerState::Running { name, id, since } => Some((since, name, id, worker.id)),
        _ => None,
    });
    match running.max_by_key(|(since, ..)| *since) {
        Some((since, "", id, worker)) => format!("task {id} for {since:.1?} on worker {worker}"),
        Some((since, name, id, worker)) => {
            format!("{name} {id} for {since:.1?} on worker {worker}")
        }
        None => "none".to_owned(),
    }
}

fn tail(times: &Histogram) -> String {
    match (times.quantile(0.5), times.quantile(0.99)) {
        (Some(middle), Some(end)) => format!("p50 {middle:.0?} p99 {end:.0?}"),
        _ => "none".to_owned(),
    }
}

fn per_second(count: u64, elapsed: Duration) -> u64 {
    if elapsed.is_zero() { 0 } else { (count as f64 / elapsed.as_secs_f64()).round() as u64 }
}

#[cfg(all(test, not(any(tidegate_loom, tidegate_shuttle))))]
mod tests {
    use super::*;
    use crate::ids::{TaskId, WorkerId};
    use crate::snapshot::WorkerInfo;

    #[test]
    fn v4_a_bar_shows_what_is_there() {
        assert_eq!(bar(0, 100), ".".repeat(24));
        assert_eq!(bar(1, 1_000_000), format!("#{}", ".".repeat(23)), "not nothing");
        assert_eq!(bar(50, 100), format!("{}{}", "#".repeat(12), ".".repeat(12)));
        assert_eq!(bar(999, 1_000), format!("{}.", "#".repeat(23)), "not full");
        assert_eq!(bar(1_000, 1_000), "#".repeat(24));
        assert_eq!(bar(0, 0), ".".repeat(24), "a queue of 0");
        assert_eq!(bar(u64::MAX, u64::MAX), "#".repeat(24));
    }

    fn running(number: u32, name: &'static str, since: Duration) -> WorkerInfo {
        let id = TaskId { hi: 0, lo: u64::from(number) };
        let state = WorkerState::Running { name, id, since };
        WorkerInfo { id: WorkerId(number), state, started: 1, panicked: 0, restarts: 0 }
    }

    #[test]
    fn v4_a_name_cannot_write_to_the_terminal() {
        let line: String = "a\x1b[2J\nb".chars().flat_map(visible).collect();
        assert_eq!(line, "a\\u{1b}[2J\\nb");
    }

    #[test]
    fn v4_a_pool_is_seven_lines_of_text() {
        let second = Duration::from_secs(1);
        let before = Snapshot { pool: "images".into(), ..Snapshot::default() };
        let now = Snapshot {
            pool: "images".into(),
            uptime: 2 * second,
            accepted: 400,
            completed: 200,
            queued: 200,
            queue_capacity: 400,
            workers: 4,
            live_workers: 3,
            idle_workers: 1,
            stuck: 1,
            blocked_workers: 2,
            waiting_submitters: 2,
            busy: second,
            worker_time: 4 * second,
            roster: vec![running(1, "", second), running(2, "resize", 3 * second)],
            ..Snapshot::default()
        };
        let lines = draw(&now, &before);
        assert!(lines[0].starts_with("images  "), "{}", lines[0]);
        assert_eq!(lines[1], "  queue    [############............] 200 of 400, 2 wait for room");
        assert_eq!(
            lines[2],
            "  workers  [RR] 2 run, 1 idle, 1 STUCK, 2 BLOCKED, 3 of 4 live, 25 % busy"
        );
        assert_eq!(lines[3], "  per s    200 in, 100 out, 0 refused, 0 failed");
        assert_eq!(lines[4], "  waits    submit none  queue none");
        assert_eq!(lines[5], "  runs     none");
        assert_eq!(lines[6], "  longest  resize t0-2 for 3.0s on worker 2");
        let queue = |now: Snapshot| draw(&now, &before)[1].clone();
        let some = Snapshot { waiting_for_budget: 1, ..now.clone() };
        assert!(queue(some).ends_with("200 of 400, 1 wait for room, 1 for a budget"));
        let all = Snapshot { waiting_for_budget: 2, ..now.clone() };
        assert!(queue(all).ends_with("200 of 400, 2 wait for a budget"));
        assert!(draw(&before, &now).iter().all(|line| !line.is_empty()), "the wrong way round");
    }
}
