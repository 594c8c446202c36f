//! The text format: families with their HELP and TYPE, samples with their labels.

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use super::families::{ENDS, Family};
use crate::histogram::Histogram;

#[derive(Default)]
pub(super) struct Page {
    text: String,
}

impl Page {
    /// All series of a family, of everybody; nothing if there are none.
    pub(super) fn family<T>(
        &mut self,
        family: &Family<T>,
        owner: &'static str,
        all: &[(Arc<str>, T)],
    ) {
        let before = self.text.len();
        let Family { name, kind, help, write } = family;
        push(&mut self.text, format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
        let header = self.text.len();
        for (of, from) in all {
            write(from, &mut Series { text: &mut self.text, name, owner: (owner, of) });
        }
        if self.text.len() == header {
            self.text.truncate(before);
        }
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }
}

/// The series of one family and one pool or budget.
pub(super) struct Series<'a> {
    text: &'a mut String,
    name: &'static str,
    owner: (&'static str, &'a str),
}

impl Series<'_> {
    pub(super) fn count(&mut self, value: u64) {
        self.line("", &[], value);
    }

    /// One series for each value of a label.
    pub(super) fn each<'v>(
        &mut self,
        label: &str,
        values: impl IntoIterator<Item = (&'v str, u64)>,
    ) {
        for (of, value) in values {
            self.line("", &[(label, &of.replace(' ', "_"))], value);
        }
    }

    pub(super) fn seconds(&mut self, value: Duration) {
        self.line("", &[], seconds(value.as_nanos()));
    }

    /// Cumulative, over ends at which buckets of ours end: each count is exact.
    pub(super) fn histogram(&mut self, label: Option<(&str, &str)>, histogram: &Histogram) {
        let count = histogram.count();
        let label = label.as_slice();
        for end in ENDS {
            let le = seconds(1 << end);
            self.line("_bucket", &[label, &[("le", &le)]].concat(), histogram.below(*end));
        }
        self.line("_bucket", &[label, &[("le", "+Inf")]].concat(), count);
        self.line("_sum", label, seconds(histogram.sum().as_nanos()));
        self.line("_count", label, count);
    }

    fn line(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let Series { text, name, owner } = self;
        push(text, format_args!("{name}{suffix}"));
        for (i, (label, of)) in std::iter::once(&*owner).chain(labels).enumerate() {
            let open = if i == 0 { '{' } else { ',' };
            push(text, format_args!("{open}{label}=\"{}\"", escaped(of)));
        }
        push(text, format_args!("}} {value}\n"));
    }
}

fn push(text: &mut String, what: std::fmt::Arguments<'_>) {
    text.write_fmt(what).expect("a String takes everything");
}

/// A name as it is shown. Parsers take a NUL for the end of the page; everything else can be
/// said.
pub(super) fn clean(name: &str) -> Cow<'_, str> {
    if name.contains('\0') { name.replace('\0', "\u{2400}").into() } else { name.into() }
}

fn escaped(value: &str) -> Cow<'_, str> {
    if !value.contains(['\\', '"', '\n']) {
        return value.into();
    }
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").into()
}

/// Exactly, without trailing zeros and without an exponent.
pub(super) fn seconds(nanos: u128) -> String {
    let (whole, part) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    if part == 0 {
        return whole.to_string();
    }
    format!("{whole}.{part:09}").trim_end_matches('0').to_owned()
}
