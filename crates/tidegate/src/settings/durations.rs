//! Durations as people write them: `250ms`, `1m30s`.

use std::time::Duration;

use super::kinds::read_number;

const UNITS: [(&str, u128); 6] = [
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Numbers with their units, each unit at most once, the long ones first. Only 0 needs none.
pub(super) fn read(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let (mut rest, mut units, mut nanos) = (text, &UNITS[..], 0);
    loop {
        let digits = rest.find(|c: char| c.is_ascii_alphabetic())?;
        let count: u64 = read_number(&rest[..digits])?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let unit = units.iter().position(|(name, _)| *name == &rest[..letters])?;
        nanos += u128::from(count) * units[unit].1;
        (rest, units) = (&rest[letters..], &units[unit + 1..]);
        if rest.is_empty() {
            return from_nanos(nanos);
        }
    }
}

fn from_nanos(nanos: u128) -> Option<Duration> {
    const SECOND: u128 = 1_000_000_000;
    let seconds = u64::try_from(nanos / SECOND).ok()?;
    Some(Duration::new(seconds, (nanos % SECOND) as u32))
}

pub(super) fn write(duration: &Duration) -> String {
    let mut left = duration.as_nanos();
    let mut text = String::new();
    for (name, size) in UNITS {
        if left >= size {
            text += &format!("{}{name}", left / size);
            left %= size;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        let ms = Duration::from_millis;
        for (text, duration) in [
            ("250ms", ms(250)),
            ("5s", ms(5_000)),
            ("1m30s", ms(90_000)),
            ("90s", ms(90_000)),
            ("2h", ms(7_200_000)),
            ("150us", Duration::from_micros(150)),
            ("1_000ns", Duration::from_micros(1)),
            ("0s", Duration::ZERO),
            ("0", Duration::ZERO),
        ] {
            assert_eq!(read(text), Some(duration), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in [
            "",
            "5",
            "s",
            "5 s",
            " 5s",
            "-5s",
            "+5s",
            "1.5s",
            "5S",
            "5sec",
            "30s1m",
            "1s1s",
            "1s5",
            "_1s",
            "1_s",
            "ms5",
            "5d",
            "5µs",
            "99999999999999999999s",
            "6000000000000000h",
        ] {
            assert_eq!(read(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_longest_duration_survives() {
        assert_eq!(read(&write(&Duration::MAX)), Some(Duration::MAX));
        assert_eq!(write(&Duration::new(3_661, 1_002_003)), "1h1m1s1ms2us3ns");
    }
}
