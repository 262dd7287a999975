//! Readers of the change feed that outlive the server: they keep their positions over kills, splits
//! and merges, and must have seen every living item in its last state in the end.
//!
//! One reads as SDKs do, range by range, going on with the children of a range that is gone; the
//! other asks for the whole container at once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use super::CONTAINER;
use super::model::Partition;
use crate::Outcome;
use crate::rest::{Answer, Client};

const PAGE_ITEMS: &str = "20";
/// No drain of this test's small data needs more polls.
const POLLS_MAX: usize = 20_000;
const RANGE_HEADER: &str = "x-ms-documentdb-partitionkeyrangeid";

/// A reader, its positions and what it has seen.
pub(crate) struct Follower {
    how: How,
    /// The last state seen of each item, by partition key and id.
    seen: BTreeMap<(String, String), Value>,
    /// The last transaction seen of each logical partition.
    order: BTreeMap<String, u64>,
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
        let everything = Piece { min: String::new(), max: "FF".to_owned(), position: None };
        [How::Whole(None), How::Ranges(vec![everything])]
            .map(|how| Self { how, seen: BTreeMap::new(), order: BTreeMap::new() })
            .into()
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
        let mut polls = 0;
        while self.poll(client)? {
            polls += 1;
            if polls > POLLS_MAX {
                return Err("a follower of the change feed comes to no end".into());
            }
        }
        for partition in partitions {
            for (id, item) in &partition.items {
                let seen = self.seen.get(&(partition.key.clone(), id.clone()));
                if seen != Some(item) {
                    let key = &partition.key;
                    return Err(format!(
                        "a follower of the change feed missed the last state of {key}/{id}"
                    )
                    .into());
                }
            }
        }
        Ok(())
    }

    /// Reads a page of everything; false when there was nothing new anywhere.
    fn poll(&mut self, client: &Client) -> Outcome<bool> {
        let (mut rows, mut gone) = (Vec::new(), false);
        match &mut self.how {
            How::Whole(position) => match page(client, &[], position.as_deref())? {
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
                    let position = match page(client, &headers, piece.position.as_deref())? {
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
        rows.into_iter().try_for_each(|row| self.learn(row))?;
        Ok(more)
    }

    fn learn(&mut self, mut row: Value) -> Outcome<()> {
        let lsn = row.as_object_mut().and_then(|row| row.remove("_lsn"));
        let lsn = lsn.and_then(|lsn| lsn.as_u64()).ok_or("a row of the feed has no _lsn")?;
        let name = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let (key, id) = (name("pk"), name("id"));
        let last = self.order.entry(key.clone()).or_default();
        if lsn < *last {
            return Err(format!("{key}/{id} at {lsn} came after {last}").into());
        }
        *last = lsn;
        self.seen.insert((key, id), row);
        Ok(())
    }
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

fn page(client: &Client, scope: &[(&str, &str)], position: Option<&str>) -> Outcome<Page> {
    let mut headers = vec![("a-im", "Incremental Feed"), ("x-ms-max-item-count", PAGE_ITEMS)];
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
