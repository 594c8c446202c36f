//! How each kind of setting is written as text, and which values of it are refused.

use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use super::durations;
use crate::config::{Inside, WhenFull, Workers};
use crate::lot::MAX_WORKERS;
use crate::report::Shutdown;

/// `read` gives back what `write` wrote; what `fits` refuses came from code, or is a number
/// out of range.
pub(crate) struct Kind<T> {
    pub(super) read: fn(&str) -> Option<T>,
    pub(crate) write: fn(&T) -> String,
    pub(super) fits: fn(&T) -> bool,
    /// The end of a sentence: "expected …".
    pub(super) expected: fn() -> String,
}

const LARGEST_QUEUE: u64 = u32::MAX as u64;
/// Twice what is ours on a worker's stack without optimisation, most of it the backtrace of a panic
/// (32 KiB, `tests/threads/small_stack.rs`): below that the process would end by an overflow.
const SMALLEST_STACK: u64 = 64 << 10;
/// Far below what would overflow where std rounds it up to pages.
const LARGEST_STACK: u64 = 1 << 40;
const DURATION_IS: &str = "a duration with its unit, such as 250ms, 5s, 1m30s or 2h";

pub(super) const WORKERS: Kind<Workers> = Kind {
    read: |text| match text.split_once("..=") {
        None => read_number::<usize>(text).map(Workers::from),
        Some((min, max)) => Some(Workers { min: read_number(min)?, max: read_number(max)? }),
    },
    write: Workers::to_string,
    fits: |w| w.min <= w.max && (1..=MAX_WORKERS).contains(&w.max),
    expected: || format!("1 to {MAX_WORKERS}, or a range MIN..=MAX from 0..=1 up to that"),
};

pub(super) const PLACES: Kind<usize> = Kind {
    read: read_number,
    write: usize::to_string,
    fits: |places| *places as u64 <= LARGEST_QUEUE,
    expected: || format!("0 to {LARGEST_QUEUE}"),
};

pub(super) const THREADS: Kind<usize> = Kind {
    read: read_number,
    write: usize::to_string,
    fits: |threads| *threads <= MAX_WORKERS,
    expected: || format!("0 to {MAX_WORKERS}"),
};

pub(super) const BYTES: Kind<usize> = Kind {
    read: read_number,
    write: usize::to_string,
    fits: |bytes| (SMALLEST_STACK..=LARGEST_STACK).contains(&(*bytes as u64)),
    expected: || format!("{SMALLEST_STACK} to {LARGEST_STACK} bytes"),
};

pub(super) const FLAG: Kind<bool> = Kind {
    read: |text| text.parse().ok(),
    write: bool::to_string,
    fits: |_| true,
    expected: || "true or false".to_owned(),
};

pub(super) const DURATION: Kind<Duration> = Kind {
    read: durations::read,
    write: durations::write,
    fits: |_| true,
    expected: || DURATION_IS.to_owned(),
};

/// `Duration::MAX` is none.
pub(super) const LIMIT: Kind<Duration> = Kind {
    read: |text| if text == NONE { Some(Duration::MAX) } else { durations::read(text) },
    write: |limit| match *limit {
        Duration::MAX => NONE.to_owned(),
        _ => durations::write(limit),
    },
    fits: |_| true,
    expected: || format!("{NONE}, or {DURATION_IS}"),
};
const NONE: &str = "none";

pub(super) const BACKOFF: Kind<RangeInclusive<Duration>> = Kind {
    read: |text| {
        let (first, longest) = text.split_once("..=")?;
        Some(durations::read(first)?..=durations::read(longest)?)
    },
    write: |range| {
        let (first, longest) = (durations::write(range.start()), durations::write(range.end()));
        format!("{first}..={longest}")
    },
    fits: |range| range.start() <= range.end(),
    expected: || {
        "a range of durations from the shorter to the longer, such as 10ms..=5s".to_owned()
    },
};

pub(crate) const WHEN_FULL: Kind<WhenFull> = Kind {
    read: |text| match text.strip_prefix("wait-for ") {
        Some(limit) => durations::read(limit).map(WhenFull::WaitFor),
        None => named(POLICIES, write_policy, text),
    },
    write: write_policy,
    fits: |_| true,
    expected: || format!("{}, or wait-for 50ms", choice(POLICIES, write_policy)),
};
const POLICIES: &[WhenFull] = &[
    WhenFull::Wait,
    WhenFull::Reject,
    WhenFull::DropNewest,
    WhenFull::DropOldest,
    WhenFull::CallerRuns,
];
fn write_policy(policy: &WhenFull) -> String {
    match policy {
        WhenFull::Wait => "wait".to_owned(),
        WhenFull::WaitFor(limit) => format!("wait-for {}", durations::write(limit)),
        WhenFull::Reject => "reject".to_owned(),
        WhenFull::DropNewest => "drop-newest".to_owned(),
        WhenFull::DropOldest => "drop-oldest".to_owned(),
        WhenFull::CallerRuns => "caller-runs".to_owned(),
    }
}

pub(crate) const INSIDE: Kind<Inside> = Kind {
    read: |text| named(INSIDES, write_inside, text),
    write: write_inside,
    fits: |_| true,
    expected: || choice(INSIDES, write_inside),
};
const INSIDES: &[Inside] = &[Inside::Refuse, Inside::RunInline];
fn write_inside(inside: &Inside) -> String {
    match inside {
        Inside::Refuse => "refuse".to_owned(),
        Inside::RunInline => "run-inline".to_owned(),
    }
}

/// A mode, then perhaps its limit, then perhaps its grace.
pub(super) const SHUTDOWN: Kind<Shutdown> = Kind {
    read: |text| {
        let mut parts = text.split(' ');
        let mut how = named(MODES, write_shutdown, parts.next()?)?;
        let mut next = parts.next();
        if next == Some("within") {
            how = how.within(durations::read(parts.next()?)?);
            next = parts.next();
        }
        if next == Some("grace") {
            how = how.grace(durations::read(parts.next()?)?);
            next = parts.next();
        }
        next.is_none().then_some(how)
    },
    write: write_shutdown,
    fits: |_| true,
    expected: || {
        let modes = choice(MODES, write_shutdown);
        format!("{modes}, each perhaps with a limit and a grace: soft within 30s grace 1s")
    },
};
const MODES: &[Shutdown] = &[Shutdown::light(), Shutdown::soft(), Shutdown::hard()];
fn write_shutdown(how: &Shutdown) -> String {
    let mut text = how.mode().to_string();
    if let Some(limit) = how.limit() {
        text += &format!(" within {}", durations::write(&limit));
    }
    if how.grace_limit() != Duration::MAX {
        text += &format!(" grace {}", durations::write(&how.grace_limit()));
    }
    text
}

/// Digits; underscores may stand between them.
pub(super) fn read_number<N: FromStr>(text: &str) -> Option<N> {
    let digits = |group: &str| !group.is_empty() && group.bytes().all(|b| b.is_ascii_digit());
    text.split('_').all(digits).then(|| text.replace('_', "").parse().ok())?
}

/// The one that is written so.
fn named<T: Copy>(all: &[T], write: fn(&T) -> String, text: &str) -> Option<T> {
    all.iter().find(|value| write(value) == text).copied()
}

/// `a, b or c`.
fn choice<T>(all: &[T], write: fn(&T) -> String) -> String {
    let words: Vec<String> = all.iter().map(write).collect();
    let (last, first) = words.split_last().expect("there is something to choose");
    format!("{} or {last}", first.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: PartialEq + std::fmt::Debug>(kind: &Kind<T>, text: &str, value: T) {
        assert_eq!((kind.read)(text).as_ref(), Some(&value), "{text:?}");
        assert!((kind.fits)(&value), "{text:?}");
        let written = (kind.write)(&value);
        assert_eq!((kind.read)(&written), Some(value), "{text:?} was written as {written:?}");
    }

    fn refuse<T: std::fmt::Debug>(kind: &Kind<T>, texts: &[&str]) {
        for text in texts {
            let value = (kind.read)(text).filter(kind.fits);
            assert!(value.is_none(), "{text:?} was read as {value:?}");
        }
    }

    #[test]
    fn numbers_may_have_underscores_between_digits() {
        for (text, number) in [("0", 0), ("1000", 1_000), ("1_000", 1_000), ("1_0_0", 100)] {
            check(&PLACES, text, number);
        }
        refuse(&PLACES, &["", "_", "_1", "1_", "1__0", "+1", "-1", "1.0", "1e3", "0x10", " 1"]);
        refuse(&PLACES, &["4294967296", "99999999999999999999999"]);
    }

    #[test]
    fn workers_are_a_number_or_a_range() {
        check(&WORKERS, "8", 8.into());
        check(&WORKERS, "2..=1_6", (2..=16).into());
        check(&WORKERS, "0..=1", (0..=1).into());
        check(&WORKERS, "65520", MAX_WORKERS.into());
        refuse(&WORKERS, &["0", "0..=0", "4..=2", "65521", "2..16", "2-16", "..=4", "2..="]);
    }

    #[test]
    fn policies_have_their_words() {
        let ms = Duration::from_millis;
        check(&WHEN_FULL, "wait", WhenFull::Wait);
        check(&WHEN_FULL, "wait-for 50ms", WhenFull::WaitFor(ms(50)));
        check(&WHEN_FULL, "caller-runs", WhenFull::CallerRuns);
        refuse(&WHEN_FULL, &["", "Wait", "wait-for", "wait-for 50", "wait-for50ms", "drop"]);
        check(&INSIDE, "run-inline", Inside::RunInline);
        refuse(&INSIDE, &["", "run_inline", "wait"]);
        check(&LIMIT, "none", Duration::MAX);
        check(&LIMIT, "5s", ms(5_000));
        refuse(&LIMIT, &["", "never", "5"]);
        refuse(&FLAG, &["", "yes", "1", "True"]);
    }

    #[test]
    fn a_shutdown_is_a_mode_with_a_limit_and_a_grace() {
        let s = Duration::from_secs;
        check(&SHUTDOWN, "hard", Shutdown::hard());
        check(&SHUTDOWN, "light within 30s", Shutdown::light().within(s(30)));
        check(&SHUTDOWN, "soft grace 0s", Shutdown::soft().grace(s(0)));
        check(&SHUTDOWN, "soft within 1m grace 1s", Shutdown::soft().within(s(60)).grace(s(1)));
        refuse(&SHUTDOWN, &["", "Light", "light within", "light 30s", "within 30s", "hard "]);
        refuse(&SHUTDOWN, &["light grace 1s within 30s", "light within 30s now"]);
    }

    #[test]
    fn a_backoff_is_a_range() {
        let s = Duration::from_secs;
        check(&BACKOFF, "10ms..=5s", Duration::from_millis(10)..=s(5));
        check(&BACKOFF, "0..=0", s(0)..=s(0));
        refuse(&BACKOFF, &["5s", "5s..=1s", "1..=5", "1s..5s"]);
        check(&BYTES, "65_536", 65_536);
        check(&BYTES, "1099511627776", 1 << 40);
        refuse(&BYTES, &["0", "1", "65535", "1099511627777", "2MB"]);
        refuse(&THREADS, &["65521", "18446744073709551615"]);
    }
}
