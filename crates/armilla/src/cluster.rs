//! Several nodes that serve one account over a PostgreSQL database (`docs/cluster.md`).
//!
//! * `armilla cluster init` makes the ledger and prints the account key.
//! * `armilla serve --store …` is a node: first a standby that follows, then perhaps the owner ([`node`]).
//! * `armilla cluster status` tells who is who; it asks the database alone.

mod folder;
mod node;
mod record;
pub(crate) mod serve;
mod status;

use crate::config::environment;
use crate::given_file;
use crate::terminal::say;
use armilla_storage::ledger::{ACCOUNT, Ledger as _, LedgerError, PostgresLedger, StoreAddress};
use clap::{Args, Subcommand};
use record::AccountRecord;
use std::path::PathBuf;
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
    /// Where other nodes reach this one, as http://10.0.0.1:8081
    #[arg(long, env = "ARMILLA_ADVERTISE", value_name = "URL", requires = "store")]
    pub(crate) advertise: Option<String>,
    /// Minutes for which the database keeps what a node that is away may still want to read
    #[arg(long, env = "ARMILLA_RETENTION", default_value_t = 10, value_name = "MINUTES", requires = "store",
          value_parser = clap::value_parser!(u64).range(1..=1440))]
    pub(crate) retention: u64,
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

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Make the account in an empty database, once; prints its key
    Init(InitOptions),
    /// Tell which nodes there are and which of them owns the account
    Status(StatusOptions),
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
        ClusterCommand::Init(options) => init(options).map(|()| ExitCode::SUCCESS),
        ClusterCommand::Status(options) => status::run(options),
    }
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

    /// Where other nodes reach this one: `host:port`.
    fn advertised(&self) -> Result<http::uri::Authority, String> {
        let given = self
            .advertise
            .as_deref()
            .ok_or("a node needs --advertise http://HOST:PORT, where the other nodes reach it")?;
        if given.starts_with("https://") {
            return Err(
                "--advertise takes http:// only: what nodes say to each other is not encrypted yet. Put them on a \
                 network of their own"
                    .to_owned(),
            );
        }
        let rest = given.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
        let authority = rest.and_then(|rest| rest.parse::<http::uri::Authority>().ok());
        let authority = authority.filter(|found| found.port_u16().is_some());
        authority.ok_or_else(|| format!("--advertise is '{given}', which is not http://HOST:PORT"))
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
    Ok(address)
}

fn init(options: &InitOptions) -> Result<(), String> {
    let address = options.store.address()?;
    let lease = Duration::from_secs(options.lease);
    let record = AccountRecord::new(lease, options.tls_names.clone())?;
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
    ledger.open(ACCOUNT.home, &[(ACCOUNT.shard, 0)]).map_err(|error| error.to_string())?;
    say("the account is made");
    say(&format!("  account key  {}", record.first_key()));
    say(
        "  next         armilla serve --store URL --node-name NAME --advertise http://HOST:PORT --data FOLDER",
    );
    Ok(())
}
