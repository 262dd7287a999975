//! Session tokens: which position of which range a client has seen.
//!
//! Written `{range}:-1#{lsn}`, several joined by commas. The longer form with region positions that
//! other servers use is read too; only its global position counts here.

use crate::error::{Error, Result};
use crate::lsn::Lsn;
use crate::tally::{self, Work};
use std::fmt;

/// Position of one range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionToken {
    /// Id of the partition key range.
    pub range: u32,
    /// The position a client has seen there.
    pub lsn: Lsn,
}

impl SessionToken {
    /// Reads a header's list, or refuses it in the service's words. Unknown range ids are kept; it is the
    /// reader who ignores them.
    pub fn parse_list(text: &str) -> Result<Vec<Self>> {
        tally::count(Work::SessionList);
        text.split(',').filter(|part| !part.trim().is_empty()).map(Self::parse).collect()
    }

    fn parse(text: &str) -> Result<Self> {
        let malformed =
            || Error::bad_request(format!("The session token provided '{text}' is invalid."));
        let (range, position) = text.trim().split_once(':').ok_or_else(malformed)?;
        // `-1#13`, `2#13#1=12` and the oldest form, a bare number.
        let mut parts = position.split('#');
        let first = parts.next().ok_or_else(malformed)?;
        let lsn = parts.next().unwrap_or(first);
        let lsn = lsn.parse::<i64>().map_err(|_| malformed())?;
        let lsn = Lsn(u64::try_from(lsn).unwrap_or(0));
        Ok(Self { range: range.parse().map_err(|_| malformed())?, lsn })
    }
}

impl fmt::Display for SessionToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:-1#{}", self.range, self.lsn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_forms_are_read_and_one_is_written() {
        let tokens = SessionToken::parse_list("0:-1#13,1:2#7#1=6,2:5").unwrap();
        let positions: Vec<_> = tokens.iter().map(|token| (token.range, token.lsn.0)).collect();
        assert_eq!(positions, [(0, 13), (1, 7), (2, 5)]);
        assert_eq!(tokens[0].to_string(), "0:-1#13");
        assert!(SessionToken::parse_list("0:-1#13,1:2#7#1=6,").is_ok());
        let refusal = SessionToken::parse_list("0:-1#13,invalidtoken").unwrap_err();
        assert_eq!(refusal.message(), "The session token provided 'invalidtoken' is invalid.");
    }
}
