//! Queries over items.

use super::EngineService;
use crate::routes::ContainerPath;
use crate::{Call, Reply};
use armilla_model::{Error, Result};

pub(super) async fn query(service: &EngineService, call: &Call<'_>, path: ContainerPath<'_>) -> Result<Reply> {
    let _ = (service, path);
    Err(Error::bad_request(format!("{:?} is not served yet.", call.operation)))
}

pub(super) fn plan(service: &EngineService, call: &Call<'_>, path: ContainerPath<'_>) -> Result<Reply> {
    let _ = (service, path);
    Err(Error::bad_request(format!("{:?} is not served yet.", call.operation)))
}
