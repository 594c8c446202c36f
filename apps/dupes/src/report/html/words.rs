//! What may stand in a page: numbers, times and names as text, and JSON within a script.

use std::io::{self, Write};

/// Text, also within an attribute. Names come here escaped, so that no control character is in them.
pub(super) fn text(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

/// With a comma between thousands.
pub(super) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 file`, `2 files`.
pub(super) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", number(count), if count == 1 { one } else { many })
}

/// A time in s since 1970, to the minute.
pub(super) fn utc(seconds: i64) -> String {
    let (days, seconds) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = date(days);
    let (hour, minute) = (seconds / 3_600, seconds / 60 % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

/// Of a day since 1970. Years are counted from March on, so that the day that is not in all of them comes
/// last, and in eras of 400 years, which are all of the same length.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468; // since the first of March of the year 0
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153; // five months from March or August on have 153 days
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (400 * era + year + i64::from(month <= 2), month, day)
}

/// JSON goes in, and the same JSON comes out in a form in which nothing can end a script or begin a
/// comment: these characters are in strings only, and each has another spelling there.
pub(super) struct InScript<'a>(pub(super) &'a mut dyn Write);

impl Write for InScript<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut rest = bytes;
        while let Some(at) = rest.iter().position(|byte| matches!(byte, b'<' | b'>' | b'&')) {
            self.0.write_all(&rest[..at])?;
            write!(self.0, "\\u{:04x}", rest[at])?;
            rest = &rest[at + 1..];
        }
        self.0.write_all(rest)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn text_is_nothing_but_text() {
        assert_eq!(
            text("<b a='1' b=\"2\">&amp;"),
            "&lt;b a=&#39;1&#39; b=&quot;2&quot;&gt;&amp;amp;"
        );
    }

    #[test]
    fn numbers_have_commas() {
        let shown = [0, 999, 1_000, 12_345_678].map(number);
        assert_eq!(shown, ["0", "999", "1,000", "12,345,678"]);
        assert_eq!(
            [counted(1, "file", "files"), counted(0, "file", "files")],
            ["1 file", "0 files"]
        );
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        let rows = [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_399, "2000-02-28 23:59 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (1_798_761_600, "2027-01-01 00:00 UTC"),
            (4_107_542_400, "2100-03-01 00:00 UTC"),
            (-60, "1969-12-31 23:59 UTC"),
        ];
        for (seconds, shown) in rows {
            assert_eq!(utc(seconds), shown);
        }
    }

    proptest! {
        #[test]
        fn no_string_can_end_a_script_and_all_come_back(string: String, more in "[<>!/&a-z-]{0,20}") {
            let value = Value::from(vec![string, more]);
            let mut written = Vec::new();
            serde_json::to_writer(InScript(&mut written), &value).unwrap();
            prop_assert!(!written.iter().any(|byte| b"<>&".contains(byte)));
            prop_assert_eq!(serde_json::from_slice::<Value>(&written).unwrap(), value);
        }
    }
}
