//! Threads that run the user functions of queries, so that no query's thread is lost to one.
//!
//! A function is interrupted when its time is up, but not inside every built-in operation of the engine.
//! So a query does not run it itself: it hands arguments over and waits for the answer, no longer than the
//! function's time and a little more. Then the query fails, the function is blocked, and its thread is
//! left alone; it serves others again when it comes back.
//!
//! ```text
//!   query's thread    call ──►┐           ┌──► answer, or "too late"
//!                             Exchange ───┘
//!   function-n        wait ──►└── run in a session of its own ──► wait
//! ```
//!
//! A thread belongs to one session at a time, and nobody waits for a thread: there is one more when all
//! are taken, up to a bound. So sessions cannot wait for one another.

use super::runtime::Runtime;
use crate::core::Core;
use crate::limits::{
    FUNCTION_SPINS, FUNCTION_THREADS_IDLE_MAX, FUNCTION_THREADS_LATE_MAX, FUNCTION_THREADS_MAX,
    SCRIPT_RETRY_AFTER, SCRIPT_STACK_SIZE,
};
use armilla_model::clock::monotonic;
use armilla_model::error::{Error, Result};
use armilla_script::{CallOptions, Compiled, ScriptError, ScriptErrorKind, UdfSession};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

type FunctionJob = Box<dyn FnOnce() + Send>;

/// The threads; they are started as they are needed.
pub(super) struct FunctionThreads {
    /// Threads that wait for a job; nothing once the account has gone.
    idle: Mutex<Option<Vec<mpsc::Sender<FunctionJob>>>>,
    /// Looks that are worth taking before a thread sleeps.
    spins: u32,
    /// Threads that there are.
    count: AtomicUsize,
    /// Threads whose function was given up and has not come back.
    late: AtomicUsize,
    /// Functions that were given up so far.
    given_up: AtomicU64,
    /// Threads started so far, for their names.
    started: AtomicUsize,
}

/// A user function of one query page, on a thread of its own.
pub(crate) struct FunctionSession {
    core: Arc<Core>,
    script: Compiled,
    exchange: Arc<Exchange>,
    late_at: Instant,
    late_max: Duration,
}

/// What a call came to, and the ticks that it took.
type Called = (Result<Option<String>, ScriptError>, u64);

/// Where a query and the thread of its function hand things to one another.
struct Exchange {
    turn: Mutex<Turn>,
    changed: Condvar,
    /// How often the turn went to the other side.
    turns: AtomicU32,
    /// Looks at `turns` before a side sleeps: most calls take less time than waking up does.
    spins: u32,
}

/// Whose turn it is.
#[derive(Default)]
enum Turn {
    /// The query's: nothing is under way.
    #[default]
    Open,
    /// The function's: it is called with these arguments.
    Call(Vec<String>),
    /// The function's: it runs.
    Running,
    /// The query's: the call has an answer.
    Answer(Called),
    /// The query was too late or has gone; the function ends.
    Closed,
}

impl FunctionThreads {
    pub(super) fn new() -> Arc<Self> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        Arc::new(Self {
            idle: Mutex::new(Some(Vec::new())),
            spins: if cores > 1 { FUNCTION_SPINS } else { 0 },
            count: AtomicUsize::new(0),
            late: AtomicUsize::new(0),
            given_up: AtomicU64::new(0),
            started: AtomicUsize::new(0),
        })
    }

    /// Lets the threads end that wait, and the others after their job.
    pub(super) fn close(&self) {
        *self.idle.lock() = None;
    }

    /// Functions that were given up so far.
    pub(super) fn given_up(&self) -> u64 {
        self.given_up.load(Relaxed)
    }

    /// Runs a job on a thread that has none.
    fn run(self: &Arc<Self>, job: FunctionJob) -> Result<()> {
        let overloaded = || Error::Overloaded { retry_after: SCRIPT_RETRY_AFTER };
        if self.late.load(Relaxed) >= FUNCTION_THREADS_LATE_MAX {
            return Err(overloaded());
        }
        let mut job = job;
        loop {
            let Some(idle) = self.idle.lock().as_mut().and_then(Vec::pop) else { break };
            // A thread that has just ended gives the job back.
            match idle.send(job) {
                Ok(()) => return Ok(()),
                Err(mpsc::SendError(back)) => job = back,
            }
        }
        if self.count.fetch_add(1, Relaxed) >= FUNCTION_THREADS_MAX {
            self.count.fetch_sub(1, Relaxed);
            return Err(overloaded());
        }
        let (threads, number) = (self.clone(), self.started.fetch_add(1, Relaxed));
        let started = thread::Builder::new()
            .name(format!("function-{number}"))
            .stack_size(SCRIPT_STACK_SIZE)
            .spawn(move || threads.serve(job));
        started.map(drop).map_err(|error| {
            self.count.fetch_sub(1, Relaxed);
            Error::Internal(format!("a thread for user functions failed to start: {error}"))
        })
    }

    /// Runs a first job and those that follow, until enough others are idle.
    fn serve(&self, first: FunctionJob) {
        let mut job = first;
        loop {
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)).is_err() {
                tracing::error!("a user function's thread panicked; its query failed");
            }
            let (sender, receiver) = mpsc::channel();
            {
                let mut idle = self.idle.lock();
                match idle.as_mut().filter(|idle| idle.len() < FUNCTION_THREADS_IDLE_MAX) {
                    Some(idle) => idle.push(sender),
                    None => break,
                }
            }
            let Ok(next) = receiver.recv() else { break };
            job = next;
        }
        self.count.fetch_sub(1, Relaxed);
    }
}

impl FunctionSession {
    /// Loads a function on a thread of its own. The clock of all its calls began at `started`.
    pub(crate) fn open(
        core: &Arc<Core>,
        name: &str,
        script: &Compiled,
        started: Instant,
    ) -> Result<Result<Self, ScriptError>> {
        let runtime = core.scripts()?;
        let limits = runtime.engine().limits();
        let session = Self {
            core: core.clone(),
            script: script.clone(),
            exchange: Arc::new(Exchange::new(runtime.functions.spins)),
            late_at: started + limits.time + limits.late_max,
            late_max: limits.late_max,
        };
        let (core, exchange) = (core.clone(), session.exchange.clone());
        let (name, script) = (name.to_owned(), script.clone());
        runtime.functions.run(Box::new(move || {
            // Whoever waits must hear of it, also when this ends by a panic.
            let _closing = Closing(&exchange);
            if let Ok(runtime) = core.scripts() {
                serve(runtime, &name, &script, started, &exchange);
            }
        }))?;
        Ok(session.answer().0.map(|_| session))
    }

    /// Calls the function. What is late is an error, as is every call after it.
    pub(crate) fn call(&self, arguments: Vec<String>) -> Called {
        {
            let mut turn = self.exchange.turn.lock();
            if !matches!(*turn, Turn::Open) {
                return self.given_up();
            }
            *turn = Turn::Call(arguments);
        }
        self.exchange.pass();
        self.answer()
    }

    /// Waits for the answer.
    fn answer(&self) -> Called {
        self.exchange.spin();
        let late_at = self.late_at.max(monotonic() + self.late_max);
        let mut turn = self.exchange.turn.lock();
        loop {
            match std::mem::take(&mut *turn) {
                Turn::Answer(called) => return called,
                Turn::Closed => {
                    *turn = Turn::Closed;
                    return self.given_up();
                }
                other => *turn = other,
            }
            if self.exchange.changed.wait_until(&mut turn, late_at).timed_out()
                && !matches!(*turn, Turn::Answer(_) | Turn::Closed)
            {
                *turn = Turn::Closed;
                drop(turn);
                if let Ok(runtime) = self.core.scripts() {
                    runtime.functions.late.fetch_add(1, Relaxed);
                    runtime.functions.given_up.fetch_add(1, Relaxed);
                }
                tracing::error!("a user function did not end in time; its thread was given up");
                return self.given_up();
            }
        }
    }

    fn given_up(&self) -> Called {
        let error = match self.core.scripts() {
            Ok(runtime) => runtime.engine().give_up(&self.script),
            Err(error) => {
                ScriptError { kind: ScriptErrorKind::Internal, detail: error.message().to_owned() }
            }
        };
        (Err(error), 0)
    }
}

impl Drop for FunctionSession {
    fn drop(&mut self) {
        let mut turn = self.exchange.turn.lock();
        if !matches!(*turn, Turn::Closed) {
            *turn = Turn::Closed;
            drop(turn);
            self.exchange.pass();
        }
    }
}

/// Answers calls until the query has gone.
fn serve(runtime: &Runtime, name: &str, script: &Compiled, started: Instant, exchange: &Exchange) {
    let options = CallOptions { script_id: name, started: Some(started), logging: false };
    let opened = runtime.engine().udf_session(&[(name, script)], options);
    let session = match opened {
        Ok(session) => session,
        Err(error) => return exchange.give(runtime, (Err(error), 0)),
    };
    exchange.give(runtime, (Ok(None), 0));
    while let Some(arguments) = exchange.take() {
        exchange.give(runtime, call(&session, name, &arguments));
    }
}

fn call(session: &UdfSession<'_>, name: &str, arguments: &[String]) -> Called {
    let texts: Vec<Option<&str>> = arguments.iter().map(|text| Some(text.as_str())).collect();
    let before = session.ticks();
    let outcome = session.call(name, &texts);
    (outcome, session.ticks().saturating_sub(before))
}

impl Exchange {
    /// An exchange whose function is being loaded.
    fn new(spins: u32) -> Self {
        let (turn, changed) = (Mutex::new(Turn::Running), Condvar::new());
        Self { turn, changed, turns: AtomicU32::new(0), spins }
    }

    /// Tells the other side that the turn has changed.
    fn pass(&self) {
        self.turns.fetch_add(1, Release);
        self.changed.notify_one();
    }

    /// Waits a moment for the other side.
    fn spin(&self) {
        let before = self.turns.load(Acquire);
        let mut looks = 0..self.spins;
        while self.turns.load(Acquire) == before && looks.next().is_some() {
            std::hint::spin_loop();
        }
    }

    /// The next call; nothing when the query has gone.
    fn take(&self) -> Option<Vec<String>> {
        self.spin();
        let mut turn = self.turn.lock();
        loop {
            match std::mem::take(&mut *turn) {
                Turn::Call(arguments) => {
                    *turn = Turn::Running;
                    return Some(arguments);
                }
                Turn::Closed => {
                    *turn = Turn::Closed;
                    return None;
                }
                other => *turn = other,
            }
            self.changed.wait(&mut turn);
        }
    }

    /// Hands an answer over. When the query has given up, the thread has come back.
    fn give(&self, runtime: &Runtime, called: Called) {
        let mut turn = self.turn.lock();
        if matches!(*turn, Turn::Closed) {
            runtime.functions.late.fetch_sub(1, Relaxed);
            return;
        }
        *turn = Turn::Answer(called);
        drop(turn);
        self.pass();
    }
}

/// Closes an exchange when the thread's job ends.
struct Closing<'e>(&'e Exchange);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        let mut turn = self.0.turn.lock();
        // An answer that nobody has taken yet stays: it is the reason of the end.
        if !matches!(*turn, Turn::Answer(_)) {
            *turn = Turn::Closed;
        }
        drop(turn);
        self.0.pass();
    }
}
