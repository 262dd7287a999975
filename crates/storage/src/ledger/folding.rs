//! Folding: the last state of every key goes from the journal into the base, behind the writers' backs.
//!
//! The owner keeps the rows above `folded`. A thread of its own sorts them by key, brings the last state of each into the base every second, and
//! removes rows of the journal that are folded and that no follower is expected to miss ([`super::kept_rows`]). What is folded in several
//! statements moves `folded` with the last: a base that is ahead of it is what copies expect anyway.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use armilla_model::clock::monotonic;
use bytes::Bytes;
use parking_lot::{Condvar, Mutex};

use super::kept_rows::KeptRows;
use super::{Epoch, KeyStates, Ledger, LedgerError, Place, ShardAt};
use crate::{Batch, Keyspace, Operation};

/// States are folded so often, if not sooner.
const FOLD_EVERY: Duration = Duration::from_secs(1);
/// So many bytes are folded at once, and not later than when there are as many.
const FOLD_BYTES: usize = 8 << 20;
/// Beyond so many bytes, writers wait.
const UNFOLDED_BYTES_MAX: usize = 64 << 20;
/// What is counted for a key beside its bytes.
const KEY_OVERHEAD: usize = 64;

type StatesByKey = BTreeMap<(Keyspace, Vec<u8>), Option<Bytes>>;

/// The states that are not in the base yet, and the thread that brings them there.
pub(super) struct Folding {
    shared: Arc<FoldShared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

pub(super) struct FoldShared {
    at: ShardAt,
    ledger: Arc<dyn Ledger>,
    retention: Duration,
    epoch: AtomicU64,
    unfolded: Mutex<Unfolded>,
    changed: Condvar,
}

#[derive(Default)]
struct Unfolded {
    /// States of a fold that did not reach the base; the rows are newer.
    keys: StatesByKey,
    /// What rows wrote, in their order. Nobody who commits waits until they are sorted.
    rows: Vec<Operation>,
    bytes: usize,
    /// The newest row whose states are here.
    upto: Place,
    folded: Place,
    closing: bool,
    /// Nothing more is folded: the journal has it.
    abandoned: bool,
}

/// What a key and its state count.
fn size(key: usize, value: Option<&Bytes>) -> usize {
    key + value.map_or(0, Bytes::len) + KEY_OVERHEAD
}

impl Folding {
    /// Starts for a journal and an ownership of it, with everything folded up to a place.
    pub(super) fn start(
        ledger: Arc<dyn Ledger>,
        (at, epoch): (ShardAt, Epoch),
        folded: Place,
        retention: Duration,
    ) -> Self {
        let unfolded = Unfolded { upto: folded, folded, ..Unfolded::default() };
        let shared = Arc::new(FoldShared {
            at,
            ledger,
            retention,
            epoch: AtomicU64::new(epoch.0),
            unfolded: Mutex::new(unfolded),
            changed: Condvar::new(),
        });
        let ours = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("folding".into())
            .spawn(move || ours.run())
            .expect("a thread can be started while a node takes over");
        Self { shared, thread: Mutex::new(Some(thread)) }
    }

    /// Adds a row that is in the journal.
    pub(super) fn add(&self, place: Place, batch: &Batch) {
        let mut unfolded = self.shared.unfolded.lock();
        assert!(place == unfolded.upto.next(), "rows are folded in their order");
        for operation in batch.iter() {
            unfolded.bytes += size(operation.key.len(), operation.value.as_ref());
        }
        unfolded.rows.extend(batch.iter().cloned());
        unfolded.upto = place;
        if unfolded.bytes >= FOLD_BYTES {
            self.shared.changed.notify_all();
        }
    }

    /// Says under which ownership folds are made from now on.
    pub(super) fn set_epoch(&self, epoch: Epoch) {
        self.shared.epoch.store(epoch.0, Ordering::Release);
    }

    /// Whether writers should slow down.
    pub(super) fn is_behind(&self) -> bool {
        self.shared.unfolded.lock().bytes > UNFOLDED_BYTES_MAX / 2
    }

    /// Waits until there is room for more, or the end.
    pub(super) fn wait_for_room(&self) {
        let mut unfolded = self.shared.unfolded.lock();
        while unfolded.bytes > UNFOLDED_BYTES_MAX && !unfolded.closing {
            self.shared.changed.wait(&mut unfolded);
        }
    }

    /// Nobody waits for room any more. What is there is folded once more; what comes later stays in the journal.
    pub(super) fn end_waits(&self) {
        self.shared.unfolded.lock().closing = true;
        self.shared.changed.notify_all();
    }

    /// Folds nothing more; whoever owns the account next does. Waits for nobody.
    pub(super) fn abandon(&self) {
        self.shared.unfolded.lock().abandoned = true;
        self.end_waits();
    }

    /// Folds what is left, once, and ends the thread.
    pub(super) fn end(&self) {
        self.end_waits();
        if let Some(thread) = self.thread.lock().take() {
            // What it did not fold is still in the journal.
            let _ended = thread.join();
        }
    }
}

impl Drop for Folding {
    fn drop(&mut self) {
        self.end();
    }
}

impl FoldShared {
    fn run(&self) {
        let mut rows = KeptRows::new(self.retention, monotonic());
        loop {
            let (keys, bytes, upto, closing) = self.wait();
            if self.unfolded.lock().abandoned {
                return;
            }
            let failed = !keys.is_empty() && !self.fold(&keys, upto);
            let mut unfolded = self.unfolded.lock();
            if failed {
                // What came meanwhile is newer, and lies in the rows.
                let of_states = |((_, key), value): (&(_, Vec<u8>), &Option<Bytes>)| {
                    size(key.len(), value.as_ref())
                };
                unfolded.bytes += keys.iter().map(of_states).sum::<usize>();
                unfolded.keys = keys;
            } else {
                unfolded.folded = upto;
            }
            drop(unfolded);
            self.changed.notify_all();
            if closing {
                return;
            }
            if failed && bytes >= FOLD_BYTES {
                // There is no use in asking again at once.
                thread::sleep(FOLD_EVERY);
            }
            rows.note(upto, monotonic());
            // Rows that stay cost room, and go next time.
            let _cut = self.cut(&mut rows);
        }
    }

    /// Removes rows that nobody is expected to miss, until it is time to fold again.
    fn cut(&self, rows: &mut KeptRows) -> Result<(), LedgerError> {
        let begun = monotonic();
        let Some(upto) = rows.due(begun) else { return Ok(()) };
        let oldest = || {
            let oldest = self.ledger.journal(&[(self.at, Place(0))], 1)?;
            Ok(oldest.first().map_or(upto, |row| row.place))
        };
        let is_time = || {
            let unfolded = self.unfolded.lock();
            unfolded.bytes >= FOLD_BYTES || unfolded.closing || begun.elapsed() >= FOLD_EVERY
        };
        let cut = |upto| {
            let epoch = Epoch(self.epoch.load(Ordering::Acquire));
            self.ledger.cut(self.at, epoch, upto)
        };
        rows.cut(upto, oldest, cut, is_time)
    }

    /// Waits for the next time to fold, and takes what there is.
    fn wait(&self) -> (StatesByKey, usize, Place, bool) {
        let mut unfolded = self.unfolded.lock();
        let until = monotonic() + FOLD_EVERY;
        while unfolded.bytes < FOLD_BYTES && !unfolded.closing {
            if self.changed.wait_until(&mut unfolded, until).timed_out() {
                break;
            }
        }
        let bytes = std::mem::take(&mut unfolded.bytes);
        let mut keys = std::mem::take(&mut unfolded.keys);
        let rows = std::mem::take(&mut unfolded.rows);
        let (upto, closing) = (unfolded.upto, unfolded.closing);
        drop(unfolded);
        for Operation { keyspace, key, value, .. } in rows {
            keys.insert((keyspace, key.to_vec()), value);
        }
        (keys, bytes, upto, closing)
    }

    /// Brings states into the base, a few megabytes at a time; false when not all of them are there.
    fn fold(&self, keys: &StatesByKey, upto: Place) -> bool {
        let folded = self.unfolded.lock().folded;
        let mut part = Vec::new();
        let mut bytes = 0;
        for ((keyspace, key), value) in keys {
            bytes += size(key.len(), value.as_ref());
            part.push((*keyspace, key.clone(), value.clone()));
            if bytes >= FOLD_BYTES {
                bytes = 0;
                if !self.fold_part(std::mem::take(&mut part), folded) {
                    return false;
                }
            }
        }
        self.fold_part(part, upto)
    }

    fn fold_part(&self, keys: Vec<(Keyspace, Vec<u8>, Option<Bytes>)>, upto: Place) -> bool {
        let epoch = Epoch(self.epoch.load(Ordering::Acquire));
        let states = KeyStates { upto, lsn: upto.0, keys };
        matches!(self.ledger.fold(self.at, epoch, states), Ok(true))
    }
}
