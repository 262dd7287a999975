//! Arithmetic with parts of dates: adding, counting boundaries, bins.

use super::calendar::{
    DateTime, TICKS_MAX, TICKS_MIN, TICKS_PER_DAY, TICKS_PER_MILLISECOND, TICKS_PER_SECOND,
    days_in_month,
};
use armilla_model::Number;

/// Nanoseconds in a tick.
const NANOSECONDS_PER_TICK: i64 = 100;

/// A part of a date and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DatePart {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
    Microsecond,
    Nanosecond,
    /// Day of the week; only to be read.
    Weekday,
}

// How long a part is.
enum Length {
    Months(i64),
    Ticks(i64),
    Nanosecond,
    None,
}

impl DatePart {
    /// Reads the name of a part, in any letter case.
    pub(super) fn parse(name: &str) -> Option<Self> {
        if name.len() > "millisecond".len() {
            return None;
        }
        Some(match name.to_ascii_lowercase().as_str() {
            "year" | "yyyy" | "yy" => Self::Year,
            "month" | "mm" | "m" => Self::Month,
            "day" | "dd" | "d" => Self::Day,
            "hour" | "hh" => Self::Hour,
            "minute" | "mi" | "n" => Self::Minute,
            "second" | "ss" | "s" => Self::Second,
            "millisecond" | "ms" => Self::Millisecond,
            "microsecond" | "mcs" => Self::Microsecond,
            "nanosecond" | "ns" => Self::Nanosecond,
            "weekday" | "dw" => Self::Weekday,
            _ => return None,
        })
    }

    /// The part's value; those below a second are the whole fraction in their unit.
    pub(super) fn of(self, date_time: &DateTime) -> i64 {
        match self {
            Self::Year => date_time.year,
            Self::Month => date_time.month,
            Self::Day => date_time.day,
            Self::Hour => date_time.hour,
            Self::Minute => date_time.minute,
            Self::Second => date_time.second,
            Self::Millisecond => date_time.fraction / TICKS_PER_MILLISECOND,
            Self::Microsecond => date_time.fraction / 10,
            Self::Nanosecond => date_time.fraction * NANOSECONDS_PER_TICK,
            // 1970-01-01 was a Thursday; Sunday is 0.
            Self::Weekday => (date_time.day_number() + 4).rem_euclid(7),
        }
    }

    /// Adds so many parts; a day beyond the end of its new month becomes the last of the month.
    /// Nanoseconds are rounded to ticks, half away from zero.
    pub(super) fn add(self, ticks: i64, count: i64) -> Option<i64> {
        match self.length() {
            Length::Months(months) => add_months(ticks, count.checked_mul(months)?),
            Length::Ticks(length) => in_years(ticks.checked_add(count.checked_mul(length)?)?),
            Length::Nanosecond => {
                let half = count % NANOSECONDS_PER_TICK / (NANOSECONDS_PER_TICK / 2);
                in_years(ticks.checked_add(count / NANOSECONDS_PER_TICK + half)?)
            }
            Length::None => None,
        }
    }

    /// Counts the starts of such parts between two times; negative when they run backwards. Parts of
    /// a second are counted as the service does: whole seconds by their starts, and the difference of
    /// the two fractions cut to whole parts.
    pub(super) fn boundaries_between(self, start: i64, end: i64) -> Option<i64> {
        match self.length() {
            Length::Months(months) => {
                let number = |ticks| month_number(ticks).div_euclid(months);
                Some(number(end) - number(start))
            }
            Length::Ticks(length) if length < TICKS_PER_SECOND => {
                let (second, fraction) = (
                    |ticks: i64| ticks.div_euclid(TICKS_PER_SECOND),
                    |ticks: i64| ticks.rem_euclid(TICKS_PER_SECOND),
                );
                let parts = (second(end) - second(start)) * (TICKS_PER_SECOND / length);
                Some(parts + (fraction(end) - fraction(start)) / length)
            }
            Length::Ticks(length) => Some(end.div_euclid(length) - start.div_euclid(length)),
            Length::None => None,
            Length::Nanosecond => end.checked_sub(start)?.checked_mul(NANOSECONDS_PER_TICK),
        }
    }

    /// The start of the bin of `size` parts, counted from `origin`, that holds the time. Months and
    /// years, which differ in length, have no bins. A size with a fraction is computed in doubles.
    pub(super) fn bin(self, ticks: i64, size: Number, origin: i64) -> Option<i64> {
        let (length, per_length) = match self.length() {
            Length::Ticks(length) => (length, 1),
            Length::Nanosecond => (1, NANOSECONDS_PER_TICK),
            Length::Months(_) | Length::None => return None,
        };
        let span = ticks - origin;
        let start = match size.as_i64() {
            Some(size) => {
                let width = i128::from(size) * i128::from(length) / i128::from(per_length);
                if width <= 0 {
                    return None;
                }
                i64::try_from(i128::from(span).div_euclid(width) * width).ok()?
            }
            None => {
                let width = match per_length {
                    1 => size.as_f64() * length as f64,
                    _ => (size.as_f64() / per_length as f64).trunc(),
                };
                // NaN, infinite and negative sizes have no bins; nor have those below a tick.
                if !(width >= 1.0 && width.is_finite()) {
                    return None;
                }
                // A span of the calendar is far inside 64 bits.
                ((span as f64 / width).floor() * width) as i64
            }
        };
        origin.checked_add(start).and_then(in_years)
    }

    fn length(self) -> Length {
        match self {
            Self::Year => Length::Months(12),
            Self::Month => Length::Months(1),
            Self::Day => Length::Ticks(TICKS_PER_DAY),
            Self::Hour => Length::Ticks(3600 * TICKS_PER_SECOND),
            Self::Minute => Length::Ticks(60 * TICKS_PER_SECOND),
            Self::Second => Length::Ticks(TICKS_PER_SECOND),
            Self::Millisecond => Length::Ticks(TICKS_PER_MILLISECOND),
            Self::Microsecond => Length::Ticks(10),
            Self::Nanosecond => Length::Nanosecond,
            Self::Weekday => Length::None,
        }
    }
}

fn in_years(ticks: i64) -> Option<i64> {
    (TICKS_MIN..=TICKS_MAX).contains(&ticks).then_some(ticks)
}

fn month_number(ticks: i64) -> i64 {
    let date_time = DateTime::from_ticks(ticks);
    date_time.year * 12 + date_time.month - 1
}

fn add_months(ticks: i64, months: i64) -> Option<i64> {
    let date_time = DateTime::from_ticks(ticks);
    let number = month_number(ticks).checked_add(months)?;
    let (year, month) = (number.div_euclid(12), number.rem_euclid(12) + 1);
    let day = date_time.day.min(days_in_month(year, month));
    DateTime { year, month, day, ..date_time }.to_ticks()
}
