//! Databases: create and delete.

use super::{Account, Change};
use crate::catalog::Database;
use crate::catalog::stored::StoredDatabase;
use crate::keys::Meta;
use crate::names::check_name;
use crate::offers::Throughput;
use armilla_model::error::{Error, Result};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

impl Account {
    /// Creates a database, with shared throughput if any is given.
    pub fn create_database(
        &self,
        name: &str,
        throughput: Option<Throughput>,
    ) -> Result<Arc<Database>> {
        check_name(name)?;
        if throughput.is_some() && self.options.serverless {
            return Err(super::containers::not_provisioned());
        }
        self.change(|change| {
            if change.catalog.databases.contains_key(name) {
                return Err(Error::conflict());
            }
            let (number, (etag, ts)) = (change.number(), change.stamp());
            let database = Arc::new(Database {
                number,
                name: name.into(),
                etag,
                ts,
                containers: HashMap::new(),
                users: BTreeMap::new(),
                encryption_keys: BTreeMap::new(),
            });
            change.put(Meta::Database, &[number], StoredDatabase::write(name, etag, ts));
            if let Some(throughput) = throughput {
                change.create_offer(&database.self_link(), &database.rid_text(), throughput);
            }
            change.catalog.databases.insert(database.name.clone(), database.clone());
            Ok(database)
        })
    }

    /// Deletes a database and everything in it.
    pub fn delete_database(&self, segment: &str, if_match: Option<&str>) -> Result<()> {
        let containers = self.change(|change| {
            let database = change.database(segment)?;
            database.etag.check(if_match)?;
            for container in database.containers.values() {
                change.account.retire(container);
                change.drop_container(container);
            }
            change.drop_users(&database);
            change.drop_encryption_keys(&database);
            change.drop_offer(&database.self_link());
            change.delete(Meta::Database, &[database.number]);
            change.catalog.databases.remove(&database.name);
            Ok(database.containers.values().cloned().collect::<Vec<_>>())
        })?;
        containers.iter().for_each(|container| container.mark_dropped());
        Ok(())
    }
}

impl Change<'_> {
    fn drop_users(&mut self, database: &Database) {
        for user in database.users.values() {
            self.drop_user(database.number, user);
        }
    }
}
