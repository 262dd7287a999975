//! One cell of the table: a row on one system with so many connections.
//!
//! A cell warms up, then runs for a fixed time or a fixed count, whichever ends first. All connections are driven by one
//! thread, requests are made before the clock starts. Beside wall time it records what the server used of the processors.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

use crate::processes::{self, Used};

/// A cell ends early after so many failures.
const FAILURES_MAX: u64 = 20;
/// The part of a cell's count that warms up, at most `WARM_MAX`.
const WARM_PART: u64 = 10;
const WARM_MAX: u64 = 2000;
/// The part of a cell's time that warming up may take.
const WARM_TIME: f64 = 0.2;

/// What one operation brought.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Brought {
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    /// Exchanges with the server.
    pub(crate) trips: u64,
    pub(crate) charge: f64,
    /// Answers that asked to come again later.
    pub(crate) throttled: u64,
}

/// A connection that knows how to do one row's operations.
pub(crate) trait Client {
    /// An operation, made before the clock starts.
    type Operation;
    /// Does it; the error is a sentence.
    async fn perform(&mut self, operation: &Self::Operation) -> Result<Brought, String>;
}

/// How long and how wide a cell is.
#[derive(Clone, Copy)]
pub(crate) struct Width {
    pub(crate) connections: usize,
    pub(crate) count: u64,
    pub(crate) time: Duration,
}

impl Width {
    fn warm(self) -> u64 {
        (self.count / WARM_PART).clamp(1, WARM_MAX)
    }

    /// How many operations have to be made.
    pub(crate) fn operations(self) -> u64 {
        self.count + self.warm()
    }
}

/// What a cell measured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    latencies: Vec<Duration>,
    total: Brought,
    pub(crate) took: Duration,
    /// Processor time of the server.
    used: Duration,
    pub(crate) failures: u64,
    pub(crate) first_failure: Option<String>,
    /// The smaller share of the processors that was free before and behind it.
    pub(crate) free: f64,
}

impl Measured {
    fn add(&mut self, latency: Duration, brought: Brought) {
        self.latencies.push(latency);
        self.total.rows += brought.rows;
        self.total.bytes += brought.bytes;
        self.total.trips += brought.trips;
        self.total.charge += brought.charge;
        self.total.throttled += brought.throttled;
    }

    fn per_operation(&self, total: f64) -> f64 {
        total / self.operations().max(1.0)
    }

    pub(crate) fn operations(&self) -> f64 {
        self.latencies.len() as f64
    }

    pub(crate) fn per_second(&self) -> f64 {
        self.operations() / self.took.as_secs_f64().max(1e-9)
    }

    /// Processor time of the server for one operation, in microseconds.
    pub(crate) fn cpu_us(&self) -> f64 {
        self.per_operation(self.used.as_secs_f64() * 1e6)
    }

    pub(crate) fn rows(&self) -> f64 {
        self.per_operation(self.total.rows as f64)
    }

    pub(crate) fn bytes(&self) -> f64 {
        self.per_operation(self.total.bytes as f64)
    }

    pub(crate) fn trips(&self) -> f64 {
        self.per_operation(self.total.trips as f64)
    }

    pub(crate) fn charge(&self) -> f64 {
        self.per_operation(self.total.charge)
    }

    pub(crate) fn throttled(&self) -> u64 {
        self.total.throttled
    }

    /// The latency that a share of the operations did not exceed, in microseconds.
    pub(crate) fn latency_us(&self, percent: usize) -> f64 {
        let at = (self.latencies.len() * percent / 100).min(self.latencies.len().saturating_sub(1));
        self.latencies.get(at).map_or(0.0, |latency| latency.as_secs_f64() * 1e6)
    }
}

/// Runs a cell. `operations` are shared by all clients, each takes the next one.
pub(crate) async fn measure<C: Client>(
    clients: &mut [C],
    operations: &[C::Operation],
    width: Width,
    server: u32,
) -> Measured {
    let warm = usize::try_from(width.warm()).unwrap_or(usize::MAX).min(operations.len());
    let (warming, timed) = operations.split_at(warm);
    let free = processes::free_share();
    run(clients, warming, width.time.mul_f64(WARM_TIME), server).await;
    let mut measured = run(clients, timed, width.time, server).await;
    measured.free = free.min(processes::free_share());
    measured.latencies.sort_unstable();
    measured
}

async fn run<C: Client>(
    clients: &mut [C],
    operations: &[C::Operation],
    time: Duration,
    server: u32,
) -> Measured {
    let measured = RefCell::new(Measured::default());
    let next = Cell::new(0);
    let before: Used = processes::used(server);
    let start = Instant::now();
    let work = |client| drive(client, operations, &next, start + time, &measured);
    let mut all: FuturesUnordered<_> = clients.iter_mut().map(work).collect();
    while all.next().await.is_some() {}
    drop(all);
    let mut measured = measured.into_inner();
    measured.took = start.elapsed();
    measured.used = processes::used_since(server, &before);
    measured
}

async fn drive<C: Client>(
    client: &mut C,
    operations: &[C::Operation],
    next: &Cell<usize>,
    end: Instant,
    measured: &RefCell<Measured>,
) {
    loop {
        let Some(operation) = operations.get(next.get()) else { return };
        let start = Instant::now();
        if start >= end || measured.borrow().failures >= FAILURES_MAX {
            return;
        }
        next.set(next.get() + 1);
        let outcome = client.perform(operation).await;
        let latency = start.elapsed();
        let mut measured = measured.borrow_mut();
        match outcome {
            Ok(brought) => measured.add(latency, brought),
            Err(error) => {
                measured.failures += 1;
                measured.first_failure.get_or_insert(error);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counting(u64);

    impl Client for Counting {
        type Operation = u64;
        async fn perform(&mut self, operation: &u64) -> Result<Brought, String> {
            self.0 += 1;
            if *operation == 13 {
                return Err("thirteen".into());
            }
            Ok(Brought { rows: *operation, trips: 2, ..Brought::default() })
        }
    }

    #[test]
    fn every_operation_is_done_once_and_failures_are_counted_apart() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut clients = [Counting(0), Counting(0)];
        let width = Width { connections: 2, count: 20, time: Duration::from_secs(60) };
        let operations: Vec<u64> = (0..width.operations()).collect();
        assert_eq!(operations.len(), 22);
        let measured =
            runtime.block_on(measure(&mut clients, &operations, width, std::process::id()));
        assert_eq!(clients[0].0 + clients[1].0, 22);
        assert_eq!((measured.latencies.len(), measured.failures), (19, 1));
        assert_eq!(measured.first_failure.as_deref(), Some("thirteen"));
        assert!((measured.trips() - 2.0).abs() < 1e-9);
    }
}
