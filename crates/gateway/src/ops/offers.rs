//! Offers.

use super::{EngineService, databases};
use crate::reply::FeedKind;
use crate::routes::Operation;
use crate::wire::{self, offer, page};
use crate::{Call, Reply};
use armilla_engine::offers::Offer;
use armilla_model::value::{Object, Value};
use armilla_model::{Error, Result};
use http::StatusCode;
use std::sync::Arc;

pub(super) async fn answer(service: &EngineService, call: &Call<'_>) -> Result<Reply> {
    match call.operation {
        Operation::ListOffers => page::list(call, FeedKind::Offers, "", rows(service)),
        Operation::QueryOffers => query(service, call).await,
        Operation::ReadOffer { rid } => {
            let found = find(service, rid)?;
            let reply = wire::read_reply(call, found.etag, &offer::shape(&found));
            Ok(offer::with_limits(reply, &found))
        }
        Operation::ReplaceOffer { rid } => replace(service, call, rid).await,
        _ => Err(wire::misrouted(call)),
    }
}

fn rows(service: &EngineService) -> Vec<(u32, Object)> {
    let row = |(number, found): (&u32, &Arc<Offer>)| (*number, offer::shape(found));
    service.account.catalog().offers.iter().map(row).collect()
}

fn find(service: &EngineService, rid: &str) -> Result<Arc<Offer>> {
    offer::find(&service.account.catalog(), rid).ok_or_else(Error::not_found)
}

/// Clients find the offer of a resource by a query for its `_self` or rid, so the answer to one
/// that finds exactly one carries the headers of its read.
async fn query(service: &EngineService, call: &Call<'_>) -> Result<Reply> {
    let selected = databases::select(service, call, rows(service)).await?;
    let reply = page::query(call, FeedKind::Offers, "", &selected)?;
    let rid = match selected.as_slice() {
        [only] => only.get("_rid").and_then(Value::as_str),
        _ => None,
    };
    match rid.and_then(|rid| find(service, rid).ok()) {
        Some(found) => Ok(offer::with_limits(reply, &found)),
        None => Ok(reply),
    }
}

async fn replace(service: &EngineService, call: &Call<'_>, rid: &str) -> Result<Reply> {
    let number = find(service, rid)?.number;
    let change = offer::change(&call.context, &wire::object(&call.body)?)?;
    let if_match = call.context.if_match.map(str::to_owned);
    let replaced = service
        .blocking(move |account| account.replace_offer(number, change, if_match.as_deref()))
        .await?;
    let reply = wire::write_reply(StatusCode::OK, replaced.etag, &offer::shape(&replaced));
    Ok(offer::with_limits(reply, &replaced))
}
