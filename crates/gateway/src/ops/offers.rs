//! Offers.

use super::{EngineService, databases};
use crate::reply::{Fact, FeedKind};
use crate::routes::Operation;
use crate::wire::{self, offer, page};
use crate::{Call, Reply};
use armilla_engine::offers::Offer;
use armilla_model::value::{Object, Value};
use armilla_model::{Error, Result};
use http::StatusCode;
use std::sync::Arc;
use std::time::Duration;

/// How long a replacement waits for the splits it causes before it answers that they are under way.
const SPLIT_PATIENCE: Duration = Duration::from_secs(1);

pub(super) async fn answer(service: &EngineService, call: &Call<'_>) -> Result<Reply> {
    match call.operation {
        Operation::ListOffers => {
            page::list(service.authenticator.seal(), call, FeedKind::Offers, "", rows(service))
        }
        Operation::QueryOffers => query(service, call).await,
        Operation::ReadOffer { rid } => {
            let found = find(service, rid)?;
            let reply = wire::read_reply(call, found.etag, &shape(service, &found));
            Ok(with_limits(service, reply, &found))
        }
        Operation::ReplaceOffer { rid } => replace(service, call, rid).await,
        _ => Err(wire::misrouted(call)),
    }
}

/// The resource. While partitions are being split for it, it says so.
fn shape(service: &EngineService, found: &Offer) -> Object {
    let mut shape = offer::shape(found);
    if service.account.is_scaling(found)
        && let Some(content) = shape.get("content").and_then(Value::as_object)
    {
        let mut content = content.clone();
        content.insert("isOfferReplacePending", true.into());
        shape.insert("content", Value::object(content));
    }
    shape
}

fn with_limits(service: &EngineService, reply: Reply, found: &Offer) -> Reply {
    let reply = offer::with_limits(reply, service.account.offer_minimum(found));
    if !service.account.is_scaling(found) {
        return reply;
    }
    reply.fact(Fact::OfferReplacePending, "true")
}

fn rows(service: &EngineService) -> Vec<(u32, Object)> {
    let row = |(number, found): (&u32, &Arc<Offer>)| (*number, shape(service, found));
    service.account.catalog().offers.iter().map(row).collect()
}

fn find(service: &EngineService, rid: &str) -> Result<Arc<Offer>> {
    offer::find(&service.account.catalog(), rid).ok_or_else(Error::not_found)
}

/// Clients find the offer of a resource by a query for its `_self` or rid, so the answer to one
/// that finds exactly one carries the headers of its read.
async fn query(service: &EngineService, call: &Call<'_>) -> Result<Reply> {
    let selected = databases::select(service, call, rows(service)).await?;
    let reply = page::query(service.authenticator.seal(), call, FeedKind::Offers, "", &selected)?;
    let rid = match selected.as_slice() {
        [only] => only.get("_rid").and_then(Value::as_str),
        _ => None,
    };
    match rid.and_then(|rid| find(service, rid).ok()) {
        Some(found) => Ok(with_limits(service, reply, &found)),
        None => Ok(reply),
    }
}

async fn replace(service: &EngineService, call: &Call<'_>, rid: &str) -> Result<Reply> {
    let number = find(service, rid)?.number;
    let body = wire::object(&call.body)?;
    let named = body.get("_rid").and_then(Value::as_str);
    if named.is_some_and(|named| named != offer::rid_text(number)) {
        return Err(Error::bad_request("The '_rid' of the body is not that of the offer."));
    }
    let change = offer::change(call.context, &body)?;
    let shares = offer::shares(&body)?;
    let if_match = call.context.if_match.map(str::to_owned);
    let replaced = service
        .blocking(move |account| account.replace_offer(number, change, shares, if_match.as_deref()))
        .await?;
    if service.account.is_scaling(&replaced) {
        let splits = service.blocking(|account| {
            account.split_partitions();
            Ok(())
        });
        // What takes longer goes on by itself, and the answer says so.
        let _ = tokio::time::timeout(SPLIT_PATIENCE, splits).await;
    }
    let status =
        if service.account.is_scaling(&replaced) { StatusCode::ACCEPTED } else { StatusCode::OK };
    let reply = wire::write_reply(status, replaced.etag, &shape(service, &replaced));
    Ok(with_limits(service, reply, &replaced))
}
