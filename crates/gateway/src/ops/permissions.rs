//! Permissions. Whoever may read one gets a fresh token with it, every time.

use super::{EngineService, databases};
use crate::reply::FeedKind;
use crate::routes::{Operation, UserPath, WriteMode};
use crate::wire::{self, page, permission, user};
use crate::{Call, Reply};
use armilla_engine::catalog::{Catalog, Database};
use armilla_engine::users::{Permission, User};
use armilla_model::rid;
use armilla_model::value::Object;
use armilla_model::{Error, Result};
use http::StatusCode;
use std::sync::Arc;

pub(super) async fn answer(service: &EngineService, call: &Call<'_>) -> Result<Reply> {
    match call.operation {
        Operation::ListPermissions(path) => {
            let owner = PermissionOwner::find(service, call, path)?;
            let reply = page::list(
                service.authenticator.seal(),
                call,
                FeedKind::Permissions,
                &owner.rid(),
                owner.rows(),
            )?;
            Ok(owner.about(reply))
        }
        Operation::QueryPermissions(path) => {
            let owner = PermissionOwner::find(service, call, path)?;
            let (kind, rid) = (FeedKind::Permissions, owner.rid());
            let reply = databases::query(service, call, kind, &rid, owner.rows()).await?;
            Ok(owner.about(reply))
        }
        Operation::CreatePermission { user, mode } => create(service, call, user, mode).await,
        Operation::ReadPermission { user, permission } => {
            let owner = PermissionOwner::find(service, call, user)?;
            let found = owner.permission(permission)?;
            let reply = wire::read_reply(call, found.etag, &owner.shape(&found));
            Ok(owner.about(reply))
        }
        Operation::ReplacePermission { user, permission } => {
            replace(service, call, user, permission).await
        }
        Operation::DeletePermission { user, permission } => {
            delete(service, call, user, permission).await
        }
        _ => Err(wire::misrouted(call)),
    }
}

/// A user as the owner of permissions, with what their tokens are made from.
struct PermissionOwner<'s> {
    service: &'s EngineService,
    catalog: Arc<Catalog>,
    database: Arc<Database>,
    user: Arc<User>,
    expires_at: u64,
}

impl<'s> PermissionOwner<'s> {
    fn find(service: &'s EngineService, call: &Call<'_>, path: UserPath<'_>) -> Result<Self> {
        let catalog = service.account.catalog();
        let database = catalog.database(path.database).cloned();
        let database = database.ok_or_else(Error::parent_not_found)?;
        let user = database.user(path.user).cloned().ok_or_else(Error::parent_not_found)?;
        let life = permission::token_life(call.context.token_expiry_seconds)?;
        let expires_at = service.account.clock().now_seconds() + u64::from(life);
        Ok(Self { service, catalog, database, user, expires_at })
    }

    fn rid(&self) -> String {
        user::rid_text(&self.database, &self.user)
    }

    /// A permission by name, or else by rid.
    fn permission(&self, segment: &str) -> Result<Arc<Permission>> {
        let owner = rid::user(self.database.number, self.user.number);
        let has_rid = |found: &&Arc<Permission>| {
            rid::encode(&rid::permission(owner, u64::from(found.number))) == segment
        };
        let permissions = &self.user.permissions;
        let found = permissions.get(segment).or_else(|| permissions.values().find(has_rid));
        found.cloned().ok_or_else(Error::not_found)
    }

    fn rows(&self) -> Vec<(u32, Object)> {
        let row = |found: &Arc<Permission>| (found.number, self.shape(found));
        self.user.permissions.values().map(row).collect()
    }

    fn shape(&self, found: &Permission) -> Object {
        let grant =
            permission::grant(&self.catalog, &self.database, &self.user, found, self.expires_at);
        let token = self.service.authenticator.issue_token(&grant);
        permission::shape(&self.database, &self.user, found, token)
    }

    fn about(&self, reply: Reply) -> Reply {
        user::owned_by(reply, &self.database, &self.user)
    }

    fn written(&self, status: StatusCode, written: &Permission) -> Reply {
        self.about(wire::write_reply(status, written.etag, &self.shape(written)))
    }

    /// Names under which the engine finds the user.
    fn names(&self) -> (Arc<str>, Arc<str>) {
        (self.database.name.clone(), self.user.name.clone())
    }
}

async fn create(
    service: &EngineService,
    call: &Call<'_>,
    path: UserPath<'_>,
    mode: WriteMode,
) -> Result<Reply> {
    let owner = PermissionOwner::find(service, call, path)?;
    let body = wire::object(&call.body)?;
    permission::check_key(&owner.catalog, &permission::read(&body)?)?;
    let (database, user) = owner.names();
    let upsert = mode == WriteMode::Upsert;
    let (written, created) = service
        .blocking(move |account| {
            account.create_permission(&database, &user, permission::read(&body)?, upsert)
        })
        .await?;
    Ok(owner.written(wire::status_of_upsert(created), &written))
}

async fn replace(
    service: &EngineService,
    call: &Call<'_>,
    path: UserPath<'_>,
    segment: &str,
) -> Result<Reply> {
    let owner = PermissionOwner::find(service, call, path)?;
    let body = wire::object(&call.body)?;
    permission::check_key(&owner.catalog, &permission::read(&body)?)?;
    let name = owner.permission(segment)?.name.clone();
    let (database, user) = owner.names();
    let if_match = call.context.if_match.map(str::to_owned);
    let replaced = service
        .blocking(move |account| {
            let new = permission::read(&body)?;
            account.replace_permission(&database, &user, &name, new, if_match.as_deref())
        })
        .await?;
    Ok(owner.written(StatusCode::OK, &replaced))
}

async fn delete(
    service: &EngineService,
    call: &Call<'_>,
    path: UserPath<'_>,
    segment: &str,
) -> Result<Reply> {
    let owner = PermissionOwner::find(service, call, path)?;
    let name = owner.permission(segment)?.name.clone();
    let (database, user) = owner.names();
    let if_match = call.context.if_match.map(str::to_owned);
    service
        .blocking(move |account| {
            account.delete_permission(&database, &user, &name, if_match.as_deref())
        })
        .await?;
    Ok(owner.about(wire::delete_reply()))
}
