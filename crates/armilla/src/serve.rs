//! `armilla serve`: open the data, listen, say so, and stop cleanly.

use crate::advise::Watching;
use crate::config::{DurabilityOption, ServeOptions};
use crate::control::Tickets;
use crate::descriptors::Descriptors;
use crate::entra::Directory;
use crate::keys::KeySource;
use crate::offline::refusal;
use crate::terminal::{note, say};
use crate::{advise, cluster, control, keys, memory, private, tls, webhooks};
use armilla_engine::{Account, Options, Slice};
use armilla_gateway::account_document::AccountSettings;
use armilla_gateway::activity::ActivityIds;
use armilla_gateway::auth::{Authenticator, DevelopmentTokens};
use armilla_gateway::cors::CorsPolicy;
use armilla_gateway::explorer::ExplorerSource;
use armilla_gateway::handle::ServerFacts;
use armilla_gateway::limits::Limits;
use armilla_gateway::locality::HostNames;
use armilla_gateway::ops::EngineService;
use armilla_gateway::serve::{Protocols, Stopped, runtime};
use armilla_gateway::{Gateway, Server, Settings};
use armilla_model::clock::{Clock, SystemClock};
use armilla_storage::disk::{Disk, FolderDisk};
use armilla_storage::{Durability, EmbeddedOptions, EmbeddedStore, MemoryStore, Store};
use std::io::IsTerminal as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Serves until the process is told to stop.
pub(crate) fn run(options: &ServeOptions) -> Result<(), String> {
    start_log(&options.log());
    options.emulator.remark();
    private::new_files();
    memory::give_back_at_rest();
    if options.node.store.is_some() {
        return cluster::serve::run(options);
    }
    let runtime = runtime(options.threads).map_err(|error| error.to_string())?;
    let (stopped, account) = runtime.block_on(async {
        let mut prepared = prepare(options)?;
        if let Some(directory) = prepared.directory.take() {
            directory.start().await;
        }
        let folder = prepared.folder.as_deref();
        let bound = prepared.server.local_addresses().map_err(|error| error.to_string())?;
        let tickets = || Tickets {
            authenticator: prepared.authenticator.clone(),
            clock: Arc::new(SystemClock),
            address: options.explorer_address(&bound),
        };
        let _control =
            folder.map(|folder| control::start(folder, prepared.account.clone(), tickets()));
        greet(options, &bound, &prepared, folder);
        options.emulator.tell_waiting_tools(&bound);
        Ok::<_, String>((prepared.server.run(stop_signal()).await, prepared.account))
    })?;
    if let Stopped::CutOff(connections) = stopped {
        note(&format!("{connections} connections did not finish in time and were cut off"));
    }
    account.close().map_err(|error| error.to_string())?;
    say("armilla: stopped");
    Ok(())
}

/// A server that is open for connections but does not answer yet.
pub(crate) struct Prepared {
    pub(crate) account: Arc<Account>,
    pub(crate) server: Server<EngineService>,
    authenticator: Arc<Authenticator>,
    /// The explorer is served.
    has_explorer: bool,
    /// An account key.
    pub(crate) key: String,
    key_source: KeySource,
    /// Where the keys of Entra ID come from.
    directory: Option<Directory>,
    /// Where the data is, unless it is in memory.
    pub(crate) folder: Option<PathBuf>,
    /// Who observes the requests.
    pub(crate) watching: Option<Arc<Watching>>,
}

/// Opens the data and the port; needs a runtime around it.
pub(crate) fn prepare(options: &ServeOptions) -> Result<Prepared, String> {
    let port = options.port()?;
    if options.node.store.is_some() {
        return Err("--store is for armilla serve; a server inside a command has data of its own"
            .to_owned());
    }
    let descriptors = Descriptors::claim()?;
    if let Some(warning) = descriptors.warning() {
        note(&warning);
    }
    let addresses = addresses(&options.host, port)?;
    let loopback = addresses.iter().all(|address| address.ip().is_loopback());
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let folder = (!options.in_memory).then(|| options.data());
    let keys = keys::load(options, loopback)?;
    if let Some(folder) = &folder {
        private::tighten(folder);
        cluster::refuse_node_folder(folder)?;
    }
    // Before the store's engine runs, which writes: what is damaged is refused with the folder as it was.
    tls::check(folder.as_deref(), &options.tls(), clock.now_seconds())?;
    let is_new = folder.as_deref().is_none_or(|folder| !EmbeddedStore::is_at(folder));
    folder.as_deref().map(keys::kept_token_secret).transpose()?;
    let store = open_store(options, folder.as_deref(), &descriptors)?;
    let disk = disk(folder.as_deref())?;
    let life = (None, Slice::WHOLE);
    let account = open_account(options, store, clock.clone(), disk.clone(), life)?;
    let certificates = tls::load(folder.as_deref(), &options.tls(), clock.clone())?;
    let directory = options.entra.directory()?;
    let mut authenticator =
        Authenticator::new(keys.accepted, &keys::token_secret(folder.as_deref(), is_new)?)
            .accepting_development_tokens(development_tokens(options, loopback, &keys.source));
    if let Some(directory) = &directory {
        authenticator = authenticator.with_entra(directory.entra.clone());
    }
    let authenticator = Arc::new(authenticator);
    let settings = settings(options, loopback, &certificates, &descriptors)?;
    let settings =
        Settings { facts: facts(options, &keys.source, clock.now_seconds()), ..settings };
    let has_explorer = settings.explorer.source != ExplorerSource::Off;
    let (service, watching) = service(options, &account, &authenticator, disk)?;
    let gateway = Gateway {
        service,
        settings,
        authenticator: authenticator.clone(),
        activity_ids: ActivityIds::new(clock.now_millis()),
        clock,
    };
    let protocols = Protocols::Both(certificates.config);
    let server = Server::bind(&addresses, protocols, gateway)
        .map_err(|error| format!("cannot listen on {}:{port}: {error}", options.host))?;
    let (key, key_source) = (keys.first, keys.source);
    Ok(Prepared {
        account,
        server,
        authenticator,
        has_explorer,
        key,
        key_source,
        directory,
        folder,
        watching,
    })
}

/// Opens the account in a store. Nodes of several say in which of their lives they do, and which slice it is.
pub(crate) fn open_account(
    options: &ServeOptions,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    disk: Option<Arc<dyn Disk>>,
    (incarnation, slice): (Option<u64>, Slice),
) -> Result<Arc<Account>, String> {
    let given = Options { slice, ..account_options(options, clock, disk, incarnation)? };
    let account = Account::open(store, given).map_err(refusal)?;
    account.set_script_limits(options.scripts.limits());
    webhooks::allow(&account, &options.webhooks)?;
    Ok(account)
}

/// What an account is opened with.
pub(crate) fn account_options(
    options: &ServeOptions,
    clock: Arc<dyn Clock>,
    disk: Option<Arc<dyn Disk>>,
    incarnation: Option<u64>,
) -> Result<Options, String> {
    Ok(Options {
        clock,
        durability: durability(options),
        incarnation,
        partitions: options.partitions,
        partition_rus: options.partition_rus,
        partition_size: options.partition_size,
        logical_partition_size: options.logical_partition_size,
        split_delay: Duration::from_secs(options.split_delay),
        dials: options.dials.dials()?,
        serverless: options.dials.serverless,
        background: true,
        disk,
        ..Options::default()
    })
}

/// What answers requests from an account, and who observes them.
pub(crate) fn service(
    options: &ServeOptions,
    account: &Arc<Account>,
    authenticator: &Arc<Authenticator>,
    disk: Option<Arc<dyn Disk>>,
) -> Result<(EngineService, Option<Arc<Watching>>), String> {
    let mut service = EngineService::new(account.clone(), authenticator.clone())
        .with_consistency(options.dials.consistency())
        .with_request_log(options.explorer.request_log);
    if options.explorer()?.source != ExplorerSource::Off {
        service = service.with_history();
    }
    advise::watch(service, account, disk, &options.observe)
}

pub(crate) fn settings(
    options: &ServeOptions,
    loopback: bool,
    certificates: &tls::Certificates,
    descriptors: &Descriptors,
) -> Result<Settings, String> {
    Ok(Settings {
        account: AccountSettings {
            public_endpoint: options.public_endpoint(),
            consistency: options.dials.consistency(),
            region: options.region.clone(),
            localhost_by_address: certificates.covers_loopback,
            ..AccountSettings::default()
        },
        cors: CorsPolicy::new(options.cors_origins.iter().cloned())?,
        host_names: HostNames::new(options.host_names(), loopback),
        certificate_pem: certificates.authority_pem.clone(),
        public_metrics: options.dials.public_metrics,
        direct: options.direct(),
        health_port: options.emulator.health_port,
        explorer: options.explorer()?,
        facts: ServerFacts::default(),
        advertised: None,
        front: None,
        slices: None,
        limits: Limits {
            connections_max: descriptors.connections,
            refusals_max: descriptors.refusals,
            ..Limits::default()
        },
    })
}

/// What the explorer tells of this server.
pub(crate) fn facts(options: &ServeOptions, keys: &KeySource, started: u64) -> ServerFacts {
    ServerFacts {
        in_memory: options.in_memory,
        durability: match options.durability {
            DurabilityOption::Synced => "synced",
            DurabilityOption::Relaxed => "relaxed",
        },
        data_folder: (!options.in_memory).then(|| options.data().display().to_string()),
        key_placeholder: (*keys != KeySource::Published).then(|| keys.in_place_of("")),
        open_to_everybody: options.allow_well_known_key,
        started,
    }
}

/// Tokens that nobody has signed open what the published key opens, so they are accepted where that is:
/// on a server for this machine alone that has neither a key nor a directory of its own.
fn development_tokens(
    options: &ServeOptions,
    loopback: bool,
    keys: &KeySource,
) -> DevelopmentTokens {
    if options.entra.accept_development_tokens {
        return DevelopmentTokens::Everywhere;
    }
    let is_open = loopback && *keys == KeySource::Published && options.entra.entra_jwks.is_none();
    if is_open { DevelopmentTokens::Local } else { DevelopmentTokens::Refused }
}

pub(crate) fn open_store(
    options: &ServeOptions,
    folder: Option<&Path>,
    descriptors: &Descriptors,
) -> Result<Arc<dyn Store>, String> {
    let Some(folder) = folder else { return Ok(Arc::new(MemoryStore::new())) };
    let embedded = EmbeddedOptions {
        cache_bytes: options.cache_mb * 1024 * 1024,
        files_max: descriptors.tables,
        reserve_bytes: options.disk_reserve,
        ..EmbeddedOptions::default()
    };
    let store = EmbeddedStore::open(folder, &embedded).map_err(refusal)?;
    Ok(Arc::new(store))
}

/// The data folder as a disk: index files lie in it beside the store's.
pub(crate) fn disk(folder: Option<&Path>) -> Result<Option<Arc<dyn Disk>>, String> {
    let Some(folder) = folder else { return Ok(None) };
    let disk = FolderDisk::new(folder).map_err(|error| error.to_string())?;
    Ok(Some(Arc::new(disk)))
}

fn durability(options: &ServeOptions) -> Durability {
    match options.durability {
        DurabilityOption::Synced => Durability::Synced,
        DurabilityOption::Relaxed => Durability::Relaxed,
    }
}

/// The addresses to listen on. For this machine alone both families are taken where the system has
/// them, because `localhost` means either.
pub(crate) fn addresses(host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    let v6_loopback = SocketAddr::from((Ipv6Addr::LOCALHOST, port));
    if port != 0
        && matches!(host, "127.0.0.1" | "localhost")
        && std::net::TcpListener::bind(v6_loopback).is_ok()
    {
        return Ok(vec![SocketAddr::from((Ipv4Addr::LOCALHOST, port)), v6_loopback]);
    }
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::from((address, port))]);
    }
    let found = (host, port)
        .to_socket_addrs()
        .map_err(|error| format!("the host '{host}' is not known: {error}"))?;
    Ok(found.collect())
}

fn greet(options: &ServeOptions, bound: &[SocketAddr], prepared: &Prepared, folder: Option<&Path>) {
    let port = bound.first().map_or(0, SocketAddr::port);
    let host = match options.host.as_str() {
        "127.0.0.1" | "0.0.0.0" | "::" | "::1" => "localhost",
        host => host,
    };
    say(&format!("Armilla {} is ready", env!("CARGO_PKG_VERSION")));
    say(&format!("  endpoint           http://{host}:{port}/  (https://{host}:{port}/ works too)"));
    // What is said at the start ends up in logs.
    let key = prepared.key_source.in_place_of(&prepared.key);
    let scheme = options.scheme().text();
    say(&format!(
        "  connection string  AccountEndpoint={scheme}://{host}:{port}/;AccountKey={key};"
    ));
    if prepared.has_explorer {
        say(&format!("  explorer           {}", options.explorer_address(bound)));
    }
    if options.entra.accept_development_tokens {
        say(
            "  development tokens accepted unsigned: whoever can reach this server can do everything",
        );
    }
    match folder {
        Some(folder) => say(&format!("  data               {}", folder.display())),
        None => say("  data               in memory: everything is gone when the server stops"),
    }
    if options.durability == DurabilityOption::Relaxed && folder.is_some() {
        say("  durability         relaxed: a power cut may lose the last second of writes");
    }
    say("  to stop            Ctrl+C, or SIGTERM");
}

fn start_log(level: &str) {
    let filter = tracing_subscriber::EnvFilter::try_new(level)
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    // Colours are for people: who reads the log of a container or a file would find their codes.
    let colours = std::io::stderr().is_terminal();
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let log = log.with_ansi(colours);
    // A second logger in one process can only be a test's, and it may keep its own.
    let _ = log.try_init();
}

/// Waits until this process is asked to stop.
pub(crate) async fn stop_signal() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}

#[cfg(test)]
mod tests;
