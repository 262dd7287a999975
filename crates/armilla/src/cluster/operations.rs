//! What operators do to the nodes of an account: `armilla cluster move`, `drain` and `remove`.
//!
//! Each is one fenced statement that changes a wish in the database, and then a look whether the nodes have done it. The
//! nodes find the wish when they look at each other, so nothing has to reach them.

use super::record::AccountRecord;
use super::{MoveOptions, NodeChoice, RemoveOptions, StoreOptions};
use crate::terminal::say;
use armilla_model::clock::monotonic;
use armilla_storage::ledger::{
    Incarnation, Ledger as _, NodeRow, NodeState, PostgresLedger, ShardRow, slice_journal,
};
use std::thread;
use std::time::Duration;

/// Between two looks whether it is done.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// So many beats of a node must not be heard before an operator's word that its machine is off is believed.
const SILENT_BEATS: u32 = 3;
/// How often a wish is written anew when the account changed its owner meanwhile.
const TRIES_MAX: u32 = 10;

/// The nodes and the journal as the database has them.
pub(super) struct Seen {
    pub(super) nodes: Vec<NodeRow>,
    journal: ShardRow,
}

impl Seen {
    fn read(ledger: &PostgresLedger) -> Result<Self, String> {
        Self::read_slice(ledger, 0)
    }

    /// The journal of one slice.
    pub(super) fn read_slice(ledger: &PostgresLedger, slice: u32) -> Result<Self, String> {
        let shards = ledger.shards().map_err(|error| error.to_string())?;
        let at = slice_journal(slice);
        let journal = shards.into_iter().find(|row| row.at == at);
        let journal = journal.ok_or("the database holds no journal: no node has ever started")?;
        let nodes = ledger.nodes().map_err(|error| error.to_string())?;
        Ok(Self { nodes, journal })
    }

    fn node(&self, name: &str) -> Result<&NodeRow, String> {
        let found = self.nodes.iter().find(|node| node.card.name == name);
        found.ok_or_else(|| {
            let known: Vec<&str> = self.nodes.iter().map(|node| &*node.card.name).collect();
            format!("there is no node '{name}'; there are: {}", known.join(", "))
        })
    }

    /// The life of a node that takes part.
    pub(super) fn node_up(&self, name: &str) -> Result<&NodeRow, String> {
        let node = self.node(name)?;
        match node.state {
            NodeState::Up => Ok(node),
            NodeState::Draining => {
                Err(format!("the node '{name}' is being drained: stop it and start it again first"))
            }
            NodeState::Gone => Err(format!("the node '{name}' is gone: start it first")),
        }
    }

    pub(super) fn owner(&self) -> Option<&NodeRow> {
        let (name, incarnation) = self.journal.owner.as_ref()?;
        let owner = self.nodes.iter().find(|node| node.card.name == *name)?;
        (owner.incarnation == *incarnation && owner.state != NodeState::Gone).then_some(owner)
    }

    fn is_owner(&self, life: Incarnation) -> bool {
        self.owner().is_some_and(|owner| owner.incarnation == life)
    }
}

pub(super) fn open(store: &StoreOptions) -> Result<PostgresLedger, String> {
    PostgresLedger::open(&store.address()?).map_err(|error| error.to_string())
}

/// Hands the account to a node.
pub(super) fn hand_to(options: &MoveOptions) -> Result<(), String> {
    let ledger = open(&options.choice.store)?;
    let record = AccountRecord::read(&ledger)?;
    if record.slices() > 1 {
        return super::slices::operations::hand_to(options, &ledger, record.slices());
    }
    let name = &options.choice.node;
    let heir = name_heir(&ledger, 0, name)?;
    wait(&ledger, options.wait, |seen| seen.is_owner(heir.incarnation)).map_err(|seen| {
        let behind = seen.node(name).map_or(0, |node| {
            seen.owner().map_or(0, |owner| owner.catalog.0.saturating_sub(node.catalog.0))
        });
        format!(
            "the account was not handed over within {} s ('{name}' is {behind} places behind). The wish stands: the owner hands \
             over when that node has caught up; armilla cluster move to another node takes it back",
            options.wait
        )
    })?;
    say(&format!("the node '{name}' owns the account"));
    Ok(())
}

/// Writes down who shall own the account. The epoch changes also when the owner lost its connection for a moment.
pub(super) fn name_heir(
    ledger: &PostgresLedger,
    slice: u32,
    name: &str,
) -> Result<NodeRow, String> {
    for _ in 0..TRIES_MAX {
        let seen = Seen::read_slice(ledger, slice)?;
        let heir = seen.node_up(name)?;
        let named = ledger.name_heir(seen.journal.at, seen.journal.epoch, heir);
        if named.map_err(|error| error.to_string())? {
            return Ok(heir.clone());
        }
    }
    Err("the account changes its owner again and again: look at armilla cluster status".to_owned())
}

/// Has a node hand over what it has, and keeps it from owning the account again.
pub(super) fn drain(options: &MoveOptions) -> Result<(), String> {
    let ledger = open(&options.choice.store)?;
    let name = &options.choice.node;
    let seen = Seen::read(&ledger)?;
    let node = seen.node(name)?.clone();
    let has_others =
        seen.nodes.iter().any(|other| other.card.name != *name && other.state == NodeState::Up);
    match node.state {
        NodeState::Gone => {
            return Err(format!("the node '{name}' is gone: there is nothing to drain"));
        }
        NodeState::Up if !has_others => {
            return Err(format!(
                "'{name}' is the only node that may own the account: start another one first, or just stop it"
            ));
        }
        NodeState::Up => {
            if !ledger.drain(&node).map_err(|error| error.to_string())? {
                return Err(format!("the node '{name}' has just ended or started: look again"));
            }
        }
        NodeState::Draining => {}
    }
    let slices = AccountRecord::read(&ledger)?.slices();
    if slices > 1 {
        return super::slices::operations::wait_for_drain(&ledger, options, slices);
    }
    let is_done = |seen: &Seen| seen.owner().is_some_and(|owner| owner.card.name != *name);
    wait(&ledger, options.wait, is_done).map_err(|_| {
        format!(
            "'{name}' still owns the account after {} s: the others' copies are not there yet. It hands over when one is",
            options.wait
        )
    })?;
    say(&format!(
        "the node '{name}' owns nothing and takes nothing; it passes requests on until you stop it. Started again after a stop, it takes part again"
    ));
    Ok(())
}

fn wait(
    ledger: &PostgresLedger,
    seconds: u64,
    is_done: impl Fn(&Seen) -> bool,
) -> Result<(), Box<Seen>> {
    let end = monotonic() + Duration::from_secs(seconds);
    let mut last = None;
    loop {
        // A database that does not answer for a moment is asked again.
        if let Ok(seen) = Seen::read(ledger) {
            if is_done(&seen) {
                return Ok(());
            }
            last = Some(seen);
        }
        match last.take_if(|_| monotonic() > end) {
            Some(seen) => return Err(Box::new(seen)),
            None => thread::sleep(LOOK_EVERY),
        }
    }
}

/// Declares a node gone whose machine is off, and strikes it from the list.
pub(super) fn remove(options: &RemoveOptions) -> Result<(), String> {
    let NodeChoice { store, node: name } = &options.choice;
    let ledger = open(store)?;
    let record = AccountRecord::read(&ledger)?;
    let before = Seen::read(&ledger)?.node(name)?.clone();
    if before.state != NodeState::Gone {
        // Twice the pause between two beats is not silence yet: one may be on its way.
        thread::sleep(record.beat_every() * SILENT_BEATS);
        let now = Seen::read(&ledger)?.node(name)?.clone();
        let is_same = (now.incarnation, now.beats) == (before.incarnation, before.beats);
        if now.state == NodeState::Gone {
            return forget(&ledger, &now);
        }
        if !is_same {
            return Err(format!(
                "the node '{name}' lives: it has just been heard. Stop it, or have it drained; nothing was changed"
            ));
        }
        if !options.machine_is_off {
            return Err(format!(
                "the node '{name}' is silent. Others replace it after its lease of {} s by themselves; to have it replaced at once, \
                 give --machine-is-off: if it only cannot reach the database, clients at it may read old values until its lease ends",
                record.lease().as_secs()
            ));
        }
        if !ledger.evict(&now).map_err(|error| error.to_string())? {
            return Err(format!("the node '{name}' was heard in this moment; nothing was changed"));
        }
    }
    let gone = Seen::read(&ledger)?.node(name)?.clone();
    forget(&ledger, &gone)
}

fn forget(ledger: &PostgresLedger, gone: &NodeRow) -> Result<(), String> {
    let name = &gone.card.name;
    match ledger.forget(gone).map_err(|error| error.to_string())? {
        true => {
            say(&format!("the node '{name}' is removed"));
            Ok(())
        }
        false => Err(format!("the node '{name}' has just started again; it was not removed")),
    }
}
