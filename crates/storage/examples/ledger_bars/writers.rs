//! Writers over the committer, as a server has them: each hands in its next write when the last one was notified, on no thread of its own.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use armilla_storage::ledger::LedgerStore;
use armilla_storage::{Batch, Committer, Completion, Durability, Keyspace, Store, Submission};

use super::ROW_BYTES;
use super::bare::row;

/// Bytes of the key of an item, and of an entry of the feed with its value.
const KEY_BYTES: usize = 40;
const FEED_BYTES: usize = 60;

pub(super) struct Writers {
    committer: Arc<Committer>,
    store: Arc<LedgerStore>,
    written: AtomicU64,
    over: AtomicBool,
}

impl Writers {
    fn start(store: LedgerStore) -> Arc<Self> {
        let store = Arc::new(store);
        let committer = Committer::start(
            store.clone() as Arc<dyn Store>,
            Durability::Synced,
            Box::new(|_, _| {}),
        );
        let (written, over) = (AtomicU64::new(0), AtomicBool::new(false));
        Arc::new(Self { committer: Arc::new(committer), store, written, over })
    }

    /// So many writers for a time; how many writes.
    pub(super) fn crowd(store: LedgerStore, writers: usize, time: Duration) -> u64 {
        let all = Self::start(store);
        let (tell, ended) = mpsc::channel();
        for number in 0..writers {
            let writer = Writer {
                all: Arc::clone(&all),
                number: number as u64,
                item: item(number as u64),
                tell: tell.clone(),
            };
            Box::new(writer).write_next();
        }
        drop(tell);
        thread::sleep(time);
        let written = all.written.load(Ordering::Relaxed);
        all.over.store(true, Ordering::Relaxed);
        // Ends when the last writer is dropped.
        while ended.recv().is_ok() {}
        all.end();
        written
    }

    /// One writer, which commits on its own thread once it has been alone; the median of its waits.
    pub(super) fn lone(store: LedgerStore, time: Duration) -> Duration {
        let all = Self::start(store);
        let (tell, ended) = mpsc::channel();
        let mut waits = Vec::new();
        let item = item(1);
        let begun = Instant::now();
        for number in 0.. {
            if begun.elapsed() >= time {
                break;
            }
            let batch = write(number, &item);
            let sent = Instant::now();
            let is_lone = all.committer.is_lone();
            let completion = Box::new(Told(tell.clone()));
            let queued = all.committer.submit_here(Submission { batch, completion });
            if is_lone {
                queued.commit();
            } else {
                drop(queued);
            }
            ended.recv().unwrap();
            waits.push(sent.elapsed());
        }
        all.end();
        median(&mut waits)
    }

    fn end(&self) {
        self.committer.shutdown();
        self.store.close().unwrap();
    }
}

struct Writer {
    all: Arc<Writers>,
    number: u64,
    /// Made once, as the row of a bare connection is.
    item: Vec<u8>,
    tell: mpsc::Sender<()>,
}

impl Writer {
    fn write_next(self: Box<Self>) {
        let all = Arc::clone(&self.all);
        let batch = write(self.number, &self.item);
        all.committer.submit(Submission { batch, completion: self });
    }
}

impl Completion for Writer {
    fn apply(&mut self, _group: u64) {}

    fn notify(mut self: Box<Self>) {
        self.all.written.fetch_add(1, Ordering::Relaxed);
        self.number += 1_000;
        match self.all.over.load(Ordering::Relaxed) {
            true => drop(self.tell),
            false => self.write_next(),
        }
    }
}

struct Told(mpsc::Sender<()>);

impl Completion for Told {
    fn apply(&mut self, _group: u64) {}

    fn notify(self: Box<Self>) {
        // Nobody listens only when the run is over.
        let _ = self.0.send(());
    }
}

/// The value of a writer's items.
fn item(number: u64) -> Vec<u8> {
    row(number)[..ROW_BYTES - KEY_BYTES - FEED_BYTES].to_vec()
}

/// An item with its entry in the feed; every other one has a third key.
fn write(number: u64, value: &[u8]) -> Batch {
    let mut random = fastrand::Rng::with_seed(number);
    let mut key = |length: usize| (0..length).map(|_| random.u8(..)).collect::<Vec<u8>>();
    let mut batch = Batch::new();
    let (item, feed) = (key(KEY_BYTES), key(FEED_BYTES / 2));
    batch.put(Keyspace::Items, item, value.to_vec());
    batch.put(Keyspace::Feed, feed, key(FEED_BYTES / 2));
    if number.is_multiple_of(2) {
        batch.delete(Keyspace::Feed, key(FEED_BYTES / 2));
    }
    batch
}

pub(super) fn median(waits: &mut [Duration]) -> Duration {
    waits.sort();
    waits[waits.len() / 2]
}
