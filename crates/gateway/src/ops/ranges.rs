//! Partition key ranges.

use super::{EngineService, addressed};
use crate::reply::{FeedBody, FeedKind};
use crate::routes::ContainerPath;
use crate::wire::range::{self, KnownRanges};
use crate::wire::text;
use crate::{Call, Reply};
use armilla_engine::partition::Partition;
use armilla_model::Result;
use armilla_model::charge::RequestCharge;
use std::sync::Arc;

/// Answers with the ranges that the client does not know yet, with all of them when others are
/// being split than it knows of, or 304 when there is no news: clients ask again until they get that.
pub(super) fn read(
    service: &EngineService,
    call: &Call<'_>,
    path: ContainerPath<'_>,
) -> Result<Reply> {
    let container = addressed::container(service, call, path)?;
    let partitions = container.partitions();
    let known = call.context.if_none_match;
    let known = known.and_then(|etag| KnownRanges::parse(container.number, etag));
    let now = KnownRanges::of(&partitions);
    let is_new = |partition: &&Arc<Partition>| {
        known.is_none_or(|known| {
            partition.range.id > known.newest
                || (known.newest == now.newest && known.splitting != now.splitting)
        })
    };
    let rows: Vec<_> = partitions
        .iter()
        .filter(is_new)
        .map(|partition| text(&range::shape(&container, partition, partitions.len())))
        .collect();
    let reply = if rows.is_empty() {
        Reply::not_modified()
    } else {
        Reply::feed(FeedBody::of(FeedKind::PartitionKeyRanges, &container.rid_text, &rows))
    };
    let reply = reply.etag(now.etag(container.number)).charge(RequestCharge::ONE);
    Ok(addressed::owned_by(reply, &container))
}
