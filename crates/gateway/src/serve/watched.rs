//! A stream that notes when bytes arrive, so that slow request heads can be told from idleness.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

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
}

impl<S> Watched<S> {
    pub(super) fn new(inner: S, pulse: Arc<Pulse>) -> Self {
        Self { inner, pulse }
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

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
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
        Pin::new(&mut self.inner).poll_shutdown(context)
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
