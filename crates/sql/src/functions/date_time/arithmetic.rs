//! Arithmetic with parts of dates: adding, counting boundaries, bins.

use super::calendar::{
    DateTime, TICKS_MAX, TICKS_MIN, TICKS_PER_DAY, TICKS_PER_MILLISECOND, TICKS_PER_SECOND,
    days_in_month,
};

/// 1601-01-01T00:00:00Z; the origin of bins is not before it.
const BIN_ORIGIN_MIN: i64 = -116_444_736_000_000_000;
/// Nanoseconds in a tick.
const NANOSECONDS_PER_TICK: i64 = 100;

/// A part of a date and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
    Microsecond,
    Nanosecond,
}

// How long a part is.
enum Length {
    Months(i64),
    Ticks(i64),
    Nanosecond,
}

impl Part {
    /// Reads the name of a part, in lower case.
    pub(super) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "year" | "yyyy" | "yy" => Self::Year,
            "month" | "mm" | "m" => Self::Month,
            "day" | "dd" | "d" => Self::Day,
            "hour" | "hh" => Self::Hour,
            "minute" | "mi" | "n" => Self::Minute,
            "second" | "ss" | "s" => Self::Second,
            "millisecond" | "ms" => Self::Millisecond,
            "microsecond" | "mcs" => Self::Microsecond,
            "nanosecond" | "ns" => Self::Nanosecond,
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
        }
    }

    /// Adds so many parts; a day beyond the end of its new month becomes the last of the month.
    /// Nanoseconds that do not fill a tick are dropped.
    pub(super) fn add(self, ticks: i64, count: i64) -> Option<i64> {
        match self.length() {
            Length::Months(months) => add_months(ticks, count.checked_mul(months)?),
            Length::Ticks(length) => in_years(ticks.checked_add(count.checked_mul(length)?)?),
            Length::Nanosecond => in_years(ticks.checked_add(count / NANOSECONDS_PER_TICK)?),
        }
    }

    /// Counts the starts of such parts between two times; negative when they run backwards.
    pub(super) fn boundaries_between(self, start: i64, end: i64) -> Option<i64> {
        match self.length() {
            Length::Months(months) => {
                let number = |ticks| month_number(ticks).div_euclid(months);
                Some(number(end) - number(start))
            }
            Length::Ticks(length) => Some(end.div_euclid(length) - start.div_euclid(length)),
            Length::Nanosecond => end.checked_sub(start)?.checked_mul(NANOSECONDS_PER_TICK),
        }
    }

    /// The start of the bin of `size` parts, counted from `origin`, that holds the time.
    pub(super) fn bin(self, ticks: i64, size: i64, origin: i64) -> Option<i64> {
        if size <= 0 || origin < BIN_ORIGIN_MIN {
            return None;
        }
        let width = match self.length() {
            Length::Months(months) => {
                return bin_of_months(ticks, size.checked_mul(months)?, origin);
            }
            Length::Ticks(length) => i128::from(size) * i128::from(length * NANOSECONDS_PER_TICK),
            Length::Nanosecond => i128::from(size),
        };
        // In nanoseconds, so that a bin may be narrower than a tick.
        let span = i128::from(ticks - origin) * i128::from(NANOSECONDS_PER_TICK);
        let start = span.div_euclid(width) * width;
        let start = start.div_euclid(i128::from(NANOSECONDS_PER_TICK)) + i128::from(origin);
        i64::try_from(start).ok().and_then(in_years)
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

// Months differ in length, so bins are found by their number and moved back when the origin's day
// of the month has not come yet.
fn bin_of_months(ticks: i64, size: i64, origin: i64) -> Option<i64> {
    let number = (month_number(ticks) - month_number(origin)).div_euclid(size);
    let start = |number: i64| add_months(origin, number.checked_mul(size)?);
    match start(number) {
        Some(at) if at <= ticks => Some(at),
        _ => start(number.checked_sub(1)?),
    }
}
