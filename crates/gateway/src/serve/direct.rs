//! A connection in Direct mode: it negotiates once, then carries many requests at a time.
//!
//! One task reads frames and starts their requests; another writes answers as they become ready, in any
//! order. A request that is answered at once, as point reads are, runs on the reading task; what has to wait
//! goes on by itself. Requests in flight are bounded by not reading further; a place is given back
//! when the answer is written, so a client that does not read its answers holds up nobody but itself.

use super::connection::{Failure, Shared};
use super::newcomers::Newcomer;
use crate::direct::context;
use crate::direct::exchange::{Connected, Exchanged};
use crate::direct::frame::{Decoder, RequestFrame, take_context};
use crate::handle::Peer;
use crate::limits::{DIRECT_IDLE_TIMEOUT, DIRECT_REQUESTS_MAX, Limits};
use crate::service::{DirectEvent, Service};
use bytes::BytesMut;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;
use tokio::io::{
    AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadHalf, WriteHalf,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Room that is made for the next bytes of a connection.
const READ_SIZE: usize = 16 * 1024;

/// An answer on its way out, with the place of its request.
type Outgoing = (Exchanged, OwnedSemaphorePermit);

/// Serves a connection to its end.
pub(super) async fn speak<S: Service, IO>(
    stream: IO,
    shared: &Arc<Shared<S>>,
    (peer, server_name): (Peer, Option<String>),
    newcomer: Newcomer,
    stopping: watch::Receiver<bool>,
) -> Result<(), Failure>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = &shared.gateway.settings.limits;
    let (mut reading, mut writing) = tokio::io::split(stream);
    let mut buffer = BytesMut::with_capacity(READ_SIZE);
    let negotiated = negotiate(&mut reading, &mut writing, &mut buffer);
    let version = tokio::select! {
        negotiated = timeout(limits.first_wait(), negotiated) => negotiated.map_err(|_| "nobody negotiated")??,
        () = newcomer.evicted() => None,
    };
    let Some(version) = version else { return Ok(writing.shutdown().await?) };
    shared.gateway.service.count_direct(DirectEvent::Connected);
    let (answers, outgoing) = mpsc::channel(DIRECT_REQUESTS_MAX);
    let writer = tokio::spawn(write_answers(writing, outgoing, limits.body_timeout));
    let connection = Connection {
        shared,
        connected: Arc::new(Connected { peer, server_name, version }),
        places: Arc::new(Semaphore::new(DIRECT_REQUESTS_MAX)),
        answers,
        let_in: Arc::default(),
        newcomer,
    };
    let outcome = connection.read(reading, buffer, &writer, stopping).await;
    // Answers of requests in flight still go out; then the connection is closed in order.
    let _ = timeout(limits.shutdown_wait, writer).await;
    outcome
}

/// The first exchange; the `x-ms-version` of the connection, or nothing when it was refused.
async fn negotiate<IO: AsyncRead + AsyncWrite>(
    reading: &mut ReadHalf<IO>,
    writing: &mut WriteHalf<IO>,
    buffer: &mut BytesMut,
) -> Result<Option<String>, Failure> {
    loop {
        if let Some(asked) = take_context(buffer)? {
            writing.write_all(&context::answer(&asked)).await?;
            writing.flush().await?;
            return Ok(context::is_spoken(&asked).then_some(asked.client_version));
        }
        if reading.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

struct Connection<'s, S> {
    shared: &'s Arc<Shared<S>>,
    connected: Arc<Connected>,
    places: Arc<Semaphore>,
    answers: mpsc::Sender<Outgoing>,
    /// A request of this connection was let in.
    let_in: Arc<AtomicBool>,
    newcomer: Newcomer,
}

impl<S: Service> Connection<'_, S> {
    /// Reads and starts requests until the client goes, the server stops, or a frame cannot be read.
    async fn read<IO: AsyncRead>(
        self,
        mut reading: ReadHalf<IO>,
        mut buffer: BytesMut,
        writer: &JoinHandle<()>,
        mut stopping: watch::Receiver<bool>,
    ) -> Result<(), Failure> {
        let limits = &self.shared.gateway.settings.limits;
        let mut decoder = Decoder::new(limits.body_size_max);
        let mut is_newcomer = true;
        while !writer.is_finished() {
            while let Some(frame) = decoder.next(&mut buffer)? {
                let place = Arc::clone(&self.places).acquire_owned().await?;
                self.start(frame, place).await;
            }
            if is_newcomer && self.let_in.load(Ordering::Relaxed) {
                is_newcomer = false;
                self.newcomer.settle();
            }
            buffer.reserve(READ_SIZE);
            let is_between = decoder.is_between_frames() && buffer.is_empty();
            let wait = self.wait(limits, is_between, is_newcomer);
            tokio::select! {
                read = timeout(wait, reading.read_buf(&mut buffer)) => match read {
                    Ok(Ok(0)) => return Ok(()),
                    Ok(read) => read?,
                    Err(_) if is_between => return Ok(()),
                    Err(_) => return Err("a frame did not arrive in time".into()),
                },
                () = self.newcomer.evicted(), if is_newcomer => {
                    if !self.let_in.load(Ordering::Relaxed) {
                        return Ok(());
                    }
                    0
                }
                _ = stopping.wait_for(|stop| *stop) => return Ok(()),
            };
        }
        Err("the answers could not be written".into())
    }

    /// How long the next bytes are awaited.
    fn wait(&self, limits: &Limits, is_between: bool, is_newcomer: bool) -> Duration {
        match (is_between, is_newcomer) {
            (false, _) => limits.body_timeout,
            (true, true) => limits.idle_timeout,
            (true, false) => DIRECT_IDLE_TIMEOUT,
        }
    }

    /// Answers a request here, if that takes no waiting, or lets it go on by itself.
    async fn start(&self, frame: RequestFrame, place: OwnedSemaphorePermit) {
        let (shared, connected) = (Arc::clone(self.shared), Arc::clone(&self.connected));
        let (answers, let_in) = (self.answers.clone(), Arc::clone(&self.let_in));
        let mut exchange = Box::pin(async move {
            let exchanged = shared.gateway.exchange(&connected, &frame).await;
            if exchanged.let_in {
                let_in.store(true, Ordering::Relaxed);
            }
            // Nobody listens any more when the connection is gone.
            let _ = answers.send((exchanged, place)).await;
        });
        let is_done = poll_fn(|context| {
            let poll = Pin::as_mut(&mut exchange).poll(context);
            Poll::Ready(poll.is_ready())
        });
        if !is_done.await {
            tokio::spawn(exchange);
        }
    }
}

/// Writes answers until there are no more, several in one go where they wait; then closes in order.
async fn write_answers<IO: AsyncRead + AsyncWrite>(
    mut writing: WriteHalf<IO>,
    mut outgoing: mpsc::Receiver<Outgoing>,
    patience: Duration,
) {
    while let Some(first) = outgoing.recv().await {
        let written = timeout(patience, write_some(&mut writing, first, &mut outgoing)).await;
        if !matches!(written, Ok(Ok(()))) {
            return;
        }
    }
    let _ = timeout(patience, writing.shutdown()).await;
}

async fn write_some<IO: AsyncRead + AsyncWrite>(
    writing: &mut WriteHalf<IO>,
    first: Outgoing,
    outgoing: &mut mpsc::Receiver<Outgoing>,
) -> io::Result<()> {
    let mut next = Some(first);
    while let Some((exchanged, _place)) = next {
        writing.write_all(&exchanged.frame).await?;
        if !exchanged.payload.is_empty() {
            writing.write_all(&exchanged.payload).await?;
        }
        next = outgoing.try_recv().ok();
    }
    writing.flush().await
}
