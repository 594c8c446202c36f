//! Draws what a simulation did: load and workers above, the queue below.

use std::fmt::Write;

use super::curves::Curve;
use super::{Sample, Trace};
use crate::clock::Ticks;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 330.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 696.0;
/// Top and bottom of the two panels.
const WORKERS: (f64, f64) = (58.0, 208.0);
const QUEUE: (f64, f64) = (228.0, 288.0);
/// The queue is drawn as its longest in each of so many stretches of time.
const STRETCHES: usize = 326;

const STYLE: &str = "\
svg{font:12px system-ui,sans-serif}\
.paper{fill:#fff}.text{fill:#1f2328}.faint{fill:#59636e}.grid{stroke:#d1d9e0}\
.load{fill:#afb8c1;fill-opacity:.55}.workers{stroke:#0969da;stroke-width:2;fill:none}\
.queue{fill:#d1570a;fill-opacity:.75}\
@media(prefers-color-scheme:dark){\
.paper{fill:#0d1117}.text{fill:#f0f6fc}.faint{fill:#9198a1}.grid{stroke:#3d444d}\
.load{fill:#656c76;fill-opacity:.6}.workers{stroke:#58a6ff}.queue{fill:#f0883e}}";

pub(super) fn draw(curve: &Curve, trace: &Trace) -> String {
    let mut svg = String::new();
    let seconds = curve.end().0 as f64 / 1e9;
    let turns: usize = trace.turns(curve).iter().sum();
    let steps = curve.steps.len();
    open(&mut svg, curve.title, &format!("{steps} load steps, {turns} changes of direction"));
    let longest = trace.samples.iter().map(|sample| sample.queued).max().unwrap_or(0);
    let above = Panel::new(WORKERS, seconds, curve.rules.max as f64);
    let below = Panel::new(QUEUE, seconds, nice_top(longest));
    above.ruler(&mut svg, "workers", 4);
    below.ruler(&mut svg, "queued", 2);
    below.time_axis(&mut svg);
    let mut load = above.begin_area(0.0);
    for (i, step) in curve.steps.iter().enumerate() {
        let level = step.tenths as f64 / 10.0;
        above.to(&mut load, curve.begins(i), level);
        above.to(&mut load, curve.begins(i + 1), level);
    }
    above.end_area(&mut svg, &load, "load");
    let mut queue = below.begin_area(0.0);
    for (at, length) in longest_by_stretch(curve.end(), &trace.samples) {
        below.to(&mut queue, at, length as f64);
    }
    below.end_area(&mut svg, &queue, "queue");
    let mut workers = String::new();
    let mut now = trace.sizes[0].1 as f64;
    above.start(&mut workers, Ticks(0), now);
    for (at, size) in &trace.sizes[1..] {
        above.to(&mut workers, *at, now);
        now = *size as f64;
        above.to(&mut workers, *at, now);
    }
    above.to(&mut workers, curve.end(), now);
    let _ = writeln!(svg, r#"<path class="workers" d="{workers}"/>"#);
    svg.push_str("</svg>\n");
    svg
}

/// Paper, title, verdict and legend.
fn open(svg: &mut String, title: &str, verdict: &str) {
    let _ = writeln!(
        svg,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}: {verdict}">
<style>{STYLE}</style>
<rect class="paper" width="{WIDTH}" height="{HEIGHT}" rx="6"/>
<text class="text" x="16" y="24" font-size="14" font-weight="600">{title}</text>
<text class="faint" x="{RIGHT}" y="24" text-anchor="end">{verdict}</text>
<rect class="load" x="{LEFT}" y="37" width="14" height="10"/>
<text class="faint" x="72" y="46">load, in workers kept busy</text>
<path class="workers" d="M252 42H266"/>
<text class="faint" x="272" y="46">workers</text>
<rect class="queue" x="342" y="37" width="14" height="10"/>
<text class="faint" x="362" y="46">tasks in the queue</text>"#
    );
}

/// A part of the picture with a scale of its own.
struct Panel {
    top: f64,
    bottom: f64,
    seconds: f64,
    most: f64,
}

impl Panel {
    fn new((top, bottom): (f64, f64), seconds: f64, most: f64) -> Panel {
        Panel { top, bottom, seconds, most }
    }

    fn x(&self, seconds: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * seconds / self.seconds
    }

    fn y(&self, value: f64) -> f64 {
        self.bottom - (self.bottom - self.top) * (value / self.most).min(1.0)
    }

    fn ruler(&self, svg: &mut String, unit: &str, parts: usize) {
        for part in 0..=parts {
            let value = self.most * part as f64 / parts as f64;
            let (y, text) = (self.y(value), self.y(value) + 4.0);
            let _ = writeln!(svg, r#"<path class="grid" d="M{LEFT} {y:.1}H{RIGHT}"/>"#);
            let _ = writeln!(
                svg,
                r#"<text class="faint" x="46" y="{text:.1}" text-anchor="end">{value}</text>"#
            );
        }
        let middle = f64::midpoint(self.top, self.bottom);
        let _ = writeln!(
            svg,
            r#"<text class="faint" text-anchor="middle" transform="translate(14 {middle}) rotate(-90)">{unit}</text>"#
        );
    }

    fn time_axis(&self, svg: &mut String) {
        let steps = [10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_200.0];
        let step = steps.into_iter().find(|s| self.seconds / s <= 13.0).unwrap_or(3_600.0);
        let mut at = 0.0;
        while at <= self.seconds {
            let (x, y) = (self.x(at), self.bottom + 16.0);
            let _ = writeln!(
                svg,
                r#"<text class="faint" x="{x:.1}" y="{y}" text-anchor="middle">{at}</text>"#
            );
            at += step;
        }
        let x = f64::midpoint(LEFT, RIGHT);
        let _ = writeln!(
            svg,
            r#"<text class="faint" x="{x}" y="{}" text-anchor="middle">seconds</text>"#,
            self.bottom + 32.0
        );
    }

    fn start(&self, path: &mut String, at: Ticks, value: f64) {
        let (x, y) = (self.x(at.0 as f64 / 1e9), self.y(value));
        let _ = write!(path, "M{x:.1} {y:.1}");
    }

    fn to(&self, path: &mut String, at: Ticks, value: f64) {
        let (x, y) = (self.x(at.0 as f64 / 1e9), self.y(value));
        let _ = write!(path, "L{x:.1} {y:.1}");
    }

    fn begin_area(&self, value: f64) -> String {
        let mut path = String::new();
        self.start(&mut path, Ticks(0), value);
        path
    }

    fn end_area(&self, svg: &mut String, path: &str, class: &str) {
        let _ = writeln!(svg, r#"<path class="{class}" d="{path}V{:.1}Z"/>"#, self.bottom);
    }
}

fn longest_by_stretch(end: Ticks, samples: &[Sample]) -> Vec<(Ticks, u64)> {
    let stretch = (end.0 / STRETCHES as u64).max(1);
    let mut longest = vec![0; STRETCHES + 1];
    for sample in samples {
        let slot = &mut longest[(sample.at.0 / stretch) as usize];
        *slot = sample.queued.max(*slot);
    }
    let at = |i: usize| Ticks(i as u64 * stretch);
    longest.into_iter().enumerate().map(|(i, length)| (at(i), length)).collect()
}

/// A round number above it, and even, for the line in the middle.
fn nice_top(most: u64) -> f64 {
    let mut top = 10;
    for factor in [2, 5, 2].into_iter().cycle() {
        if top >= most {
            break;
        }
        top = if factor == 5 { top / 2 * 5 } else { top * 2 };
    }
    top as f64
}
