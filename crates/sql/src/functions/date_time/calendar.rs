//! The calendar: ticks to dates and back, and dates as strings.

/// Ticks in a second.
pub(super) const TICKS_PER_SECOND: i64 = 10_000_000;
/// Ticks in a millisecond.
pub(super) const TICKS_PER_MILLISECOND: i64 = 10_000;
/// Ticks in a day.
pub(super) const TICKS_PER_DAY: i64 = 86_400 * TICKS_PER_SECOND;
/// The first year of the calendar, the service's.
const YEAR_MIN: i64 = 1601;
/// 1601-01-01T00:00:00.0000000Z.
pub(super) const TICKS_MIN: i64 = -134_774 * TICKS_PER_DAY;
/// 9999-12-31T23:59:59.9999999Z.
pub(super) const TICKS_MAX: i64 = 2_932_897 * TICKS_PER_DAY - 1;

/// The longest offset from UTC, in minutes.
const OFFSET_MINUTES_MAX: i64 = 14 * 60;

/// A date and time by its parts. Parts may be out of range until [`DateTime::to_ticks`] checks them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DateTime {
    /// Year, 1601 to 9999.
    pub year: i64,
    /// Month, from 1.
    pub month: i64,
    /// Day of the month, from 1.
    pub day: i64,
    /// Hour, 0 to 23.
    pub hour: i64,
    /// Minute, 0 to 59.
    pub minute: i64,
    /// Second, 0 to 59.
    pub second: i64,
    /// Fraction of the second in ticks of 100 ns.
    pub fraction: i64,
}

/// Reads a date, or a date and a time, as ticks since 1970.
///
/// `YYYY-MM-DD`, then perhaps `T` or one space and `hh:mm:ss` with an optional `.` and one to seven
/// digits, then perhaps a zone: `Z`, or one space or none and an offset `+hh`, `+hhmm` or `+hh:mm` of at
/// most 14 hours. Without a zone it is UTC. The date must be one of the calendar, as it is written and
/// in UTC.
pub fn parse(text: &str) -> Option<i64> {
    let (date, rest) = text.as_bytes().split_at_checked("YYYY-MM-DD".len())?;
    let [year, month, day] = fields(date, [4, 2, 2], b'-')?;
    let date_time = DateTime { year, month, day, hour: 0, minute: 0, second: 0, fraction: 0 };
    let (date_time, zone) = match rest {
        [b'T', time @ ..] => time_of_day(date_time, time)?,
        [b' ', time @ ..] if time.first().is_some_and(u8::is_ascii_digit) => {
            time_of_day(date_time, time)?
        }
        zone => (date_time, zone),
    };
    let ticks = date_time.to_ticks()? - offset(zone)?;
    (TICKS_MIN..=TICKS_MAX).contains(&ticks).then_some(ticks)
}

/// The time at the front, and what follows it.
fn time_of_day(date: DateTime, bytes: &[u8]) -> Option<(DateTime, &[u8])> {
    let (time, rest) = bytes.split_at_checked("hh:mm:ss".len())?;
    let [hour, minute, second] = fields(time, [2, 2, 2], b':')?;
    let length = match rest {
        [b'.', rest @ ..] => 1 + rest.iter().take_while(|byte| byte.is_ascii_digit()).count(),
        _ => 0,
    };
    let (digits, rest) = rest.split_at(length);
    Some((DateTime { hour, minute, second, fraction: fraction(digits)?, ..date }, rest))
}

/// Ticks that a zone is ahead of UTC.
fn offset(zone: &[u8]) -> Option<i64> {
    if let [] | [b'Z'] = zone {
        return Some(0);
    }
    let zone = zone.strip_prefix(b" ").unwrap_or(zone);
    let (sign, zone) = zone.split_first()?;
    let (hours, minutes) = zone.split_at_checked("hh".len())?;
    let minutes =
        minutes.strip_prefix(b":").filter(|minutes| !minutes.is_empty()).unwrap_or(minutes);
    let minutes = match minutes {
        [] => 0,
        [_, _] => digits(minutes).filter(|minutes| *minutes < 60)?,
        _ => return None,
    };
    let minutes = digits(hours)? * 60 + minutes;
    let ticks = (minutes <= OFFSET_MINUTES_MAX).then_some(minutes * 60 * TICKS_PER_SECOND)?;
    match sign {
        b'+' => Some(ticks),
        b'-' => Some(-ticks),
        _ => None,
    }
}

/// Writes ticks since 1970 as `YYYY-MM-DDThh:mm:ss.fffffffZ`.
pub fn format_ticks(ticks: i64) -> String {
    let DateTime { year, month, day, hour, minute, second, fraction } = DateTime::from_ticks(ticks);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:07}Z")
}

impl DateTime {
    /// The date and time of ticks since 1970.
    pub fn from_ticks(ticks: i64) -> Self {
        let (year, month, day) = date_of_day(ticks.div_euclid(TICKS_PER_DAY));
        let in_day = ticks.rem_euclid(TICKS_PER_DAY);
        let seconds = in_day / TICKS_PER_SECOND;
        Self {
            year,
            month,
            day,
            hour: seconds / 3600,
            minute: seconds / 60 % 60,
            second: seconds % 60,
            fraction: in_day % TICKS_PER_SECOND,
        }
    }

    /// Days since 1970.
    pub(super) fn day_number(&self) -> i64 {
        day_of_date(self.year, self.month, self.day)
    }

    /// Ticks since 1970; nothing when a part is out of range or the day is not in the calendar.
    pub fn to_ticks(&self) -> Option<i64> {
        let in_range = (YEAR_MIN..=9999).contains(&self.year)
            && (1..=12).contains(&self.month)
            && (1..=days_in_month(self.year, self.month)).contains(&self.day)
            && (0..24).contains(&self.hour)
            && (0..60).contains(&self.minute)
            && (0..60).contains(&self.second)
            && (0..TICKS_PER_SECOND).contains(&self.fraction);
        in_range.then(|| {
            let seconds = self.hour * 3600 + self.minute * 60 + self.second;
            day_of_date(self.year, self.month, self.day) * TICKS_PER_DAY
                + seconds * TICKS_PER_SECOND
                + self.fraction
        })
    }
}

/// Days of a month, leap days included.
pub(super) fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

// Years are counted from March here, so that the leap day is the last of its year; 400 of them have
// 146,097 days. Day 719,468 from 0000-03-01 is 1970-01-01.
fn day_of_date(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    let (era, year) = (year.div_euclid(400), year.rem_euclid(400));
    era * 146_097 + year * 365 + year / 4 - year / 100 + day_of_year - 719_468
}

fn date_of_day(day: i64) -> (i64, i64, i64) {
    let day = day + 719_468;
    let (era, day_of_era) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

// Three fields of fixed width with a separator between them.
fn fields(bytes: &[u8], widths: [usize; 3], separator: u8) -> Option<[i64; 3]> {
    let mut rest = bytes;
    let mut numbers = [0; 3];
    for (at, (number, width)) in numbers.iter_mut().zip(widths).enumerate() {
        if at > 0 {
            rest = rest.strip_prefix(&[separator])?;
        }
        let (field, behind) = rest.split_at_checked(width)?;
        *number = digits(field)?;
        rest = behind;
    }
    rest.is_empty().then_some(numbers)
}

// What is behind the seconds: nothing, or a dot and up to seven digits.
fn fraction(bytes: &[u8]) -> Option<i64> {
    let [b'.', fraction @ ..] = bytes else { return bytes.is_empty().then_some(0) };
    let missing = 7usize.checked_sub(fraction.len()).filter(|&missing| missing < 7)?;
    Some(digits(fraction)? * 10i64.pow(u32::try_from(missing).ok()?))
}

fn digits(bytes: &[u8]) -> Option<i64> {
    bytes.iter().try_fold(0, |number, byte| {
        byte.is_ascii_digit().then(|| number * 10 + i64::from(byte - b'0'))
    })
}
