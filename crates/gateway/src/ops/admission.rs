//! Who may begin to write: the one place that refuses writes for the server's own sake, before they
//! cost anything.

use super::EngineService;
use crate::Call;
use armilla_engine::admission::WriteAdmission;
use armilla_model::Result;

/// A place for a request that writes items; nothing for one that does not.
///
/// # Errors
///
/// `Overloaded` (429 with a time to come back) while the store does not keep up.
pub(super) fn admit_write<'s>(
    service: &'s EngineService,
    call: &Call<'_>,
) -> Result<Option<WriteAdmission<'s>>> {
    if !call.operation.writes_items() {
        return Ok(None);
    }
    service.account.admit_write(call.body.len()).map(Some)
}
