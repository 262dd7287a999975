//! Clients in Direct mode: they ask where the owner of a range is, speak to it, and ask again when they are told that it has moved.

mod check;
mod wire;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

pub(super) use check::check;

use super::history::{Ask, KEY_HEADER};
use crate::Outcome;
use crate::rest::{Answer, Client};
use wire::{DirectAnswer, DirectRequest, Trust, Wire};

/// How long a client asks where to go before it gives up.
const TRIED_WITHIN: Duration = Duration::from_secs(8);
/// The range is gone; its successors have to be looked for.
const MOVED: i64 = 1007;

/// What clients met, all together.
#[derive(Default)]
pub(super) struct Met {
    pub(super) answered: AtomicU64,
    /// Told that a partition is elsewhere.
    pub(super) gone: AtomicU64,
    hosts: Mutex<HashSet<String>>,
}

impl Met {
    /// How many owners were spoken to.
    pub(super) fn hosts(&self) -> usize {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// Where a range is served: host and port, and the path there.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ReplicaAddress {
    host: String,
    path: String,
}

/// One client, with connections of its own.
pub(super) struct DirectClient<'a> {
    /// The nodes, any of which tells addresses.
    nodes: &'a [Client],
    container: &'a str,
    trust: Trust,
    met: &'a Met,
    known: RefCell<Learned>,
}

#[derive(Default)]
struct Learned {
    /// The path of the container's items, by `_rid`.
    items: Option<String>,
    ranges: Vec<String>,
    range_of_key: HashMap<String, String>,
    addresses: HashMap<String, ReplicaAddress>,
    connections: HashMap<String, Wire>,
    turn: usize,
}

impl<'a> DirectClient<'a> {
    /// A client of one container.
    pub(super) fn new(nodes: &'a [Client], container: &'a str, met: &'a Met) -> Outcome<Self> {
        let first = nodes.first().ok_or("there are no nodes")?;
        let trust = Trust::new(&first.certificate()?)?;
        Ok(Self { nodes, container, trust, met, known: RefCell::default() })
    }

    /// Any node, another one each time.
    fn any(&self) -> &Client {
        let mut known = self.known.borrow_mut();
        known.turn += 1;
        &self.nodes[known.turn % self.nodes.len()]
    }

    /// The path of the container's items by `_rid`.
    fn items(&self) -> Outcome<String> {
        if let Some(items) = &self.known.borrow().items {
            return Ok(items.clone());
        }
        let (database, _) =
            self.container.split_once("/colls").ok_or("a container has a database")?;
        let rid = |path: &str| -> Outcome<String> {
            let answer = self.any().send("GET", path, &[], None)?;
            Ok(answer.body["_rid"].as_str().ok_or("no _rid")?.to_owned())
        };
        let items = format!("dbs/{}/colls/{}/docs", rid(database)?, rid(self.container)?);
        self.known.borrow_mut().items = Some(items.clone());
        Ok(items)
    }

    /// The ids of the container's ranges.
    fn ranges(&self) -> Outcome<Vec<String>> {
        if !self.known.borrow().ranges.is_empty() {
            return Ok(self.known.borrow().ranges.clone());
        }
        let answer = self.any().send("GET", &format!("{}/pkranges", self.container), &[], None)?;
        let rows = answer.body["PartitionKeyRanges"].as_array().cloned().unwrap_or_default();
        let ids = rows.iter().filter_map(|row| Some(row["id"].as_str()?.to_owned()));
        let ranges: Vec<String> = ids.collect();
        self.known.borrow_mut().ranges.clone_from(&ranges);
        match ranges.is_empty() {
            true => Err("the container shows no ranges".into()),
            false => Ok(ranges),
        }
    }

    /// Where a range is, as some node says.
    fn address(&self, range: &str) -> Outcome<ReplicaAddress> {
        if let Some(known) = self.known.borrow().addresses.get(range) {
            return Ok(known.clone());
        }
        let found = told_address(&self.any().addresses(&self.items()?, range)?)?;
        self.known.borrow_mut().addresses.insert(range.to_owned(), found.clone());
        Ok(found)
    }

    /// A connection to an owner.
    fn connection(&self, host: &str) -> Outcome<Wire> {
        if let Some(wire) = self.known.borrow_mut().connections.remove(host) {
            return Ok(wire);
        }
        let wire = self.trust.connect(host)?;
        let mut hosts = self.met.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        hosts.insert(host.to_owned());
        Ok(wire)
    }

    /// Sends a request to the range of its key, of which the client knows nothing but what it was told: it tries them.
    fn try_once(&self, request: &DirectRequest<'_>) -> Outcome<Tried> {
        let ranges = self.ranges()?;
        let known = self.known.borrow().range_of_key.get(request.key).cloned();
        let tried: Vec<String> = known.map_or(ranges, |range| vec![range]);
        for range in &tried {
            let address = self.address(range)?;
            let Ok(mut wire) = self.connection(&address.host) else {
                self.known.borrow_mut().addresses.remove(range);
                return Ok(Tried::Again);
            };
            let sent = wire.call(request, &address.path);
            let Ok(answer) = sent else {
                self.known.borrow_mut().addresses.remove(range);
                return Ok(Tried::Unknown);
            };
            let mut known = self.known.borrow_mut();
            known.connections.insert(address.host.clone(), wire);
            match (answer.status, answer.substatus) {
                (410, Some(MOVED)) => {}
                (410, _) => {
                    self.met.gone.fetch_add(1, Ordering::Relaxed);
                    known.addresses.remove(range);
                    return Ok(Tried::Again);
                }
                _ => {
                    known.range_of_key.insert(request.key.to_owned(), range.clone());
                    self.met.answered.fetch_add(1, Ordering::Relaxed);
                    return Ok(Tried::Answered(answer));
                }
            }
        }
        // Ranges were split or merged: others have the key.
        let mut known = self.known.borrow_mut();
        known.range_of_key.remove(request.key);
        known.ranges.clear();
        Ok(Tried::Again)
    }
}

enum Tried {
    Answered(DirectAnswer),
    /// Nothing was done.
    Again,
    /// The connection broke.
    Unknown,
}

/// The primary address in an answer.
fn told_address(answer: &Answer) -> Outcome<ReplicaAddress> {
    let first = &answer.body["Addresss"][0];
    let uri = first["physcialUri"].as_str().and_then(|uri| uri.strip_prefix("rntbd://"));
    let (host, path) = uri
        .and_then(|uri| uri.split_once('/'))
        .ok_or_else(|| format!("addresses were answered {}: {}", answer.status, answer.body))?;
    Ok(ReplicaAddress { host: host.to_owned(), path: format!("/{path}") })
}

impl Ask for DirectClient<'_> {
    fn ask(
        &self,
        verb: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Outcome<Answer> {
        let header = |wanted: &str| headers.iter().find(|(name, _)| *name == wanted);
        let key = header(KEY_HEADER).map(|(_, key)| *key).ok_or("a key is missing")?;
        let signed = self.nodes[0].signed(verb, path);
        let request = DirectRequest { verb, path, key, body, signed: &signed };
        let end = Instant::now() + TRIED_WITHIN;
        loop {
            match self.try_once(&request) {
                Ok(Tried::Answered(answer)) => {
                    let DirectAnswer { status, body, .. } = answer;
                    return Ok(Answer { status, headers: Default::default(), body });
                }
                Ok(Tried::Unknown) => return Err("the connection broke".into()),
                _ if Instant::now() >= end => {
                    let (headers, body) = Default::default();
                    return Ok(Answer { status: 429, headers, body });
                }
                // Nobody owns it for the moment, or the node that was asked is away.
                Ok(Tried::Again) | Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }
}
