//! The admin endpoint: dials of the account, and of one container.
//!
//! `GET /_armilla/dials` shows them, `PUT` turns those that the body names; below
//! `/_armilla/dials/dbs/{db}/colls/{container}` the same for one container.

use super::EngineService;
use crate::routes::ContainerPath;
use crate::{Call, Reply, wire};
use armilla_engine::dials::Dials;
use armilla_model::value::Value;
use armilla_model::{Error, Result};

fn show(dials: &Dials) -> Reply {
    Reply::ok(Value::object(dials.show()).to_json())
}

pub(super) fn read(service: &EngineService, path: Option<ContainerPath<'_>>) -> Result<Reply> {
    Ok(match path {
        None => show(&service.account.dials()),
        Some(path) => show(&service.account.container(path.database, path.container)?.dials()),
    })
}

pub(super) async fn turn(
    service: &EngineService,
    call: &Call<'_>,
    path: Option<ContainerPath<'_>>,
) -> Result<Reply> {
    let turns = turns(&wire::object(&call.body)?)?;
    let Some(path) = path else {
        return service.account.turn_dials(&turns).map(|dials| show(&dials));
    };
    let container = service.account.container(path.database, path.container)?;
    let dials =
        service.blocking(move |account| account.turn_container_dials(&container, &turns)).await?;
    Ok(show(&dials))
}

/// Names and texts; numbers and booleans are taken as they are written.
fn turns(body: &Value) -> Result<Vec<(String, String)>> {
    let members = body.as_object().into_iter().flat_map(|object| object.iter());
    members
        .map(|(name, value)| match value {
            Value::String(text) => Ok((name.to_string(), text.to_string())),
            Value::Number(_) | Value::Bool(_) => Ok((name.to_string(), value.to_json())),
            _ => Err(Error::bad_request(format!("The dial '{name}' takes a text or a number."))),
        })
        .collect()
}
