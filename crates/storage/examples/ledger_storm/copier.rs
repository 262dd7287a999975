//! Copies of shards, made page by page while owners fold and cut: each must be the exact state at its place.

use armilla_storage::ledger::{Chain, Ledger, Place, PostgresLedger, ShardRow, decode_batch};
use armilla_storage::{KeyRange, Keyspace};

use super::history::{State, at};
use super::{Control, HOME, SHARDS, Storm, open_patiently};

/// Rows of a page: few, so that folds happen between pages.
const PAGE_ROWS: usize = 5;

pub(super) fn run(storm: &Storm, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let ledger = open_patiently(&storm.url);
    while !storm.is_over() {
        let shard = random.u64(0..SHARDS);
        if let Some((chain, copy)) = copy(storm, &ledger, shard) {
            storm.history.copied(shard, chain, &copy);
        }
    }
}

/// A copy and the chain of its newest row; nothing when rows were cut meanwhile or the database was away.
fn copy(storm: &Storm, ledger: &PostgresLedger, shard: u64) -> Option<(Chain, State)> {
    let early = folded(ledger, shard)?;
    let mut state = State::new();
    read_base(ledger, shard, &mut state)?;
    let folded = match storm.control {
        Control::LateFolded => folded(ledger, shard)?,
        Control::None | Control::NoEpoch => early,
    };
    // The row at `folded` itself is wanted too, for its chain: it may be the newest.
    let before = Place(folded.0.saturating_sub(1));
    let rows = ledger.journal(&[(at(shard), before)], usize::MAX).ok()?;
    let mut expected = before.next();
    let mut chain = None;
    for row in rows {
        if row.place != expected {
            return None;
        }
        expected = row.place.next();
        chain = Some(row.chain);
        if row.place > folded {
            apply(&mut state, &row.batch);
        }
    }
    let chain = if folded == Place(0) { chain.unwrap_or(Chain::START) } else { chain? };
    Some((chain, state))
}

fn folded(ledger: &PostgresLedger, shard: u64) -> Option<Place> {
    let rows: Vec<ShardRow> = ledger.shards().ok()?;
    rows.into_iter().find(|row| row.at == at(shard)).map(|row| row.folded)
}

fn read_base(ledger: &PostgresLedger, shard: u64, state: &mut State) -> Option<()> {
    let prefix = vec![u8::try_from(shard).ok()?];
    let mut range = KeyRange::prefix(&prefix);
    loop {
        let page = ledger.base(HOME, Keyspace::Items, &range, PAGE_ROWS).ok()?;
        let Some((last, _)) = page.last() else { return Some(()) };
        range = KeyRange::prefix(&prefix).starting_after(last.clone());
        state.extend(page.into_iter().map(|(key, value)| ((Keyspace::Items, key), value)));
    }
}

fn apply(state: &mut State, batch: &[u8]) {
    for operation in decode_batch(batch).expect("batches are whole").into_operations() {
        let key = (operation.keyspace, operation.key.to_vec());
        match operation.value {
            Some(value) => state.insert(key, value),
            None => state.remove(&key),
        };
    }
}
