//! The statements of the ledger: each is one call of a function of the schema, or one select.

use std::collections::BTreeSet;
use std::ops::Bound;

use bytes::Bytes;
use tokio_postgres::Row;

use super::SCHEMA;
use super::operations;
use super::session::{Line, Parameters};
use crate::ledger::{
    Chain, Entry, Epoch, Home, Incarnation, JournalRow, KeyStates, LEDGER_FORMAT, LedgerError,
    NodeCard, NodeRow, NodeState, Place, Reshape, Shard, ShardAt, ShardRow, ShardState, Taken,
    Verdict,
};
use crate::{KeyRange, Keyspace};

/// Two that make the schema at once wait for each other under this number.
const CREATE_LOCK: i64 = 4_203_110;
/// Bytes of values beyond which a page of the base ends.
const BASE_BYTES_MAX: i64 = 8 << 20;
/// The most rows of journals in one answer.
const JOURNAL_ROWS_MAX: i64 = 4096;

pub(super) type Answer<T> = Result<T, LedgerError>;

pub(super) async fn create(desk: &Line, account: u128, settings: Vec<u8>) -> Answer<()> {
    let session = desk.session().await?;
    let settings: String = settings.iter().map(|byte| format!("{byte:02x}")).collect();
    // One simple query is one implicit transaction: all of it is made, or nothing.
    let text = format!(
        "select pg_advisory_xact_lock({CREATE_LOCK}); {SCHEMA} \
         insert into armilla.account values (true, {LEDGER_FORMAT}, '{account:032x}', '\\x{settings}')"
    );
    session.run_text(&text).await
}

pub(super) async fn format(desk: &Line) -> Answer<u32> {
    let rows = desk.read("select format from armilla.account", &[]).await?;
    let row = rows.first().ok_or_else(|| LedgerError::Damage("it has no account".into()))?;
    let found: i32 = row.get(0);
    Ok(found.cast_unsigned())
}

pub(super) async fn settings(desk: &Line) -> Answer<Vec<u8>> {
    let rows = desk.read("select settings from armilla.account", &[]).await?;
    let row = rows.first().ok_or_else(|| LedgerError::Damage("it has no account".into()))?;
    Ok(row.get(0))
}

pub(super) async fn account(desk: &Line) -> Answer<String> {
    let rows = desk.read("select account::text from armilla.account", &[]).await?;
    let row = rows.first().ok_or_else(|| LedgerError::Damage("it has no account".into()))?;
    Ok(row.get(0))
}

pub(super) async fn now_millis(desk: &Line) -> Answer<u64> {
    let text = "select (extract(epoch from clock_timestamp()) * 1000)::bigint";
    let rows = desk.read(text, &[]).await?;
    optional_number(&rows).ok_or_else(|| LedgerError::Damage("its clock gave no time".into()))
}

pub(super) async fn join(desk: &Line, card: NodeCard) -> Answer<Option<Incarnation>> {
    let text = "select armilla.join_node($1, $2, $3)";
    let rows = desk.change(text, &[&card.name, &card.address, &card.version]).await?;
    Ok(optional_number(&rows).map(Incarnation))
}

pub(super) async fn beat(
    desk: &Line,
    (name, incarnation): (String, Incarnation),
    catalog: Place,
) -> Answer<Option<u64>> {
    let text = "select armilla.beat($1, $2, $3)";
    let rows = desk.change(text, &[&name, &signed(incarnation.0), &signed(catalog.0)]).await?;
    Ok(optional_number(&rows))
}

pub(super) async fn nodes(desk: &Line) -> Answer<Vec<NodeRow>> {
    let text = "select name, address, version, incarnation, beats, state, catalog from armilla.nodes order by name";
    desk.read(text, &[]).await?.iter().map(node_row).collect()
}

fn node_row(row: &Row) -> Answer<NodeRow> {
    let state: &str = row.get(5);
    Ok(NodeRow {
        card: NodeCard { name: row.get(0), address: row.get(1), version: row.get(2) },
        incarnation: Incarnation(number(row, 3)),
        beats: number(row, 4),
        state: match state {
            "up" => NodeState::Up,
            "draining" => NodeState::Draining,
            "gone" => NodeState::Gone,
            other => return Err(LedgerError::Damage(format!("a node whose state is {other}"))),
        },
        catalog: Place(number(row, 6)),
    })
}

pub(super) async fn evict(desk: &Line, node: NodeRow) -> Answer<bool> {
    let text = "select armilla.evict($1, $2, $3)";
    let (incarnation, beats) = (signed(node.incarnation.0), signed(node.beats));
    yes(&desk.change(text, &[&node.card.name, &incarnation, &beats]).await?)
}

pub(super) async fn shards(desk: &Line) -> Answer<Vec<ShardRow>> {
    let text = "select home, shard, epoch, owner, incarnation, state, folded, lsn, standby from armilla.shards order by home, shard";
    desk.read(text, &[]).await?.iter().map(shard_row).collect()
}

fn shard_row(row: &Row) -> Answer<ShardRow> {
    let owner: Option<String> = row.get(3);
    let incarnation: Option<i64> = row.get(4);
    let state: i16 = row.get(5);
    Ok(ShardRow {
        at: shard_at(row),
        epoch: Epoch(number(row, 2)),
        owner: owner.zip(incarnation.map(|found| Incarnation(found.cast_unsigned()))),
        state: match state {
            0 => ShardState::Open,
            1 => ShardState::Reshaped,
            2 => ShardState::Dropped,
            other => return Err(LedgerError::Damage(format!("a shard whose state is {other}"))),
        },
        folded: Place(number(row, 6)),
        lsn: number(row, 7),
        heir: row.get::<_, Option<&str>>(8).map(operations::heir_of).transpose()?,
    })
}

pub(super) async fn open(desk: &Line, home: Home, shards: Vec<(Shard, u64)>) -> Answer<()> {
    let numbers: Vec<i64> = shards.iter().map(|(shard, _)| signed(shard.0)).collect();
    let lsns: Vec<i64> = shards.iter().map(|(_, lsn)| signed(*lsn)).collect();
    let text = "select armilla.open_shards($1, $2, $3)";
    desk.change(text, &[&home_number(home), &numbers, &lsns]).await.map(drop)
}

pub(super) async fn drop_shards(desk: &Line, home: Home, shards: Vec<Shard>) -> Answer<()> {
    let numbers: Vec<i64> = shards.iter().map(|shard| signed(shard.0)).collect();
    let text = "select armilla.drop_shards($1, $2)";
    desk.change(text, &[&home_number(home), &numbers]).await.map(drop)
}

pub(super) async fn take(
    desk: &Line,
    at: ShardAt,
    seen: Epoch,
    (name, incarnation): (String, Incarnation),
) -> Answer<Option<Taken>> {
    let text = "select epoch, folded, place, lsn, chain from armilla.take($1, $2, $3, $4, $5)";
    let (home, shard) = (home_number(at.home), signed(at.shard.0));
    let (seen, incarnation) = (signed(seen.0), signed(incarnation.0));
    let rows = desk.change(text, &[&home, &shard, &seen, &name, &incarnation]).await?;
    Ok(rows.first().map(|row| Taken {
        epoch: Epoch(number(row, 0)),
        folded: Place(number(row, 1)),
        place: Place(number(row, 2)),
        lsn: number(row, 3),
        chain: Chain(number(row, 4)),
    }))
}

pub(super) async fn release(desk: &Line, at: ShardAt, epoch: Epoch) -> Answer<bool> {
    let text = "select armilla.release($1, $2, $3)";
    let (home, shard) = (home_number(at.home), signed(at.shard.0));
    yes(&desk.change(text, &[&home, &shard, &signed(epoch.0)]).await?)
}

/// Adds rows: a single one has a statement of its own, which takes no arrays.
pub(super) async fn append(lane: &Line, entries: &[Entry]) -> Answer<Vec<Verdict>> {
    let session = lane.session().await?;
    let ask = async |text: &'static str, parameters: Parameters<'_>| {
        let statement = session.prepared(text).await?;
        lane.answer(&session, session.ask(&statement, parameters)).await
    };
    if let [entry] = entries
        && session.has_append_one()
    {
        let [shard, epoch, place, lsn, chain] = &numbers_of(entry);
        let home = home_number(entry.at.home);
        let text = "select armilla.append_one($1, $2, $3, $4, $5, $6, $7)";
        let rows = ask(text, &[&home, shard, epoch, place, lsn, chain, &&entry.batch[..]]).await?;
        return Ok(vec![if yes(&rows)? { Verdict::Accepted } else { Verdict::Refused }]);
    }
    let columns = Columns::of(entries);
    let text = "select armilla.append($1, $2, $3, $4, $5, $6, $7)";
    Ok(verdicts(entries, &ask(text, &columns.parameters()).await?))
}

fn numbers_of(entry: &Entry) -> [i64; 5] {
    let Entry { at, epoch, place, lsn, chain, .. } = entry;
    [at.shard.0, epoch.0, place.0, *lsn, chain.0].map(signed)
}

/// The entries of an append as the arrays that the function takes.
struct Columns<'a> {
    home: i32,
    numbers: [Vec<i64>; 5],
    batches: Vec<&'a [u8]>,
}

impl<'a> Columns<'a> {
    fn of(entries: &'a [Entry]) -> Self {
        let home = entries.first().map_or(Home(0), |entry| entry.at.home);
        assert!(entries.iter().all(|entry| entry.at.home == home), "one append, one home");
        let column = |nth: usize| entries.iter().map(|entry| numbers_of(entry)[nth]).collect();
        Self {
            home: home_number(home),
            numbers: std::array::from_fn(column),
            batches: entries.iter().map(|entry| &entry.batch[..]).collect(),
        }
    }

    fn parameters(&self) -> [&(dyn tokio_postgres::types::ToSql + Sync); 7] {
        let [shards, epochs, places, lsns, chains] = &self.numbers;
        [&self.home, shards, epochs, places, lsns, chains, &self.batches]
    }
}

fn verdicts(entries: &[Entry], accepted: &[Row]) -> Vec<Verdict> {
    let accepted: BTreeSet<u64> = accepted.iter().map(|row| number(row, 0)).collect();
    let verdict = |entry: &Entry| match accepted.contains(&entry.at.shard.0) {
        true => Verdict::Accepted,
        false => Verdict::Refused,
    };
    entries.iter().map(verdict).collect()
}

pub(super) async fn fold(
    folder: &Line,
    at: ShardAt,
    epoch: Epoch,
    states: KeyStates,
) -> Answer<bool> {
    let (mut put_spaces, mut put_keys, mut put_values) = (Vec::new(), Vec::new(), Vec::new());
    let (mut gone_spaces, mut gone_keys) = (Vec::new(), Vec::new());
    for (space, key, value) in &states.keys {
        let space = i16::from(*space as u8);
        match value {
            Some(value) => {
                put_spaces.push(space);
                put_keys.push(&key[..]);
                put_values.push(&value[..]);
            }
            None => {
                gone_spaces.push(space);
                gone_keys.push(&key[..]);
            }
        }
    }
    let (home, shard, epoch) = (home_number(at.home), signed(at.shard.0), signed(epoch.0));
    let (upto, lsn) = (signed(states.upto.0), signed(states.lsn));
    let text = "select armilla.fold($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
    let parameters: Parameters<'_> = &[
        &home,
        &shard,
        &epoch,
        &upto,
        &lsn,
        &put_spaces,
        &put_keys,
        &put_values,
        &gone_spaces,
        &gone_keys,
    ];
    yes(&folder.change(text, parameters).await?)
}

pub(super) async fn cut(folder: &Line, at: ShardAt, epoch: Epoch, upto: Place) -> Answer<u64> {
    let text = "select armilla.cut($1, $2, $3, $4)";
    let (home, shard) = (home_number(at.home), signed(at.shard.0));
    let rows = folder.change(text, &[&home, &shard, &signed(epoch.0), &signed(upto.0)]).await?;
    Ok(optional_number(&rows).unwrap_or(0))
}

pub(super) async fn reshape(
    desk: &Line,
    reshape: Reshape,
    (name, incarnation): (String, Incarnation),
) -> Answer<bool> {
    let old: Vec<i64> = reshape.old.iter().map(|(shard, ..)| signed(shard.0)).collect();
    let epochs: Vec<i64> = reshape.old.iter().map(|(_, epoch, _)| signed(epoch.0)).collect();
    let places: Vec<i64> = reshape.old.iter().map(|(.., place)| signed(place.0)).collect();
    let new: Vec<i64> = reshape.new.iter().map(|new| signed(new.shard.0)).collect();
    let lsns: Vec<i64> = reshape.new.iter().map(|new| signed(new.lsn)).collect();
    let chains: Vec<i64> =
        reshape.new.iter().map(|new| signed(Chain::START.with(&new.batch).0)).collect();
    let batches: Vec<&[u8]> = reshape.new.iter().map(|new| &new.batch[..]).collect();
    let (home, incarnation) = (home_number(reshape.home), signed(incarnation.0));
    let text = "select armilla.reshape($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
    let parameters: Parameters<'_> =
        &[&home, &old, &epochs, &places, &new, &name, &incarnation, &lsns, &chains, &batches];
    yes(&desk.change(text, parameters).await?)
}

pub(super) async fn journal(
    desk: &Line,
    after: Vec<(ShardAt, Place)>,
    bytes_max: usize,
) -> Answer<Vec<JournalRow>> {
    let homes: Vec<i32> = after.iter().map(|(at, _)| home_number(at.home)).collect();
    let shards: Vec<i64> = after.iter().map(|(at, _)| signed(at.shard.0)).collect();
    let places: Vec<i64> = after.iter().map(|(_, place)| signed(place.0)).collect();
    let bytes_max = i64::try_from(bytes_max).unwrap_or(i64::MAX);
    let text = "select home, shard, place, lsn, chain, batch from ( \
          select j.home, j.shard, j.place, j.lsn, j.chain, j.batch, w.nth, \
                 sum(length(j.batch)) over (order by w.nth, j.place) - length(j.batch) as before \
            from unnest($1::int[], $2::bigint[], $3::bigint[]) with ordinality as w(home, shard, after, nth) \
            join armilla.journal j on j.home = w.home and j.shard = w.shard and j.place > w.after \
           order by w.nth, j.place limit $5) rows \
         where before < $4 order by nth, place";
    let rows = desk.read(text, &[&homes, &shards, &places, &bytes_max, &JOURNAL_ROWS_MAX]).await?;
    let row = |row: &Row| JournalRow {
        at: shard_at(row),
        place: Place(number(row, 2)),
        lsn: number(row, 3),
        chain: Chain(number(row, 4)),
        batch: Bytes::from(row.get::<_, Vec<u8>>(5)),
    };
    Ok(rows.iter().map(row).collect())
}

pub(super) async fn base(
    desk: &Line,
    home: Home,
    space: Keyspace,
    range: KeyRange,
    rows: usize,
) -> Answer<Vec<(Vec<u8>, Bytes)>> {
    let just_behind = |mut key: Vec<u8>| {
        key.push(0);
        key
    };
    let from = match range.start {
        Bound::Included(key) => key,
        Bound::Excluded(key) => just_behind(key),
        Bound::Unbounded => Vec::new(),
    };
    let below = match range.end {
        Bound::Included(key) => Some(just_behind(key)),
        Bound::Excluded(key) => Some(key),
        Bound::Unbounded => None,
    };
    let text = "select key, value from ( \
          select key, value, sum(length(value)) over (order by key rows unbounded preceding) - length(value) as before from ( \
            select key, value from armilla.base \
             where home = $1 and space = $2 and key >= $3 and ($4::bytea is null or key < $4) \
             order by key limit $5) page) rows \
         where before < $6 order by key";
    let (home, space) = (home_number(home), i16::from(space as u8));
    let limit = i64::try_from(rows).unwrap_or(i64::MAX);
    let parameters: Parameters<'_> = &[&home, &space, &from, &below, &limit, &BASE_BYTES_MAX];
    let entry = |row: &Row| (row.get(0), Bytes::from(row.get::<_, Vec<u8>>(1)));
    desk.read_each(text, parameters, entry).await
}

pub(super) async fn reserve(desk: &Line, name: String, many: u64) -> Answer<u64> {
    let rows = desk.change("select armilla.reserve($1, $2)", &[&name, &signed(many)]).await?;
    optional_number(&rows).ok_or_else(|| LedgerError::Damage("a counter has no number".into()))
}

/// Numbers of the ledger are the database's signed ones, bit by bit.
pub(super) const fn signed(number: u64) -> i64 {
    number.cast_signed()
}

pub(super) const fn home_number(home: Home) -> i32 {
    home.0.cast_signed()
}

pub(super) fn number(row: &Row, column: usize) -> u64 {
    row.get::<_, i64>(column).cast_unsigned()
}

fn optional_number(rows: &[Row]) -> Option<u64> {
    rows.first()?.get::<_, Option<i64>>(0).map(i64::cast_unsigned)
}

pub(super) fn shard_at(row: &Row) -> ShardAt {
    ShardAt { home: Home(row.get::<_, i32>(0).cast_unsigned()), shard: Shard(number(row, 1)) }
}

fn yes(rows: &[Row]) -> Answer<bool> {
    let said = rows.first().and_then(|row| row.get::<_, Option<bool>>(0));
    said.ok_or_else(|| LedgerError::Damage("a function of the ledger gave no answer".into()))
}
