//! The values of an entity's fields: a pure function of the seed, the entity and the field, so that
//! the same value can be had again from anywhere without keeping any.

use serde::Deserialize;
use serde_json::Value;

/// How a field is made.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum Field {
    /// A 36-character identifier.
    Guid,
    /// This many bytes of words.
    Text(usize),
    /// A name of this many letters and digits.
    Name(usize),
    /// A moment between two days, both counted from 1970.
    Date(i64, i64),
    /// A whole number between both.
    Number(i64, i64),
    /// Amount with two decimals between both.
    Amount(i64, i64),
    /// One of these words.
    OneOf(Vec<String>),
}

impl TryFrom<String> for Field {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let unknown = || {
            format!(
                "'{text}' makes no field; there are: guid, text N, name N, date FROM TO, number A B, amount A B, one of A B C"
            )
        };
        let number = |text: &str| text.parse::<i64>().map_err(|_| unknown());
        let length = |text: &str| text.parse::<usize>().map_err(|_| unknown());
        Ok(match words.as_slice() {
            ["guid"] => Self::Guid,
            ["text", count] => Self::Text(length(count)?),
            ["name", count] => Self::Name(length(count)?),
            ["date", from, to] => {
                let (from, to) = (day(from).ok_or_else(unknown)?, day(to).ok_or_else(unknown)?);
                if from > to {
                    return Err(unknown());
                }
                Self::Date(from, to)
            }
            ["number", from, to] if number(from)? <= number(to)? => {
                Self::Number(number(from)?, number(to)?)
            }
            ["amount", from, to] if number(from)? <= number(to)? => {
                Self::Amount(number(from)?, number(to)?)
            }
            ["one", "of", first, rest @ ..] => {
                let all = std::iter::once(first).chain(rest);
                Self::OneOf(all.map(|word| (*word).to_owned()).collect())
            }
            _ => return Err(unknown()),
        })
    }
}

impl Field {
    /// The value for a seed.
    pub(crate) fn value(&self, seed: u64) -> Value {
        match self {
            Self::Guid => Value::from(guid(seed)),
            Self::Text(length) => Value::from(text(seed, *length)),
            Self::Name(length) => Value::from(name(seed, *length)),
            Self::Date(from, to) => Value::from(date(seed, *from, *to)),
            Self::Number(from, to) => Value::from(between(seed, *from, *to)),
            Self::Amount(from, to) => Value::from(
                between(seed, from.saturating_mul(100), to.saturating_mul(100)) as f64 / 100.0,
            ),
            Self::OneOf(words) => {
                Value::from(words[pick(seed, words.len() as u64) as usize].as_str())
            }
        }
    }
}

/// A number from a number, with all bits mixed (the finaliser of SplitMix64).
pub(crate) fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// A number from three.
pub(crate) fn mix3(first: u64, second: u64, third: u64) -> u64 {
    mix(mix(mix(first) ^ second) ^ third)
}

/// A number below a bound.
pub(crate) fn pick(seed: u64, bound: u64) -> u64 {
    ((u128::from(mix(seed)) * u128::from(bound.max(1))) >> 64) as u64
}

/// An identifier of the usual form.
pub(crate) fn guid(seed: u64) -> String {
    let (high, low) = (mix(seed), mix(seed ^ 0x5555));
    let (version, variant) = ((high & 0xFFF) | 0x4000, ((low >> 48) & 0x3FFF) | 0x8000);
    format!(
        "{:08x}-{:04x}-{version:04x}-{variant:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xFFFF,
        low & 0xFFFF_FFFF_FFFF
    )
}

const WORDS: [&str; 64] = [
    "amber", "apple", "arrow", "autumn", "bell", "birch", "boat", "bread", "brook", "candle",
    "canvas", "cedar", "circle", "clay", "cloud", "copper", "coral", "dawn", "delta", "dune",
    "ember", "fern", "field", "flame", "garden", "glass", "grain", "harbour", "hazel", "hill",
    "honey", "island", "ivory", "jasper", "kite", "lake", "lantern", "leaf", "linen", "maple",
    "meadow", "mirror", "moss", "north", "oak", "olive", "orbit", "paper", "pearl", "pine",
    "quartz", "rain", "reed", "river", "sand", "shore", "silver", "slate", "spring", "stone",
    "thread", "tide", "valley", "willow",
];

fn text(seed: u64, length: usize) -> String {
    let mut out = String::with_capacity(length + 8);
    let mut state = seed;
    while out.len() < length {
        state = mix(state);
        let mut bits = state;
        for _ in 0..10 {
            out.push_str(WORDS[(bits & 63) as usize]);
            out.push(' ');
            bits >>= 6;
        }
    }
    out.truncate(length);
    out
}

fn name(seed: u64, length: usize) -> String {
    let mut out = String::from(WORDS[(mix(seed) & 63) as usize]);
    out.truncate(length);
    let mut state = seed;
    while out.len() < length {
        state = mix(state);
        out.push(char::from(b'0' + (state % 10) as u8));
    }
    out
}

fn between(seed: u64, from: i64, to: i64) -> i64 {
    from.saturating_add(pick(seed, to.abs_diff(from).saturating_add(1)) as i64)
}

const DAY_TICKS: u64 = 86_400 * 10_000_000;

/// A moment with seven decimals, as .NET writes it: 28 characters.
fn date(seed: u64, from: i64, to: i64) -> String {
    let days = to.abs_diff(from) + 1;
    let tick = pick(seed, days * DAY_TICKS);
    moment(from + (tick / DAY_TICKS) as i64, tick % DAY_TICKS)
}

/// The text of a day since 1970 and a part of it.
pub(crate) fn moment(day: i64, ticks: u64) -> String {
    let (year, month, day) = civil(day);
    let (seconds, decimals) = (ticks / 10_000_000, ticks % 10_000_000);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{decimals:07}Z",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// Year, month and day of a day since 1970 (the usual arithmetic over 400-year eras from March).
fn civil(day: i64) -> (i64, i64, i64) {
    let shifted = day + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, of_year - (153 * from_march + 2) / 5 + 1)
}

/// The day since 1970 of a text like `2019-05-23`.
fn day(text: &str) -> Option<i64> {
    let mut parts = text.splitn(3, '-').map(str::parse::<i64>);
    let (year, month, day) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
    if !(1..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let from_march = (month + 9) % 12;
    let of_year = (153 * from_march + 2) / 5 + day - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_their_lengths_and_repeat() {
        for seed in 0..200 {
            let made = |field: &str| Field::try_from(field.to_owned()).unwrap().value(seed);
            assert_eq!(made("guid").as_str().unwrap().len(), 36);
            assert_eq!(made("text 1200").as_str().unwrap().len(), 1200);
            assert_eq!(made("name 12").as_str().unwrap().len(), 12);
            let date = made("date 2019-01-01 2020-12-31");
            let date = date.as_str().unwrap();
            assert_eq!(date.len(), 28);
            assert!(("2019-01-01".."2021-01-01").contains(&date), "{date}");
            assert!((3..=5).contains(&made("number 3 5").as_i64().unwrap()));
            assert_eq!(made("guid"), made("guid"));
        }
    }

    #[test]
    fn days_count_both_ways() {
        for (text, number) in [("1970-01-01", 0), ("2000-02-29", 11_016), ("2019-05-23", 18_039)] {
            assert_eq!(day(text), Some(number));
            assert!(moment(number, 0).starts_with(text));
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in
            ["", "guid 3", "text", "text x", "date 2020-01-01 2019-01-01", "number 5 3", "one of"]
        {
            assert!(Field::try_from(text.to_owned()).is_err(), "{text}");
        }
    }
}
