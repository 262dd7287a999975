//! Numbers, ids, words and dates that a seed decides.

/// A stream of random numbers (splitmix64).
#[derive(Clone, Copy)]
pub(crate) struct Chance(u64);

const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

fn scramble(number: u64) -> u64 {
    let mut mixed = number;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

impl Chance {
    /// A stream of its own for every seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        scramble(self.0)
    }

    /// The next number below a bound.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }
}

/// One number for a purpose and two coordinates: the same whenever it is asked for.
pub(crate) fn draw(seed: u64, purpose: u64, one: u64, other: u64) -> u64 {
    let mut mixed = scramble(seed.wrapping_add(purpose.wrapping_mul(STEP)));
    mixed = scramble(mixed ^ one.wrapping_add(STEP));
    scramble(mixed ^ other.wrapping_add(STEP))
}

/// An id of 36 characters in the shape of a UUID of version 4.
pub(crate) fn uuid(drawn: u64) -> String {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let (high, low) = (drawn, scramble(drawn ^ 0x5555));
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&high.to_be_bytes());
    bytes[8..].copy_from_slice(&low.to_be_bytes());
    bytes[6] = 0x40 | (bytes[6] & 0x0f);
    bytes[8] = 0x80 | (bytes[8] & 0x3f);
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push(char::from(HEX[usize::from(byte >> 4)]));
        text.push(char::from(HEX[usize::from(byte & 15)]));
    }
    text
}

/// Words that texts are made of.
pub(crate) const WORDS: [&str; 64] = [
    "the",
    "a",
    "of",
    "and",
    "to",
    "in",
    "that",
    "with",
    "for",
    "on",
    "data",
    "model",
    "query",
    "item",
    "partition",
    "container",
    "post",
    "user",
    "comment",
    "like",
    "request",
    "unit",
    "latency",
    "index",
    "path",
    "value",
    "key",
    "feed",
    "change",
    "design",
    "embed",
    "reference",
    "write",
    "read",
    "scale",
    "store",
    "cost",
    "page",
    "list",
    "front",
    "recent",
    "author",
    "count",
    "document",
    "schema",
    "array",
    "object",
    "string",
    "number",
    "time",
    "garden",
    "river",
    "mountain",
    "coffee",
    "morning",
    "evening",
    "travel",
    "kitchen",
    "winter",
    "summer",
    "music",
    "camera",
    "letter",
    "window",
];

/// A word.
pub(crate) fn word(chance: &mut Chance) -> &'static str {
    WORDS[usize::try_from(chance.below(64)).unwrap_or(0)]
}

/// A text of exactly so many characters.
pub(crate) fn text(chance: &mut Chance, length: usize) -> String {
    let mut text = String::with_capacity(length + 16);
    while text.len() < length {
        text.push_str(word(chance));
        text.push(' ');
    }
    text.truncate(length);
    text
}

/// Milliseconds since 1970 in the form 2020-05-06T07:08:09.123Z.
pub(crate) fn date(milliseconds: u64) -> String {
    const DAY: u64 = 86_400_000;
    let (year, month, day) = civil(milliseconds / DAY);
    let rest = milliseconds % DAY;
    let (hour, minute) = (rest / 3_600_000, rest / 60_000 % 60);
    let (second, fraction) = (rest / 1000 % 60, rest % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:03}Z")
}

/// Year, month and day of a day counted from 1970.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(date(1_582_934_400_123), "2020-02-29T00:00:00.123Z");
        assert_eq!(date(1_546_300_799_999), "2018-12-31T23:59:59.999Z");
    }

    #[test]
    fn ids_and_texts_have_their_length() {
        assert_eq!(uuid(7).len(), 36);
        assert_ne!(uuid(7), uuid(8));
        assert_eq!(text(&mut Chance::new(1), 77).len(), 77);
        assert_eq!(draw(1, 2, 3, 4), draw(1, 2, 3, 4));
        assert_ne!(draw(1, 2, 3, 4), draw(1, 2, 4, 3));
    }
}
