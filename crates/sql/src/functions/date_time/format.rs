//! `DATETIMEFORMAT`: a date written by a pattern.

use super::calendar::DateTime;

/// Most digits of a fraction: a tick is 10^-7 seconds.
const FRACTION_DIGITS_MAX: usize = 7;

/// Writes the date by its pattern: `yyyy MM dd HH mm ss`, a run of `f` for digits of the fraction,
/// a run of `F` for the same without trailing zeros, `\` before a character to be taken as it is.
/// Everything else stands for itself. The result is never longer than the pattern.
pub(super) fn format(date_time: &DateTime, pattern: &str) -> String {
    let mut result = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some(char) = rest.chars().next() {
        let (text, used) = specifier(date_time, rest).unwrap_or_else(|| literal(char, rest));
        result.push_str(&text);
        rest = &rest[used..];
    }
    result
}

// The text for the specifier at the front, and how many bytes of the pattern it takes.
fn specifier(date_time: &DateTime, rest: &str) -> Option<(String, usize)> {
    let numbers = [
        ("yyyy", date_time.year),
        ("MM", date_time.month),
        ("dd", date_time.day),
        ("HH", date_time.hour),
        ("mm", date_time.minute),
        ("ss", date_time.second),
    ];
    if let Some((name, number)) = numbers.iter().find(|(name, _)| rest.starts_with(name)) {
        return Some((format!("{number:0width$}", width = name.len()), name.len()));
    }
    let letter = rest.bytes().next().filter(|letter| b"fF".contains(letter))?;
    let run = rest.bytes().take(FRACTION_DIGITS_MAX).take_while(|byte| *byte == letter).count();
    let digits = format!("{:07}", date_time.fraction);
    let digits = &digits[..run];
    let digits = if letter == b'F' { digits.trim_end_matches('0') } else { digits };
    Some((digits.to_owned(), run))
}

fn literal(char: char, rest: &str) -> (String, usize) {
    let quoted = rest.strip_prefix('\\').and_then(|quoted| quoted.chars().next());
    match quoted {
        Some(quoted) => (quoted.to_string(), 1 + quoted.len_utf8()),
        None => (char.to_string(), char.len_utf8()),
    }
}
