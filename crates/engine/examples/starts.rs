//! How long a start takes, and how much memory it needs.
//!
//! `cargo run --release -p armilla-engine --example starts -- FOLDER [ITEMS]` fills a folder with small
//! items, stops properly, and times starts: of the empty folder and after the proper stop. Then it writes
//! some more and dies; `-- FOLDER --again` times the start of a process of its own after that, and, called
//! once more, the same again. Run it on a folder of its own.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a measurement is read by people")]

use armilla_engine::account::NewContainer;
use armilla_engine::items::WriteOptions;
use armilla_engine::{Account, Container, Options, Txn};
use armilla_model::json;
use armilla_model::partition_key::PartitionKey;
use armilla_storage::disk::FolderDisk;
use armilla_storage::{Durability, EmbeddedOptions, EmbeddedStore};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Instant;

/// Transactions under way at a time.
const IN_FLIGHT: usize = 64;
/// Items of one logical partition, written together.
const PER_KEY: u64 = 20;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let folder = Path::new(arguments.first().map_or("starts-data", String::as_str));
    let items = arguments.get(1).and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    if arguments.iter().any(|argument| argument == "--again") {
        let account = timed("again", folder);
        println!("replayed and scanned: {:?}, memory {} MB", account.opened_indexes(), memory());
        return;
    }
    let account = timed("empty", folder);
    account.create_database("d", None).unwrap();
    let definition = json::parse(br#"{"id":"c","partitionKey":{"paths":["/pk"]}}"#).unwrap();
    let new = NewContainer { definition: &definition, throughput: None };
    let container = account.create_container("d", &new).unwrap();
    let start = Instant::now();
    fill(&container, 0, items);
    println!(
        "{items} items written in {:.1} s, memory {} MB",
        start.elapsed().as_secs_f64(),
        memory()
    );
    let start = Instant::now();
    account.close().unwrap();
    println!("closed in {:.2} s", start.elapsed().as_secs_f64());
    drop((container, account));
    let account = timed("after a proper stop", folder);
    println!("replayed and scanned: {:?}, memory {} MB", account.opened_indexes(), memory());
    let container = account.container("d", "c").unwrap();
    assert_eq!(container.document_count(), items);
    fill(&container, items, items / 20);
    println!("died without a stop; go on with --again");
    std::process::exit(0);
}

fn timed(name: &str, folder: &Path) -> Arc<Account> {
    let start = Instant::now();
    let store = EmbeddedStore::open(folder, &EmbeddedOptions::default()).unwrap();
    let opened = start.elapsed();
    let options = Options {
        disk: Some(Arc::new(FolderDisk::new(folder).unwrap())),
        durability: Durability::Relaxed,
        background: false,
        ..Options::default()
    };
    let account = Account::open(Arc::new(store), options).unwrap();
    let millis = |time: std::time::Duration| time.as_secs_f64() * 1000.0;
    let (total, store) = (millis(start.elapsed()), millis(opened));
    println!("start, {name}: {total:.1} ms, of which the store {store:.1} ms");
    account
}

fn fill(container: &Arc<Container>, first: u64, items: u64) {
    let mut waiting = std::collections::VecDeque::<Receiver<()>>::new();
    for group in 0..items.div_ceil(PER_KEY) {
        let pk = format!("post-{}", first / PER_KEY + group);
        let key = PartitionKey::parse(&format!(r#"["{pk}"]"#)).unwrap();
        let epk = container.settings().policy.partition_key.epk(&key);
        let mut txn = Txn::begin(container.clone(), key, container.lock_and_wait(&epk)).unwrap();
        for number in 0..PER_KEY.min(items - group * PER_KEY) {
            let id = first + group * PER_KEY + number;
            let text = format!(
                r#"{{"id":"{id}","pk":"{pk}","type":"like","userId":"user-{}","creationDate":"2024-01-01T{:08}"}}"#,
                id * 2_654_435_761 % 1000,
                id
            );
            txn.create_item(text.as_bytes(), &WriteOptions::default()).unwrap();
        }
        let (sender, receiver) = sync_channel(1);
        txn.commit(move |outcome| {
            outcome.unwrap();
            sender.send(()).unwrap();
        });
        waiting.push_back(receiver);
        if waiting.len() >= IN_FLIGHT {
            waiting.pop_front().unwrap().recv().unwrap();
        }
    }
    waiting.into_iter().for_each(|receiver| receiver.recv().unwrap());
}

/// Resident megabytes of this process, where the system tells.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0) / 1024
}
