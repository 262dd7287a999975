//! The values that headers may take.

use super::bad_header;
use armilla_model::{Error, Result};
use std::borrow::Cow;

/// `x-ms-consistency-level`, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Consistency {
    /// No order promised.
    Eventual,
    /// Never out of order.
    ConsistentPrefix,
    /// Own writes are seen.
    Session,
    /// At most so much behind.
    BoundedStaleness,
    /// Always the latest.
    Strong,
}

/// `a-im`: which change feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedMode {
    /// `Incremental Feed`: the latest state of each changed item.
    LatestVersion,
    /// `Full-Fidelity Feed`: every version and every delete.
    AllVersionsAndDeletes,
}

/// `x-armilla-explain`: in which form a query is explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExplainForm {
    /// `true` or `json`: a tree of steps, in the header of the same name.
    Json,
    /// `text`: a text tree, percent-encoded, in the same header.
    Text,
    /// As the body, beside the rows: what the route of its own answers.
    Body,
}

/// `x-ms-indexing-directive`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexingDirective {
    /// As the policy says.
    Default,
    /// Index this item.
    Include,
    /// Leave this item out of the index.
    Exclude,
}

/// `x-ms-documentdb-partitionkeyrangeid`: `3`, or `{container _rid},3` in older clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeId<'a> {
    /// The container the client thinks of.
    pub container_rid: Option<&'a str>,
    /// The range's id, decimal digits.
    pub id: &'a str,
}

impl Consistency {
    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Eventual => "Eventual",
            Self::ConsistentPrefix => "ConsistentPrefix",
            Self::Session => "Session",
            Self::BoundedStaleness => "BoundedStaleness",
            Self::Strong => "Strong",
        }
    }

    /// Reads a level in any case; nothing when the header is empty.
    pub(super) fn parse(name: &str, value: &[u8]) -> Result<Option<Self>> {
        const ALL: [Consistency; 5] = [
            Consistency::Session,
            Consistency::Eventual,
            Consistency::ConsistentPrefix,
            Consistency::BoundedStaleness,
            Consistency::Strong,
        ];
        if value.is_empty() {
            return Ok(None);
        }
        let found = ALL.into_iter().find(|level| is(value, level.name()));
        found.map(Some).ok_or_else(|| bad_header(name, "a consistency level is expected"))
    }
}

impl FeedMode {
    pub(super) fn parse(name: &str, value: &[u8]) -> Result<Self> {
        if is(value, "Incremental Feed") {
            Ok(Self::LatestVersion)
        } else if is(value, "Full-Fidelity Feed") {
            Ok(Self::AllVersionsAndDeletes)
        } else {
            Err(bad_header(name, "'Incremental Feed' or 'Full-Fidelity Feed' is expected"))
        }
    }
}

impl IndexingDirective {
    pub(super) fn parse(name: &str, value: &[u8]) -> Result<Option<Self>> {
        match value {
            [] => Ok(None),
            value if is(value, "Default") => Ok(Some(Self::Default)),
            value if is(value, "Include") => Ok(Some(Self::Include)),
            value if is(value, "Exclude") => Ok(Some(Self::Exclude)),
            _ => Err(bad_header(name, "'Default', 'Include' or 'Exclude' is expected")),
        }
    }
}

impl<'a> RangeId<'a> {
    /// Reads either form.
    pub fn parse(name: &str, value: &'a [u8]) -> Result<Self> {
        let text = text(name, value)?.trim();
        let (container_rid, id) = match text.split_once(',') {
            Some((rid, id)) => (Some(rid.trim()), id.trim()),
            None => (None, text),
        };
        if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(bad_header(name, "the id of a partition key range is expected"));
        }
        Ok(Self { container_rid, id })
    }
}

/// The value as UTF-8 text.
pub(super) fn text<'a>(name: &str, value: &'a [u8]) -> Result<&'a str> {
    std::str::from_utf8(value).map_err(|_| bad_header(name, "UTF-8 text is expected"))
}

/// `true` or `false` in any case; empty is false.
pub(super) fn flag(name: &str, value: &[u8]) -> Result<bool> {
    if is(value, "true") {
        Ok(true)
    } else if is(value, "false") || value.is_empty() {
        Ok(false)
    } else {
        Err(bad_header(name, "'true' or 'false' is expected"))
    }
}

/// The form of an explanation, if one is wanted.
pub(super) fn explain_form(name: &str, value: &[u8]) -> Result<Option<ExplainForm>> {
    if is(value, "text") {
        return Ok(Some(ExplainForm::Text));
    }
    let is_wanted = is(value, "json") || flag(name, value)?;
    Ok(is_wanted.then_some(ExplainForm::Json))
}

/// A number from zero on.
pub(super) fn integer(name: &str, value: &[u8]) -> Result<u32> {
    let parsed = text(name, value)?.trim().parse();
    parsed.map_err(|_| bad_header(name, "a whole number is expected"))
}

/// A page size; `-1` and `0` leave the choice to the server.
pub(super) fn page_size(name: &str, value: &[u8]) -> Result<Option<u32>> {
    match text(name, value)?.trim() {
        "" | "-1" | "0" => Ok(None),
        _ => integer(name, value).map(Some),
    }
}

/// The most kilobytes that a continuation token may have, in the words that clients know.
pub(super) fn token_limit(value: &[u8]) -> Result<u32> {
    match std::str::from_utf8(value).map(|text| text.trim().parse::<i64>()) {
        Ok(Ok(0)) => Err(token_over_limit()),
        Ok(Ok(limit)) if limit > 0 => Ok(u32::try_from(limit).unwrap_or(u32::MAX)),
        _ => Err(Error::bad_request(
            "Please pass in a valid continuation token size limit which must be a positive integer.",
        )),
    }
}

/// The refusal of a page whose continuation token is longer than the client takes.
pub(crate) fn token_over_limit() -> Error {
    Error::bad_request(
        "The continuation token limit specified is not large enough. Please increase the size limit.",
    )
}

/// Names of serialization formats: one, or several with commas between. Whether binary JSON is the only one.
pub(super) fn formats(name: &str, value: &[u8], several: bool) -> Result<bool> {
    const KNOWN: [&str; 3] = ["JsonText", "CosmosBinary", "HybridRow"];
    let known = |word: &str| KNOWN.iter().any(|known| known.eq_ignore_ascii_case(word.trim()));
    let text = text(name, value)?;
    let fits = if several { text.split(',').all(known) } else { known(text) };
    if fits || text.is_empty() {
        return Ok(text.trim().eq_ignore_ascii_case("CosmosBinary"));
    }
    Err(bad_header(name, "one of JsonText, CosmosBinary, HybridRow is expected"))
}

/// A version of the protocol. Those of its first years are known one by one; a newer one is served as the
/// newest that this server knows.
pub(super) fn version<'a>(name: &str, value: &'a [u8]) -> Result<&'a str> {
    const OLD: [&str; 12] = [
        "2014-08-21",
        "2015-04-08",
        "2015-06-03",
        "2015-08-06",
        "2015-12-16",
        "2016-05-30",
        "2016-07-11",
        "2016-11-14",
        "2017-01-19",
        "2017-02-22",
        "2017-05-03",
        "2017-11-15",
    ];
    let text = text(name, value)?;
    let digits = |part: Option<&str>, count: usize| {
        part.is_some_and(|part| {
            part.len() == count && part.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    let mut parts = text.split('-');
    let is_date = digits(parts.next(), 4) && digits(parts.next(), 2) && digits(parts.next(), 2);
    let is_date = is_date && parts.next().is_none();
    if text.is_empty() || is_date && (text > "2018" || OLD.contains(&text)) {
        return Ok(text);
    }
    Err(bad_header(name, "a version of the protocol is expected, such as 2018-12-31"))
}

/// Pairs of hexadecimal digits as bytes.
pub(super) fn hex_bytes(name: &str, value: &[u8]) -> Result<Vec<u8>> {
    let digit = crate::routes::hex_digit;
    let (pairs, rest) = value.as_chunks::<2>();
    let bytes = pairs.iter().map(|&[high, low]| Some(digit(high)? << 4 | digit(low)?)).collect();
    match bytes {
        Some(bytes) if rest.is_empty() => Ok(bytes),
        _ => Err(bad_header(name, "an even number of hexadecimal digits is expected")),
    }
}

/// A moment in seconds since 1970: RFC 1123, also with the `UTC` that Go writes, or the ISO form that
/// .NET may send.
pub(super) fn moment(name: &str, text: &str) -> Result<u64> {
    let http = match text.trim().strip_suffix(" UTC") {
        Some(date) => crate::auth::parse_http_date(&format!("{date} GMT")),
        None => crate::auth::parse_http_date(text),
    };
    let seconds = http.or_else(|| iso_seconds(text));
    seconds.ok_or_else(|| bad_header(name, "a date as in 'Sun, 15 Nov 2026 19:24:19 GMT'"))
}

/// `2026-11-15T19:24:19[.fraction][Z|+00:00]`, read as UTC.
fn iso_seconds(text: &str) -> Option<u64> {
    let (date, rest) = text.trim().split_once('T')?;
    let time = rest.trim_end_matches('Z').trim_end_matches("+00:00");
    let time = time.split('.').next()?;
    let mut date = date.split('-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let mut time = time.split(':').map(|part| part.parse::<u64>().ok());
    let (hour, minute, second) = (time.next()??, time.next()??, time.next()??);
    let in_range = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    let days = if in_range { days_from_civil(year, month, day) } else { return None };
    Some(u64::try_from(days).ok()? * 86_400 + hour * 3_600 + minute * 60 + second)
}

/// Days since 1970 of a date in the Gregorian calendar; years begin in March so that the leap day
/// comes last.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Whether `prefer` asks for answers without bodies.
pub(super) fn prefers_minimal(value: &[u8]) -> bool {
    let preferences = value.split(|&byte| byte == b',');
    preferences.into_iter().any(|one| one.trim_ascii().eq_ignore_ascii_case(b"return=minimal"))
}

/// Whether the content type is that of a query, parameters aside.
pub(super) fn is_query_type(value: &[u8]) -> bool {
    const QUERY: &[u8] = b"application/query+json";
    let start = value.get(..QUERY.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(QUERY))
}

fn is(value: &[u8], word: &str) -> bool {
    value.trim_ascii().eq_ignore_ascii_case(word.as_bytes())
}

/// Text for a header: bytes beyond printable ASCII are percent-encoded.
pub fn encode_non_ascii(text: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| (0x20..0x7F).contains(&byte);
    // Nearly all texts are plain: looking at every byte goes in strides, stopping at the first does not.
    if text.bytes().fold(true, |all, byte| all & is_plain(byte)) {
        return Cow::Borrowed(text);
    }
    let mut encoded = String::with_capacity(text.len() + 16);
    for byte in text.bytes() {
        if is_plain(byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            for digit in [byte >> 4, byte & 0xF] {
                encoded.push(char::from(b"0123456789ABCDEF"[usize::from(digit)]));
            }
        }
    }
    Cow::Owned(encoded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::Segments;
    use proptest::prelude::*;

    #[test]
    fn iso_dates_count_like_the_calendar() {
        assert_eq!(iso_seconds("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(iso_seconds("2024-02-29T12:00:00.1234567Z"), Some(1_709_208_000));
        assert_eq!(iso_seconds("2026-11-15T19:24:19"), Some(1_794_770_659));
        assert_eq!(iso_seconds("2026-13-15T19:24:19"), None);
        assert_eq!(iso_seconds("T"), None);
    }

    #[test]
    fn names_beyond_ascii_fit_a_header() {
        assert_eq!(encode_non_ascii("dbs/a b"), "dbs/a b");
        assert_eq!(encode_non_ascii("dbs/ü"), "dbs/%C3%BC");
    }

    proptest! {
        #[test]
        fn encoded_text_decodes_again(text in "[^%]{0,20}") {
            let path = encode_non_ascii(&text).replace('/', "");
            let decoded = Segments::parse(&path).unwrap();
            prop_assert_eq!(decoded.texts()[0], text.replace('/', ""));
        }

        #[test]
        fn any_moment_is_answered(text in "\\PC{0,30}") {
            let _ = moment("if-modified-since", &text);
        }
    }
}
