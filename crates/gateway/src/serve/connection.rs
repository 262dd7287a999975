//! The life of one connection.

use super::http1::{Left, PlainConnection};
use super::newcomers::{Newcomer, Newcomers};
use super::rewound::Rewound;
use super::supervise::{Supervisor, Verdict};
use super::turns::Turns;
use super::watched::{Pulse, Watched};
use super::{Protocols, Purpose, direct};
use crate::direct::{DirectMode, Malformed, SNIFFED, is_context};
use crate::handle::{Gateway, Peer, RequestBody};
use crate::limits::{HEADER_COUNT_MAX, Limits, NEWCOMERS_SHARE};
use crate::service::{DirectEvent, Service};
use http::header::AUTHORIZATION;
use http::{Request, StatusCode, Version};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The first byte of a TLS handshake record.
const TLS_HANDSHAKE: u8 = 0x16;

/// What all connections of a server share.
pub(super) struct Shared<S> {
    pub(super) gateway: Gateway<S>,
    protocols: Protocols,
    http: auto::Builder<TokioExecutor>,
    open: AtomicUsize,
    closed: Notify,
    newcomers: Arc<Newcomers>,
    /// Connections that are being turned away.
    pub(super) refusals: Arc<Semaphore>,
}

impl<S> Shared<S> {
    pub(super) fn new(gateway: Gateway<S>, protocols: Protocols) -> Self {
        let limits = &gateway.settings.limits;
        let http = http_builder(limits);
        let newcomers = Newcomers::new(limits.connections_max / NEWCOMERS_SHARE);
        let refusals = Arc::new(Semaphore::new(limits.refusals_max));
        Self {
            gateway,
            protocols,
            http,
            open: AtomicUsize::new(0),
            closed: Notify::new(),
            newcomers: Arc::new(newcomers),
            refusals,
        }
    }

    /// A place for one more connection, if there is one.
    pub(super) fn admit(shared: &Arc<Self>) -> Option<Admission<S>> {
        let before = shared.open.fetch_add(1, Ordering::AcqRel);
        let admission = Admission(Arc::clone(shared));
        (before < shared.gateway.settings.limits.connections_max).then_some(admission)
    }

    pub(super) fn open_connections(&self) -> usize {
        self.open.load(Ordering::Acquire)
    }

    /// Waits until no connection is open.
    pub(super) async fn all_closed(&self) {
        loop {
            let closed = self.closed.notified();
            if self.open_connections() == 0 {
                return;
            }
            closed.await;
        }
    }
}

/// The place of one connection, given back when dropped.
pub(super) struct Admission<S>(Arc<Shared<S>>);

impl<S> Drop for Admission<S> {
    fn drop(&mut self) {
        if self.0.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.closed.notify_waiters();
        }
    }
}

fn http_builder(limits: &Limits) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        // The supervisor does this without a timer per request.
        .header_read_timeout(None)
        .max_headers(HEADER_COUNT_MAX)
        .max_buf_size(limits.header_size_max)
        // With `pipeline_flush` the answer to a malformed head would never be written.
        .half_close(false);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(limits.header_size_max).unwrap_or(u32::MAX))
        .max_concurrent_streams(limits.streams_max)
        .initial_stream_window_size(Some(256 * 1024))
        .initial_connection_window_size(Some(1024 * 1024));
    builder
}

/// Serves a connection to its end.
pub(super) async fn run<S: Service>(
    stream: TcpStream,
    (remote_address, purpose): (SocketAddr, Purpose),
    admission: Admission<S>,
    stopping: watch::Receiver<bool>,
) {
    let shared = &admission.0;
    let newcomer = Newcomers::arrive(&shared.newcomers);
    let Ok(local_address) = stream.local_addr() else { return };
    let peer = |is_secure| Peer { local_address, remote_address, is_secure };
    let outcome = match greet(stream, shared, &newcomer, stopping.clone()).await {
        Ok(Greeted::Plain(_)) if purpose == Purpose::Direct => {
            Err("the port of Direct mode speaks TLS alone".into())
        }
        Ok(Greeted::Plain(stream)) => speak(stream, shared, peer(false), newcomer, stopping).await,
        Ok(Greeted::Secure(stream)) => {
            secure(*stream, shared, (peer(true), purpose), newcomer, stopping).await
        }
        Ok(Greeted::Gone) => Ok(()),
        Err(error) => Err(error),
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, %remote_address, "a connection ended early");
    }
}

pub(super) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A connection at whose other end somebody has begun to speak.
enum Greeted {
    Plain(TcpStream),
    Secure(Box<TlsStream<TcpStream>>),
    /// Nobody spoke in time, or there was no more room for the silent.
    Gone,
}

/// Waits for the first byte, and makes a TLS connection of it where that byte says so.
async fn greet<S: Service>(
    stream: TcpStream,
    shared: &Shared<S>,
    newcomer: &Newcomer,
    mut stopping: watch::Receiver<bool>,
) -> Result<Greeted, Failure> {
    let limits = &shared.gateway.settings.limits;
    let first = tokio::select! {
        first = timeout(limits.first_wait(), first_byte(&stream)) => first,
        () = newcomer.evicted() => return Ok(Greeted::Gone),
        _ = stopping.wait_for(|stop| *stop) => return Ok(Greeted::Gone),
    };
    let Ok(Ok(Some(first))) = first else { return Ok(Greeted::Gone) };
    match &shared.protocols {
        Protocols::Tls(config) | Protocols::Both(config) if first == TLS_HANDSHAKE => {
            let handshake = TlsAcceptor::from(Arc::clone(config)).accept(stream);
            tokio::select! {
                shaken = timeout(limits.handshake_timeout, handshake) => match shaken {
                    Ok(stream) => Ok(Greeted::Secure(Box::new(stream?))),
                    Err(_) => Err("the TLS handshake took too long".into()),
                },
                () = newcomer.evicted() => Ok(Greeted::Gone),
            }
        }
        Protocols::Plain | Protocols::Both(_) if first != TLS_HANDSHAKE => {
            Ok(Greeted::Plain(stream))
        }
        _ => Err("the port does not speak this protocol".into()),
    }
}

async fn first_byte(stream: &TcpStream) -> io::Result<Option<u8>> {
    let mut first = [0];
    let read = stream.peek(&mut first).await?;
    Ok((read > 0).then_some(first[0]))
}

/// Tells HTTP from Direct mode inside TLS. A client that has named HTTP in the handshake means it; any other
/// is told by its first bytes.
async fn secure<S: Service>(
    stream: TlsStream<TcpStream>,
    shared: &Arc<Shared<S>>,
    (peer, purpose): (Peer, Purpose),
    newcomer: Newcomer,
    stopping: watch::Receiver<bool>,
) -> Result<(), Failure> {
    let settings = &shared.gateway.settings;
    let (_, tls) = stream.get_ref();
    let named = tls.alpn_protocol().is_some();
    let is_shared = settings.direct == DirectMode::SamePort;
    if purpose == Purpose::Health || purpose == Purpose::Gateway && (named || !is_shared) {
        return speak(stream, shared, peer, newcomer, stopping).await;
    }
    let server_name = tls.server_name().map(str::to_owned);
    let mut stop = stopping.clone();
    let peeked = tokio::select! {
        peeked = timeout(settings.limits.first_wait(), Rewound::peek::<SNIFFED>(stream)) => peeked,
        () = newcomer.evicted() => return Ok(()),
        _ = stop.wait_for(|stop| *stop) => return Ok(()),
    };
    let Ok(peeked) = peeked else { return Ok(()) };
    let (stream, first) = peeked?;
    let is_direct = first.is_some_and(|first| is_context(&first));
    match (is_direct, purpose) {
        (true, _) => {
            let outcome =
                direct::speak(stream, shared, (peer, server_name), newcomer, stopping).await;
            if matches!(&outcome, Err(failure) if failure.is::<Malformed>()) {
                shared.gateway.service.count_direct(DirectEvent::Refused);
            }
            outcome
        }
        (false, Purpose::Gateway | Purpose::Explorer | Purpose::Health) => {
            speak(stream, shared, peer, newcomer, stopping).await
        }
        (false, Purpose::Direct) => Err("the port of Direct mode speaks nothing else".into()),
    }
}

/// Speaks HTTP until the client goes, the supervisor sends it away, or the server stops.
async fn speak<S: Service, IO: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: IO,
    shared: &Arc<Shared<S>>,
    peer: Peer,
    newcomer: Newcomer,
    mut stopping: watch::Receiver<bool>,
) -> Result<(), Failure> {
    let pulse = Arc::new(Pulse::default());
    let mut io = Watched::new(stream, Arc::clone(&pulse));
    let news = stopping.clone();
    let mut attendance = Attendance {
        pulse: &pulse,
        limits: &shared.gateway.settings.limits,
        supervisor: Supervisor::new(&shared.gateway.settings.limits),
        news,
        stop: pin!(stopping.wait_for(|stop| *stop)),
        is_stop_awaited: false,
        is_stopping: false,
        newcomer: &newcomer,
        evicted: pin!(newcomer.evicted()),
        is_newcomer: true,
        is_evicted: false,
    };
    let plain = PlainConnection::new(&shared.gateway, peer, &mut io, Arc::clone(&pulse));
    let left = {
        let plain = pin!(plain.run());
        attendance.attend(PlainTalk { plain, pulse: &pulse }).await
    };
    match left.transpose()? {
        None | Some(Left::AtEnd) => Ok(()),
        Some(Left::Uncommon(first)) => {
            let stream = Rewound::new(first, io);
            Box::pin(speak_any_http(stream, shared, peer, &mut attendance)).await
        }
    }
}

/// Speaks HTTP of any version and form.
async fn speak_any_http<S: Service, IO: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: IO,
    shared: &Arc<Shared<S>>,
    peer: Peer,
    attendance: &mut Attendance<'_, impl Future, impl Future<Output = ()>>,
) -> Result<(), Failure> {
    let pulse = attendance.pulse;
    let turns = Arc::new(Turns::new());
    let service = service_fn(|request: Request<Incoming>| {
        let (shared, in_flight) = (Arc::clone(shared), InFlight::begin(pulse));
        // HTTP/1.1 has one request at a time.
        let turns = (request.version() == Version::HTTP_2).then(|| Arc::clone(&turns));
        let is_signed = request.headers().contains_key(AUTHORIZATION);
        async move {
            // In a box of its own: HTTP moves this future around, and the answer's is large.
            let request = request.map(RequestBody::Arriving);
            let answer = Box::pin(shared.gateway.handle(peer, request));
            let response = match &turns {
                Some(turns) => turns.take(answer).await,
                None => answer.await,
            };
            if is_signed && response.status() != StatusCode::UNAUTHORIZED {
                in_flight.0.let_in();
            }
            drop(in_flight);
            Ok::<_, Infallible>(response)
        }
    });
    let mut connection = pin!(shared.http.serve_connection(TokioIo::new(stream), service));
    if attendance.is_stopping {
        connection.as_mut().graceful_shutdown();
    }
    let talk = HyperTalk {
        turns: &turns,
        poll: |context: &mut Context<'_>, is_leaving: bool| {
            if is_leaving {
                connection.as_mut().graceful_shutdown();
            }
            connection.as_mut().poll(context)
        },
        is_leaving: false,
    };
    attendance.attend(talk).await.unwrap_or(Ok(()))
}

/// What goes on over a connection.
trait Talk {
    type Outcome;

    /// Goes on with it.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Self::Outcome>;

    /// Asks it to end behind the requests under way.
    fn leave(&mut self);
}

/// The fast path.
struct PlainTalk<'c, F> {
    plain: Pin<&'c mut F>,
    pulse: &'c Pulse,
}

impl<F: Future> Talk for PlainTalk<'_, F> {
    type Outcome = F::Output;

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Self::Outcome> {
        self.plain.as_mut().poll(context)
    }

    fn leave(&mut self) {
        self.pulse.leave();
    }
}

/// Hyper, as a function that is polled and told whether to leave.
struct HyperTalk<'c, P> {
    turns: &'c Turns,
    poll: P,
    is_leaving: bool,
}

impl<T, P: FnMut(&mut Context<'_>, bool) -> Poll<T>> Talk for HyperTalk<'_, P> {
    type Outcome = T;

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<T> {
        self.turns.renew(context);
        (self.poll)(context, std::mem::take(&mut self.is_leaving))
    }

    fn leave(&mut self) {
        self.is_leaving = true;
    }
}

/// Who looks after a connection while it talks: the timer, the server's stop, and the crowd of newcomers.
struct Attendance<'c, Stop, Evicted> {
    pulse: &'c Arc<Pulse>,
    limits: &'c Limits,
    supervisor: Supervisor,
    /// Tells without a lock whether there is anything new of the server's stop.
    news: watch::Receiver<bool>,
    stop: Pin<&'c mut Stop>,
    is_stop_awaited: bool,
    is_stopping: bool,
    newcomer: &'c Newcomer,
    evicted: Pin<&'c mut Evicted>,
    is_newcomer: bool,
    is_evicted: bool,
}

impl<Stop: Future, Evicted: Future<Output = ()>> Attendance<'_, Stop, Evicted> {
    /// Lets a talk go on to its end; nothing when the connection has to be cut off.
    async fn attend<T: Talk>(&mut self, mut talk: T) -> Option<T::Outcome> {
        poll_fn(|context| self.poll(&mut talk, context)).await
    }

    /// Whether the server has begun to stop. All connections wait for that together, which takes a lock: once this one
    /// is among those who are woken, it asks again only when there is something new.
    fn has_to_stop(&mut self, context: &mut Context<'_>) -> bool {
        if self.is_stopping || self.is_stop_awaited && matches!(self.news.has_changed(), Ok(false))
        {
            return false;
        }
        self.is_stop_awaited = true;
        self.stop.as_mut().poll(context).is_ready()
    }

    fn poll<T: Talk>(
        &mut self,
        talk: &mut T,
        context: &mut Context<'_>,
    ) -> Poll<Option<T::Outcome>> {
        if self.is_newcomer && !self.is_evicted {
            self.is_evicted = self.evicted.as_mut().poll(context).is_ready();
        }
        if self.has_to_stop(context) {
            self.is_stopping = true;
            talk.leave();
        }
        loop {
            if let Poll::Ready(outcome) = talk.poll(context) {
                return Poll::Ready(Some(outcome));
            }
            if self.is_newcomer && self.pulse.is_let_in() {
                self.is_newcomer = false;
                self.newcomer.settle();
            }
            if self.is_newcomer && self.is_evicted && !self.pulse.is_busy() {
                return Poll::Ready(None);
            }
            match self.supervisor.poll(self.pulse, self.limits, context) {
                Poll::Pending => return Poll::Pending,
                // Asked to leave first, so that HTTP/2 clients learn which requests were not
                // taken. One that stays, perhaps because it does not read, is cut off.
                Poll::Ready(Verdict::Idle) if !self.is_stopping => {
                    self.is_stopping = true;
                    talk.leave();
                }
                Poll::Ready(Verdict::Idle | Verdict::SlowHead) => return Poll::Ready(None),
            }
        }
    }
}

/// Counts a request as in flight until dropped, whether it finished or its client went away.
pub(super) struct InFlight(Arc<Pulse>);

impl InFlight {
    pub(super) fn begin(pulse: &Arc<Pulse>) -> Self {
        pulse.begin_request();
        Self(Arc::clone(pulse))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.end_request();
    }
}

/// Turns a connection away: says why, lingers for what the client is still sending, closes. A TLS
/// client sees a closed connection.
pub(super) async fn refuse(mut stream: TcpStream) {
    let farewell = async {
        stream.write_all(REFUSAL.as_bytes()).await?;
        stream.shutdown().await?;
        // Closing with unread bytes would reset the connection before the answer is read.
        let mut unread = [0; 1024];
        while stream.read(&mut unread).await? > 0 {}
        io::Result::Ok(())
    };
    let _ = timeout(REFUSAL_WAIT, farewell).await;
}

const REFUSAL_WAIT: Duration = Duration::from_millis(500);

const REFUSAL: &str = "HTTP/1.1 503 Service Unavailable\r\n\
    content-type: application/json\r\n\
    content-length: 78\r\n\
    x-ms-substatus: 0\r\n\
    x-ms-request-charge: 0\r\n\
    x-ms-retry-after-ms: 1000\r\n\
    connection: close\r\n\
    \r\n\
    {\"code\":\"ServiceUnavailable\",\"message\":\"The server has too many connections.\"}";

#[cfg(test)]
mod tests {
    use super::REFUSAL;

    #[test]
    fn refusal_is_as_long_as_it_says() {
        let (head, body) = REFUSAL.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())));
    }
}
