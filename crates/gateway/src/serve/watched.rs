//! A stream that notes when bytes arrive, so that slow request heads can be told from idleness.
//!
//! It also lingers: a connection that is closed on a request it would not read goes on reading for
//! a moment, because unread bytes would reset it before the client has seen why.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// What the connection's task, its stream and its requests know together. All of them run on one
/// task at a time, so relaxed order is enough.
#[derive(Debug, Default)]
pub(super) struct Pulse {
    /// Requests whose head has been read and whose answer is not yet made.
    in_flight: AtomicU32,
    /// Requests so far.
    requests: AtomicU64,
    /// Bytes have arrived since the last complete request head.
    partial_head: AtomicBool,
    /// The connection speaks HTTP/2, where bytes arrive without being part of a request.
    is_http2: AtomicBool,
    /// Any byte has arrived.
    started: AtomicBool,
    /// A request came with credentials that were good.
    let_in: AtomicBool,
    /// No further request is taken.
    leaving: AtomicBool,
}

impl Pulse {
    pub(super) fn begin_request(&self) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.partial_head.store(false, Ordering::Relaxed);
    }

    pub(super) fn end_request(&self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        self.partial_head.store(false, Ordering::Relaxed);
    }

    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    pub(super) fn let_in(&self) {
        self.let_in.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_let_in(&self) -> bool {
        self.let_in.load(Ordering::Relaxed)
    }

    /// Asks whoever speaks to end behind the request under way, if there is one.
    pub(super) fn leave(&self) {
        self.leaving.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Relaxed)
    }

    /// The same for whoever asks later.
    pub(super) fn leaving(&self) -> &AtomicBool {
        &self.leaving
    }

    /// A part of a request head is there, whenever it arrived.
    pub(super) fn head_has_begun(&self) {
        self.partial_head.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_busy(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) > 0
    }

    /// A request head has begun and is not complete.
    pub(super) fn waits_for_head(&self) -> bool {
        self.partial_head.load(Ordering::Relaxed)
            && !self.is_http2.load(Ordering::Relaxed)
            && !self.is_busy()
    }

    fn arrived(&self, bytes: &[u8]) {
        if !self.started.swap(true, Ordering::Relaxed) && bytes.starts_with(b"PRI") {
            self.is_http2.store(true, Ordering::Relaxed);
        }
        if self.in_flight.load(Ordering::Relaxed) == 0 {
            self.partial_head.store(true, Ordering::Relaxed);
        }
    }
}

/// The stream of one connection.
#[derive(Debug)]
pub(super) struct Watched<S> {
    inner: S,
    pulse: Arc<Pulse>,
    linger: Option<Linger>,
}

/// The end of a connection whose client is still sending.
#[derive(Debug)]
struct Linger {
    until: Pin<Box<Sleep>>,
    bytes_left: usize,
}

const LINGER_TIME: Duration = Duration::from_millis(500);
const LINGER_BYTES_MAX: usize = 1024 * 1024;

impl<S> Watched<S> {
    pub(super) fn new(inner: S, pulse: Arc<Pulse>) -> Self {
        Self { inner, pulse, linger: None }
    }
}

impl<S: AsyncRead + Unpin> Watched<S> {
    fn poll_linger(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let linger = self.linger.get_or_insert_with(|| Linger {
            until: Box::pin(sleep(LINGER_TIME)),
            bytes_left: LINGER_BYTES_MAX,
        });
        let mut scratch = [0; 4096];
        while linger.bytes_left > 0 {
            let mut buffer = ReadBuf::new(&mut scratch);
            match Pin::new(&mut self.inner).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    linger.bytes_left = linger.bytes_left.saturating_sub(buffer.filled().len());
                }
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return linger.until.as_mut().poll(context),
            }
        }
        Poll::Ready(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let poll = Pin::new(&mut self.inner).poll_read(context, buffer);
        if let Some(new) = buffer.filled().get(before..).filter(|new| !new.is_empty()) {
            self.pulse.arrived(new);
        }
        poll
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.linger.is_none() {
            ready!(Pin::new(&mut self.inner).poll_shutdown(context))?;
        }
        if self.pulse.waits_for_head() {
            ready!(self.poll_linger(context));
        }
        Poll::Ready(Ok(()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}
