//! Partition key ranges and their incremental feed.
//!
//! The etag of the feed names the newest range. Ids only grow, and a split or merge makes new
//! ranges, so a client that shows an older etag gets exactly the ranges it does not know; their
//! `parents` tell it which ones to forget.

use super::{etag_member, ts_member};
use armilla_engine::Container;
use armilla_engine::partition::Partition;
use armilla_model::rid::{self, ChildKind};
use armilla_model::value::{Object, Value};

/// The service's first range has this ordinal in its rid.
const ORDINAL_FIRST: u64 = 2;

/// The resource; `count` is the number of ranges that share the container's throughput.
pub(crate) fn shape(container: &Container, partition: &Partition, count: usize) -> Object {
    let (range, settings) = (&partition.range, container.settings());
    let ordinal = u64::from(range.id) + ORDINAL_FIRST;
    let rid = rid::encode(&rid::child(container.rid, ChildKind::PartitionKeyRange, ordinal));
    let max = range.max.as_ref().map_or_else(|| "FF".to_owned(), ToString::to_string);
    let parents = range.parents.iter().map(|parent| parent.to_string().into()).collect();
    let lsn = i64::try_from(partition.lsn().0).unwrap_or(i64::MAX);
    Object::of([
        ("id", range.id.to_string().into()),
        ("_rid", rid.as_str().into()),
        ("_self", format!("{}pkranges/{rid}/", container.self_link).into()),
        ("_etag", etag_member(settings.etag)),
        ("_ts", ts_member(settings.ts)),
        ("minInclusive", range.min.to_string().into()),
        ("maxExclusive", max.into()),
        ("ridPrefix", i64::from(range.id).into()),
        ("throughputFraction", (1.0 / count.max(1) as f64).into()),
        ("status", "online".into()),
        ("parents", Value::array(parents)),
        ("lsn", lsn.into()),
    ])
}

/// The etag of the feed: the container, so that a successor of the same name is told apart, and
/// the newest range.
pub(crate) fn etag(container: u32, newest: u32) -> String {
    format!("\"{container:x}-{newest}\"")
}

/// The newest range that a client knows, from the etag it shows; nothing when it knows none of
/// this container's.
pub(crate) fn newest_known(container: u32, etag: &str) -> Option<u32> {
    let (owner, newest) = etag.trim().trim_matches('"').split_once('-')?;
    (u32::from_str_radix(owner, 16) == Ok(container)).then(|| newest.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etags_name_the_newest_range_of_their_container() {
        let tag = etag(0x1f, 12);
        assert_eq!(tag, "\"1f-12\"");
        assert_eq!(newest_known(0x1f, &tag), Some(12));
        assert_eq!(newest_known(0x1f, "1f-12"), Some(12));
        assert_eq!(newest_known(0x20, &tag), None);
        for foreign in ["", "*", "\"12\"", "\"1f-x\"", "\"1f-99999999999\""] {
            assert_eq!(newest_known(0x1f, foreign), None, "{foreign}");
        }
    }
}
