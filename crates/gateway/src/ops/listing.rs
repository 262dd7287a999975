//! Feeds of items.

use super::EngineService;
use super::addressed;
use crate::reply::{FeedBody, FeedKind};
use crate::routes::ContainerPath;
use crate::{Call, Reply};
use armilla_model::Result;
use armilla_model::limits::FEED_PAGE_DEFAULT;

/// Answers with a page of items in order.
pub(super) fn list(
    service: &EngineService,
    call: &Call<'_>,
    path: ContainerPath<'_>,
) -> Result<Reply> {
    let container = addressed::container(service, call, path)?;
    let scope = addressed::scope(call, &container)?;
    for (partition, _) in container.partitions_in(&scope.span) {
        addressed::check_session(call, &container, &partition)?;
    }
    let count_max = call.context.max_item_count.map_or(FEED_PAGE_DEFAULT, |count| count as usize);
    let page = container.list_items(&scope.span, call.context.continuation, count_max)?;
    let texts: Vec<_> = page.items.iter().map(|item| item.text.clone()).collect();
    let body = FeedBody::of(FeedKind::Items, &container.rid_text, &texts);
    let reply = Reply::feed(body).charge(page.charge).continuation(page.continuation.as_deref());
    Ok(addressed::from_scope(reply, &container, &scope))
}
