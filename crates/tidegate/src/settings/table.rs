//! All settings, one row each: the only place that says their keys.

use super::Settings;
use super::kinds::{self, Kind};

macro_rules! row {
    ($key:ident: $kind:ident, $default:literal, $meaning:literal) => {
        &Row {
            key: stringify!($key),
            kind: kinds::$kind,
            get: |settings| &settings.$key,
            place: |settings| &mut settings.$key,
            default: $default,
            meaning: $meaning,
        }
    };
}

/// In the order of the documents. CONTRIBUTING.md says what else a new one needs.
pub(super) static TABLE: &[&dyn Setting] = &[
    row!(workers: WORKERS, "the machine's parallelism",
        "threads that run tasks; with a range the pool grows and shrinks with its load"),
    row!(grow_after: DURATION, "10ms",
        "with a range of workers: how long a task may wait before the pool grows"),
    row!(shrink_after: DURATION, "10s",
        "with a range of workers: how long workers may idle before the pool shrinks"),
    row!(resize_cooldown: DURATION, "1s",
        "with a range of workers: how long the pool holds still after a change"),
    row!(queue: PLACES, "1000",
        "tasks that may wait; with 0 a task is accepted only if a worker is idle"),
    row!(when_full: WHEN_FULL, "wait", "what a submit does when the queue is full"),
    row!(when_full_inside: INSIDE, "refuse",
        "what a submit that would wait does inside a task of the pool"),
    row!(callers_may_help: FLAG, "false", "whether who waits for a task may run it"),
    row!(task_timeout: LIMIT, "none", "how long a task may run that does not say otherwise"),
    row!(grace: DURATION, "5s", "from a stop request until the task is abandoned"),
    row!(max_abandoned: THREADS, "as many as workers",
        "abandoned workers that are replaced at a time"),
    row!(stack_size: BYTES, "the platform's", "the stack of each worker"),
    row!(restart_backoff: BACKOFF, "10ms..=5s",
        "the first and the longest pause before a dead worker is started again"),
    row!(on_parent_cancel: SHUTDOWN, "hard",
        "how the pool shuts down when its parent token is cancelled"),
];

/// A row, whatever the type of its value.
pub(super) trait Setting: Sync {
    fn key(&self) -> &'static str;
    fn expected(&self) -> String;
    /// False, and nothing changed, if the text is refused.
    fn read(&self, into: &mut Settings, text: &str) -> bool;
    fn write(&self, from: &Settings) -> Option<String>;
    /// Not set, or set to a value that is not refused.
    fn fits(&self, in_: &Settings) -> bool;
    /// What it is when nobody sets it.
    fn default(&self) -> &'static str;
    fn meaning(&self) -> &'static str;
}

struct Row<T: 'static> {
    key: &'static str,
    kind: Kind<T>,
    get: fn(&Settings) -> &Option<T>,
    place: fn(&mut Settings) -> &mut Option<T>,
    default: &'static str,
    meaning: &'static str,
}

impl<T> Setting for Row<T> {
    fn key(&self) -> &'static str {
        self.key
    }

    fn expected(&self) -> String {
        (self.kind.expected)()
    }

    fn read(&self, into: &mut Settings, text: &str) -> bool {
        let value = (self.kind.read)(text).filter(self.kind.fits);
        let fits = value.is_some();
        if fits {
            *(self.place)(into) = value;
        }
        fits
    }

    fn write(&self, from: &Settings) -> Option<String> {
        (self.get)(from).as_ref().map(self.kind.write)
    }

    fn fits(&self, in_: &Settings) -> bool {
        (self.get)(in_).as_ref().is_none_or(self.kind.fits)
    }

    fn default(&self) -> &'static str {
        self.default
    }

    fn meaning(&self) -> &'static str {
        self.meaning
    }
}

/// The key that was probably meant: one that is part of what was written (`queue_size`), or
/// the other way round (`timeout`), or else the most alike.
pub(super) fn nearest(wrong: &str) -> Option<&'static str> {
    let wrong = wrong.to_lowercase().replace('-', "_");
    let part = |key: &str| wrong.contains(key) || wrong.len() > 3 && key.contains(&wrong);
    let keys = || TABLE.iter().map(|row| row.key());
    keys().find(|key| part(key)).or_else(|| {
        let near = keys().map(|key| (distance(&wrong, key), key)).min()?;
        (near.0 <= near.1.len() / 3).then_some(near.1)
    })
}

/// How many letters must be added, dropped or changed (Levenshtein).
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    // No key is that long, and a stranger's text may be.
    for (i, a) in from.chars().take(64).enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in to.iter().enumerate() {
            let changed = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_that_was_meant_is_found() {
        for (wrong, right) in [
            ("worker", "workers"),
            ("when-full", "when_full"),
            ("QUEUE", "queue"),
            ("queue_size", "queue"),
            ("timeout", "task_timeout"),
            ("shrinkafter", "shrink_after"),
            ("max_workers", "workers"),
            ("on_parent_canceled", "on_parent_cancel"),
            ("grase", "grace"),
        ] {
            assert_eq!(nearest(wrong), Some(right), "{wrong}");
        }
        assert_eq!(nearest("colour"), None);
        assert_eq!(nearest("max"), None);
        assert_eq!(nearest(""), None);
        assert_eq!(nearest(&"x".repeat(100_000)), None);
    }

    /// `TIDEGATE_A_B_<key>` then is either of pool `a-b` or of pool `a`, never of both.
    #[test]
    fn c1_no_key_ends_with_another() {
        for long in TABLE {
            for short in TABLE {
                let end = format!("_{}", short.key());
                assert!(!long.key().ends_with(&end), "{} and {}", long.key(), short.key());
            }
        }
    }

    #[test]
    fn c1_keys_are_fields_of_settings() {
        for row in TABLE {
            let text = format!("{:?}", Settings::default());
            assert!(text.contains(&format!("{}: None", row.key())), "{}", row.key());
        }
        let fields = format!("{:?}", Settings::default()).matches(": None").count();
        assert_eq!(fields, TABLE.len(), "a field of Settings has no row");
    }
}
