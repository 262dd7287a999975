//! Dates in the form that nearly every request has, read where they stand.

/// `Sun, 15 Nov 2026 19:24:19 GMT` in seconds since 1970, in any mixture of capital and small letters; nothing for every other form and for days that
/// are not in the calendar, which are for somebody else to judge.
pub(super) fn usual(text: &[u8]) -> Option<u64> {
    let text: &[u8; 29] = text.try_into().ok()?;
    let [w1, w2, w3, b',', b' ', d1, d2, b' ', m1, m2, m3, b' ', y1, y2, y3, y4, b' ', rest @ ..] =
        text
    else {
        return None;
    };
    let [h1, h2, b':', n1, n2, b':', s1, s2, b' ', z1, z2, z3] = rest else { return None };
    let lower = |letters: [&u8; 3]| letters.map(u8::to_ascii_lowercase);
    let weekday = match &lower([w1, w2, w3]) {
        b"thu" => 0,
        b"fri" => 1,
        b"sat" => 2,
        b"sun" => 3,
        b"mon" => 4,
        b"tue" => 5,
        b"wed" => 6,
        _ => return None,
    };
    // Days of the months before it, and of the month itself, in a year that is not a leap year.
    let (before, length) = match &lower([m1, m2, m3]) {
        b"jan" => (0, 31),
        b"feb" => (31, 28),
        b"mar" => (59, 31),
        b"apr" => (90, 30),
        b"may" => (120, 31),
        b"jun" => (151, 30),
        b"jul" => (181, 31),
        b"aug" => (212, 31),
        b"sep" => (243, 30),
        b"oct" => (273, 31),
        b"nov" => (304, 30),
        b"dec" => (334, 31),
        _ => return None,
    };
    if &lower([z1, z2, z3]) != b"gmt" {
        return None;
    }
    let year = two(y1, y2)? * 100 + two(y3, y4)?;
    let day = two(d1, d2)?;
    let (hour, minute, second) = (two(h1, h2)?, two(n1, n2)?, two(s1, s2)?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let leap_day = u64::from(is_leap);
    let length = length + if before == 31 { leap_day } else { 0 };
    let is_in_range = year >= 1970 && hour < 24 && minute < 60 && second < 60;
    if !is_in_range || day == 0 || day > length {
        return None;
    }
    let past = year - 1;
    let leap_days = past / 4 - past / 100 + past / 400 - 477;
    let days = (year - 1970) * 365 + leap_days + before + day - 1;
    let days = days + if before > 31 { leap_day } else { 0 };
    (days % 7 == weekday).then_some(days * 86_400 + hour * 3_600 + minute * 60 + second)
}

fn two(tens: &u8, ones: &u8) -> Option<u64> {
    let (tens, ones) = (tens.wrapping_sub(b'0'), ones.wrapping_sub(b'0'));
    (tens < 10 && ones < 10).then(|| u64::from(tens) * 10 + u64::from(ones))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::{Duration, UNIX_EPOCH};

    /// The last second that the form has a year for.
    const LAST: u64 = 253_402_300_799;

    #[test]
    fn days_that_are_not_there_are_for_others() {
        for text in [
            "Sun, 15 Nov 2026 19:24:19 UTC",
            "Mon, 15 Nov 2026 19:24:19 GMT",
            "Sun, 29 Feb 2026 19:24:19 GMT",
            "Sun, 15 Nov 2026 24:00:00 GMT",
            "Sun, 00 Nov 2026 19:24:19 GMT",
            "Sunday, 15-Nov-26 19:24:19 GMT",
            "Sun Nov 15 19:24:19 2026",
            "Sun, 15 Nov 2026 19:24:1\u{e9}GMT",
            "",
        ] {
            assert_eq!(usual(text.as_bytes()), None, "{text}");
        }
        assert_eq!(usual(b"sun, 15 nov 2026 19:24:19 gmt"), Some(1_794_770_659));
    }

    proptest! {
        #[test]
        fn every_second_is_read_as_it_was_written(seconds in 0..=LAST) {
            let text = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds));
            prop_assert_eq!(usual(text.as_bytes()), Some(seconds), "{}", text);
            prop_assert_eq!(usual(text.to_uppercase().as_bytes()), Some(seconds));
        }

        /// Whatever is read here, the parser that knows all forms reads alike.
        #[test]
        fn nothing_is_read_that_is_no_date(
            weekday in 0..7_usize, day in 0..40_u32, month in 0..12_usize, year in 1960..2110_u32, hour in 0..30_u32, minute in 0..70_u32,
        ) {
            let weekday = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"][weekday];
            let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
            let text = format!("{weekday}, {day:02} {} {year} {hour:02}:{minute:02}:07 GMT", months[month]);
            let judged = httpdate::parse_http_date(&text).ok();
            let judged = judged.and_then(|moment| moment.duration_since(UNIX_EPOCH).ok());
            prop_assert_eq!(usual(text.as_bytes()), judged.map(|since| since.as_secs()), "{}", text);
        }
    }
}
