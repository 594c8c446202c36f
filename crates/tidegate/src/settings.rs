//! The settings of a pool as plain data: from a file, the environment, or code.
//!
//! `table.rs` has one row for each; what reads, prints, checks or documents settings goes
//! through it.

mod durations;
mod env;
mod error;
#[cfg(any(feature = "toml", feature = "json"))]
mod files;
mod kinds;
mod reference;
mod table;
#[cfg(feature = "serde")]
mod tree;

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::config::{Inside, WhenFull, Workers};
use crate::report::Shutdown;

pub use error::SettingError;
pub(crate) use kinds::{INSIDE, WHEN_FULL};
use table::TABLE;

/// The settings of a pool as plain data; what is `None` is not set and leaves what was there.
///
/// Each is the method of [`Builder`](crate::Builder) with its name, and the same values are
/// refused, whichever way they came. `docs/settings.md` in the repository lists them with
/// their defaults and ranges.
///
/// | from | by |
/// |---|---|
/// | the environment, `TIDEGATE_IMAGE_WORKERS=8` | [`Builder::env`](crate::Builder::env), [`Settings::from_env`] for several pools |
/// | TOML, feature `toml` | `Settings::from_toml`, `Settings::pools_from_toml` |
/// | JSON, feature `json` | `Settings::from_json`, `Settings::pools_from_json` |
/// | another format of serde, feature `serde` | it is `Deserialize` and `Serialize`; the format must describe itself, as YAML does |
/// | flags such as `--set queue=100` | [`Settings::set`] |
///
/// Later ones override earlier ones: file, then environment, then what the program insists
/// on.
///
/// ```
/// use tidegate::{Pool, Settings, Shutdown};
///
/// let mut file = Settings::default();
/// file.set("workers", "2")?;
/// file.set("when_full", "wait-for 50ms")?;
/// let pool = Pool::builder("image")
///     .settings(&file) // what the file says
///     .env()? // overridden by TIDEGATE_IMAGE_…
///     .queue(100) // whatever they say
///     .build()?;
/// pool.shutdown(Shutdown::default())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// As [`Builder::workers`](crate::Builder::workers).
    pub workers: Option<Workers>,
    /// As [`Builder::grow_after`](crate::Builder::grow_after).
    pub grow_after: Option<Duration>,
    /// As [`Builder::shrink_after`](crate::Builder::shrink_after).
    pub shrink_after: Option<Duration>,
    /// As [`Builder::resize_cooldown`](crate::Builder::resize_cooldown).
    pub resize_cooldown: Option<Duration>,
    /// As [`Builder::queue`](crate::Builder::queue).
    pub queue: Option<usize>,
    /// As [`Builder::when_full`](crate::Builder::when_full).
    pub when_full: Option<WhenFull>,
    /// As [`Builder::when_full_inside`](crate::Builder::when_full_inside).
    pub when_full_inside: Option<Inside>,
    /// As [`Builder::callers_may_help`](crate::Builder::callers_may_help).
    pub callers_may_help: Option<bool>,
    /// As [`Builder::task_timeout`](crate::Builder::task_timeout): `Duration::MAX` is no limit.
    pub task_timeout: Option<Duration>,
    /// As [`Builder::grace`](crate::Builder::grace).
    pub grace: Option<Duration>,
    /// As [`Builder::max_abandoned`](crate::Builder::max_abandoned).
    pub max_abandoned: Option<usize>,
    /// As [`Builder::stack_size`](crate::Builder::stack_size).
    pub stack_size: Option<usize>,
    /// As [`Builder::restart_backoff`](crate::Builder::restart_backoff).
    pub restart_backoff: Option<RangeInclusive<Duration>>,
    /// As [`Builder::on_parent_cancel`](crate::Builder::on_parent_cancel).
    pub on_parent_cancel: Option<Shutdown>,
}

impl Settings {
    /// Sets one from text, as a file or the environment would.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SettingError> {
        let Some(row) = TABLE.iter().find(|row| row.key() == key) else {
            let nearest = table::nearest(key).map(str::to_owned);
            return Err(SettingError::unknown(key, nearest));
        };
        match row.read(self, value) {
            true => Ok(()),
            false => Err(SettingError::refused(key, value, row.expected())),
        }
    }

    /// What is set, as keys and texts that [`set`](Settings::set) would take.
    pub fn entries(&self) -> impl Iterator<Item = (&'static str, String)> {
        TABLE.iter().filter_map(|row| Some((row.key(), row.write(self)?)))
    }

    /// The first that is set to what no text could say.
    pub(crate) fn check(&self) -> Result<(), SettingError> {
        match TABLE.iter().find(|row| !row.fits(self)) {
            None => Ok(()),
            Some(row) => {
                let value = row.write(self).unwrap_or_default();
                Err(SettingError::refused(row.key(), &value, row.expected()))
            }
        }
    }

    /// As `set`, for sources in which a key should come once.
    fn set_once(&mut self, key: &str, value: &str) -> Result<(), SettingError> {
        match TABLE.iter().find(|row| row.key() == key) {
            Some(row) if row.write(self).is_some() => Err(SettingError::twice(key)),
            _ => self.set(key, value),
        }
    }
}

/// What is set, a line each, as TOML.
impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (key, value)) in self.entries().enumerate() {
            let line = if i == 0 { "" } else { "\n" };
            write!(f, "{line}{key} = {}", error::shown(&value))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c1_what_is_set_is_printed_as_toml() {
        let mut settings = Settings::default();
        assert_eq!(settings.to_string(), "");
        settings.set("grace", "90s").unwrap();
        settings.set("queue", "1_000").unwrap();
        settings.set("callers_may_help", "true").unwrap();
        let text = "queue = 1000\ncallers_may_help = true\ngrace = \"1m30s\"";
        assert_eq!(settings.to_string(), text);
    }

    #[test]
    fn c1_a_value_that_is_refused_changes_nothing() {
        let mut settings = Settings::default();
        settings.set("workers", "8").unwrap();
        let before = settings.clone();
        assert!(settings.set("workers", "0").is_err());
        assert!(settings.set("workers", "many").is_err());
        assert_eq!(settings, before);
    }
}
