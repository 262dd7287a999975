//! The time limit of a script call: what one call has used and how it is stopped.
//!
//! The meter is shared by the interrupt handler, the native functions of the library and the
//! driver loop. A runtime serves one call at a time, so the atomics are never contended; they are
//! there because runtimes move between threads.

use crate::clock::monotonic;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::countdown::{CHECKS_PER_LOOK, Countdown, Look};
use crate::error::Thrown;
use crate::limits::Limits;
use crate::memory::Budget;
use crate::random::Random;

/// Checks that a fresh context has left before the handler looks for the first time.
pub(crate) const CHECKS_BEFORE_FIRST_LOOK: u64 = 200;
/// Most checks between two looks.
const CHECKS_USUAL: u64 = 200;
/// Time that is to pass from look to look.
const LOOK_MICROSECONDS: u128 = 20_000;
/// Memory with which no single step of a script can take long.
const LIGHT_BYTES: u128 = 256 << 10;
/// Longest text kept of a swallowed rejection.
const SWALLOWED_BYTES_MAX: usize = 512;

/// Why a call was ended from outside.
#[derive(Debug, Clone)]
pub(crate) enum Stop {
    Time,
    Memory,
    Abort(Thrown),
}

#[derive(Debug, Default)]
pub(crate) struct Meter {
    /// Interrupt checks that the call has made, as far as they are known.
    checks: AtomicU64,
    /// Checks from the last look to the next one.
    interval: AtomicU64,
    /// Operations accepted in this call.
    operations: AtomicU64,
    /// The host's last word on the throughput budget.
    budget_open: AtomicBool,
    /// Set once the call is to end; the handler then interrupts at every check.
    stopping: AtomicBool,
    /// Makes the engine ask again at once when the call is stopping.
    pub(crate) countdown: Countdown,
    /// The memory of the runtime and of the call.
    pub(crate) memory: Arc<Budget>,
    /// Random numbers; the sequence goes on from call to call.
    random: Random,
    call: Mutex<CallState>,
}

#[derive(Debug, Default)]
struct CallState {
    deadline: Option<Instant>,
    accept_until: Option<Instant>,
    last_look: Option<Instant>,
    accept_operations_max: u64,
    log_bytes_max: usize,
    log: String,
    stop: Option<Stop>,
    rejections_open: u64,
    first_rejection: Option<String>,
}

impl Meter {
    /// Starts a call whose clock began at `started`.
    pub(crate) fn begin(&self, limits: &Limits, started: Instant) {
        self.checks.store(0, Relaxed);
        self.interval.store(CHECKS_BEFORE_FIRST_LOOK, Relaxed);
        self.operations.store(0, Relaxed);
        self.budget_open.store(true, Relaxed);
        self.stopping.store(false, Relaxed);
        self.memory.begin(limits.memory_bytes_max, started + limits.time);
        *self.state() = CallState {
            deadline: Some(started + limits.time),
            accept_until: Some(started + limits.accept_time.min(limits.time)),
            accept_operations_max: limits.accept_operations_max.unwrap_or(u64::MAX),
            log_bytes_max: limits.log_bytes_max,
            last_look: Some(monotonic()),
            ..CallState::default()
        };
    }

    /// Ends the call: from here on the handler neither counts nor interrupts.
    pub(crate) fn end(&self) {
        self.stopping.store(false, Relaxed);
        self.memory.end();
        *self.state() = CallState::default();
    }

    /// The interrupt handler. True ends the script where it is.
    pub(crate) fn tick(&self) -> bool {
        let Some(look) = self.countdown.look() else { return self.is_stopping() };
        if !self.is_stopping() {
            let interval = self.interval.load(Relaxed);
            if look == Look::Checks {
                self.checks.fetch_add(interval, Relaxed);
            }
            if self.memory.is_exceeded() {
                self.stop(Stop::Memory);
            } else if !self.is_past_deadline() {
                if look == Look::Checks {
                    self.plan_next_look(interval);
                }
                return false;
            }
        }
        self.countdown.set(1);
        true
    }

    /// Asks for an earlier look, and for a still earlier one at a script whose steps take long, or
    /// may take long because it has large values at hand.
    fn plan_next_look(&self, interval: u64) {
        let now = monotonic();
        let before = self.state().last_look.replace(now);
        let took = before.map_or(0, |before| (now - before).as_micros().max(1));
        let by_time = u128::from(interval) * LOOK_MICROSECONDS / took.max(1);
        let by_memory = u128::from(CHECKS_PER_LOOK) * LIGHT_BYTES
            / (self.memory.used_by_call() as u128).max(LIGHT_BYTES);
        let next = u64::try_from(by_time.min(by_memory)).unwrap_or(CHECKS_PER_LOOK);
        let next = next.clamp(1, CHECKS_USUAL);
        self.interval.store(next, Relaxed);
        self.countdown.set(next);
    }

    /// Counts the checks since the last look, when the call ends.
    pub(crate) fn count_rest(&self) {
        if let Some(left) = self.countdown.left() {
            let interval = self.interval.load(Relaxed);
            self.checks.fetch_add(interval.saturating_sub(left), Relaxed);
        }
    }

    /// Whether the time is up; if so, the call is stopping from now on.
    pub(crate) fn is_past_deadline(&self) -> bool {
        let mut state = self.state();
        let past = state.deadline.is_some_and(|deadline| monotonic() >= deadline);
        if past {
            self.stop_locked(&mut state, Stop::Time);
        }
        past
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Relaxed)
    }

    /// Ends the call at the next interrupt check. The first reason stays.
    pub(crate) fn stop(&self, reason: Stop) {
        self.stop_locked(&mut self.state(), reason);
    }

    fn stop_locked(&self, state: &mut CallState, reason: Stop) {
        state.stop.get_or_insert(reason);
        self.stopping.store(true, Relaxed);
    }

    /// Why the call is stopping, if it is.
    pub(crate) fn stop_reason(&self) -> Option<Stop> {
        self.state().stop.clone()
    }

    /// Whether another operation would be accepted.
    pub(crate) fn is_open(&self) -> bool {
        let state = self.state();
        self.budget_open.load(Relaxed)
            && self.operations.load(Relaxed) < state.accept_operations_max
            && state.accept_until.is_some_and(|until| monotonic() < until)
    }

    /// Accepts and counts an operation, or refuses it.
    pub(crate) fn accept(&self) -> bool {
        let open = self.is_open();
        if open {
            self.operations.fetch_add(1, Relaxed);
        }
        open
    }

    /// A number from 0 up to but not including 1.
    pub(crate) fn random(&self) -> f64 {
        self.random.next()
    }

    pub(crate) fn set_budget_open(&self, open: bool) {
        self.budget_open.store(open, Relaxed);
    }

    /// Whether memory was refused to the call.
    pub(crate) fn was_refused_memory(&self) -> bool {
        self.memory.has_refused()
    }

    /// Appends to the log; false, and nothing appended, when it would not fit.
    pub(crate) fn log(&self, text: &str) -> bool {
        let mut state = self.state();
        let fits = state.log.len() + text.len() <= state.log_bytes_max;
        if fits {
            state.log.push_str(text);
        }
        fits
    }

    pub(crate) fn take_log(&self) -> String {
        std::mem::take(&mut self.state().log)
    }

    /// Notes a promise rejected without a handler; the first text is kept for the server's log.
    pub(crate) fn rejected(&self, mut text: String) {
        let mut end = text.len().min(SWALLOWED_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        let mut state = self.state();
        state.rejections_open += 1;
        state.first_rejection.get_or_insert(text);
    }

    /// A rejection got its handler after all.
    pub(crate) fn handled(&self) {
        let mut state = self.state();
        state.rejections_open = state.rejections_open.saturating_sub(1);
    }

    /// Text of a rejection, if any was left without a handler.
    pub(crate) fn take_swallowed(&self) -> Option<String> {
        let mut state = self.state();
        let text = state.first_rejection.take();
        text.filter(|_| state.rejections_open > 0)
    }

    /// Ticks to charge: one for every full ten thousand checks, however often the handler looked.
    pub(crate) fn ticks(&self) -> u64 {
        self.checks.load(Relaxed) / CHECKS_PER_LOOK
    }

    pub(crate) fn operations(&self) -> u64 {
        self.operations.load(Relaxed)
    }

    fn state(&self) -> MutexGuard<'_, CallState> {
        // The state is plain data, whole after every statement: a panic elsewhere does not spoil it.
        self.call.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
