//! Partition key ranges and their incremental feed.
//!
//! The etag of the feed names the newest range, and the ranges that are being split. Ids only grow,
//! and a split or merge makes new ranges, so a client that shows an older etag gets exactly the
//! ranges it does not know; their `parents` tell it which ones to forget. When the ranges being split
//! are others than it knows of, it gets all of them anew, with their status.

use super::{etag_member, ts_member};
use armilla_engine::Container;
use armilla_engine::partition::Partition;
use armilla_model::rid::{self, ChildKind};
use armilla_model::value::{Object, Value};
use std::sync::Arc;

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
        ("status", if partition.is_splitting() { "splitting" } else { "online" }.into()),
        ("parents", Value::array(parents)),
        ("lsn", lsn.into()),
    ])
}

/// What a client knows of the ranges of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownRanges {
    /// The newest range.
    pub(crate) newest: u32,
    /// A mark of the ranges that are being split; 0 when there are none.
    pub(crate) splitting: u32,
}

impl KnownRanges {
    /// What there is to know of these ranges.
    pub(crate) fn of(partitions: &[Arc<Partition>]) -> Self {
        let newest = partitions.iter().map(|partition| partition.range.id).max().unwrap_or(0);
        let splitting = partitions.iter().filter(|partition| partition.is_splitting());
        let mark = |mark: u32, id: u32| (mark ^ (id + 1)).wrapping_mul(0x0100_0193);
        Self { newest, splitting: splitting.map(|partition| partition.range.id).fold(0, mark) }
    }

    /// The etag of the feed: the container, so that a successor of the same name is told apart, and
    /// what is known then.
    pub(crate) fn etag(self, container: u32) -> String {
        match self.splitting {
            0 => format!("\"{container:x}-{}\"", self.newest),
            mark => format!("\"{container:x}-{}-{mark:x}\"", self.newest),
        }
    }

    /// What a client knows, from the etag it shows; nothing when it knows none of this container's
    /// ranges.
    pub(crate) fn parse(container: u32, etag: &str) -> Option<Self> {
        let mut parts = etag.trim().trim_matches('"').split('-');
        let owner = u32::from_str_radix(parts.next()?, 16).ok()?;
        let newest = parts.next()?.parse().ok()?;
        let splitting = parts.next().map_or(Some(0), |mark| u32::from_str_radix(mark, 16).ok())?;
        (owner == container && parts.next().is_none()).then_some(Self { newest, splitting })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etags_name_the_newest_range_of_their_container() {
        let known = KnownRanges { newest: 12, splitting: 0 };
        assert_eq!(known.etag(0x1f), "\"1f-12\"");
        assert_eq!(KnownRanges::parse(0x1f, "1f-12"), Some(known));
        let splitting = KnownRanges { newest: 12, splitting: 0xab };
        for known in [known, splitting] {
            assert_eq!(KnownRanges::parse(0x1f, &known.etag(0x1f)), Some(known));
            assert_eq!(KnownRanges::parse(0x20, &known.etag(0x1f)), None);
        }
        for foreign in ["", "*", "\"12\"", "\"1f-x\"", "\"1f-99999999999\"", "1f-1-x", "1f-1-1-1"] {
            assert_eq!(KnownRanges::parse(0x1f, foreign), None, "{foreign}");
        }
    }
}
