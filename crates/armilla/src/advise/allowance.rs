//! What the observer may spend of the processor: two purses, both counted in processor time of its own thread.
//!
//! The *share* is a small part of what the server itself spends. While the server is busy there is nothing else, so observing takes
//! that part of its throughput and no more, in a run of two seconds as in one of a day. The *spare* fills with the time that passes and is spent
//! only while the server leaves most of a processor idle: a server with little to do is seen whole.

use armilla_model::clock::monotonic;
use std::time::{Duration, Instant};

/// Part of the server's own processor time.
const SHARE: f64 = 0.002;
/// What may be saved up of it, for a long run that is looked at in pieces.
const SHARE_MAX: f64 = 0.3;
/// Part of the time that passes.
const SPARE: f64 = 0.002;
/// What may be saved up of that.
const SPARE_MAX: f64 = 0.25;
/// A server that uses less than this part of one processor is calm.
const CALM: f64 = 0.15;
/// Work in one go of a calm server, so that nobody waits long for a processor.
const CALM_SLICE: Duration = Duration::from_millis(5);
/// The same of a busy one. Less is saved up until it is so much: each slice pushes what requests need out of the processor's caches, however short it is.
const BUSY_SLICE: Duration = Duration::from_millis(1);

/// Clocks, read at one moment; each counts from some beginning.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reading {
    /// Time.
    passed: Duration,
    /// Processor time of the whole process.
    process: Duration,
    /// Processor time of this thread.
    own: Duration,
}

impl Reading {
    /// The clocks now; `since` is any moment in the past, the same each time, and `own` what stopwatches of this thread have counted since then.
    pub(super) fn now(since: Instant, own: Duration) -> Self {
        Self { passed: since.elapsed(), process: process_time().unwrap_or(own), own }
    }
}

#[cfg(unix)]
fn processor_time(clock: rustix::time::ClockId) -> Duration {
    let time = rustix::time::clock_gettime(clock);
    let part = Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0));
    Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0)) + part
}

#[cfg(unix)]
fn process_time() -> Option<Duration> {
    Some(processor_time(rustix::time::ClockId::ProcessCPUTime))
}

#[cfg(unix)]
fn thread_time() -> Option<Duration> {
    Some(processor_time(rustix::time::ClockId::ThreadCPUTime))
}

/// Where there are no such clocks, a server counts as calm, and time as work.
#[cfg(not(unix))]
fn process_time() -> Option<Duration> {
    None
}

#[cfg(not(unix))]
fn thread_time() -> Option<Duration> {
    None
}

/// Counts the processor time of the calling thread from now on.
pub(super) struct Stopwatch {
    since: Instant,
    thread: Option<Duration>,
}

impl Stopwatch {
    pub(super) fn start() -> Self {
        Self { since: monotonic(), thread: thread_time() }
    }

    pub(super) fn spent(&self) -> Duration {
        match thread_time().zip(self.thread) {
            Some((now, then)) => now.saturating_sub(then),
            None => self.since.elapsed(),
        }
    }
}

/// The two purses, in seconds.
#[derive(Debug)]
pub(super) struct Allowance {
    last: Reading,
    /// Below zero where a piece of work took longer than there was.
    share: f64,
    spare: f64,
    is_calm: bool,
}

impl Allowance {
    /// Of a server that has just started.
    pub(super) fn new(now: Reading) -> Self {
        Self { last: now, share: 0.0, spare: SPARE_MAX, is_calm: true }
    }

    /// Pays for what this thread did since the last time, and takes in what was earned.
    pub(super) fn settle(&mut self, now: Reading) {
        let passed = now.passed.saturating_sub(self.last.passed).as_secs_f64();
        let own = now.own.saturating_sub(self.last.own).as_secs_f64();
        let process = now.process.saturating_sub(self.last.process).as_secs_f64();
        let served = (process - own).max(0.0);
        self.last = now;
        let from_spare = if self.is_calm { own.min(self.spare) } else { 0.0 };
        self.spare = (self.spare - from_spare + passed * SPARE).min(SPARE_MAX);
        self.share = (self.share - (own - from_spare) + served * SHARE).min(SHARE_MAX);
        self.is_calm = served < passed * CALM;
    }

    /// Work that may be done now, in one go.
    pub(super) fn slice(&self) -> Duration {
        let there = self.share.max(0.0);
        match self.is_calm {
            true => Duration::from_secs_f64(there + self.spare).min(CALM_SLICE),
            false if there >= BUSY_SLICE.as_secs_f64() => BUSY_SLICE,
            false => Duration::ZERO,
        }
    }

    /// Whether so much work is paid for already, or as much as can be saved up.
    pub(super) fn affords(&self, work: Duration) -> bool {
        let there = self.share + if self.is_calm { self.spare } else { 0.0 };
        there >= work.as_secs_f64().min(SHARE_MAX / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK: f64 = 0.05;

    /// A server that uses this many processors for so long, and an observer that always has more to do; what that spends.
    fn spent(allowance: &mut Allowance, clocks: &mut [f64; 3], load: f64, seconds: f64) -> f64 {
        let mut spent = 0.0;
        for _ in 0..(seconds / LOOK) as usize {
            let work = allowance.slice().as_secs_f64();
            spent += work;
            for (clock, more) in clocks.iter_mut().zip([LOOK, load * LOOK + work, work]) {
                *clock += more;
            }
            let [passed, process, own] = clocks.map(Duration::from_secs_f64);
            allowance.settle(Reading { passed, process, own });
        }
        spent
    }

    #[test]
    fn a_busy_server_gives_a_small_share_from_the_first_seconds_on() {
        for seconds in [2.0, 10.0, 600.0] {
            let (mut allowance, mut clocks) = (Allowance::new(Reading::default()), [0.0; 3]);
            // It was idle for long, and nothing was to be done.
            let idle = Duration::from_secs(3_600);
            clocks[0] = idle.as_secs_f64();
            allowance.settle(Reading { passed: idle, ..Reading::default() });
            // The look that finds the load has an idle server's slice, once.
            let mut part = spent(&mut allowance, &mut clocks, 1.0, seconds);
            part -= CALM_SLICE.as_secs_f64();
            assert!(part <= seconds * SHARE * 1.05, "{part} of {seconds}");
            assert!(part >= seconds * SHARE * 0.5, "{part} of {seconds}");
        }
    }

    #[test]
    fn a_calm_server_gives_what_it_saved_and_then_a_little() {
        let (mut allowance, mut clocks) = (Allowance::new(Reading::default()), [0.0; 3]);
        let first = spent(&mut allowance, &mut clocks, 0.01, 3.0);
        assert!(first > SPARE_MAX * 0.95, "{first}");
        let later = spent(&mut allowance, &mut clocks, 0.01, 100.0);
        assert!(later <= 100.0 * (SPARE + 0.01 * SHARE) * 1.05, "{later}");
    }

    #[test]
    fn work_beyond_the_purse_is_paid_back() {
        let mut allowance = Allowance::new(Reading::default());
        let second = Duration::from_secs(1);
        // Busy, and half a second of work that nobody allowed.
        let half = second / 2;
        allowance.is_calm = false;
        allowance.settle(Reading { passed: second, process: second, own: half });
        assert_eq!(allowance.slice(), Duration::ZERO);
        assert!(!allowance.affords(Duration::from_millis(1)));
        let long = second * 260;
        allowance.settle(Reading { passed: long, process: long, own: half });
        assert!(allowance.slice() > Duration::ZERO);
    }
}
