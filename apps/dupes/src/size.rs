//! Sizes, as people write and read them. Units are binary whatever their name: 1k, 1K, 1KB and 1KiB
//! are 1,024 bytes.

use std::fmt;

const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// Reads `4096`, `10k`, `1M` or `2GiB`; the error says what would be right.
pub fn parse(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let shift = shift(unit).filter(|_| digits > 0).ok_or(
        "expected a whole number with or without a unit (k, M, G, T, P, E): 4096, 10k, 1M, 2GiB",
    )?;
    let number = number.parse().ok();
    number
        .and_then(|number: u64| number.checked_mul(1 << shift))
        .ok_or_else(|| format!("expected at most {} bytes", u64::MAX))
}

/// Shows a size for people: `1 byte`, `512 bytes`, `12.3 MiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            1 => return f.write_str("1 byte"),
            0..1024 => return write!(f, "{} bytes", self.0),
            _ => (),
        }
        // Without fractions: there may be one for each line of a listing.
        let tenths =
            |unit: usize| (u128::from(self.0) * 10 + (512 << (10 * unit))) >> (10 * unit + 10);
        // What would be rounded to 1024.0 is 1.0 of the next.
        let fits = |unit: &usize| tenths(*unit) < 10_240;
        let unit = (0..UNITS.len()).find(fits).unwrap_or(UNITS.len() - 1);
        write!(f, "{}.{} {}", tenths(unit) / 10, tenths(unit) % 10, UNITS[unit])
    }
}

/// Bits that a unit moves a number by.
fn shift(unit: &str) -> Option<u32> {
    let unit = unit.to_ascii_lowercase();
    if matches!(unit.as_str(), "" | "b") {
        return Some(0);
    }
    let mut chars = unit.chars();
    let power = 1 + "kmgtpe".find(chars.next()?)? as u32;
    matches!(chars.as_str(), "" | "b" | "ib").then_some(10 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_binary_in_any_spelling() {
        let cases = [
            ("0", 0),
            ("4096", 4096),
            ("7b", 7),
            ("10k", 10 << 10),
            ("10K", 10 << 10),
            ("10kb", 10 << 10),
            ("10KiB", 10 << 10),
            ("1M", 1 << 20),
            ("2GiB", 2 << 30),
            ("3t", 3 << 40),
            ("5P", 5 << 50),
            ("15e", 15 << 60),
            ("18446744073709551615", u64::MAX),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn anything_else_is_told_what_would_be_right() {
        for text in ["", "k", "-1", "+1", "1.5M", "1 k", "1kk", "1bi", "1ki", "x", "10µ", "0x10"] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("10k"), "{text}: {error}");
        }
    }

    #[test]
    fn too_much_is_no_wrap_around() {
        for text in ["16E", "18446744073709551616", "18446744073709551615k"] {
            assert!(parse(text).unwrap_err().contains("at most"), "{text}");
        }
    }

    #[test]
    fn people_read_one_digit_after_the_point() {
        let cases = [
            (0, "0 bytes"),
            (1, "1 byte"),
            (1023, "1023 bytes"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            ((1 << 20) - 1, "1.0 MiB"),
            (u64::MAX, "16.0 EiB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(Size(bytes).to_string(), text);
        }
    }
}
