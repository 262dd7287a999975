//! Client encryption keys: create and replace. Nothing deletes a key but the end of its database, so that the policy of a
//! container never names one that is gone.

use super::{Account, Change};
use crate::catalog::Database;
use crate::catalog::stored::write_encryption_key;
use crate::encryption::{EncryptionKey, NewEncryptionKey};
use crate::keys::Meta;
use crate::names::check_name;
use armilla_model::error::{Error, Result};
use armilla_model::limits::ENCRYPTION_KEYS_MAX;
use armilla_model::policy::ContainerPolicy;
use std::sync::Arc;

impl Account {
    /// Keeps a new key.
    pub fn create_encryption_key(
        &self,
        database: &str,
        new: NewEncryptionKey,
    ) -> Result<Arc<EncryptionKey>> {
        check_name(&new.name)?;
        self.change(|change| {
            let database = change.database(database)?;
            if database.encryption_keys.contains_key(new.name.as_str()) {
                return Err(Error::conflict());
            }
            if database.encryption_keys.len() >= ENCRYPTION_KEYS_MAX {
                return Err(Error::bad_request(format!(
                    "A database may have at most {ENCRYPTION_KEYS_MAX} client encryption keys. Use one of them for \
                     several containers, or replace it with another key under its name."
                )));
            }
            let (number, (etag, ts)) = (change.number(), change.stamp());
            let NewEncryptionKey { name, definition } = new;
            let key =
                EncryptionKey { number, name: name.into(), etag, ts, created: ts, definition };
            Ok(change.set_encryption_key(&database, key))
        })
    }

    /// Replaces what a key is wrapped with.
    pub fn replace_encryption_key(
        &self,
        database: &str,
        key: &str,
        new: NewEncryptionKey,
        if_match: Option<&str>,
    ) -> Result<Arc<EncryptionKey>> {
        self.change(|change| {
            let database = change.database(database)?;
            let before = database.encryption_key(key).cloned().ok_or_else(Error::not_found)?;
            before.etag.check(if_match)?;
            if *before.name != *new.name {
                return Err(Error::bad_request("The id of a client encryption key cannot change."));
            }
            let (etag, ts) = change.stamp();
            let key = EncryptionKey {
                etag,
                ts,
                definition: new.definition,
                ..EncryptionKey::clone(&before)
            };
            Ok(change.set_encryption_key(&database, key))
        })
    }
}

impl Change<'_> {
    fn set_encryption_key(
        &mut self,
        database: &Database,
        key: EncryptionKey,
    ) -> Arc<EncryptionKey> {
        let numbers = [database.number, key.number];
        self.put(Meta::EncryptionKey, &numbers, write_encryption_key(&key));
        let key = Arc::new(key);
        let mut database = database.clone();
        database.encryption_keys.insert(key.name.clone(), key.clone());
        self.set_database(database);
        key
    }

    /// Removes the keys of a database that is deleted.
    pub(super) fn drop_encryption_keys(&mut self, database: &Database) {
        for key in database.encryption_keys.values() {
            self.delete(Meta::EncryptionKey, &[database.number, key.number]);
        }
    }
}

/// Every key that a container's policy names must be there, in the service's words.
pub(super) fn check_keys(database: &Database, policy: &ContainerPolicy) -> Result<()> {
    let missing = |id: &&str| !database.encryption_keys.contains_key(*id);
    match policy.encryption_key_ids().find(missing) {
        None => Ok(()),
        Some(id) => {
            Err(Error::bad_request(format!("ClientEncryptionKey with id '[{id}]' does not exist.")))
        }
    }
}
