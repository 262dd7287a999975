//! `armilla serve --store …`: one of several nodes, from its start to its end.

use super::folder::Joined;
use super::handover;
use super::life::{NodeLife, NodeLives};
use super::record::AccountRecord;
use super::{NodeOptions, address};
use crate::config::{DurabilityOption, ServeOptions};
use crate::descriptors::Descriptors;
use crate::serve::{addresses, facts, settings, stop_signal};
use crate::terminal::{note, say};
use crate::{keys, tls};
use armilla_gateway::activity::ActivityIds;
use armilla_gateway::auth::{Authenticator, DevelopmentTokens};
use armilla_gateway::cluster::{Front, LateService, NodeAddress, SliceFronts};
use armilla_gateway::serve::{Protocols, Stopped, runtime};
use armilla_gateway::{Gateway, Server, Service, Settings};
use armilla_model::clock::{Clock, SystemClock, monotonic};
use armilla_storage::Store;
use armilla_storage::ledger::{ACCOUNT, Ledger, LedgerError, PostgresLedger, Replication};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// A wall clock that differs by more from the database's is remarked.
const CLOCK_DIFFERENCE_NOTED: Duration = Duration::from_secs(5);
/// One that differs by more is refused: times of writes would go back when another node takes over.
const CLOCK_DIFFERENCE_MAX: Duration = Duration::from_secs(60);

/// How long a node that starts waits for the database.
const START_WAIT_MAX: Duration = Duration::from_secs(30);
/// How long a node that starts itself anew looks whether it was told to stop.
const LAST_LOOK: Duration = Duration::from_millis(5);
/// Pause before it asks again.
const START_PAUSE: Duration = Duration::from_millis(200);

/// How a node ended.
enum Ending {
    /// It was told to stop.
    Stopped(Stopped),
    /// It has handed the account over to the node of this name.
    HandedOver(String),
}

/// Serves as a node until the process is told to stop.
pub(crate) fn run(options: &ServeOptions) -> Result<(), String> {
    check(options)?;
    let node_options = &options.node;
    let (name, advertised) = (node_options.name()?, node_options.advertised()?);
    let ledger = Arc::new(open_ledger(node_options)?);
    let record = AccountRecord::decode(&patiently(|| ledger.settings())?)?;
    record.require_whole()?;
    compare_clocks(&ledger)?;
    if patiently(|| ledger.replication())? == Replication::Asynchronous {
        note(
            "the database has replicas that confirm nothing (synchronous_standby_names is empty): a failover of it may lose acknowledged writes",
        );
    }
    let descriptors = Descriptors::claim()?;
    if let Some(warning) = descriptors.warning() {
        note(&warning);
    }
    let account = patiently(|| ledger.account())?;
    let ports = NodePorts { name, advertised, account, record, descriptors };
    if ports.record.slices() > 1 {
        return super::slices::serve::run(options, ports, &ledger);
    }
    let (store, joined) = NodeLives::join(options, &ledger, &ports)?;
    let runtime = runtime(options.threads).map_err(|error| error.to_string())?;
    let stopped = match runtime.block_on(serve(options, ports, ledger, store, joined))? {
        Ending::Stopped(stopped) => stopped,
        Ending::HandedOver(heir) => handover::start_again(&heir),
    };
    if let Stopped::CutOff(connections) = stopped {
        note(&format!("{connections} connections did not finish in time and were cut off"));
    }
    say("armilla: stopped");
    Ok(())
}

/// What a node brings to its doors.
pub(super) struct NodePorts {
    pub(super) name: String,
    pub(super) advertised: NodeAddress,
    /// The id of the account, which stays the same while any node is there.
    pub(super) account: String,
    pub(super) record: AccountRecord,
    pub(super) descriptors: Descriptors,
}

fn check(options: &ServeOptions) -> Result<(), String> {
    if options.in_memory {
        return Err(
            "--in-memory and --store exclude each other: a node keeps a copy in its data folder"
                .to_owned(),
        );
    }
    if options.durability == DurabilityOption::Relaxed {
        return Err("--durability relaxed and --store exclude each other: a write is acknowledged when the database has it".to_owned());
    }
    if options.allow_well_known_key {
        return Err("--allow-well-known-key and --store exclude each other: the account has a key of its own".to_owned());
    }
    Ok(())
}

fn open_ledger(options: &NodeOptions) -> Result<PostgresLedger, String> {
    let url = options.store.as_deref().unwrap_or_default();
    let address = address(url, options.store_password_file.as_ref())?;
    let ledger = patiently(|| PostgresLedger::open(&address)).map_err(|error| {
        format!("{error}. An account is made in an empty database by armilla cluster init")
    })?;
    patiently(|| ledger.open(ACCOUNT.home, &[(ACCOUNT.shard, 0)]))?;
    Ok(ledger)
}

/// Asks until the database answers, for a bounded time: it may be starting too.
pub(super) fn patiently<T>(mut ask: impl FnMut() -> Result<T, LedgerError>) -> Result<T, String> {
    let end = monotonic() + START_WAIT_MAX;
    let mut is_told = false;
    loop {
        match ask() {
            Ok(answer) => return Ok(answer),
            Err(error) if !passes(&error) || monotonic() > end => return Err(error.to_string()),
            Err(error) => {
                if !std::mem::replace(&mut is_told, true) {
                    note(&format!("{error}; asking for {} s more", START_WAIT_MAX.as_secs()));
                }
                std::thread::sleep(START_PAUSE);
            }
        }
    }
}

/// Whether waiting may help: nobody answered, or the database said that it starts, stops or is full. What it refuses for another reason, it
/// refuses again.
fn passes(error: &LedgerError) -> bool {
    let (LedgerError::Unreachable(reason) | LedgerError::OutcomeUnknown(reason)) = error else {
        return false;
    };
    // The code of what a database says comes last.
    let code =
        reason.strip_suffix(')').and_then(|rest| rest.rsplit_once('(')).map(|(_, code)| code);
    code.is_none_or(|code| code.len() != 5 || code.starts_with("57") || code.starts_with("53"))
}

fn compare_clocks(ledger: &PostgresLedger) -> Result<(), String> {
    let theirs = patiently(|| ledger.now_millis())?;
    let difference = Duration::from_millis(SystemClock.now_millis().abs_diff(theirs));
    let told =
        || format!("this machine's clock and the database's differ by {} s", difference.as_secs());
    if difference > CLOCK_DIFFERENCE_MAX {
        return Err(format!("{}: set them", told()));
    }
    if difference > CLOCK_DIFFERENCE_NOTED {
        note(&told());
    }
    Ok(())
}

async fn serve(
    options: &ServeOptions,
    ports: NodePorts,
    ledger: Arc<PostgresLedger>,
    store: Arc<dyn Store>,
    joined: Joined,
) -> Result<Ending, String> {
    let trusted = trusted(options, &ports.record)?;
    let (front, places) = Front::new(&ports.name, trusted).map_err(|error| error.to_string())?;
    let gauges = front.gauges();
    let late = LateService::new();
    let doors = Doors { front: Some(Arc::new(front)), slices: None };
    let (server, authenticator) = bind(options, &ports, doors, late.clone())?;
    let bound = server.local_addresses().map_err(|error| error.to_string())?;
    greet(&ports, &bound, &options.data());
    let lives = Arc::new(NodeLives {
        options: options.clone(),
        ports,
        ledger,
        places,
        gauges,
        late,
        authenticator,
        explorer: options.explorer_address(&bound),
        runtime: tokio::runtime::Handle::current(),
    });
    let mut life = Some(lives.begin(store, joined)?);
    let mut heir = None;
    let mut told = pin!(stop_signal());
    let stop = async {
        while let Some(living) = &life {
            let handover = living.handover();
            let name = tokio::select! {
                () = &mut told => return,
                name = handover.done() => name,
            };
            match life.take().map(|over| live_again(&lives, over)) {
                Some(again) => tokio::select! {
                    // Whatever it is at: it owns nothing.
                    () = &mut told => return,
                    begun = again => match begun {
                        Ok(begun) => life = Some(begun),
                        Err(reason) => {
                            note(&format!("this process cannot follow as it is: {reason}"));
                            heir = Some(name);
                        }
                    },
                },
                None => return,
            }
        }
    };
    let stopped = server.run(stop).await;
    // Who was told to stop in the meantime does not start again: the new process would know nothing of it.
    if let Some(heir) = heir
        && tokio::time::timeout(LAST_LOOK, &mut told).await.is_err()
    {
        return Ok(Ending::HandedOver(heir));
    }
    life.map_or(Ok(()), NodeLife::end)?;
    Ok(Ending::Stopped(stopped))
}

/// Begins another life on a thread that may wait.
async fn live_again(lives: &Arc<NodeLives>, over: NodeLife) -> Result<NodeLife, String> {
    let lives = Arc::clone(lives);
    let beginning = tokio::task::spawn_blocking(move || lives.begin_again(over));
    beginning.await.unwrap_or_else(|error| Err(error.to_string()))
}

/// What passes requests on: to the owner of the account, or to those of its slices.
pub(super) struct Doors {
    pub(super) front: Option<Arc<Front>>,
    pub(super) slices: Option<Arc<SliceFronts>>,
}

pub(super) fn bind<S: Service>(
    options: &ServeOptions,
    ports: &NodePorts,
    doors: Doors,
    service: S,
) -> Result<(Server<S>, Arc<Authenticator>), String> {
    let port = options.port()?;
    let listened = addresses(&options.host, port)?;
    let loopback = listened.iter().all(|address| address.ip().is_loopback());
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let keys = match options.key_file() {
        Some(_) => keys::load(options, loopback)?,
        None => ports.record.account_keys()?,
    };
    let names = certificate_names(options, ports)?;
    let authority = ports.record.authority();
    let certificates = tls::load_shared(&authority, &names, &options.tls(), clock.clone())?;
    let development = match options.entra.accept_development_tokens {
        true => DevelopmentTokens::Everywhere,
        false => DevelopmentTokens::Refused,
    };
    let mut authenticator = Authenticator::new(keys.accepted, &ports.record.token_secret()?)
        .accepting_development_tokens(development);
    if let Some(directory) = options.entra.directory()? {
        authenticator = authenticator.with_entra(directory.entra.clone());
        tokio::spawn(directory.start());
    }
    let authenticator = Arc::new(authenticator);
    let settings = settings(options, loopback, &certificates, &ports.descriptors)?;
    let settings = Settings {
        facts: facts(options, &keys.source, clock.now_seconds()),
        advertised: Some(ports.advertised.to_string()),
        front: doors.front,
        slices: doors.slices,
        ..settings
    };
    let gateway = Gateway {
        service,
        settings,
        authenticator: authenticator.clone(),
        activity_ids: ActivityIds::new(clock.now_millis()),
        clock,
    };
    let server = Server::bind(&listened, Protocols::Both(certificates.config), gateway)
        .map_err(|error| format!("cannot listen on {}:{port}: {error}", options.host))?;
    Ok((server, authenticator))
}

/// The names in this node's certificate: those that were given, and the advertised one where the account's authority may vouch for it.
fn certificate_names(options: &ServeOptions, ports: &NodePorts) -> Result<Vec<String>, String> {
    let mut names = options.tls.tls_names.clone();
    let has_own = options.tls.tls_cert.is_some() || options.tls.tls_pfx.is_some();
    if let Some(name) = names.iter().find(|name| !has_own && !ports.record.may_vouch_for(name)) {
        return Err(format!(
            "the account's certificate authority may not vouch for '{name}': give --tls-name {name} to armilla cluster \
             init, or a certificate of your own (--tls-cert)"
        ));
    }
    let host = ports.advertised.host().to_owned();
    if ports.record.may_vouch_for(&host) && !names.contains(&host) {
        names.push(host);
    } else if ports.advertised.is_secure() && !has_own && !is_loopback(&host) {
        return Err(format!(
            "other nodes could not check the certificate of {}: the account's authority may not vouch for '{host}'. Give \
             --tls-name {host} to armilla cluster init, or a certificate of your own (--tls-cert)",
            ports.advertised
        ));
    }
    Ok(names)
}

fn is_loopback(host: &str) -> bool {
    host == "localhost"
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Whose certificates other nodes may show: the account's authority, and those that the system trusts where nodes have
/// certificates of their own.
pub(super) fn trusted(
    options: &ServeOptions,
    record: &AccountRecord,
) -> Result<RootCertStore, String> {
    let mut trusted = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(record.authority().certificate_pem.as_bytes());
    let authority = authority.map_err(|error| format!("the account's authority: {error}"))?;
    trusted.add(authority).map_err(|error| format!("the account's authority: {error}"))?;
    if options.tls.tls_cert.is_some() || options.tls.tls_pfx.is_some() {
        trusted.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    Ok(trusted)
}

pub(super) fn greet(ports: &NodePorts, bound: &[std::net::SocketAddr], folder: &Path) {
    let port = bound.first().map_or(0, std::net::SocketAddr::port);
    say(&format!("Armilla {}: node {} is up", env!("CARGO_PKG_VERSION"), ports.name));
    say(&format!("  port               {port}, http and https"));
    say(&format!("  other nodes reach  {}", ports.advertised));
    say(&format!("  copy in            {}", folder.display()));
    say("  account key        as armilla cluster init has printed it");
    say("  to stop            Ctrl+C, or SIGTERM: the account is handed over");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_pass_is_waited_for() {
        let unreachable = |reason: &str| LedgerError::Unreachable(reason.to_owned());
        for reason in [
            "error connecting to server: Connection refused (os error 111)",
            "the database system is starting up (57P03)",
            "sorry, too many clients already (53300)",
            "connection closed",
        ] {
            assert!(passes(&unreachable(reason)), "{reason}");
        }
        for reason in [
            "relation \"armilla.account\" does not exist (42P01)",
            "database \"x\" does not exist (3D000)",
            "password authentication failed (28P01)",
        ] {
            assert!(!passes(&unreachable(reason)), "{reason}");
        }
        assert!(!passes(&LedgerError::Unfit("x".into())));
    }
}
