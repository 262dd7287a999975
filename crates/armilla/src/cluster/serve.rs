//! `armilla serve --store …`: one of several nodes, from its start to its end.

use super::folder::{self, FolderCopy, NodeFile, refuse_foreign_data};
use super::handover;
use super::node::{self, NodeState};
use super::record::AccountRecord;
use super::{NodeOptions, address};
use crate::advise::Watching;
use crate::config::{DurabilityOption, ServeOptions};
use crate::control::{self, Control, Tickets};
use crate::descriptors::Descriptors;
use crate::offline::refusal;
use crate::serve::{
    addresses, disk, facts, open_account, open_store, service, settings, stop_signal,
};
use crate::terminal::{note, say};
use crate::{keys, private, tls};
use armilla_engine::Account;
use armilla_gateway::activity::ActivityIds;
use armilla_gateway::auth::{Authenticator, DevelopmentTokens};
use armilla_gateway::cluster::{Front, LateService, NodeAddress};
use armilla_gateway::ops::EngineService;
use armilla_gateway::serve::{Protocols, Stopped, runtime};
use armilla_gateway::{Gateway, Server, Settings};
use armilla_model::clock::{Clock, SystemClock, monotonic};
use armilla_storage::Store;
use armilla_storage::ledger::{
    ACCOUNT, JoinError, Ledger, LedgerError, Member, NodeCard, PostgresLedger, Replica,
};
use parking_lot::Mutex;
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

/// What the node has once it owns the account.
#[derive(Default)]
pub(super) struct OpenAccount {
    account: Option<Arc<Account>>,
    _control: Option<Control>,
    _watching: Option<Arc<Watching>>,
}

impl OpenAccount {
    /// Closes the account, and gives it up: another node may take it from now on.
    pub(super) fn close(&mut self) -> Result<(), String> {
        let Self { account, _control, _watching } = std::mem::take(self);
        let Some(account) = account else { return Ok(()) };
        // A database that is away is not waited for: what was not answered may be done or not.
        account.store().end_waits();
        account.close().map_err(|error| error.to_string())
    }
}

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
    let descriptors = Descriptors::claim()?;
    if let Some(warning) = descriptors.warning() {
        note(&warning);
    }
    let folder = options.data();
    let (store, member) =
        join(options, &ledger, &folder, (&name, &advertised, &record), &descriptors)?;
    let runtime = runtime(options.threads).map_err(|error| error.to_string())?;
    let ports = Ports { name, advertised, record, descriptors };
    let stopped = match runtime.block_on(serve(options, ports, ledger, store, member))? {
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
struct Ports {
    name: String,
    advertised: NodeAddress,
    record: AccountRecord,
    descriptors: Descriptors,
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
fn patiently<T>(mut ask: impl FnMut() -> Result<T, LedgerError>) -> Result<T, String> {
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

/// Opens the local copy and enters the account.
fn join(
    options: &ServeOptions,
    ledger: &Arc<PostgresLedger>,
    folder: &Path,
    (name, advertised, record): (&str, &NodeAddress, &AccountRecord),
    descriptors: &Descriptors,
) -> Result<(Arc<dyn Store>, Member), String> {
    let account = patiently(|| ledger.account())?;
    let found = NodeFile::read(folder)?;
    let copy = NodeFile::belongs(found.as_ref(), folder, (&account, name, record))?;
    private::tighten(folder);
    let mut store = open_store(options, Some(folder), descriptors)?;
    if let FolderCopy::Lost(_) = copy {
        note(
            "the database has lost writes, which was accepted: this node's copy is thrown away and made anew",
        );
        // It could be opened, so no other process has the folder.
        store.close().map_err(refusal)?;
        drop(store);
        folder::empty(folder)?;
        store = open_store(options, Some(folder), descriptors)?;
    }
    if copy == FolderCopy::None {
        refuse_foreign_data(&*store, folder)?;
    }
    if let Some(disk) = disk(Some(folder))? {
        Account::retain_index_files(&*store, disk).map_err(refusal)?;
    }
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let address = advertised.to_string();
    let card = NodeCard { name: name.to_owned(), address, version };
    let member = patiently(|| {
        match Member::join(ledger.clone(), card.clone(), copy.incarnation(), record.lease()) {
            Err(JoinError::Ledger(error)) => Err(error),
            other => Ok(other),
        }
    })?;
    let member = member.map_err(|error| error.to_string())?;
    let incarnation = member.incarnation().0;
    NodeFile { account, name: name.to_owned(), incarnation }.write(folder)?;
    Ok((store, member))
}

async fn serve(
    options: &ServeOptions,
    ports: Ports,
    ledger: Arc<PostgresLedger>,
    store: Arc<dyn Store>,
    member: Member,
) -> Result<Ending, String> {
    let folder = options.data();
    let replica = Replica::new(store, ledger).map_err(refusal)?;
    let trusted = trusted(options, &ports.record)?;
    let (front, places) = Front::new(&ports.name, trusted).map_err(|error| error.to_string())?;
    let (node, successors) = NodeState::new(member, places, front.gauges());
    let node = Arc::new(node);
    let asked = node.clone();
    let late = LateService::new(Arc::new(move || asked.holds_lease()));
    let (server, authenticator) = bind(options, &ports, front, late.clone())?;
    let bound = server.local_addresses().map_err(|error| error.to_string())?;
    let opened = Arc::new(Mutex::new(OpenAccount::default()));
    let handover = handover::start(node.clone(), late.clone(), opened.clone(), successors);
    let beats = node::start_beats(node.clone());
    let tickets = Tickets {
        authenticator: authenticator.clone(),
        clock: Arc::new(SystemClock),
        address: options.explorer_address(&bound),
    };
    let (kept, own, place) = (opened.clone(), options.clone(), folder.clone());
    let incarnation = node.member.incarnation().0;
    let nodes = node.clone();
    let runtime = tokio::runtime::Handle::current();
    node::start_following(node.clone(), replica, options.node.retention(), move |store| {
        // Webhooks are called from tasks of the server.
        let _entered = runtime.enter();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let disk = disk(Some(&place))?;
        let account = open_account(&own, Arc::new(store), clock, disk.clone(), Some(incarnation))?;
        let (service, watching) = service(&own, &account, &authenticator, disk)?;
        late.begin(service.with_nodes(nodes));
        let control = control::start(&place, account.clone(), tickets);
        let account = Some(account);
        *kept.lock() = OpenAccount { account, _control: Some(control), _watching: watching };
        tracing::warn!("this node owns the account");
        Ok(())
    });
    greet(&ports, &bound, &folder);
    let mut heir = None;
    let mut told = pin!(stop_signal());
    let stop = async {
        tokio::select! {
            () = &mut told => {}
            name = handover.done() => heir = Some(name),
        }
    };
    let stopped = server.run(stop).await;
    // Who was told to stop in the meantime does not start again: the new process would know nothing of it.
    if let Some(heir) = heir
        && tokio::time::timeout(LAST_LOOK, &mut told).await.is_err()
    {
        return Ok(Ending::HandedOver(heir));
    }
    node.stop();
    opened.lock().close()?;
    node.leave(beats);
    Ok(Ending::Stopped(stopped))
}

type NodeServer = Server<LateService<EngineService>>;

fn bind(
    options: &ServeOptions,
    ports: &Ports,
    front: Front,
    late: LateService<EngineService>,
) -> Result<(NodeServer, Arc<Authenticator>), String> {
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
        front: Some(Arc::new(front)),
        ..settings
    };
    let gateway = Gateway {
        service: late,
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
fn certificate_names(options: &ServeOptions, ports: &Ports) -> Result<Vec<String>, String> {
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
fn trusted(options: &ServeOptions, record: &AccountRecord) -> Result<RootCertStore, String> {
    let mut trusted = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(record.authority().certificate_pem.as_bytes());
    let authority = authority.map_err(|error| format!("the account's authority: {error}"))?;
    trusted.add(authority).map_err(|error| format!("the account's authority: {error}"))?;
    if options.tls.tls_cert.is_some() || options.tls.tls_pfx.is_some() {
        trusted.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    Ok(trusted)
}

fn greet(ports: &Ports, bound: &[std::net::SocketAddr], folder: &Path) {
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
