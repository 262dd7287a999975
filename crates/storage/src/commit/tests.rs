//! The committer against the memory store and against stores that fail or wait on demand.

use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use super::*;
use crate::{Keyspace, MemoryStore, StoreStats};

/// Longer than anything here takes, so that a hang fails instead of lasting for ever.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Debug, PartialEq, Eq)]
enum Event {
    Apply(u32, u64),
    Publish(u64, Option<String>),
    Notify(u32),
    Dropped(u32),
}

struct Recorder {
    number: u32,
    events: Sender<Event>,
    notified: bool,
}

impl Completion for Recorder {
    fn apply(&mut self, group: u64) {
        self.events.send(Event::Apply(self.number, group)).unwrap();
    }

    fn notify(mut self: Box<Self>) {
        self.notified = true;
        self.events.send(Event::Notify(self.number)).unwrap();
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if !self.notified {
            let _ = self.events.send(Event::Dropped(self.number));
        }
    }
}

/// A memory store that counts its commits, waits at a gate before each and fails when told to.
struct GatedStore {
    inner: MemoryStore,
    gate: Mutex<Receiver<Result<(), StoreError>>>,
    commits: AtomicUsize,
}

impl Store for GatedStore {
    fn snapshot(&self) -> Arc<dyn Snapshot> {
        self.inner.snapshot()
    }

    fn commit(&self, batch: Batch, durability: Durability) -> Result<(), StoreError> {
        self.gate.lock().recv_timeout(PATIENCE).unwrap()?;
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.inner.commit(batch, durability)
    }

    fn close(&self) -> Result<(), StoreError> {
        self.inner.close()
    }

    fn stats(&self) -> StoreStats {
        self.inner.stats()
    }
}

struct Bench {
    store: Arc<GatedStore>,
    gate: Sender<Result<(), StoreError>>,
    events: Receiver<Event>,
    events_in: Sender<Event>,
    fatal: Receiver<Fatal>,
    committer: Committer,
}

impl Bench {
    fn new() -> Self {
        let (gate, gate_out) = mpsc::channel();
        let (events_in, events) = mpsc::channel();
        let (fatal_in, fatal) = mpsc::channel();
        let store = Arc::new(GatedStore {
            inner: MemoryStore::new(),
            gate: Mutex::new(gate_out),
            commits: AtomicUsize::new(0),
        });
        let published = events_in.clone();
        let publish: Publish = Box::new(move |group, snapshot| {
            let value = snapshot.get(Keyspace::Items, b"k").unwrap();
            let value = value.map(|value| String::from_utf8(value.to_vec()).unwrap());
            published.send(Event::Publish(group, value)).unwrap();
        });
        let fatal_handler: FatalHandler = Box::new(move |failure| fatal_in.send(failure).unwrap());
        let as_store = Arc::clone(&store) as Arc<dyn Store>;
        let committer = Committer::start_with(as_store, Durability::Synced, publish, fatal_handler);
        Self { store, gate, events, events_in, fatal, committer }
    }

    /// Submits number `number`, which sets `k` to its number, or nothing for an empty batch.
    fn submit(&self, number: u32, empty: bool) {
        let mut batch = Batch::new();
        if !empty {
            batch.put(Keyspace::Items, b"k".to_vec(), number.to_string());
        }
        let events = self.events_in.clone();
        let completion = Box::new(Recorder { number, events, notified: false });
        self.committer.submit(Submission { batch, completion });
    }

    fn expect(&self, expected: &[Event]) {
        for event in expected {
            assert_eq!(&self.events.recv_timeout(PATIENCE).unwrap(), event);
        }
    }
}

fn published(group: u64, value: &str) -> Event {
    Event::Publish(group, Some(value.into()))
}

#[test]
fn what_gathers_during_a_sync_becomes_one_group_in_order() {
    let bench = Bench::new();
    bench.submit(1, false);
    // The committer now waits at the gate with group 1, or will; wait until it took it.
    while bench.committer.shared.queue.lock().waiting.len() == 1 {
        thread::yield_now();
    }
    (2..=4).for_each(|number| bench.submit(number, number == 3));
    assert_eq!(bench.committer.queue_len(), 4);
    bench.gate.send(Ok(())).unwrap();
    bench.gate.send(Ok(())).unwrap();
    bench.expect(&[Event::Apply(1, 1), published(1, "1"), Event::Notify(1)]);
    bench.expect(&[Event::Apply(2, 2), Event::Apply(3, 2), Event::Apply(4, 2)]);
    bench.expect(&[published(2, "4"), Event::Notify(2), Event::Notify(3), Event::Notify(4)]);
    assert_eq!(bench.committer.queue_len(), 0);
    assert_eq!(bench.store.commits.load(Ordering::Relaxed), 2);
    assert_eq!(bench.committer.stats().submissions, 4);
}

#[test]
fn a_group_of_empty_batches_is_published_without_a_commit() {
    let bench = Bench::new();
    bench.submit(1, true);
    bench.expect(&[Event::Apply(1, 1), Event::Publish(1, None), Event::Notify(1)]);
    assert_eq!(bench.store.commits.load(Ordering::Relaxed), 0);
}

#[test]
fn stopping_completes_what_is_queued() {
    let bench = Bench::new();
    (1..=3).for_each(|number| bench.submit(number, false));
    (1..=3).for_each(|_| bench.gate.send(Ok(())).unwrap());
    let Bench { committer, events, events_in, .. } = bench;
    committer.stop();
    drop(events_in);
    let notified = events.iter().filter(|event| matches!(event, Event::Notify(_))).count();
    assert_eq!(notified, 3);
}

#[test]
fn a_failed_commit_is_fatal_and_acknowledges_nothing() {
    let bench = Bench::new();
    bench.submit(1, false);
    let failure = StoreError::io("sync", std::io::Error::other("the disk is gone"));
    bench.gate.send(Err(failure)).unwrap();
    let fatal = bench.fatal.recv_timeout(PATIENCE).unwrap();
    assert_eq!(fatal.to_string(), "a commit failed: sync: the disk is gone");
    bench.expect(&[Event::Dropped(1)]);
    // Wait until the thread has ended, then nothing is accepted any more.
    bench.committer.shutdown();
    bench.submit(2, false);
    bench.expect(&[Event::Dropped(2)]);
}

#[test]
fn nobody_hears_of_a_commit_whose_outcome_is_unknown_before_the_process_ends() {
    /// Tells when it is dropped, as a waiting request would answer that it failed.
    struct Waiting(Arc<AtomicUsize>);
    impl Completion for Waiting {
        fn apply(&mut self, _group: u64) {
            panic!("a bug behind the sync");
        }
        fn notify(self: Box<Self>) {}
    }
    impl Drop for Waiting {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    struct Broken;
    impl Store for Broken {
        fn snapshot(&self) -> Arc<dyn Snapshot> {
            MemoryStore::new().snapshot()
        }
        fn commit(&self, _batch: Batch, _durability: Durability) -> Result<(), StoreError> {
            Err(StoreError::io("sync", std::io::Error::other("the disk is gone")))
        }
        fn close(&self) -> Result<(), StoreError> {
            Ok(())
        }
        fn stats(&self) -> crate::StoreStats {
            crate::StoreStats::default()
        }
    }
    let stores: [Arc<dyn Store>; 2] = [Arc::new(Broken), Arc::new(MemoryStore::new())];
    for store in stores {
        let answered = Arc::new(AtomicUsize::new(0));
        let (seen_in, seen) = std::sync::mpsc::channel();
        let at_the_end = Arc::clone(&answered);
        let fatal = Box::new(move |_| seen_in.send(at_the_end.load(Ordering::Relaxed)).unwrap());
        let publish = Box::new(|_, _| ());
        let committer = Committer::start_with(store, Durability::Synced, publish, fatal);
        let mut batch = Batch::new();
        batch.put(Keyspace::Items, b"k".to_vec(), "v");
        let completion = Box::new(Waiting(Arc::clone(&answered)));
        committer.submit(Submission { batch, completion });
        assert_eq!(seen.recv_timeout(PATIENCE).unwrap(), 0);
    }
}

#[test]
fn a_panic_in_a_completion_is_fatal() {
    struct Broken;
    impl Completion for Broken {
        fn apply(&mut self, _group: u64) {
            panic!("a bug in the engine");
        }
        fn notify(self: Box<Self>) {}
    }
    let bench = Bench::new();
    bench.committer.submit(Submission { batch: Batch::new(), completion: Box::new(Broken) });
    let fatal = bench.fatal.recv_timeout(PATIENCE).unwrap();
    assert_eq!(fatal.to_string(), "a panic during commit: a bug in the engine");
}

#[test]
fn a_crowd_of_submitters_loses_nothing() {
    const WRITERS: u32 = 8;
    const EACH: u32 = 200;
    struct Count(Arc<AtomicUsize>);
    impl Completion for Count {
        fn apply(&mut self, _group: u64) {}
        fn notify(self: Box<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let store = Arc::new(MemoryStore::new());
    let as_store = Arc::clone(&store) as Arc<dyn Store>;
    let committer = Committer::start(as_store, Durability::Synced, Box::new(|_, _| ()));
    let count = Arc::new(AtomicUsize::new(0));
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (committer, count) = (&committer, &count);
            scope.spawn(move || {
                for number in 0..EACH {
                    let mut batch = Batch::new();
                    let key = [writer.to_be_bytes(), number.to_be_bytes()].concat();
                    batch.put(Keyspace::Items, key, "v");
                    let completion = Box::new(Count(Arc::clone(count)));
                    committer.submit(Submission { batch, completion });
                }
            });
        }
    });
    committer.stop();
    assert_eq!(count.load(Ordering::Relaxed), (WRITERS * EACH) as usize);
    let all = crate::KeyRange::all();
    let page = store.snapshot().page(Keyspace::Items, &all, crate::Direction::Forward, usize::MAX);
    assert_eq!(page.unwrap().len(), (WRITERS * EACH) as usize);
}

/// Tells on which thread it was applied.
struct AppliedOn(Sender<thread::ThreadId>);

impl Completion for AppliedOn {
    fn apply(&mut self, _group: u64) {
        self.0.send(thread::current().id()).unwrap();
    }
    fn notify(self: Box<Self>) {}
}

fn one_write(applied: &Sender<thread::ThreadId>) -> Submission {
    let mut batch = Batch::new();
    batch.put(Keyspace::Items, b"k".to_vec(), "v");
    Submission { batch, completion: Box::new(AppliedOn(applied.clone())) }
}

#[test]
fn a_writer_that_has_been_alone_commits_on_its_own_thread() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let committer = Committer::start(store, Durability::Synced, Box::new(|_, _| ()));
    let (applied_in, applied) = mpsc::channel();
    let here = thread::current().id();
    assert!(!committer.is_lone(), "nobody has written yet");
    let is_lone = (0..100_000).any(|_| {
        committer.submit(one_write(&applied_in));
        assert_ne!(applied.recv_timeout(PATIENCE).unwrap(), here);
        while committer.queue_len() > 0 {
            thread::yield_now();
        }
        committer.is_lone()
    });
    assert!(is_lone, "quick commits one after the other make a writer lone");
    committer.submit_here(one_write(&applied_in)).commit();
    assert_eq!(applied.try_recv().unwrap(), here, "it was applied before `commit` returned");
    // Two at once are a crowd.
    let first = committer.submit_here(one_write(&applied_in));
    let second = committer.submit_here(one_write(&applied_in));
    first.commit();
    second.commit();
    assert_eq!([applied.try_recv().unwrap(), applied.try_recv().unwrap()], [here, here]);
    assert!(!committer.is_lone());
}

/// A store whose commits ask another machine.
struct Remote(MemoryStore);

impl Store for Remote {
    fn snapshot(&self) -> Arc<dyn Snapshot> {
        self.0.snapshot()
    }

    fn commit(&self, batch: Batch, durability: Durability) -> Result<(), StoreError> {
        self.0.commit(batch, durability)
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn close(&self) -> Result<(), StoreError> {
        self.0.close()
    }

    fn stats(&self) -> crate::StoreStats {
        self.0.stats()
    }
}

#[test]
fn a_network_thread_is_never_lone_where_commits_ask_another_machine() {
    for (store, waits_here) in [
        (Arc::new(MemoryStore::new()) as Arc<dyn Store>, true),
        (Arc::new(Remote(MemoryStore::new())), false),
    ] {
        let committer = Committer::start(store, Durability::Synced, Box::new(|_, _| ()));
        let (applied_in, applied) = mpsc::channel();
        while !committer.is_lone() {
            committer.submit(one_write(&applied_in));
            applied.recv_timeout(PATIENCE).unwrap();
            while committer.queue_len() > 0 {
                thread::yield_now();
            }
        }
        assert_eq!(committer.is_lone_at_disk(), waits_here);
    }
}

#[test]
fn what_comes_while_a_writer_commits_is_left_to_the_thread() {
    let bench = Bench::new();
    let (applied_in, applied) = mpsc::channel();
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            bench.committer.submit_here(one_write(&applied_in)).commit();
            thread::current().id()
        });
        // The writer has its own submission when the queue is empty and one is unfinished.
        while bench.committer.queue_len() != 1
            || !bench.committer.shared.queue.lock().waiting.is_empty()
        {
            thread::yield_now();
        }
        drop(bench.committer.submit_here(one_write(&applied_in)));
        bench.gate.send(Ok(())).unwrap();
        bench.gate.send(Ok(())).unwrap();
        let writer = writer.join().unwrap();
        assert_eq!(applied.recv_timeout(PATIENCE).unwrap(), writer);
        let other = applied.recv_timeout(PATIENCE).unwrap();
        assert!(other != writer && other != thread::current().id());
    });
}
