//! A receiver of webhooks that outlives the server: it remembers every entry it was sent, refuses one call in a few,
//! and never forgets an answer that the killed server did not hear.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::Outcome;

/// One call in this many is answered 503.
const REFUSED_ONE_IN: u32 = 6;
const READ_WITHIN: Duration = Duration::from_secs(20);
const BODY_BYTES_MAX: u64 = 16 << 20;

/// What came, by the id of the item.
#[derive(Default)]
pub(crate) struct Received {
    /// The key under which an entry came, with the LSN and how often it was taken.
    entries: BTreeMap<String, (String, u64, u64)>,
    /// The LSN of the last entry that was new, by logical partition.
    last: BTreeMap<String, u64>,
    /// The first thing that must not be.
    wrong: Option<String>,
    calls: u64,
}

/// The receiver; its thread ends with the process.
#[derive(Clone)]
pub(crate) struct Hook {
    port: u16,
    received: Arc<Mutex<Received>>,
}

impl Hook {
    /// Listens at a free port of this machine.
    pub(crate) fn listen(mut random: fastrand::Rng) -> Outcome<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let hook = Self { port: listener.local_addr()?.port(), received: Arc::default() };
        let received = hook.received.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (received, refuse) = (received.clone(), random.u32(0..REFUSED_ONE_IN) == 0);
                // A call that is cut off, because the server was killed, is none.
                thread::spawn(move || answer(stream, &received, refuse));
            }
        });
        Ok(hook)
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The ids of the items that came at least once.
    pub(crate) fn ids(&self) -> Outcome<Vec<String>> {
        let received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        match &received.wrong {
            Some(wrong) => Err(wrong.clone().into()),
            None => Ok(received.entries.keys().cloned().collect()),
        }
    }

    /// Entries that came, and how often one came again.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        let taken: u64 = received.entries.values().map(|(_, _, times)| times).sum();
        let entries = received.entries.len() as u64;
        (entries, taken - entries)
    }
}

impl Received {
    /// Takes the entries of a call.
    fn take(&mut self, body: &Value) {
        self.calls += 1;
        for entry in body["entries"].as_array().into_iter().flatten() {
            let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
            let (id, key, lsn) = (text("id"), text("key"), entry["lsn"].as_u64().unwrap_or(0));
            if let Some((known, _, times)) = self.entries.get_mut(&id) {
                *times += 1;
                if *known != key {
                    let wrong = format!("the entry of {id} came as {known} and as {key}");
                    self.wrong.get_or_insert(wrong);
                }
                continue;
            }
            let of = entry["partitionKey"].to_string();
            let last = self.last.entry(of.clone()).or_default();
            if lsn < *last {
                let wrong = format!("{id} at {lsn} of {of} came after {last} for the first time");
                self.wrong.get_or_insert(wrong);
            }
            *last = lsn.max(*last);
            self.entries.insert(id, (key, lsn, 1));
        }
    }
}

/// Reads one call and answers it; nothing when it was cut off.
fn answer(stream: TcpStream, received: &Mutex<Received>, refuse: bool) -> Option<()> {
    stream.set_read_timeout(Some(READ_WITHIN)).ok()?;
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse::<u64>().ok()?.min(BODY_BYTES_MAX);
        }
    }
    let mut body = Vec::new();
    reader.take(length).read_to_end(&mut body).ok().filter(|read| *read as u64 == length)?;
    let body = serde_json::from_slice(&body).ok()?;
    let status = if refuse { "503 Service Unavailable" } else { "200 OK" };
    if !refuse {
        // Before the answer: the server may be gone when it is written.
        received.lock().unwrap_or_else(PoisonError::into_inner).take(&body);
    }
    let mut stream = stream;
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn call(id: &str, key: &str, lsn: u64) -> Value {
        json!({"entries": [{"id": id, "key": key, "lsn": lsn, "partitionKey": ["p"]}]})
    }

    #[test]
    fn another_key_for_an_entry_and_a_wrong_order_are_noticed() {
        let mut received = Received::default();
        received.take(&call("a", "0:1:0", 1));
        received.take(&call("b", "0:2:0", 2));
        received.take(&call("a", "0:1:0", 1));
        assert_eq!(received.wrong, None);
        received.take(&call("a", "1:1:0", 1));
        assert!(received.wrong.take().is_some_and(|wrong| wrong.contains("came as")));
        received.take(&call("c", "0:1:1", 1));
        assert!(received.wrong.is_some_and(|wrong| wrong.contains("came after")));
    }
}
