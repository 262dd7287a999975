//! Resource tokens: what a permission allows, sealed so that only this server can have written it.
//!
//! A token is `type=resource&ver=1.0&sig={mac};{grant};` with the grant as base64 of a JSON array
//! and the mac over exactly that text. It names the permission it was issued for and the container by
//! `_rid`: [`Standing`] is asked at every request whether that permission is still there in the version
//! that the token was issued for, and whether the path leads to that container and not to a later one
//! of the same name.

use super::{Denied, unauthorized};
use crate::headers::RequestContext;
use crate::routes::{ContainerPath, Operation};
use armilla_model::partition_key::PartitionKey;
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

/// The permission behind a token, by names and by number: names to find it by, the rest to know it by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermissionId {
    /// Name of the database of the user.
    pub database: String,
    /// Name of the user.
    pub user: String,
    /// Name of the permission.
    pub permission: String,
    /// `_rid` of the permission, which begins with that of the user.
    pub rid: String,
    /// `_etag` of the permission.
    pub etag: String,
}

/// An item or script below a container: its kind as a path segment, its name and its `_rid`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// `docs`, `sprocs`, `triggers`, `udfs` or `conflicts`.
    pub kind: String,
    /// Its name as the permission has it.
    pub name: String,
    /// Its `_rid` where that is known, else the name again.
    pub rid: String,
}

/// The content of a resource token.
#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    /// The permission it was issued for.
    pub issued_for: PermissionId,
    /// `_rid` of the container; empty when there was none, and then nothing is allowed.
    pub container_rid: String,
    /// The one thing in the container that is allowed, if it is not all of it.
    pub leaf: Option<Leaf>,
    /// What is allowed.
    pub mode: PermissionMode,
    /// The one logical partition, or the prefix of several, that is allowed. An empty key allows none.
    pub partition_key: Option<PartitionKey>,
    /// Seconds since 1970.
    pub expires_at: u64,
}

/// What authorisation asks of the catalog.
pub trait Standing {
    /// The `_rid` of the container that a path leads to now.
    fn container_rid(&self, path: ContainerPath<'_>) -> Option<String> {
        let _ = path;
        None
    }

    /// Whether a permission is still there, in this version.
    fn permission_stands(&self, permission: &PermissionId) -> bool {
        let _ = permission;
        false
    }
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
    /// Refuses a token whose permission or user is gone, or was changed since.
    pub(super) fn check_standing(&self, standing: &impl Standing) -> Result<()> {
        if standing.permission_stands(&self.issued_for) {
            return Ok(());
        }
        forbidden(
            "The permission of this resource token was deleted or changed; read it for a fresh token.",
        )
    }

    /// Refuses operations beyond the permission.
    ///
    /// Every token allows reading its container and the container's ranges, which SDKs do before
    /// anything else.
    pub(super) fn check(
        &self,
        operation: &Operation<'_>,
        context: &RequestContext<'_>,
        standing: &impl Standing,
    ) -> Result<()> {
        let Some((container, leaf)) = target(operation) else {
            return forbidden("A resource token does not allow operations on the account.");
        };
        let rid = standing.container_rid(container);
        if rid.is_none_or(|rid| rid.is_empty() || rid != self.container_rid) {
            return forbidden("The resource token is for another resource.");
        }
        if matches!(operation, Operation::ReadContainer(_) | Operation::ReadPartitionKeyRanges(_)) {
            return Ok(());
        }
        if self.leaf.as_ref().is_some_and(|granted| !granted.is(leaf)) {
            return forbidden("The resource token is for another resource.");
        }
        if self.mode == PermissionMode::Read && !operation.is_read() {
            return forbidden("The permission's mode is Read; the operation writes.");
        }
        match operation.reach(context) {
            _ if self.partition_key.is_none() => Ok(()),
            Reach::Container => {
                forbidden("A resource token for one partition key is for work on its items alone.")
            }
            // Each operation brings its key in the body, where it is checked.
            Reach::KeysOfBody | Reach::Nothing => Ok(()),
            Reach::KeyOfHeader => match context.key() {
                Some(key) if self.covers_key(&key) => Ok(()),
                Some(_) => forbidden("The resource token is for another partition key."),
                None => forbidden(
                    "The resource token is for one partition key: name it in the header \
                     x-ms-documentdb-partitionkey.",
                ),
            },
        }
    }

    /// Whether the token allows work on the items of a partition key: its own, or one below the
    /// prefix it is for.
    pub fn covers_key(&self, key: &PartitionKey) -> bool {
        let Some(granted) = &self.partition_key else { return true };
        !granted.0.is_empty() && key.0.starts_with(&granted.0)
    }

    fn to_json(&self) -> Vec<u8> {
        let text = |text: &str| Value::string(text);
        let key = self.partition_key.as_ref().map(PartitionKey::to_header);
        let expires = i64::try_from(self.expires_at).unwrap_or(i64::MAX);
        let id = &self.issued_for;
        let fields = vec![
            text(&id.database),
            text(&id.user),
            text(&id.permission),
            text(&id.rid),
            text(&id.etag),
            text(&self.container_rid),
            self.leaf.as_ref().map_or(Value::Null, |leaf| {
                Value::array(vec![text(&leaf.kind), text(&leaf.name), text(&leaf.rid)])
            }),
            Value::Bool(self.mode == PermissionMode::All),
            key.as_deref().map_or(Value::Null, text),
            Value::Number(Number::Int(expires)),
        ];
        Value::array(fields).to_json().into_bytes()
    }

    fn from_json(text: &[u8]) -> Option<Self> {
        let fields = json::parse(text).ok()?;
        let [database, user, permission, rid, etag, container, leaf, all, key, expires] =
            fields.as_array()?
        else {
            return None;
        };
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let leaf = match leaf {
            Value::Null => None,
            leaf => match leaf.as_array()? {
                [kind, name, rid] => {
                    Some(Leaf { kind: text(kind)?, name: text(name)?, rid: text(rid)? })
                }
                _ => return None,
            },
        };
        let partition_key = match key {
            Value::Null => None,
            key => Some(PartitionKey::parse(key.as_str()?).ok()?),
        };
        Some(Self {
            issued_for: PermissionId {
                database: text(database)?,
                user: text(user)?,
                permission: text(permission)?,
                rid: text(rid)?,
                etag: text(etag)?,
            },
            container_rid: text(container)?,
            leaf,
            mode: if all.as_bool()? { PermissionMode::All } else { PermissionMode::Read },
            partition_key,
            expires_at: u64::try_from(expires.as_i64()?).ok()?,
        })
    }
}

impl Leaf {
    /// Whether an operation is about this item or script.
    fn is(&self, wanted: Option<(&str, &str)>) -> bool {
        wanted.is_some_and(|(kind, id)| kind == self.kind && (id == self.name || id == self.rid))
    }
}

fn forbidden(message: &str) -> Result<()> {
    Err(Error::Forbidden(message.to_owned()))
}

/// How much of a container an operation touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// The items of the partition key in the header.
    KeyOfHeader,
    /// The items of the partition keys that the operations in the body name.
    KeysOfBody,
    /// No item: the plan of a query.
    Nothing,
    /// The container itself, its scripts and policies.
    Container,
}

impl Operation<'_> {
    /// What a token for one partition key may do is listed; all else touches the container.
    fn reach(&self, context: &RequestContext<'_>) -> Reach {
        match self {
            Self::ExecuteBatch(_) if context.is_bulk() => Reach::KeysOfBody,
            Self::PlanQuery(_) => Reach::Nothing,
            Self::ListItems(_)
            | Self::ReadChangeFeed(_)
            | Self::QueryItems(_)
            | Self::ExecuteBatch(_)
            | Self::CreateItem(_)
            | Self::UpsertItem(_)
            | Self::ReadItem(_)
            | Self::ReplaceItem(_)
            | Self::PatchItem(_)
            | Self::DeleteItem(_)
            | Self::ListAttachments(_)
            | Self::ExecuteProcedure(_)
            | Self::DeletePartitionKey(_) => Reach::KeyOfHeader,
            _ => Reach::Container,
        }
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
