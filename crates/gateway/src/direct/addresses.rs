//! `/addresses`: where the partitions of a container are. All are here.

use super::DirectMode;
use super::replica::{MASTER_RANGE, ReplicaPath};
use crate::routes::percent_decode;
use armilla_model::{Error, Result, json};
use std::fmt::Write as _;

/// Range ids in one request: clients that open connections in advance ask for 50.
const RANGES_MAX: usize = 1_000;

/// What names the ranges in a query.
const RANGES: &str = "$partitionKeyRangeIds";

/// What a client asks: the addresses of ranges of a container, or of the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressQuery {
    /// The path of what is to be found, by `_rid`: `dbs/…/colls/…/docs`, or `dbs`.
    pub resolve_for: String,
    /// Ids of ranges.
    pub ranges: Vec<u32>,
}

impl AddressQuery {
    /// Reads the query of the URI.
    pub fn parse(query: &str) -> Result<Self> {
        let (mut resolve_for, mut ranges) = (None, Vec::new());
        for pair in query.split('&') {
            let Some((name, value)) = pair.split_once('=') else { continue };
            let decoded = |text: &str| {
                let bytes = percent_decode(text.as_bytes());
                bytes.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(malformed)
            };
            match decoded(name)?.as_str() {
                "$resolveFor" => resolve_for = Some(decoded(value)?),
                RANGES => ranges = range_ids(&decoded(value)?)?,
                _ => {}
            }
        }
        Ok(Self { resolve_for: resolve_for.ok_or_else(malformed)?, ranges })
    }

    /// The same query for these ranges alone.
    pub(crate) fn narrowed(query: &str, ranges: &[u32]) -> String {
        let names_ranges = |pair: &&str| {
            let name = pair.split('=').next().unwrap_or_default();
            percent_decode(name.as_bytes()).is_some_and(|name| name == RANGES.as_bytes())
        };
        let mut pairs: Vec<&str> = query.split('&').filter(|pair| !names_ranges(pair)).collect();
        let list: Vec<String> = ranges.iter().map(u32::to_string).collect();
        let ranges = format!("{RANGES}={}", list.join(","));
        pairs.push(&ranges);
        pairs.join("&")
    }

    /// Whether the catalog is asked for.
    pub fn is_master(&self) -> bool {
        self.resolve_for.trim_matches('/') == "dbs"
    }
}

fn range_ids(list: &str) -> Result<Vec<u32>> {
    let ids = list.split(',').map(str::trim).filter(|id| !id.is_empty());
    let ranges: Vec<u32> = ids
        .map(|id| id.parse().map_err(|_| malformed()))
        .take(RANGES_MAX + 1)
        .collect::<Result<_>>()?;
    if ranges.len() > RANGES_MAX {
        return Err(Error::bad_request(format!("At most {RANGES_MAX} ranges may be asked for.")));
    }
    Ok(ranges)
}

fn malformed() -> Error {
    Error::bad_request(
        "An address query names $resolveFor and $partitionKeyRangeIds, as clients in Direct mode do.",
    )
}

/// Host and port of the addresses: those by which the client reached the gateway, or another port there.
pub fn authority(endpoint: &str, mode: DirectMode) -> String {
    let (scheme, rest) = endpoint.split_once("://").unwrap_or(("https", endpoint));
    let authority = rest.split('/').next().unwrap_or_default();
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port),
        _ => (authority, if scheme == "http" { "80" } else { "443" }),
    };
    match mode {
        DirectMode::Port(port) => format!("{host}:{port}"),
        DirectMode::SamePort | DirectMode::Off => format!("{host}:{port}"),
    }
}

/// The answer for ranges of a container; `rid` has its padding.
pub fn write_ranges(authority: &str, rid: &str, ranges: &[u32]) -> Vec<u8> {
    let container = rid.trim_end_matches('=');
    let mut list = String::new();
    for range in ranges {
        let text = range.to_string();
        for is_primary in [true, false] {
            let path = ReplicaPath::Range { container, range: &text, is_primary };
            write_address(&mut list, authority, &path.to_string(), &text, is_primary);
        }
    }
    envelope(rid, &list, ranges.len() * 2)
}

/// The answer for the catalog.
pub fn write_master(authority: &str) -> Vec<u8> {
    let primary = ReplicaPath::Master.to_string();
    let secondary = primary.replace("/1p/", "/2s/");
    let mut list = String::new();
    write_address(&mut list, authority, &primary, MASTER_RANGE, true);
    write_address(&mut list, authority, &secondary, MASTER_RANGE, false);
    envelope("", &list, 2)
}

/// One address. `physcialUri` is how the protocol spells it.
fn write_address(list: &mut String, authority: &str, path: &str, range: &str, is_primary: bool) {
    if !list.is_empty() {
        list.push(',');
    }
    let mut uri = Vec::new();
    json::write_string(&format!("rntbd://{authority}{path}"), &mut uri);
    let uri = String::from_utf8_lossy(&uri);
    // Writing to memory cannot fail.
    let _ = write!(
        list,
        r#"{{"isPrimary":{is_primary},"protocol":"rntbd","partitionKeyRangeId":"{range}","partitionIndex":"0@0","physcialUri":{uri}}}"#
    );
}

fn envelope(rid: &str, list: &str, count: usize) -> Vec<u8> {
    let mut out = b"{\"_rid\":".to_vec();
    json::write_string(rid, &mut out);
    // The list is misspelt by the protocol.
    out.extend_from_slice(format!(",\"_count\":{count},\"Addresss\":[{list}]}}").as_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use armilla_model::Value;

    fn addresses(body: &[u8]) -> Vec<Value> {
        let body = json::parse(body).unwrap();
        body.get("Addresss").unwrap().as_array().unwrap().to_vec()
    }

    /// The members that clients read, as the vectors have them.
    #[test]
    fn answers_have_the_members_of_the_vectors() {
        let vectors = json::parse(include_bytes!("../../tests/vectors/direct.json")).unwrap();
        let cases = vectors.get("addresses").unwrap().as_array().unwrap().to_vec();
        assert_eq!(cases.len(), 3);
        for case in cases {
            let request = case.get("request").unwrap().as_str().unwrap();
            let query = AddressQuery::parse(request.split_once('?').unwrap().1).unwrap();
            let expected = case.get("body").unwrap();
            let rid = expected.get("_rid").unwrap().as_str().unwrap();
            let found = match query.is_master() {
                true => write_master("db.example:10250"),
                false => write_ranges("db.example:10250", rid, &query.ranges),
            };
            let (found, expected) = (addresses(&found), expected.get("Addresss").unwrap());
            let expected = expected.as_array().unwrap();
            assert_eq!(found.len(), expected.len());
            for (found, expected) in found.iter().zip(expected) {
                for name in ["isPrimary", "protocol", "physcialUri", "partitionKeyRangeId"] {
                    assert_eq!(found.get(name), expected.get(name), "{request}: {name}");
                }
            }
        }
    }

    #[test]
    fn host_and_port_are_those_of_the_gateway() {
        let same = |endpoint: &str| authority(endpoint, DirectMode::SamePort);
        assert_eq!(same("https://127.0.0.1:8081/"), "127.0.0.1:8081");
        assert_eq!(same("https://db.example/"), "db.example:443");
        assert_eq!(same("http://[::1]/"), "[::1]:80");
        assert_eq!(same("https://[::1]:8081/"), "[::1]:8081");
        assert_eq!(
            authority("https://db.example:8081/", DirectMode::Port(10_250)),
            "db.example:10250"
        );
    }

    #[test]
    fn queries_are_read_or_refused() {
        let query = AddressQuery::parse(
            "$resolveFor=dbs%2fa%2fcolls%2fb%2fdocs&$filter=x&$partitionKeyRangeIds=0,1,%202",
        );
        let query = query.unwrap();
        assert_eq!(
            (query.resolve_for.as_str(), &query.ranges[..]),
            ("dbs/a/colls/b/docs", &[0, 1, 2][..])
        );
        let narrow = AddressQuery::narrowed("$resolveFor=dbs&%24partitionKeyRangeIds=0,1", &[1, 5]);
        assert_eq!(AddressQuery::parse(&narrow).unwrap().ranges, [1, 5]);
        for refused in
            ["", "$filter=x", "$resolveFor=%zz", "$resolveFor=dbs&$partitionKeyRangeIds=x"]
        {
            assert!(AddressQuery::parse(refused).is_err(), "{refused}");
        }
    }
}
