//! The lives of a node in one process: it joins, follows, owns the account, hands it over, and joins again.
//!
//! ```text
//!   join ─► follow ─► own ─► hand over ─► (nothing of the account is left) ─► join …
//! ```
//!
//! What clients are connected to lives on: the server, its front, which passes requests on, and their connections. What belongs to an ownership ends with
//! it: the account is closed and must be gone from memory, the copy is opened anew, and the node joins under another incarnation. Where something of
//! the account is still held, by a script that does not end for example, the whole process starts itself anew instead
//! ([`handover::start_again`]).

use super::folder::{self, FolderCopy, Joined, NodeFile, refuse_foreign_data};
use super::handover::{self, Handover};
use super::node::{self, NodeState};
use super::serve::{NodePorts, patiently};
use crate::advise::Watching;
use crate::config::ServeOptions;
use crate::control::{self, Control, Tickets};
use crate::offline::refusal;
use crate::private;
use crate::serve::{account_options, disk, open_account, open_store, service};
use crate::terminal::note;
use armilla_engine::{Account, Slice};
use armilla_gateway::auth::Authenticator;
use armilla_gateway::cluster::{LateService, NodeGauges, OwnerPlaces};
use armilla_gateway::ops::EngineService;
use armilla_model::clock::{Clock, SystemClock, monotonic};
use armilla_storage::Store;
use armilla_storage::ledger::{
    Incarnation, JoinError, LedgerStore, Member, NodeCard, PostgresLedger, Replica,
};
use parking_lot::Mutex;
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How long the account may stay in memory after it was closed: readers of metrics, a page of advice.
const ACCOUNT_GONE_MAX: Duration = Duration::from_secs(3);
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What the node has once it owns the account.
#[derive(Default)]
pub(super) struct OpenAccount {
    account: Option<Arc<Account>>,
    control: Option<Control>,
    watching: Option<Arc<Watching>>,
    /// The one that was closed.
    closed: Weak<Account>,
}

impl OpenAccount {
    /// Lets another node have the account before the rest of [`OpenAccount::close`], which may take its time.
    pub(super) fn give_up(&self) {
        if let Some(account) = &self.account {
            account.store().end_waits();
            account.give_up();
        }
    }

    /// Closes the account, and gives it up: another node may take it from now on.
    pub(super) fn close(&mut self) -> Result<(), String> {
        let Self { account, control, watching, .. } = std::mem::take(self);
        let Some(account) = account else { return Ok(()) };
        self.closed = Arc::downgrade(&account);
        drop((control, watching));
        // A database that is away is not waited for: what was not answered may be done or not.
        account.store().end_waits();
        account.close().map_err(|error| error.to_string())
    }
}

/// What all lives of a node share.
pub(super) struct NodeLives {
    pub(super) options: ServeOptions,
    pub(super) ports: NodePorts,
    pub(super) ledger: Arc<PostgresLedger>,
    pub(super) places: OwnerPlaces,
    pub(super) gauges: Arc<NodeGauges>,
    pub(super) late: LateService<EngineService>,
    pub(super) authenticator: Arc<Authenticator>,
    /// Where the explorer is.
    pub(super) explorer: String,
    /// Webhooks are called from tasks of the server.
    pub(super) runtime: tokio::runtime::Handle,
}

/// One life.
pub(super) struct NodeLife {
    node: Arc<NodeState>,
    beats: JoinHandle<()>,
    opened: Arc<Mutex<OpenAccount>>,
    handover: Arc<Handover>,
}

impl NodeLives {
    /// Opens the local copy and enters the account.
    pub(super) fn join(
        options: &ServeOptions,
        ledger: &Arc<PostgresLedger>,
        ports: &NodePorts,
    ) -> Result<(Arc<dyn Store>, Joined), String> {
        let (folder, record) = (options.data(), &ports.record);
        let account = patiently(|| ledger.account())?;
        let found = NodeFile::read(&folder)?;
        let copy = NodeFile::belongs(found.as_ref(), &folder, (&account, &ports.name, record))?;
        private::tighten(&folder);
        let mut store = open_store(options, Some(&folder), &ports.descriptors)?;
        if let FolderCopy::Lost(_) = copy {
            note(
                "the database has lost writes, which was accepted: this node's copy is thrown away and made anew",
            );
            // It could be opened, so no other process has the folder.
            store.close().map_err(refusal)?;
            drop(store);
            folder::empty(&folder)?;
            store = open_store(options, Some(&folder), &ports.descriptors)?;
        }
        if copy == FolderCopy::None {
            refuse_foreign_data(&*store, &folder)?;
        }
        if let Some(disk) = disk(Some(&folder))? {
            Account::retain_index_files(&*store, disk).map_err(refusal)?;
        }
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let address = ports.advertised.to_string();
        let card = NodeCard { name: ports.name.clone(), address, version };
        let before: Option<Incarnation> = copy.incarnation();
        let member = patiently(|| {
            match Member::join(ledger.clone(), card.clone(), before, record.lease()) {
                Err(JoinError::Ledger(error)) => Err(error),
                other => Ok(other),
            }
        })?;
        let member = member.map_err(|error| error.to_string())?;
        let draining = found.is_some_and(|found| found.draining);
        let file = NodeFile { account, name: ports.name.clone(), incarnation: 0, draining };
        Ok((store, Joined::enter(member, &folder, file)?))
    }

    /// Begins a life: follows, and takes the account over when nobody has it.
    pub(super) fn begin(
        self: &Arc<Self>,
        store: Arc<dyn Store>,
        joined: Joined,
    ) -> Result<NodeLife, String> {
        let replica = Replica::new(store.clone(), self.ledger.clone()).map_err(refusal)?;
        let (node, successors) = NodeState::new(joined, self.places.clone(), self.gauges.clone());
        let node = Arc::new(node);
        let opened = Arc::new(Mutex::new(OpenAccount::default()));
        let handover = handover::start(node.clone(), self.late.clone(), opened.clone(), successors);
        let beats = node::start_beats(node.clone());
        let (lives, owner, kept) = (Arc::clone(self), node.clone(), opened.clone());
        let retention = self.options.node.retention();
        let rehearsing = Arc::clone(self);
        let rehearse = move || rehearsing.rehearse(&store);
        node::start_following(node.clone(), (replica, retention), rehearse, move |store| {
            *kept.lock() = lives.open(store, &owner)?;
            Ok(())
        });
        Ok(NodeLife { node, beats, opened, handover })
    }

    /// Makes the indexes of an account that this node will own soon.
    fn rehearse(&self, copy: &Arc<dyn Store>) -> Result<bool, String> {
        let disk = disk(Some(&self.options.data()))?;
        let options = account_options(&self.options, Arc::new(SystemClock), disk, None)?;
        Account::rehearse(copy, options).map_err(refusal)
    }

    /// Opens the account that this node owns now.
    fn open(&self, store: LedgerStore, node: &Arc<NodeState>) -> Result<OpenAccount, String> {
        let _entered = self.runtime.enter();
        let folder = self.options.data();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let disk = disk(Some(&folder))?;
        let number = etag_number(&self.ports.account, node.member.incarnation().0);
        let store = Arc::new(store);
        let life = (Some(number), Slice::WHOLE);
        let account = open_account(&self.options, store, clock, disk.clone(), life)?;
        let (service, watching) = service(&self.options, &account, &self.authenticator, disk)?;
        let asked = node.clone();
        let holds_lease = Arc::new(move || asked.holds_lease());
        self.late.begin(service.with_nodes(node.clone()), holds_lease);
        let tickets = Tickets {
            authenticator: self.authenticator.clone(),
            clock: Arc::new(SystemClock),
            address: self.explorer.clone(),
        };
        let control = control::start(&folder, account.clone(), tickets);
        let (account, control, closed) = (Some(account), Some(control), Weak::new());
        Ok(OpenAccount { account, control, watching, closed })
    }

    /// Begins another life after the account was handed over.
    ///
    /// # Errors
    ///
    /// When something of the account is still in use, or the copy cannot be opened: the process must start anew.
    pub(super) fn begin_again(self: &Arc<Self>, over: NodeLife) -> Result<NodeLife, String> {
        let NodeLife { node, beats, opened, .. } = over;
        node.end_beats(beats);
        let closed = opened.lock().closed.clone();
        drop((node, opened));
        let end = monotonic() + ACCOUNT_GONE_MAX;
        while closed.strong_count() > 0 {
            if monotonic() > end {
                return Err("something of the account is still in use".to_owned());
            }
            thread::sleep(LOOK_EVERY);
        }
        let (store, joined) = Self::join(&self.options, &self.ledger, &self.ports)?;
        self.begin(store, joined)
    }
}

/// The number that the etags of an ownership carry. Incarnations and epochs begin anew in an account that is made of a backup or after a loss, and etags
/// of both may be kept by one client: so the account's id is in it.
pub(super) fn etag_number(account: &str, ownership: u64) -> u64 {
    let digits: String = account.chars().filter(char::is_ascii_hexdigit).take(10).collect();
    let account = u64::from_str_radix(&digits, 16).unwrap_or_default();
    (account << 24).wrapping_add(ownership)
}

impl NodeLife {
    /// Tells when the account was handed over, and to whom.
    pub(super) fn handover(&self) -> Arc<Handover> {
        self.handover.clone()
    }

    /// Ends it in order: the account is given up, and the others need not wait for the end of the lease.
    pub(super) fn end(self) -> Result<(), String> {
        self.node.stop();
        self.opened.lock().close()?;
        self.node.leave(self.beats);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_have_etags_of_their_own() {
        let (first, second) =
            ("d3d9d315-e632-224b-a73c-021c642cd1af", "d3d9d315-e732-224b-a73c-021c642cd1af");
        assert_eq!(etag_number(first, 7), 0xd3d9_d315_e600_0007);
        assert_ne!(etag_number(first, 7), etag_number(second, 7));
        assert_ne!(etag_number(first, 7), etag_number(first, 8));
        assert_eq!(etag_number("", 7), 7);
    }
}
