//! Bounds under load: what waits for a slow disk, what many queries hold together, and large reads beside
//! point reads.
//!
//! Nothing here depends on how fast the machine is. Commits and reads wait at gates that a test opens
//! once it has seen what it wants to see.

use crate::support::{Answer, Armilla, QUERY};
use armilla_engine::items::WriteOptions;
use armilla_engine::limits::{COMMIT_QUEUE_STALLED_MAX, WRITE_BYTES_MIN};
use armilla_engine::{Options, Txn};
use armilla_model::partition_key::PartitionKey;
use armilla_storage::{
    Batch, Direction, Durability, KeyRange, Keyspace, MemoryStore, Pressure, Snapshot, Store,
    StoreError, StoreStats,
};
use bytes::Bytes;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const ITEMS: &str = "/dbs/blog/colls/posts/docs";
const SOON: Duration = Duration::from_secs(60);

/// A place where threads wait until they are let through.
#[derive(Default)]
struct Gate {
    state: Mutex<Passage>,
    moved: Condvar,
}

#[derive(Default)]
struct Passage {
    is_closed: bool,
    /// How often a thread goes through before it has to wait, and how often each has.
    free: usize,
    passed: HashMap<ThreadId, usize>,
    /// How many more go through although it is closed.
    let_through: usize,
    waiting: usize,
}

impl Gate {
    fn close(&self, free: usize) {
        *self.state.lock().unwrap() = Passage { is_closed: true, free, ..Passage::default() };
    }

    fn open(&self) {
        self.state.lock().unwrap().is_closed = false;
        self.moved.notify_all();
    }

    fn let_one_through(&self) {
        self.state.lock().unwrap().let_through += 1;
        self.moved.notify_all();
    }

    fn waiting(&self) -> usize {
        self.state.lock().unwrap().waiting
    }

    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        let passed = state.passed.entry(thread::current().id()).or_default();
        *passed += 1;
        if *passed <= state.free {
            return;
        }
        state.waiting += 1;
        let stays = |state: &mut Passage| state.is_closed && state.let_through == 0;
        let mut state = self.moved.wait_while(state, stays).unwrap();
        state.waiting -= 1;
        state.let_through = state.let_through.saturating_sub(1);
    }
}

/// A store in memory, with a gate before its disk and one before reads that are not the network's.
struct GatedStore {
    inner: MemoryStore,
    disk: Gate,
    reads: Arc<Gate>,
    /// The thread of the test, which is the only one of the network.
    network: ThreadId,
}

impl GatedStore {
    fn new() -> Arc<Self> {
        let (disk, reads) = (Gate::default(), Arc::default());
        let network = thread::current().id();
        Arc::new(Self { inner: MemoryStore::new(), disk, reads, network })
    }
}

impl Store for GatedStore {
    fn snapshot(&self) -> Arc<dyn Snapshot> {
        let (inner, gate) = (self.inner.snapshot(), self.reads.clone());
        Arc::new(GatedSnapshot { inner, gate, network: self.network })
    }

    fn commit(&self, batch: Batch, durability: Durability) -> Result<(), StoreError> {
        self.disk.pass();
        self.inner.commit(batch, durability)
    }

    fn close(&self) -> Result<(), StoreError> {
        self.inner.close()
    }

    fn stats(&self) -> StoreStats {
        self.inner.stats()
    }

    fn pressure(&self) -> Pressure {
        let is_closed = self.disk.state.lock().unwrap().is_closed;
        if is_closed { Pressure::Stalled } else { Pressure::Calm }
    }
}

struct GatedSnapshot {
    inner: Arc<dyn Snapshot>,
    gate: Arc<Gate>,
    network: ThreadId,
}

impl GatedSnapshot {
    fn pass(&self) {
        if thread::current().id() != self.network {
            self.gate.pass();
        }
    }
}

impl Snapshot for GatedSnapshot {
    fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        self.pass();
        self.inner.get(keyspace, key)
    }

    fn scan(
        &self,
        keyspace: Keyspace,
        range: &KeyRange,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], Bytes) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.inner.scan(keyspace, range, direction, &mut |key, value| {
            self.pass();
            visit(key, value)
        })
    }
}

/// Waits until something is so.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + SOON;
    while !is_so() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        // Pause: between two looks at the condition that is awaited.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, future).await.expect("an answer comes soon")
}

/// Items of one logical partition, written in a few transactions without the network.
fn fill(armilla: &Armilla, count: usize, members: impl Fn(usize) -> String) {
    const TOGETHER: usize = 100;
    let container = armilla.account.container("blog", "posts").unwrap();
    let definition = container.settings().policy.partition_key.clone();
    let key = PartitionKey::parse(r#"["p"]"#).unwrap();
    for start in (0..count).step_by(TOGETHER) {
        let lock = container.lock_and_wait(&definition.epk(&key));
        let mut txn = Txn::begin(container.clone(), key.clone(), lock).unwrap();
        for number in start..count.min(start + TOGETHER) {
            let text = format!(r#"{{"id":"{number}","postId":"p"{}}}"#, members(number));
            txn.create_item(text.as_bytes(), &WriteOptions::default()).unwrap();
        }
        let (sender, receiver) = mpsc::sync_channel(1);
        txn.commit(move |outcome| sender.send(outcome).unwrap());
        receiver.recv().unwrap().unwrap();
    }
}

/// When a refused client may come back.
fn retry_after(answer: &Answer) -> Duration {
    let wait = answer.header("x-ms-retry-after-ms").unwrap().parse().unwrap();
    assert!((1..10_000).contains(&wait), "{wait}");
    Duration::from_millis(wait)
}

/// Writes an item, again and again while it is refused.
async fn write(armilla: Arc<Armilla>, number: usize, refusals: Arc<AtomicUsize>) {
    let body = format!(r#"{{"id":"{number}","postId":"{number}","text":"{}"}}"#, "x".repeat(2_000));
    let key = format!("[\"{number}\"]");
    loop {
        let headers = [("x-ms-documentdb-partitionkey", key.as_str())];
        let answer = armilla.send("POST", ITEMS, &headers, &body).await;
        if answer.status == 201 {
            return;
        }
        let answer = answer.refused(429, 3200);
        refusals.fetch_add(1, Ordering::Relaxed);
        // Pause: as long as the server asks for.
        tokio::time::sleep(retry_after(&answer)).await;
    }
}

#[tokio::test]
async fn writers_over_a_slow_disk_keep_queue_and_memory_bounded() {
    const WRITERS: usize = 64;
    const IN_FLIGHT_EACH: usize = 4;
    const WRITES_EACH: usize = 12;
    /// How often the queue fills up before the disk is quick again.
    const ROUNDS: usize = 3;
    /// More than a body and what it is written with.
    const WRITE_BYTES: usize = 4 * 1024;
    let store = GatedStore::new();
    let armilla = Armilla::over(store.clone(), Options::default(), |service| service);
    let armilla = Arc::new(armilla.and_posts().await);
    store.disk.close(0);
    let refusals = Arc::new(AtomicUsize::new(0));
    let mut writers = JoinSet::new();
    for lane in 0..WRITERS * IN_FLIGHT_EACH {
        let (armilla, refusals) = (armilla.clone(), refusals.clone());
        writers.spawn(async move {
            for number in 0..WRITES_EACH / IN_FLIGHT_EACH {
                write(armilla.clone(), lane * WRITES_EACH + number, refusals.clone()).await;
            }
        });
    }
    for round in 1..=ROUNDS {
        let before = refusals.load(Ordering::Relaxed);
        until("the queue is full and somebody is refused", || {
            armilla.account.load().commits_queued >= COMMIT_QUEUE_STALLED_MAX
                && refusals.load(Ordering::Relaxed) > before
        })
        .await;
        let load = armilla.account.load();
        assert!(load.commits_queued <= COMMIT_QUEUE_STALLED_MAX, "round {round}: {load:?}");
        let bytes_max = COMMIT_QUEUE_STALLED_MAX * WRITE_BYTES;
        assert!(load.commit_bytes_queued <= bytes_max, "round {round}: {load:?}");
        // Writes of the last group hold theirs until their answers are on the way.
        until("only what is queued holds bytes", || {
            armilla.account.load().write_bytes <= bytes_max
        })
        .await;
        assert!(load.write_bytes >= load.commits_queued * WRITE_BYTES_MIN, "{load:?}");
        store.disk.let_one_through();
    }
    store.disk.open();
    while let Some(written) = soon(writers.join_next()).await {
        written.unwrap();
    }
    let container = armilla.account.container("blog", "posts").unwrap();
    let count: u64 = container.partitions().iter().map(|range| range.document_count()).sum();
    assert_eq!(count, (WRITERS * WRITES_EACH) as u64, "nothing is lost");
    until("everything is given back", || armilla.account.load() == Default::default()).await;
}

#[tokio::test]
async fn many_large_queries_hold_no_more_memory_than_they_may() {
    const QUERIES: usize = 8;
    const QUERY_MEMORY: usize = 8 << 20;
    const ROWS: usize = 400;
    const ROW_BYTES: usize = 10_000;
    let store = GatedStore::new();
    let options = Options { query_memory: QUERY_MEMORY, ..Options::default() };
    let armilla = Armilla::over(store.clone(), options, |service| service);
    let armilla = Arc::new(armilla.and_posts().await);
    fill(&armilla, ROWS, |number| format!(r#","text":"{number}{}""#, "x".repeat(ROW_BYTES)));
    let group = |armilla: Arc<Armilla>| async move {
        let headers = [QUERY, ("x-ms-documentdb-partitionkey", r#"["p"]"#)];
        let body =
            r#"{"query":"SELECT c.text || '' AS t, COUNT(1) AS n FROM c GROUP BY c.text || ''"}"#;
        armilla.send("POST", ITEMS, &headers, body).await
    };
    // Every query stops before its last items, holding the groups it has.
    store.reads.close(ROWS * 9 / 10);
    let mut queries = JoinSet::new();
    (0..QUERIES).for_each(|_| drop(queries.spawn(group(armilla.clone()))));
    let refused = soon(queries.join_next()).await.unwrap().unwrap();
    retry_after(&refused.expect(429));
    until("the others wait, and hold much", || store.reads.waiting() > 0).await;
    let load = armilla.account.load();
    assert!(load.query_bytes > 0 && load.query_bytes <= QUERY_MEMORY, "{load:?}");
    store.reads.open();
    let mut answered = 0;
    while let Some(answer) = soon(queries.join_next()).await {
        let answer = answer.unwrap();
        answered += usize::from(answer.status == 200);
        assert!(matches!(answer.status, 200 | 429), "{}", answer.status);
        let load = armilla.account.load();
        assert!(load.query_bytes <= QUERY_MEMORY, "{load:?}");
    }
    assert!(answered > 0, "those that had their memory go on");
    until("everything is given back", || armilla.account.load().query_bytes == 0).await;
    soon(group(armilla.clone())).await.expect(200);
}

#[tokio::test]
async fn large_reads_do_not_hold_a_network_thread() {
    const COUNT: usize = 18_000;
    let store = GatedStore::new();
    let armilla = Armilla::over(store.clone(), Options::default(), |service| service);
    let armilla = Arc::new(armilla.and_posts().await);
    fill(&armilla, COUNT, |_| String::new());
    let key = ("x-ms-documentdb-partitionkey", r#"["p"]"#);
    let all = ("x-ms-max-item-count", "18000");
    let body = r#"{"query":"SELECT * FROM c"}"#;
    for (name, method, headers, body) in [
        ("a list", "GET", vec![key, all], ""),
        ("a feed", "GET", vec![key, all, ("a-im", "Incremental feed")], ""),
        ("a query", "POST", vec![key, all, QUERY], body),
    ] {
        store.reads.close(0);
        let asker = armilla.clone();
        let large = tokio::spawn(async move { asker.send(method, ITEMS, &headers, body).await });
        // It waits on a thread of its own, while the only thread of the network answers others.
        until(&format!("{name} is read beside the network"), || store.reads.waiting() > 0).await;
        for number in [0, COUNT / 2, COUNT - 1] {
            let path = format!("{ITEMS}/{number}");
            soon(armilla.send("GET", &path, &[key], "")).await.expect(200);
        }
        assert!(!large.is_finished(), "{name}");
        store.reads.open();
        let answer = soon(large).await.unwrap().expect(200);
        let count: usize = answer.header("x-ms-item-count").unwrap().parse().unwrap();
        let is_whole = count == COUNT || answer.header("x-ms-continuation").is_some();
        assert!(is_whole && count > COUNT / 2, "{name}: {count}");
    }
}

/// The condition of a patch held its key, a thread and the stop of the server for as long as it liked.
#[tokio::test]
async fn a_condition_that_takes_too_long_is_refused() {
    let server = Armilla::with_posts().await;
    let key = [("x-ms-documentdb-partitionkey", r#"["p"]"#)];
    let large: Vec<String> = (0..3000).map(|number| number.to_string()).collect();
    let item = format!(r#"{{"id":"1","postId":"p","a":[{}]}}"#, large.join(","));
    let items = "/dbs/blog/colls/posts/docs";
    server.send("POST", items, &key, &item).await.expect(201);
    let condition = "from c where EXISTS(SELECT VALUE 1 FROM x IN c.a JOIN y IN c.a JOIN z IN c.a WHERE x+y+z<0)";
    let patch = |condition: &str| {
        format!(
            r#"{{"condition":"{condition}","operations":[{{"op":"set","path":"/b","value":1}}]}}"#
        )
    };
    let item = format!("{items}/1");
    let refused = server.send("PATCH", &item, &key, &patch(condition)).await.expect(400);
    assert!(refused.text("message").contains("steps for one item"), "{}", refused.text("message"));
    let brief = "from c where ARRAY_LENGTH(c.a) = 3000 AND EXISTS(SELECT VALUE 1 FROM x IN c.a WHERE x = 2999)";
    server.send("PATCH", &item, &key, &patch(brief)).await.expect(200);
}

/// A batch of 4 KB was answered with 209 MB.
#[tokio::test]
async fn the_answer_to_a_batch_has_a_bound() {
    let server = Armilla::with_posts().await;
    let key = ("x-ms-documentdb-partitionkey", r#"["p"]"#);
    let item = format!(r#"{{"id":"1","postId":"p","text":"{}"}}"#, "x".repeat(1_500_000));
    let items = "/dbs/blog/colls/posts/docs";
    server.send("POST", items, &[key], &item).await.expect(201);
    let reads = |count: usize| {
        format!("[{}]", vec![r#"{"operationType":"Read","id":"1"}"#; count].join(","))
    };
    let batch =
        [key, ("x-ms-cosmos-is-batch-request", "True"), ("x-ms-cosmos-batch-atomic", "True")];
    server.send("POST", items, &batch, &reads(10)).await.expect(200);
    let refused = server.send("POST", items, &batch, &reads(100)).await.expect(207);
    let rows = refused.json();
    let statuses: Vec<_> = rows
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row.get("statusCode").unwrap().as_i64())
        .collect();
    assert!(statuses.contains(&Some(413)) && statuses.contains(&Some(424)), "{statuses:?}");
    assert!(refused.body.len() < 100_000);
}
