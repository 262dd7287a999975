//! Containers.

use super::EngineService;
use crate::{Call, Reply};
use armilla_model::{Error, Result};

pub(super) async fn answer(service: &EngineService, call: &Call<'_>) -> Result<Reply> {
    let _ = service;
    Err(Error::bad_request(format!("{:?} is not served yet.", call.operation)))
}
