//! `armilla cluster status`: who is who, as the database says.

use super::StatusOptions;
use crate::terminal::{note, say};
use armilla_storage::ledger::{
    ACCOUNT, Ledger as _, LedgerError, NodeRow, NodeState, PostgresLedger, ShardRow,
};
use serde_json::json;
use std::process::ExitCode;

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
}

fn read(ledger: &PostgresLedger) -> Result<ClusterStatus, LedgerError> {
    let slices = ledger.shards()?;
    let journal = slices.iter().find(|row| row.at == ACCOUNT).cloned();
    Ok(ClusterStatus { account: ledger.account()?, nodes: ledger.nodes()?, journal, slices })
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
                let (epoch, folded) = (slice.epoch, slice.folded);
                format!("slice {number:<3}{owner}, epoch {epoch}, folded up to place {folded}")
            };
            lines.extend(self.slices.iter().enumerate().map(line));
        } else if let Some(journal) = &self.journal {
            lines.push(format!(
                "journal  epoch {}, folded up to place {}",
                journal.epoch, journal.folded
            ));
        }
        lines.push(format!(
            "{:<20} {:<9} {:>11} {:>10} {:>12} {:<10} address",
            "node", "role", "incarnation", "beats", "place", "version"
        ));
        for node in &self.nodes {
            lines.push(format!(
                "{:<20} {:<9} {:>11} {:>10} {:>12} {:<10} {}",
                node.card.name,
                self.role(node),
                node.incarnation,
                node.beats,
                node.catalog,
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
                "version": node.card.version,
            })
        };
        let journal = self.journal.as_ref();
        let journal = journal.map(|row| json!({ "epoch": row.epoch.0, "folded": row.folded.0 }));
        let nodes: Vec<_> = self.nodes.iter().map(node).collect();
        let slice = |row: &ShardRow| {
            let owner = self.owner_of(row).map(|owner| owner.card.name.clone());
            json!({ "owner": owner, "epoch": row.epoch.0, "folded": row.folded.0 })
        };
        let slices: Vec<_> = self.slices.iter().map(slice).collect();
        let name = |node: &NodeRow| node.card.name.clone();
        let (owner, heir) = (self.owner().map(name), self.heir().map(name));
        json!({
            "account": self.account, "owner": owner, "moving_to": heir, "journal": journal, "slices": slices,
            "nodes": nodes,
        })
        .to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use armilla_storage::ledger::{Epoch, Incarnation, NodeCard, Place, ShardState};

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
        let mut status =
            ClusterStatus { account: "x".into(), nodes, journal: Some(journal), slices };
        let text = status.to_text();
        assert!(text.contains("owner    a at http://a:1"), "{text}");
        let roles: Vec<_> = status.nodes.iter().map(|node| status.role(node)).collect();
        assert_eq!(roles, ["owner", "standby", "gone"]);
        let json: serde_json::Value = serde_json::from_str(&status.to_json()).unwrap();
        assert_eq!((&json["owner"], &json["journal"]["epoch"]), (&"a".into(), &4.into()));
        status.journal.as_mut().unwrap().heir = Some(("b".into(), Incarnation(2)));
        assert!(status.to_text().contains("moving   to b"));
        status.journal.as_mut().unwrap().heir = Some(("b".into(), Incarnation(1)));
        assert!(status.heir().is_none(), "that life is over");
        status.nodes[0].incarnation = Incarnation(9);
        assert!(status.owner().is_none(), "the life that owned the account is over");
        assert!(status.to_text().contains("owner    none"));
    }
}
