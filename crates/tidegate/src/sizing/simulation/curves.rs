//! The loads that a pool is put to. A level is what it would keep busy, in workers.

use std::time::Duration;

use super::super::Rules;
use crate::clock::Ticks;

/// For so long, work for so many tenths of a worker.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) lasts: Duration,
    pub(super) tenths: u64,
    task: Duration,
}

impl Step {
    /// Between two tasks, on the average; None: none come.
    pub(super) fn gap(&self) -> Option<Duration> {
        let nanos = (self.task.as_nanos() as u64 * 10).checked_div(self.tenths);
        nanos.map(Duration::from_nanos)
    }
}

#[derive(Debug)]
pub(super) struct Curve {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) rules: Rules,
    /// What a task takes, on the average.
    pub(super) task: Duration,
    pub(super) steps: Vec<Step>,
}

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// The defaults of a pool.
const RULES: Rules = Rules {
    min: 1,
    max: 16,
    grow_after: Duration::from_millis(10),
    shrink_after: Duration::from_secs(10),
    cooldown: Duration::from_secs(1),
};
/// Long enough to go from 16 workers to none.
const NIGHT: (u64, u64) = (30_000, 0);

impl Curve {
    /// Levels as (milliseconds, tenths of a worker); after them, nothing for a while.
    fn new(name: &'static str, title: &'static str, levels: &[(u64, u64)]) -> Curve {
        let task = 50 * MS;
        let step = |(ms, tenths): &(u64, u64)| Step {
            lasts: Duration::from_millis(*ms),
            tenths: *tenths,
            task,
        };
        let steps = levels.iter().chain([&NIGHT]).map(step).collect();
        Curve { name, title, rules: RULES, task, steps }
    }

    /// With tasks that take so long, and patience to match.
    fn with_tasks(mut self, task: Duration) -> Curve {
        self.task = task;
        self.rules.grow_after = task / 5;
        self.steps.iter_mut().for_each(|step| step.task = task);
        self
    }

    pub(super) fn begins(&self, step: usize) -> Ticks {
        Ticks(0).after(self.steps[..step].iter().map(|step| step.lasts).sum())
    }

    pub(super) fn end(&self) -> Ticks {
        self.begins(self.steps.len())
    }

    pub(super) fn step_at(&self, at: Ticks) -> usize {
        let last = self.steps.len() - 1;
        (0..last).find(|step| at < self.begins(step + 1)).unwrap_or(last)
    }

    /// Whether a step lasts long enough, and asks for little enough, to be mastered: six
    /// changes of size, and then as long again for what has piled up.
    pub(super) fn can_settle(&self, step: usize) -> bool {
        let Step { lasts, tenths, .. } = self.steps[step];
        lasts >= 16 * SECOND && tenths <= 8 * self.rules.max as u64
    }

    /// A wait that nobody would call a backlog.
    pub(super) fn bearable(&self) -> Duration {
        self.rules.grow_after.max(self.task) * 4
    }
}

/// Ten minutes of the same.
pub(super) fn even(tenths: u64) -> Curve {
    let title = "Ten minutes of the same, as uneven as chance makes it";
    Curve::new("steady", title, &[(600_000, tenths)])
}

pub(super) fn all() -> Vec<Curve> {
    let twice = |ms, low, high, times| [(ms, high), (ms, low)].repeat(times);
    let day =
        [4, 3, 2, 2, 2, 4, 10, 24, 46, 70, 86, 94, 90, 92, 96, 90, 80, 70, 62, 66, 54, 36, 20, 10];
    let hours: Vec<_> = day.iter().map(|tenths| (600_000, *tenths)).collect();
    let teeth: Vec<_> = (1..=12).map(|n| (2_500, 10 * n)).collect::<Vec<_>>().repeat(4);
    let flicker = twice(1_000, 20, 80, 40);
    let seldom = [(100, 10), (10_900, 0)].repeat(8);
    vec![
        Curve::new(
            "step",
            "One step up, one step down",
            &[(15_000, 15), (45_000, 90), (45_000, 15)],
        ),
        Curve::new("bursty", "Bursts of three seconds", &[(3_000, 120), (17_000, 8)].repeat(6)),
        Curve::new("diurnal", "A day, an hour in ten minutes", &hours).with_tasks(200 * MS),
        Curve::new("sawtooth", "Slow rises, sudden falls", &teeth),
        even(55),
        Curve::new(
            "shorter",
            "A square wave a little faster than shrink_after",
            &twice(8_000, 10, 100, 8),
        ),
        Curve::new("equal", "A square wave as fast as shrink_after", &twice(10_000, 10, 100, 8)),
        Curve::new(
            "longer",
            "A square wave a little slower than shrink_after",
            &twice(13_000, 10, 100, 8),
        ),
        Curve::new("flicker", "A square wave as fast as the cooldown", &flicker),
        Curve {
            rules: Rules { min: 0, ..RULES },
            ..Curve::new("seldom", "Min 0, and a few tasks whenever it has just shrunk", &seldom)
        },
    ]
}
