//! What can be set, by flag or by environment.
//!
//! Beside our own names the environment names of the official containers are read, so that
//! Armilla drops in where one of those runs.

use crate::advise::{AdviseOptions, ObserveOptions};
use crate::ask::QueryOptions;
use crate::cluster::{ClusterCommand, LedgerChoice, NodeOptions};
use crate::dials::DialOptions;
use crate::emulator::{self, EmulatorOptions, Scheme};
use crate::entra::EntraOptions;
use crate::explorer::{ExplorerCommand, ExplorerOptions};
use crate::lab::LabOptions;
use crate::ready::ReadyOptions;
use crate::rekey::RekeyOptions;
use crate::script::ScriptArguments;
use crate::tls::TlsOptions;
use crate::transfer::{ExportOptions, ImportOptions};
use armilla_gateway::direct::DirectMode;
use clap::builder::Resettable;
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};
use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

/// Armilla: a document database you run yourself, for apps that speak Azure Cosmos DB (API for NoSQL).
#[derive(Debug, Parser)]
#[command(version, about, args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) serve: ServeOptions,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve a data folder (what happens without a command)
    Serve(Box<ServeOptions>),
    /// Copy a data folder into a new folder, also while a server has it open
    Backup(BackupOptions),
    /// Fill a new data folder from a backup
    Restore(RestoreOptions),
    /// Run stored procedures, also in every logical partition that a query finds
    Script(ScriptArguments),
    /// Ask a query, and how it was answered
    Query(QueryOptions),
    /// Read everything in a data folder and check that it agrees
    Verify(VerifyOptions),
    /// Write what can still be read of a damaged data folder to a file, without changing the folder
    Salvage(SalvageOptions),
    /// Ask several designs of one data model the same questions and compare what they cost
    Lab(LabOptions),
    /// Fill a container from a file, a pipe or another server
    Import(ImportOptions),
    /// Write a container's items to a file or a pipe
    Export(ExportOptions),
    /// Say how to model the data for what the application asks, from what the server has observed
    Advise(AdviseOptions),
    /// Open the data explorer of the running server in the browser, signed in
    Explorer(ExplorerCommand),
    /// Ask whether the server of this machine is ready: for health checks
    Ready(ReadyOptions),
    /// Merge the physical partitions of a container that are more than its throughput and size need
    Merge(MergeOptions),
    /// Give a container another partition key while it serves
    Rekey(RekeyOptions),
    /// Several nodes that serve one account over a PostgreSQL database
    Cluster {
        #[command(subcommand)]
        command: ClusterCommand,
    },
}

#[derive(Clone, Debug, Args)]
pub(crate) struct ServeOptions {
    /// Address to listen on; anything beyond this machine needs --key-file
    #[arg(long, env = "ARMILLA_HOST", default_value = "127.0.0.1")]
    pub(crate) host: String,
    /// Port for http and https alike [environment also: PORT]
    #[arg(long, env = "ARMILLA_PORT")]
    pub(crate) port: Option<u16>,
    /// Folder for the data, made when it is not there [environment also: DATA_PATH]
    #[arg(long, env = "ARMILLA_DATA")]
    pub(crate) data: Option<PathBuf>,
    /// Keep everything in memory and nothing on disk: for throw-away servers
    #[arg(long, env = "ARMILLA_IN_MEMORY")]
    pub(crate) in_memory: bool,
    /// When a write counts as done
    #[arg(long, env = "ARMILLA_DURABILITY", value_enum, default_value_t = DurabilityOption::Synced)]
    pub(crate) durability: DurabilityOption,
    /// File with the account key in base64, made with a random key when it is not there; the
    /// published well-known key then no longer works [environment also: KEY_FILE]
    #[arg(long, env = "ARMILLA_KEY_FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// Accept the published well-known key from other machines too: anybody can read and write
    #[arg(long, env = "ARMILLA_ALLOW_WELL_KNOWN_KEY")]
    pub(crate) allow_well_known_key: bool,
    /// Address that clients are told to use, where it is not the one they used [environment also:
    /// GATEWAY_PUBLIC_ENDPOINT]
    #[arg(long, env = "ARMILLA_PUBLIC_ENDPOINT")]
    pub(crate) public_endpoint: Option<String>,
    /// Name of the one region that the account says it has
    #[arg(long, env = "ARMILLA_REGION", default_value = "South Central US")]
    pub(crate) region: String,
    /// Origin of web pages that may talk to this server, as https://app.example, beside those of this
    /// machine; may be given several times; * allows every page
    #[arg(long = "cors-origin", env = "ARMILLA_CORS_ORIGINS", value_delimiter = ',')]
    pub(crate) cors_origins: Vec<String>,
    /// Host that subscriptions may call, as hooks.example or http://127.0.0.1:9000; may be given several
    /// times. Without it no webhook is called
    #[arg(long, env = "ARMILLA_WEBHOOKS", value_delimiter = ',')]
    pub(crate) webhooks: Vec<String>,
    /// Do not serve Direct mode, the default of the Java and .NET SDKs: they are told to use the gateway
    #[arg(long, env = "ARMILLA_NO_DIRECT")]
    pub(crate) no_direct: bool,
    /// Port for Direct mode, where it is not to share the port of https
    #[arg(long, env = "ARMILLA_DIRECT_PORT", conflicts_with = "no_direct")]
    pub(crate) direct_port: Option<u16>,
    /// Certificates of your own
    #[command(flatten)]
    pub(crate) tls: TlsOptions,
    /// Tokens of Microsoft Entra ID
    #[command(flatten)]
    pub(crate) entra: EntraOptions,
    // Its effect is `armilla_engine::dials::Dials::partition_count`.
    /// Fixed number of physical partitions for new containers, whatever their throughput
    #[arg(long, env = "ARMILLA_PARTITIONS")]
    pub(crate) partitions: Option<u32>,
    /// Request units per second that one physical partition serves
    #[arg(long, env = "ARMILLA_PARTITION_RUS", default_value_t = 10_000)]
    pub(crate) partition_rus: u32,
    /// Size beyond which a physical partition is split, in bytes or as 50GB, 64MB, 100KB
    #[arg(long, env = "ARMILLA_PARTITION_SIZE", default_value = "50GB", value_parser = size)]
    pub(crate) partition_size: u64,
    /// Size that one logical partition may have; more answers 403 (1014)
    #[arg(long, env = "ARMILLA_LOGICAL_PARTITION_SIZE", default_value = "20GB", value_parser = size)]
    pub(crate) logical_partition_size: u64,
    /// Seconds that a split waits after throughput or data have grown, so that it can be watched
    #[arg(long, env = "ARMILLA_SPLIT_DELAY", default_value_t = 0)]
    pub(crate) split_delay: u64,
    #[command(flatten)]
    pub(crate) dials: DialOptions,
    /// Memory for the store's cache, in MB
    #[arg(long, env = "ARMILLA_CACHE_MB", default_value_t = 128)]
    pub(crate) cache_mb: u64,
    /// Room that is kept free on the data's disk, in bytes or as 256MB: below it writes other than deletes
    /// are refused (507)
    #[arg(long, env = "ARMILLA_DISK_RESERVE", default_value = "256MB", value_parser = size)]
    pub(crate) disk_reserve: u64,
    /// Threads for the network; as many as processors when not given
    #[arg(long, env = "ARMILLA_THREADS")]
    pub(crate) threads: Option<usize>,
    /// Limits of stored procedures, triggers and user functions
    #[command(flatten)]
    pub(crate) scripts: ScriptOptions,
    #[command(flatten)]
    pub(crate) emulator: EmulatorOptions,
    /// One of several nodes
    #[command(flatten)]
    pub(crate) node: NodeOptions,
    /// The data explorer
    #[command(flatten)]
    pub(crate) explorer: ExplorerOptions,
    /// The advisor
    #[command(flatten)]
    pub(crate) observe: ObserveOptions,
    /// What to log on standard error: error, warn, info, debug [environment also: LOG_LEVEL]
    #[arg(long, env = "ARMILLA_LOG")]
    pub(crate) log: Option<String>,
}

/// Limits of scripts. The last three are for tests.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Scripts")]
pub(crate) struct ScriptOptions {
    /// Time of one call in milliseconds; then it is stopped and undone
    #[arg(long, env = "ARMILLA_SCRIPT_TIME_LIMIT", default_value_t = 5000, value_name = "MS")]
    pub(crate) script_time_limit: u64,
    /// Time in milliseconds after which a call's further operations are refused
    #[arg(long, env = "ARMILLA_SCRIPT_ACCEPT_LIMIT", default_value_t = 4000, value_name = "MS")]
    pub(crate) script_accept_limit: u64,
    /// Memory of one call in MB
    #[arg(long, env = "ARMILLA_SCRIPT_MEMORY", default_value_t = 64, value_name = "MB",
          value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) script_memory: u16,
    /// Operations that a call may queue before further ones are refused
    #[arg(long, env = "ARMILLA_SCRIPT_ACCEPT_OPS", value_name = "N")]
    pub(crate) script_accept_ops: Option<u64>,
    /// Calls of a hundred that fail with 449, as if another writer had been faster
    #[arg(long, env = "ARMILLA_SCRIPT_CONFLICT_RATE", default_value_t = 0, value_name = "PERCENT",
          value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(crate) script_conflict_rate: u8,
    /// Make a JavaScript context for every call instead of putting the memory of one back: slower
    #[arg(long, env = "ARMILLA_SCRIPT_FRESH_CONTEXTS")]
    pub(crate) script_fresh_contexts: bool,
}

impl ScriptOptions {
    /// The limits in the engine's words.
    pub(crate) fn limits(&self) -> armilla_script::Limits {
        armilla_script::Limits {
            time: Duration::from_millis(self.script_time_limit),
            accept_time: Duration::from_millis(self.script_accept_limit),
            memory_bytes_max: usize::from(self.script_memory) << 20,
            accept_operations_max: self.script_accept_ops,
            conflict_percent: self.script_conflict_rate,
            fresh_contexts: self.script_fresh_contexts,
            ..armilla_script::Limits::default()
        }
    }
}

/// When a write counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DurabilityOption {
    /// When it is synced to disk
    Synced,
    /// When the system has it: a power cut may lose the last second
    Relaxed,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct BackupOptions {
    /// The data folder
    #[arg(long, env = "ARMILLA_DATA", default_value = "./armilla-data")]
    pub(crate) data: PathBuf,
    /// The new folder for the backup
    #[arg(long)]
    pub(crate) to: PathBuf,
    #[command(flatten)]
    pub(crate) ledger: LedgerChoice,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct RestoreOptions {
    /// The folder of the backup
    #[arg(long)]
    pub(crate) from: PathBuf,
    /// The data folder to fill; it must be new or empty
    #[arg(long, env = "ARMILLA_DATA", default_value = "./armilla-data")]
    pub(crate) data: PathBuf,
    #[command(flatten)]
    pub(crate) ledger: LedgerChoice,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct VerifyOptions {
    /// The data folder; no server may have it open
    #[arg(long, env = "ARMILLA_DATA", default_value = "./armilla-data")]
    pub(crate) data: PathBuf,
    #[command(flatten)]
    pub(crate) ledger: LedgerChoice,
    /// Folder of a node that is stopped, to be compared with the account in the database; may be given several times
    #[arg(long, value_name = "FOLDER", requires = "store")]
    pub(crate) against: Vec<PathBuf>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct SalvageOptions {
    /// The damaged data folder; no server may have it open
    #[arg(long, env = "ARMILLA_DATA", default_value = "./armilla-data")]
    pub(crate) data: PathBuf,
    /// The new file for the items, as JSON lines; what could not be read is listed in FILE.lost
    #[arg(long, value_name = "FILE")]
    pub(crate) to: PathBuf,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct MergeOptions {
    /// The data folder of the running server
    #[arg(long, env = "ARMILLA_DATA", default_value = "./armilla-data")]
    pub(crate) data: PathBuf,
    /// The database
    pub(crate) database: String,
    /// The container
    pub(crate) container: String,
}

impl ServeOptions {
    /// The port, with the name that the official containers use as second choice.
    pub(crate) fn port(&self) -> Result<u16, String> {
        port(self.port)
    }

    pub(crate) fn data(&self) -> PathBuf {
        let given = self.data.clone().or_else(|| self.emulator.data_path.clone());
        let given = given.or_else(|| environment("DATA_PATH").map(PathBuf::from));
        given.unwrap_or_else(|| PathBuf::from("./armilla-data"))
    }

    pub(crate) fn key_file(&self) -> Option<PathBuf> {
        self.key_file.clone().or_else(|| environment("KEY_FILE").map(PathBuf::from))
    }

    /// The certificate's options, with the names that the official containers use as second choice.
    pub(crate) fn tls(&self) -> TlsOptions {
        let mut tls = self.tls.clone();
        if tls.tls_cert.is_none() && tls.tls_pfx.is_none() {
            let given = self.emulator.cert_path.clone();
            tls.tls_pfx = given.or_else(|| environment("CERT_PATH").map(PathBuf::from));
        }
        let given = tls.tls_secret.or_else(|| self.emulator.cert_secret.clone());
        tls.tls_secret = given.or_else(|| environment("CERT_SECRET"));
        tls
    }

    /// The names by which clients may ask for this server, beside those of loopback.
    pub(crate) fn host_names(&self) -> Vec<String> {
        let public = self.public_endpoint();
        let public = public.as_deref().and_then(|url| url.split("://").nth(1));
        let public = public.and_then(|rest| rest.split('/').next()).map(str::to_owned);
        // Every address is no name.
        let host =
            Some(self.host.clone()).filter(|host| !matches!(host.as_str(), "0.0.0.0" | "::"));
        let listening = host.into_iter().chain(public);
        self.tls.tls_names.iter().cloned().chain(listening).collect()
    }

    pub(crate) fn public_endpoint(&self) -> Option<String> {
        let given = self.public_endpoint.clone();
        let given = given.or_else(|| environment("GATEWAY_PUBLIC_ENDPOINT"))?;
        // The official containers take a host alone.
        Some(emulator::public_endpoint(&given, self.scheme(), self.port().unwrap_or(PORT)))
    }

    /// The protocol that clients are told to use.
    pub(crate) fn scheme(&self) -> Scheme {
        self.emulator.protocol.unwrap_or(Scheme::Http)
    }

    /// Holds a key in the older containers.
    pub(crate) const KEY_VARIABLE: &str = "AZURE_COSMOS_EMULATOR_KEY";

    /// A key in the environment.
    pub(crate) fn key_in_environment() -> Option<String> {
        environment(Self::KEY_VARIABLE)
    }

    /// Where Direct mode is served.
    pub(crate) fn direct(&self) -> DirectMode {
        match (self.no_direct, self.direct_port) {
            (true, _) => DirectMode::Off,
            (false, Some(port)) => DirectMode::Port(port),
            (false, None) => DirectMode::SamePort,
        }
    }

    pub(crate) fn log(&self) -> String {
        let given = self.log.clone().or_else(|| self.emulator.log_level.clone());
        let given = given.or_else(|| environment("LOG_LEVEL"));
        EmulatorOptions::log_level(given.as_deref().unwrap_or("warn"))
    }
}

/// Reads a number of bytes: `4096`, `100KB`, `64MB`, `50GB`.
fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "KB" => 10,
        "MB" => 20,
        "GB" => 30,
        unit => return Err(format!("'{unit}' is none of B, KB, MB, GB")),
    };
    let number: u64 = digits.trim().parse().map_err(|_| format!("'{text}' is not a size"))?;
    number.checked_mul(1 << shift).ok_or_else(|| format!("'{text}' is too large"))
}

/// The port of the account, unless somebody says otherwise.
const PORT: u16 = 8081;

/// The port that is given, with the name that the official containers use as second choice.
pub(crate) fn port(given: Option<u16>) -> Result<u16, String> {
    match (given, environment("PORT")) {
        (Some(port), _) => Ok(port),
        (None, Some(text)) => {
            text.parse().map_err(|_| format!("PORT is '{text}', which is no port"))
        }
        (None, None) => Ok(PORT),
    }
}

/// The words of the command line and of the environment; ends the process where they are not understood.
pub(crate) fn from_command_line() -> Arguments {
    let matches = without_empty_variables(Arguments::command()).get_matches();
    Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// A variable that is there and empty is not given: that is what `VARIABLE: ${VARIABLE:-}` of a compose file means.
fn without_empty_variables(command: clap::Command) -> clap::Command {
    let is_empty = |name: &OsStr| std::env::var_os(name).is_some_and(|value| value.is_empty());
    command
        .mut_args(|argument| match argument.get_env().is_some_and(is_empty) {
            true => argument.env(Resettable::Reset),
            false => argument,
        })
        .mut_subcommands(without_empty_variables)
}

/// The one place where the environment is read by name.
pub(crate) fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
