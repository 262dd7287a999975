//! A stream whose first bytes were looked at, and come again.

use bytes::{Buf as _, Bytes};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};

/// The stream from its beginning.
#[derive(Debug)]
pub(super) struct Rewound<S> {
    first: Bytes,
    inner: S,
}

impl<S> Rewound<S> {
    /// A stream of which these bytes were read already.
    pub(super) fn new(first: Bytes, inner: S) -> Self {
        Self { first, inner }
    }
}

impl<S: AsyncRead + Unpin> Rewound<S> {
    /// Waits for so many first bytes, or for the end of the stream.
    pub(super) async fn peek<const N: usize>(mut inner: S) -> io::Result<(Self, Option<[u8; N]>)> {
        let mut first = [0; N];
        let mut filled = 0;
        while let Some(place) = first.get_mut(filled..).filter(|place| !place.is_empty()) {
            match inner.read(place).await? {
                0 => break,
                read => filled += read,
            }
            // HTTP says what it is with its first byte; only a frame's length may be anything.
            if filled < N && is_http(&first[..filled]) {
                break;
            }
        }
        let whole = (filled == N).then_some(first);
        let first = Bytes::copy_from_slice(first.get(..filled).unwrap_or_default());
        Ok((Self { first, inner }, whole))
    }
}

/// Whether bytes can only be the beginning of HTTP: a method's letters, where a frame's length would be
/// beyond all bounds once four of them are there.
fn is_http(first: &[u8]) -> bool {
    first.len() >= 4 && first.iter().all(u8::is_ascii_graphic)
}

impl<S: AsyncRead + Unpin> AsyncRead for Rewound<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.first.is_empty() {
            return Pin::new(&mut self.inner).poll_read(context, buffer);
        }
        let taken = self.first.len().min(buffer.remaining());
        buffer.put_slice(&self.first[..taken]);
        self.first.advance(taken);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Rewound<S> {
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
