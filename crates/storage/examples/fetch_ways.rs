//! What fetching items costs, by ways of keeping them:
//!
//! ```text
//! cargo run --release -p armilla-storage --example fetch_ways -- <folder> [posts] [cache MB] [ways]
//! ```
//!
//! Items of a blog (a post, 0 to 25 comments, 0 to 100 likes per logical partition) are loaded into the
//! engine's trees, set up in several ways, and into an append-only log whose positions stand in memory, as
//! the segments of an index could carry them. Then the same items are fetched: single ones, the scattered posts of a
//! user, the comments and the likes of a post, all of them. Times are processor time of all threads.
//! The log is a sketch for comparing: nothing of it serves a store. The folder must not exist; it is
//! removed at the end.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a tool for people at a terminal")]

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use armilla_storage::keycode::KeyWriter;
use bytes::Bytes;
use fjall::config::{
    BlockSizePolicy, CompressionPolicy, HashRatioPolicy, PartitioningPolicy, PinningPolicy,
    RestartIntervalPolicy,
};
use fjall::{
    CompressionType, Database, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch, PersistMode,
    Readable, Snapshot,
};

const BUFFER_BYTES: u64 = 64 << 20;
const HEADER_BYTES: usize = 54;
/// Records of the log: length and checksum stand before each.
const FRAME_BYTES: usize = 8;
/// Records of the log that lie no farther apart are read together.
const GAP_BYTES: u64 = 4096;
const LOG_BUFFER_BYTES: usize = 1 << 20;
const OPERATIONS: u64 = 4000;
const SCATTERED: u64 = 28;

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Post,
    Comment,
    Like,
}

/// An item: which post it belongs to, what it is, and its number there.
#[derive(Clone, Copy)]
struct Item {
    post: u64,
    kind: Kind,
    number: u64,
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().expect("usage: fetch_ways <folder> [posts]"));
    let posts = arguments.next().map_or(7000, |text| text.parse().unwrap());
    let cache = arguments.next().map_or(128, |text| text.parse().unwrap());
    let wanted = arguments.next().unwrap_or_default();
    assert!(!folder.exists(), "{} exists", folder.display());
    fs::create_dir_all(&folder).unwrap();
    for (name, way) in ways() {
        if wanted.is_empty() || wanted.split(',').any(|wanted| wanted == name) {
            let path = folder.join(name);
            measure_trees(name, &path, way, posts, cache << 20);
            fs::remove_dir_all(&path).unwrap();
        }
    }
    if wanted.is_empty() || wanted.contains("log") {
        measure_log(&folder.join("log"), posts);
    }
    fs::remove_dir_all(&folder).unwrap();
}

/// The ways to set up the engine's trees.
fn ways() -> Vec<(&'static str, KeyspaceCreateOptions)> {
    let lz4 = || CompressionPolicy::all(CompressionType::Lz4);
    let base = || {
        KeyspaceCreateOptions::default()
            .manual_journal_persist(true)
            .data_block_compression_policy(lz4())
            .max_memtable_size(BUFFER_BYTES)
            .data_block_size_policy(BlockSizePolicy::all(4096))
    };
    let whole = || base().data_block_restart_interval_policy(RestartIntervalPolicy::all(1));
    let pinned = |options: KeyspaceCreateOptions| {
        options
            .index_block_partitioning_policy(PartitioningPolicy::all(false))
            .filter_block_partitioning_policy(PartitioningPolicy::all(false))
            .index_block_pinning_policy(PinningPolicy::all(true))
            .filter_block_pinning_policy(PinningPolicy::all(true))
    };
    let blocks = |options: KeyspaceCreateOptions, kib: u32| {
        options.data_block_size_policy(BlockSizePolicy::all(kib * 1024))
    };
    let raw = CompressionPolicy::all(CompressionType::None);
    vec![
        ("base", base()),
        ("whole-keys", whole()),
        ("pinned", pinned(base())),
        ("whole-pinned", pinned(whole())),
        (
            "whole-pinned-hash",
            pinned(whole()).data_block_hash_ratio_policy(HashRatioPolicy::all(0.75)),
        ),
        ("whole-pinned-8k", blocks(pinned(whole()), 8)),
        ("whole-pinned-16k", blocks(pinned(whole()), 16)),
        ("whole-pinned-raw", pinned(whole()).data_block_compression_policy(raw)),
    ]
}

fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (number ^ (number >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// The items of a post, in the order in which they are written.
fn items_of(post: u64) -> Vec<Item> {
    let (comments, likes) = (mixed(post) % 26, mixed(post + 1_000_003) % 101);
    let mut items = vec![Item { post, kind: Kind::Post, number: 0 }];
    items.extend((0..comments).map(|number| Item { post, kind: Kind::Comment, number }));
    items.extend((0..likes).map(|number| Item { post, kind: Kind::Like, number }));
    items
}

fn key(item: Item) -> Vec<u8> {
    let hash = mixed(item.post * 1000 + item.number * 3 + item.kind as u64);
    prefix_writer(item.post).u64(hash).u8(0).finish()
}

fn prefix_writer(post: u64) -> KeyWriter {
    KeyWriter::with_capacity(29).u32(1).u64(mixed(post)).u64(mixed(!post))
}

fn value(item: Item) -> Vec<u8> {
    const WORDS: [&str; 16] = [
        "partition",
        "the",
        "container",
        "of",
        "document",
        "a",
        "database",
        "throughput",
        "is",
        "consistency",
        "request",
        "and",
        "unit",
        "which",
        "index",
        "query",
    ];
    let (kind, words) = match item.kind {
        Kind::Post => ("post", 90),
        Kind::Comment => ("comment", 30),
        Kind::Like => ("like", 0),
    };
    let hash = mixed(item.post * 1000 + item.number * 3 + item.kind as u64);
    let mut text = format!(
        r#"{{"id":"{hash:032x}","type":"{kind}","postId":"{:032x}","userId":"{:032x}","userUsername":"user-{}","creationDate":"2026-01-01T{:08}""#,
        mixed(item.post),
        mixed(hash % 1000),
        hash % 1000,
        hash % 100_000_000
    );
    if words > 0 {
        text.push_str(r#","content":""#);
        for word in 0..words {
            text.push_str(WORDS[(mixed(hash + word) >> 60) as usize]);
            text.push(' ');
        }
        text.push('"');
    }
    text += &format!(
        r#","_rid":"{:016}","_self":"dbs/AAAA/colls/AAAA/docs/{:016}/","_etag":"{:08x}-0000-0000","_attachments":"attachments/","_ts":{}}}"#,
        hash >> 12,
        hash >> 12,
        hash >> 32,
        1_700_000_000 + (hash >> 50)
    );
    let mut value = vec![0; HEADER_BYTES];
    value[0] = 1;
    value[2..10].copy_from_slice(&hash.to_be_bytes());
    value.extend_from_slice(text.as_bytes());
    value
}

fn measure_trees(name: &str, path: &Path, way: KeyspaceCreateOptions, posts: u64, cache: u64) {
    let started = cpu_time();
    let database = Database::builder(path)
        .cache_size(cache)
        .max_journaling_size(128 << 20)
        .worker_threads(3)
        .journal_compression(CompressionType::None)
        .open()
        .unwrap();
    let tree = database.keyspace("items", || way).unwrap();
    let mut loaded = 0;
    for post in 0..posts {
        let items = items_of(post);
        let batch = OwnedWriteBatch::with_capacity(database.clone(), items.len());
        let mut batch = batch.durability(Some(PersistMode::Buffer));
        items.iter().for_each(|item| batch.insert(&tree, key(*item), value(*item)));
        batch.commit().unwrap();
        loaded += items.len() as u64;
    }
    tree.rotate_memtable_and_wait().unwrap();
    while database.active_compactions() > 0 || database.outstanding_flushes() > 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let made = making_time(posts);
    println!(
        "{name:18} load {:>6.2} us per item of {loaded} ({:.2} us making them taken off), {} MB",
        per(loaded, (cpu_time() - started).saturating_sub(made)),
        per(loaded, made),
        tree.disk_space() >> 20
    );
    let snapshot = database.snapshot();
    let get = |item: Item| snapshot.get(&tree, key(item)).unwrap().unwrap();
    let pass = |post, kind: Kind| partition(&snapshot, &tree, post, kind);
    report(
        name,
        posts,
        loaded,
        &|items, kind| match kind {
            None => items.iter().map(|item| get(*item).len() as u64).sum(),
            Some(kind) => pass(items[0].post, kind),
        },
        &|| snapshot.iter(&tree).map(|entry| entry.into_inner().unwrap().1.len() as u64).sum(),
    );
}

/// One pass over a logical partition, as a prefetch makes it: all of it is read, what is wanted is kept.
fn partition(snapshot: &Snapshot, tree: &Keyspace, post: u64, kind: Kind) -> u64 {
    let prefix = prefix_writer(post).finish();
    let wanted: &[u8] = match kind {
        Kind::Post => b"post",
        Kind::Comment => b"comment",
        Kind::Like => b"like",
    };
    const AT: usize = HEADER_BYTES + 49;
    let mut bytes = 0;
    for entry in snapshot.prefix(tree, prefix) {
        let value = Bytes::from(entry.into_inner().unwrap().1);
        if value[AT..].starts_with(wanted) {
            bytes += value.len() as u64;
        }
    }
    assert!(bytes > 0 || kind != Kind::Post);
    bytes
}

/// Processor time of making keys and values, which is not the store's.
fn making_time(posts: u64) -> Duration {
    let started = cpu_time();
    let mut bytes = 0;
    for post in 0..posts {
        for item in items_of(post) {
            bytes += key(item).len() + value(item).len();
        }
    }
    assert!(bytes > 0);
    cpu_time() - started
}

/// What the n-th operation of a row asks for: the items, and the kind if one pass shall find them.
type Asking<'a> = &'a dyn Fn(u64) -> (Vec<Item>, Option<Kind>);
type Fetch<'a> = &'a dyn Fn(&[Item], Option<Kind>) -> u64;

fn report(name: &str, posts: u64, loaded: u64, fetch: Fetch<'_>, scan: &dyn Fn() -> u64) {
    let of_kind = |post: u64, kind: Kind| -> Vec<Item> {
        items_of(post).into_iter().filter(|item| item.kind == kind).collect()
    };
    let post_of = |operation: u64| mixed(operation * 7 + 13) % posts;
    let rows: [(&str, Asking<'_>); 6] = [
        ("one item", &|n| (of_kind(post_of(n), Kind::Post), None)),
        ("28 scattered", &|n| {
            let posts = (0..SCATTERED).map(|k| post_of(n * SCATTERED + k));
            (posts.map(|post| Item { post, kind: Kind::Post, number: 0 }).collect(), None)
        }),
        ("comments, each", &|n| (of_kind(post_of(n), Kind::Comment), None)),
        ("comments, pass", &|n| (of_kind(post_of(n), Kind::Comment), Some(Kind::Comment))),
        ("likes, each", &|n| (of_kind(post_of(n), Kind::Like), None)),
        ("likes, pass", &|n| (of_kind(post_of(n), Kind::Like), Some(Kind::Like))),
    ];
    for (row, make) in rows {
        let mut asked: Vec<_> = (0..OPERATIONS).map(make).collect();
        asked.retain(|(items, _)| !items.is_empty());
        let mut least = Duration::MAX;
        for _ in 0..3 {
            let started = cpu_time();
            let bytes: u64 = asked.iter().map(|(items, kind)| fetch(items, *kind)).sum();
            assert!(bytes > 0);
            least = least.min(cpu_time() - started);
        }
        println!("{name:18} {row:16} {:>8.2} us", per(asked.len() as u64, least));
    }
    let started = cpu_time();
    assert!(scan() > 0);
    println!(
        "{name:18} scan             {:>8.2} us per item, {} MB resident",
        per(loaded, cpu_time() - started),
        resident()
    );
}

/// Items in an append-only file, each with its length and checksum; positions by post, in memory.
struct Log {
    file: File,
    /// Per post, per item in order of writing: where its record begins, and its length.
    positions: Vec<Vec<(u64, u32)>>,
    end: u64,
}

impl Log {
    /// Visits the values of the items, each checked.
    fn read(&self, wanted: &[(u64, u32)], visit: &mut dyn FnMut(Bytes)) {
        let mut from = 0;
        while from < wanted.len() {
            let begin = wanted[from].0;
            let (mut to, mut end) = (from, begin);
            while to < wanted.len() && wanted[to].0 >= end && wanted[to].0 - end <= GAP_BYTES {
                end = wanted[to].0 + FRAME_BYTES as u64 + u64::from(wanted[to].1);
                to += 1;
            }
            let to = to.max(from + 1);
            let end = end.max(begin + FRAME_BYTES as u64 + u64::from(wanted[from].1));
            let mut buffer = vec![0; usize::try_from(end - begin).unwrap()];
            self.file.read_exact_at(&mut buffer, begin).unwrap();
            let buffer = Bytes::from(buffer);
            for (position, length) in &wanted[from..to] {
                let at = usize::try_from(position - begin).unwrap();
                visit(checked(&buffer.slice(at..at + FRAME_BYTES + *length as usize)));
            }
            from = to;
        }
    }
}

/// The value of a record whose length and checksum are right.
fn checked(record: &Bytes) -> Bytes {
    let length = u32::from_le_bytes(record[..4].try_into().unwrap());
    let checksum = u32::from_le_bytes(record[4..8].try_into().unwrap());
    let value = record.slice(FRAME_BYTES..);
    assert_eq!(length as usize, value.len());
    assert_eq!(checksum, crc32c::crc32c(&value));
    value
}

fn measure_log(path: &Path, posts: u64) {
    let started = cpu_time();
    let mut writer = File::create(path).unwrap();
    let (mut positions, mut end, mut loaded) = (Vec::new(), 0u64, 0);
    let mut buffer = Vec::with_capacity(LOG_BUFFER_BYTES * 2);
    for post in 0..posts {
        let items = items_of(post);
        let mut of_post = Vec::with_capacity(items.len());
        for item in &items {
            let (key, value) = (key(*item), value(*item));
            assert!(!key.is_empty());
            let length = u32::try_from(value.len()).unwrap();
            buffer.extend_from_slice(&length.to_le_bytes());
            buffer.extend_from_slice(&crc32c::crc32c(&value).to_le_bytes());
            buffer.extend_from_slice(&value);
            of_post.push((end, length));
            end += FRAME_BYTES as u64 + u64::from(length);
        }
        loaded += items.len() as u64;
        positions.push(of_post);
        if buffer.len() >= LOG_BUFFER_BYTES {
            writer.write_all(&buffer).unwrap();
            buffer.clear();
        }
    }
    writer.write_all(&buffer).unwrap();
    let made = making_time(posts);
    let log = Log { file: File::open(path).unwrap(), positions, end };
    let name = "log";
    println!(
        "{name:18} load {:>6.2} us per item of {loaded}, {} MB",
        per(loaded, (cpu_time() - started).saturating_sub(made * 2)),
        log.end >> 20
    );
    report(name, posts, loaded, &|items, _| fetch_from_log(&log, items), &|| scan_log(&log));
}

fn fetch_from_log(log: &Log, items: &[Item]) -> u64 {
    let place = |item: &Item| {
        let of_post = &log.positions[usize::try_from(item.post).unwrap()];
        let comments = mixed(item.post) % 26;
        let at = match item.kind {
            Kind::Post => 0,
            Kind::Comment => 1 + item.number,
            Kind::Like => 1 + comments + item.number,
        };
        of_post[usize::try_from(at).unwrap()]
    };
    let wanted: Vec<_> = items.iter().map(place).collect();
    let mut bytes = 0;
    log.read(&wanted, &mut |value| bytes += value.len() as u64);
    bytes
}

fn scan_log(log: &Log) -> u64 {
    let mut bytes = 0;
    for of_posts in log.positions.chunks(16) {
        let wanted: Vec<_> = of_posts.iter().flatten().copied().collect();
        log.read(&wanted, &mut |value| bytes += value.len() as u64);
    }
    bytes
}

fn per(count: u64, time: Duration) -> f64 {
    time.as_secs_f64() * 1e6 / count.max(1) as f64
}

/// What all threads of this process have used so far; nothing where the system does not tell.
fn cpu_time() -> Duration {
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return Duration::ZERO };
    let of_thread = |thread: fs::DirEntry| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
    };
    threads.filter_map(|thread| of_thread(thread.ok()?)).sum()
}

/// Resident megabytes of this process, where the system tells.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0) / 1024
}
