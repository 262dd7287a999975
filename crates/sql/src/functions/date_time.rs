//! Dates and times: ticks of 100 ns since 1970 in the proleptic Gregorian calendar, always UTC.
//!
//! The years 1 to 9999 exist; a result outside them is undefined. Strings are read in the grammar of
//! [`parse`] and written as `YYYY-MM-DDThh:mm:ss.fffffffZ`.

mod arithmetic;
mod calendar;
mod format;

pub use calendar::{DateTime, format_ticks, parse};

use super::{Context, Function, Kind, defined, optional, text};
use arithmetic::Part;
use armilla_model::Value;
use calendar::{TICKS_MAX, TICKS_MIN, TICKS_PER_MILLISECOND};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::exact("DATETIMEADD", 3, |_, arguments| defined(add(arguments)))
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
                .map(|(ticks, format)| format::format(&DateTime::from_ticks(ticks), format)),
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
    Function::exact("TICKSTODATETIME", 1, |_, arguments| {
        defined(arguments[0].as_i64().and_then(written))
    })
    .gives(Kind::String, "A date from 100 ns since 1970, by a pattern when one is given."),
    Function::exact("TIMESTAMPTODATETIME", 1, |_, arguments| {
        let ticks = arguments[0].as_i64().and_then(|n| n.checked_mul(TICKS_PER_MILLISECOND));
        defined(ticks.and_then(written))
    })
    .gives(Kind::String, "A date from milliseconds since 1970, by a pattern when one is given."),
    Function::exact("YEAR", 1, |_, arguments| defined(part_of(Part::Year, &arguments[0])))
        .gives(Kind::Number, "Year of a date."),
    Function::exact("MONTH", 1, |_, arguments| defined(part_of(Part::Month, &arguments[0])))
        .gives(Kind::Number, "Month of a date, from 1."),
    Function::exact("DAY", 1, |_, arguments| defined(part_of(Part::Day, &arguments[0])))
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
        _ => defined(from_now(context, arguments, i64::checked_add)),
    })
    .each_query()
    .gives(
        Kind::String,
        "The time of the query, perhaps plus so many parts or a time span such as `'1d'`.",
    ),
    Function::exact("AGO", 2, |context, arguments| {
        defined(from_now(context, arguments, i64::checked_sub))
    })
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

fn milliseconds(ticks: i64) -> i64 {
    ticks.div_euclid(TICKS_PER_MILLISECOND)
}

fn part(arguments: &[Value], at: usize) -> Option<Part> {
    Part::parse(text(arguments, at)?)
}

fn part_of(part: Part, value: &Value) -> Option<i64> {
    Some(part.of(&DateTime::from_ticks(ticks(value)?)))
}

fn add(arguments: &[Value]) -> Option<String> {
    let part = part(arguments, 0)?;
    written(part.add(ticks(&arguments[2])?, arguments[1].as_i64()?)?)
}

// One reading of the clock serves a whole query, so that a filter against NOW() means one instant.
fn from_now(
    context: &Context<'_>,
    arguments: &[Value],
    direction: fn(i64, i64) -> Option<i64>,
) -> Option<String> {
    let amount = direction(0, arguments.get(1)?.as_i64()?)?;
    written(part(arguments, 0)?.add(context.now_static_ticks, amount)?)
}

fn bin(arguments: &[Value]) -> Option<String> {
    let (ticks_binned, part) = (ticks(&arguments[0])?, part(arguments, 1)?);
    let size = optional(arguments, 2, 1, Value::as_i64)?;
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
