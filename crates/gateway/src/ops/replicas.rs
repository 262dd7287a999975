//! Ranges as clients in Direct mode address them: by the container's `_rid` and the range's id.

use super::EngineService;
use crate::service::{KeyShare, RangeAddress, RangeState};
use armilla_engine::Container;
use armilla_engine::ranges::EpkSpan;
use armilla_model::partition_key::PartitionKey;
use armilla_model::rid;
use std::sync::Arc;

/// How a range stands: served here, split or merged away, or of a container that is no more.
pub(super) fn state(service: &EngineService, address: &RangeAddress<'_>) -> RangeState {
    let Some(container) = container(service, address) else { return RangeState::NoContainer };
    match container.partition(address.range) {
        Ok(partition) => RangeState::Serving(partition.lsn()),
        Err(_) => RangeState::Moved,
    }
}

/// How much of a key, or of a prefix of keys, lies in a range.
pub(super) fn key_share(
    service: &EngineService,
    address: &RangeAddress<'_>,
    key: &PartitionKey,
) -> KeyShare {
    let Some(container) = container(service, address) else { return KeyShare::Outside };
    let Ok(partition) = container.partition(address.range) else { return KeyShare::Outside };
    let definition = container.key_definition();
    let levels = definition.levels();
    if key.0.len() > levels {
        // The operation refuses it in its own words.
        return KeyShare::Whole;
    }
    if key.0.is_empty() || key.0.len() == levels {
        let epk = match key.0.is_empty() {
            true => definition.epk(&PartitionKey::undefined(levels)),
            false => definition.epk(key),
        };
        return if partition.range.contains(&epk) { KeyShare::Whole } else { KeyShare::Outside };
    }
    let prefix = EpkSpan::of_prefix(&definition.epk(key));
    match partition.range.overlap(&prefix) {
        None => KeyShare::Outside,
        Some(part) if part == prefix => KeyShare::Whole,
        Some(part) => KeyShare::Part {
            start: part.min.as_bytes().to_vec(),
            end: part.max.map(|max| max.as_bytes().to_vec()),
        },
    }
}

/// The container that an address means. Where the request has names, they must lead to it too.
fn container(service: &EngineService, address: &RangeAddress<'_>) -> Option<Arc<Container>> {
    let is_meant = |container: &Arc<Container>| {
        container.rid_text.trim_end_matches('=') == address.container_rid
    };
    if let Some(path) = address.named {
        return service.account.container(path.database, path.container).ok().filter(is_meant);
    }
    let text = format!("{}=", address.container_rid);
    let bytes = rid::decode(&text)?;
    let database = rid::encode(bytes.get(..4)?);
    service.account.database(&database).ok()?.container_of_rid(&text).cloned()
}
