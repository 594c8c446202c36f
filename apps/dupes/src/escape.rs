//! Names for a terminal and for lines: nothing in them can move the cursor, end the line, or turn
//! the text around.
//!
//! Printable UTF-8 stays as it is, but for the backslash, which becomes `\\`. Newline, tab and
//! carriage return become `\n`, `\t` and `\r`; every byte of anything else that is not printable,
//! or not UTF-8, becomes `\xNN`. So every name has one escaped form and every form means one name;
//! `printf '%b'` gives the bytes back.

use std::fmt;

/// Shows bytes in their escaped form.
pub fn escaped(bytes: &[u8]) -> Escaped<'_> {
    Escaped(bytes)
}

/// What [`escaped`] returns: to be printed.
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a>(&'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && *byte != b'\\';
        if let Ok(text) = std::str::from_utf8(self.0)
            && self.0.iter().all(is_plain)
        {
            return f.write_str(text); // most names, in one piece
        }
        for chunk in self.0.utf8_chunks() {
            write_text(chunk.valid(), f)?;
            write_hex(chunk.invalid(), f)?;
        }
        Ok(())
    }
}

/// Whether a terminal could take this for something else than a character to show: control
/// characters of both sets, separators of lines, and what changes the direction of text.
pub(crate) fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{feff}')
        || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn write_text(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut written = 0;
    for (at, hostile) in text.match_indices(|c| c == '\\' || is_hostile(c)) {
        f.write_str(&text[written..at])?;
        match hostile {
            "\\" => f.write_str("\\\\")?,
            "\n" => f.write_str("\\n")?,
            "\t" => f.write_str("\\t")?,
            "\r" => f.write_str("\\r")?,
            other => write_hex(other.as_bytes(), f)?,
        }
        written = at + hostile.len();
    }
    f.write_str(&text[written..])
}

fn write_hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The way back, for tests of those who print.
    pub(crate) fn unescape(text: &[u8]) -> Vec<u8> {
        let mut name = Vec::new();
        let mut rest = text;
        while let [first, tail @ ..] = rest {
            let (byte, used) = if *first == b'\\' { escape(tail) } else { (*first, 0) };
            name.push(byte);
            rest = &tail[used..];
        }
        name
    }

    fn escape(after: &[u8]) -> (u8, usize) {
        match after[0] {
            b'n' => (b'\n', 1),
            b't' => (b'\t', 1),
            b'r' => (b'\r', 1),
            b'\\' => (b'\\', 1),
            b'x' => {
                let digits = std::str::from_utf8(&after[1..3]).unwrap();
                (u8::from_str_radix(digits, 16).unwrap(), 3)
            }
            other => panic!("no escape begins with {other}"),
        }
    }

    #[test]
    fn names_for_people_stay_as_they_are() {
        for name in ["a b.txt", "Größe", "日本語", "-rf", "'\"$*", "👩‍💻"] {
            assert_eq!(escaped(name.as_bytes()).to_string(), name);
        }
    }

    #[test]
    fn hostile_ones_are_spelled_out() {
        let cases: [(&[u8], &str); 7] = [
            (b"a\nb", r"a\nb"),
            (b"a\\nb", r"a\\nb"),
            (b"\x1b[31m\t\r\x7f", r"\x1b[31m\t\r\x7f"),
            (b"\xff\xfe.jpg", r"\xff\xfe.jpg"),
            ("\u{9b}2J".as_bytes(), r"\xc2\x9b2J"),
            ("gpj.\u{202e}exe".as_bytes(), r"gpj.\xe2\x80\xaeexe"),
            (b"", ""),
        ];
        for (name, form) in cases {
            assert_eq!(escaped(name).to_string(), form);
        }
    }

    proptest! {
        #[test]
        fn no_control_byte_comes_out_and_every_name_comes_back(name: Vec<u8>) {
            let form = escaped(&name).to_string();
            prop_assert!(!form.contains(is_hostile), "{form:?}");
            prop_assert_eq!(unescape(form.as_bytes()), name);
        }
    }
}
