//! Text from outside, on one line of a log.

use std::fmt;

/// Control characters are made visible, and there is an end to it: names, ids and messages
/// may come from a request.
pub(crate) fn write_on_one_line(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    const LONGEST: usize = 500;
    for c in text.chars().take(LONGEST) {
        match c.is_control() {
            true => write!(f, "{}", c.escape_default())?,
            false => write!(f, "{c}")?,
        }
    }
    if text.chars().nth(LONGEST).is_some() { f.write_str(" …") } else { Ok(()) }
}
