//! Numbers of things, as people say them.

use std::fmt;

/// Shows how many there are of something whose plural has an s: `1 file`, `2 files`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count<'a>(pub u64, pub &'a str);

impl fmt::Display for Count<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}{}", self.0, self.1, s(self.0))
    }
}

/// What the word for so many things ends with.
pub fn s(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        let all = [0, 1, 2].map(|count| Count(count, "file").to_string());
        assert_eq!(all, ["0 files", "1 file", "2 files"]);
    }
}
