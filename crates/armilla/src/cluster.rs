//! Several nodes that serve one account over a PostgreSQL database (`docs/cluster.md`).
//!
//! * `armilla cluster init` makes the ledger and prints the account key.
//! * `armilla serve --store …` is a node: first a standby that follows, then perhaps the owner ([`node`]).
//! * `armilla cluster status` tells who is who; it asks the database alone. So do `move`, `drain` and `remove`, which change what
//!   the database says ([`operations`]).
//! * `armilla cluster accept-loss`, and `backup`, `restore` and `verify` with `--store`, visit the account in the database ([`keeping`]).

mod folder;
mod handover;
mod heir;
pub(crate) mod keeping;
mod life;
mod node;
mod operations;
mod pace;
mod record;
pub(crate) mod serve;
mod slices;
mod status;
mod visitor;

use crate::config::environment;
use crate::given_file;
use crate::terminal::say;
use armilla_engine::limits::SLICES_MAX;
use armilla_gateway::cluster::NodeAddress;
use armilla_storage::ledger::{
    Ledger as _, LedgerError, PostgresLedger, Protection, StoreAddress, slice_journal,
};
use clap::{Args, Subcommand};
use record::AccountRecord;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

pub(crate) use folder::refuse_node_folder;

/// Flags of a node.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Several nodes")]
pub(crate) struct NodeOptions {
    /// Database that holds the account, as postgres://user@host/database: this server is one of several nodes
    #[arg(long, env = "ARMILLA_STORE", hide_env_values = true, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// File with the password of that database, where the URL has none
    #[arg(long, env = "ARMILLA_STORE_PASSWORD_FILE", value_name = "FILE", requires = "store")]
    pub(crate) store_password_file: Option<PathBuf>,
    /// Name of this node, unique in the account [environment also: HOSTNAME]
    #[arg(long, env = "ARMILLA_NODE_NAME", requires = "store")]
    pub(crate) node_name: Option<String>,
    /// Where other nodes reach this one, as https://10.0.0.1:8081, or http:// on a network of their own
    #[arg(long, env = "ARMILLA_ADVERTISE", value_name = "URL", requires = "store")]
    pub(crate) advertise: Option<String>,
    /// Minutes for which the database keeps what a node that is away may still want to read
    #[arg(long, env = "ARMILLA_RETENTION", default_value_t = 10, value_name = "MINUTES", requires = "store",
          value_parser = clap::value_parser!(u64).range(1..=1440))]
    pub(crate) retention: u64,
    /// Leave slices where they are: do not spread them over the nodes when nodes came or went
    #[arg(long, env = "ARMILLA_NO_BALANCE", requires = "store")]
    pub(crate) no_balance: bool,
    /// Seconds after nodes came or went until slices are spread
    #[arg(long, default_value_t = 60, hide = true, requires = "store",
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) balance_after: u64,
}

/// So many slices: a power of two, because ordinals of items are counted by the first bits of a range's position, and slices count apart.
fn slice_count(text: &str) -> Result<u32, String> {
    let count = text.parse::<u32>().map_err(|error| error.to_string())?;
    match count.is_power_of_two() && count <= SLICES_MAX {
        true => Ok(count),
        false => Err(format!("give a power of two, at most {SLICES_MAX}")),
    }
}

/// The store of a command.
#[derive(Clone, Debug, Args)]
pub(crate) struct StoreOptions {
    /// Database that holds the account, as postgres://user@host/database
    #[arg(long, env = "ARMILLA_STORE", hide_env_values = true, value_name = "URL")]
    store: String,
    /// File with the password of that database, where the URL has none
    #[arg(long, env = "ARMILLA_STORE_PASSWORD_FILE", value_name = "FILE")]
    store_password_file: Option<PathBuf>,
}

/// The store of a command that works on a data folder where none is given. Not from the environment: with it set for nodes, the
/// same words would mean something else.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct LedgerChoice {
    /// Database that holds the account of several nodes, as postgres://user@host/database, instead of a data folder
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// File with the password of that database, where the URL has none
    #[arg(long, value_name = "FILE", requires = "store")]
    store_password_file: Option<PathBuf>,
}

impl LedgerChoice {
    /// The store, if one is given.
    pub(crate) fn given(&self) -> Option<StoreOptions> {
        let store_password_file = self.store_password_file.clone();
        Some(StoreOptions { store: self.store.clone()?, store_password_file })
    }
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Make the account in an empty database, once; prints its key
    Init(InitOptions),
    /// Tell which nodes there are and which of them owns the account
    Status(StatusOptions),
    /// Hand the account over to a node, in order and at once
    Move(MoveOptions),
    /// Spread the slices of the account evenly over its nodes
    Rebalance(RebalanceOptions),
    /// Have a node hand the account over and not take it again, before it is stopped for good
    Drain(MoveOptions),
    /// Strike a node from the list that is gone, or whose machine is off
    Remove(RemoveOptions),
    /// Serve what the database has left after it lost acknowledged writes
    AcceptLoss(AcceptLossOptions),
}

#[derive(Clone, Debug, Args)]
pub(crate) struct AcceptLossOptions {
    #[command(flatten)]
    store: StoreOptions,
    /// Yes: what only the nodes' copies have will be gone for good
    #[arg(long)]
    yes: bool,
}

/// A node of an account.
#[derive(Clone, Debug, Args)]
pub(crate) struct NodeChoice {
    #[command(flatten)]
    store: StoreOptions,
    /// Name of the node
    node: String,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct MoveOptions {
    #[command(flatten)]
    choice: NodeChoice,
    /// The slice to hand over, of an account that is cut into slices; all of them if none is given
    #[arg(long, value_name = "NUMBER")]
    slice: Option<u32>,
    /// Seconds to wait until it is done
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    wait: u64,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct RebalanceOptions {
    #[command(flatten)]
    store: StoreOptions,
    /// Seconds to wait until it is done
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    wait: u64,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct RemoveOptions {
    #[command(flatten)]
    choice: NodeChoice,
    /// The node's machine is off: do not wait for the end of its lease
    #[arg(long)]
    machine_is_off: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct InitOptions {
    #[command(flatten)]
    store: StoreOptions,
    /// Seconds without a sign of life after which a node is replaced; fixed for the account
    #[arg(long, default_value_t = 10, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(2..=300))]
    lease: u64,
    /// Name or address of a node or of the balancer before them, for certificates; may be given several times
    #[arg(long = "tls-name", value_delimiter = ',')]
    tls_names: Vec<String>,
    /// Equal parts of the key space that can have an owner each, so that several nodes serve the account at a time: a power of two; fixed for the account
    #[arg(long, default_value_t = 1, value_parser = slice_count)]
    slices: u32,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct StatusOptions {
    #[command(flatten)]
    store: StoreOptions,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// Runs a command of `armilla cluster`.
pub(crate) fn run(command: &ClusterCommand) -> Result<ExitCode, String> {
    match command {
        ClusterCommand::Init(options) => done(init(options)),
        ClusterCommand::Status(options) => status::run(options),
        ClusterCommand::Move(options) => done(operations::hand_to(options)),
        ClusterCommand::Rebalance(options) => done(slices::operations::rebalance(options)),
        ClusterCommand::Drain(options) => done(operations::drain(options)),
        ClusterCommand::Remove(options) => done(operations::remove(options)),
        ClusterCommand::AcceptLoss(options) => {
            done(keeping::accept_loss(&options.store, options.yes))
        }
    }
}

fn done(outcome: Result<(), String>) -> Result<ExitCode, String> {
    outcome.map(|()| ExitCode::SUCCESS)
}

impl StoreOptions {
    fn address(&self) -> Result<StoreAddress, String> {
        address(&self.store, self.store_password_file.as_ref())
    }
}

impl NodeOptions {
    /// The name of this node.
    fn name(&self) -> Result<String, String> {
        let given = self.node_name.clone().or_else(|| environment("HOSTNAME"));
        let given = given.ok_or("a node needs --node-name, unique in the account")?;
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        if given.is_empty() || given.len() > NAME_LENGTH_MAX || !given.chars().all(is_plain) {
            return Err(format!(
                "'{given}' is no name for a node: give --node-name, up to {NAME_LENGTH_MAX} letters, digits, '-', '_' and '.'"
            ));
        }
        Ok(given)
    }

    /// Where other nodes reach this one.
    fn advertised(&self) -> Result<NodeAddress, String> {
        let given = self.advertise.as_deref().ok_or(
            "a node needs --advertise http://HOST:PORT or https://HOST:PORT, where the other nodes reach it",
        )?;
        given.parse().map_err(|error| format!("--advertise: {error}"))
    }

    /// How long nodes must have stayed the same before slices are spread over them; nothing where they stay where they are.
    fn balance_after(&self) -> Option<Duration> {
        (!self.no_balance).then(|| Duration::from_secs(self.balance_after))
    }

    fn retention(&self) -> Duration {
        Duration::from_secs(self.retention * 60)
    }
}

/// Characters of a node's name.
const NAME_LENGTH_MAX: usize = 100;

fn address(url: &str, password_file: Option<&PathBuf>) -> Result<StoreAddress, String> {
    let mut address = StoreAddress::new(url);
    if let Some(file) = password_file {
        let text = String::from_utf8(given_file::read(file)?);
        let text = text.map_err(|_| format!("{} is not text", file.display()))?;
        address.password = Some(text.trim_end_matches(['\r', '\n']).to_owned());
    }
    let (protection, root_file) = address.protection().map_err(|error| error.to_string())?;
    if matches!(protection, Protection::KnownAuthority | Protection::KnownHost) {
        address.roots = roots(root_file.as_deref())?;
    }
    Ok(address)
}

/// The authorities that may vouch for the database: those of a file, or those that the system trusts.
fn roots(file: Option<&Path>) -> Result<Vec<Vec<u8>>, String> {
    let Some(file) = file else {
        let found = rustls_native_certs::load_native_certs().certs;
        return Ok(found.into_iter().map(|certificate| certificate.to_vec()).collect());
    };
    let text = given_file::read(file)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|error| format!("{}: {error}", file.display()))?;
    if found.is_empty() {
        return Err(format!("{} holds no certificate in PEM", file.display()));
    }
    Ok(found.into_iter().map(|certificate| certificate.to_vec()).collect())
}

fn init(options: &InitOptions) -> Result<(), String> {
    let address = options.store.address()?;
    let lease = Duration::from_secs(options.lease);
    let record = AccountRecord::new(lease, options.tls_names.clone(), options.slices)?;
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|error| error.to_string())?;
    let made = PostgresLedger::create(&address, u128::from_be_bytes(id), &record.encode());
    made.map_err(|error| match error {
        LedgerError::OutcomeUnknown(reason) if reason.contains("already exists") => {
            "the database holds an account already; `armilla cluster status` tells about it"
                .to_owned()
        }
        other => other.to_string(),
    })?;
    let ledger = PostgresLedger::open(&address).map_err(|error| error.to_string())?;
    for slice in 0..options.slices {
        let at = slice_journal(slice);
        ledger.open(at.home, &[(at.shard, 0)]).map_err(|error| error.to_string())?;
    }
    say("the account is made");
    say(&format!("  account key  {}", record.first_key()));
    say(
        "  next         armilla serve --store URL --node-name NAME --advertise http://HOST:PORT --data FOLDER",
    );
    Ok(())
}
