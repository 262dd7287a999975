//! What the requests of the blog cost inside the engine, over a data folder that a server has filled:
//! `cargo run --release -p armilla-engine --example fetches -- FOLDER [ROW] [OPERATIONS] [CACHE MB]`.
//!
//! The folder holds the database `blog` with the containers `posts` (key `/postId`), `users_v3` (`/userId`) and
//! `feed` (`/type`). Prints the processor time of an operation, the least of some rounds, and the items
//! that were read; posts and users are picked at random, the same ones each time. `scan` goes through all items
//! of `posts` for a condition that no index serves. Under `valgrind --tool=callgrind` one round of few
//! operations tells instructions, which a busy machine does not change.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a tool that measures")]

use armilla_engine::query::{Limit, PageOptions, Query, Request, Scope, Threads};
use armilla_engine::ranges::EpkSpan;
use armilla_engine::{Account, Container, Options};
use armilla_model::partition_key::PartitionKey;
use armilla_storage::disk::FolderDisk;
use armilla_storage::{Durability, EmbeddedOptions, EmbeddedStore};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// As the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const DATABASE: &str = "blog";
const ROUNDS: usize = 5;
const ROWS: [&str; 7] = ["V2.Q2", "V2.Q3", "V2.Q4", "V2.Q5", "V2.Q6", "V3.Q3", "V3.Q6"];
const RECENT: &str = "SELECT TOP 100 * FROM p WHERE p.type = 'post' ORDER BY p.creationDate DESC";
const BY_USER: &str = "SELECT * FROM p WHERE p.type = 'post' AND p.userId = @x";
const COMMENTS: &str = "SELECT * FROM c WHERE c.postId = @x AND c.type = 'comment'";
const LIKES: &str = "SELECT * FROM c WHERE c.postId = @x AND c.type = 'like'";
const POST: &str = "SELECT * FROM c WHERE c.postId = @x AND c.id = @x";
const SCAN: &str = "SELECT VALUE COUNT(1) FROM c WHERE c._etag = 'x'";

struct Blog {
    posts: Arc<Container>,
    users: Arc<Container>,
    feed: Arc<Container>,
    post_ids: Vec<String>,
    user_ids: Vec<String>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let folder = Path::new(arguments.first().expect("usage: fetches FOLDER [ROW] [OPERATIONS]"));
    let row = arguments.get(1).map_or("all", String::as_str);
    let operations = arguments.get(2).map_or(2000, |text| text.parse().unwrap());
    let mut embedded = EmbeddedOptions::default();
    if let Some(megabytes) = arguments.get(3) {
        embedded.cache_bytes = megabytes.parse::<u64>().unwrap() << 20;
    }
    let store = Arc::new(EmbeddedStore::open(folder, &embedded).unwrap());
    let options = Options {
        disk: Some(Arc::new(FolderDisk::new(folder).unwrap())),
        durability: Durability::Relaxed,
        background: false,
        ..Options::default()
    };
    let account = Account::open(store, options).unwrap();
    let container = |name: &str| account.container(DATABASE, name).unwrap();
    let (posts, users, feed) = (container("posts"), container("users_v3"), container("feed"));
    let post_ids = names(&posts, "SELECT VALUE c.id FROM c WHERE c.type = 'post'");
    let user_ids = names(&users, "SELECT VALUE c.id FROM c WHERE c.type = 'user'");
    println!("{} posts, {} users", post_ids.len(), user_ids.len());
    let blog = Blog { posts, users, feed, post_ids, user_ids };
    for name in ROWS.into_iter().chain(["scan"]).filter(|name| row == "all" || row == *name) {
        measure(&blog, name, if name == "scan" { 1 } else { operations });
    }
    account.close().unwrap();
}

fn measure(blog: &Blog, row: &str, operations: u64) {
    let mut least = Duration::MAX;
    let (mut items, mut rows) = (0, 0);
    for round in 0..ROUNDS {
        (items, rows) = (0, 0);
        let started = processor_time();
        for operation in 0..operations {
            let (read, made) = ask(blog, row, round as u64 * operations + operation);
            items += read;
            rows += made;
        }
        least = least.min(processor_time().saturating_sub(started));
        if std::env::var_os("FETCHES_ONE_ROUND").is_some() {
            break;
        }
    }
    let each = |sum: u64| sum as f64 / operations as f64;
    println!(
        "{row:6} {:>12.2} us of processor time, {:>10.1} items read, {:>6.1} rows",
        least.as_secs_f64() * 1e6 / operations as f64,
        each(items),
        each(rows)
    );
}

/// One request: items read and rows.
fn ask(blog: &Blog, row: &str, operation: u64) -> (u64, u64) {
    let pick = |names: &[String]| {
        let mixed = (operation + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        names[(mixed >> 33) as usize % names.len()].clone()
    };
    match row {
        "V2.Q2" => page(&blog.posts, POST, &pick(&blog.post_ids), true),
        "V2.Q3" => page(&blog.posts, BY_USER, &pick(&blog.user_ids), false),
        "V2.Q4" => page(&blog.posts, COMMENTS, &pick(&blog.post_ids), true),
        "V2.Q5" => page(&blog.posts, LIKES, &pick(&blog.post_ids), true),
        "V2.Q6" => page(&blog.posts, RECENT, "", false),
        "V3.Q3" => page(&blog.users, BY_USER, &pick(&blog.user_ids), true),
        "V3.Q6" => page(&blog.feed, RECENT, "post", true),
        "scan" => page(&blog.posts, SCAN, "", false),
        other => panic!("no row is named {other}"),
    }
}

fn page(container: &Arc<Container>, text: &str, argument: &str, by_key: bool) -> (u64, u64) {
    let scope = if by_key {
        let key = PartitionKey::parse(&format!("[\"{argument}\"]")).unwrap();
        let span = EpkSpan::of_prefix(&container.settings().policy.partition_key.epk(&key));
        Scope { span, limit: Limit::Key, cross_partition: false }
    } else {
        Scope { span: EpkSpan::all(), limit: Limit::Container, cross_partition: true }
    };
    let body =
        format!(r#"{{"query":"{text}","parameters":[{{"name":"@x","value":"{argument}"}}]}}"#);
    let (mut continuation, mut read, mut rows) = (None::<String>, 0, 0);
    loop {
        let request = Request::parse(body.as_bytes()).unwrap();
        let query = Query::new(container.clone(), request, &scope).unwrap();
        let from = continuation.as_deref();
        let options = PageOptions { count_max: 100, continuation: from, range_by_range: false };
        let page = query.on(Threads::One).page(options).unwrap();
        read += page.metrics.retrieved_count;
        rows += page.rows.len() as u64;
        continuation = page.continuation;
        if continuation.is_none() {
            return (read, rows);
        }
    }
}

fn names(container: &Arc<Container>, text: &str) -> Vec<String> {
    let scope = Scope { span: EpkSpan::all(), limit: Limit::Container, cross_partition: true };
    let (mut names, mut continuation) = (Vec::new(), None::<String>);
    loop {
        let query = Query::new(container.clone(), Request::of_text(text), &scope).unwrap();
        let from = continuation.as_deref();
        let options = PageOptions { count_max: 1000, continuation: from, range_by_range: false };
        let page = query.on(Threads::One).page(options).unwrap();
        let name = |row: &[u8]| String::from_utf8_lossy(row).trim_matches('"').to_owned();
        names.extend(page.rows.iter().map(|row| name(row)));
        continuation = page.continuation;
        if continuation.is_none() {
            names.sort_unstable();
            return names;
        }
    }
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
