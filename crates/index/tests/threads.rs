//! Readers, a writer and job threads at once: every view is whole.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
};

use armilla_index::{
    Change, Direction, Document, EpkRange, Index, Job, JobResult, Limits, MemoryFiles, Terms,
    ValueRange, Version, View,
};

const ALWAYS: u32 = 1;
const ROUND: u32 = 2;
const DOCUMENTS: u64 = 300;
const ROUNDS: u64 = 30;

#[test]
fn everything_may_cross_threads() {
    fn sends<T: Send>() {}
    fn shares<T: Send + Sync>() {}
    sends::<Index>();
    sends::<Job>();
    sends::<JobResult>();
    shares::<View>();
}

/// Every round replaces every document; at an LSN it is known which round each document is in.
fn change(lsn: u64) -> Change {
    let (docno, round) = (lsn % DOCUMENTS, lsn / DOCUMENTS);
    let epk = vec![u8::try_from(docno % 7).unwrap()];
    let mut terms = Terms::new();
    terms.push(ALWAYS, b"yes");
    terms.push(ROUND, &round.to_be_bytes());
    let version = Version { epk: epk.clone(), docno, lsn: Some(lsn.saturating_sub(DOCUMENTS)) };
    let document = Document { epk, docno, lsn, hash: docno, ts: 0, ttl: 0, size: 1 };
    Change::Upsert { document, terms, replaces: (round > 0).then_some(version) }
}

fn check(view: &View) {
    let lsn = view.lsn();
    let live = (lsn + 1).min(DOCUMENTS);
    assert_eq!(view.live_count(), live);
    assert_eq!(view.count(ALWAYS, &ValueRange::exact("yes")), live);
    let newest = ValueRange::exact((lsn / DOCUMENTS).to_be_bytes());
    assert_eq!(view.count(ROUND, &newest), lsn % DOCUMENTS + 1);
    let all = view.documents(&EpkRange::all(), None, Direction::Ascending);
    assert_eq!(all.count() as u64, live);
}

fn read(current: &Mutex<Arc<View>>, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let view = current.lock().unwrap().clone();
        check(&view);
    }
}

fn work(jobs: &Mutex<mpsc::Receiver<Job>>, results: &mpsc::Sender<JobResult>) {
    loop {
        let Ok(job) = jobs.lock().unwrap().recv() else { return };
        results.send(job.run()).unwrap();
    }
}

#[test]
fn every_view_is_whole() {
    let limits = Limits {
        tail_documents_max: 32,
        tier_fan_in: 3,
        file_documents_min: 64,
        ..Limits::default()
    };
    let mut index = Index::open(limits, Arc::new(MemoryFiles::new())).unwrap();
    index.apply(change(0));
    let current = Mutex::new(index.publish());
    let stop = AtomicBool::new(false);
    let (send, receive) = mpsc::channel();
    let receive = Mutex::new(receive);
    let (done, results) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| read(&current, &stop));
            let done = done.clone();
            let receive = &receive;
            scope.spawn(move || work(receive, &done));
        }
        let mut out = 0;
        for lsn in 1..DOCUMENTS * ROUNDS {
            assert_eq!(index.apply(change(lsn)), lsn >= DOCUMENTS);
            if lsn % 5 == 0 {
                *current.lock().unwrap() = index.publish();
                while let Some(job) = index.take_job() {
                    send.send(job).unwrap();
                    out += 1;
                }
                for result in results.try_iter() {
                    index.install(result).unwrap();
                    out -= 1;
                }
            }
        }
        drop(send);
        for result in results.iter().take(out) {
            index.install(result).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    check(&index.publish());
    index.run_jobs().unwrap();
    check(&index.publish());
}
