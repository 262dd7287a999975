//! Partition key ranges.

use super::EngineService;
use crate::routes::ContainerPath;
use crate::{Call, Reply};
use armilla_model::{Error, Result};

pub(super) fn read(service: &EngineService, call: &Call<'_>, path: ContainerPath<'_>) -> Result<Reply> {
    let _ = (service, path);
    Err(Error::bad_request(format!("{:?} is not served yet.", call.operation)))
}
