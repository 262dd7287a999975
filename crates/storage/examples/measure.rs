//! What the embedded store costs on this machine.
//!
//! ```text
//! cargo run --release -p armilla-storage --example measure -- <folder> [items] [workers] [buffer MB]
//! ```
//!
//! Writes a raw journal for comparison, commits with one and with sixteen writers, loads `items`
//! items with their feed entries, then measures snapshots, point reads, scans and restarts. The
//! folder must not exist; it is removed at the end.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a tool for people at a terminal")]

use std::fs::{self, File};
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use armilla_storage::keycode::KeyWriter;
use armilla_storage::{
    Batch, Committer, Completion, Direction, Durability, EmbeddedOptions, EmbeddedStore, KeyRange,
    Keyspace, Pressure, Snapshot, Store, Submission,
};

const COMMIT_TIME: Duration = Duration::from_secs(3);
const LOAD_BATCH: u64 = 100;
const LOAD_QUEUE: usize = 16;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(
        arguments.next().expect("usage: measure <folder> [items] [workers] [buffer MB]"),
    );
    let items = arguments.next().map_or(300_000, |text| text.parse().unwrap());
    let mut options = EmbeddedOptions::default();
    if let Some(workers) = arguments.next() {
        options.workers = workers.parse().unwrap();
    }
    if let Some(megabytes) = arguments.next() {
        options.items_buffer_bytes = megabytes.parse::<u64>().unwrap() << 20;
    }
    assert!(!folder.exists(), "{} exists", folder.display());
    fs::create_dir_all(&folder).unwrap();
    measure_disk(&folder);
    measure_commits(&folder.join("commits"), &options);
    measure_data(&folder.join("data"), &options, items);
    fs::remove_dir_all(&folder).unwrap();
}

/// The floor under every synced commit: append 1 KiB to a file and sync it.
fn measure_disk(folder: &Path) {
    let mut file = File::create(folder.join("raw")).unwrap();
    let (start, mut count) = (Instant::now(), 0u32);
    while start.elapsed() < Duration::from_secs(1) {
        file.write_all(&[7; 1024]).unwrap();
        file.sync_data().unwrap();
        count += 1;
    }
    println!("raw append + sync           {:>10.0} /s", rate(count.into(), start));
}

fn measure_commits(folder: &Path, options: &EmbeddedOptions) {
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(folder, options).unwrap());
    for writers in [1u64, 16, 64] {
        let as_store = Arc::clone(&store);
        let committer = Committer::start(as_store, Durability::Synced, Box::new(|_, _| ()));
        let (start, cpu) = (Instant::now(), cpu_time());
        let done = AtomicU64::new(0);
        thread::scope(|scope| {
            for writer in 0..writers {
                let (committer, done) = (&committer, &done);
                scope.spawn(move || {
                    for number in 0.. {
                        if start.elapsed() > COMMIT_TIME {
                            break;
                        }
                        commit_and_wait(committer, item_batch((writer << 32) | number, 1));
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        let done = done.into_inner();
        let cpu = (cpu_time() - cpu).as_secs_f64() * 1e6 / done as f64;
        let groups = committer.stats().groups;
        println!(
            "commits, {writers:>2} writers         {:>10.0} /s   {:.1} per group, {cpu:.0} CPU µs each",
            rate(done, start),
            done as f64 / groups as f64,
        );
    }
    let count = 1_000_000;
    let start = Instant::now();
    (0..count).for_each(|_| drop(store.snapshot()));
    println!("snapshot                    {:>10.0} ns", nanos(count, start));
    store.close().unwrap();
}

fn measure_data(folder: &Path, options: &EmbeddedOptions, items: u64) {
    let store = Arc::new(EmbeddedStore::open(folder, options).unwrap());
    load(&store, items);
    measure_reads(&*store.snapshot(), items, "right after the load");
    drop(store);
    let store = reopen(folder, options, "after a crash");
    while store.stats().merges_active > 0 {
        thread::sleep(Duration::from_millis(50));
    }
    measure_reads(&*store.snapshot(), items, "after a restart");
    let start = Instant::now();
    store.close().unwrap();
    println!("clean stop                  {:>10.0} ms", start.elapsed().as_secs_f64() * 1e3);
    drop(store);
    drop(reopen(folder, options, "after a clean stop"));
}

fn load(store: &Arc<EmbeddedStore>, items: u64) {
    let as_store = Arc::clone(store) as Arc<dyn Store>;
    let committer = Committer::start(as_store, Durability::Synced, Box::new(|_, _| ()));
    let (start, cpu) = (Instant::now(), cpu_time());
    let mut pressure = Pressure::Calm;
    let (mut worst, mut last) = (Duration::ZERO, Instant::now());
    for first in (0..items).step_by(usize::try_from(LOAD_BATCH).unwrap()) {
        submit(&committer, item_batch(first, LOAD_BATCH.min(items - first)));
        while committer.queue_len() >= LOAD_QUEUE {
            thread::sleep(Duration::from_micros(20));
        }
        worst = worst.max(last.elapsed());
        last = Instant::now();
        pressure = pressure.max(store.pressure());
    }
    committer.stop();
    let cpu = (cpu_time() - cpu).as_secs_f64() * 1e6 / items as f64;
    let stats = store.stats();
    println!(
        "load of {items} items      {:>10.0} /s   {cpu:.1} CPU µs each, longest wait {worst:?}, \
         pressure at most {pressure:?}, {} MB on disk, {} MB journal",
        rate(items, start),
        stats.disk_bytes >> 20,
        stats.journal_bytes >> 20,
    );
}

/// In CPU time, which a busy machine distorts less than time on the clock.
fn measure_reads(snapshot: &dyn Snapshot, items: u64, when: &str) {
    let count = 200_000.min(items);
    let start = cpu_time();
    for number in 0..count {
        let number = number.wrapping_mul(0x5851_f42d_4c95_7f2d) % items;
        assert!(snapshot.get(Keyspace::Items, &item_key(number)).unwrap().is_some());
    }
    println!("point read                  {:>10.0}  CPU ns   {when}", cpu_nanos(count, start));
    let start = cpu_time();
    for number in 0..count {
        assert!(snapshot.get(Keyspace::Items, &item_key(items + number)).unwrap().is_none());
    }
    println!("point read, absent          {:>10.0} CPU ns", cpu_nanos(count, start));
    let (start, mut seen) = (cpu_time(), 0);
    let all = KeyRange::all();
    snapshot
        .scan(Keyspace::Items, &all, Direction::Forward, &mut |_, _| {
            seen += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
    println!("scan, per item              {:>10.0} CPU ns", cpu_nanos(seen, start));
}

fn reopen(folder: &Path, options: &EmbeddedOptions, when: &str) -> EmbeddedStore {
    let (start, cpu) = (Instant::now(), cpu_time());
    let store = EmbeddedStore::open(folder, options).unwrap();
    let millis = start.elapsed().as_secs_f64() * 1e3;
    let cpu = (cpu_time() - cpu).as_millis();
    let journal = store.stats().journal_bytes >> 20;
    println!(
        "open                        {millis:>10.0} ms   {when}, {cpu} CPU ms, {journal} MB journal"
    );
    store
}

/// Items as the engine writes them: a scattered key of 29 bytes, about 600 bytes of text, a feed entry.
fn item_batch(first: u64, count: u64) -> Batch {
    let mut batch = Batch::new();
    for number in first..first + count {
        batch.put(Keyspace::Items, item_key(number), item_text(number));
        let feed = KeyWriter::with_capacity(20).u32(1).u32(0).u64(number).u32(0).finish();
        batch.put(Keyspace::Feed, feed, item_key(number));
    }
    batch
}

fn item_key(number: u64) -> Vec<u8> {
    let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    KeyWriter::with_capacity(29).u32(1).u64(hash).u64(!hash).u64(hash ^ number).u8(0).finish()
}

fn item_text(number: u64) -> String {
    let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let words = ["partition", "container", "document", "database", "throughput", "consistency"];
    let mut text = format!(r#"{{"id":"{hash:016x}","userId":"{:08x}","title":""#, hash >> 32);
    for step in 0..40u64 {
        text.push_str(words[usize::try_from((hash >> (step % 60)) % 6).unwrap()]);
        text.push(' ');
    }
    text + &format!(r#"","_rid":"{number:016}","_ts":{number},"_etag":"{hash:032x}"}}"#)
}

struct Tell(mpsc::SyncSender<()>);

impl Completion for Tell {
    fn apply(&mut self, _group: u64) {}
    fn notify(self: Box<Self>) {
        let _ = self.0.send(());
    }
}

struct Ignore;

impl Completion for Ignore {
    fn apply(&mut self, _group: u64) {}
    fn notify(self: Box<Self>) {}
}

fn commit_and_wait(committer: &Committer, batch: Batch) {
    let (tell, told) = mpsc::sync_channel(1);
    committer.submit(Submission { batch, completion: Box::new(Tell(tell)) });
    told.recv().unwrap();
}

fn submit(committer: &Committer, batch: Batch) {
    committer.submit(Submission { batch, completion: Box::new(Ignore) });
}

fn rate(count: u64, start: Instant) -> f64 {
    count as f64 / start.elapsed().as_secs_f64()
}

fn nanos(count: u64, start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e9 / count as f64
}

fn cpu_nanos(count: u64, start: Duration) -> f64 {
    (cpu_time() - start).as_secs_f64() * 1e9 / count as f64
}

/// CPU time of this process so far; zero where the system does not tell in this way.
fn cpu_time() -> Duration {
    let Ok(text) = fs::read_to_string("/proc/self/stat") else { return Duration::ZERO };
    let after_name = text.rsplit(')').next().unwrap_or_default();
    let fields = after_name.split_whitespace().skip(11).take(2);
    let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}
