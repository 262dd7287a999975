//! `armilla cluster status`: who is who, as the database says.

use super::StatusOptions;
use crate::terminal::{note, say};
use armilla_model::clock::{Clock as _, SystemClock};
use armilla_storage::ledger::{
    ACCOUNT, Ledger as _, LedgerError, LedgerFacts, NodeRow, NodeState, PostgresLedger,
    Replication, ShardAt, ShardRow,
};
use serde_json::json;
use std::process::ExitCode;
use std::time::Duration;

/// Nobody owns the account.
const UNSERVED: u8 = 1;
/// The database cannot be asked.
const UNREACHABLE: u8 = 2;

pub(super) fn run(options: &StatusOptions) -> Result<ExitCode, String> {
    let address = options.store.address()?;
    match PostgresLedger::open(&address).and_then(|ledger| read(&ledger)) {
        Ok(status) => {
            say(&if options.json { status.to_json() } else { status.to_text() });
            let is_served = status.slices.iter().all(|slice| status.owner_of(slice).is_some());
            Ok(if is_served { ExitCode::SUCCESS } else { ExitCode::from(UNSERVED) })
        }
        Err(error) => {
            note(&error.to_string());
            Ok(ExitCode::from(UNREACHABLE))
        }
    }
}

struct ClusterStatus {
    account: String,
    nodes: Vec<NodeRow>,
    journal: Option<ShardRow>,
    /// All journals, in the order of the slices.
    slices: Vec<ShardRow>,
    facts: LedgerFacts,
    /// Milliseconds by which the database's clock is ahead of this machine's.
    clock_ahead: i64,
}

fn read(ledger: &PostgresLedger) -> Result<ClusterStatus, LedgerError> {
    let slices = ledger.shards()?;
    let journal = slices.iter().find(|row| row.at == ACCOUNT).cloned();
    let theirs = ledger.now_millis()?.cast_signed();
    Ok(ClusterStatus {
        account: ledger.account()?,
        nodes: ledger.nodes()?,
        journal,
        slices,
        facts: ledger.facts()?,
        clock_ahead: theirs.saturating_sub(SystemClock.now_millis().cast_signed()),
    })
}

impl ClusterStatus {
    /// The node that owns the account and is not gone.
    fn owner(&self) -> Option<&NodeRow> {
        self.owner_of(self.journal.as_ref()?)
    }

    /// The same of one slice.
    fn owner_of(&self, journal: &ShardRow) -> Option<&NodeRow> {
        let (name, incarnation) = journal.owner.as_ref()?;
        let is_owner = |node: &&NodeRow| {
            node.card.name == *name
                && node.incarnation == *incarnation
                && node.state != NodeState::Gone
        };
        self.nodes.iter().find(is_owner)
    }

    /// The node that shall own the account and does not yet.
    fn heir(&self) -> Option<&NodeRow> {
        let (name, incarnation) = self.journal.as_ref()?.heir.as_ref()?;
        let is_heir = |node: &&NodeRow| {
            node.card.name == *name
                && node.incarnation == *incarnation
                && node.state == NodeState::Up
        };
        let heir = self.nodes.iter().find(is_heir)?;
        self.owner().is_none_or(|owner| owner.incarnation != heir.incarnation).then_some(heir)
    }

    fn owns_some(&self, node: &NodeRow) -> bool {
        let owners = self.slices.iter().filter_map(|slice| self.owner_of(slice));
        owners.into_iter().any(|owner| owner.card.name == node.card.name)
    }

    /// What a node does, in a word.
    fn role(&self, node: &NodeRow) -> &'static str {
        match node.state {
            NodeState::Gone => "gone",
            _ if self.owns_some(node) => "owner",
            NodeState::Draining => "draining",
            NodeState::Up => "standby",
        }
    }

    /// How many rows of the journals, and how many bytes, wait to be folded.
    fn unfolded(&self, at: ShardAt) -> (u64, u64) {
        let found = self.facts.unfolded.iter().find(|unfolded| unfolded.at == at);
        found.map_or((0, 0), |unfolded| (unfolded.rows, unfolded.bytes))
    }

    /// How far a journal is.
    fn place_text(&self, journal: &ShardRow) -> String {
        let (rows, bytes) = self.unfolded(journal.at);
        let (epoch, folded) = (journal.epoch, journal.folded);
        let bytes = bytes_text(bytes);
        format!("epoch {epoch}, folded up to place {folded}, {rows} rows ({bytes}) behind that")
    }

    /// Rows of the journals that a node's copies lack, beside the node that is furthest.
    fn rows_behind(&self, node: &NodeRow) -> u64 {
        let alive = self.nodes.iter().filter(|node| node.state != NodeState::Gone);
        let newest = alive.map(|node| node.catalog.0).max().unwrap_or(0);
        newest.saturating_sub(node.catalog.0)
    }

    fn database_text(&self) -> String {
        let LedgerFacts { journal_bytes, base_bytes, oldest_snapshot, replication, .. } =
            &self.facts;
        let (journal, base) = (bytes_text(*journal_bytes), bytes_text(*base_bytes));
        let clock = seconds(Duration::from_millis(self.clock_ahead.unsigned_abs()));
        let direction = if self.clock_ahead < 0 { "behind" } else { "ahead" };
        let oldest = oldest_snapshot.map_or("none".to_owned(), seconds);
        let replicas = match replication {
            Replication::Alone => "none",
            Replication::Synchronous => "confirm each write",
            Replication::Asynchronous => "confirm nothing: a failover may lose acknowledged writes",
        };
        format!(
            "database journal {journal}, base {base}, oldest statement {oldest}, clock {clock} {direction}, replicas {replicas}"
        )
    }

    fn to_text(&self) -> String {
        let mut lines = vec![format!("account  {}", self.account)];
        lines.push(match self.owner() {
            Some(owner) => format!("owner    {} at {}", owner.card.name, owner.card.address),
            None => "owner    none: requests are told to come back".to_owned(),
        });
        if let Some(heir) = self.heir() {
            lines.push(format!("moving   to {}", heir.card.name));
        }
        if self.slices.len() > 1 {
            let line = |(number, slice): (usize, &ShardRow)| {
                let owner = self.owner_of(slice).map_or("nobody", |owner| &owner.card.name);
                format!("slice {number:<3}{owner}, {}", self.place_text(slice))
            };
            lines.extend(self.slices.iter().enumerate().map(line));
        } else if let Some(journal) = &self.journal {
            lines.push(format!("journal  {}", self.place_text(journal)));
        }
        lines.push(self.database_text());
        lines.push(format!(
            "{:<20} {:<9} {:>11} {:>10} {:>12} {:>8} {:<10} address",
            "node", "role", "incarnation", "beats", "place", "behind", "version"
        ));
        for node in &self.nodes {
            lines.push(format!(
                "{:<20} {:<9} {:>11} {:>10} {:>12} {:>8} {:<10} {}",
                node.card.name,
                self.role(node),
                node.incarnation,
                node.beats,
                node.catalog,
                self.rows_behind(node),
                node.card.version,
                node.card.address
            ));
        }
        lines.join("\n")
    }

    fn to_json(&self) -> String {
        let node = |node: &NodeRow| {
            json!({
                "name": node.card.name, "role": self.role(node), "address": node.card.address,
                "incarnation": node.incarnation.0, "beats": node.beats, "place": node.catalog.0,
                "behind": self.rows_behind(node), "version": node.card.version,
            })
        };
        let journal = self.journal.as_ref();
        let journal = journal.map(|row| {
            let (rows, bytes) = self.unfolded(row.at);
            json!({ "epoch": row.epoch.0, "folded": row.folded.0, "unfolded": rows, "unfolded_bytes": bytes })
        });
        let nodes: Vec<_> = self.nodes.iter().map(node).collect();
        let slice = |row: &ShardRow| {
            let owner = self.owner_of(row).map(|owner| owner.card.name.clone());
            let (rows, bytes) = self.unfolded(row.at);
            json!({
                "owner": owner, "epoch": row.epoch.0, "folded": row.folded.0, "unfolded": rows,
                "unfolded_bytes": bytes,
            })
        };
        let slices: Vec<_> = self.slices.iter().map(slice).collect();
        let name = |node: &NodeRow| node.card.name.clone();
        let (owner, heir) = (self.owner().map(name), self.heir().map(name));
        let facts = &self.facts;
        let replicas = match facts.replication {
            Replication::Alone => "none",
            Replication::Synchronous => "synchronous",
            Replication::Asynchronous => "asynchronous",
        };
        let database = json!({
            "journal_bytes": facts.journal_bytes, "base_bytes": facts.base_bytes, "replicas": replicas,
            "oldest_snapshot_seconds": facts.oldest_snapshot.map(|age| age.as_secs_f64()),
            "clock_ahead_millis": self.clock_ahead,
        });
        json!({
            "account": self.account, "owner": owner, "moving_to": heir, "journal": journal, "slices": slices,
            "database": database, "nodes": nodes,
        })
        .to_string()
    }
}

/// A size as people read it.
fn bytes_text(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..10_000_000 => format!("{} KB", bytes / 1_000),
        10_000_000..10_000_000_000 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{} GB", bytes / 1_000_000_000),
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use armilla_storage::ledger::{Epoch, Incarnation, NodeCard, Place, ShardState, UnfoldedRows};

    fn node(name: &str, incarnation: u64, state: NodeState) -> NodeRow {
        let address = format!("http://{name}:1");
        let card = NodeCard { name: name.into(), address, version: "0".into() };
        let incarnation = Incarnation(incarnation);
        NodeRow { card, incarnation, beats: 3, state, catalog: Place(9) }
    }

    #[test]
    fn the_owner_is_told_from_standbys_and_from_its_earlier_life() {
        let journal = ShardRow {
            at: ACCOUNT,
            epoch: Epoch(4),
            owner: Some(("a".into(), Incarnation(1))),
            state: ShardState::Open,
            folded: Place(5),
            lsn: 5,
            heir: None,
        };
        let nodes = vec![
            node("a", 1, NodeState::Up),
            node("b", 2, NodeState::Up),
            node("c", 3, NodeState::Gone),
        ];
        let slices = vec![journal.clone()];
        let facts = LedgerFacts {
            journal_bytes: 1_200_000,
            base_bytes: 9_000,
            unfolded: vec![UnfoldedRows { at: ACCOUNT, rows: 4, bytes: 34_000 }],
            oldest_snapshot: Some(Duration::from_millis(250)),
            replication: Replication::Asynchronous,
        };
        let (account, journal) = ("x".into(), Some(journal));
        let mut status =
            ClusterStatus { account, nodes, journal, slices, facts, clock_ahead: -1_500 };
        status.nodes[1].catalog = Place(2);
        let text = status.to_text();
        assert!(text.contains("owner    a at http://a:1"), "{text}");
        assert!(text.contains("folded up to place 5, 4 rows (34 KB) behind that"), "{text}");
        let database = "database journal 1200 KB, base 9000 B, oldest statement 0.2 s, clock 1.5 s behind, replicas confirm nothing";
        assert!(text.contains(database), "{text}");
        let behind: Vec<_> = status.nodes.iter().map(|node| status.rows_behind(node)).collect();
        assert_eq!(behind, [0, 7, 0]);
        let roles: Vec<_> = status.nodes.iter().map(|node| status.role(node)).collect();
        assert_eq!(roles, ["owner", "standby", "gone"]);
        let json: serde_json::Value = serde_json::from_str(&status.to_json()).unwrap();
        assert_eq!((&json["owner"], &json["journal"]["epoch"]), (&"a".into(), &4.into()));
        assert_eq!(
            (&json["journal"]["unfolded"], &json["nodes"][1]["behind"]),
            (&4.into(), &7.into())
        );
        assert_eq!(json["database"]["replicas"], "asynchronous");
        status.journal.as_mut().unwrap().heir = Some(("b".into(), Incarnation(2)));
        assert!(status.to_text().contains("moving   to b"));
        status.journal.as_mut().unwrap().heir = Some(("b".into(), Incarnation(1)));
        assert!(status.heir().is_none(), "that life is over");
        status.nodes[0].incarnation = Incarnation(9);
        assert!(status.owner().is_none(), "the life that owned the account is over");
        assert!(status.to_text().contains("owner    none"));
    }
}
