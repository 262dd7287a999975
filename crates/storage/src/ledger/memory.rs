//! A ledger in memory, for tests: the same promises, one lock.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::{
    Chain, Entry, Epoch, Home, Incarnation, JournalRow, KeyStates, Ledger, LedgerError, NodeCard,
    NodeRow, NodeState, Place, Reshape, Shard, ShardAt, ShardRow, ShardState, Taken, Verdict,
};
use crate::{KeyRange, Keyspace};

/// A [`Ledger`] that forgets when the last of its nodes does.
#[derive(Clone, Default)]
pub struct MemoryLedger {
    tables: Arc<Mutex<Tables>>,
    node: Arc<Mutex<Option<(String, Incarnation)>>>,
}

#[derive(Default)]
struct Tables {
    incarnations: u64,
    nodes: BTreeMap<String, NodeRow>,
    shards: BTreeMap<ShardAt, ShardTable>,
    base: BTreeMap<(Home, Keyspace, Vec<u8>), Bytes>,
    counters: BTreeMap<String, u64>,
}

struct ShardTable {
    row: ShardRow,
    journal: BTreeMap<Place, JournalRow>,
}

impl MemoryLedger {
    /// A ledger without nodes and shards.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same ledger as another node sees it.
    #[must_use]
    pub fn another_node(&self) -> Self {
        Self { tables: Arc::clone(&self.tables), node: Arc::default() }
    }

    fn myself(&self) -> (String, Incarnation) {
        self.node.lock().clone().expect("a node joins before it does anything else")
    }
}

impl Tables {
    fn is_alive(&self, name: &str, incarnation: Incarnation) -> bool {
        self.nodes
            .get(name)
            .is_some_and(|node| node.incarnation == incarnation && node.state != NodeState::Gone)
    }

    /// The shard, if this is its epoch and it takes rows.
    fn held(&mut self, at: ShardAt, epoch: Epoch) -> Option<&mut ShardTable> {
        let shard = self.shards.get_mut(&at)?;
        (shard.row.epoch == epoch && shard.row.state == ShardState::Open).then_some(shard)
    }

    fn append(&mut self, entry: Entry) -> Verdict {
        let Some(shard) = self.held(entry.at, entry.epoch) else { return Verdict::Refused };
        if entry.place != shard.tip().place.next() {
            return Verdict::Refused;
        }
        let Entry { at, place, lsn, chain, batch, .. } = entry;
        shard.journal.insert(place, JournalRow { at, place, lsn, chain, batch });
        Verdict::Accepted
    }

    fn may_take(&self, row: &ShardRow, seen: Epoch, me: &(String, Incarnation)) -> bool {
        let free = match &row.owner {
            None => true,
            Some(owner) => owner == me || !self.is_alive(&owner.0, owner.1),
        };
        row.epoch == seen && row.state == ShardState::Open && free
    }
}

impl ShardTable {
    fn new(row: ShardRow, first: JournalRow) -> Self {
        Self { row, journal: BTreeMap::from([(first.place, first)]) }
    }

    fn tip(&self) -> &JournalRow {
        self.journal.values().next_back().expect("the newest row always stays")
    }

    fn end(&mut self, state: ShardState) {
        self.row.state = state;
        self.row.epoch.0 += 1;
        self.row.owner = None;
    }
}

impl Ledger for MemoryLedger {
    fn join(&self, card: &NodeCard) -> Result<Option<Incarnation>, LedgerError> {
        let mut tables = self.tables.lock();
        tables.incarnations += 1;
        let incarnation = Incarnation(tables.incarnations);
        if tables.nodes.get(&card.name).is_some_and(|node| node.state != NodeState::Gone) {
            return Ok(None);
        }
        let row = NodeRow {
            card: card.clone(),
            incarnation,
            beats: 0,
            state: NodeState::Up,
            catalog: Place(0),
        };
        tables.nodes.insert(card.name.clone(), row);
        *self.node.lock() = Some((card.name.clone(), incarnation));
        Ok(Some(incarnation))
    }

    fn me(&self) -> Option<(String, Incarnation)> {
        self.node.lock().clone()
    }

    fn beat(&self, catalog: Place) -> Result<Option<u64>, LedgerError> {
        let (name, incarnation) = self.myself();
        let mut tables = self.tables.lock();
        if !tables.is_alive(&name, incarnation) {
            return Ok(None);
        }
        let node = tables.nodes.get_mut(&name).expect("a node that is alive is there");
        node.beats += 1;
        node.catalog = catalog;
        Ok(Some(node.beats))
    }

    fn nodes(&self) -> Result<Vec<NodeRow>, LedgerError> {
        Ok(self.tables.lock().nodes.values().cloned().collect())
    }

    fn evict(&self, seen: &NodeRow) -> Result<bool, LedgerError> {
        let mut tables = self.tables.lock();
        let Some(node) = tables.nodes.get_mut(&seen.card.name) else { return Ok(false) };
        let same = (node.incarnation, node.beats) == (seen.incarnation, seen.beats);
        if !same || node.state == NodeState::Gone {
            return Ok(false);
        }
        node.state = NodeState::Gone;
        node.beats += 1;
        Ok(true)
    }

    fn drain(&self, seen: &NodeRow) -> Result<bool, LedgerError> {
        let mut tables = self.tables.lock();
        let node = tables.nodes.get_mut(&seen.card.name);
        let node = node.filter(|node| node.incarnation == seen.incarnation);
        let Some(node) = node.filter(|node| node.state == NodeState::Up) else { return Ok(false) };
        node.state = NodeState::Draining;
        Ok(true)
    }

    fn forget(&self, seen: &NodeRow) -> Result<bool, LedgerError> {
        let mut tables = self.tables.lock();
        let node = tables.nodes.get(&seen.card.name);
        let is_gone = node.is_some_and(|node| {
            node.incarnation == seen.incarnation && node.state == NodeState::Gone
        });
        Ok(is_gone && tables.nodes.remove(&seen.card.name).is_some())
    }

    fn name_heir(&self, at: ShardAt, epoch: Epoch, heir: &NodeRow) -> Result<bool, LedgerError> {
        let mut tables = self.tables.lock();
        let life = (heir.card.name.clone(), heir.incarnation);
        let is_up = tables
            .nodes
            .get(&life.0)
            .is_some_and(|node| node.incarnation == life.1 && node.state == NodeState::Up);
        let Some(shard) = tables.held(at, epoch).filter(|_| is_up) else { return Ok(false) };
        shard.row.heir = Some(life);
        Ok(true)
    }

    fn shards(&self) -> Result<Vec<ShardRow>, LedgerError> {
        Ok(self.tables.lock().shards.values().map(|shard| shard.row.clone()).collect())
    }

    fn open(&self, home: Home, shards: &[(Shard, u64)]) -> Result<(), LedgerError> {
        let mut tables = self.tables.lock();
        for (shard, lsn) in shards {
            let at = ShardAt { home, shard: *shard };
            tables.shards.entry(at).or_insert_with(|| {
                let (place, lsn) = (Place(0), *lsn);
                let row = ShardRow {
                    at,
                    epoch: Epoch(0),
                    owner: None,
                    state: ShardState::Open,
                    folded: place,
                    lsn,
                    heir: None,
                };
                let batch = Bytes::new();
                ShardTable::new(row, JournalRow { at, place, lsn, chain: Chain::START, batch })
            });
        }
        Ok(())
    }

    fn drop_shards(&self, home: Home, shards: &[Shard]) -> Result<(), LedgerError> {
        let mut tables = self.tables.lock();
        for shard in shards {
            if let Some(shard) = tables.shards.get_mut(&ShardAt { home, shard: *shard })
                && shard.row.state != ShardState::Dropped
            {
                shard.end(ShardState::Dropped);
            }
        }
        Ok(())
    }

    fn take(&self, at: ShardAt, seen: Epoch) -> Result<Option<Taken>, LedgerError> {
        let me = self.myself();
        let mut tables = self.tables.lock();
        let Some(shard) = tables.shards.get(&at) else { return Ok(None) };
        if !tables.is_alive(&me.0, me.1) || !tables.may_take(&shard.row, seen, &me) {
            return Ok(None);
        }
        let shard = tables.shards.get_mut(&at).expect("it was just there");
        shard.row.epoch.0 += 1;
        shard.row.owner = Some(me);
        let (epoch, folded) = (shard.row.epoch, shard.row.folded);
        let &JournalRow { place, lsn, chain, .. } = shard.tip();
        Ok(Some(Taken { epoch, folded, place, lsn, chain }))
    }

    fn release(&self, at: ShardAt, epoch: Epoch) -> Result<bool, LedgerError> {
        let mut tables = self.tables.lock();
        let Some(shard) = tables.held(at, epoch) else { return Ok(false) };
        shard.row.epoch.0 += 1;
        shard.row.owner = None;
        Ok(true)
    }

    fn append(&self, entries: &[Entry]) -> Result<Vec<Verdict>, LedgerError> {
        let mut tables = self.tables.lock();
        Ok(entries.iter().map(|entry| tables.append(entry.clone())).collect())
    }

    fn fold(&self, at: ShardAt, epoch: Epoch, states: KeyStates) -> Result<bool, LedgerError> {
        let mut tables = self.tables.lock();
        let Some(shard) = tables.held(at, epoch) else { return Ok(false) };
        if shard.row.folded > states.upto {
            return Ok(false);
        }
        (shard.row.folded, shard.row.lsn) = (states.upto, states.lsn);
        for (space, key, value) in states.keys {
            let key = (at.home, space, key);
            match value {
                Some(value) => tables.base.insert(key, value),
                None => tables.base.remove(&key),
            };
        }
        Ok(true)
    }

    fn cut(&self, at: ShardAt, epoch: Epoch, upto: Place) -> Result<u64, LedgerError> {
        let mut tables = self.tables.lock();
        let Some(shard) = tables.held(at, epoch) else { return Ok(0) };
        let before = shard.journal.len();
        shard.journal = shard.journal.split_off(&upto.min(shard.row.folded));
        Ok((before - shard.journal.len()) as u64)
    }

    fn reshape(&self, reshape: Reshape) -> Result<bool, LedgerError> {
        let me = self.myself();
        let mut tables = self.tables.lock();
        for (shard, epoch, place) in &reshape.old {
            let at = ShardAt { home: reshape.home, shard: *shard };
            let ready = tables
                .held(at, *epoch)
                .is_some_and(|shard| shard.row.folded == *place && shard.tip().place == *place);
            if !ready {
                return Ok(false);
            }
        }
        for (shard, ..) in &reshape.old {
            let at = ShardAt { home: reshape.home, shard: *shard };
            tables.shards.get_mut(&at).expect("it was just there").end(ShardState::Reshaped);
        }
        for new in reshape.new {
            let at = ShardAt { home: reshape.home, shard: new.shard };
            let row = ShardRow {
                at,
                epoch: Epoch(1),
                owner: Some(me.clone()),
                state: ShardState::Open,
                folded: Place(0),
                lsn: new.lsn,
                heir: None,
            };
            let chain = Chain::START.with(&new.batch);
            let first = JournalRow { at, place: Place(1), lsn: new.lsn, chain, batch: new.batch };
            tables.shards.insert(at, ShardTable::new(row, first));
        }
        Ok(true)
    }

    fn journal(
        &self,
        after: &[(ShardAt, Place)],
        bytes_max: usize,
    ) -> Result<Vec<JournalRow>, LedgerError> {
        let tables = self.tables.lock();
        let (mut rows, mut bytes) = (Vec::new(), 0);
        for (at, place) in after {
            let Some(shard) = tables.shards.get(at) else { continue };
            for row in shard.journal.range((Bound::Excluded(*place), Bound::Unbounded)) {
                if bytes >= bytes_max {
                    return Ok(rows);
                }
                bytes += row.1.batch.len();
                rows.push(row.1.clone());
            }
        }
        Ok(rows)
    }

    fn base(
        &self,
        home: Home,
        space: Keyspace,
        range: &KeyRange,
        rows: usize,
    ) -> Result<Vec<(Vec<u8>, Bytes)>, LedgerError> {
        let tables = self.tables.lock();
        let from = (home, space, Vec::new());
        let entries = tables.base.range(from..);
        let here = entries.take_while(|((at, of, _), _)| (*at, *of) == (home, space));
        let inside = here.filter(|((.., key), _)| range.contains(key));
        Ok(inside.take(rows).map(|((.., key), value)| (key.clone(), value.clone())).collect())
    }

    fn reserve(&self, name: &str, many: u64) -> Result<u64, LedgerError> {
        let mut tables = self.tables.lock();
        let next = tables.counters.entry(name.to_owned()).or_insert(1);
        let first = *next;
        *next += many;
        Ok(first)
    }
}
