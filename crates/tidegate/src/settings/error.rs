//! Why settings were refused.

use std::error::Error;
use std::fmt;

use crate::text::write_on_one_line;

/// Why settings were refused: which pool and key, what was given, what would be right.
///
/// ```
/// use tidegate::Settings;
///
/// let vars = [("TIDEGATE_IMAGE_RESIZE_QUEUE", "lots")];
/// let error = Settings::from_vars(&["image-resize"], vars).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "pool \"image-resize\": TIDEGATE_IMAGE_RESIZE_QUEUE is \"lots\"; expected 0 to 4294967295"
/// );
/// assert_eq!(error.key(), Some("TIDEGATE_IMAGE_RESIZE_QUEUE"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingError {
    pool: Option<String>,
    fault: Box<Fault>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Fault {
    Value {
        key: String,
        value: String,
        expected: String,
    },
    Unknown {
        key: String,
        nearest: Option<String>,
    },
    Twice {
        key: String,
        /// Where it comes again, of a file that says so.
        line: Option<usize>,
    },
    OnePrefix {
        prefix: String,
        pools: [String; 2],
    },
    #[cfg_attr(not(any(feature = "toml", feature = "json")), expect(dead_code))]
    Format {
        name: &'static str,
        message: String,
    },
}

impl SettingError {
    pub(crate) fn refused(key: &str, value: &str, expected: impl Into<String>) -> SettingError {
        let (key, value, expected) = (key.to_owned(), value.to_owned(), expected.into());
        Fault::Value { key, value, expected }.into()
    }

    pub(super) fn unknown(key: &str, nearest: Option<String>) -> SettingError {
        Fault::Unknown { key: key.to_owned(), nearest }.into()
    }

    pub(super) fn twice(key: &str) -> SettingError {
        Fault::Twice { key: key.to_owned(), line: None }.into()
    }

    #[cfg(feature = "toml")]
    pub(super) fn twice_at(key: &str, line: usize) -> SettingError {
        Fault::Twice { key: key.to_owned(), line: Some(line) }.into()
    }

    pub(super) fn one_prefix(prefix: &str, pools: [&str; 2]) -> SettingError {
        Fault::OnePrefix { prefix: prefix.to_owned(), pools: pools.map(str::to_owned) }.into()
    }

    #[cfg(any(feature = "toml", feature = "json"))]
    pub(super) fn format(name: &'static str, message: String) -> SettingError {
        Fault::Format { name, message }.into()
    }

    pub(crate) fn of_pool(mut self, pool: &str) -> SettingError {
        self.pool = Some(pool.to_owned());
        self
    }

    /// With the key as it was spelled.
    pub(super) fn at_key(mut self, spelled: &str) -> SettingError {
        if let Fault::Value { key, .. } | Fault::Twice { key, .. } = &mut *self.fault {
            *key = spelled.to_owned();
        }
        self
    }

    /// The pool whose setting it is, where that is known.
    #[must_use]
    pub fn pool(&self) -> Option<&str> {
        self.pool.as_deref()
    }

    /// The key or the variable, as it was spelled.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        match &*self.fault {
            Fault::Value { key, .. } | Fault::Unknown { key, .. } | Fault::Twice { key, .. } => {
                Some(key)
            }
            Fault::OnePrefix { .. } | Fault::Format { .. } => None,
        }
    }

    /// What was given, if it is the value that is wrong.
    #[must_use]
    pub fn value(&self) -> Option<&str> {
        match &*self.fault {
            Fault::Value { value, .. } => Some(value),
            _ => None,
        }
    }

    /// What would be right, if it is the value that is wrong.
    #[must_use]
    pub fn expected(&self) -> Option<&str> {
        match &*self.fault {
            Fault::Value { expected, .. } => Some(expected),
            _ => None,
        }
    }
}

impl From<Fault> for SettingError {
    fn from(fault: Fault) -> SettingError {
        SettingError { pool: None, fault: Box::new(fault) }
    }
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(pool) = &self.pool {
            write!(f, "pool {pool:?}: ")?;
        }
        match &*self.fault {
            Fault::Value { key, value, expected } => {
                write_on_one_line(f, key)?;
                write!(f, " is {}; expected {expected}", shown(&shortened(value)))
            }
            Fault::Unknown { key, nearest } => {
                write_on_one_line(f, key)?;
                f.write_str(" is no setting; ")?;
                if let Some(nearest) = nearest {
                    write!(f, "did you mean {nearest}? ")?;
                }
                f.write_str("docs/settings.md lists them")
            }
            Fault::Twice { key, line } => {
                write_on_one_line(f, key)?;
                f.write_str(" is set twice")?;
                if let Some(line) = line {
                    write!(f, ", again in line {line}")?;
                }
                f.write_str("; keep one")
            }
            Fault::OnePrefix { prefix, pools: [first, second] } => {
                write!(f, "pools {first:?} and {second:?} would share the variables {prefix}…; ")?;
                f.write_str("rename one of them")
            }
            Fault::Format { name, message } => {
                write!(f, "the settings could not be read as {name}: {}", message.trim_end())
            }
        }
    }
}

impl Error for SettingError {}

/// A value as TOML would have it, wherever it came from: numbers and flags as they are, and all
/// else in quotes.
pub(super) fn shown(value: &str) -> String {
    let digits = value.strip_prefix('-').unwrap_or(value).trim_end_matches('…');
    let number = digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.ends_with(|c: char| c.is_ascii_digit())
        && digits.replace('_', "").parse::<f64>().is_ok();
    if number || value.parse::<bool>().is_ok() { value.to_owned() } else { format!("{value:?}") }
}

/// The beginning says enough of a value that is wrong.
fn shortened(value: &str) -> String {
    const LONGEST: usize = 100;
    match value.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c1_numbers_and_flags_are_shown_as_they_are_and_texts_in_quotes() {
        let large = "9".repeat(200);
        for bare in ["0", "65521", "-1", "1.5", "1e3", "1_000", "true", &large] {
            assert_eq!(shown(bare), bare);
        }
        for text in
            ["", "lots", "5s", "-", "1..=5", "[…]", "inf", "nan", " 1", "1\n", "1_", "0x10", "…"]
        {
            assert_eq!(shown(text), format!("{text:?}"));
        }
        let text = SettingError::refused("queue", &large, "less").to_string();
        assert_eq!(text, format!("queue is {}…; expected less", "9".repeat(100)));
    }

    #[test]
    fn c1_an_error_is_one_short_line_whatever_was_given() {
        let value = format!("8\n{}", "9".repeat(1_000_000));
        let error = SettingError::refused("a\nb", &value, "less").of_pool("x\ny");
        let text = error.to_string();
        assert!(text.starts_with("pool \"x\\ny\": a\\nb is \"8\\n99"), "{text}");
        assert!(text.ends_with("9…\"; expected less"), "{text}");
        assert!(text.len() < 200 && !text.contains('\n'), "{text}");
        assert_eq!(error.value(), Some(value.as_str()));
    }
}
