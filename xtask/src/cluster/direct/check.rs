//! What Direct mode promises in an account that is cut: every slice's owner is named, serves its own ranges and no others, and does nothing for
//! those that have moved.

use serde_json::json;

use super::wire::{DirectAnswer, DirectRequest, Trust};
use super::{DirectClient, Met, ReplicaAddress, told_address};
use crate::Outcome;
use crate::cluster::history::{Ask, KEY_HEADER};
use crate::cluster::nodes::Nodes;
use crate::rest::Client;

const CONTAINER: &str = "/dbs/cluster/colls/direct";
/// Keys that are written; more than enough for one in every slice.
const KEYS: usize = 24;

/// Goes through it on nodes that own some slices each.
pub(in crate::cluster) fn check(nodes: &Nodes) -> Outcome<()> {
    let clients: Vec<Client> =
        (0..nodes.len()).map(|node| nodes.client(node)).collect::<Outcome<_>>()?;
    let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
    let definition = json!({ "id": "direct", "partitionKey": key });
    let made = clients[0].send("POST", "/dbs/cluster/colls", &[], Some(&definition))?;
    if made.status != 201 {
        return Err(format!("a container was answered {}: {}", made.status, made.body).into());
    }
    let met = Met::default();
    let direct = DirectClient::new(&clients, CONTAINER, &met)?;
    for key in 0..KEYS {
        let (id, header) = (format!("d{key}"), format!("[\"d{key}\"]"));
        let item = json!({ "id": id, "pk": id });
        let headers = [(KEY_HEADER, &*header)];
        let written = direct.ask("POST", &format!("{CONTAINER}/docs"), &headers, Some(&item))?;
        let path = format!("{CONTAINER}/docs/{id}");
        let read = clients[key % clients.len()].send("GET", &path, &headers, None)?;
        if (written.status, read.status) != (201, 200) {
            return Err(
                format!("{id} was written {} and read {}", written.status, read.status).into()
            );
        }
    }
    let owners = nodes.slice_owners();
    for range in direct.ranges()? {
        expect_owner(nodes, &direct, &range, owners[slice_of(&range, owners.len())?])?;
    }
    if met.hosts() < nodes.len().min(owners.len()) {
        return Err(format!("only {} owners were spoken to", met.hosts()).into());
    }
    catalog(nodes, &clients, owners[0])?;
    moved(nodes, &direct)?;
    match clients[2].send("DELETE", CONTAINER, &[], None)?.status {
        204 => Ok(()),
        other => Err(format!("dropping a container was answered {other}").into()),
    }
}

fn slice_of(range: &str, slices: usize) -> Outcome<usize> {
    Ok(range.parse::<usize>()? % slices)
}

/// Every node names the owner of a range, and nobody else.
fn expect_owner(
    nodes: &Nodes,
    direct: &DirectClient<'_>,
    range: &str,
    owner: Option<usize>,
) -> Outcome<()> {
    let owner = owner.ok_or("a slice has no owner")?;
    let expected = format!("127.0.0.1:{}", nodes.door(owner).port());
    for client in direct.nodes {
        let told = told_address(&client.addresses(&direct.items()?, range)?)?;
        if told.host != expected {
            return Err(format!("range {range} is at {expected}, not at {}", told.host).into());
        }
    }
    Ok(())
}

/// The catalog is read at the owner of the first slice alone.
fn catalog(nodes: &Nodes, clients: &[Client], first: Option<usize>) -> Outcome<()> {
    let trust = Trust::new(&clients[0].certificate()?)?;
    let told = told_address(&clients[1].addresses("dbs", "")?)?;
    for node in 0..nodes.len() {
        let host = format!("127.0.0.1:{}", nodes.door(node).port());
        let expected = if Some(node) == first { 200 } else { 410 };
        if (told.host == host) != (expected == 200) {
            return Err(format!("the catalog is said to be at {}", told.host).into());
        }
        let path = "/dbs/cluster";
        let signed = clients[0].signed("GET", path);
        let request = DirectRequest { verb: "GET", path, key: "", body: None, signed: &signed };
        let answer = trust.connect(&host)?.call(&request, &told.path)?;
        if answer.status != expected {
            return Err(format!("node {node} answered {} for the catalog", answer.status).into());
        }
    }
    Ok(())
}

/// A slice is handed over: whoever asks its old owner is sent away, and nothing is done.
fn moved(nodes: &Nodes, direct: &DirectClient<'_>) -> Outcome<()> {
    let owners = nodes.slice_owners();
    let ranges = direct.ranges()?;
    let range =
        ranges.iter().find(|range| slice_of(range, owners.len()).is_ok_and(|slice| slice > 0));
    let range = range.ok_or("no range lies beyond the first slice")?;
    let slice = slice_of(range, owners.len())?;
    let old: ReplicaAddress = direct.address(range)?;
    let key = direct
        .known
        .borrow()
        .range_of_key
        .iter()
        .find(|(_, known)| *known == range)
        .map(|(key, _)| key.clone());
    let key = key.ok_or("no key lies in the range")?;
    let owner = owners[slice].ok_or("a slice has no owner")?;
    let target = (owner + 1) % nodes.len();
    let name = nodes.place(target).0.to_owned();
    // It negotiates before the slice moves, as a client does that was there all the time.
    let mut wire = direct.trust.connect(&old.host)?;
    nodes.command(&["cluster", "move", &name, "--slice", &slice.to_string()], nodes.database())?;
    let item = json!({ "id": "late", "pk": key.trim_matches(['[', ']', '"']) });
    let path = format!("{CONTAINER}/docs");
    let signed = direct.nodes[0].signed("POST", &path);
    let request =
        DirectRequest { verb: "POST", path: &path, key: &key, body: Some(&item), signed: &signed };
    let DirectAnswer { status, substatus, .. } = wire.call(&request, &old.path)?;
    if (status, substatus) != (410, Some(0)) {
        return Err(format!("the old owner answered {status}/{substatus:?}").into());
    }
    let headers = [(KEY_HEADER, &*key)];
    let read = direct.nodes[0].send("GET", &format!("{path}/late"), &headers, None)?;
    if read.status != 404 {
        return Err(format!("what was sent away is there: {}", read.status).into());
    }
    expect_owner(nodes, direct, range, Some(target))?;
    let gone = direct.met.gone.load(std::sync::atomic::Ordering::Relaxed);
    let written = direct.ask("POST", &path, &headers, Some(&item))?;
    let is_told = direct.met.gone.load(std::sync::atomic::Ordering::Relaxed) > gone;
    match (written.status, is_told) {
        (201, true) => Ok(()),
        (status, is_told) => {
            Err(format!("behind a move a write was answered {status}; told to go: {is_told}")
                .into())
        }
    }
}
