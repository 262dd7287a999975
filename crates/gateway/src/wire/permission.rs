//! Permissions and the tokens they hand out.

use super::{etag_member, required, ts_member, user};
use crate::auth::{Grant, PermissionMode, TOKEN_LIFE_DEFAULT_SECONDS, TOKEN_LIFE_MAX_SECONDS};
use armilla_engine::account::NewPermission;
use armilla_engine::catalog::{Casing, Catalog, Database};
use armilla_engine::scripts::Kind;
use armilla_engine::users::{Mode, Permission, User};
use armilla_model::partition_key::{Component, PartitionKey};
use armilla_model::rid;
use armilla_model::value::{Object, Value};
use armilla_model::{Error, Result};

/// The shortest life of a token.
const TOKEN_LIFE_MIN_SECONDS: u32 = 10;

/// The resource with a fresh token.
pub(crate) fn shape(
    database: &Database,
    owner: &User,
    permission: &Permission,
    token: String,
) -> Object {
    let bytes =
        rid::permission(rid::user(database.number, owner.number), u64::from(permission.number));
    let rid = rid::encode(&bytes);
    let mut shape = Object::of([
        ("id", Value::String(permission.name.clone())),
        ("permissionMode", permission.casing.apply(permission.mode.text()).into()),
        ("resource", Value::String(permission.resource.clone())),
    ]);
    if let Some(key) = &permission.partition_key {
        shape.insert("resourcePartitionKey", key_value(key));
    }
    shape.insert("_rid", rid.as_str().into());
    let self_link = format!("{}permissions/{rid}/", user::self_link(database, owner));
    shape.insert("_self", self_link.into());
    shape.insert("_etag", etag_member(permission.etag));
    shape.insert("_ts", ts_member(permission.ts));
    shape.insert("_token", token.into());
    shape
}

/// What a client asks for.
pub(crate) fn read(body: &Value) -> Result<NewPermission<'_>> {
    let [name, mode, resource] = required(body, ["id", "permissionMode", "resource"])?;
    if resource.trim_matches('/').is_empty() {
        return Err(Error::bad_request("The resource of a permission may not be empty."));
    }
    let partition_key = match body.get("resourcePartitionKey") {
        None | Some(Value::Null) => None,
        Some(key @ Value::Array(_)) => Some(PartitionKey::parse(&key.to_json())?),
        Some(scalar) => Some(PartitionKey::parse(&format!("[{scalar}]"))?),
    };
    let casing = Casing::of(mode);
    Ok(NewPermission { name, mode: Mode::parse(mode)?, casing, resource, partition_key })
}

/// How long a token is to live.
pub(crate) fn token_life(wanted: Option<u32>) -> Result<u32> {
    let life = wanted.unwrap_or(TOKEN_LIFE_DEFAULT_SECONDS);
    if (TOKEN_LIFE_MIN_SECONDS..=TOKEN_LIFE_MAX_SECONDS).contains(&life) {
        return Ok(life);
    }
    Err(Error::bad_request(format!(
        "The expiry of a resource token must be between {TOKEN_LIFE_MIN_SECONDS} and {TOKEN_LIFE_MAX_SECONDS} seconds, and is {life}."
    )))
}

/// What the token of a permission allows.
pub(crate) fn grant(
    catalog: &Catalog,
    database: &Database,
    owner: &User,
    permission: &Permission,
    expires_at: u64,
) -> Grant {
    let (resource, resource_by_rid) = resolve(catalog, &permission.resource);
    Grant {
        user_rid: user::rid_text(database, owner),
        resource,
        resource_by_rid,
        mode: match permission.mode {
            Mode::Read => PermissionMode::Read,
            Mode::All => PermissionMode::All,
        },
        partition_key: permission.partition_key.as_ref().map(PartitionKey::to_header),
        expires_at,
    }
}

/// A resource by names and by rids. From the first segment that leads nowhere on, the text stands
/// in both; so do items, which only their partition can look up.
fn resolve(catalog: &Catalog, resource: &str) -> (String, String) {
    let segments: Vec<&str> = resource.split('/').filter(|segment| !segment.is_empty()).collect();
    let mut names: Vec<String> = segments.iter().map(|&segment| segment.to_owned()).collect();
    let mut rids = names.clone();
    let database = match *segments.as_slice() {
        ["dbs", database, ..] => catalog.database(database),
        _ => None,
    };
    if let Some(database) = database {
        names[1] = database.name.to_string();
        rids[1] = database.rid_text();
    }
    let container = match *segments.as_slice() {
        ["dbs", _, "colls", container, ..] => {
            database.and_then(|database| database.container(container))
        }
        _ => None,
    };
    if let Some(container) = container {
        names[3] = container.settings().name.to_string();
        rids[3] = container.rid_text.to_string();
    }
    let script = match *segments.as_slice() {
        [_, _, _, _, kind, script] => container.and_then(|container| {
            container.script(script_kind(kind)?, script).ok().map(|script| (container, script))
        }),
        _ => None,
    };
    if let Some((container, script)) = script {
        names[5] = script.name.to_string();
        let ordinal = u64::from(script.number);
        rids[5] = rid::encode(&rid::child(container.rid, script.kind.child(), ordinal));
    }
    (names.join("/"), rids.join("/"))
}

fn script_kind(segment: &str) -> Option<Kind> {
    Some(match segment {
        "sprocs" => Kind::Procedure,
        "triggers" => Kind::Trigger,
        "udfs" => Kind::Function,
        _ => return None,
    })
}

/// The key as clients wrote it: undefined is an empty object.
fn key_value(key: &PartitionKey) -> Value {
    let component = |component: &Component| match component.to_value() {
        Value::Undefined => Value::object(Object::new()),
        value => value,
    };
    Value::array(key.0.iter().map(component).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use armilla_model::json;

    fn parsed(body: &str) -> Result<Option<PartitionKey>> {
        read(&json::parse(body.as_bytes()).unwrap()).map(|new| new.partition_key)
    }

    #[test]
    fn keys_come_as_lists_or_alone() {
        let body = |key: &str| {
            format!(r#"{{"id":"p","permissionMode":"Read","resource":"dbs/d/colls/c"{key}}}"#)
        };
        let key = |text| parsed(&body(text)).unwrap().map(|key| key.to_header());
        assert_eq!(key(""), None);
        assert_eq!(key(r#","resourcePartitionKey":["a",{}]"#).as_deref(), Some(r#"["a",{}]"#));
        assert_eq!(key(r#","resourcePartitionKey":"a""#).as_deref(), Some(r#"["a"]"#));
        assert!(parsed(&body(r#","resourcePartitionKey":[[1]]"#)).is_err());
    }

    #[test]
    fn what_a_permission_needs() {
        for body in [
            r#"{"permissionMode":"Read","resource":"dbs/d"}"#,
            r#"{"id":"p","resource":"dbs/d"}"#,
            r#"{"id":"p","permissionMode":"Read"}"#,
            r#"{"id":"p","permissionMode":"Own","resource":"dbs/d"}"#,
            r#"{"id":"p","permissionMode":"Read","resource":"//"}"#,
        ] {
            assert!(matches!(parsed(body), Err(Error::BadRequest(_))), "{body}");
        }
    }

    #[test]
    fn lives_are_bounded() {
        assert_eq!(token_life(None).unwrap(), 3600);
        assert_eq!(token_life(Some(10)).unwrap(), 10);
        assert_eq!(token_life(Some(86_400)).unwrap(), 86_400);
        assert!(token_life(Some(9)).is_err() && token_life(Some(86_401)).is_err());
    }

    #[test]
    fn what_leads_nowhere_keeps_its_text() {
        let (names, rids) = resolve(&Catalog::default(), "/dbs/d/colls/c/docs/i/");
        assert_eq!(
            (names.as_str(), rids.as_str()),
            ("dbs/d/colls/c/docs/i", "dbs/d/colls/c/docs/i")
        );
    }
}
