//! Dates and times: ticks of 100 ns since 1970 in the proleptic Gregorian calendar, computed in UTC.
//!
//! The years 1601 to 9999 exist; a result outside them is undefined. Strings are read in the grammar of
//! [`parse`], with or without an offset, and written as `YYYY-MM-DDThh:mm:ss.fffffffZ`.

mod arithmetic;
mod calendar;
mod format;

pub use calendar::{DateTime, format_ticks, parse};

use super::{Context, Function, Kind, STRING_RESULT_MAX, defined, optional, text};
use arithmetic::DatePart;
use armilla_model::{Number, Value};
use calendar::{TICKS_MAX, TICKS_MIN, TICKS_PER_MILLISECOND};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::between("DATETIMEADD", 2, 3, |_, arguments| defined(add(arguments)))
        .gives(Kind::String, "A date plus so many parts, or plus a time span such as `'1d'`."),
    Function::between("DATETIMEBIN", 2, 4, |_, arguments| defined(bin(arguments))).gives(
        Kind::String,
        "Start of the bin of days to nanoseconds that holds a date, from an origin or 1970.",
    ),
    Function::exact("DATETIMEDIFF", 3, |_, arguments| defined(difference(arguments)))
        .gives(Kind::Number, "Boundaries of a part that lie between two dates."),
    Function::exact("DATETIMEFORMAT", 2, |_, arguments| {
        defined(
            ticks(&arguments[0])
                .zip(text(arguments, 1))
                .and_then(|(ticks, pattern)| formatted(ticks, pattern)),
        )
    })
    .gives(Kind::String, "A date written by a pattern such as `'yyyy-MM-dd HH:mm'`."),
    Function::between("DATETIMEFROMPARTS", 3, 7, |_, arguments| defined(from_parts(arguments)))
        .gives(
            Kind::String,
            "A date from year, month, day and perhaps hour, minute, second and ticks of 100 ns.",
        ),
    Function::exact("DATETIMEPART", 2, |_, arguments| {
        defined(part(arguments, 0).and_then(|part| part_of(part, &arguments[1])))
    })
    .gives(Kind::Number, "A part of a date: year to nanosecond, or weekday (0 is Sunday)."),
    Function::exact("DATETIMETOTICKS", 1, |_, arguments| defined(ticks(&arguments[0])))
        .gives(Kind::Number, "100 ns since 1970."),
    Function::exact("DATETIMETOTIMESTAMP", 1, |_, arguments| {
        defined(ticks(&arguments[0]).map(milliseconds))
    })
    .gives(Kind::Number, "Milliseconds since 1970, cut toward zero."),
    Function::between("TICKSTODATETIME", 1, 2, |_, arguments| {
        defined(arguments[0].as_i64().and_then(|ticks| written_by(ticks, arguments.get(1))))
    })
    .gives(Kind::String, "A date from 100 ns since 1970, by a pattern when one is given."),
    Function::between("TIMESTAMPTODATETIME", 1, 2, |_, arguments| {
        let ticks = arguments[0].as_i64().and_then(|n| n.checked_mul(TICKS_PER_MILLISECOND));
        defined(ticks.and_then(|ticks| written_by(ticks, arguments.get(1))))
    })
    .gives(Kind::String, "A date from milliseconds since 1970, by a pattern when one is given."),
    Function::exact("YEAR", 1, |_, arguments| defined(part_of(DatePart::Year, &arguments[0])))
        .gives(Kind::Number, "Year of a date."),
    Function::exact("MONTH", 1, |_, arguments| defined(part_of(DatePart::Month, &arguments[0])))
        .gives(Kind::Number, "Month of a date, from 1."),
    Function::exact("DAY", 1, |_, arguments| defined(part_of(DatePart::Day, &arguments[0])))
        .gives(Kind::Number, "Day of the month of a date."),
    Function::exact("GETCURRENTDATETIME", 0, |context, _| defined(written((context.now_ticks)())))
        .each_call()
        .gives(Kind::String, "The time now as a date."),
    Function::exact("GETCURRENTTICKS", 0, |context, _| (context.now_ticks)().into())
        .each_call()
        .gives(Kind::Number, "The time now in 100 ns since 1970."),
    Function::exact("GETCURRENTTIMESTAMP", 0, |context, _| {
        milliseconds((context.now_ticks)()).into()
    })
    .each_call()
    .gives(Kind::Number, "The time now in milliseconds since 1970."),
    Function::exact("GETCURRENTDATETIMESTATIC", 0, |context, _| {
        defined(written(context.now_static_ticks))
    })
    .each_query()
    .gives(Kind::String, "The time of the query as a date."),
    Function::exact("GETCURRENTTICKSSTATIC", 0, |context, _| context.now_static_ticks.into())
        .each_query()
        .gives(Kind::Number, "The time of the query in 100 ns since 1970."),
    Function::exact("GETCURRENTTIMESTAMPSTATIC", 0, |context, _| {
        milliseconds(context.now_static_ticks).into()
    })
    .each_query()
    .gives(Kind::Number, "The time of the query in milliseconds since 1970."),
    Function::between("NOW", 0, 2, |context, arguments| match arguments {
        [] => defined(written(context.now_static_ticks)),
        _ => defined(from_now(context, arguments, 1)),
    })
    .each_query()
    .gives(
        Kind::String,
        "The time of the query, perhaps plus so many parts or a time span such as `'1d'`.",
    ),
    Function::between("AGO", 1, 2, |context, arguments| defined(from_now(context, arguments, -1)))
        .each_query()
        .gives(
            Kind::String,
            "The time of the query minus so many parts or a time span such as `'1d'`.",
        ),
];

fn ticks(value: &Value) -> Option<i64> {
    parse(value.as_str()?)
}

fn written(ticks: i64) -> Option<String> {
    (TICKS_MIN..=TICKS_MAX).contains(&ticks).then(|| format_ticks(ticks))
}

fn written_by(ticks: i64, pattern: Option<&Value>) -> Option<String> {
    match pattern {
        None => written(ticks),
        Some(pattern) => {
            let ticks = (TICKS_MIN..=TICKS_MAX).contains(&ticks).then_some(ticks)?;
            formatted(ticks, pattern.as_str()?)
        }
    }
}

fn formatted(ticks: i64, pattern: &str) -> Option<String> {
    // A result may be twice as long as its pattern.
    let fits = pattern.len() <= STRING_RESULT_MAX / 2;
    fits.then(|| format::format(&DateTime::from_ticks(ticks), pattern))?
}

// Cut toward zero, as the service does.
fn milliseconds(ticks: i64) -> i64 {
    ticks / TICKS_PER_MILLISECOND
}

fn part(arguments: &[Value], at: usize) -> Option<DatePart> {
    DatePart::parse(text(arguments, at)?)
}

fn part_of(part: DatePart, value: &Value) -> Option<i64> {
    Some(part.of(&DateTime::from_ticks(ticks(value)?)))
}

fn add(arguments: &[Value]) -> Option<String> {
    let (date, span) = arguments.split_last()?;
    let (part, count) = span_of(span)?;
    written(part.add(ticks(date)?, count)?)
}

// A part and a number, or one string with both.
fn span_of(arguments: &[Value]) -> Option<(DatePart, i64)> {
    match arguments {
        [span] => time_span(span.as_str()?)?,
        [_, count] => Some((part(arguments, 0)?, count.as_i64()?)),
        _ => None,
    }
}

/// False for a text that cannot be a time span at all: one that does not begin with digits, perhaps
/// behind a minus, or that has nothing behind them. The service refuses a query with such a constant.
pub fn is_time_span(text: &str) -> bool {
    time_span(text).is_some()
}

// The outer nothing stands for what is no time span, the inner one for a span of parts that do not exist
// or of a number that is too large.
fn time_span(text: &str) -> Option<Option<(DatePart, i64)>> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let length = digits.bytes().take_while(u8::is_ascii_digit).count();
    let (number, part) = text.split_at(text.len() - digits.len() + length);
    if length == 0 || part.is_empty() {
        return None;
    }
    Some(DatePart::parse(part).zip(number.parse().ok()))
}

// One reading of the clock serves a whole query, so that a filter against NOW() means one instant.
fn from_now(context: &Context<'_>, arguments: &[Value], direction: i64) -> Option<String> {
    let (part, count) = span_of(arguments)?;
    written(part.add(context.now_static_ticks, count.checked_mul(direction)?)?)
}

fn bin(arguments: &[Value]) -> Option<String> {
    let (ticks_binned, part) = (ticks(&arguments[0])?, part(arguments, 1)?);
    let size = optional(arguments, 2, Number::Int(1), Value::as_number)?;
    let origin = optional(arguments, 3, 0, ticks)?;
    written(part.bin(ticks_binned, size, origin)?)
}

fn difference(arguments: &[Value]) -> Option<i64> {
    part(arguments, 0)?.boundaries_between(ticks(&arguments[1])?, ticks(&arguments[2])?)
}

fn from_parts(arguments: &[Value]) -> Option<String> {
    let mut parts = [0; 7];
    for (part, argument) in parts.iter_mut().zip(arguments) {
        *part = argument.as_i64()?;
    }
    let [year, month, day, hour, minute, second, fraction] = parts;
    let date_time = DateTime { year, month, day, hour, minute, second, fraction };
    date_time.to_ticks().map(format_ticks)
}

#[cfg(test)]
mod tests;
