//! `armilla serve --store …` for an account that is cut into slices, from its start to its end.

use super::SlicedNode;
use super::term::{self, OpenSlice, OpenTerm, Rehearse, SliceWork};
use crate::cluster::folder::{self, FolderCopy, Joined, NodeFile};
use crate::cluster::life::etag_number;
use crate::cluster::serve::{Doors, NodePorts, bind, greet, patiently, trusted};
use crate::config::ServeOptions;
use crate::control::{self, Tickets};
use crate::descriptors::Descriptors;
use crate::offline::refusal;
use crate::private;
use crate::serve::{account_options, disk, open_account, open_store, service, stop_signal};
use crate::terminal::{note, say};
use armilla_engine::{Account, Options, Slice};
use armilla_gateway::cluster::{Front, LateService, SliceFronts, SlicedService};
use armilla_gateway::serve::{Stopped, runtime};
use armilla_model::clock::SystemClock;
use armilla_storage::Store;
use armilla_storage::ledger::{
    JoinError, Ledger as _, Member, NodeCard, PostgresLedger, slice_journal,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Serves as a node until the process is told to stop.
pub(in crate::cluster) fn run(
    options: &ServeOptions,
    ports: NodePorts,
    ledger: &Arc<PostgresLedger>,
) -> Result<(), String> {
    for slice in 0..ports.record.slices() {
        let at = slice_journal(slice);
        patiently(|| ledger.open(at.home, &[(at.shard, 0)]))?;
    }
    let options = &shared_out(options, ports.record.slices());
    let (stores, joined) = join(options, ledger, &ports)?;
    let runtime = runtime(options.threads).map_err(|error| error.to_string())?;
    let stopped = runtime.block_on(serve(options, &ports, ledger.clone(), stores, joined))?;
    if let Stopped::CutOff(connections) = stopped {
        note(&format!("{connections} connections did not finish in time and were cut off"));
    }
    say("armilla: stopped");
    Ok(())
}

/// The options of each slice: they share what the process may have.
fn shared_out(options: &ServeOptions, slices: u32) -> ServeOptions {
    let mut options = options.clone();
    options.cache_mb = (options.cache_mb / u64::from(slices)).max(1);
    options
}

/// Where a node keeps its copy of a slice.
pub(in crate::cluster) fn slice_folder(folder: &Path, slice: u32) -> PathBuf {
    folder.join(format!("slice-{slice}"))
}

/// Opens the local copies and enters the account.
fn join(
    options: &ServeOptions,
    ledger: &Arc<PostgresLedger>,
    ports: &NodePorts,
) -> Result<(Vec<Arc<dyn Store>>, Joined), String> {
    let folder = options.data();
    let account = patiently(|| ledger.account())?;
    let found = NodeFile::read(&folder)?;
    let copy = NodeFile::belongs(found.as_ref(), &folder, (&account, &ports.name, &ports.record))?;
    if copy == FolderCopy::None {
        refuse_used(&folder)?;
    }
    if let FolderCopy::Lost(_) = copy {
        folder::empty(&folder)?;
    }
    let slices = ports.record.slices();
    let share = usize::try_from(slices).unwrap_or(usize::MAX);
    let descriptors =
        Descriptors { tables: (ports.descriptors.tables / share).max(1), ..ports.descriptors };
    let mut stores = Vec::new();
    for slice in 0..slices {
        let place = slice_folder(&folder, slice);
        stores.push(open_store(options, Some(&place), &descriptors)?);
    }
    private::tighten(&folder);
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let address = ports.advertised.to_string();
    let card = NodeCard { name: ports.name.clone(), address, version };
    let lease = ports.record.lease();
    let member = patiently(|| {
        match Member::join(ledger.clone(), card.clone(), copy.incarnation(), lease) {
            Err(JoinError::Ledger(error)) => Err(error),
            other => Ok(other),
        }
    })?;
    let member = member.map_err(|error| error.to_string())?;
    let draining = found.is_some_and(|found| found.draining);
    let file = NodeFile { account, name: ports.name.clone(), incarnation: 0, draining };
    Ok((stores, Joined::enter(member, &folder, file)?))
}

/// Refuses a folder that holds something and belongs to no node.
fn refuse_used(folder: &Path) -> Result<(), String> {
    let used = std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
    match used {
        false => Ok(()),
        true => Err(format!(
            "{} is not empty and belongs to no node: give a node a folder of its own",
            folder.display()
        )),
    }
}

async fn serve(
    options: &ServeOptions,
    ports: &NodePorts,
    ledger: Arc<PostgresLedger>,
    stores: Vec<Arc<dyn Store>>,
    joined: Joined,
) -> Result<Stopped, String> {
    let folder = options.data();
    let mut fronts = Vec::new();
    let mut copies = Vec::new();
    for store in &stores {
        let front = Front::new(&ports.name, trusted(options, &ports.record)?);
        let (front, places) = front.map_err(|error| error.to_string())?;
        fronts.push(Arc::new(front));
        copies.push((store.clone(), places));
    }
    let gauges = fronts.first().map(|front| front.gauges()).unwrap_or_default();
    let (node, told) = SlicedNode::new(joined, copies, (gauges, options.node.balance_after()));
    let node = Arc::new(node);
    // Nothing is served before a slice is owned.
    let empty = stores.iter().map(|_| LateService::new()).collect();
    let sliced = SlicedService::new(empty, node.clone());
    let front = fronts.first().cloned();
    let doors = Doors { front, slices: Some(Arc::new(SliceFronts::new(fronts))) };
    let (server, authenticator) = bind(options, ports, doors, sliced.clone())?;
    let bound = server.local_addresses().map_err(|error| error.to_string())?;
    let beats = super::start_beats(node.clone());
    let address = options.explorer_address(&bound);
    let tickets = move || Tickets {
        authenticator: authenticator.clone(),
        clock: Arc::new(SystemClock),
        address: address.clone(),
    };
    let open = opener(options, ports, node.clone(), tickets);
    let rehearse = rehearser(options, stores.clone());
    let mut threads = Vec::new();
    for (number, told) in (0..).zip(told) {
        threads.push(term::start(SliceWork {
            node: node.clone(),
            number,
            ledger: ledger.clone(),
            retention: options.node.retention(),
            service: sliced.clone(),
            told,
            disk: disk(Some(&slice_folder(&folder, number)))?,
            open: open.clone(),
            rehearse: rehearse.clone(),
        }));
    }
    greet(ports, &bound, &folder);
    let stopped = server.run(stop_signal()).await;
    node.stop();
    for thread in threads {
        // It ends the process when it panics.
        let _ended = thread.join();
    }
    for store in stores {
        store.close().map_err(refusal)?;
    }
    node.leave(beats);
    Ok(stopped)
}

/// What makes an account of the store of a slice.
fn opener(
    options: &ServeOptions,
    ports: &NodePorts,
    nodes: Arc<SlicedNode>,
    tickets: impl Fn() -> Tickets + Send + Sync + 'static,
) -> OpenTerm {
    let (options, folder) = (options.clone(), options.data());
    let (account, count) = (ports.account.clone(), ports.record.slices());
    let runtime = tokio::runtime::Handle::current();
    Arc::new(move |number, store, term| {
        // Webhooks are called from tasks of the server.
        let _entered = runtime.enter();
        let tickets = tickets();
        let disk = disk(Some(&slice_folder(&folder, number)))?;
        let slice = Slice::new(number, count).ok_or("there is no such slice")?;
        let etags = etag_number(&account, term);
        let (clock, life) = (tickets.clock.clone(), (Some(etags), slice));
        let account = open_account(&options, Arc::new(store), clock, disk.clone(), life)?;
        account.set_copies(Box::new(nodes.copies()));
        let (service, _watching) = service(&options, &account, &tickets.authenticator, disk)?;
        let service = service.with_nodes(nodes.clone());
        // The first slice has the catalog, and with it the socket of the whole folder.
        let own = slice_folder(&folder, number);
        let place = if number == 0 { &folder } else { &own };
        let _control = control::start(place, account.clone(), tickets);
        Ok(OpenSlice { account, service, _control, _watching })
    })
}

/// What makes the indexes of a slice over the local copy of it.
fn rehearser(options: &ServeOptions, copies: Vec<Arc<dyn Store>>) -> Rehearse {
    let (options, folder) = (options.clone(), options.data());
    let count = u32::try_from(copies.len()).unwrap_or(u32::MAX);
    Arc::new(move |number| {
        let disk = disk(Some(&slice_folder(&folder, number)))?;
        let slice = Slice::new(number, count).ok_or("there is no such slice")?;
        let given = account_options(&options, Arc::new(SystemClock), disk, None)?;
        Account::rehearse(&copies[number as usize], Options { slice, ..given }).map_err(refusal)
    })
}
