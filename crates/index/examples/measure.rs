//! Measures an index of a million small documents, shaped like the blog scenario's.
//!
//! `cargo run --release -p armilla-index --example measure -- [documents] [group] [folder]`
//!
//! Documents are applied and published in groups by one thread; two other threads run the jobs,
//! as a server does. Without a folder everything stays in memory. With `wide` at the end documents
//! have 200 terms at 5,000 paths instead.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a tool for people")]

use std::{
    fs, io,
    path::PathBuf,
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use armilla_index::{
    Change, Direction, Document, EpkRange, Files, Index, Job, JobResult, Limits, Output, Terms,
    ValueRange, Version, View, intersect,
};
use bytes::Bytes;

const ID: u32 = 1;
const TYPE: u32 = 2;
const USER: u32 = 3;
const DATE: u32 = 4;
const LIKES: u32 = 5;
const CONTENT: u32 = 6;
const BLOCK: u64 = 1000;
const JOB_DOCUMENTS_SMALL: u64 = 100_000;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let documents: u64 = arguments.next().map_or(1_000_000, |text| text.parse().unwrap());
    let group: u64 = arguments.next().map_or(1000, |text| text.parse().unwrap());
    let folder = arguments.next().map(PathBuf::from);

    if std::env::args().any(|argument| argument == "wide") {
        return wide(documents);
    }
    let mut index = open(folder.clone());
    let view = load(&mut index, documents, group);
    println!("parts: {:?}", view.parts());
    let size: usize = view.parts().iter().map(|part| part.size()).sum();
    println!("bytes per document: {:.1}", size as f64 / documents as f64);
    ask(&view, documents);
    replace(&mut index, documents);
    let view = index.publish();
    println!("after the replaces, before merges:");
    ask(&view, documents);
    index.run_jobs().unwrap();
    println!("after merges:");
    ask(&index.publish(), documents);
    if folder.is_some() {
        let start = Instant::now();
        index.checkpoint().unwrap();
        println!("checkpoint: {:?}", start.elapsed());
        drop(index);
        let (start, cpu) = (Instant::now(), cpu_of_thread());
        let index = open(folder);
        let (wall, cpu) = (start.elapsed(), cpu_of_thread() - cpu);
        println!("open: {wall:?}, {cpu:?} CPU with reading, covered {}", index.covered_lsn());
    }
}

/// Documents with many terms, each at one of many paths.
fn wide(documents: u64) {
    let mut index = Index::in_memory(Limits::default());
    let (mut writing, mut sealing) = (Duration::ZERO, Duration::ZERO);
    for number in 0..documents {
        let (document, mut terms) = row(number, number);
        for term in 0..200 {
            let chance = random(number * 200 + term);
            terms.push(10 + (chance % 5000) as u32, &(chance >> 40).to_be_bytes());
        }
        let begin = Instant::now();
        index.apply(Change::Upsert { document, terms, replaces: None });
        if number % 16 == 15 {
            std::hint::black_box(index.publish());
            writing += begin.elapsed();
            let begin = cpu_of_thread();
            index.run_jobs().unwrap();
            sealing += cpu_of_thread() - begin;
        }
    }
    let each = |time: Duration| time.as_secs_f64() * 1e6 / documents as f64;
    println!("wide: {:.2} us to write, {:.2} us CPU for jobs each", each(writing), each(sealing));
    let view = index.publish();
    println!("parts: {:?}", view.parts());
    let size: usize = view.parts().iter().map(|part| part.size()).sum();
    println!("bytes per document: {:.1}", size as f64 / documents as f64);
}

fn open(folder: Option<PathBuf>) -> Index {
    match folder {
        Some(folder) => {
            fs::create_dir_all(&folder).unwrap();
            Index::open(Limits::default(), Arc::new(Folder(folder))).unwrap()
        }
        None => Index::in_memory(Limits::default()),
    }
}

/// Applies and publishes on this thread while two others run the jobs.
fn load(index: &mut Index, documents: u64, group: u64) -> Arc<View> {
    let (small, large, results) = workers();
    let start = Instant::now();
    let cpu = cpu_time();
    let (mut making, mut longest, mut out) = (Duration::ZERO, Duration::ZERO, 0);
    let mut number = 0;
    while number < documents {
        let begin = cpu_of_thread();
        let end = documents.min(number + group.max(BLOCK));
        let mut rows =
            (number..end).map(|number| row(number, number)).collect::<Vec<_>>().into_iter();
        number = end;
        making += cpu_of_thread() - begin;
        while rows.len() > 0 {
            let begin = Instant::now();
            for (document, terms) in rows.by_ref().take(group as usize) {
                index.apply(Change::Upsert { document, terms, replaces: None });
            }
            std::hint::black_box(index.publish());
            out += send(index, &small, &large);
            for result in results.try_iter() {
                index.install(result).unwrap();
                out -= 1;
            }
            longest = longest.max(begin.elapsed());
        }
    }
    let (loaded, writing) = (start.elapsed(), cpu_of_thread());
    while out > 0 {
        index.install(results.recv().unwrap()).unwrap();
        out -= 1;
        out += send(index, &small, &large);
    }
    let each = |time: Duration| time.as_secs_f64() * 1e6 / documents as f64;
    println!(
        "load of {documents} in groups of {group}: {:.2} us wall each, longest group {longest:?}; \
         CPU {:.2} us each, of it {:.2} on the writing thread (making the documents not counted)",
        each(loaded),
        each(cpu_time() - cpu - making),
        each(writing - making),
    );
    index.publish()
}

fn send(index: &mut Index, small: &mpsc::Sender<Job>, large: &mpsc::Sender<Job>) -> usize {
    let mut count = 0;
    while let Some(job) = index.take_job() {
        let queue = if job.documents() < JOB_DOCUMENTS_SMALL { small } else { large };
        queue.send(job).unwrap();
        count += 1;
    }
    count
}

fn workers() -> (mpsc::Sender<Job>, mpsc::Sender<Job>, mpsc::Receiver<JobResult>) {
    let (done, results) = mpsc::channel();
    let spawn = || {
        let (send, jobs) = mpsc::channel::<Job>();
        let done = done.clone();
        thread::spawn(move || {
            for job in jobs {
                done.send(job.run()).ok();
            }
        });
        send
    };
    (spawn(), spawn(), results)
}

/// Replaces a twentieth of the documents, in groups of sixteen.
fn replace(index: &mut Index, documents: u64) {
    let (groups, group) = (documents / 20 / 1600, 1600);
    let (mut writing, mut sealing) = (Duration::ZERO, Duration::ZERO);
    for number in 0..groups {
        let turns = number * group..(number + 1) * group;
        let changes: Vec<_> = turns.map(|turn| replacement(turn, documents)).collect();
        let begin = cpu_of_thread();
        for (turn, change) in changes.into_iter().enumerate() {
            index.apply(change);
            if turn % 16 == 15 {
                std::hint::black_box(index.publish());
            }
        }
        writing += cpu_of_thread() - begin;
        while let Some(job) = index.take_job() {
            let begin = cpu_of_thread();
            index.install(job.run()).unwrap();
            sealing += cpu_of_thread() - begin;
        }
    }
    let each = |time: Duration| time.as_secs_f64() * 1e6 / (groups * group) as f64;
    println!("replace: {:.2} us CPU each, {:.2} for jobs", each(writing), each(sealing));
}

fn replacement(turn: u64, documents: u64) -> Change {
    let number = random(turn) % documents;
    let (document, terms) = row(number, documents + turn);
    // Right unless the document was replaced before: then the LSN leads nowhere.
    let version = Version { epk: document.epk.clone(), docno: number + 1, lsn: Some(number + 1) };
    Change::Upsert { document, terms, replaces: Some(version) }
}

/// CPU time of all threads, where the system tells; wall time elsewhere.
fn cpu_time() -> Duration {
    let read = |entry: io::Result<fs::DirEntry>| {
        fs::read_to_string(entry.ok()?.path().join("schedstat")).ok()
    };
    match fs::read_dir("/proc/self/task") {
        Ok(tasks) => tasks.filter_map(read).map(|text| nanoseconds(&text)).sum(),
        Err(_) => wall(),
    }
}

/// CPU time of this thread, where the system tells.
fn cpu_of_thread() -> Duration {
    fs::read_to_string("/proc/thread-self/schedstat")
        .map_or_else(|_| wall(), |text| nanoseconds(&text))
}

fn nanoseconds(text: &str) -> Duration {
    let first = text.split_whitespace().next();
    Duration::from_nanos(first.and_then(|number| number.parse().ok()).unwrap_or(0))
}

fn wall() -> Duration {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

fn row(number: u64, lsn: u64) -> (Document, Terms) {
    let chance = random(number);
    let user = random(number + 77) % 10_000;
    let mut terms = Terms::new();
    terms.push(ID, format!("\x05{:08}-{:08x}", number, chance as u32).as_bytes());
    let kind: &[u8] = match chance % 100 {
        0..2 => b"\x05post",
        2..24 => b"\x05comment",
        _ => b"\x05like",
    };
    terms.push(TYPE, kind);
    terms.push(USER, format!("\x05user-{user:06}").as_bytes());
    let second = random(number + 4_000_000_007) % 100_000_000;
    terms.push(DATE, format!("\x052019-10-{second:014}").as_bytes());
    if kind != b"\x05like" {
        terms.push(LIKES, &(chance % 1000).to_be_bytes());
        terms.push_cut(
            CONTENT,
            format!("\x05text {chance:016x} and so on and so on and on").as_bytes(),
        );
    }
    let epk = (random(number / 60) as u128 * 0x1_0000_0001_0000_0001).to_be_bytes().to_vec();
    let document = Document {
        epk,
        docno: number + 1,
        lsn: lsn + 1,
        hash: chance,
        ts: 1_700_000_000,
        ttl: 0,
        size: 300,
    };
    (document, terms)
}

fn random(number: u64) -> u64 {
    let mut x = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5bf0_3635;
    x ^= x >> 31;
    x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^= x >> 29;
    x
}

fn ask(view: &View, documents: u64) {
    let posts = ValueRange::exact("\x05post");
    time("  COUNT type = like", 1000, |_| view.count(TYPE, &ValueRange::exact("\x05like")));
    time("  COUNT likes in [50, 55)", 1000, |_| {
        view.count(LIKES, &ValueRange::half_open(50u64.to_be_bytes(), 55u64.to_be_bytes()))
    });
    time("  userId = x AND type = post, by column", 1000, |turn| {
        let user = ValueRange::exact(format!("\x05user-{:06}", turn * 7 % 10_000));
        let mut found = 0;
        for part in view.parts() {
            let Some(kinds) = part.path(TYPE) else { continue };
            let wanted = kinds.ordinals(&posts);
            let users = part.postings(USER, &user).iter().map(|local| local.get());
            found += users
                .filter(|local| kinds.contains(*local, &wanted) && !part.is_dead(*local))
                .filter(|local| part.document(*local).docno > 0)
                .count() as u64;
        }
        found
    });
    time("  userId = x AND type = post, by lists", 1000, |turn| {
        let user = ValueRange::exact(format!("\x05user-{:06}", turn * 7 % 10_000));
        let both = view.parts().iter().map(|part| {
            intersect(part.postings(USER, &user), part.postings(TYPE, &posts)).len() as u64
        });
        both.sum()
    });
    time("  TOP 100 posts by date, by walk", 20, |_| top_by_walk(view, &posts));
    time("  TOP 100 posts by date, by lists", 20, |_| top_by_lists(view, &posts));
    time("  TOP 100 posts by date, by column", 20, |_| top_by_column(view, &posts));
    time("  find by epk and docno", 1000, |turn| {
        let (document, _) = row(random(turn) % documents, 0);
        u64::from(view.find(&document.epk, document.docno).is_some())
    });
    time("  documents of one partition", 1000, |turn| {
        let (document, _) = row(random(turn) % documents, 0);
        let range = EpkRange::exact(document.epk);
        view.documents(&range, None, Direction::Ascending).count() as u64
    });
}

fn top_by_walk(view: &View, posts: &ValueRange) -> u64 {
    let wanted: Vec<_> = view
        .parts()
        .iter()
        .map(|part| part.path(TYPE).map(|kinds| (kinds, kinds.ordinals(posts))))
        .collect();
    let mut sum = 0;
    let mut found = 0;
    for located in view.walk(DATE, &ValueRange::all(), Direction::Descending) {
        let part = &view.parts()[located.part];
        let Some((kinds, ordinals)) = &wanted[located.part] else { continue };
        for local in located.step.locals {
            let local = local.get();
            if kinds.contains(local, ordinals) && !part.is_dead(local) {
                sum += part.hash(local) & 1;
                found += 1;
            }
        }
        if found >= 100 {
            break;
        }
    }
    sum
}

/// Each part alone from its highest date down, reading values only of what was found.
fn top_by_lists(view: &View, posts: &ValueRange) -> u64 {
    let mut all = vec![];
    for part in view.parts() {
        let (Some(dates), Some(kinds)) = (part.path(DATE), part.path(TYPE)) else { continue };
        let wanted = kinds.ordinals(posts);
        let down = dates.lists(&(0..dates.value_count())).iter().rev().map(|local| local.get());
        let found = down.filter(|local| kinds.contains(*local, &wanted) && !part.is_dead(*local));
        let value = |local| Some((dates.value_of(local)?, part.hash(local)));
        all.extend(found.take(100).filter_map(value));
    }
    all.sort_unstable_by(|a, b| b.cmp(a));
    all.iter().take(100).map(|(_, hash)| hash & 1).sum()
}

fn top_by_column(view: &View, posts: &ValueRange) -> u64 {
    let mut all = vec![];
    for part in view.parts() {
        let Some(dates) = part.path(DATE) else { continue };
        let Some(column) = dates.column() else { continue };
        let list = part.postings(TYPE, posts).iter().map(|local| local.get());
        let mut best: Vec<(u32, u32)> = list
            .filter(|local| !part.is_dead(*local))
            .filter_map(|local| Some((column.ordinal(local)?, local)))
            .collect();
        if best.len() > 100 {
            best.select_nth_unstable_by(99, |a, b| b.cmp(a));
            best.truncate(100);
        }
        all.extend(
            best.into_iter().map(|(ordinal, local)| (dates.value(ordinal), part.hash(local))),
        );
    }
    all.sort_unstable_by(|a, b| b.cmp(a));
    all.iter().take(100).map(|(_, hash)| hash & 1).sum()
}

fn time(name: &str, turns: u64, mut ask: impl FnMut(u64) -> u64) {
    let sum: u64 = (0..turns).map(&mut ask).sum();
    let (start, mut done) = (cpu_of_thread(), 0);
    while cpu_of_thread() - start < Duration::from_millis(200) {
        std::hint::black_box((0..turns).map(&mut ask).sum::<u64>());
        done += turns;
    }
    let each = (cpu_of_thread() - start).as_secs_f64() * 1e6 / done as f64;
    println!("{name}: {each:.2} us ({sum} in {turns})");
}

/// Plain files; a server maps them instead of reading them.
struct Folder(PathBuf);

struct Plain(fs::File);

impl Files for Folder {
    fn create(&self, name: &str) -> io::Result<Box<dyn Output>> {
        Ok(Box::new(Plain(fs::File::create(self.0.join(name))?)))
    }

    fn map(&self, name: &str) -> io::Result<Bytes> {
        fs::read(self.0.join(name)).map(Bytes::from)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.0.join(from), self.0.join(to))?;
        fs::File::open(&self.0)?.sync_all()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.0.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let names = fs::read_dir(&self.0)?;
        names.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }
}

impl io::Write for Plain {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Output for Plain {
    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_all()
    }
}
