//! A time in the past, as people say it.

use crate::store::now;

const DAY: i64 = 86_400;

/// Seconds since 1970 of the beginning of a day in UTC, or of so long ago.
pub(super) fn parse(text: &str) -> Result<i64, String> {
    ago(text).map(|ago| now().saturating_sub(ago)).or_else(|| day(text)).ok_or_else(|| {
        "expected a day as 2026-11-01, or how long ago: 30d, 12h (d days, h hours, m minutes)"
            .into()
    })
}

fn ago(text: &str) -> Option<i64> {
    let unit = match text.chars().last()? {
        'd' => DAY,
        'h' => 3_600,
        'm' => 60,
        _ => return None,
    };
    number(&text[..text.len() - 1])?.checked_mul(unit)
}

fn day(text: &str) -> Option<i64> {
    let mut parts = text.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || year.len() != 4 || month.len() != 2 || day.len() != 2 {
        return None;
    }
    let (year, month, day) = (number(year)?, number(month)?, number(day)?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let february = if is_leap { 29 } else { 28 };
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let length = *lengths.get(usize::try_from(month - 1).ok()?)?;
    if !(1..=length).contains(&day) {
        return None;
    }
    let before = year - 1;
    let leaps = |years: i64| years / 4 - years / 100 + years / 400;
    let years = (year - 1970) * 365 + leaps(before) - leaps(1969);
    let months: i64 = lengths[..month as usize - 1].iter().sum();
    Some((years + months + day - 1) * DAY)
}

/// Year, month and day of that many days after 1970, in UTC.
pub(crate) fn of_days(days: i64) -> (i64, i64, i64) {
    // Years begin with March here, so that the day that not every year has is the last one.
    const ERA: i64 = 146_097; // days of 400 years
    let since = days + 719_468;
    let (era, day) = (since.div_euclid(ERA), since.rem_euclid(ERA));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + later, month, day)
}

/// The standard parser takes a plus sign, too.
fn number(text: &str) -> Option<i64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        let rows = [
            ("1970-01-01", 0),
            ("1970-03-01", 59 * DAY),
            ("1969-12-31", -DAY),
            ("2000-02-29", 951_782_400),
            ("2001-09-09", 999_993_600),
            ("2026-11-18", 1_794_960_000),
            ("2100-03-01", 4_107_542_400),
        ];
        for (text, expected) in rows {
            assert_eq!(day(text), Some(expected), "{text}");
            let (year, month, day) = of_days(expected / DAY);
            assert_eq!(format!("{year:04}-{month:02}-{day:02}"), text);
        }
        for days in -200_000..200_000 {
            let (year, month, of_month) = of_days(days);
            let text = format!("{year:04}-{month:02}-{of_month:02}");
            assert_eq!(day(&text), Some(days * DAY), "{text}");
        }
    }

    #[test]
    fn how_long_ago_goes_by_the_clock() {
        let hour_ago = parse("1h").unwrap();
        assert!((now() - 3_600 - hour_ago).abs() <= 2);
        assert!(parse("30d").unwrap() < parse("12h").unwrap());
    }

    #[test]
    fn anything_else_is_told_what_would_be_right() {
        for text in [
            "",
            "d",
            "-1d",
            "+1d",
            "1w",
            "yesterday",
            "2026-02-29",
            "2026-13-01",
            "2026-00-01",
            "2026-1-1",
            "2026-11-31",
            "2026-11-01-01",
            "26-11-01",
            "9999999999999999999d",
            "1\u{e4}",
        ] {
            assert!(parse(text).is_err_and(|error| error.contains("2026-11-01")), "{text}");
        }
    }
}
