//! A node of the storm: takes shards that are free, appends, folds, cuts, and begins anew whenever it was evicted.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use armilla_storage::ledger::{
    Chain, Entry, Epoch, JournalRow, KeyStates, Ledger, LedgerError, NodeCard, Place,
    PostgresLedger, ShardState, Verdict, decode_batch, encode_batch,
};
use armilla_storage::{Batch, Keyspace};
use bytes::Bytes;

use super::history::at;
use super::{SHARDS, Storm, open_patiently};

/// Rows that stay in the journal after they were folded, for copies.
const RETENTION_PLACES: u64 = 40;
const KEYS: u8 = 50;

pub(super) fn card(name: &str) -> NodeCard {
    NodeCard { name: name.into(), address: "http://127.0.0.1".into(), version: "1".into() }
}

/// A shard that this node believes to own.
struct Owned {
    epoch: Epoch,
    place: Place,
    chain: Chain,
    folded: Place,
    /// Rows above `folded`.
    rows: Vec<(Place, Bytes)>,
}

pub(super) fn run(storm: &Storm, number: u64, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let ledger = open_patiently(&storm.url);
    let card = card(&format!("node {number}"));
    let mut owned: BTreeMap<u64, Owned> = BTreeMap::new();
    let mut is_in = false;
    while !storm.is_over() {
        if !is_in {
            owned.clear();
            is_in = join(&ledger, &card);
            continue;
        }
        if let Ok(None) = ledger.beat(Place(0)) {
            is_in = false;
            continue;
        }
        look_for_shards(storm, &ledger, &mut owned);
        work(storm, &ledger, &mut owned, &mut random);
    }
}

fn join(ledger: &PostgresLedger, card: &NodeCard) -> bool {
    match ledger.join(card) {
        Ok(Some(_)) => true,
        Ok(None) => {
            // The answer to an earlier join was lost: that life must end first.
            let nodes = ledger.nodes().unwrap_or_default();
            if let Some(node) = nodes.iter().find(|node| node.card == *card) {
                let _ = ledger.evict(node);
            }
            false
        }
        Err(_) => {
            thread::sleep(Duration::from_millis(20));
            false
        }
    }
}

fn look_for_shards(storm: &Storm, ledger: &PostgresLedger, owned: &mut BTreeMap<u64, Owned>) {
    let Ok(rows) = ledger.shards() else { return };
    for row in rows {
        let shard = row.at.shard.0;
        if !owned.contains_key(&shard) && row.state == ShardState::Open {
            take(storm, ledger, owned, shard, row.epoch);
        }
    }
}

/// Takes a shard and reads what is above `folded`; keeps it only if that is whole.
fn take(
    storm: &Storm,
    ledger: &PostgresLedger,
    owned: &mut BTreeMap<u64, Owned>,
    shard: u64,
    seen: Epoch,
) {
    owned.remove(&shard);
    let Ok(Some(taken)) = ledger.take(at(shard), seen) else { return };
    storm.history.took(shard, &taken);
    let Ok(rows) = ledger.journal(&[(at(shard), taken.folded)], usize::MAX) else { return };
    let rows: Vec<(Place, Bytes)> =
        rows.into_iter().map(|JournalRow { place, batch, .. }| (place, batch)).collect();
    let newest = rows.last().map_or(taken.folded, |row| row.0);
    // After a take nobody else appends; a page that ends early is taken up by the next take.
    if newest == taken.place {
        let (epoch, place, chain, folded) = (taken.epoch, taken.place, taken.chain, taken.folded);
        owned.insert(shard, Owned { epoch, place, chain, folded, rows });
    }
}

fn work(
    storm: &Storm,
    ledger: &PostgresLedger,
    owned: &mut BTreeMap<u64, Owned>,
    random: &mut fastrand::Rng,
) {
    for _ in 0..8 {
        append(storm, ledger, owned, random);
    }
    let Some(shard) = random.choice(owned.keys().copied().collect::<Vec<_>>()) else { return };
    match random.u8(0..20) {
        0 => {
            let gone = owned.remove(&shard).unwrap();
            let _ = ledger.release(at(shard), gone.epoch);
        }
        1..=8 => fold(ledger, shard, owned.get_mut(&shard).unwrap()),
        _ => {}
    }
}

/// One statement for all shards of this node.
fn append(
    storm: &Storm,
    ledger: &PostgresLedger,
    owned: &mut BTreeMap<u64, Owned>,
    random: &mut fastrand::Rng,
) {
    let entry = |(shard, mine): (&u64, &Owned)| {
        let batch = batch(*shard, random);
        storm.history.tries(*shard, mine.epoch, mine.place.next(), mine.chain, batch.clone());
        let (place, chain) = (mine.place.next(), mine.chain.with(&batch));
        Entry { at: at(*shard), epoch: mine.epoch, place, lsn: place.0, chain, batch }
    };
    let entries: Vec<Entry> = owned.iter().map(entry).collect();
    if entries.is_empty() {
        return;
    }
    match ledger.append(&entries) {
        Ok(verdicts) => {
            for (entry, verdict) in entries.into_iter().zip(verdicts) {
                settle(storm, owned, entry, verdict);
            }
        }
        Err(LedgerError::Damage(reason)) => panic!("{reason}"),
        // Nobody knows: the shards are taken again, which tells.
        Err(_) => {
            for entry in entries {
                take(storm, ledger, owned, entry.at.shard.0, entry.epoch);
            }
        }
    }
}

fn settle(storm: &Storm, owned: &mut BTreeMap<u64, Owned>, entry: Entry, verdict: Verdict) {
    let shard = entry.at.shard.0;
    if verdict == Verdict::Refused {
        owned.remove(&shard);
        return;
    }
    storm.history.acknowledges(shard, entry.place, entry.chain);
    let mine = owned.get_mut(&shard).unwrap();
    (mine.place, mine.chain) = (entry.place, entry.chain);
    mine.rows.push((entry.place, entry.batch));
}

fn fold(ledger: &PostgresLedger, shard: u64, mine: &mut Owned) {
    let mut last: BTreeMap<(Keyspace, Vec<u8>), Option<Bytes>> = BTreeMap::new();
    for (_, batch) in &mine.rows {
        for operation in decode_batch(batch).unwrap().into_operations() {
            last.insert((operation.keyspace, operation.key.to_vec()), operation.value);
        }
    }
    let keys = last.into_iter().map(|((space, key), value)| (space, key, value)).collect();
    let states = KeyStates { upto: mine.place, lsn: mine.place.0, keys };
    if let Ok(true) = ledger.fold(at(shard), mine.epoch, states) {
        mine.folded = mine.place;
        mine.rows.clear();
        let upto = Place(mine.folded.0.saturating_sub(RETENTION_PLACES));
        let _ = ledger.cut(at(shard), mine.epoch, upto);
    }
}

fn batch(shard: u64, random: &mut fastrand::Rng) -> Bytes {
    let mut batch = Batch::new();
    for _ in 0..random.usize(1..4) {
        let key = vec![u8::try_from(shard % SHARDS).unwrap(), random.u8(0..KEYS)];
        if random.u8(0..5) == 0 {
            batch.delete(Keyspace::Items, key);
        } else {
            batch.put(Keyspace::Items, key, random.u64(..).to_be_bytes().to_vec());
        }
    }
    encode_batch(&batch)
}
