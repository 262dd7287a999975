//! The ledger in PostgreSQL, spoken to by its own protocol.
//!
//! Every change is one call of a function of [`SCHEMA`], an implicit transaction; nothing is sent between `begin` and `commit`. An answer
//! counts when the database is ready for the next statement, and when no warning came with it: a backend that is cancelled while
//! it waits for its replica answers "done" with a warning, and the row may be lost.
//!
//! Four sessions, each opened when it is first needed and again when it broke: the *[lane]* (appends; the writers' own threads move its bytes), and
//! on one thread of their own the *folder* (folds and cuts, whose loss costs nothing and which therefore do not wait for the disk), the *pulse*
//! (beats, and the look at who else beats, which must not wait behind anything), and the *desk* for everything else.

mod encryption;
mod facts;
mod lane;
mod operations;
mod session;
mod statements;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio_postgres::Config;

pub use self::encryption::Protection;
use self::encryption::{Connector, Wish};
pub use self::facts::{LedgerFacts, Replication, UnfoldedRows};
use self::lane::AppendLine;
use self::session::{Line, Role};
use super::{
    Entry, Epoch, Home, Incarnation, JournalRow, KeyStates, LEDGER_FORMAT, Ledger, LedgerError,
    NodeCard, NodeRow, Place, Reshape, Shard, ShardAt, ShardRow, Taken, Verdict,
};
use crate::{KeyRange, Keyspace};

/// The tables and functions of the ledger.
pub const SCHEMA: &str = include_str!("postgres/schema.sql");

/// Where a ledger is, and how to get in. It is never printed, because it may hold a password.
#[derive(Clone)]
pub struct StoreAddress {
    /// `postgres://user@host,host/database`, or `host=… user=… dbname=…`.
    pub url: String,
    /// A password that the address does not hold.
    pub password: Option<String>,
    /// Certificates of the authorities that may vouch for the database, in DER; see [`StoreAddress::protection`].
    pub roots: Vec<Vec<u8>>,
}

impl StoreAddress {
    /// An address that says everything.
    #[must_use]
    pub fn new(url: &str) -> Self {
        Self { url: url.to_owned(), password: None, roots: Vec::new() }
    }

    /// How the connection is to be protected, and the file with the authorities that are trusted, if the address names one.
    ///
    /// # Errors
    ///
    /// When the address is not understood, or could leave a connection to another machine without encryption and does not say so.
    pub fn protection(&self) -> Result<(Protection, Option<PathBuf>), LedgerError> {
        let wish = Wish::read(&self.url)?;
        Ok((wish.protection, wish.root_file))
    }

    fn config(&self) -> Result<(Config, Connector), LedgerError> {
        let wish = Wish::read(&self.url)?;
        let mut config: Config = wish.address.parse().map_err(|error| {
            LedgerError::Unreachable(format!("the address is not understood: {error}"))
        })?;
        if let Some(password) = &self.password {
            config.password(password);
        }
        let connector = Connector::new(wish.protection, &self.roots, &mut config)?;
        Ok((config, connector))
    }
}

impl fmt::Debug for StoreAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("StoreAddress")
    }
}

/// A [`Ledger`] in a PostgreSQL database.
pub struct PostgresLedger {
    handle: Handle,
    lines: Arc<Lines>,
    lane: AppendLine,
    node: Mutex<Option<(String, Incarnation)>>,
    /// Ends the thread of the sessions when it is dropped.
    _end: oneshot::Sender<()>,
}

/// The sessions on the thread.
pub(super) struct Lines {
    folder: Line,
    pulse: Line,
    desk: Line,
}

impl PostgresLedger {
    /// Makes the tables and functions in an empty database, with settings that every node shall read.
    ///
    /// # Errors
    ///
    /// When the database cannot be reached, or holds a ledger already.
    pub fn create(
        address: &StoreAddress,
        account: u128,
        settings: &[u8],
    ) -> Result<(), LedgerError> {
        let ledger = Self::connect(address)?;
        let settings = settings.to_vec();
        ledger.wait(|lines| async move { statements::create(&lines.desk, account, settings).await })
    }

    /// Opens the ledger in a database for a node.
    ///
    /// # Errors
    ///
    /// When the database cannot be reached, holds no ledger or one of another format, or is set up in a way that could lose what
    /// it has confirmed.
    pub fn open(address: &StoreAddress) -> Result<Self, LedgerError> {
        let ledger = Self::connect(address)?;
        let found = ledger.wait(|lines| async move { statements::format(&lines.desk).await })?;
        if found == LEDGER_FORMAT {
            Ok(ledger)
        } else {
            Err(LedgerError::Format { found, expected: LEDGER_FORMAT })
        }
    }

    /// The settings that were given when the ledger was made.
    ///
    /// # Errors
    ///
    /// When the database cannot be reached.
    pub fn settings(&self) -> Result<Vec<u8>, LedgerError> {
        self.wait(|lines| async move { statements::settings(&lines.desk).await })
    }

    /// Replaces the settings, if they are still what they were.
    ///
    /// # Errors
    ///
    /// When the database cannot be reached, or the outcome is unknown.
    pub fn replace_settings(&self, before: &[u8], after: &[u8]) -> Result<bool, LedgerError> {
        let (before, after) = (before.to_vec(), after.to_vec());
        self.wait(
            |lines| async move { operations::replace_settings(&lines.desk, before, after).await },
        )
    }

    /// Gives the account another id and other settings, if both are still what they were and nobody owns it.
    ///
    /// # Errors
    ///
    /// As [`PostgresLedger::replace_settings`].
    pub fn replace_account(
        &self,
        (id_before, id_after): (&str, u128),
        (before, after): (&[u8], &[u8]),
    ) -> Result<bool, LedgerError> {
        let ids = (id_before.to_owned(), format!("{id_after:032x}"));
        let settings = (before.to_vec(), after.to_vec());
        self.wait(
            |lines| async move { operations::replace_account(&lines.desk, ids, settings).await },
        )
    }

    /// The id of the account, which tells copies of one from copies of another.
    ///
    /// # Errors
    ///
    /// When the database cannot be reached.
    pub fn account(&self) -> Result<String, LedgerError> {
        self.wait(|lines| async move { statements::account(&lines.desk).await })
    }

    /// The database's clock, in milliseconds since 1970.
    ///
    /// # Errors
    ///
    /// When the database cannot be reached.
    pub fn now_millis(&self) -> Result<u64, LedgerError> {
        self.wait(|lines| async move { statements::now_millis(&lines.desk).await })
    }

    /// What the database says of itself.
    ///
    /// # Errors
    ///
    /// When the database cannot be reached.
    pub fn facts(&self) -> Result<LedgerFacts, LedgerError> {
        self.wait(|lines| async move { facts::facts(&lines.desk).await })
    }

    /// Who confirms a write beside the database.
    ///
    /// # Errors
    ///
    /// When the database cannot be reached.
    pub fn replication(&self) -> Result<Replication, LedgerError> {
        self.wait(|lines| async move { facts::replication(&lines.desk).await })
    }

    fn connect(address: &StoreAddress) -> Result<Self, LedgerError> {
        let (config, connector) = address.config()?;
        let line = |role| Line::new(config.clone(), connector.clone(), role);
        let lines = Arc::new(Lines {
            folder: line(Role::Folder),
            pulse: line(Role::Pulse),
            desk: line(Role::Desk),
        });
        let (end, ended) = oneshot::channel();
        let handle = start_thread(ended)?;
        let lane = AppendLine::new(line(Role::Lane))?;
        Ok(Self { handle, lines, lane, node: Mutex::new(None), _end: end })
    }

    /// Runs a statement on the thread of the sessions and waits for it here.
    fn wait<T, F>(&self, ask: impl FnOnce(Arc<Lines>) -> F) -> Result<T, LedgerError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, LedgerError>> + Send + 'static,
    {
        let (answer, answered) = mpsc::sync_channel(1);
        let asked = ask(Arc::clone(&self.lines));
        self.handle.spawn(async move {
            // Nobody waits only when the caller's thread has ended.
            let _ = answer.send(asked.await);
        });
        answered.recv().unwrap_or_else(|_| {
            Err(LedgerError::OutcomeUnknown("the thread of the ledger has ended".into()))
        })
    }

    fn myself(&self) -> (String, Incarnation) {
        self.node.lock().clone().expect("a node joins before it does anything else")
    }
}

/// Starts the thread on which the other sessions live; it ends with the ledger.
fn start_thread(ended: oneshot::Receiver<()>) -> Result<Handle, LedgerError> {
    let failed = |error: std::io::Error| {
        LedgerError::Unreachable(format!("the thread of the ledger cannot be started: {error}"))
    };
    let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let handle = runtime.handle().clone();
    thread::Builder::new()
        .name("ledger".into())
        .spawn(move || {
            // An error says that the sender was dropped, which is the end too.
            let _ = runtime.block_on(ended);
        })
        .map_err(failed)?;
    Ok(handle)
}

impl Ledger for PostgresLedger {
    fn join(&self, node: &NodeCard) -> Result<Option<Incarnation>, LedgerError> {
        let card = node.clone();
        let joined = self.wait(|lines| async move { statements::join(&lines.desk, card).await })?;
        if let Some(incarnation) = joined {
            *self.node.lock() = Some((node.name.clone(), incarnation));
        }
        Ok(joined)
    }

    fn me(&self) -> Option<(String, Incarnation)> {
        self.node.lock().clone()
    }

    fn beat(&self, catalog: Place) -> Result<Option<u64>, LedgerError> {
        let me = self.myself();
        self.wait(|lines| async move { statements::beat(&lines.pulse, me, catalog).await })
    }

    fn nodes(&self) -> Result<Vec<NodeRow>, LedgerError> {
        self.wait(|lines| async move { statements::nodes(&lines.pulse).await })
    }

    fn evict(&self, node: &NodeRow) -> Result<bool, LedgerError> {
        let node = node.clone();
        self.wait(|lines| async move { statements::evict(&lines.pulse, node).await })
    }

    fn drain(&self, node: &NodeRow) -> Result<bool, LedgerError> {
        let node = node.clone();
        self.wait(|lines| async move { operations::drain(&lines.pulse, node).await })
    }

    fn forget(&self, node: &NodeRow) -> Result<bool, LedgerError> {
        let node = node.clone();
        self.wait(|lines| async move { operations::forget(&lines.pulse, node).await })
    }

    fn name_heir(&self, at: ShardAt, epoch: Epoch, heir: &NodeRow) -> Result<bool, LedgerError> {
        let heir = heir.clone();
        self.wait(|lines| async move { operations::name_heir(&lines.pulse, at, epoch, heir).await })
    }

    fn shards(&self) -> Result<Vec<ShardRow>, LedgerError> {
        self.wait(|lines| async move { statements::shards(&lines.pulse).await })
    }

    fn open(&self, home: Home, shards: &[(Shard, u64)]) -> Result<(), LedgerError> {
        let shards = shards.to_vec();
        self.wait(|lines| async move { statements::open(&lines.desk, home, shards).await })
    }

    fn drop_shards(&self, home: Home, shards: &[Shard]) -> Result<(), LedgerError> {
        let shards = shards.to_vec();
        self.wait(|lines| async move { statements::drop_shards(&lines.desk, home, shards).await })
    }

    fn take(&self, shard: ShardAt, seen: Epoch) -> Result<Option<Taken>, LedgerError> {
        let me = self.myself();
        self.wait(|lines| async move { statements::take(&lines.desk, shard, seen, me).await })
    }

    fn release(&self, shard: ShardAt, epoch: Epoch) -> Result<bool, LedgerError> {
        self.wait(|lines| async move { statements::release(&lines.desk, shard, epoch).await })
    }

    fn append(&self, entries: &[Entry]) -> Result<Vec<Verdict>, LedgerError> {
        self.lane.append(entries)
    }

    fn fold(&self, shard: ShardAt, epoch: Epoch, states: KeyStates) -> Result<bool, LedgerError> {
        self.wait(
            |lines| async move { statements::fold(&lines.folder, shard, epoch, states).await },
        )
    }

    fn cut(&self, shard: ShardAt, epoch: Epoch, upto: Place) -> Result<u64, LedgerError> {
        self.wait(|lines| async move { statements::cut(&lines.folder, shard, epoch, upto).await })
    }

    fn reshape(&self, reshape: Reshape) -> Result<bool, LedgerError> {
        let me = self.myself();
        self.wait(|lines| async move { statements::reshape(&lines.desk, reshape, me).await })
    }

    fn journal(
        &self,
        after: &[(ShardAt, Place)],
        bytes_max: usize,
    ) -> Result<Vec<JournalRow>, LedgerError> {
        let after = after.to_vec();
        self.wait(|lines| async move { statements::journal(&lines.desk, after, bytes_max).await })
    }

    fn base(
        &self,
        home: Home,
        space: Keyspace,
        range: &KeyRange,
        rows: usize,
    ) -> Result<Vec<(Vec<u8>, Bytes)>, LedgerError> {
        let range = range.clone();
        self.wait(move |lines| async move {
            statements::base(&lines.desk, home, space, range, rows).await
        })
    }

    fn reserve(&self, name: &str, many: u64) -> Result<u64, LedgerError> {
        let name = name.to_owned();
        self.wait(|lines| async move { statements::reserve(&lines.desk, name, many).await })
    }
}
