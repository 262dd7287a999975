//! Containers, procedures and data on Armilla: made, loaded, checked.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde_json::{Value, json};

use crate::Outcome;
use crate::armilla::{Armilla, ArmillaClient};
use crate::blog::Blog;
use crate::cell::Brought;
use crate::dataset::{Dataset, Lines, property};
use crate::processes;
use crate::rows::{Act, COLLECTIONS, Collection};
use crate::signed::{Question, Scope, Unsigned};

/// Operations of one batch, at most what the protocol allows.
const BATCH_MAX: usize = 100;
const LOAD_CONNECTIONS: usize = 16;
/// Throughput of every container: one physical range serves it.
const THROUGHPUT: &str = "x-ms-offer-throughput: 10000\r\n";
/// Posts whose counters are compared with what is stored beside them.
const CHECKED_POSTS: u64 = 200;
/// A condition that no index knows and no item meets.
const SCAN: &str = "SELECT VALUE COUNT(1) FROM c WHERE c._etag = 'x'";

const PROCEDURES: [(&str, &str); 2] = [
    ("createComment", include_str!("../js/create_comment.js")),
    ("createLike", include_str!("../js/create_like.js")),
];

/// What a load measured.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) container: String,
    pub(crate) items: u64,
    pub(crate) seconds: f64,
    /// Processor seconds of the server.
    pub(crate) used: f64,
    /// On disk, where the system tells it.
    pub(crate) bytes: Option<u64>,
}

impl Loaded {
    pub(crate) fn per_second(&self) -> f64 {
        self.items as f64 / self.seconds.max(1e-9)
    }

    pub(crate) fn cpu_us(&self) -> f64 {
        self.used * 1e6 / (self.items.max(1) as f64)
    }
}

/// Makes the database with its containers and procedures.
pub(crate) async fn create(server: &Rc<Armilla>) -> Outcome<()> {
    let mut client = server.connect().await?;
    let signer = &server.signer;
    let database = signer.database();
    let name = database.trim_start_matches("dbs/");
    new(&mut client, server, ("dbs", ""), "", &json!({"id": name})).await?;
    for Collection { name, key } in &COLLECTIONS {
        let key = json!({"paths": [format!("/{key}")], "kind": "Hash", "version": 2});
        let body = json!({"id": name, "partitionKey": key});
        new(&mut client, server, ("colls", &database), THROUGHPUT, &body).await?;
    }
    for (name, source) in PROCEDURES {
        let body = json!({"id": name, "body": source});
        new(&mut client, server, ("sprocs", &signer.container("posts")), "", &body).await?;
    }
    Ok(())
}

async fn new(
    client: &mut ArmillaClient,
    server: &Armilla,
    (kind, link): (&'static str, &str),
    headers: &str,
    body: &Value,
) -> Outcome<()> {
    let body = &body.to_string().into_bytes();
    let unsigned =
        Unsigned { verb: "POST", kind, link, is_list: true, scope: Scope::None, headers, body };
    client.call(&server.signer.sign(&unsigned), &mut Brought::default()).await?;
    Ok(())
}

/// Loads one container in batches of one key each, over several connections.
pub(crate) async fn load(
    server: &Rc<Armilla>,
    dataset: &Dataset,
    collection: &Collection,
    process: u32,
) -> Outcome<Loaded> {
    let source = RefCell::new(Batches::new(dataset.lines(collection)?, collection.key)?);
    let items = Cell::new(0);
    let (before, start) = (processes::used(process), Instant::now());
    let one = async || -> Outcome<()> {
        let mut client = server.connect().await?;
        loop {
            let taken = source.borrow_mut().next()?;
            let Some(Batch { key, operations, count }) = taken else { return Ok(()) };
            let request = server.signer.batch(collection.name, &key, &operations);
            let answer = client.call(&request, &mut Brought::default()).await?;
            if answer.status == 207 {
                let body = String::from_utf8_lossy(client.body());
                let told: String = body.chars().take(300).collect();
                return Err(format!("a batch was refused: {told}").into());
            }
            items.set(items.get() + count);
        }
    };
    let mut all: FuturesUnordered<_> = (0..LOAD_CONNECTIONS).map(|_| one()).collect();
    while let Some(outcome) = all.next().await {
        outcome?;
    }
    drop(all);
    Ok(Loaded {
        container: collection.name.to_owned(),
        items: items.get(),
        seconds: start.elapsed().as_secs_f64(),
        used: processes::used_since(process, &before).as_secs_f64(),
        bytes: None,
    })
}

struct Batch {
    key: String,
    operations: String,
    count: u64,
}

/// Lines of a container joined to batches. Items of one key follow each other.
struct Batches {
    lines: Lines,
    property: &'static str,
    /// The first line of the next batch.
    ahead: String,
    has_more: bool,
}

impl Batches {
    fn new(mut lines: Lines, property: &'static str) -> Outcome<Self> {
        let mut ahead = String::new();
        let has_more = lines.next(&mut ahead)?;
        Ok(Self { lines, property, ahead, has_more })
    }

    fn next(&mut self) -> Outcome<Option<Batch>> {
        if !self.has_more {
            return Ok(None);
        }
        let key = property(&self.ahead, self.property)?.to_owned();
        let (mut operations, mut count) = (String::from("["), 0);
        while self.has_more && count < BATCH_MAX && property(&self.ahead, self.property)? == key {
            if count > 0 {
                operations.push(',');
            }
            operations.push_str("{\"operationType\":\"Create\",\"resourceBody\":");
            operations.push_str(&self.ahead);
            operations.push('}');
            count += 1;
            self.has_more = self.lines.next(&mut self.ahead)?;
        }
        operations.push(']');
        Ok(Some(Batch { key, operations, count: u64::try_from(count)? }))
    }
}

/// What a scan of a container measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scanned {
    pub(crate) items: u64,
    pub(crate) seconds: f64,
    pub(crate) used: f64,
}

/// Goes through every item of the posts with a condition that no index serves.
pub(crate) async fn scan(server: &Rc<Armilla>, items: u64, process: u32) -> Outcome<Scanned> {
    let mut client = server.connect().await?;
    let (before, start) = (processes::used(process), Instant::now());
    let mut token = None;
    loop {
        let question = Question { text: SCAN, parameters: &[] };
        let request = server.signer.query("posts", Scope::Across, &question, token.as_deref());
        let answer = client.call(&request, &mut Brought::default()).await?;
        token = answer.continuation;
        if token.is_none() {
            break;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    Ok(Scanned { items, seconds, used: processes::used_since(process, &before).as_secs_f64() })
}

/// How many of some posts have counters that differ from the comments and likes stored beside them.
pub(crate) async fn wrong_counters(server: &Rc<Armilla>, blog: &Blog) -> Outcome<u64> {
    let mut client = server.connect().await?;
    let mut wrong = 0;
    for nth in 0..CHECKED_POSTS {
        let post = blog.pick_post(Act::C3, nth);
        client.call(&server.signer.read("posts", &post), &mut Brought::default()).await?;
        let body: Value = serde_json::from_slice(client.body())?;
        for (kind, counter) in [("comment", "commentCount"), ("like", "likeCount")] {
            let text = "SELECT VALUE COUNT(1) FROM c WHERE c.postId = @p AND c.type = @t";
            let question = Question { text, parameters: &[("@p", &post), ("@t", kind)] };
            let request = server.signer.query("posts", Scope::Key(&post), &question, None);
            client.call(&request, &mut Brought::default()).await?;
            let counted: Value = serde_json::from_slice(client.body())?;
            wrong += u64::from(counted["Documents"][0] != body[counter]);
        }
    }
    Ok(wrong)
}
