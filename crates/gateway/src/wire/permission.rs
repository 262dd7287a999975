//! Permissions and the tokens they hand out.

use super::casing::Casing;
use super::{etag_member, required, ts_member, user};
use crate::auth::{
    Grant, Leaf, PermissionId, PermissionMode, TOKEN_LIFE_DEFAULT_SECONDS, TOKEN_LIFE_MAX_SECONDS,
};
use armilla_engine::Container;
use armilla_engine::account::NewPermission;
use armilla_engine::catalog::{Catalog, Database};
use armilla_engine::scripts::Kind;
use armilla_engine::users::{Mode, Permission, User};
use armilla_model::partition_key::{Component, PartitionKey};
use armilla_model::rid;
use armilla_model::value::{Object, Value};
use armilla_model::{Error, Result};
use std::sync::Arc;

/// The shortest life of a token.
const TOKEN_LIFE_MIN_SECONDS: u32 = 10;

/// The resource with a fresh token.
pub(crate) fn shape(
    database: &Database,
    owner: &User,
    permission: &Permission,
    token: String,
) -> Object {
    let rid = rid_text(database, owner, permission);
    let mut shape = Object::of([
        ("id", Value::String(permission.name.clone())),
        ("permissionMode", Value::String(permission.spelling.clone())),
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
    check_resource(resource)?;
    let partition_key = match body.get("resourcePartitionKey") {
        None | Some(Value::Null) => None,
        Some(key @ Value::Array(_)) => Some(PartitionKey::parse(&key.to_json())?),
        Some(scalar) => Some(PartitionKey::parse(&format!("[{scalar}]"))?),
    };
    if partition_key.as_ref().is_some_and(|key| key.0.is_empty()) {
        return Err(Error::bad_request(
            "A permission's resourcePartitionKey names at least one value; leave it out for a \
             permission on all partition keys.",
        ));
    }
    let (casing, mode) = (Casing::of(mode), Mode::parse(mode)?);
    let spelling = casing.apply(mode.text()).into();
    Ok(NewPermission { name, mode, spelling, resource, partition_key })
}

/// Permissions are for a container or something inside it. There are none on databases or the account.
fn check_resource(resource: &str) -> Result<()> {
    let segments: Vec<&str> = resource.split('/').filter(|segment| !segment.is_empty()).collect();
    match *segments.as_slice() {
        ["dbs", _, "colls", _] => Ok(()),
        ["dbs", _, "colls", _, "docs" | "sprocs" | "triggers" | "udfs" | "conflicts", _] => Ok(()),
        _ => Err(Error::bad_request(format!(
            "The resource of a permission is a container, or an item, script or conflict in one \
             (dbs/{{db}}/colls/{{container}}/docs/{{id}}), and '{resource}' is none."
        ))),
    }
}

/// Refuses a key that the container cannot tell from others: version 1 keys are told apart by
/// their first 100 characters.
pub(crate) fn check_key(catalog: &Catalog, new: &NewPermission<'_>) -> Result<()> {
    let Some(key) = &new.partition_key else { return Ok(()) };
    let Some(container) = container_of(catalog, new.resource) else { return Ok(()) };
    let settings = container.settings();
    let definition = &settings.policy.partition_key;
    if key.0.len() > definition.levels() {
        return definition.check_full(key);
    }
    definition.check_lengths(key)?;
    if definition.is_distinct(key) {
        return Ok(());
    }
    Err(Error::bad_request(
        "The container's partition keys are of version 1, which does not tell keys apart that share \
         their first 100 characters: a permission for this one would be for others too.",
    ))
}

fn container_of<'c>(catalog: &'c Catalog, resource: &str) -> Option<&'c Arc<Container>> {
    let mut segments = resource.split('/').filter(|segment| !segment.is_empty());
    let (_, database, _, container) =
        (segments.next()?, segments.next()?, segments.next()?, segments.next()?);
    catalog.database(database)?.container(container)
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
    let container = container_of(catalog, &permission.resource);
    let is_distinct = |container: &&Arc<Container>| {
        let key = permission.partition_key.as_ref();
        key.is_none_or(|key| container.settings().policy.partition_key.is_distinct(key))
    };
    let container = container.filter(is_distinct);
    Grant {
        issued_for: PermissionId {
            database: database.name.to_string(),
            user: owner.name.to_string(),
            permission: permission.name.to_string(),
            rid: rid_text(database, owner, permission),
            etag: permission.etag.to_string(),
        },
        container_rid: container.map(|found| found.rid_text.to_string()).unwrap_or_default(),
        leaf: leaf(container, &permission.resource),
        mode: match permission.mode {
            Mode::Read => PermissionMode::Read,
            Mode::All => PermissionMode::All,
        },
        partition_key: permission.partition_key.clone(),
        expires_at,
    }
}

/// The permission that a token was issued for, unless it or its user was deleted or changed since.
pub(crate) fn find(catalog: &Catalog, id: &PermissionId) -> Option<Arc<Permission>> {
    let bytes: [u8; 16] = rid::decode(&id.rid)?.try_into().ok()?;
    let number = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    // Names find it at once; after a rename the numbers still do.
    let named = catalog.databases.get(id.database.as_str());
    let named = named.filter(|database| Some(database.number) == number(0));
    let database = named.or_else(|| {
        catalog.databases.values().find(|database| Some(database.number) == number(0))
    })?;
    let named = database.users.get(id.user.as_str());
    let named = named.filter(|user| Some(user.number) == number(4));
    let user =
        named.or_else(|| database.users.values().find(|user| Some(user.number) == number(4)))?;
    let is_it = |permission: &&Arc<Permission>| {
        rid_text(database, user, permission) == id.rid && permission.etag.to_string() == id.etag
    };
    let named = user.permissions.get(id.permission.as_str()).filter(is_it);
    named.or_else(|| user.permissions.values().find(is_it)).cloned()
}

fn rid_text(database: &Database, owner: &User, permission: &Permission) -> String {
    let owner = rid::user(database.number, owner.number);
    rid::encode(&rid::permission(owner, u64::from(permission.number)))
}

/// The item or script that a resource names in its container. Items have the text for a rid, since only
/// their partition can look that up.
fn leaf(container: Option<&Arc<Container>>, resource: &str) -> Option<Leaf> {
    let segments: Vec<&str> = resource.split('/').filter(|segment| !segment.is_empty()).collect();
    let (&kind, &name) = (segments.get(4)?, segments.get(5)?);
    let mut leaf = Leaf { kind: kind.to_owned(), name: name.to_owned(), rid: name.to_owned() };
    if let Some(container) = container
        && let Some(kind) = script_kind(kind)
        && let Ok(script) = container.script(kind, name)
    {
        leaf.name = script.name.to_string();
        let child = rid::child(container.rid, script.kind.child(), u64::from(script.number));
        leaf.rid = rid::encode(&child);
    }
    Some(leaf)
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
        assert!(parsed(&body(r#","resourcePartitionKey":[]"#)).is_err());
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
    fn permissions_are_for_containers_and_what_is_in_them() {
        for good in
            ["dbs/d/colls/c", "/dbs/d/colls/c/", "dbs/d/colls/c/docs/i", "dbs/d/colls/c/udfs/f"]
        {
            check_resource(good).unwrap();
        }
        for bad in [
            "dbs",
            "dbs/d",
            "dbs/d/users/u",
            "dbs/d/colls",
            "dbs/d/colls/c/docs",
            "offers/x",
            "//",
            "dbs/d/colls/c/docs/i/attachments/a",
        ] {
            assert!(matches!(check_resource(bad), Err(Error::BadRequest(_))), "{bad}");
        }
    }
}
