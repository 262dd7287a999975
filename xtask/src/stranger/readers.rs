//! The others: clients that read single items all the time, and how long each read took.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::Outcome;
use crate::rest::Client;

/// How many items there are to read.
pub(super) const ITEMS_READ: usize = 50;
const READERS: usize = 3;
/// Time between two reads of one client, so that the readers are no crowd themselves.
const PAUSE: Duration = Duration::from_millis(15);

/// Clients that read until they are stopped.
pub(super) struct Readers {
    over: Arc<AtomicBool>,
    readers: Vec<JoinHandle<Outcome<Vec<Read>>>>,
}

/// How long one read took, and when after the start it was asked for.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Read {
    took: Duration,
    at: Duration,
}

/// Reads, the shortest first.
pub(super) struct Latencies(Vec<Read>);

impl Readers {
    /// Starts the clients, each with a connection that it has used once.
    pub(super) fn start(base: &str) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let start = |number: usize| {
            let (over, client) = (over.clone(), Client::new(base));
            let warm = read(&client, number);
            thread::spawn(move || warm.and_then(|()| read_until(&over, &client, number)))
        };
        let readers = (0..READERS).map(start).collect();
        Self { over, readers }
    }

    /// Ends the clients. An error says that a read failed.
    pub(super) fn stop(self) -> Outcome<Latencies> {
        self.over.store(true, Ordering::SeqCst);
        let mut all = Vec::new();
        for reader in self.readers {
            let reads = reader.join().map_err(|_| "a reader panicked")?;
            all.extend(reads.map_err(|error| format!("a point read failed: {error}"))?);
        }
        all.sort_unstable();
        Ok(Latencies(all))
    }
}

fn read_until(over: &AtomicBool, client: &Client, first: usize) -> Outcome<Vec<Read>> {
    let begun = Instant::now();
    let mut reads = Vec::new();
    for number in (first..).step_by(READERS) {
        if over.load(Ordering::SeqCst) {
            break;
        }
        let started = Instant::now();
        read(client, number % ITEMS_READ)?;
        reads.push(Read { took: started.elapsed(), at: started - begun });
        thread::sleep(PAUSE);
    }
    Ok(reads)
}

/// Reads one item and looks at what came.
pub(super) fn read(client: &Client, number: usize) -> Outcome<()> {
    let path = format!("{}/{number}", super::ITEMS);
    let key = json!(["others"]).to_string();
    let answer = client.send("GET", &path, &[(super::KEY_HEADER, &key)], None)?;
    match answer.status {
        200 if answer.body["id"] == json!(number.to_string()) => Ok(()),
        status => Err(format!("{path} answered {status}: {}", answer.body).into()),
    }
}

impl Latencies {
    fn at(&self, percent: usize) -> Read {
        let last = self.0.len().saturating_sub(1);
        self.0.get(last * percent / 100).copied().unwrap_or_default()
    }

    /// Says no when the reads were slow.
    pub(super) fn check(&self, median_max: Duration, worst_max: Duration) -> Outcome<()> {
        if self.0.len() < READERS {
            return Err("nobody could read".into());
        }
        if self.at(50).took > median_max || self.at(100).took > worst_max {
            return Err(format!("point reads were slow: {self}").into());
        }
        Ok(())
    }
}

impl fmt::Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |percent| self.at(percent).took.as_secs_f64() * 1000.0;
        let when = self.at(100).at.as_secs_f64();
        let (count, half, most, worst) = (self.0.len(), millis(50), millis(99), millis(100));
        write!(
            f,
            "{count} reads: median {half:.1} ms, 99 % {most:.1} ms, worst {worst:.1} ms (at {when:.1} s)"
        )
    }
}
