//! Point reads: one get, no parsing, no lock.

use crate::address::ItemAddress;
use crate::container::{Container, Settings};
use crate::record::Record;
use crate::txn::Txn;
use armilla_model::charge::{Rates, RequestCharge};
use armilla_model::error::Result;
use armilla_model::etag::ETag;
use armilla_model::partition_key::{Epk, PartitionKey};
use armilla_model::rid;
use bytes::Bytes;

/// An item as a reader gets it.
#[derive(Clone, Debug)]
pub struct Item {
    /// Its JSON text, system properties included.
    pub text: Bytes,
    /// Its version.
    pub etag: ETag,
    /// Transaction that wrote it.
    pub lsn: armilla_model::lsn::Lsn,
}

impl Item {
    /// The item of a stored record.
    pub fn of(record: &Record) -> Self {
        Self { text: record.text(), etag: record.etag(), lsn: record.lsn() }
    }

    /// What reading it costs.
    pub fn read_charge(&self, rates: &Rates) -> RequestCharge {
        rates.read(self.text.len())
    }
}

impl ItemAddress {
    /// The item with this id, unless it has expired.
    pub fn read_item(&self, id: &str) -> Result<Option<Item>> {
        self.container.read_at(&self.settings, &self.epk, id)
    }

    /// The item that a path names: by id, or else by the ordinal in its rid.
    pub fn read_item_by_segment(&self, segment: &str) -> Result<Option<Item>> {
        if let Some(item) = self.read_item(segment)? {
            return Ok(Some(item));
        }
        match self.id_of_rid(segment)? {
            Some(id) => self.read_item(&id),
            None => Ok(None),
        }
    }

    /// The id of the item that a rid names.
    pub fn id_of_rid(&self, segment: &str) -> Result<Option<String>> {
        let Self { container, epk, partition, .. } = self;
        let Some(bytes) = rid::decode(segment) else { return Ok(None) };
        let Some((owner, docno)) = rid::split_document(&bytes) else {
            return Ok(None);
        };
        if owner != container.rid {
            return Ok(None);
        }
        let (root, published) = container.core.consistent_view(partition);
        let Some(located) = published.view.find(epk.as_bytes(), docno) else { return Ok(None) };
        let found = container.find_by_docno(&*root.snapshot, epk, located.document.hash, docno)?;
        let Some(record) = found else { return Ok(None) };
        let value = crate::txn::parse_stored(&record.text())?;
        Ok(value.get("id").and_then(armilla_model::Value::as_str).map(str::to_owned))
    }
}

impl Container {
    /// The item with this id in this logical partition, for whoever has no address at hand.
    pub fn read_item(&self, key: &PartitionKey, id: &str) -> Result<Option<Item>> {
        self.key_definition().check_full(key)?;
        self.read_at(&self.settings(), &self.key_definition().epk(key), id)
    }

    fn read_at(&self, settings: &Settings, epk: &Epk, id: &str) -> Result<Option<Item>> {
        let root = self.core.root.load();
        let slot = self.locate(&*root.snapshot, epk, id)?;
        let now = u64::from(self.core.now_seconds());
        let liveness = settings.policy.liveness(now);
        let alive = |record: &Record| record.is_alive(liveness);
        Ok(slot.record.filter(alive).as_ref().map(Item::of))
    }
}

impl Txn {
    /// The item as this transaction sees it: its own writes over the snapshot.
    pub fn read_item(&self, id: &str) -> Result<Option<Item>> {
        Ok(self.find(id)?.map(|current| current.into_item()))
    }
}
