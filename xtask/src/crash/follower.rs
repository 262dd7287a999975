//! Readers of the change feed that outlive the server: they keep their positions over kills, splits
//! and merges, and must have seen every living item in its last state in the end.
//!
//! Two read as SDKs do, range by range, going on with the children of a range that is gone; two ask
//! for the whole container at once. One of each reads the latest versions, the other every version
//! and delete: what it has put together from them must be what the container holds, exactly.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use super::CONTAINER;
use super::brief;
use super::model::Partition;
use crate::Outcome;
use crate::rest::{Answer, Client};

const PAGE_ITEMS: &str = "20";
/// No drain of this test's small data needs more polls.
const POLLS_MAX: usize = 20_000;
const RANGE_HEADER: &str = "x-ms-documentdb-partitionkeyrangeid";

/// A reader, its positions and what it has seen.
pub(crate) struct Follower {
    mode: Mode,
    how: How,
    /// The last state seen of each item, by partition key and id.
    seen: BTreeMap<(String, String), Value>,
    /// The last transaction seen of each logical partition.
    order: BTreeMap<String, u64>,
    /// The last transaction seen of each item; a new version comes after a delete in the same one.
    versions: BTreeMap<(String, String), (u64, Change)>,
    /// Deletes by expiry that it was told of.
    expired: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
enum Change {
    Removed,
    Written,
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Latest,
    Versions,
}

enum How {
    Whole(Option<String>),
    Ranges(Vec<Piece>),
}

/// A part of the key space and the position in it.
#[derive(Clone)]
struct Piece {
    min: String,
    max: String,
    position: Option<String>,
}

/// A page, or why there is none.
enum Page {
    Rows(Vec<Value>, String),
    Nothing(String),
    Gone,
}

impl Follower {
    pub(crate) fn all() -> Vec<Self> {
        let everything = || Piece { min: String::new(), max: "FF".to_owned(), position: None };
        let follower = |(mode, how)| Self {
            mode,
            how,
            seen: BTreeMap::new(),
            order: BTreeMap::new(),
            versions: BTreeMap::new(),
            expired: 0,
        };
        [
            (Mode::Latest, How::Whole(None)),
            (Mode::Latest, How::Ranges(vec![everything()])),
            (Mode::Versions, How::Whole(None)),
            (Mode::Versions, How::Ranges(vec![everything()])),
        ]
        .map(follower)
        .into()
    }

    /// Deletes by expiry that it was told of.
    pub(crate) fn expired(&self) -> u64 {
        self.expired
    }

    /// Takes its first position: versions are told from now on only.
    pub(crate) fn begin(&mut self, client: &Client) -> Outcome<()> {
        self.poll(client).map(drop)
    }

    /// Reads until the server is killed.
    pub(crate) fn follow(&mut self, client: &Client, killed: &AtomicBool) -> Outcome<()> {
        while !killed.load(Ordering::SeqCst) {
            match self.poll(client) {
                Err(_) if killed.load(Ordering::SeqCst) => return Ok(()),
                outcome => outcome.map(drop)?,
            }
        }
        Ok(())
    }

    /// Reads to the end and compares with what must be there.
    pub(crate) fn check(&mut self, client: &Client, partitions: &[Partition]) -> Outcome<()> {
        self.drain(client)?;
        for partition in partitions {
            self.compare(partition)?;
            // Alive now, so it was alive when the feed was read to its end.
            for (id, item) in partition.brief.alive(client)? {
                self.expect(&partition.brief.key, &id, &item)?;
            }
        }
        Ok(())
    }

    /// Reads to the end.
    pub(crate) fn drain(&mut self, client: &Client) -> Outcome<()> {
        for _ in 0..POLLS_MAX {
            if !self.poll(client)? {
                return Ok(());
            }
        }
        Err("a follower of the change feed comes to no end".into())
    }

    /// True when it has been told of the end of every item that ends. Latest versions tell of none.
    pub(crate) fn knows_all_ends(&self) -> bool {
        self.mode == Mode::Latest || self.seen.values().all(|item| brief::end_of(item).is_none())
    }

    fn compare(&self, partition: &Partition) -> Outcome<()> {
        for (id, item) in &partition.items {
            self.expect(&partition.key, id, item)?;
        }
        let own = self.seen.keys().filter(|(key, _)| *key == partition.key);
        let extra = own.map(|(_, id)| id).find(|id| !partition.items.contains_key(*id));
        match extra {
            Some(id) if self.mode == Mode::Versions => {
                let key = &partition.key;
                Err(format!("a follower of all versions missed the delete of {key}/{id}").into())
            }
            _ => Ok(()),
        }
    }

    fn expect(&self, key: &str, id: &str, item: &Value) -> Outcome<()> {
        let seen = self.seen.get(&(key.to_owned(), id.to_owned()));
        if seen == Some(item) {
            return Ok(());
        }
        let what = format!("a follower of the change feed missed the last state of {key}/{id}");
        let etag = |item: &Value| item["_etag"].clone();
        Err(format!("{what}: {:?} seen, {} there", seen.map(etag), etag(item)).into())
    }

    /// Reads a page of everything; false when there was nothing new anywhere.
    fn poll(&mut self, client: &Client) -> Outcome<bool> {
        let (mut rows, mut gone) = (Vec::new(), false);
        let mode = self.mode;
        match &mut self.how {
            How::Whole(position) => match page(client, mode, &[], position.as_deref())? {
                Page::Rows(found, behind) => {
                    rows = found;
                    *position = Some(behind);
                }
                Page::Nothing(behind) => *position = Some(behind),
                Page::Gone => return Err("the whole container is gone".into()),
            },
            How::Ranges(pieces) => {
                let mut next = Vec::new();
                for (range, piece) in parts(client, pieces)? {
                    let mut headers = vec![(RANGE_HEADER, range.as_str())];
                    if !piece.min.is_empty() {
                        headers.push(("x-ms-start-epk", &piece.min));
                    }
                    headers.push(("x-ms-end-epk", &piece.max));
                    let position = match page(client, mode, &headers, piece.position.as_deref())? {
                        Page::Rows(found, behind) => {
                            rows.extend(found);
                            Some(behind)
                        }
                        Page::Nothing(behind) => Some(behind),
                        // Split or merged since its range was read: the next poll finds its heirs.
                        Page::Gone => {
                            gone = true;
                            piece.position.clone()
                        }
                    };
                    next.push(Piece { position, ..piece });
                }
                *pieces = next;
            }
        }
        let more = gone || !rows.is_empty();
        rows.into_iter().try_for_each(|row| match mode {
            Mode::Latest => self.learn(row),
            Mode::Versions => self.learn_version(&row),
        })?;
        Ok(more)
    }

    fn learn(&mut self, mut row: Value) -> Outcome<()> {
        let lsn = row.as_object_mut().and_then(|row| row.remove("_lsn"));
        let lsn = lsn.and_then(|lsn| lsn.as_u64()).ok_or("a row of the feed has no _lsn")?;
        let name = name_of(&row);
        self.in_order(&name, lsn)?;
        self.seen.insert(name, row);
        Ok(())
    }

    fn learn_version(&mut self, row: &Value) -> Outcome<()> {
        let metadata = &row["metadata"];
        let lsn = metadata["lsn"].as_u64().ok_or("a version has no lsn")?;
        if metadata["operationType"] != "delete" {
            let name = name_of(&row["current"]);
            self.in_order(&name, lsn)?;
            self.once(&name, (lsn, Change::Written))?;
            self.seen.insert(name, row["current"].clone());
            return Ok(());
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let name = (text(&metadata["partitionKey"]["pk"]), text(&metadata["id"]));
        self.in_order(&name, lsn)?;
        self.once(&name, (lsn, Change::Removed))?;
        let Some(item) = self.seen.remove(&name) else {
            return Err(format!("{name:?} was deleted and never seen").into());
        };
        if metadata["timeToLiveExpired"] == true {
            self.expired += 1;
            if brief::end_of(&item) > metadata["crts"].as_i64() {
                return Err(format!("{item} expired before its end: {metadata}").into());
            }
        }
        Ok(())
    }

    /// Transactions of a logical partition come in their order.
    fn in_order(&mut self, (key, id): &(String, String), lsn: u64) -> Outcome<()> {
        let last = self.order.entry(key.clone()).or_default();
        if lsn < *last {
            return Err(format!("{key}/{id} at {lsn} came after {last}").into());
        }
        *last = lsn;
        Ok(())
    }

    /// No version of an item comes twice.
    fn once(&mut self, name: &(String, String), version: (u64, Change)) -> Outcome<()> {
        match self.versions.insert(name.clone(), version) {
            Some(last) if last >= version => {
                Err(format!("the version {version:?} of {name:?} came after {last:?}").into())
            }
            _ => Ok(()),
        }
    }
}

fn name_of(item: &Value) -> (String, String) {
    let text = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
    (text("pk"), text("id"))
}

/// The pieces cut at the ranges of now, each with the range that serves it.
fn parts(client: &Client, pieces: &[Piece]) -> Outcome<Vec<(String, Piece)>> {
    let answer = client.send("GET", &format!("{CONTAINER}/pkranges"), &[], None)?;
    let ranges = answer.body["PartitionKeyRanges"].as_array().ok_or("no ranges came")?;
    let mut parts = Vec::new();
    for piece in pieces {
        for range in ranges {
            let text = |name: &str| range[name].as_str().unwrap_or_default().to_owned();
            let min = text("minInclusive").max(piece.min.clone());
            let max = text("maxExclusive").min(piece.max.clone());
            if min < max {
                parts.push((text("id"), Piece { min, max, position: piece.position.clone() }));
            }
        }
    }
    Ok(parts)
}

fn page(
    client: &Client,
    mode: Mode,
    scope: &[(&str, &str)],
    position: Option<&str>,
) -> Outcome<Page> {
    let mut headers = vec![("x-ms-max-item-count", PAGE_ITEMS)];
    let position = match mode {
        Mode::Latest => {
            headers.push(("a-im", "Incremental Feed"));
            position
        }
        Mode::Versions => {
            headers.push(("a-im", "Full-Fidelity Feed"));
            headers.push(("x-ms-cosmos-changefeed-wire-format-version", "2021-09-15"));
            position.or(Some("*"))
        }
    };
    headers.extend_from_slice(scope);
    headers.extend(position.map(|position| ("if-none-match", position)));
    let answer = client.send("GET", &format!("{CONTAINER}/docs"), &headers, None)?;
    let etag =
        |answer: &Answer| answer.header("etag").map(str::to_owned).ok_or("a page has no etag");
    match answer.status {
        200 => {
            let rows = answer.body["Documents"].as_array().cloned().ok_or("a page has no rows")?;
            Ok(Page::Rows(rows, etag(&answer)?))
        }
        304 => Ok(Page::Nothing(etag(&answer)?)),
        410 => Ok(Page::Gone),
        status => Err(format!("the change feed answered {status}: {}", answer.body).into()),
    }
}
