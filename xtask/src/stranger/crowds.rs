//! Crowds that need many connections: the silent, and those who write and go away.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use ureq::http::Request;

use crate::Outcome;
use crate::rest::Client;
use crate::server::Server;

/// Requests on one connection; the server takes 256.
const STREAMS: usize = 250;
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// Lets this process open as many files as the system allows.
#[cfg(unix)]
pub(super) fn raise_own_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    // Where that fails the crowd says by itself that it cannot gather.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

#[cfg(not(unix))]
pub(super) fn raise_own_limit() {}

/// Connections that say nothing. Those that the server closes stay open at this end.
pub(super) fn silent(address: SocketAddr, count: usize) -> Outcome<Vec<TcpStream>> {
    let connect = |number: usize| {
        TcpStream::connect_timeout(&address, CONNECT_WITHIN)
            .map_err(|error| format!("silent connection {number}: {error}").into())
    };
    (0..count).map(connect).collect()
}

/// Sends upserts of one key on connections that carry many at once, and closes each of them as soon as
/// the server has seen its requests, without waiting for an answer; returns how many were sent.
pub(super) fn abandoned(
    server: &Server,
    client: &Client,
    path: &str,
    key: &str,
    count: usize,
) -> Outcome<usize> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut request = Request::builder().method("POST").uri(format!("{}{path}", server.base()));
    for (name, value) in client.signed("POST", path) {
        request = request.header(name, value);
    }
    let request = request
        .header(super::KEY_HEADER, key)
        .header("x-ms-documentdb-is-upsert", "true")
        .body(())?;
    let mut sent = 0;
    while sent < count {
        let streams = STREAMS.min(count - sent);
        runtime.block_on(send(server.address(), &request, sent, streams))?;
        sent += streams;
    }
    Ok(sent)
}

/// Requests on one connection whose answers nobody will wait for.
async fn send(
    address: SocketAddr,
    request: &Request<()>,
    first: usize,
    count: usize,
) -> Outcome<()> {
    let stream = tokio::net::TcpStream::connect(address).await?;
    let (mut sender, mut connection) = h2::client::handshake(stream).await?;
    let mut pings = connection.ping_pong().ok_or("nobody has asked for it before")?;
    let driving = tokio::spawn(connection);
    let mut answers = Vec::with_capacity(count);
    for number in first..first + count {
        sender = sender.ready().await?;
        let (answer, mut body) = sender.send_request(request.clone(), false)?;
        let item = format!("{{\"id\":\"{number}\",\"pk\":\"abandoned\"}}");
        body.send_data(bytes::Bytes::from(item), true)?;
        answers.push(answer);
    }
    // Answered in the order of frames, so after all requests were read.
    pings.ping(h2::Ping::opaque()).await?;
    driving.abort();
    Ok(())
}
