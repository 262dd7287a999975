//! The change feed of a range or a logical partition.

use super::EngineService;
use super::addressed;
use crate::headers::FeedMode;
use crate::reply::{FeedBody, FeedKind};
use crate::routes::ContainerPath;
use crate::{Call, Reply};
use armilla_engine::feed::Start;
use armilla_engine::items::read::Item;
use armilla_model::limits::FEED_PAGE_DEFAULT;
use armilla_model::lsn::Lsn;
use armilla_model::{Error, Result};

/// Answers with the changes behind a position, or 304.
pub(super) fn read(
    service: &EngineService,
    call: &Call<'_>,
    path: ContainerPath<'_>,
) -> Result<Reply> {
    let container = addressed::container(service, call, path)?;
    if call.context.feed_mode == Some(FeedMode::AllVersionsAndDeletes) {
        return Err(Error::bad_request(
            "The change feed of all versions and deletes is not served by this server yet; use the latest-version feed.",
        ));
    }
    let scope = addressed::scope(call, &container)?;
    let partition = match &scope.range {
        Some(partition) => partition.clone(),
        None if scope.limited => container.partition_of(&scope.span.min),
        None => container.partitions().first().cloned().ok_or(Error::PartitionGone)?,
    };
    if let Err(error) = addressed::check_session(call, &container, &partition) {
        return Ok(addressed::refusal(error, &container, &partition));
    }
    let count_max = call.context.max_item_count.map_or(FEED_PAGE_DEFAULT, |count| count as usize);
    let page = container.read_changes(&partition, &scope.span, start(call)?, count_max.max(1))?;
    let etag = format!("\"{}\"", page.position);
    let reply = if page.items.is_empty() {
        Reply::not_modified()
    } else {
        let rows: Vec<_> = page.items.iter().map(with_lsn).collect();
        Reply::feed(FeedBody::of(FeedKind::Items, &container.rid_text, &rows))
    };
    let reply = reply.etag(&etag).charge(page.charge.units());
    Ok(addressed::from_partition(reply, &container, &partition, partition.lsn()))
}

/// `If-None-Match` wins over `If-Modified-Since`, which some clients go on sending beside it.
fn start(call: &Call<'_>) -> Result<Start> {
    match (
        call.context.if_none_match.map(|etag| etag.trim().trim_matches('"')),
        call.context.if_modified_since,
    ) {
        (Some("*"), _) => Ok(Start::Now),
        (Some(position), _) => {
            let lsn = position.parse().map_err(|_| {
                Error::bad_request(format!("'{position}' is not a position in the change feed."))
            })?;
            Ok(Start::After(Lsn(lsn)))
        }
        (None, Some(second)) => Ok(Start::At(second)),
        (None, None) => Ok(Start::Beginning),
    }
}

/// The item with the transaction that wrote it.
fn with_lsn(item: &Item) -> Vec<u8> {
    let mut row = item.text.to_vec();
    row.pop();
    row.extend_from_slice(b",\"_lsn\":");
    row.extend_from_slice(itoa::Buffer::new().format(item.lsn.0).as_bytes());
    row.push(b'}');
    row
}
