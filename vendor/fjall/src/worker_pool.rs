// Copyright (c) 2024-present, fjall-rs
// This source code is licensed under both the Apache 2.0 and MIT License
// (found in the LICENSE-* files in the repository)

use crate::{
    compaction::worker::run as run_compaction, db_config::FullDiskWork,
    flush::worker::run as run_flush, poison::PoisonDart,
    stats::Stats, supervisor::Supervisor, Keyspace,
};
use crate::journal::writer::NextJournal;
use crate::keyspace::FLUSHES_DENSE;
use lsm_tree::{AbstractTree, MemtableId};
use std::{
    borrow::Cow,
    collections::VecDeque,
    sync::{
        atomic::{AtomicUsize, Ordering::Relaxed},
        Arc, Condvar, Mutex,
    },
    thread::JoinHandle,
    time::Instant,
};

pub enum WorkerMessage {
    Flush,
    Compact(Keyspace),
    Close,
    RotateMemtable(Keyspace, MemtableId),
}

impl std::fmt::Debug for WorkerMessage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}",
            match self {
                Self::Flush => Cow::Borrowed("WorkerMessage:Flush"),
                Self::Compact(k) => Cow::Owned(format!("WorkerMessage:Compact({:?})", k.name)),
                Self::Close => Cow::Borrowed("WorkerMessage:Close"),
                Self::RotateMemtable(k, memtable_id) =>
                    Cow::Owned(format!("WorkerMessage:Rotate({:?}, {memtable_id})", k.name)),
            }
        )
    }
}

type WorkerHandle = JoinHandle<Result<(), crate::Error>>;

/// armilla: The most compactions that wait.
const COMPACTIONS_WAITING_MAX: usize = 1_000;

/// armilla: What waits for a worker. Compactions have a queue of their own: the worker that only flushes does not take them, and
/// sleeps while there is nothing else. In one queue for all it took each, and put it back, again and again, as long as the others
/// were busy.
#[derive(Clone, Default)]
pub struct WorkerQueue(Arc<(Mutex<Waiting>, Condvar)>);

#[derive(Default)]
struct Waiting {
    messages: VecDeque<WorkerMessage>,
    compactions: VecDeque<Keyspace>,
    /// Compactions that wait for an end of the flushes.
    put_off: Vec<(Instant, Keyspace)>,
    /// Nobody receives any more.
    is_closed: bool,
}

impl WorkerQueue {
    pub(crate) fn send(&self, message: WorkerMessage) {
        let (waiting, wake) = &*self.0;
        let mut waiting = waiting.lock().expect("lock is poisoned");
        if waiting.is_closed {
            return;
        }
        match message {
            WorkerMessage::Compact(keyspace) if keyspace.puts_compactions_off() => {
                let due = Instant::now() + FLUSHES_DENSE;
                match waiting.put_off.iter_mut().find(|(_, it)| it.id == keyspace.id) {
                    Some(entry) => entry.0 = due,
                    None => waiting.put_off.push((due, keyspace)),
                }
            }
            WorkerMessage::Compact(keyspace) => {
                // Each one looks anew at what is to be done, so no more are needed than can run.
                let same = |it: &&Keyspace| it.id == keyspace.id;
                if waiting.compactions.len() >= COMPACTIONS_WAITING_MAX
                    || waiting.compactions.iter().filter(same).count() >= 2
                {
                    return;
                }
                waiting.compactions.push_back(keyspace);
            }
            WorkerMessage::RotateMemtable(keyspace, memtable) => {
                // Every commit asks for it until it is done.
                let same = |it: &WorkerMessage| {
                    matches!(it, WorkerMessage::RotateMemtable(of, it) if of.id == keyspace.id && *it == memtable)
                };
                if waiting.messages.iter().any(same) {
                    return;
                }
                waiting
                    .messages
                    .push_back(WorkerMessage::RotateMemtable(keyspace, memtable));
            }
            message => waiting.messages.push_back(message),
        }
        drop(waiting);
        wake.notify_all();
    }

    fn receive(&self, takes_compactions: bool) -> WorkerMessage {
        let (waiting, wake) = &*self.0;
        let mut waiting = waiting.lock().expect("lock is poisoned");
        loop {
            if let Some(message) = waiting.messages.pop_front() {
                return message;
            }
            if takes_compactions {
                if let Some(keyspace) = waiting.compactions.pop_front() {
                    return WorkerMessage::Compact(keyspace);
                }
                let first = waiting.put_off.iter().enumerate().min_by_key(|(_, it)| it.0);
                if let Some((position, due)) = first.map(|(position, it)| (position, it.0)) {
                    let now = Instant::now();
                    if due <= now {
                        return WorkerMessage::Compact(waiting.put_off.swap_remove(position).1);
                    }
                    waiting = wake.wait_timeout(waiting, due - now).expect("lock is poisoned").0;
                    continue;
                }
            }
            waiting = wake.wait(waiting).expect("lock is poisoned");
        }
    }

    /// Forgets what waits.
    pub(crate) fn clear(&self) {
        self.forget(false);
    }

    /// Forgets what waits and what will be sent, since a message of a keyspace that outlives its database would keep it, and its lock
    /// file, for good.
    pub(crate) fn close(&self) {
        self.forget(true);
    }

    fn forget(&self, is_closed: bool) {
        let mut waiting = self.0 .0.lock().expect("lock is poisoned");
        let forgotten = std::mem::take(&mut *waiting);
        waiting.is_closed = is_closed;
        drop(waiting);
        // Keyspaces are dropped without the lock.
        drop(forgotten);
    }
}

pub struct WorkerPool {
    thread_handles: Mutex<Vec<WorkerHandle>>,
    pub(crate) sender: WorkerQueue,
}

impl WorkerPool {
    pub fn prepare() -> Self {
        Self {
            thread_handles: Mutex::default(),
            sender: WorkerQueue::default(),
        }
    }

    pub fn start(
        &self,
        pool_size: usize,
        supervisor: &Supervisor,
        stats: &Arc<Stats>,
        poison_dart: &PoisonDart,
        thread_counter: &Arc<AtomicUsize>,
    ) -> crate::Result<()> {
        log::debug!("Starting worker pool with {pool_size} threads");

        let thread_handles = claim_and_spawn(pool_size, thread_counter, |i| {
            std::thread::Builder::new()
                .name("fjall:worker".to_string())
                .spawn({
                    log::trace!("Starting fjall worker thread #{i}");

                    let worker_state = WorkerState {
                        pool_size,
                        worker_id: i,
                        supervisor: supervisor.clone(),
                        stats: stats.clone(),
                        sender: self.sender.clone(),
                    };

                    let thread_counter = thread_counter.clone();
                    let poison_dart = poison_dart.clone();

                    move || {
                        // The counter must drop on *every* way out of this
                        // thread, not just the graceful one: `Database::drop`
                        // spins on it (`while counter > 0`), so a worker that
                        // returns an error or unwinds would keep the database
                        // closing forever.
                        let _counter_guard = ActiveThreadGuard(thread_counter);

                        loop {
                            match worker_tick(&worker_state) {
                                Ok(should_abort) => {
                                    if should_abort {
                                        log::debug!("Worker #{i} closes because DB is dropping");
                                        return Ok(());
                                    }
                                }
                                Err(e) => {
                                    log::error!("Worker #{i} crashed: {e:?}");
                                    poison_dart.poison();
                                    return Err(e);
                                }
                            }
                        }
                    }
                })
        })?;

        *self.thread_handles.lock().expect("lock is poisoned") = thread_handles;

        Ok(())
    }
}

/// Claims one slot in the active thread counter per worker, immediately before
/// that worker is spawned, and hands the slot straight back if the spawn fails.
///
/// Claiming the whole pool up front would leak the slots of the workers that failed
/// spawn never reaches: nothing ever decrements them, because those threads do
/// not exist, and `DatabaseInner::drop` waits for the counter to reach zero.
///
/// The spawn is a parameter so the failure path can be tested without having to
/// exhaust the operating system's thread limit.
fn claim_and_spawn<H, S: FnMut(usize) -> std::io::Result<H>>(
    pool_size: usize,
    thread_counter: &Arc<AtomicUsize>,
    mut spawn: S,
) -> std::io::Result<Vec<H>> {
    (0..pool_size)
        .map(|i| {
            thread_counter.fetch_add(1, Relaxed);

            spawn(i).inspect_err(|_| {
                thread_counter.fetch_sub(1, Relaxed);
            })
        })
        .collect()
}

/// Decrements the pool's active thread counter when a worker thread leaves,
/// whatever the reason: graceful close, error return or unwinding panic.
///
/// `DatabaseInner::drop` waits for this counter to reach zero, so a leaked
/// increment makes closing the database hang forever.
struct ActiveThreadGuard(Arc<AtomicUsize>);

impl Drop for ActiveThreadGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// armilla: A journal that is longer is followed by a new one at the next flush.
const JOURNAL_ROTATES_AT: u64 = 64_000_000;

struct WorkerState {
    pool_size: usize,
    worker_id: usize,
    supervisor: Supervisor,
    sender: WorkerQueue,
    stats: Arc<Stats>,
}

fn worker_tick(ctx: &WorkerState) -> crate::Result<bool> {
    // armilla: One of several workers only flushes.
    let item = ctx.sender.receive(ctx.pool_size == 1 || ctx.worker_id != 0);

    log::trace!("Worker #{} got message: {item:?}", ctx.worker_id);

    match item {
        WorkerMessage::Close => {
            return Ok(true);
        }
        WorkerMessage::RotateMemtable(keyspace, memtable_id) => {
            log::trace!("acquiring journal lock");
            let journal_writer = keyspace.supervisor.journal.get_writer()?;
            keyspace.inner_rotate_memtable(journal_writer, memtable_id)?;
        }
        WorkerMessage::Flush => {
            let Some(task) = ctx.supervisor.flush_manager.dequeue() else {
                return Ok(false);
            };

            {
                // armilla: A file for the next journal is made and synced before the lock is taken, for which commits wait.
                let journal = &ctx.supervisor.journal;
                let is_long = journal.get_writer()?.pos()? > JOURNAL_ROTATES_AT;
                let next = is_long.then(|| NextJournal::make(&ctx.supervisor.db_config.path, ctx.worker_id));

                log::trace!("acquiring journal lock to maybe rotate journal");
                let mut journal_writer = ctx.supervisor.journal.get_writer()?;

                if let Some(next) = next.filter(|_| journal_writer.pos().is_ok_and(|pos| pos > JOURNAL_ROTATES_AT)) {
                    #[expect(clippy::expect_used)]
                    let mut journal_manager = ctx
                        .supervisor
                        .journal_manager
                        .write()
                        .expect("lock is poisoned");

                    let seqno_map = {
                        #[expect(clippy::expect_used)]
                        let keyspaces = ctx.supervisor.keyspaces.write().expect("lock is poisoned");

                        ctx.supervisor.build_seqno_map(&keyspaces)
                    };

                    // armilla: What is in the journal must be durable whatever comes next. A disk
                    // without room for another journal goes on with this one.
                    journal_writer.make_durable()?;

                    let rotated = next.and_then(|next| {
                        journal_manager.rotate_journal(&mut journal_writer, seqno_map, next)
                    });
                    match rotated {
                        Err(e) if e.is_full_disk() => log::warn!("No room for a journal: {e:?}"),
                        other => other?,
                    }

                    if journal_manager.disk_space_used()
                        >= ctx.supervisor.db_config.max_journaling_size_in_bytes
                    {
                        let stragglers =
                            journal_manager.get_keyspaces_to_flush_for_oldest_journal_eviction();

                        for keyspace in stragglers {
                            log::info!(
                                "Rotating {:?} to try to reduce journal size",
                                keyspace.name,
                            );
                            keyspace.request_rotation();
                        }
                    }
                } else {
                    // https://github.com/fjall-rs/fjall/issues/329
                    journal_writer.make_durable()?;
                }
            }

            // armilla: The memtable is kept until it is flushed, so a full disk is waited for.
            loop {
                match run_flush(
                    &task,
                    &ctx.supervisor.write_buffer_size,
                    &ctx.supervisor.snapshot_tracker,
                    &ctx.stats,
                ) {
                    Err(e) if ctx.supervisor.wait_for_room(&e, FullDiskWork::Flush) => {}
                    other => break other?,
                }
            }

            task.keyspace.note_flush();
            for _ in 0..ctx.pool_size {
                ctx.sender
                    .send(WorkerMessage::Compact(task.keyspace.clone()));
            }

            ctx.supervisor.remove_flushed_journals()?;
        }
        WorkerMessage::Compact(keyspace) => {
            let before = keyspace.tree.current_version().id();

            // armilla: The inputs are kept until the result is there, so a full disk is waited for.
            loop {
                match run_compaction(&keyspace, &ctx.supervisor.snapshot_tracker, &ctx.stats) {
                    Err(e) if ctx.supervisor.wait_for_room(&e, FullDiskWork::Merge) => {}
                    other => break other?,
                }
            }

            // armilla: One may make the next one due. Without this it would wait for the next flush.
            if keyspace.tree.current_version().id() != before {
                ctx.sender.send(WorkerMessage::Compact(keyspace));
            }
        }
    }

    Ok(false)
}
