//! Entity tags: 16 bytes that change with every write of a resource, and the rule of If-Match.

use crate::error::{Error, Result};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// A resource's version as clients see it, shown as a quoted GUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ETag(pub [u8; 16]);

impl fmt::Display for ETag {
    /// The quoted text of the `etag` header.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.quoted())
    }
}

impl ETag {
    /// Length of the text without its quotes.
    pub const TEXT_LENGTH: usize = 36;

    /// The quoted text of the `etag` header.
    pub fn quoted(&self) -> String {
        // Every answer has one, so it is written digit by digit: formatting costs forty times more.
        let mut text = [b'"'; Self::TEXT_LENGTH + 2];
        text[1..=Self::TEXT_LENGTH].copy_from_slice(&uuid_text(&self.0));
        std::str::from_utf8(&text).expect("digits, dashes and quotes").to_owned()
    }

    /// Appends the text without quotes.
    pub fn write_unquoted(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&uuid_text(&self.0));
    }

    /// True when the text of an `If-Match` or `If-None-Match` header names this version. Quotes
    /// are optional, because some clients strip them.
    pub fn matches(&self, header: &str) -> bool {
        let bare = header.trim().trim_matches('"');
        bare == "*"
            || (bare.len() == Self::TEXT_LENGTH && self.to_string().trim_matches('"') == bare)
    }
}

impl ETag {
    /// Refuses (412) what is asked of another version than this one: the `If-Match` rule.
    pub fn check(&self, if_match: Option<&str>) -> Result<()> {
        if if_match.is_some_and(|wanted| !self.matches(wanted)) {
            return Err(Error::precondition_failed());
        }
        Ok(())
    }
}

/// Sixteen bytes in the form 8-4-4-4-12, in small hexadecimal digits.
pub fn uuid_text(bytes: &[u8; 16]) -> [u8; ETag::TEXT_LENGTH] {
    const DIGITS: [[u8; 2]; 256] = {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let mut digits = [[0; 2]; 256];
        let mut byte = 0;
        while byte < 256 {
            digits[byte] = [HEX[byte >> 4], HEX[byte & 15]];
            byte += 1;
        }
        digits
    };
    const PLACES: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];
    let mut text = [b'-'; ETag::TEXT_LENGTH];
    for at in 0..PLACES.len() {
        [text[PLACES[at]], text[PLACES[at] + 1]] = DIGITS[usize::from(bytes[at])];
    }
    text
}

/// Makes etags and other unique numbers from a number that is this run's alone and a counter.
#[derive(Debug)]
pub struct IdSource {
    start: u64,
    counter: AtomicU64,
}

impl IdSource {
    /// A source whose ids differ from those of every source with another number: the millisecond of the start where one process has the
    /// data, the incarnation of the node where several may.
    pub fn started_at(number: u64) -> Self {
        Self { start: number, counter: AtomicU64::new(1) }
    }

    /// A fresh etag.
    pub fn next_etag(&self) -> ETag {
        let count = self.counter.fetch_add(1, Ordering::Relaxed);
        let mut bytes = [0; 16];
        // The counter comes first: it is what people compare when they look at two etags.
        bytes[..8].copy_from_slice(&count.to_be_bytes());
        bytes[8..].copy_from_slice(&self.start.to_be_bytes());
        bytes.rotate_left(4);
        ETag(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_in_five_groups() {
        let bytes = std::array::from_fn(|at| (at * 17) as u8);
        let text = String::from_utf8(uuid_text(&bytes).to_vec()).unwrap();
        assert_eq!(text, "00112233-4455-6677-8899-aabbccddeeff");
        let etag = ETag(bytes);
        assert_eq!(etag.quoted(), format!("\"{text}\""));
        let mut unquoted = b"x".to_vec();
        etag.write_unquoted(&mut unquoted);
        assert_eq!(unquoted, format!("x{text}").into_bytes());
    }

    #[test]
    fn an_etag_matches_its_own_text_and_the_star() {
        let source = IdSource::started_at(1_763_234_659_000);
        let (first, second) = (source.next_etag(), source.next_etag());
        assert!(first.matches(&first.to_string()));
        assert!(first.matches("*"));
        assert!(!first.matches(&second.to_string()));
        assert_eq!(first.to_string().len(), ETag::TEXT_LENGTH + 2);
    }
}
