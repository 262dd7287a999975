//! The floors of the machine: what an HTTP exchange costs a server that does nothing, and what a durable append costs a log.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;

use crate::Outcome;
use crate::cell::{Brought, Client};
use crate::exchange::Connection;
use crate::signed::Signer;

/// Sizes of answers whose cost is measured; those in between are interpolated.
pub(crate) const SIZES: [usize; 4] = [400, 4096, 16_384, 65_536];
/// A body is no smaller than this.
const BODY_MIN: usize = 80;
const RECORD_BYTES: usize = 400;

/// Serves answers of the size that the path ends with, until the process ends.
pub(crate) fn serve(port: u16, threads: usize) -> Outcome<()> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    runtime.block_on(async move {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            tokio::spawn(async move {
                let served = hyper::server::conn::http1::Builder::new()
                    .pipeline_flush(true)
                    .serve_connection(TokioIo::new(stream), service_fn(answer))
                    .await;
                // A client that goes away ends its connection, which is all there is to do.
                drop(served);
            });
        }
    })
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    static BODY: std::sync::OnceLock<Bytes> = std::sync::OnceLock::new();
    let largest = SIZES[SIZES.len() - 1];
    let size = request.uri().path().rsplit('/').next().and_then(|size| size.parse().ok());
    let size = size.unwrap_or(SIZES[0]).clamp(BODY_MIN, largest);
    request.into_body().collect().await?;
    let body = BODY.get_or_init(|| Bytes::from(vec![b'x'; largest])).slice(..size);
    let mut response = Response::new(Full::new(body));
    let headers = response.headers_mut();
    // As many headers as an answer of Cosmos DB has, and as long.
    for (name, value) in [
        ("content-type", "application/json"),
        ("x-ms-request-charge", "1"),
        ("x-ms-activity-id", "0f8fad5b-d9cb-469f-a165-70867728950e"),
        ("x-ms-session-token", "0:-1#12345"),
        ("x-ms-gatewayversion", "version=2.14.0"),
        (
            "x-ms-resource-quota",
            "documentSize=10240;documentsSize=10485760;documentsCount=-1;collectionSize=10485760;",
        ),
        (
            "x-ms-resource-usage",
            "documentSize=0;documentsSize=0;documentsCount=0;collectionSize=0;",
        ),
        ("x-ms-schemaversion", "1.12"),
        ("x-ms-last-state-change-utc", "Sun, 15 Nov 2026 00:00:00.000 GMT"),
        ("lsn", "12345"),
        ("etag", "\"00000000-0000-0000-0000-000000000000\""),
        ("x-ms-item-count", "1"),
    ] {
        headers.insert(name, hyper::header::HeaderValue::from_static(value));
    }
    Ok(response)
}

/// A connection to the floor.
pub(crate) struct FloorClient(Connection);

impl FloorClient {
    pub(crate) async fn open(address: &str) -> Outcome<Self> {
        Ok(Self(Connection::open(address).await?))
    }

    /// A point read as a client of Cosmos DB would send it, for an answer of so many bytes.
    pub(crate) fn request(address: &str, size: usize) -> Outcome<Vec<u8>> {
        Ok(Signer::new(address, "blog")?.read("posts", &size.to_string()))
    }
}

impl Client for FloorClient {
    type Operation = Vec<u8>;

    async fn perform(&mut self, request: &Vec<u8>) -> Result<Brought, String> {
        let answer = self.0.exchange(request).await.map_err(|error| error.to_string())?;
        Ok(Brought { rows: 1, bytes: answer.bytes, trips: 1, ..Brought::default() })
    }
}

/// What writers wait for: records that are queued, and how far they are durable.
#[derive(Default)]
struct Queue {
    waiting: Vec<u8>,
    queued: u64,
    durable: u64,
    is_closed: bool,
}

struct Log {
    queue: Mutex<Queue>,
    has_work: Condvar,
    is_durable: Condvar,
}

impl Log {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Durable records a second that `writers` threads get out of a log with one sync per group.
pub(crate) fn durable_appends(folder: &Path, writers: usize, time: Duration) -> Outcome<f64> {
    let path = folder.join("durable-appends");
    let mut file = File::create(&path)?;
    let log = Log { queue: Mutex::default(), has_work: Condvar::new(), is_durable: Condvar::new() };
    let start = Instant::now();
    let written = std::thread::scope(|scope| -> Outcome<u64> {
        let committer = scope.spawn(|| commit(&log, &mut file));
        let writers: Vec<_> =
            (0..writers).map(|_| scope.spawn(|| append(&log, start + time))).collect();
        let written = writers.into_iter().map(|writer| writer.join().unwrap_or(0)).sum();
        log.lock().is_closed = true;
        log.has_work.notify_all();
        committer.join().map_err(|_| "the committer of the floor failed")??;
        Ok(written)
    })?;
    let seconds = start.elapsed().as_secs_f64();
    std::fs::remove_file(&path)?;
    Ok(written as f64 / seconds)
}

fn append(log: &Log, end: Instant) -> u64 {
    let mut written = 0;
    while Instant::now() < end {
        let mut queue = log.lock();
        queue.waiting.extend_from_slice(&[b'x'; RECORD_BYTES]);
        queue.queued += 1;
        let mine = queue.queued;
        log.has_work.notify_one();
        while queue.durable < mine {
            queue = log.is_durable.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        written += 1;
    }
    written
}

fn commit(log: &Log, file: &mut File) -> std::io::Result<()> {
    let mut group = Vec::new();
    loop {
        let mut queue = log.lock();
        while queue.waiting.is_empty() && !queue.is_closed {
            queue = log.has_work.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        if queue.waiting.is_empty() {
            return Ok(());
        }
        group.clear();
        std::mem::swap(&mut queue.waiting, &mut group);
        let last = queue.queued;
        drop(queue);
        file.write_all(&group)?;
        file.sync_data()?;
        log.lock().durable = last;
        log.is_durable.notify_all();
    }
}
