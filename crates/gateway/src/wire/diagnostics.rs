//! Diagnostics in headers: which indexes a query used, and what a script logged.
//!
//! Both grow with what a client sent, and clients refuse answers with long headers: Python's standard library above
//! 64 KB in a line, Node above 16 KB in all. So each ends at [`DIAGNOSTIC_HEADER_MAX`], and says so.

use crate::limits::DIAGNOSTIC_HEADER_MAX;
use armilla_engine::query::IndexUsage;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The older form of index metrics: base64, with a judgement per index.
pub(crate) fn index_metrics_v1(usage: &IndexUsage) -> String {
    let single = |spec: &String| {
        format!(
            "{{\"FilterExpression\":\"\",\"IndexSpec\":{},\"FilterPreciseSet\":true,\
             \"IndexPreciseSet\":true,\"IndexImpactScore\":\"High\"}}",
            quoted(spec)
        )
    };
    let composite = |specs: &Vec<String>| {
        format!(
            "{{\"IndexSpecs\":[{}],\"IndexPreciseSet\":false,\"IndexImpactScore\":\"High\"}}",
            joined(specs, |spec| quoted(spec))
        )
    };
    bounded(usage, |most, end| {
        STANDARD.encode(format!(
            "{{\"UtilizedSingleIndexes\":[{}],\"PotentialSingleIndexes\":[{}],\
             \"UtilizedCompositeIndexes\":[{}],\"PotentialCompositeIndexes\":[{}]{end}}}",
            joined(first(&usage.utilized, most), single),
            joined(first(&usage.potential, most), single),
            joined(first(&usage.utilized_composites, most), composite),
            joined(first(&usage.potential_composites, most), composite),
        ))
    })
}

/// The newer form: percent-encoded, paths only.
pub(crate) fn index_metrics_v2(usage: &IndexUsage) -> String {
    let single = |spec: &String| format!("{{\"IndexSpec\":{}}}", quoted(spec));
    let composite = |specs: &Vec<String>| {
        let specs = joined(specs, |spec| quoted(spec));
        format!("{{\"IndexSpecs\":[{specs}],\"IndexImpactScore\":\"High\"}}")
    };
    bounded(usage, |most, end| {
        percent_encode(&format!(
            "{{\"UtilizedIndexes\":{{\"SingleIndexes\":[{}],\"CompositeIndexes\":[{}]}},\
             \"PotentialIndexes\":{{\"SingleIndexes\":[{}],\"CompositeIndexes\":[{}]}}{end}}}",
            joined(first(&usage.utilized, most), single),
            joined(first(&usage.utilized_composites, most), composite),
            joined(first(&usage.potential, most), single),
            joined(first(&usage.potential_composites, most), composite),
        ))
    })
}

/// The text with as many entries of each list as fit; one that is cut has the member `Truncated`.
fn bounded(usage: &IndexUsage, text: impl Fn(usize, &str) -> String) -> String {
    let singles = usage.utilized.len().max(usage.potential.len());
    let composites = usage.utilized_composites.len().max(usage.potential_composites.len());
    let mut most = singles.max(composites);
    let whole = text(most, "");
    if whole.len() <= DIAGNOSTIC_HEADER_MAX {
        return whole;
    }
    loop {
        most /= 2;
        let cut = text(most, ",\"Truncated\":true");
        if most == 0 || cut.len() <= DIAGNOSTIC_HEADER_MAX {
            return cut;
        }
    }
}

fn first<T>(items: &[T], most: usize) -> &[T] {
    items.get(..most).unwrap_or(items)
}

/// A percent-encoded list; no rule that is found takes parameters.
pub(crate) fn query_advice(rules: &[&str]) -> String {
    let entry = |rule: &&str| format!("{{\"Id\":\"{rule}\",\"Params\":[]}}");
    percent_encode(&format!("[{}]", joined(rules, entry)))
}

/// What a script logged, percent-encoded as `encodeURIComponent` does it. A log that is too long ends with a line that
/// tells its length.
pub(crate) fn script_log(log: &str) -> String {
    let whole = encoded(log, LOG_PLAIN);
    if whole.len() <= DIAGNOSTIC_HEADER_MAX {
        return whole;
    }
    let end = encoded(&format!("\n[cut here: the log has {} bytes]", log.len()), LOG_PLAIN);
    let (mut size, mut at) = (end.len(), 0);
    for letter in log.chars() {
        size += encoded(letter.encode_utf8(&mut [0; 4]), LOG_PLAIN).len();
        if size > DIAGNOSTIC_HEADER_MAX {
            break;
        }
        at += letter.len_utf8();
    }
    encoded(&log[..at], LOG_PLAIN) + &end
}

/// What stays as it is in a log.
const LOG_PLAIN: &[u8] = b"-_.~!*'()";

/// Percent-encodes everything but letters, digits and `-_.~`.
pub(crate) fn percent_encode(text: &str) -> String {
    encoded(text, b"-_.~")
}

fn encoded(text: &str, plain: &[u8]) -> String {
    let mut encoded = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || plain.contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            for digit in [byte >> 4, byte & 0xF] {
                encoded.push(char::from(b"0123456789ABCDEF"[usize::from(digit)]));
            }
        }
    }
    encoded
}

fn joined<T>(items: &[T], text: impl Fn(&T) -> String) -> String {
    items.iter().map(text).collect::<Vec<_>>().join(",")
}

/// A text as JSON.
pub(crate) fn quoted(text: &str) -> String {
    armilla_model::Value::from(text).to_json()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(paths: usize, length: usize) -> IndexUsage {
        let path = |number: usize| format!("/{number}{}/?", "x".repeat(length));
        let paths: Vec<String> = (0..paths).map(path).collect();
        IndexUsage {
            utilized: paths.clone(),
            potential: paths.clone(),
            utilized_composites: Vec::new(),
            potential_composites: vec![paths],
        }
    }

    fn members(text: &[u8]) -> armilla_model::Value {
        armilla_model::json::parse(text).unwrap()
    }

    fn decoded(text: &str) -> String {
        let mut bytes = Vec::new();
        let mut rest = text.bytes();
        while let Some(byte) = rest.next() {
            let mut digit = || char::from(rest.next().unwrap()).to_digit(16).unwrap() as u8;
            bytes.push(if byte == b'%' { (digit() << 4) | digit() } else { byte });
        }
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn index_metrics_are_json_that_fits_a_header() {
        for (paths, length) in [(0, 0), (3, 10), (40, 50), (2_000, 30), (1, 30_000)] {
            let usage = usage(paths, length);
            for form in [index_metrics_v1, index_metrics_v2] {
                let text = form(&usage);
                assert!(text.len() <= DIAGNOSTIC_HEADER_MAX, "{paths} paths: {}", text.len());
                let json = match STANDARD.decode(&text) {
                    Ok(json) => members(&json),
                    Err(_) => members(decoded(&text).as_bytes()),
                };
                assert_eq!(json.get("Truncated").is_some(), paths * length > 1_000, "{paths}");
            }
        }
    }

    #[test]
    fn a_long_log_ends_with_a_line_that_says_so() {
        assert_eq!(script_log("made ä, 100%"), "made%20%C3%A4%2C%20100%25");
        for letter in ["a", "ä", "𝄞", "\n"] {
            let log = letter.repeat(60_000 / letter.len());
            let text = script_log(&log);
            assert!(
                text.len() <= DIAGNOSTIC_HEADER_MAX && text.len() > DIAGNOSTIC_HEADER_MAX - 100
            );
            let text = decoded(&text);
            let (kept, end) = text.rsplit_once('\n').unwrap();
            assert!(log.starts_with(kept));
            assert_eq!(end, format!("[cut here: the log has {} bytes]", log.len()));
        }
    }
}
