//! Capped views: of every key only the items that come first by a path, such as the hundred newest.
//!
//! The view keeps the standing of *every* source item: its key in the view and its rank there ([`Standing`]),
//! and an entry in the order of that key. The copies of a key are the first few of its order. When a page has
//! changed the order of a key, the copies that are there are compared with those that should be: one comes
//! in, another goes out. All standings of a page are committed with its position, behind the copies. Before the copies
//! stands a list of the keys that they are for: the first page after one that was cut off compares these again, even if
//! the items that led there are gone by then.

use super::apply::{Copied, PagePlan};
use super::definition::Cap;
use super::elsewhere::Lookup;
use super::page::SourceEntry;
use super::placement;
use super::project;
use super::{ContainerView, apply};
use crate::container::Container;
use crate::keys::{self, Meta};
use crate::record::Record;
use crate::store_failure;
use crate::txn::parse_stored;
use armilla_model::error::Result;
use armilla_model::lsn::Lsn;
use armilla_model::ordered;
use armilla_model::partition_key::Epk;
use armilla_model::rid;
use armilla_model::value::Value;
use armilla_storage::keycode::KeyWriter;
use armilla_storage::{Direction, KeyRange, Keyspace, Snapshot, StoreError};
use std::collections::{BTreeMap, BTreeSet, HashMap};

const FORMAT: u8 = 2;

/// Where a source item stands in a view.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Standing {
    /// Transaction of the source that it was read from.
    lsn: Lsn,
    /// Effective key in the view.
    epk: Epk,
    /// Effective key of the source item and hash of its id.
    source: (Epk, u64),
    /// Its place in the order of the key; lower bytes come first.
    rank: Vec<u8>,
}

/// What a page does to the order of one key.
#[derive(Default)]
struct Reordered {
    gone: BTreeSet<Vec<u8>>,
    come: BTreeMap<Vec<u8>, u64>,
}

/// A page of a capped view, being planned.
pub(super) struct CappedPage<'p> {
    source: &'p Container,
    target: &'p Container,
    view: &'p ContainerView,
    cap: &'p Cap,
    snapshot: &'p dyn Snapshot,
    lookup: &'p Lookup<'p>,
    orders: BTreeMap<Epk, Reordered>,
    /// Items that the page brought, by ordinal.
    brought: HashMap<u64, (Epk, Copied)>,
}

impl<'p> CappedPage<'p> {
    pub(super) fn new(
        (source, target): (&'p Container, &'p Container),
        (view, cap): (&'p ContainerView, &'p Cap),
        snapshot: &'p dyn Snapshot,
        lookup: &'p Lookup<'p>,
    ) -> Self {
        let (orders, brought) = (BTreeMap::new(), HashMap::new());
        Self { source, target, view, cap, snapshot, lookup, orders, brought }
    }

    /// Takes up the keys of a page that was cut off.
    pub(super) fn take_up(&mut self) -> Result<()> {
        let key = touched_key(self.target.number);
        let stored = self.snapshot.get(Keyspace::Meta, &key).map_err(store_failure)?;
        let mut rest = stored.as_deref().unwrap_or_default();
        while !rest.is_empty() {
            let (epk, behind) = split_epk(rest).map_err(store_failure)?;
            self.orders.entry(epk).or_default();
            rest = behind;
        }
        Ok(())
    }

    /// Takes up an entry: the standings before and after it.
    pub(super) fn add(&mut self, entry: &SourceEntry, plan: &mut PagePlan) -> Result<()> {
        let (number, docno) = (self.target.number, entry.docno);
        let note = placement::key(number, docno);
        let stored = self.snapshot.get(Keyspace::Meta, &note).map_err(store_failure)?;
        let known =
            stored.map(|bytes| Standing::read(&bytes)).transpose().map_err(store_failure)?;
        if let Some(known) = &known {
            if entry.item.is_some() && known.lsn >= entry.lsn {
                return Ok(());
            }
            plan.closing.delete(Keyspace::Meta, order_key(number, &known.epk, &known.rank));
            let order = self.orders.entry(known.epk.clone()).or_default();
            order.gone.insert(known.rank.clone());
        }
        let id = id_of(self.source, docno);
        let item = entry.item.as_ref();
        let wanted = item.and_then(|item| apply::wanted(self.target, self.view, &id, item));
        let (Some((key, epk, copy)), Some(item)) = (wanted, item) else {
            if known.is_some() {
                plan.closing.delete(Keyspace::Meta, note);
            }
            return Ok(());
        };
        let rank = rank(self.cap, item, docno);
        let source = (entry.key.epk.clone(), entry.key.hash);
        let standing = Standing { lsn: entry.lsn, epk: epk.clone(), source, rank: rank.clone() };
        plan.closing.put(Keyspace::Meta, note, standing.write());
        let place = order_key(number, &epk, &rank);
        plan.closing.put(Keyspace::Meta, place, docno.to_be_bytes().to_vec());
        self.orders.entry(epk.clone()).or_default().come.insert(rank, docno);
        self.brought.insert(docno, (epk, Copied { key, item: copy, note: None }));
        Ok(())
    }

    /// Compares the copies of every key whose order has changed with what they should be.
    pub(super) fn close(mut self, plan: &mut PagePlan) -> Result<()> {
        let key = touched_key(self.target.number);
        let mut touched = Vec::new();
        self.orders.keys().for_each(|epk| push_epk(&mut touched, epk));
        plan.opening.put(Keyspace::Meta, key.clone(), touched);
        plan.closing.delete(Keyspace::Meta, key);
        for (epk, order) in std::mem::take(&mut self.orders) {
            let first = self.first_of(&epk, &order)?;
            let present = self.present(&epk)?;
            for docno in &first {
                let brought = self.brought.remove(docno);
                let copied = match brought {
                    Some((of, copied)) if of == epk => Some(copied),
                    _ if present.contains_key(docno) => None,
                    _ => self.promoted(&epk, *docno)?,
                };
                plan.copies.entry(epk.clone()).or_default().extend(copied);
            }
            let out = present.into_iter().filter(|(docno, _)| !first.contains(docno));
            plan.removals.entry(epk).or_default().extend(out.map(|(_, id)| id));
        }
        Ok(())
    }

    /// The ordinals that come first in the order of a key, as the page leaves it.
    fn first_of(&self, epk: &Epk, order: &Reordered) -> Result<BTreeSet<u64>> {
        let prefix = order_key(self.target.number, epk, &[]);
        let count = self.cap.count.saturating_add(order.gone.len());
        let range = KeyRange::prefix(&prefix);
        let stored = self
            .snapshot
            .page(Keyspace::Meta, &range, Direction::Forward, count)
            .map_err(store_failure)?;
        let mut ranks = order.come.clone();
        for (key, value) in stored {
            let rank = key.get(prefix.len()..).unwrap_or_default();
            let docno = value[..].try_into().map(u64::from_be_bytes);
            let docno = docno.map_err(|_| store_failure(corrupt()))?;
            if !order.gone.contains(rank) {
                ranks.entry(rank.to_vec()).or_insert(docno);
            }
        }
        Ok(ranks.into_values().take(self.cap.count).collect())
    }

    /// The copies that a key has: ordinal of the source item, and id.
    fn present(&self, epk: &Epk) -> Result<BTreeMap<u64, String>> {
        let range = keys::items_of_partition(self.target.number, self.target.key_definition(), epk);
        let stored = self
            .snapshot
            .page(Keyspace::Items, &range, Direction::Forward, usize::MAX)
            .map_err(store_failure)?;
        let mut present = BTreeMap::new();
        for (_, value) in stored {
            let record = Record::new(value).map_err(store_failure)?;
            let id = if record.is_tombstone() { None } else { record.id() };
            if let Some((docno, id)) = id.and_then(|id| Some((docno_of(&id)?, id))) {
                present.insert(docno, id);
            }
        }
        Ok(present)
    }

    /// The copy of an item that comes in because another went out. One that has changed since is left to
    /// its own entry, which is on its way.
    fn promoted(&self, epk: &Epk, docno: u64) -> Result<Option<Copied>> {
        let note = placement::key(self.target.number, docno);
        let stored = self.snapshot.get(Keyspace::Meta, &note).map_err(store_failure)?;
        let Some(stored) = stored else { return Ok(None) };
        let Standing { source: (of, hash), .. } = Standing::read(&stored).map_err(store_failure)?;
        let holding = self.lookup.snapshot_of(self.source, &of, self.snapshot)?;
        let found = self.source.find_by_docno(holding, &of, hash, docno)?;
        let Some(record) = found else { return Ok(None) };
        let item = parse_stored(&record.text())?;
        let wanted = apply::wanted(self.target, self.view, &id_of(self.source, docno), &item);
        let wanted = wanted.filter(|(_, now, _)| now == epk);
        Ok(wanted.map(|(key, _, item)| Copied { key, item, note: None }))
    }
}

fn id_of(source: &Container, docno: u64) -> String {
    let rid = rid::encode(&rid::document(source.rid, docno));
    project::id_of(&rid).to_owned()
}

fn docno_of(id: &str) -> Option<u64> {
    let bytes = rid::decode(&format!("{id}=="))?;
    rid::split_document(&bytes).map(|(_, docno)| docno)
}

/// Bytes that sort an item among those of its key: the highest value first, then the highest ordinal, which
/// inside one logical partition of the source is that of the newest item.
fn rank(cap: &Cap, item: &Value, docno: u64) -> Vec<u8> {
    let by = cap.by.iter().try_fold(item, |value, name| value.get(name));
    let term = ordered::term(by.unwrap_or(&Value::Undefined));
    let rising = KeyWriter::new().bytes(&term).u64(docno).finish();
    rising.into_iter().map(|byte| !byte).collect()
}

fn order_key(view: u32, epk: &Epk, rank: &[u8]) -> Vec<u8> {
    let key = KeyWriter::new().u8(Meta::ViewOrder as u8).u32(view);
    key.bytes(epk.as_bytes()).raw(rank).finish()
}

fn corrupt() -> StoreError {
    StoreError::corruption("meta", "the standing of an item in a view is malformed")
}

impl Standing {
    /// The stored form: format, LSN, hash, then both keys with their lengths, and the rank.
    fn write(&self) -> Vec<u8> {
        let (source, hash) = &self.source;
        let mut out = vec![FORMAT];
        out.extend_from_slice(&self.lsn.0.to_be_bytes());
        out.extend_from_slice(&hash.to_be_bytes());
        push_epk(&mut out, &self.epk);
        push_epk(&mut out, source);
        out.extend_from_slice(&self.rank);
        debug_assert!(
            Self::read(&out).is_ok_and(|read| read == *self),
            "a standing reads back as it was written"
        );
        out
    }

    fn read(bytes: &[u8]) -> Result<Self, StoreError> {
        let (&format, rest) = bytes.split_first().ok_or_else(corrupt)?;
        let (lsn, rest) = rest.split_first_chunk::<8>().ok_or_else(corrupt)?;
        let (hash, rest) = rest.split_first_chunk::<8>().ok_or_else(corrupt)?;
        if format != FORMAT {
            return Err(corrupt());
        }
        let (epk, rest) = split_epk(rest)?;
        let (source, rank) = split_epk(rest)?;
        let source = (source, u64::from_be_bytes(*hash));
        Ok(Self { lsn: Lsn(u64::from_be_bytes(*lsn)), epk, source, rank: rank.to_vec() })
    }
}

/// Key of the list of keys that a page is about to change.
fn touched_key(view: u32) -> Vec<u8> {
    keys::meta(Meta::View, &[view, 1])
}

fn push_epk(out: &mut Vec<u8>, epk: &Epk) {
    let length = u16::try_from(epk.as_bytes().len()).expect("an effective key is short");
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(epk.as_bytes());
}

fn split_epk(bytes: &[u8]) -> Result<(Epk, &[u8]), StoreError> {
    let (length, rest) = bytes.split_first_chunk::<2>().ok_or_else(corrupt)?;
    let length = usize::from(u16::from_be_bytes(*length));
    let (epk, rest) = rest.split_at_checked(length).ok_or_else(corrupt)?;
    Ok((Epk::from_bytes(epk), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standing_reads_back_and_nonsense_does_not() {
        let epk = |byte: u8| Epk::from_bytes(&[byte; 16]);
        let standing =
            Standing { lsn: Lsn(7), epk: epk(1), source: (epk(2), 9), rank: vec![1, 2, 3] };
        let bytes = standing.write();
        assert_eq!(Standing::read(&bytes).unwrap(), standing);
        for length in 0..bytes.len() - 3 {
            assert!(Standing::read(&bytes[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn the_highest_comes_first_and_what_has_none_last() {
        let cap = Cap { count: 1, by: vec!["at".into()] };
        let item = |at: Value| Value::object(armilla_model::value::Object::of([("at", at)]));
        let ranks = [
            rank(&cap, &item("2024-02".into()), 1),
            rank(&cap, &item("2024".into()), 2),
            rank(&cap, &item(10.into()), 4),
            rank(&cap, &item(10.into()), 3),
            rank(&cap, &item(2.into()), 9),
            rank(&cap, &Value::Null, 9),
        ];
        assert!(ranks.is_sorted(), "{ranks:?}");
    }
}
