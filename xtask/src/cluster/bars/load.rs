//! Clients that cost little: whole requests as bytes over connections that are kept, answers read no further than is needed.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::Outcome;
use crate::rest::Client;

/// Clients at once.
pub(super) const CONNECTIONS: usize = 16;
/// Items that are read and asked for.
const ITEMS: usize = 2_000;
/// Logical partitions; a query is about one of them.
const KEYS: usize = 100;
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// How long one answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
const DOCS: &str = "/dbs/bars/colls/items/docs";
/// A word of an item's text: as compressible as prose is.
const TEXT_WORDS: usize = 60;

/// What clients ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Create,
    Read,
    Query,
}

/// A server that clients ask.
pub(super) struct Target {
    address: SocketAddr,
    signer: Client,
    created: AtomicU64,
}

impl Target {
    pub(super) fn new(address: SocketAddr, signer: Client) -> Self {
        Self { address, signer, created: AtomicU64::new(fastrand::u64(..) >> 8) }
    }

    /// Makes the container and the items that are read.
    pub(super) fn prepare(&self) -> Outcome<()> {
        let mut connection = LoadConnection::open(self.address)?;
        let definition = json!({"id": "items", "partitionKey": {"paths": ["/pk"], "kind": "Hash"}});
        for (path, body) in [("/dbs", json!({"id": "bars"})), ("/dbs/bars/colls", definition)] {
            let request = self.request("POST", path, "", &body.to_string());
            connection.ask(&request)?.expect_done()?;
        }
        for number in 0..ITEMS {
            connection.ask(&self.create(&format!("item-{number}"), number))?.expect_done()?;
        }
        Ok(())
    }

    /// Asks for so long over [`CONNECTIONS`]; how often in a second.
    pub(super) fn ask(&self, asked: Asked, time: Duration) -> Outcome<f64> {
        let (over, count) = (AtomicBool::new(false), AtomicU64::new(0));
        let one = |first: usize| -> Outcome<()> {
            let mut connection = LoadConnection::open(self.address)?;
            let made: Vec<Vec<u8>> =
                (0..ITEMS).map(|at| self.made(asked, first * 97 + at)).collect();
            for request in made.iter().cycle() {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                match asked {
                    Asked::Create => connection.ask(&self.create_next(first)),
                    Asked::Read | Asked::Query => connection.ask(request),
                }?
                .expect_done()?;
                count.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        };
        thread::scope(|scope| {
            let one = &one;
            let asking: Vec<_> =
                (0..CONNECTIONS).map(|first| scope.spawn(move || one(first))).collect();
            // What opening connections costs is no part of it.
            thread::sleep(time / 10);
            let (before, begun) = (count.load(Ordering::Relaxed), Instant::now());
            thread::sleep(time);
            let done = count.load(Ordering::Relaxed) - before;
            let took = begun.elapsed();
            over.store(true, Ordering::Relaxed);
            for client in asking {
                client.join().map_err(|_| "a client panicked")??;
            }
            Ok(done as f64 / took.as_secs_f64())
        })
    }

    /// Writes until one write is acknowledged.
    pub(super) fn write_until_done(&self, within: Duration, pause: Duration) -> Outcome<()> {
        let end = Instant::now() + within;
        while Instant::now() < end {
            let asked = LoadConnection::open(self.address)
                .and_then(|mut connection| connection.ask(&self.create_next(0)));
            if asked.and_then(Answered::expect_done).is_ok() {
                return Ok(());
            }
            thread::sleep(pause);
        }
        Err("no write was acknowledged".into())
    }

    fn made(&self, asked: Asked, number: usize) -> Vec<u8> {
        let number = number % ITEMS;
        let key = key(number);
        match asked {
            Asked::Create => Vec::new(),
            Asked::Read => {
                self.request("GET", &format!("{DOCS}/item-{number}"), &key_header(&key), "")
            }
            Asked::Query => {
                let text = "SELECT TOP 10 c.id, c.n FROM c WHERE c.n >= @least ORDER BY c.n";
                let least = number / 2;
                let body =
                    json!({"query": text, "parameters": [{"name": "@least", "value": least}]});
                let headers = format!(
                    "{}x-ms-documentdb-isquery: True\r\ncontent-type: application/query+json\r\n",
                    key_header(&key)
                );
                self.request("POST", DOCS, &headers, &body.to_string())
            }
        }
    }

    fn create_next(&self, client: usize) -> Vec<u8> {
        let number = self.created.fetch_add(1, Ordering::Relaxed);
        self.create(&format!("new-{number}"), client + usize::try_from(number).unwrap_or(0) % KEYS)
    }

    fn create(&self, id: &str, number: usize) -> Vec<u8> {
        let mut random = fastrand::Rng::with_seed(number as u64);
        let words: Vec<String> =
            (0..TEXT_WORDS).map(|_| format!("{:x}", random.u32(..) >> random.u32(0..24))).collect();
        let key = key(number);
        let body = json!({"id": id, "pk": key, "n": number, "text": words.join(" ")});
        self.request("POST", DOCS, &key_header(&key), &body.to_string())
    }

    /// A signed request as it goes over the wire. Its signature knows the path and not the body.
    fn request(&self, verb: &str, path: &str, headers: &str, body: &str) -> Vec<u8> {
        let mut text = format!("{verb} {path} HTTP/1.1\r\nhost: localhost\r\n{headers}");
        for (name, value) in self.signer.signed(verb, path) {
            text.extend([name, ": ", value.as_str(), "\r\n"]);
        }
        text.push_str("accept: application/json\r\nuser-agent: bars\r\n");
        if verb != "GET" {
            text.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        (text + "\r\n" + body).into_bytes()
    }
}

fn key(number: usize) -> String {
    format!("key-{}", number % KEYS)
}

fn key_header(key: &str) -> String {
    format!("x-ms-documentdb-partitionkey: [\"{key}\"]\r\n")
}

/// What writers saw.
pub(super) struct Watched {
    pub(super) longest: Duration,
    pub(super) done: u64,
    pub(super) errors: Vec<String>,
}

/// Writes through all targets over so many connections while something happens. A connection that is closed between two requests, in order,
/// is opened again; everything else that is no success is an error.
pub(super) fn watch(
    targets: &[Target],
    connections: usize,
    happens: impl FnOnce() -> Outcome<()>,
) -> Outcome<Watched> {
    let over = AtomicBool::new(false);
    let watched = Mutex::new(Watched { longest: Duration::ZERO, done: 0, errors: Vec::new() });
    let one = |first: usize| {
        let target = &targets[first % targets.len()];
        let mut connection = None;
        while !over.load(Ordering::Relaxed) {
            let request = target.create_next(first);
            let begun = Instant::now();
            let asked = write(target, &mut connection, &request);
            let took = begun.elapsed();
            let Ok(mut watched) = watched.lock() else { return };
            watched.longest = watched.longest.max(took);
            match asked {
                Ok(()) => watched.done += 1,
                Err(error) => {
                    watched.errors.push(format!("client {first} after {took:?}: {error}"))
                }
            }
        }
    };
    let happened = thread::scope(|scope| {
        let one = &one;
        (0..connections).for_each(|first| drop(scope.spawn(move || one(first))));
        let happened = happens();
        over.store(true, Ordering::Relaxed);
        happened
    });
    happened?;
    watched.into_inner().map_err(|_| "a client panicked".into())
}

fn write(target: &Target, kept: &mut Option<LoadConnection>, request: &[u8]) -> Outcome<()> {
    if kept.as_mut().is_some_and(LoadConnection::was_closed) {
        *kept = None;
    }
    let mut connection = match kept.take() {
        Some(connection) => connection,
        None => LoadConnection::open(target.address)?,
    };
    let answered = connection.ask(request)?;
    if !answered.is_last {
        *kept = Some(connection);
    }
    answered.expect_done()
}

/// What the head of an answer said.
struct Answered {
    status: u16,
    /// The connection is closed behind it.
    is_last: bool,
    told: String,
}

impl Answered {
    fn expect_done(self) -> Outcome<()> {
        match self.status {
            200..=299 => Ok(()),
            status => Err(format!("answered {status}: {}", self.told).into()),
        }
    }
}

/// One connection.
struct LoadConnection {
    stream: TcpStream,
    answer: Vec<u8>,
}

impl LoadConnection {
    fn open(address: SocketAddr) -> Outcome<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        Ok(Self { stream, answer: vec![0; ANSWER_BYTES_MAX] })
    }

    /// Whether the other side has said that it will answer no more.
    fn was_closed(&mut self) -> bool {
        let looked = self.stream.set_nonblocking(true).and_then(|()| self.stream.peek(&mut [0]));
        let is_open =
            matches!(&looked, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock);
        !is_open || self.stream.set_nonblocking(false).is_err()
    }

    fn ask(&mut self, request: &[u8]) -> Outcome<Answered> {
        self.stream.write_all(request)?;
        let mut read = 0;
        loop {
            let room = self.answer.get_mut(read..).filter(|room| !room.is_empty());
            match self.stream.read(room.ok_or("an answer is too long")?)? {
                0 => return Err(format!("closed after {read} bytes of an answer").into()),
                more => read += more,
            }
            if let Some(answered) = whole(self.answer.get(..read).unwrap_or_default()) {
                return Ok(answered);
            }
        }
    }
}

/// The answer, once its head and as much body as that says are there.
fn whole(answer: &[u8]) -> Option<Answered> {
    let end = answer.windows(4).position(|found| found == b"\r\n\r\n")?;
    let head = std::str::from_utf8(answer.get(..end)?).ok()?;
    let (mut length, mut is_last) = (0, false);
    for line in head.lines().skip(1) {
        match line.split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse().ok()?;
            }
            Some((name, value)) if name.eq_ignore_ascii_case("connection") => {
                is_last = value.eq_ignore_ascii_case("close");
            }
            _ => {}
        }
    }
    let body = answer.get(end + 4..end + 4 + length)?;
    let status = head.get(9..12)?.parse().ok()?;
    let told =
        if status < 300 { String::new() } else { String::from_utf8_lossy(body).into_owned() };
    Some(Answered { status, is_last, told })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_whole_with_its_body() {
        let text = "HTTP/1.1 201 Created\r\nContent-Length: 3\r\nconnection: close\r\n\r\nabc";
        for length in 0..text.len() {
            assert!(whole(&text.as_bytes()[..length]).is_none(), "{length}");
        }
        let answered = whole(text.as_bytes()).unwrap();
        assert_eq!((answered.status, answered.is_last), (201, true));
        assert!(answered.expect_done().is_ok());
        let refused = whole(b"HTTP/1.1 429 x\r\ncontent-length: 2\r\n\r\n{}").unwrap();
        assert!(!refused.is_last && refused.expect_done().is_err());
    }
}
