//! The catalog: databases, containers, users and offers, all in memory, durable in `meta`.
//!
//! Readers take the whole catalog as one immutable value; a change makes a new one. Changes are
//! rare, small, and one at a time.

pub(crate) mod stored;

use crate::container::Container;
use crate::encryption::EncryptionKey;
use crate::offers::Offer;
use crate::users::User;
use armilla_model::etag::ETag;
use armilla_model::rid;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Everything there is.
#[derive(Clone, Default)]
pub struct Catalog {
    /// Databases by name.
    pub databases: HashMap<Arc<str>, Arc<Database>>,
    /// Offers by number.
    pub offers: BTreeMap<u32, Arc<Offer>>,
}

/// A database.
#[derive(Clone)]
pub struct Database {
    /// Number in keys and rids.
    pub number: u32,
    /// Name.
    pub name: Arc<str>,
    /// Version.
    pub etag: ETag,
    /// Second of the last change.
    pub ts: u64,
    /// Containers by name.
    pub containers: HashMap<Arc<str>, Arc<Container>>,
    /// Users by name.
    pub users: BTreeMap<Arc<str>, Arc<User>>,
    /// Client encryption keys by name.
    pub encryption_keys: BTreeMap<Arc<str>, Arc<EncryptionKey>>,
}

impl Catalog {
    /// A database by name, or else by rid.
    pub fn database(&self, segment: &str) -> Option<&Arc<Database>> {
        self.databases.get(segment).or_else(|| {
            let bytes: [u8; 4] = rid::decode(segment)?.try_into().ok()?;
            let number = u32::from_be_bytes(bytes);
            self.databases.values().find(|database| database.number == number)
        })
    }

    /// The offer of a database or container, by its `_self`.
    pub fn offer_of(&self, self_link: &str) -> Option<&Arc<Offer>> {
        self.offers.values().find(|offer| &*offer.resource == self_link)
    }
}

impl Database {
    /// The rid as text.
    pub fn rid_text(&self) -> String {
        rid::encode(&rid::database(self.number))
    }

    /// `dbs/…/`.
    pub fn self_link(&self) -> String {
        format!("dbs/{}/", self.rid_text())
    }

    /// A container by name, or else by rid: what clients mean by a segment of a path.
    pub fn container(&self, segment: &str) -> Option<&Arc<Container>> {
        self.containers.get(segment).or_else(|| self.container_of_rid(segment))
    }

    /// A container by rid alone. Another container may have this text as its name.
    pub fn container_of_rid(&self, rid_text: &str) -> Option<&Arc<Container>> {
        let bytes: [u8; 8] = rid::decode(rid_text)?.try_into().ok()?;
        self.containers.values().find(|container| container.rid == bytes)
    }

    /// A user by name, or else by rid.
    pub fn user(&self, segment: &str) -> Option<&Arc<User>> {
        self.users.get(segment).or_else(|| {
            let bytes: [u8; 8] = rid::decode(segment)?.try_into().ok()?;
            self.users.values().find(|user| rid::user(self.number, user.number) == bytes)
        })
    }

    /// A client encryption key by name, or else by rid.
    pub fn encryption_key(&self, segment: &str) -> Option<&Arc<EncryptionKey>> {
        self.encryption_keys.get(segment).or_else(|| {
            let bytes: [u8; 16] = rid::decode(segment)?.try_into().ok()?;
            let has_rid =
                |key: &&Arc<EncryptionKey>| rid::encryption_key(self.number, key.number) == bytes;
            self.encryption_keys.values().find(has_rid)
        })
    }
}
