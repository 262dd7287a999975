//! Point reads.

use super::addressed::ItemTarget;
use crate::reply::Session;
use crate::wire::container;
use crate::{Call, Reply};
use armilla_engine::ItemAddress;
use armilla_model::charge::RequestCharge;
use armilla_model::{Error, Result};

/// The answer for an item that is not there. Of several ranges, one that nobody ever wrote to has no
/// state that a session could read back: its token is left out, which SDKs' tests insist on.
fn missing(target: &ItemTarget, address: &ItemAddress) -> Reply {
    let partition = &address.partition;
    let reply = target.refusal(Error::not_found(), partition);
    let untouched = partition.is_untouched() && target.container.partitions().len() > 1;
    if untouched { reply.session(Session::Untold) } else { reply }
}

/// Answers with the stored text, as it is.
pub(super) fn read(call: &Call<'_>, target: &ItemTarget, segment: &str) -> Result<Reply> {
    let address = target.address()?;
    if let Some(refusal) = target.session_refusal() {
        return Ok(refusal);
    }
    let container = &target.container;
    let Some(item) = address.read_item_by_segment(segment)? else {
        return Ok(missing(target, address));
    };
    let known = call.context.if_none_match.is_some_and(|known| item.etag.matches(known));
    let (etag, lsn) = (item.etag.quoted(), item.lsn.0);
    let reply = if known {
        Reply::not_modified().charge(RequestCharge::ONE)
    } else {
        let charge = container.read_charge(item.text.len());
        Reply::ok(item.text).charge(charge).item_count(1)
    };
    let reply = target.with_position_of(reply.etag(etag).item_lsn(lsn), &address.partition);
    Ok(container::with_quota(reply, container))
}
