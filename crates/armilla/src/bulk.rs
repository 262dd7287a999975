//! Many items into a container, fast: bulk requests grouped by physical range, several in flight.
//!
//! Items wait in one pile per range. A full pile becomes a bulk request; a bounded number of them is
//! under way at once, so memory stays bounded and the caller is slowed to the server's pace. What
//! the server puts off is sent again; what it refuses is kept as a [`Rejection`] with the line it came from.
//! After a split the ranges are asked for again and the piles are sorted anew.

use crate::client::items::{ContainerName, Key, OnConflict, SYSTEM_PROPERTIES, bulk_operation};
use crate::client::query::Range;
use crate::client::{Client, ClientError, Outcome};
use armilla_model::partition_key::{Definition, Epk, PartitionKey};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Operations in one request; the service takes no more.
const OPERATIONS_MAX: usize = 100;
/// Bytes of one request's body, below the service's limit; a larger item travels alone.
const BODY_SIZE_MAX: usize = 1024 * 1024;
/// Requests under way at once.
const IN_FLIGHT_MAX: usize = 8;
/// Items that may wait in all piles together before the fullest is sent as it is.
const WAITING_MAX: usize = 20_000;
/// Bytes that may wait likewise.
const WAITING_SIZE_MAX: usize = 64 * 1024 * 1024;
/// Refusals that are kept word for word until they are taken: more than can wait and be under way. The rest is counted.
const REJECTIONS_MAX: usize = 2 * WAITING_MAX;
/// How often one item is put off before it counts as refused.
const ATTEMPTS_MAX: u32 = 100;
/// Pause before items that were put off are sent again.
const PUT_OFF_PAUSE: Duration = Duration::from_millis(20);

/// One item on its way.
pub(crate) struct Item {
    /// Where it came from: a line of a file, or a running number.
    pub(crate) line: u64,
    /// Its partition key.
    pub(crate) key: PartitionKey,
    /// Its JSON text.
    pub(crate) body: Vec<u8>,
}

/// An item that the server refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rejection {
    pub(crate) line: u64,
    pub(crate) status: u16,
    pub(crate) message: String,
}

/// What came of a load so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    /// Items that are stored.
    pub(crate) stored: u64,
    /// Bytes of their texts.
    pub(crate) bytes: u64,
    /// Items that were refused.
    pub(crate) refused: u64,
    /// The first of them in the server's words.
    pub(crate) rejections: Vec<Rejection>,
    /// Request units.
    pub(crate) charge: f64,
}

/// Loads items into one container.
pub(crate) struct Loader {
    client: Client,
    database: Arc<str>,
    container: Arc<str>,
    definition: Definition,
    on_conflict: OnConflict,
    ranges: Vec<(Epk, Range)>,
    piles: BTreeMap<usize, Pile>,
    waiting: usize,
    waiting_size: usize,
    in_flight: JoinSet<Outcome<Finished>>,
    progress: Progress,
}

#[derive(Default)]
struct Pile {
    items: Vec<Waiting>,
    size: usize,
}

struct Waiting {
    line: u64,
    epk: Epk,
    key: Key,
    body: Vec<u8>,
    attempts: u32,
}

struct Finished {
    stored: u64,
    bytes: u64,
    charge: f64,
    rejections: Vec<Rejection>,
    put_off: Vec<Waiting>,
    moved: bool,
}

impl Loader {
    /// A loader for a container that exists.
    pub(crate) async fn new(
        client: &Client,
        container: ContainerName<'_>,
        definition: Definition,
        on_conflict: OnConflict,
    ) -> Outcome<Self> {
        let mut loader = Self {
            client: client.clone(),
            database: container.database.into(),
            container: container.container.into(),
            definition,
            on_conflict,
            ranges: Vec::new(),
            piles: BTreeMap::new(),
            waiting: 0,
            waiting_size: 0,
            in_flight: JoinSet::new(),
            progress: Progress::default(),
        };
        loader.ask_for_ranges().await?;
        Ok(loader)
    }

    /// Takes an item; waits while enough is under way.
    pub(crate) async fn add(&mut self, item: Item) -> Outcome<()> {
        let waiting = Waiting {
            line: item.line,
            epk: self.definition.epk(&item.key),
            key: Key::from_header(&item.key.to_header()),
            body: item.body,
            attempts: 0,
        };
        let pile = self.put(waiting);
        if self.is_full(pile) {
            self.dispatch(pile).await?;
        } else if self.waiting >= WAITING_MAX || self.waiting_size >= WAITING_SIZE_MAX {
            let fullest = self.piles.iter().max_by_key(|(_, pile)| pile.size);
            if let Some(pile) = fullest.map(|(position, _)| *position) {
                self.dispatch(pile).await?;
            }
        }
        Ok(())
    }

    /// Sends what waits and waits for every answer.
    pub(crate) async fn finish(&mut self) -> Outcome<()> {
        loop {
            while let Some((&pile, _)) = self.piles.first_key_value() {
                self.dispatch(pile).await?;
            }
            if self.in_flight.is_empty() {
                return Ok(());
            }
            self.take_one().await?;
        }
    }

    /// What came of it so far.
    pub(crate) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The refusals since this was asked last.
    pub(crate) fn take_rejections(&mut self) -> Vec<Rejection> {
        std::mem::take(&mut self.progress.rejections)
    }

    fn put(&mut self, item: Waiting) -> usize {
        let after = self.ranges.partition_point(|(min, _)| *min <= item.epk);
        let position = after.saturating_sub(1);
        self.waiting += 1;
        self.waiting_size += item.body.len();
        let pile = self.piles.entry(position).or_default();
        pile.size += item.body.len();
        pile.items.push(item);
        position
    }

    fn is_full(&self, pile: usize) -> bool {
        self.piles.get(&pile).is_some_and(|pile| {
            pile.items.len() >= OPERATIONS_MAX || pile.size >= BODY_SIZE_MAX / 2
        })
    }

    /// Sends up to one request's worth of a pile.
    async fn dispatch(&mut self, position: usize) -> Outcome<()> {
        while self.in_flight.len() >= IN_FLIGHT_MAX {
            self.take_one().await?;
        }
        // Answers may have sorted the piles anew.
        let Some(mut pile) = self.piles.remove(&position) else { return Ok(()) };
        let mut count = 0;
        let mut size = 0;
        while count < pile.items.len().min(OPERATIONS_MAX) {
            size += pile.items[count].body.len();
            if count > 0 && size > BODY_SIZE_MAX {
                break;
            }
            count += 1;
        }
        let rest = pile.items.split_off(count);
        let sent = pile.items;
        let sent_size: usize = sent.iter().map(|item| item.body.len()).sum();
        self.waiting -= sent.len();
        self.waiting_size -= sent_size;
        if !rest.is_empty() {
            self.piles.insert(position, Pile { items: rest, size: pile.size - sent_size });
        }
        let Some((_, range)) = self.ranges.get(position) else {
            return Err(ClientError::Unreadable("the container has no ranges".to_owned()));
        };
        let (client, range) = (self.client.clone(), range.id.clone());
        let (database, container) = (self.database.clone(), self.container.clone());
        let on_conflict = self.on_conflict;
        self.in_flight.spawn(async move {
            let name = ContainerName::new(&database, &container);
            send(&client, name, &range, on_conflict, sent).await
        });
        Ok(())
    }

    async fn take_one(&mut self) -> Outcome<()> {
        let Some(finished) = self.in_flight.join_next().await else { return Ok(()) };
        let finished = finished
            .map_err(|error| ClientError::Unusable(format!("a request was lost: {error}")))??;
        self.progress.stored += finished.stored;
        self.progress.bytes += finished.bytes;
        self.progress.charge += finished.charge;
        self.progress.refused += finished.rejections.len() as u64;
        let room = REJECTIONS_MAX.saturating_sub(self.progress.rejections.len());
        self.progress.rejections.extend(finished.rejections.into_iter().take(room));
        if finished.moved {
            self.sort_anew().await?;
        }
        for item in finished.put_off {
            self.put(item);
        }
        Ok(())
    }

    async fn sort_anew(&mut self) -> Outcome<()> {
        self.ask_for_ranges().await?;
        let piles = std::mem::take(&mut self.piles);
        (self.waiting, self.waiting_size) = (0, 0);
        for item in piles.into_values().flat_map(|pile| pile.items) {
            self.put(item);
        }
        Ok(())
    }

    async fn ask_for_ranges(&mut self) -> Outcome<()> {
        let name = ContainerName::new(&self.database, &self.container);
        let mut ranges = Vec::new();
        for range in self.client.ranges(name).await? {
            let min = Epk::parse_hex(&range.min_inclusive)
                .map_err(|error| ClientError::Unreadable(error.message().to_owned()))?;
            ranges.push((min, range));
        }
        ranges.sort_by(|left, right| left.0.cmp(&right.0));
        self.ranges = ranges;
        Ok(())
    }
}

async fn send(
    client: &Client,
    container: ContainerName<'_>,
    range: &str,
    on_conflict: OnConflict,
    items: Vec<Waiting>,
) -> Outcome<Finished> {
    let size: usize = items.iter().map(|item| item.body.len() + 160).sum();
    let mut body = Vec::with_capacity(size);
    for item in &items {
        bulk_operation(&mut body, &item.key, on_conflict, &item.body);
    }
    body.push(b']');
    let mut finished = Finished {
        stored: 0,
        bytes: 0,
        charge: 0.0,
        rejections: Vec::new(),
        put_off: Vec::new(),
        moved: false,
    };
    let results = match client.bulk(container, range, body).await {
        Ok((answer, results)) => {
            finished.charge = answer.charge();
            results
        }
        Err(error) if error.status() == Some(410) => {
            finished.moved = true;
            finished.put_off = items;
            return Ok(finished);
        }
        Err(error) => return Err(error),
    };
    if results.len() != items.len() {
        return Err(ClientError::Unreadable(format!(
            "{} operations were answered with {} results",
            items.len(),
            results.len()
        )));
    }
    for (mut item, result) in items.into_iter().zip(results) {
        item.attempts += 1;
        match result.status_code {
            200..=299 => {
                finished.stored += 1;
                finished.bytes += item.body.len() as u64;
            }
            409 if on_conflict == OnConflict::RefuseOther
                && is_there(client, container, &item).await? =>
            {
                finished.stored += 1;
                finished.bytes += item.body.len() as u64;
            }
            status @ (410 | 424 | 429 | 449) if item.attempts < ATTEMPTS_MAX => {
                finished.moved |= status == 410;
                finished.put_off.push(item);
            }
            status => finished.rejections.push(Rejection {
                line: item.line,
                status,
                message: result.message.unwrap_or_default(),
            }),
        }
    }
    if !finished.put_off.is_empty() {
        tokio::time::sleep(PUT_OFF_PAUSE).await;
    }
    Ok(finished)
}

/// Whether the very same item is stored already, apart from what the server adds.
async fn is_there(client: &Client, container: ContainerName<'_>, item: &Waiting) -> Outcome<bool> {
    let ours: Value = serde_json::from_slice(&item.body).map_err(ClientError::unreadable)?;
    let id = ours["id"].as_str().unwrap_or_default();
    let answer = client.read_item(container, id, &item.key).await?;
    if !answer.is_success() {
        return Ok(false);
    }
    let mut theirs = answer.json()?;
    if let Some(members) = theirs.as_object_mut() {
        members.retain(|name, _| {
            ours.get(name).is_some() || !SYSTEM_PROPERTIES.contains(&name.as_str())
        });
    }
    Ok(ours == theirs)
}
