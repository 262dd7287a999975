//! Sockets: accept, tell TLS from plain by the first byte, speak HTTP/1.1 or HTTP/2, stop gently.
//!
//! Each connection is one task. Plain and TLS share a port: a TLS client speaks first, and its first
//! byte is `0x16`, which begins no HTTP request. Inside TLS, HTTP and Direct mode share it too: the first
//! bytes tell (see [`direct`]). Timeouts cost nothing per request: one timer per
//! connection looks now and then whether anything has happened (see [`supervise`]). Places for
//! connections are few where descriptors are; strangers who say nothing cannot take them all (see
//! [`newcomers`]). A client with thousands of requests at once delays no other (see [`turns`]).
//! Requests of HTTP/1.1 in the common form do not pass through hyper (see [`http1`]).

mod connection;
mod direct;
mod http1;
mod newcomers;
mod rewound;
mod supervise;
mod turns;
mod watched;

use crate::direct::DirectMode;
use crate::handle::Gateway;
use crate::limits::{ACCEPT_LOG_PERIOD, BACKLOG_MAX, BLOCKING_THREADS_MAX};
use crate::service::Service;
use connection::Shared;
use rustls::ServerConfig;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Pause after a failed accept: out of descriptors is a state that passes.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// Which protocols a port speaks.
#[derive(Clone, Debug)]
pub enum Protocols {
    /// Plain HTTP only.
    Plain,
    /// TLS only.
    Tls(Arc<ServerConfig>),
    /// Both, told apart by the first byte.
    Both(Arc<ServerConfig>),
}

/// What a listener is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// HTTP, and Direct mode where that shares the port.
    Gateway,
    /// Direct mode alone.
    Direct,
    /// The same, for browsers that look for the explorer at a port of its own.
    Explorer,
    /// Health checks alone, over HTTP.
    Health,
}

/// A server that listens but does not serve yet.
pub struct Server<S> {
    listeners: Vec<(TcpListener, Purpose)>,
    shared: Arc<Shared<S>>,
}

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// Every request in flight was answered.
    Finished,
    /// Time ran out with this many connections still open.
    CutOff(usize),
}

/// A runtime for the gateway; `None` takes as many workers as there are processors.
pub fn runtime(worker_threads: Option<usize>) -> io::Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if let Some(count) = worker_threads {
        builder.worker_threads(count.max(1));
    }
    let builder = builder.max_blocking_threads(BLOCKING_THREADS_MAX);
    builder.enable_all().thread_name("gateway").build()
}

impl<S: Service> Server<S> {
    /// Listens on every address. Must be called inside a runtime.
    pub fn bind(
        addresses: &[SocketAddr],
        protocols: Protocols,
        gateway: Gateway<S>,
    ) -> io::Result<Self> {
        let mut server =
            Self { listeners: Vec::new(), shared: Arc::new(Shared::new(gateway, protocols)) };
        // Before the others: a client is told of this port by those.
        if let DirectMode::Port(port) = server.shared.gateway.settings.direct {
            server.listen(addresses.iter().map(|it| (it.ip(), port).into()), Purpose::Direct)?;
        }
        server.listen(addresses.iter().copied(), Purpose::Gateway)?;
        if let Some(port) = server.shared.gateway.settings.explorer.port {
            let more = addresses.iter().map(|it| (it.ip(), port).into());
            // Somebody else may have the port, and everything is at the main one too.
            if let Err(error) = server.listen(more, Purpose::Explorer) {
                tracing::warn!(%error, port, "the explorer has no port of its own");
            }
        }
        // Behind the others: who is told that the server is ready can reach it.
        if let Some(port) = server.shared.gateway.settings.health_port {
            server.listen(addresses.iter().map(|it| (it.ip(), port).into()), Purpose::Health)?;
        }
        Ok(server)
    }

    fn listen(
        &mut self,
        addresses: impl Iterator<Item = SocketAddr>,
        purpose: Purpose,
    ) -> io::Result<()> {
        for address in addresses {
            self.listeners.push((listen(address)?, purpose));
        }
        Ok(())
    }

    /// The addresses that were bound for HTTP, with the ports the system chose.
    pub fn local_addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let gateway = self.listeners.iter().filter(|(_, purpose)| *purpose == Purpose::Gateway);
        gateway.map(|(listener, _)| listener.local_addr()).collect()
    }

    /// Serves until `shutdown` is ready, then finishes what is in flight, for a bounded time.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Stopped {
        let (stop, stopping) = watch::channel(false);
        let mut acceptors = JoinSet::new();
        for listener in self.listeners {
            acceptors.spawn(accept(listener, Arc::clone(&self.shared), stopping.clone()));
        }
        shutdown.await;
        stop.send_replace(true);
        // Acceptors drop their listeners: from here on new connections are refused by the system.
        while acceptors.join_next().await.is_some() {}
        let wait = self.shared.gateway.settings.limits.shutdown_wait;
        match tokio::time::timeout(wait, self.shared.all_closed()).await {
            Ok(()) => Stopped::Finished,
            Err(_) => Stopped::CutOff(self.shared.open_connections()),
        }
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG_MAX)
}

async fn accept<S: Service>(
    (listener, purpose): (TcpListener, Purpose),
    shared: Arc<Shared<S>>,
    mut stopping: watch::Receiver<bool>,
) {
    let mut failures = AcceptFailures::default();
    // A port of the explorer's own speaks what the main one does.
    let purpose = if purpose == Purpose::Explorer { Purpose::Gateway } else { purpose };
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopping.wait_for(|stop| *stop) => return,
        };
        match accepted {
            Ok((stream, remote)) => start(stream, (remote, purpose), &shared, &stopping),
            Err(error) => {
                failures.note(&error);
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Failed accepts since the last line about them in the log.
#[derive(Default)]
struct AcceptFailures {
    count: u64,
    logged: Option<Instant>,
}

impl AcceptFailures {
    fn note(&mut self, error: &io::Error) {
        self.count += 1;
        if self.logged.is_some_and(|then| then.elapsed() < ACCEPT_LOG_PERIOD) {
            return;
        }
        tracing::warn!(%error, count = self.count, "connections could not be accepted");
        *self = Self { count: 0, logged: Some(Instant::now()) };
    }
}

/// Gives the connection its task, or refuses it when there are too many.
fn start<S: Service>(
    stream: TcpStream,
    from: (SocketAddr, Purpose),
    shared: &Arc<Shared<S>>,
    stopping: &watch::Receiver<bool>,
) {
    // Answers are small and whole; waiting to fill a packet only delays them.
    let _ = stream.set_nodelay(true);
    match Shared::admit(shared) {
        Some(admission) => {
            tokio::spawn(connection::run(stream, from, admission, stopping.clone()));
        }
        None => {
            if let Ok(permit) = Arc::clone(&shared.refusals).try_acquire_owned() {
                tokio::spawn(async move {
                    connection::refuse(stream).await;
                    drop(permit);
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_accepts_are_counted_and_told_once_in_a_while() {
        let mut failures = AcceptFailures::default();
        let error = io::Error::other("too many open files");
        failures.note(&error);
        let told = failures.logged.unwrap();
        assert_eq!(failures.count, 0, "the first one is told at once");
        (0..1000).for_each(|_| failures.note(&error));
        assert_eq!((failures.count, failures.logged), (1000, Some(told)));
        failures.logged = told.checked_sub(ACCEPT_LOG_PERIOD);
        failures.note(&error);
        assert_eq!(failures.count, 0, "and the others together");
    }
}
