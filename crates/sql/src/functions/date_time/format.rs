//! `DATETIMEFORMAT`: a date written by a pattern.

use super::calendar::DateTime;
use std::fmt::Write;

/// Most digits of a fraction: a tick is 10^-7 seconds.
const FRACTION_DIGITS_MAX: usize = 7;

/// Writes the date by its pattern. A run of one letter is one specifier; a run that is longer than any
/// specifier of its letter is the longest one:
///
/// ```text
/// y yy yyyy      year without its century, with two digits, with four (yyy is yy)
/// M MM  d dd     month, day
/// H HH  h hh     hour of 24, hour of 12
/// m mm  s ss     minute, second
/// tt             AM or PM (one t is a letter)
/// f .. fffffff   so many digits of the fraction
/// F .. FFFFFFF   the same, or nothing when all of them are 0
/// \              takes the next character as it is
/// ```
///
/// Everything else stands for itself. Nothing when the result is empty. A result is at most twice as
/// long as its pattern.
pub(super) fn format(date_time: &DateTime, pattern: &str) -> Option<String> {
    let mut result = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some(letter) = rest.chars().next() {
        let run = rest.bytes().take_while(|byte| char::from(*byte) == letter).count();
        if write_specifier(date_time, letter, run, &mut result) {
            rest = &rest[run..];
            continue;
        }
        rest = &rest[letter.len_utf8()..];
        if letter != '\\' {
            result.push(letter);
        } else if let Some(quoted) = rest.chars().next() {
            result.push(quoted);
            rest = &rest[quoted.len_utf8()..];
        }
    }
    (!result.is_empty()).then_some(result)
}

/// Writes a run of a letter; false when it is no specifier.
fn write_specifier(date_time: &DateTime, letter: char, run: usize, out: &mut String) -> bool {
    let (number, width) = match letter {
        'y' if run >= 4 => (date_time.year, 4),
        'y' => (date_time.year % 100, run.min(2)),
        'M' => (date_time.month, run.min(2)),
        'd' => (date_time.day, run.min(2)),
        'H' => (date_time.hour, run.min(2)),
        'h' => ((date_time.hour + 11) % 12 + 1, run.min(2)),
        'm' => (date_time.minute, run.min(2)),
        's' => (date_time.second, run.min(2)),
        't' if run >= 2 => {
            out.push_str(if date_time.hour < 12 { "AM" } else { "PM" });
            return true;
        }
        'f' | 'F' => {
            let digits = format!("{:07}", date_time.fraction);
            let digits = &digits[..run.min(FRACTION_DIGITS_MAX)];
            if letter == 'f' || digits.bytes().any(|digit| digit != b'0') {
                out.push_str(digits);
            }
            return true;
        }
        _ => return false,
    };
    // Writing to a string cannot fail.
    let _ = write!(out, "{number:0width$}");
    true
}
