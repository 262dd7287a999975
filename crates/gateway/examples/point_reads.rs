//! What a point read costs the server, over HTTP/1.1 and in Direct mode: processor time of a real server process.
//!
//! `cargo run --release -p armilla-gateway --example point_reads -- target/release/armilla [reads]` starts the binary in
//! memory, writes a thousand items of about 1 KB, and reads them by key over each wire, all inside TLS. The figure is that of the
//! server alone (`/proc/PID/stat`), so a slow or busy machine changes it little; compare rows of one run.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement prints and may stop")]
#![allow(clippy::disallowed_methods, reason = "a client signs its requests with the time of day")]

use armilla_gateway::auth::WELL_KNOWN_KEY;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const ITEMS: usize = 1_000;
const READS_DEFAULT: usize = 100_000;
/// Reads under way at a time, on every row.
const AT_ONCE: usize = 16;
const CONTAINER: &str = "dbs/blog/colls/posts";
/// A Linux kernel counts processor time in hundredths of a second for programs, whatever its own clock.
const TICKS_PER_SECOND: f64 = 100.0;

type Stream = TlsStream<TcpStream>;

fn main() {
    let mut words = std::env::args().skip(1);
    let binary = words.next().expect("the path of the server's binary");
    let reads = words.next().map_or(READS_DEFAULT, |count| count.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(run(&binary, reads));
}

async fn run(binary: &str, reads: usize) {
    let server = Server::start(binary).await;
    let replica = server.fill().await;
    println!("{reads} reads per row, {AT_ONCE} at a time; microseconds of the server per read");
    // Twice in turn: the second round has everything warm.
    for _ in 0..2 {
        for (name, connections) in [("HTTP/1.1 over TLS", AT_ONCE)] {
            let before = server.processor_time();
            let each = reads / connections;
            let tasks: Vec<_> = (0..connections).map(|_| server.read_http(each)).collect();
            all(tasks).await;
            tell(name, connections, server.processor_time() - before, reads);
        }
        for connections in [AT_ONCE, 1] {
            let before = server.processor_time();
            let (each, in_flight) = (reads / connections, AT_ONCE / connections);
            let read = || server.read_direct(&replica, each, in_flight);
            let tasks: Vec<_> = (0..connections).map(|_| read()).collect();
            all(tasks).await;
            tell("Direct", connections, server.processor_time() - before, reads);
        }
    }
}

/// Runs futures side by side on this thread.
async fn all(tasks: Vec<impl Future<Output = ()>>) {
    let mut tasks: Vec<_> = tasks.into_iter().map(Box::pin).collect();
    std::future::poll_fn(|context| {
        tasks.retain_mut(|task| task.as_mut().poll(context).is_pending());
        if tasks.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

fn tell(name: &str, connections: usize, spent: Duration, reads: usize) {
    let micros = spent.as_secs_f64() * 1e6 / reads as f64;
    println!("{name:<18} {connections:>2} connections  {micros:>6.1}");
}

/// A server in memory, ended with this value.
struct Server {
    child: Child,
    port: u16,
    connector: TlsConnector,
    date: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    async fn start(binary: &str) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new(binary);
        command.args(["serve", "--in-memory", "--throttle", "off", "--port", &port.to_string()]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let until = Instant::now() + Duration::from_secs(30);
        let pem = loop {
            match plain(port, "/_explorer/emulator.pem").await {
                Some(pem) => break pem,
                None => assert!(Instant::now() < until, "the server does not answer"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let date = httpdate::fmt_http_date(SystemTime::now());
        Self { child, port, connector: TlsConnector::from(Arc::new(config)), date }
    }

    fn processor_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        // Behind the name in parentheses: fields 14 and 15 of the whole line.
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
        Duration::from_secs_f64(ticks / TICKS_PER_SECOND)
    }

    async fn connect(&self) -> Stream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        self.connector.connect(name, stream).await.unwrap()
    }

    /// Makes the container and its items; the path of its only range.
    async fn fill(&self) -> String {
        let mut stream = self.connect().await;
        self.post(&mut stream, "dbs", "", r#"{"id":"blog"}"#).await;
        let definition = r#"{"id":"posts","partitionKey":{"paths":["/pk"],"version":2}}"#;
        let made = self.post(&mut stream, "colls", "dbs/blog", definition).await;
        for number in 0..ITEMS {
            let text = "x".repeat(900);
            let item = format!(r#"{{"id":"i{number}","pk":"p{number}","text":"{text}"}}"#);
            let key = format!("[\"p{number}\"]");
            let head = self.head("POST", "docs", CONTAINER, &format!("/{CONTAINER}/docs"), &key);
            exchange(&mut stream, &format!("{head}content-length: {}\r\n\r\n{item}", item.len()))
                .await;
        }
        let rid = made.split("\"_rid\":\"").nth(1).unwrap().split('=').next().unwrap();
        format!("/apps/armilla/services/{rid}/partitions/0/replicas/1p")
    }

    async fn post(&self, stream: &mut Stream, kind: &str, link: &str, body: &str) -> String {
        let path = if link.is_empty() { format!("/{kind}") } else { format!("/{link}/{kind}") };
        let head = self.head("POST", kind, link, &path, "");
        exchange(stream, &format!("{head}content-length: {}\r\n\r\n{body}", body.len())).await
    }

    /// The head of a request as SDKs send it, without its last line.
    fn head(&self, method: &str, kind: &str, link: &str, path: &str, key: &str) -> String {
        let authorization = self.signature(method, kind, link);
        let (date, port) = (&self.date, self.port);
        let key = match key.is_empty() {
            true => String::new(),
            false => format!("x-ms-documentdb-partitionkey: {key}\r\n"),
        };
        format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost:{port}\r\nauthorization: {authorization}\r\n\
             x-ms-date: {date}\r\nx-ms-version: 2020-07-15\r\naccept: application/json\r\n{key}\
             user-agent: azsdk-java-cosmos/4.80.0\r\nx-ms-cosmos-sdk-supportedcapabilities: 11\r\n"
        )
    }

    fn signature(&self, method: &str, kind: &str, link: &str) -> String {
        let (method, date) = (method.to_ascii_lowercase(), self.date.to_ascii_lowercase());
        let text = format!("{method}\n{kind}\n{link}\n{date}\n\n");
        let key = STANDARD.decode(WELL_KNOWN_KEY).unwrap();
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &key);
        let signature = STANDARD.encode(ring::hmac::sign(&key, text.as_bytes()));
        let signature = signature.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
        format!("type%3Dmaster%26ver%3D1.0%26sig%3D{signature}")
    }

    /// Reads one item after the other on a connection of its own.
    async fn read_http(&self, count: usize) {
        let mut stream = self.connect().await;
        for number in (0..ITEMS).cycle().take(count) {
            let link = format!("{CONTAINER}/docs/i{number}");
            let key = format!("[\"p{number}\"]");
            let head = self.head("GET", "docs", &link, &format!("/{link}"), &key);
            let answer = exchange(&mut stream, &format!("{head}\r\n")).await;
            assert!(answer.contains("\"id\":\"i"), "{answer}");
        }
    }

    /// Reads items with so many requests in flight.
    async fn read_direct(&self, replica: &str, count: usize, in_flight: usize) {
        let mut stream = self.connect().await;
        let mut context = Vec::new();
        token(&mut context, 0, 0x02, &1_u32.to_le_bytes());
        small_text(&mut context, 1, "2020-07-15");
        small_text(&mut context, 2, "cosmos-netstandard-sdk/3.64.0");
        stream.write_all(&frame([0, 0], &context)).await.unwrap();
        let mut answers = Answers { stream, buffer: Vec::new() };
        assert_eq!(answers.next(false).await, 200);
        let mut numbers = (0..ITEMS).cycle().take(count).enumerate();
        let mut waiting = 0;
        loop {
            let mut bytes = Vec::new();
            for (transport_id, number) in numbers.by_ref().take(in_flight - waiting) {
                bytes.extend(self.read_frame(replica, number, transport_id as u32));
                waiting += 1;
            }
            if waiting == 0 {
                return;
            }
            answers.stream.write_all(&bytes).await.unwrap();
            assert_eq!(answers.next(true).await, 200);
            waiting -= 1;
        }
    }

    /// A read of an item, with the tokens that clients send.
    fn read_frame(&self, replica: &str, number: usize, transport_id: u32) -> Vec<u8> {
        let link = format!("{CONTAINER}/docs/i{number}");
        let rid = replica.split('/').nth(4).unwrap();
        let mut tokens = Vec::new();
        text(&mut tokens, 0x01, &self.signature("GET", "docs", &link));
        token(&mut tokens, 0x02, 0x00, &[0]);
        small_text(&mut tokens, 0x03, &self.date);
        text(&mut tokens, 0x13, replica);
        text(&mut tokens, 0x15, "blog");
        text(&mut tokens, 0x16, "posts");
        text(&mut tokens, 0x17, &format!("i{number}"));
        text(&mut tokens, 0x2b, &format!("[\"p{number}\"]"));
        text(&mut tokens, 0x35, &format!("{rid}="));
        token(&mut tokens, 0x4d, 0x02, &transport_id.to_le_bytes());
        frame([3, 3], &tokens)
    }
}

/// Resource type, operation type and tokens as one frame.
fn frame([resource, operation]: [u8; 2], tokens: &[u8]) -> Vec<u8> {
    let mut bytes = (24 + tokens.len() as u32).to_le_bytes().to_vec();
    bytes.extend([resource, 0, operation, 0]);
    bytes.extend([7; 16]);
    bytes.extend(tokens);
    bytes
}

fn token(out: &mut Vec<u8>, id: u16, kind: u8, value: &[u8]) {
    out.extend(id.to_le_bytes());
    out.push(kind);
    out.extend(value);
}

fn text(out: &mut Vec<u8>, id: u16, value: &str) {
    token(out, id, 0x08, &(value.len() as u16).to_le_bytes());
    out.extend(value.as_bytes());
}

fn small_text(out: &mut Vec<u8>, id: u16, value: &str) {
    token(out, id, 0x07, &[value.len() as u8]);
    out.extend(value.as_bytes());
}

/// The answers of a connection in Direct mode.
struct Answers {
    stream: Stream,
    buffer: Vec<u8>,
}

impl Answers {
    /// The status of the next one; those of reads have a payload.
    async fn next(&mut self, has_payload: bool) -> u32 {
        loop {
            if let Some((status, end)) = self.whole(has_payload) {
                self.buffer.drain(..end);
                return status;
            }
            assert!(self.stream.read_buf(&mut self.buffer).await.unwrap() > 0, "closed");
        }
    }

    fn whole(&self, has_payload: bool) -> Option<(u32, usize)> {
        let number = |at: usize| {
            let bytes = self.buffer.get(at..at + 4)?.try_into().ok()?;
            Some(u32::from_le_bytes(bytes))
        };
        let (length, status) = (number(0)? as usize, number(4)?);
        let end = match has_payload {
            true => length + 4 + number(length)? as usize,
            false => length,
        };
        (self.buffer.len() >= end).then_some((status, end))
    }
}

/// Sends a request over HTTP/1.1; the body of its answer.
async fn exchange(stream: &mut Stream, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    loop {
        assert!(stream.read_buf(&mut answer).await.unwrap() > 0, "closed");
        let text = String::from_utf8_lossy(&answer);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.to_ascii_lowercase();
        let length = length.split("content-length: ").nth(1).unwrap().split('\r').next();
        let length: usize = length.unwrap().parse().unwrap();
        if body.len() >= length {
            assert!(head.starts_with("HTTP/1.1 20"), "{text}");
            return body.to_owned();
        }
    }
}

/// The body of a page over plain HTTP, if there is somebody to answer.
async fn plain(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned())
}
