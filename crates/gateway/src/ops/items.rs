//! Point reads.

use super::EngineService;
use super::addressed;
use crate::reply::Session;
use crate::routes::ItemPath;
use crate::wire::container;
use crate::{Call, Reply};
use armilla_engine::Container;
use armilla_engine::partition::Partition;
use armilla_model::charge::RequestCharge;
use armilla_model::{Error, Result};

/// The answer for an item that is not there. Of several ranges, one that nobody ever wrote to has no
/// state that a session could read back: its token is left out, which SDKs' tests insist on.
fn missing(container: &Container, partition: &Partition) -> Reply {
    let reply = addressed::refusal(Error::not_found(), container, partition);
    let untouched = partition.is_untouched() && container.partitions().len() > 1;
    if untouched { reply.session(Session::Untold) } else { reply }
}

/// Answers with the stored text, as it is.
pub(super) fn read(service: &EngineService, call: &Call<'_>, path: ItemPath<'_>) -> Result<Reply> {
    let container = addressed::container(service, call, path.container)?;
    let key = addressed::full_key(call, &container)?;
    let epk = container.settings().policy.partition_key.epk(&key);
    let partition = container.partition_of(&epk);
    if let Err(error) = addressed::check_session(call, &container, &partition) {
        return Ok(addressed::refusal(error, &container, &partition));
    }
    let Some(item) = container.read_item_by_segment(&key, path.item)? else {
        return Ok(missing(&container, &partition));
    };
    let etag = item.etag.to_string();
    let known = call.context.if_none_match.is_some_and(|known| item.etag.matches(known));
    let reply = if known {
        Reply::not_modified().charge(RequestCharge::ONE)
    } else {
        Reply::ok(item.text.clone()).charge(item.read_charge(&container.rates())).item_count(1)
    };
    let reply =
        addressed::from_partition(reply.etag(etag), &container, &partition, partition.lsn());
    Ok(container::with_quota(reply.item_lsn(item.lsn.0), &container))
}
