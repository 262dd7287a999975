//! Resource tokens: what a permission allows, sealed so that only this server can have written it.
//!
//! A token is `type=resource&ver=1.0&sig={mac};{grant};` with the grant as base64 of a JSON array
//! and the mac over exactly that text. Nothing is stored: a token is good until it expires or
//! the server's secret changes. Names and `_rid`s of the resource are both inside, because clients
//! address by either and this crate cannot look one up from the other.

use super::{Denied, unauthorized};
use crate::headers::{RequestContext, parse_components};
use crate::routes::{ContainerPath, Operation};
use armilla_model::{Error, Number, Result, Value, json};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;

/// How long a token lives when the client does not say.
pub const TOKEN_LIFE_DEFAULT_SECONDS: u32 = 3_600;
/// The longest life of a token.
pub const TOKEN_LIFE_MAX_SECONDS: u32 = 24 * 3_600;

/// What a permission allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermissionMode {
    /// Reading.
    Read,
    /// Everything at and below the resource.
    All,
}

/// The content of a resource token.
#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    /// `_rid` of the user.
    pub user_rid: String,
    /// The resource by names: `dbs/blog/colls/posts`, without slashes around.
    pub resource: String,
    /// The same resource by `_rid`s: `dbs/uQEAAA==/colls/uQEAAIAAAAE=`.
    pub resource_by_rid: String,
    /// What is allowed.
    pub mode: PermissionMode,
    /// `resourcePartitionKey` as JSON text, when the permission is for one logical partition.
    pub partition_key: Option<String>,
    /// Seconds since 1970.
    pub expires_at: u64,
}

pub(super) fn issue(key: &hmac::Key, grant: &Grant) -> String {
    let payload = STANDARD.encode(grant.to_json());
    let mac = STANDARD.encode(hmac::sign(key, payload.as_bytes()));
    format!("type=resource&ver=1.0&sig={mac};{payload};")
}

pub(super) fn verify(key: &hmac::Key, token: &str, now_seconds: u64) -> Result<Grant, Denied> {
    let grant = open(key, token)
        .ok_or_else(|| unauthorized("The resource token was not issued by this server."))?;
    if grant.expires_at <= now_seconds {
        return Err(Error::Forbidden(
            "The resource token has expired; read the permission for a fresh one.".to_owned(),
        )
        .into());
    }
    Ok(grant)
}

fn open(key: &hmac::Key, token: &str) -> Option<Grant> {
    let mut parts = token.split(';');
    let (mac, payload) = (parts.next()?, parts.next()?);
    hmac::verify(key, payload.as_bytes(), &STANDARD.decode(mac).ok()?).ok()?;
    Grant::from_json(&STANDARD.decode(payload).ok()?)
}

impl Grant {
    /// Refuses operations beyond the permission.
    ///
    /// Every token allows reading its container and the container's ranges, which SDKs do before
    /// anything else.
    pub(super) fn check(
        &self,
        operation: &Operation<'_>,
        context: &RequestContext<'_>,
    ) -> Result<()> {
        let forbidden = |message: &str| Err(Error::Forbidden(message.to_owned()));
        let Some((container, leaf)) = target(operation) else {
            return forbidden("A resource token does not allow operations on the account.");
        };
        let is_metadata =
            matches!(operation, Operation::ReadContainer(_) | Operation::ReadPartitionKeyRanges(_));
        if is_metadata && self.covers_container(container) {
            return Ok(());
        }
        if !self.covers(container, leaf) {
            return forbidden("The resource token is for another resource.");
        }
        if self.mode == PermissionMode::Read && !operation.is_read() {
            return forbidden("The permission's mode is Read; the operation writes.");
        }
        if !self.covers_key(operation, context) {
            return forbidden("The resource token is for another partition key.");
        }
        Ok(())
    }

    /// Whether the granted resource is in, or is, this container.
    fn covers_container(&self, container: ContainerPath<'_>) -> bool {
        let wanted = ["dbs", container.database, "colls", container.container];
        self.matches(&wanted, |granted, wanted| granted >= wanted)
    }

    /// Whether the target is, or is below, the granted resource.
    fn covers(&self, container: ContainerPath<'_>, leaf: Option<(&str, &str)>) -> bool {
        let (kind, id) = leaf.unwrap_or_default();
        let wanted = ["dbs", container.database, "colls", container.container, kind, id];
        let depth = if leaf.is_some() { 6 } else { 4 };
        self.matches(&wanted[..depth], |granted, wanted| granted <= wanted)
    }

    /// Compares segment by segment, each by name or by `_rid`.
    fn matches(&self, wanted: &[&str], depths: impl Fn(usize, usize) -> bool) -> bool {
        let names: Vec<&str> = self.resource.split('/').collect();
        let rids: Vec<&str> = self.resource_by_rid.split('/').collect();
        depths(names.len(), wanted.len())
            && wanted.iter().enumerate().take(names.len()).all(|(position, wanted)| {
                names.get(position) == Some(wanted) || rids.get(position) == Some(wanted)
            })
    }

    /// Whether a permission for one logical partition meets a request for it. Metadata and plans
    /// name no key.
    fn covers_key(&self, operation: &Operation<'_>, context: &RequestContext<'_>) -> bool {
        let Some(granted) = &self.partition_key else { return true };
        if matches!(operation, Operation::PlanQuery(_) | Operation::ReadScript(_)) {
            return true;
        }
        let (Some(granted), Some(wanted)) = (parse_components(granted), &context.partition_key)
        else {
            return false;
        };
        granted.len() <= wanted.components.len()
            && granted.iter().zip(&wanted.components).all(|(left, right)| left.order(right).is_eq())
    }

    fn to_json(&self) -> Vec<u8> {
        let key = self.partition_key.as_deref().map_or(Value::Null, Value::string);
        let expires = i64::try_from(self.expires_at).unwrap_or(i64::MAX);
        let fields = vec![
            Value::string(self.user_rid.as_str()),
            Value::string(self.resource.as_str()),
            Value::string(self.resource_by_rid.as_str()),
            Value::Bool(self.mode == PermissionMode::All),
            key,
            Value::Number(Number::Int(expires)),
        ];
        Value::array(fields).to_json().into_bytes()
    }

    fn from_json(text: &[u8]) -> Option<Self> {
        let fields = json::parse(text).ok()?;
        let [user, resource, by_rid, all, key, expires] = fields.as_array()? else { return None };
        Some(Self {
            user_rid: user.as_str()?.to_owned(),
            resource: resource.as_str()?.to_owned(),
            resource_by_rid: by_rid.as_str()?.to_owned(),
            mode: if all.as_bool()? { PermissionMode::All } else { PermissionMode::Read },
            partition_key: key.as_str().map(str::to_owned),
            expires_at: u64::try_from(expires.as_i64()?).ok()?,
        })
    }
}

/// The container of an operation and what it names inside; nothing outside of containers.
fn target<'a>(
    operation: &Operation<'a>,
) -> Option<(ContainerPath<'a>, Option<(&'static str, &'a str)>)> {
    use Operation as O;
    Some(match *operation {
        O::ReadContainer(path) | O::ReplaceContainer(path) | O::DeleteContainer(path) => {
            (path, None)
        }
        O::ReadPartitionKeyRanges(path) | O::DeletePartitionKey(path) => (path, None),
        O::ListItems(path) | O::ReadChangeFeed(path) | O::QueryItems(path) => (path, None),
        O::PlanQuery(path) | O::ExecuteBatch(path) => (path, None),
        O::CreateItem(path) | O::UpsertItem(path) => (path, None),
        O::ListConflicts(path) | O::QueryConflicts(path) => (path, None),
        O::ReadItem(path) | O::ReplaceItem(path) | O::PatchItem(path) | O::DeleteItem(path) => {
            (path.container, Some(("docs", path.item)))
        }
        O::ListAttachments(path) => (path.container, Some(("docs", path.item))),
        O::ListScripts { container, .. } | O::QueryScripts { container, .. } => (container, None),
        O::CreateScript { container, .. } => (container, None),
        O::ReadScript(path)
        | O::ReplaceScript(path)
        | O::DeleteScript(path)
        | O::ExecuteProcedure(path) => (path.container, Some((path.kind.segment(), path.script))),
        O::ReadConflict { container, conflict } | O::DeleteConflict { container, conflict } => {
            (container, Some(("conflicts", conflict)))
        }
        _ => return None,
    })
}
