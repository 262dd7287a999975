//! Who may begin to write: the one place that refuses writes for the server's own sake, before they
//! cost anything.

use super::EngineService;
use crate::Call;
use crate::routes::Operation;
use armilla_engine::admission::{WriteAdmission, WriteKind};
use armilla_model::Result;

/// A place for a request that writes items; nothing for one that does not. What is written beside items
/// is small and may use the reserve of the disk, as deletes may.
///
/// # Errors
///
/// `Overloaded` (429 with a time to come back) while the store does not keep up, `DiskFull` (507) while
/// its disk has no room.
pub(super) fn admit_write<'s>(
    service: &'s EngineService,
    call: &Call<'_>,
) -> Result<Option<WriteAdmission<'s>>> {
    let kind = match call.operation {
        Operation::DeleteItem(_) | Operation::DeletePartitionKey(_) => WriteKind::Delete,
        // These make the most room, and write next to nothing.
        Operation::DeleteDatabase { .. } | Operation::DeleteContainer(_) => return Ok(None),
        ref other if other.writes_items() => WriteKind::Any,
        ref other if other.is_read() => return Ok(None),
        _ => return service.account.require_room(WriteKind::Delete).map(|()| None),
    };
    service.account.admit_write(call.body.len(), kind).map(Some)
}
