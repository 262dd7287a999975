//! What the database says of itself, for operators: its sizes, what waits to be folded, what holds its cleaning back, and whom its replicas make
//! wait.

use std::time::Duration;

use super::session::Line;
use super::statements::{Answer, number, shard_at};
use crate::ledger::ShardAt;

/// What the database says of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct LedgerFacts {
    /// Bytes of all journals, with their index.
    pub journal_bytes: u64,
    /// Bytes of what was folded, with its index.
    pub base_bytes: u64,
    /// What each open shard has behind its fold, in order.
    pub unfolded: Vec<UnfoldedRows>,
    /// The age of the oldest statement that is under way: rows that died since are not cleaned away. Nothing if there is none that may be seen.
    pub oldest_snapshot: Option<Duration>,
    /// Who confirms a write beside the database.
    pub replication: Replication,
}

/// Rows of a journal that are not yet in the base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnfoldedRows {
    /// Whose.
    pub at: ShardAt,
    /// How many.
    pub rows: u64,
    /// Bytes of their batches.
    pub bytes: u64,
}

/// Who confirms a write beside the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replication {
    /// It has no replicas.
    Alone,
    /// Replicas that are named confirm each write.
    Synchronous,
    /// Its replicas confirm nothing: a failover may lose acknowledged writes.
    Asynchronous,
}

pub(super) async fn facts(desk: &Line) -> Answer<LedgerFacts> {
    let sizes =
        "select pg_total_relation_size('armilla.journal'), pg_total_relation_size('armilla.base')";
    let sizes = desk.read(sizes, &[]).await?;
    let size = |column| sizes.first().map_or(0, |row| number(row, column));
    let unfolded = "select s.home, s.shard, count(j.place), coalesce(sum(octet_length(j.batch)), 0)::bigint \
                      from armilla.shards s left join armilla.journal j \
                        on j.home = s.home and j.shard = s.shard and j.place > s.folded \
                     where s.state = 0 group by s.home, s.shard order by s.home, s.shard";
    let unfolded = desk.read(unfolded, &[]).await?;
    let unfolded = unfolded.iter().map(|row| UnfoldedRows {
        at: shard_at(row),
        rows: number(row, 2),
        bytes: number(row, 3),
    });
    let oldest = "select extract(epoch from max(clock_timestamp() - xact_start))::float8 from pg_stat_activity \
                   where backend_xmin is not null and pid <> pg_backend_pid()";
    let oldest = desk.read(oldest, &[]).await?;
    let oldest = oldest.first().and_then(|row| row.get::<_, Option<f64>>(0));
    Ok(LedgerFacts {
        journal_bytes: size(0),
        base_bytes: size(1),
        unfolded: unfolded.collect(),
        oldest_snapshot: oldest.map(|seconds| Duration::from_secs_f64(seconds.max(0.0))),
        replication: replication(desk).await?,
    })
}

pub(super) async fn replication(desk: &Line) -> Answer<Replication> {
    // Whoever may not see what a replica does still sees that it is there.
    let text = "select current_setting('synchronous_standby_names') <> '', exists (select 1 from pg_stat_replication)";
    let found = desk.read(text, &[]).await?;
    let found = found.first().map(|row| (row.get::<_, bool>(0), row.get::<_, bool>(1)));
    Ok(match found {
        Some((true, _)) => Replication::Synchronous,
        Some((false, true)) => Replication::Asynchronous,
        Some((false, false)) | None => Replication::Alone,
    })
}
