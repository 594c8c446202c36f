//! A pool in a model, driven by the decision that real pools use: tasks come as a curve says,
//! and every change of size is counted.
//!
//! A *load step* is a moment at which the curve changes its level. A pool that follows a step
//! changes the direction of its size once, and once more if it had gone too far. More than
//! that would be oscillation.
//!
//! ```sh
//! cargo test -p tidegate --lib sizing -- --nocapture           # the figures
//! TIDEGATE_BLESS=1 cargo test -p tidegate --lib sizing         # draw the pictures anew
//! ```

mod curves;
mod drawing;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::path::Path;
use std::time::Duration;

use super::{Load, Sizer};
use crate::clock::Ticks;
use crate::gauge::{Gauge, Line};
use curves::Curve;

/// What a thread takes to start.
const START: Duration = Duration::from_micros(100);
const MOST_TURNS_PER_STEP: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// Of the step with this number.
    Arrival(usize),
    Finish,
    Started,
    /// Of this generation: a later plan makes an earlier one void.
    Look(u64),
}

/// What happened at one moment.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Ticks,
    queued: u64,
    waited: Duration,
}

#[derive(Debug)]
struct Trace {
    /// One for each look.
    samples: Vec<Sample>,
    /// When the size changed, and to what.
    sizes: Vec<(Ticks, usize)>,
    done: u64,
}

struct Model<'c> {
    curve: &'c Curve,
    dice: u64,
    events: BinaryHeap<Reverse<(Ticks, u64, Event)>>,
    number: u64,
    queue: VecDeque<Ticks>,
    issued: u64,
    /// As decided; of these at work or about to fall idle; of these in a task.
    target: usize,
    live: usize,
    busy: usize,
    sizer: Sizer,
    gauge: Gauge,
    looks: u64,
    /// The next arrival wakes the supervisor.
    armed: bool,
    trace: Trace,
}

impl Model<'_> {
    fn run(curve: &Curve, seed: u64) -> Trace {
        let workers = curve.rules.min.max(1);
        let trace = Trace { samples: Vec::new(), sizes: vec![(Ticks(0), workers)], done: 0 };
        let mut model = Model {
            curve,
            dice: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            events: BinaryHeap::new(),
            number: 0,
            queue: VecDeque::new(),
            issued: 0,
            target: workers,
            live: workers,
            busy: 0,
            sizer: Sizer::default(),
            gauge: Gauge::default(),
            looks: 0,
            armed: false,
            trace,
        };
        for step in 0..curve.steps.len() {
            model.plan(curve.begins(step), Event::Arrival(step));
        }
        model.look(Ticks(0));
        while let Some(Reverse((now, _, event))) = model.events.pop() {
            if now > curve.end() {
                break;
            }
            model.happen(now, event);
        }
        model.trace
    }

    fn plan(&mut self, at: Ticks, event: Event) {
        self.number += 1;
        self.events.push(Reverse((at, self.number, event)));
    }

    fn happen(&mut self, now: Ticks, event: Event) {
        match event {
            Event::Arrival(step) => self.arrive(now, step),
            Event::Finish => {
                self.busy -= 1;
                self.trace.done += 1;
                self.let_go();
                self.hand_out(now);
            }
            Event::Started => {
                self.live = self.target.min(self.live + 1);
                self.hand_out(now);
            }
            Event::Look(number) if number == self.looks => self.look(now),
            Event::Look(_) => {}
        }
    }

    fn arrive(&mut self, now: Ticks, step: usize) {
        let Some(mean) = self.curve.steps[step].gap() else { return };
        let next = now.after(self.about(mean));
        if next < self.curve.begins(step + 1) {
            self.plan(next, Event::Arrival(step));
        }
        if now == self.curve.begins(step) {
            return; // the step begins; its first task comes a little later
        }
        self.queue.push_back(now);
        self.issued += 1;
        self.hand_out(now);
        if std::mem::take(&mut self.armed) {
            self.look(now);
        }
    }

    /// Idle workers take what is queued.
    fn hand_out(&mut self, now: Ticks) {
        while self.busy < self.live && self.queue.pop_front().is_some() {
            self.busy += 1;
            let end = now.after(self.about(self.curve.task));
            self.plan(end, Event::Finish);
        }
    }

    /// Whoever is idle and too many goes.
    fn let_go(&mut self) {
        self.live = self.live.min(self.target.max(self.busy));
    }

    /// As the supervisor does (`Core::size`).
    fn look(&mut self, now: Ticks) {
        let rules = &self.curve.rules;
        let queued = self.queue.len() as u64;
        let line = Line { issued: self.issued, head: self.issued - queued, full: false };
        let news = self.gauge.has_news(line);
        let waited = self.gauge.read(now, line, rules.grow_after / 4);
        let idle = self.target.saturating_sub(self.busy);
        let workers = self.target;
        let load = Load { now, queued, waited, wanted: 0, news, workers, idle };
        let verdict = self.sizer.look(rules, &load);
        if verdict.workers != workers {
            self.target = verdict.workers;
            self.trace.sizes.push((now, verdict.workers));
            for _ in self.live..verdict.workers {
                self.plan(now.after(START), Event::Started);
            }
            self.let_go();
        }
        self.armed = load.is_quiet();
        self.looks += 1;
        self.plan(verdict.look_at, Event::Look(self.looks));
        self.trace.samples.push(Sample { at: now, queued, waited });
    }

    /// Anything from nothing to three times as long; on the average that long. Whole numbers
    /// only, so that every machine draws the same picture.
    fn about(&mut self, mean: Duration) -> Duration {
        // A linear congruential generator; its high bits are good enough.
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let u = u128::from(self.dice >> 48);
        Duration::from_nanos(((mean.as_nanos() * 3 * u * u) >> 32) as u64)
    }
}

impl Trace {
    /// How often the size changed its direction, by load step.
    fn turns(&self, curve: &Curve) -> Vec<usize> {
        let mut turns = vec![0; curve.steps.len()];
        let mut before = 0_i32;
        for pair in self.sizes.windows(2) {
            let direction = if pair[1].1 > pair[0].1 { 1 } else { -1 };
            if before != 0 && direction != before {
                turns[curve.step_at(pair[1].0)] += 1;
            }
            before = direction;
        }
        turns
    }

    fn most_workers(&self) -> usize {
        self.sizes.iter().map(|(_, workers)| *workers).max().unwrap_or(0)
    }

    /// The longest wait in the last quarter of a step.
    fn waited_at_the_end_of(&self, curve: &Curve, step: usize) -> Duration {
        let (from, to) = (curve.begins(step), curve.begins(step + 1));
        let late = Ticks(from.0 + (to.0 - from.0) / 4 * 3);
        let late = self.samples.iter().filter(|sample| sample.at >= late && sample.at < to);
        late.map(|sample| sample.waited).max().unwrap_or_default()
    }
}

fn check(curve: &Curve) -> Trace {
    let trace = Model::run(curve, 1);
    let turns = trace.turns(curve);
    let (total, most) = (turns.iter().sum::<usize>(), *turns.iter().max().unwrap_or(&0));
    println!(
        "{:<10} {:>3} load steps, {:>3} changes of direction, at most {most} in a step; \
         {:>3} changes of size, up to {:>2} workers, {} tasks",
        curve.name,
        curve.steps.len(),
        total,
        trace.sizes.len() - 1,
        trace.most_workers(),
        trace.done,
    );
    assert!(most <= MOST_TURNS_PER_STEP, "{} oscillates: {:?}", curve.name, trace.sizes);
    for step in 0..curve.steps.len() {
        let waited = trace.waited_at_the_end_of(curve, step);
        assert!(
            !curve.can_settle(step) || waited <= curve.bearable(),
            "{}: in step {step} tasks still wait for {waited:?}",
            curve.name
        );
    }
    assert!(trace.sizes.iter().all(|(_, n)| (curve.rules.min..=curve.rules.max).contains(n)));
    let last = trace.sizes.last().expect("it has a first size").1;
    assert_eq!(last, curve.rules.min, "{} leaves workers behind", curve.name);
    trace
}

#[test]
fn w4_no_curve_makes_it_oscillate() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sizing");
    let bless = std::env::var_os("TIDEGATE_BLESS").is_some();
    let mut stale = Vec::new();
    for curve in curves::all() {
        let picture = drawing::draw(&curve, &check(&curve));
        let path = folder.join(format!("{}.svg", curve.name));
        if bless {
            std::fs::create_dir_all(&folder).expect("docs can be written");
            std::fs::write(&path, &picture).expect("docs can be written");
        }
        if std::fs::read_to_string(&path).ok().as_deref() != Some(picture.as_str()) {
            stale.push(curve.name);
        }
    }
    assert!(
        stale.is_empty(),
        "docs/sizing is not what the decision does now: {stale:?}; look at the figures, then run \
         TIDEGATE_BLESS=1 cargo test -p tidegate --lib sizing"
    );
}

#[test]
fn w4_an_even_load_comes_to_rest_whatever_chance_does() {
    for tenths in (5..=125).step_by(20) {
        for seed in 1..=4 {
            let curve = curves::even(tenths);
            let turns = Model::run(&curve, seed).turns(&curve)[0];
            assert!(turns <= MOST_TURNS_PER_STEP, "{turns} at level {tenths}, seed {seed}");
        }
    }
}

#[test]
fn w4_the_model_would_show_an_oscillation() {
    let mut curve = curves::all().into_iter().find(|c| c.name == "steady").expect("there is one");
    // A pool that neither waits nor keeps anything in reserve.
    curve.rules.shrink_after = Duration::from_millis(5);
    curve.rules.cooldown = Duration::ZERO;
    let turns = Model::run(&curve, 1).turns(&curve);
    assert!(turns[0] > 100, "only {} changes of direction", turns[0]);
}
