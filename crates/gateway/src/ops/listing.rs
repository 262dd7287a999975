//! Feeds of items.

use super::EngineService;
use super::addressed::ItemTarget;
use super::placement::{self, Place};
use crate::auth::Belongs;
use crate::reply::{FeedBody, FeedKind};
use crate::{Call, Reply};
use armilla_model::Result;
use armilla_model::limits::FEED_PAGE_DEFAULT;

/// Answers with a page of items in order.
pub(super) async fn list(
    service: &EngineService,
    call: &Call<'_>,
    target: ItemTarget,
) -> Result<Reply> {
    let (container, scope) = (&target.container, target.scope()?);
    if let Some(refusal) = target.session_refusal() {
        return Ok(refusal);
    }
    let count_max = call.context.max_item_count.map_or(FEED_PAGE_DEFAULT, |count| count as usize);
    let seal = service.authenticator.seal();
    let key = scope.one_key().unwrap_or_default();
    let belongs = Belongs { kind: "items", owner: &container.rid_text, scope: key };
    let after = call.context.continuation.map(|token| seal.open(belongs, token)).transpose()?;
    let (owner, span, after) = (container.clone(), scope.span.clone(), after.map(str::to_owned));
    let work = move || {
        let page = owner.list_items(&span, after.as_deref(), count_max)?;
        let texts: Vec<_> = page.items.iter().map(|item| item.text.clone()).collect();
        let body = FeedBody::of(FeedKind::Items, &owner.rid_text, &texts);
        Ok((Reply::feed(body).charge(page.charge), page.continuation))
    };
    let (reply, next) = match placement::of_list(&scope.partitions, count_max) {
        Place::Here => work(),
        Place::Pool => service.reading(work).await,
    }?;
    let next = next.map(|token| seal.close(belongs, &token));
    let reply = reply.continuation(next);
    Ok(target.with_one_position(reply))
}
