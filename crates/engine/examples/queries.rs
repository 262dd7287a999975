//! How long queries take over a blog of some size, in memory:
//! `cargo run --release -p armilla-engine --example queries -- 200000 1`.
//!
//! Prints the median time of a first page and the processor time of all threads for it, on one thread
//! and on as many as seem worth it, the items read and the charge; before that, how long a text takes
//! to become a routed query when it is known. With `items` behind the numbers it also goes through the
//! items, whatever the index could do; with any other text it asks only what contains that.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a tool that measures")]

use armilla_engine::account::NewContainer;
use armilla_engine::items::WriteOptions;
use armilla_engine::query::{Access, Limit, Page, PageOptions, Query, Request, Scope, Threads};
use armilla_engine::ranges::EpkSpan;
use armilla_engine::{Account, Container, Options, Txn};
use armilla_model::json;
use armilla_model::partition_key::PartitionKey;
use armilla_storage::{Durability, MemoryStore};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

const RUNS: usize = 21;
/// Slow queries are asked less often, until so much time has passed.
const TIME_MAX: Duration = Duration::from_secs(3);
const ITEMS_PER_POST: usize = 21;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default| arguments.next().map_or(default, |text| text.parse().unwrap());
    let items = number(100_000);
    let ranges = u32::try_from(number(1)).unwrap();
    let wanted: Option<String> = arguments.next();
    let options = Options {
        partitions: Some(ranges),
        background: false,
        durability: Durability::Relaxed,
        ..Options::default()
    };
    let account = Account::open(Arc::new(MemoryStore::new()), options).unwrap();
    account.create_database("d", None).unwrap();
    let definition = json::parse(br#"{"id":"c","partitionKey":{"paths":["/postId"]}}"#).unwrap();
    let new = NewContainer { definition: &definition, throughput: None };
    let container = account.create_container("d", &new).unwrap();
    let started = Instant::now();
    for post in 0..items / ITEMS_PER_POST {
        write_post(&container, post);
    }
    println!(
        "{items} items in {ranges} range(s), loaded in {:.1} s",
        started.elapsed().as_secs_f64()
    );
    // On a thread of its own, as in a server: the one that wrote has a heap full of holes.
    let asked = std::thread::spawn(move || ask(&container, wanted));
    asked.join().unwrap();
}

fn ask(container: &Arc<Container>, wanted: Option<String>) {
    let with_items = wanted.as_deref() == Some("items");
    let points: Vec<_> =
        (0..100).map(|n| format!("(c.id = 'p{n}' AND c.postId = 'p{n}')")).collect();
    let points = points.join(" OR ");
    plans(container);
    for (key, text) in [
        (Some("p7"), "SELECT * FROM c WHERE c.id = 'p7'".to_owned()),
        (Some("p7"), "SELECT * FROM c WHERE c.type = 'comment'".to_owned()),
        (
            Some("p7"),
            "SELECT TOP 10 * FROM c WHERE c.type = 'comment' ORDER BY c.date DESC".to_owned(),
        ),
        (None, format!("SELECT * FROM c WHERE {points}")),
        (None, "SELECT * FROM c".to_owned()),
        (None, "SELECT * FROM c WHERE c.userId = 'u5'".to_owned()),
        (None, "SELECT * FROM c WHERE c.userId = 'u5' AND c.type = 'post'".to_owned()),
        (None, "SELECT TOP 20 * FROM c WHERE c.userId = 'u5' ORDER BY c.date DESC".to_owned()),
        (None, "SELECT TOP 100 * FROM c WHERE c.type = 'post' ORDER BY c.date DESC".to_owned()),
        (
            None,
            "SELECT TOP 100 c.id, c.likes FROM c WHERE c.type = 'post' ORDER BY c.date DESC"
                .to_owned(),
        ),
        (None, "SELECT * FROM c ORDER BY c.date DESC OFFSET 0 LIMIT 20".to_owned()),
        (None, "SELECT c.id, c.likes FROM c WHERE c.likes > 900".to_owned()),
        (None, "SELECT c.id FROM c WHERE CONTAINS(c.userId, '99')".to_owned()),
        (None, "SELECT VALUE COUNT(1) FROM c".to_owned()),
        (None, "SELECT VALUE COUNT(1) FROM c WHERE c.type = 'post'".to_owned()),
        (None, "SELECT VALUE COUNT(1) FROM c WHERE c.type = 'post' AND c.likes > 500".to_owned()),
        (None, "SELECT VALUE SUM(c.likes) FROM c WHERE c.type = 'comment'".to_owned()),
        (None, "SELECT VALUE MAX(c.date) FROM c".to_owned()),
        (None, "SELECT c.type, COUNT(1) AS n FROM c GROUP BY c.type".to_owned()),
        (None, "SELECT DISTINCT VALUE c.userId FROM c".to_owned()),
        (None, "SELECT VALUE COUNT(1) FROM c WHERE UPPER(c.title) = 'X'".to_owned()),
        // No index has the version of an item: all are read.
        (None, "SELECT VALUE COUNT(1) FROM c WHERE c._etag = 'x'".to_owned()),
        (None, "SELECT * FROM c WHERE c._etag = 'x'".to_owned()),
        (None, "SELECT TOP 20 * FROM c WHERE c._etag = 'x' ORDER BY c.date DESC".to_owned()),
        (None, "SELECT VALUE SUM(c.likes / 7) FROM c WHERE c._etag != 'x'".to_owned()),
        (None, "SELECT DISTINCT TOP 20 c.userId FROM c ORDER BY c.userId".to_owned()),
    ] {
        if with_items || wanted.as_ref().is_none_or(|wanted| text.contains(wanted)) {
            measure(container, key, &text, with_items);
        }
    }
    if wanted.is_none() || with_items {
        for text in [
            "SELECT VALUE COUNT(1) FROM c WHERE c.type = 'post'",
            "SELECT VALUE SUM(c.likes) FROM c WHERE c.type = 'comment'",
            "SELECT TOP 20 * FROM c WHERE c._etag = 'x'",
            "SELECT VALUE COUNT(1) FROM c WHERE c._etag = 'x' AND c.likes > 950",
        ] {
            crowd(container, text);
        }
    }
}

/// Many clients at once: threads that help one of them must not cost the others anything.
fn crowd(container: &Arc<Container>, text: &str) {
    const CLIENTS: usize = 16;
    const PAGES: usize = 4;
    let scope = Scope { span: EpkSpan::all(), limit: Limit::Container, cross_partition: true };
    let pages = |threads: Threads| {
        for _ in 0..PAGES {
            let query = Query::new(container.clone(), Request::of_text(text), &scope).unwrap();
            let options = PageOptions { count_max: 100, continuation: None, range_by_range: false };
            query.on(threads).page(options).unwrap();
        }
    };
    let all = |threads: Threads| {
        let started = Instant::now();
        std::thread::scope(|clients| {
            let clients: Vec<_> = (0..CLIENTS).map(|_| clients.spawn(|| pages(threads))).collect();
            clients.into_iter().for_each(|client| client.join().unwrap());
        });
        started.elapsed().as_secs_f64() * 1e6 / (CLIENTS * PAGES) as f64
    };
    let (one, many) = (all(Threads::One), all(Threads::ByCost));
    println!("{CLIENTS} clients: one {one:>10.1} us per page, many {many:>10.1} us  {text}");
}

/// The best of some batches: other work on the machine lengthens some, not all.
fn plans(container: &Arc<Container>) {
    const BATCH: u32 = 500;
    let scope = Scope { span: EpkSpan::all(), limit: Limit::Container, cross_partition: true };
    for (name, body) in [
        (
            "without parameters",
            r#"{"query":"SELECT * FROM c WHERE c.type = 'post' AND c.userId = 'u1' ORDER BY c.date DESC"}"#,
        ),
        (
            "with parameters",
            r#"{"query":"SELECT * FROM c WHERE c.type = 'post' AND c.userId = @u ORDER BY c.date DESC","parameters":[{"name":"@u","value":"u1"}]}"#,
        ),
    ] {
        let best = (0..RUNS).map(|_| {
            let started = Instant::now();
            for _ in 0..BATCH {
                let request = Request::parse(body.as_bytes()).unwrap();
                drop(Query::new(container.clone(), request, &scope).unwrap());
            }
            started.elapsed() / BATCH
        });
        println!(
            "{:>10.2} us  parse and plan of a known text {name}",
            best.min().unwrap().as_secs_f64() * 1e6
        );
    }
}

fn write_post(container: &Arc<Container>, post: usize) {
    let definition = container.settings().policy.partition_key.clone();
    let key = PartitionKey::parse(&format!("[\"p{post}\"]")).unwrap();
    let lock = container.lock_and_wait(&definition.epk(&key));
    let mut txn = Txn::begin(container.clone(), key, lock).unwrap();
    for number in 0..ITEMS_PER_POST {
        let (kind, id) = match number {
            0 => ("post", format!("p{post}")),
            _ => ("comment", format!("p{post}c{number}")),
        };
        let mixed = (post * 7919 + number * 104_729) % 1_000_003;
        let text = format!(
            r#"{{"id":"{id}","postId":"p{post}","type":"{kind}","userId":"u{}","likes":{},"title":"title {mixed}","date":"2026-{:02}-{:02}T{:02}:{:02}:{:02}.{mixed:07}Z","content":"{}"}}"#,
            mixed % 1000,
            mixed % 1000,
            1 + mixed % 12,
            1 + mixed % 28,
            mixed % 24,
            mixed % 60,
            mixed % 59,
            "lorem ipsum ".repeat(if number == 0 { 80 } else { 20 })
        );
        txn.create_item(text.as_bytes(), &WriteOptions::default()).unwrap();
    }
    let (sender, receiver) = mpsc::sync_channel(1);
    txn.commit(move |outcome| sender.send(outcome).unwrap());
    receiver.recv().unwrap().unwrap();
}

fn measure(container: &Arc<Container>, key: Option<&str>, text: &str, with_items: bool) {
    let definition = container.settings().policy.partition_key.clone();
    let scope = match key {
        Some(key) => {
            let key = PartitionKey::parse(&format!("[\"{key}\"]")).unwrap();
            let span = EpkSpan::of_prefix(&definition.epk(&key));
            Scope { span, limit: Limit::Key, cross_partition: false }
        }
        None => Scope { span: EpkSpan::all(), limit: Limit::Container, cross_partition: true },
    };
    let page = |access: Access, threads: Threads| {
        let query = Query::new(container.clone(), Request::of_text(text), &scope).unwrap();
        let options = PageOptions { count_max: 100, continuation: None, range_by_range: false };
        query.by(access).on(threads).page(options).unwrap()
    };
    let (one, one_cpu, _) = median(|| page(Access::ByCost, Threads::One));
    let (many, many_cpu, last) = median(|| page(Access::ByCost, Threads::ByCost));
    let items = if with_items {
        let (items, _, _) = median(|| page(Access::Items, Threads::One));
        format!("items {items:>10.1}  ")
    } else {
        String::new()
    };
    println!(
        "one {one:>10.1} us (cpu {one_cpu:>10.1})  many {many:>10.1} us (cpu {many_cpu:>10.1})  \
         {items}{:>5} read {:>4} rows {:>10} RU  {}",
        last.metrics.retrieved_count,
        last.rows.len(),
        last.charge.to_string(),
        if text.len() > 90 { &text[..90] } else { text }
    );
}

/// The median time, and the mean processor time of all threads, in microseconds.
fn median(page: impl Fn() -> Page) -> (f64, f64, Page) {
    let mut last = page();
    let (started, cpu) = (Instant::now(), processor_time());
    let mut times = Vec::new();
    while times.len() < RUNS && (times.len() < 3 || started.elapsed() < TIME_MAX) {
        let begun = Instant::now();
        last = page();
        times.push(begun.elapsed());
    }
    let cpu = processor_time().saturating_sub(cpu) / u32::try_from(times.len()).unwrap();
    times.sort_unstable();
    (times[times.len() / 2].as_secs_f64() * 1e6, cpu.as_secs_f64() * 1e6, last)
}

/// What all threads of this process have used so far; nothing where the system does not tell.
fn processor_time() -> Duration {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return Duration::ZERO };
    let of_thread = |thread: std::fs::DirEntry| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
    };
    threads.filter_map(|thread| of_thread(thread.ok()?)).sum()
}
