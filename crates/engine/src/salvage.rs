//! The items of a damaged data folder, as far as they can be read.
//!
//! Names of databases and containers come from `meta`, texts from `items`; nothing else is needed. Each
//! item is checked to be JSON before it is handed out.

use crate::catalog::stored::{StoredContainer, StoredDatabase, StoredEntry};
use crate::keys::Meta;
use crate::record::Record;
use armilla_model::json;
use armilla_storage::{Keyspace, Loss, Salvage, StoreError};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

/// An item that was read.
pub struct SalvagedItem<'a> {
    /// The names of its database and container, unless they are lost.
    pub names: Option<(&'a str, &'a str)>,
    /// The container's number, which is in every key.
    pub container: u32,
    /// Its JSON text, with system properties.
    pub text: &'a [u8],
}

/// Shows every item that can be read, in no order; returns what could not. The folder is only read.
pub fn salvage(
    folder: &Path,
    visit: &mut dyn FnMut(SalvagedItem<'_>),
) -> Result<Vec<Loss>, StoreError> {
    let mut store = Salvage::open(folder)?;
    let mut catalog = Names::default();
    store.read(Keyspace::Meta, &mut |key, value| catalog.add(key, &value));
    let mut malformed = 0_u64;
    store.read(Keyspace::Items, &mut |key, value| {
        let container = key.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
        if catalog.dropped.contains(&container) {
            return;
        }
        let Ok(record) = Record::new(value) else {
            malformed += 1;
            return;
        };
        if record.is_tombstone() {
            return;
        }
        let text = record.text();
        if json::parse(&text).is_err() {
            malformed += 1;
            return;
        }
        visit(SalvagedItem { names: catalog.names(container), container, text: &text });
    });
    let mut losses = store.losses().to_vec();
    losses.extend(catalog.losses);
    if malformed > 0 {
        let reason = format!("{malformed} stored items are no items");
        losses.push(Loss { place: Keyspace::Items.name().to_owned(), reason });
    }
    Ok(losses)
}

#[derive(Default)]
struct Names {
    databases: HashMap<u32, Arc<str>>,
    /// Database and name by number.
    containers: HashMap<u32, (u32, Arc<str>)>,
    dropped: HashSet<u32>,
    losses: Vec<Loss>,
}

impl Names {
    fn add(&mut self, key: &[u8], value: &[u8]) {
        let number = |at: usize| key.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
        let added = match (key.first(), number(1), number(5)) {
            (Some(kind), Some(database), None) if *kind == Meta::Database as u8 => {
                let entry = StoredEntry::read(value).and_then(|entry| StoredDatabase::read(&entry));
                entry.map(|entry| drop(self.databases.insert(database, entry.name)))
            }
            (Some(kind), Some(database), Some(number)) if *kind == Meta::Container as u8 => {
                let entry =
                    StoredEntry::read(value).and_then(|entry| StoredContainer::read(&entry));
                entry.map(|entry| drop(self.containers.insert(number, (database, entry.name))))
            }
            (Some(kind), Some(number), None) if *kind == Meta::Garbage as u8 => {
                self.dropped.insert(number);
                Ok(())
            }
            _ => Ok(()),
        };
        if let Err(error) = added {
            self.losses.push(Loss { place: "meta".to_owned(), reason: error.to_string() });
        }
    }

    fn names(&self, container: u32) -> Option<(&str, &str)> {
        let (database, name) = self.containers.get(&container)?;
        Some((self.databases.get(database)?, name))
    }
}
