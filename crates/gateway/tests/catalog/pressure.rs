//! Back-pressure: a store that does not keep up, and work that is too large for a network thread.

use crate::support::{Armilla, UPSERT};
use armilla_engine::Options;
use armilla_engine::limits::COMMIT_QUEUE_STALLED_MAX;
use armilla_storage::{
    Batch, Durability, MemoryStore, Pressure, Room, Snapshot, Store, StoreError, StoreStats,
};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

const ITEMS: &str = "/dbs/blog/colls/posts/docs";
const SOON: Duration = Duration::from_secs(30);

/// A memory store whose commits wait while it is stuck, and which says so.
struct SlowStore {
    inner: MemoryStore,
    is_stuck: Mutex<bool>,
    moved: Condvar,
    room: Mutex<Room>,
}

impl SlowStore {
    fn new() -> Arc<Self> {
        let inner = MemoryStore::new();
        let (is_stuck, room) = (Mutex::new(false), Mutex::new(Room::Plenty));
        Arc::new(Self { inner, is_stuck, moved: Condvar::new(), room })
    }

    fn stick(&self, is_stuck: bool) {
        *self.is_stuck.lock().unwrap() = is_stuck;
        self.moved.notify_all();
    }
}

impl Store for SlowStore {
    fn snapshot(&self) -> Arc<dyn Snapshot> {
        self.inner.snapshot()
    }

    fn commit(&self, batch: Batch, durability: Durability) -> Result<(), StoreError> {
        let is_stuck = self.is_stuck.lock().unwrap();
        drop(self.moved.wait_while(is_stuck, |is_stuck| *is_stuck).unwrap());
        self.inner.commit(batch, durability)
    }

    fn close(&self) -> Result<(), StoreError> {
        self.inner.close()
    }

    fn stats(&self) -> StoreStats {
        self.inner.stats()
    }

    fn room(&self) -> Room {
        *self.room.lock().unwrap()
    }

    fn pressure(&self) -> Pressure {
        if *self.is_stuck.lock().unwrap() { Pressure::Stalled } else { Pressure::Calm }
    }
}

fn item(number: usize) -> (String, String) {
    let body = format!("{{\"id\":\"{number}\",\"postId\":\"{number}\"}}");
    (body, format!("[\"{number}\"]"))
}

#[tokio::test]
async fn writers_are_told_to_come_back_while_the_store_is_stuck() {
    let store = SlowStore::new();
    let armilla = Armilla::over(store.clone(), Options::default(), |service| service);
    let armilla = Arc::new(armilla.and_posts().await);
    let write = |number: usize| {
        let armilla = armilla.clone();
        async move {
            let (body, key) = item(number);
            armilla.send("POST", ITEMS, &[("x-ms-documentdb-partitionkey", &key)], &body).await
        }
    };
    write(0).await.expect(201);
    store.stick(true);
    let crowd = COMMIT_QUEUE_STALLED_MAX + 60;
    let mut writers = tokio::task::JoinSet::new();
    (1..=crowd).for_each(|number| drop(writers.spawn(write(number))));
    // Those beyond the bound are answered at once, though nothing is committed.
    let mut refused = 0;
    while refused < 60 {
        let answer = tokio::time::timeout(SOON, writers.join_next()).await.unwrap().unwrap();
        let answer = answer.unwrap().expect(429);
        assert_eq!(answer.header("x-ms-substatus"), Some("3200"));
        let wait = answer.header("x-ms-retry-after-ms").unwrap().parse::<u64>().unwrap();
        assert!((1..10_000).contains(&wait), "{wait}");
        refused += 1;
    }
    // Reads go on.
    let key = [("x-ms-documentdb-partitionkey", "[\"0\"]")];
    armilla.send("GET", &format!("{ITEMS}/0"), &key, "").await.expect(200);
    store.stick(false);
    while let Some(answer) = writers.join_next().await {
        answer.unwrap().expect(201);
    }
    write(crowd + 1).await.expect(201);
}

#[tokio::test]
async fn large_items_and_large_pages_answer_as_small_ones_do() {
    let armilla = Armilla::with_posts().await;
    let key = ("x-ms-documentdb-partitionkey", "[\"p\"]");
    let text = "x".repeat(40_000);
    for number in 0..30 {
        let body = format!("{{\"id\":\"{number}\",\"postId\":\"p\",\"text\":\"{text}\",\"n\":0}}");
        armilla.send("POST", ITEMS, &[key], &body).await.expect(201);
    }
    // Without a key in the header it is read from the body.
    let body = format!("{{\"id\":\"30\",\"postId\":\"p\",\"text\":\"{text}\"}}");
    armilla.send("POST", ITEMS, &[], &body).await.expect(201);
    armilla.send("POST", ITEMS, &[UPSERT, key], &body).await.expect(200);
    armilla.send("POST", ITEMS, &[key], &body).await.expect(409);
    let page =
        armilla.send("GET", ITEMS, &[key, ("x-ms-max-item-count", "100")], "").await.expect(200);
    assert_eq!(page.header("x-ms-item-count"), Some("31"));
    let feed = [key, ("a-im", "Incremental feed"), ("x-ms-max-item-count", "100")];
    let changes = armilla.send("GET", ITEMS, &feed, "").await.expect(200);
    assert_eq!(changes.header("x-ms-item-count"), Some("31"));
    // Small requests about large items.
    let patch = r#"{"operations":[{"op":"incr","path":"/n","value":2}]}"#;
    let patched = armilla.send("PATCH", &format!("{ITEMS}/1"), &[key], patch).await.expect(200);
    assert!(patched.body.contains("\"n\":2"));
    let small = r#"{"id":"2","postId":"p"}"#;
    armilla.send("PUT", &format!("{ITEMS}/2"), &[key], small).await.expect(200);
    armilla.send("DELETE", &format!("{ITEMS}/3"), &[key], "").await.expect(204);
    let batch = r#"[{"operationType":"Patch","id":"4","resourceBody":{"operations":[{"op":"incr","path":"/n","value":5}]}},
        {"operationType":"Delete","id":"5"},{"operationType":"Read","id":"6"}]"#;
    let atomic =
        [key, ("x-ms-cosmos-is-batch-request", "True"), ("x-ms-cosmos-batch-atomic", "True")];
    let answer = armilla.send("POST", ITEMS, &atomic, batch).await.expect(200);
    assert!(answer.body.contains("\"n\":5"));
    armilla.send("GET", &format!("{ITEMS}/5"), &[key], "").await.expect(404);
}

#[tokio::test]
async fn on_a_full_disk_reads_and_deletes_go_on_and_writes_come_back_with_the_room() {
    let store = SlowStore::new();
    let armilla = Armilla::over(store.clone(), Options::default(), |service| service);
    let armilla = armilla.and_posts().await;
    let key = |number: usize| format!("[\"{number}\"]");
    let create = async |number: usize| {
        let (body, key) = item(number);
        armilla.send("POST", ITEMS, &[("x-ms-documentdb-partitionkey", &key)], &body).await
    };
    let other = async |method: &str, number: usize| {
        let path = format!("{ITEMS}/{number}");
        let key = key(number);
        armilla.send(method, &path, &[("x-ms-documentdb-partitionkey", &key)], "").await
    };
    for number in 0..3 {
        create(number).await.expect(201);
    }
    *store.room.lock().unwrap() = Room::Reserve;
    let refused = create(9).await.expect(507);
    assert_eq!(refused.text("code"), "InsufficientStorage");
    assert!(refused.text("message").contains("disk is nearly full"));
    let (body, key_of_1) = item(1);
    let headers = [("x-ms-documentdb-partitionkey", key_of_1.as_str()), UPSERT];
    armilla.send("POST", ITEMS, &headers, &body).await.expect(507);
    other("GET", 0).await.expect(200);
    other("DELETE", 0).await.expect(204);
    armilla.post("/dbs", r#"{"id":"second"}"#).await.expect(201);
    *store.room.lock().unwrap() = Room::Nothing;
    other("DELETE", 1).await.expect(507);
    armilla.post("/dbs", r#"{"id":"third"}"#).await.expect(507);
    armilla.delete("/dbs/second").await.expect(204);
    other("GET", 1).await.expect(200);
    *store.room.lock().unwrap() = Room::Plenty;
    create(9).await.expect(201);
    other("DELETE", 1).await.expect(204);
}
