//! Users and permissions: create, replace, delete.

use super::{Account, Change};
use crate::catalog::Database;
use crate::catalog::stored::{write_permission, write_user};
use crate::keys::Meta;
use crate::names::check_name;
use crate::users::{Mode, Permission, User};
use armilla_model::error::{Error, Result};
use armilla_model::partition_key::PartitionKey;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a client asks for.
pub struct NewPermission<'a> {
    /// Its name.
    pub name: &'a str,
    /// How much it allows.
    pub mode: Mode,
    /// The mode as its owner spelled it.
    pub spelling: Arc<str>,
    /// The resource.
    pub resource: &'a str,
    /// The one logical partition.
    pub partition_key: Option<PartitionKey>,
}

impl Account {
    /// Creates a user; with `upsert` an existing one is taken as it is.
    pub fn create_user(
        &self,
        database: &str,
        name: &str,
        upsert: bool,
    ) -> Result<(Arc<User>, bool)> {
        check_name(name)?;
        self.change(|change| {
            let database = change.database(database)?;
            if let Some(user) = database.users.get(name) {
                return if upsert { Ok((user.clone(), false)) } else { Err(Error::conflict()) };
            }
            let (number, (etag, ts)) = (change.number(), change.stamp());
            let user = User { number, name: name.into(), etag, ts, permissions: BTreeMap::new() };
            change.put(Meta::User, &[database.number, number], write_user(&user));
            let user = Arc::new(user);
            change.set_user(&database, None, user.clone());
            Ok((user, true))
        })
    }

    /// Renames a user.
    pub fn replace_user(
        &self,
        database: &str,
        user: &str,
        name: &str,
        if_match: Option<&str>,
    ) -> Result<Arc<User>> {
        check_name(name)?;
        self.change(|change| {
            let database = change.database(database)?;
            let before = database.user(user).cloned().ok_or_else(Error::not_found)?;
            before.etag.check(if_match)?;
            if *before.name != *name && database.users.contains_key(name) {
                return Err(Error::conflict());
            }
            let (etag, ts) = change.stamp();
            let user = Arc::new(User { name: name.into(), etag, ts, ..User::clone(&before) });
            change.put(Meta::User, &[database.number, user.number], write_user(&user));
            change.set_user(&database, Some(&before.name), user.clone());
            Ok(user)
        })
    }

    /// Deletes a user with its permissions.
    pub fn delete_user(&self, database: &str, user: &str, if_match: Option<&str>) -> Result<()> {
        self.change(|change| {
            let database = change.database(database)?;
            let user = database.user(user).cloned().ok_or_else(Error::not_found)?;
            user.etag.check(if_match)?;
            change.drop_user(database.number, &user);
            let mut database = Database::clone(&database);
            database.users.remove(&user.name);
            change.set_database(database);
            Ok(())
        })
    }

    /// Creates a permission, or replaces the one of that name with `upsert`.
    pub fn create_permission(
        &self,
        database: &str,
        user: &str,
        new: NewPermission<'_>,
        upsert: bool,
    ) -> Result<(Arc<Permission>, bool)> {
        check_name(new.name)?;
        self.change(|change| {
            let (database, user) = change.user(database, user)?;
            let existing = user.permissions.get(new.name).cloned();
            if existing.is_some() && !upsert {
                return Err(Error::conflict());
            }
            refuse_second(&user, &new, existing.as_deref())?;
            let number = existing.as_ref().map(|permission| permission.number);
            let created = number.is_none();
            let number = number.unwrap_or_else(|| change.number());
            let replaced = existing.as_ref().map(|permission| permission.name.clone());
            Ok((change.put_permission(&database, &user, number, replaced, new), created))
        })
    }

    /// Replaces a permission.
    pub fn replace_permission(
        &self,
        database: &str,
        user: &str,
        permission: &str,
        new: NewPermission<'_>,
        if_match: Option<&str>,
    ) -> Result<Arc<Permission>> {
        check_name(new.name)?;
        self.change(|change| {
            let (database, user) = change.user(database, user)?;
            let before = find_permission(&user, permission)?;
            before.etag.check(if_match)?;
            refuse_second(&user, &new, Some(&before))?;
            Ok(change.put_permission(
                &database,
                &user,
                before.number,
                Some(before.name.clone()),
                new,
            ))
        })
    }

    /// Deletes a permission.
    pub fn delete_permission(
        &self,
        database: &str,
        user: &str,
        permission: &str,
        if_match: Option<&str>,
    ) -> Result<()> {
        self.change(|change| {
            let (database, user) = change.user(database, user)?;
            let permission = find_permission(&user, permission)?;
            permission.etag.check(if_match)?;
            change.delete(Meta::Permission, &[database.number, user.number, permission.number]);
            let mut user = User::clone(&user);
            user.permissions.remove(&permission.name);
            let name = user.name.clone();
            change.set_user(&database, Some(&name), Arc::new(user));
            Ok(())
        })
    }
}

/// A permission by name, or else by the number in its rid.
pub(crate) fn find_permission(user: &User, segment: &str) -> Result<Arc<Permission>> {
    let by_rid = || {
        let bytes = armilla_model::rid::decode(segment)?;
        let number = u64::from_be_bytes(bytes.get(8..16)?.try_into().ok()?);
        user.permissions.values().find(|permission| u64::from(permission.number) == number)
    };
    user.permissions.get(segment).or_else(by_rid).cloned().ok_or_else(Error::not_found)
}

/// A user has one permission per resource and partition key.
fn refuse_second(
    user: &User,
    new: &NewPermission<'_>,
    replaced: Option<&Permission>,
) -> Result<()> {
    let same_target = |permission: &&Arc<Permission>| {
        permission.resource.trim_matches('/') == new.resource.trim_matches('/')
            && permission.partition_key == new.partition_key
            && replaced.is_none_or(|replaced| replaced.number != permission.number)
    };
    if user.permissions.values().any(|permission| same_target(&permission)) {
        return Err(Error::Conflict(
            "This user already has a permission for that resource.".to_owned(),
        ));
    }
    Ok(())
}

impl Change<'_> {
    pub(super) fn user(&self, database: &str, user: &str) -> Result<(Arc<Database>, Arc<User>)> {
        let database = self.database(database)?;
        let user = database.user(user).cloned().ok_or_else(Error::not_found)?;
        Ok((database, user))
    }

    fn set_user(&mut self, database: &Database, replaced: Option<&str>, user: Arc<User>) {
        let mut database = database.clone();
        if let Some(name) = replaced {
            database.users.remove(name);
        }
        database.users.insert(user.name.clone(), user);
        self.set_database(database);
    }

    pub(super) fn put_permission(
        &mut self,
        database: &Database,
        user: &User,
        number: u32,
        replaced: Option<Arc<str>>,
        new: NewPermission<'_>,
    ) -> Arc<Permission> {
        let (etag, ts) = self.stamp();
        let permission = Arc::new(Permission {
            number,
            name: new.name.into(),
            mode: new.mode,
            spelling: new.spelling,
            resource: new.resource.into(),
            partition_key: new.partition_key,
            etag,
            ts,
        });
        let key = [database.number, user.number, number];
        self.put(Meta::Permission, &key, write_permission(&permission));
        let mut user = user.clone();
        if let Some(name) = replaced {
            user.permissions.remove(&name);
        }
        user.permissions.insert(permission.name.clone(), permission.clone());
        let name = user.name.clone();
        self.set_user(database, Some(&name), Arc::new(user));
        permission
    }

    pub(super) fn drop_user(&mut self, database: u32, user: &User) {
        for permission in user.permissions.values() {
            self.delete(Meta::Permission, &[database, user.number, permission.number]);
        }
        self.delete(Meta::User, &[database, user.number]);
    }
}
