//! `/addresses` of an account in slices: whoever owns a slice says where its ranges are, which is at that node itself.

use super::Routed;
use crate::cluster::front::come_back;
use crate::cluster::slices::SliceFronts;
use crate::direct::addresses::AddressQuery;
use crate::handle::Gateway;
use crate::service::Service;
use armilla_engine::Slice;
use armilla_model::value::Value;
use armilla_model::{Error, Result, json};
use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::uri::PathAndQuery;
use http::{Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use std::collections::BTreeMap;

/// The member that has the addresses, as the protocol spells it.
const ADDRESSES: &str = "Addresss";

impl<S: Service> Gateway<S> {
    /// The addresses of ranges, from the owners of their slices. All must be there, as with one owner.
    pub(super) async fn ask_for_addresses(
        &self,
        slices: &SliceFronts,
        routed: &Routed<'_>,
    ) -> Result<Response<Full<Bytes>>> {
        let text = routed.parts.uri.query().unwrap_or_default();
        let asked = match AddressQuery::parse(text) {
            Ok(query) if !query.is_master() => by_slice(&query.ranges, slices.count()),
            // The catalog is the first slice's, and it says what is wrong.
            _ => BTreeMap::from([(0, Vec::new())]),
        };
        let is_one = asked.len() == 1;
        let mut addresses = Vec::new();
        let mut last = None;
        for (slice, ranges) in asked {
            let mut parts = routed.parts.clone();
            if !is_one && !ranges.is_empty() {
                parts.uri = narrowed(&parts.uri, text, &ranges)?;
            }
            let response = self.ask(slices, routed, slice, parts).await?;
            if is_one || response.status() != StatusCode::OK {
                return Ok(response);
            }
            let (head, body) = response.into_parts();
            let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
            let told = json::parse(&body).map_err(|error| Error::Internal(error.to_string()))?;
            let list = told.get(ADDRESSES).and_then(Value::as_array).unwrap_or_default();
            addresses.extend(list.iter().cloned());
            last = Some((head, told));
        }
        let Some((mut head, told)) = last else { return Err(come_back()) };
        let mut told = told.as_object().cloned().unwrap_or_default();
        told.insert("_count", i64::try_from(addresses.len()).unwrap_or(i64::MAX).into());
        told.insert(ADDRESSES, Value::array(addresses));
        let mut body = Vec::new();
        told.write_json(&mut body);
        head.headers.remove(CONTENT_LENGTH);
        Ok(Response::from_parts(head, Full::new(body.into())))
    }
}

/// The ranges that are asked for by their slices; none of them means all.
fn by_slice(ranges: &[u32], count: u32) -> BTreeMap<u32, Vec<u32>> {
    if ranges.is_empty() {
        return (0..count).map(|slice| (slice, Vec::new())).collect();
    }
    let mut found: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for range in ranges {
        found.entry(Slice::of_range(*range, count)).or_default().push(*range);
    }
    found
}

/// The same address with these ranges alone.
fn narrowed(uri: &Uri, query: &str, ranges: &[u32]) -> Result<Uri> {
    let malformed = || Error::bad_request("The address query cannot be read.");
    let text = format!("{}?{}", uri.path(), AddressQuery::narrowed(query, ranges));
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(text).map_err(|_| malformed())?);
    Uri::from_parts(parts).map_err(|_| malformed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_asked_for_where_they_lie() {
        let asked = by_slice(&[0, 5, 1, 4], 4);
        assert_eq!(asked, BTreeMap::from([(0, vec![0, 4]), (1, vec![5, 1])]));
        assert_eq!(by_slice(&[], 2), BTreeMap::from([(0, vec![]), (1, vec![])]));
        let uri =
            Uri::from_static("https://a:1/addresses/?$resolveFor=dbs/x&$partitionKeyRangeIds=0,1");
        let narrow = narrowed(&uri, uri.query().unwrap_or_default(), &[1]).unwrap();
        assert_eq!(
            narrow.to_string(),
            "https://a:1/addresses/?$resolveFor=dbs/x&$partitionKeyRangeIds=1"
        );
    }
}
