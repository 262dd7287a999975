//! The check vectors of charges (`docs/protocol/charges.md#request-units`), each run through the server:
//! what is compared is the header.

use crate::support::{Armilla, QUERY, UPSERT};
use armilla_engine::Options;
use armilla_gateway::headers::Consistency;
use armilla_gateway::ops::EngineService;
use armilla_model::{Value, json};

const KEY: (&str, &str) = ("x-ms-documentdb-partitionkey", "[\"a\"]");
const BATCH: [(&str, &str); 3] =
    [KEY, ("x-ms-cosmos-is-batch-request", "True"), ("x-ms-cosmos-batch-atomic", "True")];
const FEED: (&str, &str) = ("a-im", "Incremental Feed");

fn vectors() -> Value {
    json::parse(include_bytes!("request-units.json")).unwrap()
}

/// What a vector says it costs, as the header prints it.
pub(crate) fn wanted(id: i64) -> String {
    let all = vectors();
    let list = all.get("vectors").unwrap().as_array().unwrap();
    let found = list.iter().find(|vector| vector.get("id").unwrap().as_i64() == Some(id)).unwrap();
    printed(found.get("ru").unwrap().as_f64().unwrap())
}

pub(crate) fn printed(units: f64) -> String {
    let text = format!("{units:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A container, and how many bytes the server adds to an item in it.
struct Bench {
    armilla: Armilla,
    path: String,
    added: usize,
}

/// Indexes nothing but what is always indexed.
const NOTHING: &str = r#","indexingPolicy":{"excludedPaths":[{"path":"/*"}]}"#;

impl Bench {
    async fn new(more: &str) -> Self {
        Self::of(Armilla::start(), more, &[]).await
    }

    async fn strong(level: Consistency, more: &str) -> Self {
        let service = |service: EngineService| service.with_consistency(level);
        Self::of(Armilla::with(Options::default(), service), more, &[]).await
    }

    async fn of(armilla: Armilla, more: &str, headers: &[(&str, &str)]) -> Self {
        armilla.post("/dbs", r#"{"id":"d"}"#).await.expect(201);
        let definition = format!(r#"{{"id":"c","partitionKey":{{"paths":["/pk"]}}{more}}}"#);
        armilla.send("POST", "/dbs/d/colls", headers, &definition).await.expect(201);
        let path = "/dbs/d/colls/c".to_owned();
        let probe = r#"{"id":"probe","pk":"probe"}"#;
        let key = ("x-ms-documentdb-partitionkey", "[\"probe\"]");
        let docs = format!("{path}/docs");
        let stored = armilla.send("POST", &docs, &[key], probe).await.expect(201).body.len();
        armilla.send("DELETE", &format!("{docs}/probe"), &[key], "").await.expect(204);
        Self { armilla, path, added: stored - probe.len() }
    }

    fn docs(&self) -> String {
        format!("{}/docs", self.path)
    }

    /// An item of exactly so many stored bytes: filled up with a long string where there is room
    /// for one, else by the length of its id.
    fn item(&self, id: &str, members: &str, size: usize) -> String {
        let plain = format!(r#"{{"id":"{id}","pk":"a"{members}}}"#);
        let missing = size - self.added - plain.len();
        let with_filler = r#","f":"""#.len();
        let item = if missing > with_filler + 64 {
            let filler = "x".repeat(missing - with_filler);
            format!(r#"{{"id":"{id}","pk":"a"{members},"f":"{filler}"}}"#)
        } else {
            format!(r#"{{"id":"{id}{}","pk":"a"{members}}}"#, "i".repeat(missing))
        };
        assert_eq!(item.len() + self.added, size);
        item
    }

    async fn create(&self, item: &str) -> String {
        let answer = self.armilla.send("POST", &self.docs(), &[KEY], item).await.expect(201);
        answer.charge()
    }

    async fn upsert(&self, item: &str) -> String {
        self.armilla.send("POST", &self.docs(), &[KEY, UPSERT], item).await.charge()
    }

    async fn send(&self, method: &str, id: &str, headers: &[(&str, &str)], body: &str) -> String {
        let path = format!("{}/{id}", self.docs());
        let headers: Vec<_> = headers.iter().copied().chain([KEY]).collect();
        self.armilla.send(method, &path, &headers, body).await.charge()
    }

    async fn read(&self, id: &str) -> String {
        self.send("GET", id, &[], "").await
    }

    async fn query(&self, text: &str) -> String {
        self.query_with(text, &[KEY]).await
    }

    async fn query_with(&self, text: &str, headers: &[(&str, &str)]) -> String {
        let query = Value::from(text).to_json();
        let body = format!("{{\"query\":{query},\"parameters\":[]}}");
        let page = ("x-ms-max-item-count", "1000");
        let headers: Vec<_> = headers.iter().copied().chain([QUERY, page]).collect();
        self.armilla.send("POST", &self.docs(), &headers, &body).await.expect(200).charge()
    }

    async fn procedure(&self, body: &str) -> String {
        let body = Value::from(body).to_json();
        let script = format!(r#"{{"id":"run","body":{body}}}"#);
        self.armilla.post(&format!("{}/sprocs", self.path), &script).await.expect(201);
        let path = format!("{}/sprocs/run", self.path);
        self.armilla.send("POST", &path, &[KEY], "").await.expect(200).charge()
    }
}

/// So many numbers: one term each.
fn numbers(count: usize) -> String {
    (0..count).map(|n| format!(r#","n{n}":{n}"#)).collect()
}

#[tokio::test]
async fn reads() {
    let bench = Bench::new(NOTHING).await;
    let sizes =
        [(1, 1024), (2, 1025), (3, 4096), (4, 16384), (5, 65536), (6, 102_400), (7, 524_288)];
    for (id, size) in sizes {
        bench.create(&bench.item(&format!("r{id}"), "", size)).await;
        assert_eq!(bench.read(&format!("r{id}")).await, wanted(id), "vector {id}");
    }
    // The largest bracket: a body may have two million bytes and a few.
    bench.create(&bench.item("r8", "", 2_097_152)).await;
    assert_eq!(bench.read("r8").await, wanted(8));
    assert_eq!(bench.read("none").await, wanted(11));
}

#[tokio::test]
async fn strong_and_bounded_reads_cost_twice() {
    let bounded = Bench::strong(Consistency::BoundedStaleness, NOTHING).await;
    bounded.create(&bounded.item("r", "", 1024)).await;
    assert_eq!(bounded.read("r").await, wanted(9));
    let strong = Bench::strong(Consistency::Strong, NOTHING).await;
    strong.create(&strong.item("r", "", 102_400)).await;
    assert_eq!(strong.read("r").await, wanted(10));
    assert_eq!(strong.query("SELECT * FROM c WHERE c.id = 'none'").await, wanted(40));
    assert_eq!(strong.read("none").await, "2");
    // A client may ask for less, and a session account for no more.
    let eventual = [("x-ms-consistency-level", "Eventual")];
    assert_eq!(strong.send("GET", "r", &eventual, "").await, "9.95");
    let session = Bench::new("").await;
    let path = format!("{}/x", session.docs());
    let headers = [KEY, ("x-ms-consistency-level", "Strong")];
    session.armilla.send("GET", &path, &headers, "").await.refused(400, 0);
}

#[tokio::test]
async fn writes_without_indexed_paths() {
    let bench = Bench::new(NOTHING).await;
    assert_eq!(bench.create(&bench.item("w", r#","n":1"#, 400)).await, wanted(12));
    let changed = bench.item("w", r#","n":2"#, 400);
    let id =
        json::parse(changed.as_bytes()).unwrap().get("id").unwrap().as_str().unwrap().to_owned();
    assert_eq!(bench.send("PUT", &id, &[], &changed).await, wanted(13));
    assert_eq!(bench.send("DELETE", &id, &[], "").await, wanted(14));
    assert_eq!(bench.create(&bench.item("large", "", 102_400)).await, wanted(26));
}

#[tokio::test]
async fn writes_with_terms() {
    let bench = Bench::new("").await;
    // id, _ts, key twice as a short string and once as the key; the filler is one more.
    let ten = numbers(4);
    assert_eq!(bench.create(&bench.item("t", &ten, 1024)).await, wanted(15));
    let changed = bench.item("t", &ten.replace(":3", ":9"), 1024);
    assert_eq!(bench.send("PUT", "t", &[], &changed).await, wanted(17));
    let patch = r#"{"operations":[{"op":"set","path":"/n1","value":7},{"op":"set","path":"/n2","value":2}]}"#;
    assert_eq!(bench.send("PATCH", "t", &[], patch).await, wanted(18));
    assert_eq!(bench.send("DELETE", "t", &[], "").await, wanted(16));
    assert_eq!(bench.create(&bench.item("like", &numbers(5), 419)).await, wanted(20));
    assert_eq!(bench.create(&bench.item("comment", &numbers(6), 1235)).await, wanted(21));
    assert_eq!(bench.create(&bench.item("post", &numbers(7), 1713)).await, wanted(22));
    assert_eq!(bench.create(&bench.item("x", "", 260)).await, wanted(23));
    assert_eq!(bench.create(&bench.item("y", r#","s":"b""#, 270)).await, wanted(24));
    assert_eq!(bench.create(&bench.item("z", r#","n":7"#, 260)).await, wanted(25));
    assert_eq!(bench.create(&bench.item("two", &numbers(14), 2048)).await, wanted(27));
    let list = (0..100).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let array = format!(r#","l":[{list}]"#);
    assert_eq!(bench.create(&bench.item("array", &array, 570)).await, wanted(28));
}

#[tokio::test]
async fn a_user_by_its_id() {
    let armilla = Armilla::start();
    armilla.post("/dbs", r#"{"id":"d"}"#).await.expect(201);
    let definition = r#"{"id":"u","partitionKey":{"paths":["/id"]}}"#;
    armilla.post("/dbs/d/colls", definition).await.expect(201);
    let user = r#"{"id":"gggggggggggggggggggggggggggggggggggg","username":"nnnnnnnnnnnn"}"#;
    let key = ("x-ms-documentdb-partitionkey", "[\"gggggggggggggggggggggggggggggggggggg\"]");
    let answer = armilla.send("POST", "/dbs/d/colls/u/docs", &[key], user).await.expect(201);
    assert_eq!(answer.charge(), wanted(19));
}

#[tokio::test]
async fn upserts_batches_and_refusals() {
    let bench = Bench::new("").await;
    let item = |id: &str, s: &str| bench.item(id, &format!(r#","s":"{s}""#), 270);
    assert_eq!(bench.upsert(&item("u", "b")).await, wanted(29));
    assert_eq!(bench.upsert(&item("u", "c")).await, wanted(30));
    let create =
        |id: &str| format!(r#"{{"operationType":"Create","resourceBody":{}}}"#, item(id, "b"));
    let batch = format!("[{},{},{}]", create("1"), create("2"), create("3"));
    let answer = bench.armilla.send("POST", &bench.docs(), &BATCH, &batch).await.expect(200);
    assert_eq!(answer.charge(), wanted(44));
    let row = answer.json().as_array().unwrap()[1].get("requestCharge").unwrap().as_f64();
    assert_eq!(printed(row.unwrap()), wanted(24));
    // Two that worked and one that did not: one unit each.
    let batch = format!("[{},{},{}]", create("4"), create("5"), create("1"));
    let answer = bench.armilla.send("POST", &bench.docs(), &BATCH, &batch).await.expect(207);
    assert_eq!(answer.charge(), "3");
    let again = bench.armilla.send("POST", &bench.docs(), &[KEY], &item("1", "b")).await;
    assert_eq!(again.refused(409, 0).charge(), wanted(45));
    let stale = [("if-match", "\"00000000-0000-0000-0000-000000000000\"")];
    let changed = item("1", "d");
    let id =
        json::parse(changed.as_bytes()).unwrap().get("id").unwrap().as_str().unwrap().to_owned();
    assert_eq!(bench.send("PUT", &id, &stale, &changed).await, wanted(46));
}

#[tokio::test]
async fn queries_over_one_partition() {
    let bench = Bench::new("").await;
    bench.create(&bench.item("large", "", 9963)).await;
    assert_eq!(bench.query("SELECT * FROM c").await, wanted(31));
    bench.send("DELETE", "large", &[], "").await;
    bench.create(&bench.item("middle", "", 6563)).await;
    assert_eq!(bench.query("SELECT * FROM c WHERE c.id = 'middle'").await, wanted(32));
    assert_eq!(bench.query("SELECT * FROM c WHERE c.none = 1").await, wanted(34));
    bench.send("DELETE", "middle", &[], "").await;
    for n in 0..20 {
        bench.create(&bench.item(&format!("c{n:02}"), r#","t":"comment""#, 1265)).await;
    }
    assert_eq!(bench.query("SELECT * FROM c WHERE c.t = 'comment'").await, wanted(36));
    for n in 0..50 {
        bench.create(&bench.item(&format!("l{n:02}"), r#","t":"like""#, 449)).await;
    }
    assert_eq!(bench.query("SELECT * FROM c WHERE c.t = 'like'").await, wanted(37));
    for n in 0..100 {
        bench.create(&bench.item(&format!("p{n:02}"), r#","t":"post""#, 676)).await;
    }
    let feed = "SELECT TOP 100 * FROM c WHERE c.t = 'post' ORDER BY c.id DESC";
    assert_eq!(bench.query(feed).await, wanted(38));
    let plan = [KEY, QUERY, ("x-ms-cosmos-is-query-plan-request", "True")];
    let body = r#"{"query":"SELECT * FROM c","parameters":[]}"#;
    let answer = bench.armilla.send("POST", &bench.docs(), &plan, body).await.expect(200);
    assert_eq!(answer.charge(), "0");
}

#[tokio::test]
async fn counts_and_empty_ranges() {
    let bench = Bench::new("").await;
    for n in 0..50 {
        bench.create(&bench.item(&format!("l{n:02}"), r#","t":"like""#, 419)).await;
    }
    let count = "SELECT VALUE COUNT(1) FROM c WHERE c.t = 'like'";
    assert_eq!(bench.query(count).await, wanted(39));
    let five = Bench::of(Armilla::start(), "", &[("x-armilla-partitions", "5")]).await;
    let everywhere = ("x-ms-documentdb-query-enablecrosspartition", "True");
    assert_eq!(five.query_with("SELECT * FROM c WHERE c.n = 1", &[everywhere]).await, wanted(35));
}

#[tokio::test]
async fn feeds() {
    let bench = Bench::new("").await;
    for n in 0..5 {
        bench.create(&bench.item(&format!("f{n}"), "", 1024)).await;
    }
    let answer = bench.armilla.send("GET", &bench.docs(), &[FEED, KEY], "").await.expect(200);
    assert_eq!(answer.charge(), wanted(41));
    let etag = answer.header("etag").unwrap().to_owned();
    let headers = [FEED, KEY, ("if-none-match", etag.as_str())];
    let answer = bench.armilla.send("GET", &bench.docs(), &headers, "").await.expect(304);
    assert_eq!(answer.charge(), wanted(42));
    let bench = Bench::new("").await;
    for n in 0..100 {
        bench.create(&bench.item(&format!("f{n:02}"), "", 449)).await;
    }
    let answer = bench.armilla.send("GET", &bench.docs(), &[KEY], "").await.expect(200);
    assert_eq!(answer.charge(), wanted(43));
}

#[tokio::test]
async fn procedures() {
    let bench = Bench::new("").await;
    assert_eq!(bench.procedure("function () { }").await, wanted(47));
    let bench = Bench::new("").await;
    let hundred = "function () { var c = getContext().getCollection(), n = 0; (function next() { \
                   if (n == 100) return; \
                   c.createDocument(c.getSelfLink(), { id: 'i' + n++, pk: 'a', s: 'b' }, next); \
                   })(); }";
    assert_eq!(bench.procedure(hundred).await, wanted(50));
}

/// Adds one to a count of the item `post`, stores an item, and does all of it or nothing.
const COUNTING: &str = "function (made) { var here = getContext().getCollection(); \
    here.readDocument(here.getAltLink() + '/docs/post', function (error, post) { \
        if (error) throw error; \
        post.count += 1; \
        here.replaceDocument(post._self, post, function (error) { \
            if (error) throw error; \
            here.createDocument(here.getSelfLink(), made, \
                function (error) { if (error) throw error; }); \
        }); \
    }); }";

/// Reads a post, counts in it and stores a comment or a like: sizes and terms as the vectors say.
#[tokio::test]
async fn procedures_that_count() {
    let bench = Bench::new("").await;
    bench.create(&bench.item("post", r#","count":20"#, 1776)).await;
    let script = format!(r#"{{"id":"count","body":{}}}"#, Value::from(COUNTING).to_json());
    bench.armilla.post(&format!("{}/sprocs", bench.path), &script).await.expect(201);
    // The key has three terms, id and time one each; a short string has two, the filler one.
    let comment = bench.item("comment", &numbers(8), 1265);
    let like = bench.item("like", &numbers(7), 449);
    for (id, terms, made) in [(48, 14, comment), (49, 13, like)] {
        let path = format!("{}/sprocs/count", bench.path);
        let body = format!("[{made}]");
        let answer = bench.armilla.send("POST", &path, &[KEY], &body).await.expect(200);
        assert_eq!(answer.charge(), wanted(id), "vector {id}");
        // The item that was made has the size and the terms of the vector.
        let item = json::parse(made.as_bytes()).unwrap();
        let name = item.get("id").unwrap().as_str().unwrap().to_owned();
        let rates = armilla_model::charge::Rates::article();
        let size = made.len() + bench.added;
        let create = rates.write(size) + rates.terms(terms);
        assert_eq!(bench.send("DELETE", &name, &[], "").await, create.to_string());
    }
}

#[tokio::test]
async fn reads_in_a_batch_cost_by_their_consistency() {
    let body = r#"[{"operationType":"Read","id":"r"},{"operationType":"Create","resourceBody":{"id":"x","pk":"a","s":"b"}}]"#;
    for (level, read) in [(Consistency::Session, 1.0), (Consistency::Strong, 2.0)] {
        let bench = Bench::strong(level, "").await;
        bench.create(&bench.item("r", "", 1024)).await;
        let answer = bench.armilla.send("POST", &bench.docs(), &BATCH, body).await.expect(200);
        let rows = answer.json();
        let rows = rows.as_array().unwrap();
        assert_eq!(rows[0].get("requestCharge").unwrap().as_f64(), Some(read));
        assert_eq!(answer.charge(), printed(read + 132.0 / 21.0));
    }
}

#[tokio::test]
async fn metadata_and_syntax_errors() {
    let armilla = Armilla::start();
    assert_eq!(armilla.post("/dbs", r#"{"id":"d"}"#).await.expect(201).charge(), "4.95");
    assert_eq!(armilla.get("/dbs/d").await.expect(200).charge(), "1");
    let definition = r#"{"id":"c","partitionKey":{"paths":["/pk"]}}"#;
    armilla.post("/dbs/d/colls", definition).await.expect(201);
    let answer = armilla.query("/dbs/d/colls/c/docs", "SELECT FROM").await.refused(400, 0);
    assert_eq!(answer.charge(), "1");
    assert_eq!(armilla.delete("/dbs/d").await.expect(204).charge(), "4.95");
}

/// Items as the vectors write them: their terms, and sizes that differ only by what servers add.
#[tokio::test]
async fn term_cases() {
    let all = vectors();
    let rates = armilla_model::charge::Rates::article();
    for (number, case) in all.get("termCases").unwrap().as_array().unwrap().iter().enumerate() {
        let path = case.get("partitionKeyPath").unwrap().as_str().unwrap();
        let (terms, bytes) = (case.get("terms").unwrap(), case.get("bytes").unwrap());
        let armilla = Armilla::start();
        armilla.post("/dbs", r#"{"id":"d"}"#).await.expect(201);
        let definition = format!(r#"{{"id":"c","partitionKey":{{"paths":["{path}"]}}}}"#);
        armilla.post("/dbs/d/colls", &definition).await.expect(201);
        let mut text = case.get("item").unwrap().to_json();
        for length in [70, 100, 800, 1200] {
            text = text.replace(&format!("<{length} bytes of text>"), &"t".repeat(length));
        }
        let item = json::parse(text.as_bytes()).unwrap();
        let key = item.get(&path[1..]).unwrap().to_json();
        let header = format!("[{key}]");
        let headers = [("x-ms-documentdb-partitionkey", header.as_str())];
        let answer = armilla.send("POST", "/dbs/d/colls/c/docs", &headers, &text).await.expect(201);
        let (size, bytes) = (answer.body.len(), bytes.as_i64().unwrap() as usize);
        assert!(size.abs_diff(bytes) < 40, "case {number}: {size} and {bytes} bytes");
        let charge = rates.write(bytes) + rates.terms(terms.as_i64().unwrap() as u64);
        assert_eq!(answer.charge(), charge.to_string(), "case {number}");
    }
}
