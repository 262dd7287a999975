//! Connections to other nodes on which requests travel as the bytes that came, and answers as the bytes that the owner wrote.
//!
//! Only requests in the common form of HTTP/1.1 go this way ([`serve::http1`](crate::serve)): their length is known, and so is their end. The head gets
//! one line more, [`FROM`](super::FROM). Of an answer no more is read than its status, its length, and whether the owner has left.

use super::address::NodeAddress;
use super::{FROM, NOT_OWNER};
use crate::limits::{
    FORWARD_ANSWER_MAX, FORWARD_CONNECT_WAIT_MAX, LINK_IDLE_MAX, LINKS_KEPT_MAX, PLAIN_HEAD_MAX,
    PLAIN_HEADERS_MAX,
};
use crate::reply::PassedHead;
use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use parking_lot::Mutex;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::future::poll_fn;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

/// Room for what is read at once.
const READ_ROOM: usize = 16 * 1024;

/// A request as the bytes that came.
pub(crate) struct PassedBytes<'a> {
    /// The head, the empty line included.
    pub(crate) head: &'a [u8],
    pub(crate) body: &'a [u8],
    /// It changes nothing.
    pub(crate) is_read: bool,
}

/// What became of a request that was passed on once.
pub(crate) enum Passage {
    Answered(PassedAnswer),
    /// It was surely not done.
    NotDone,
    /// Nobody knows.
    Unknown,
}

/// An answer as the bytes that another node wrote.
pub(crate) struct PassedAnswer {
    bytes: Bytes,
    head: AnswerHead,
}

impl PassedAnswer {
    pub(crate) fn status(&self) -> StatusCode {
        self.head.status
    }

    /// The lines of its head, without those about the connection.
    pub(crate) fn head(&self) -> PassedHead<'_> {
        let lines = |range: Range<usize>| self.bytes.get(range).unwrap_or_default();
        let Range { start, end } = self.head.connection.clone();
        // The empty line is not among them.
        let lines_end = self.head.length.saturating_sub(2);
        PassedHead { before_connection: lines(0..start), after_connection: lines(end..lines_end) }
    }

    pub(crate) fn body(&self) -> Bytes {
        self.bytes.slice(self.head.length.min(self.bytes.len())..)
    }
}

/// Connections that wait for their next request, by the node at their other end.
pub(super) struct Links {
    trusting: TlsConnector,
    idle: Mutex<Vec<(NodeAddress, Link)>>,
}

impl Links {
    pub(super) fn new(trusting: ClientConfig) -> Self {
        Self { trusting: TlsConnector::from(Arc::new(trusting)), idle: Mutex::default() }
    }

    /// Sends a request to a node and reads its answer. Dropped before its end, the connection is not used again.
    pub(super) async fn exchange(
        &self,
        owner: &NodeAddress,
        name: &HeaderValue,
        passed: &PassedBytes<'_>,
    ) -> Passage {
        let mut link = match self.idle_link(owner).await {
            Some(link) => link,
            None => match self.connect(owner).await {
                Ok(link) => link,
                Err(error) => {
                    tracing::debug!(%error, %owner, "the owner could not be reached");
                    return Passage::NotDone;
                }
            },
        };
        let answer = match link.exchange(name, passed).await {
            Ok(answer) => answer,
            Err(error) => {
                tracing::debug!(%error, %owner, "an answer did not come");
                return Passage::Unknown;
            }
        };
        if answer.head.connection.is_empty() {
            self.keep(owner, link);
        }
        match answer.head.is_not_owner {
            true => Passage::NotDone,
            false => Passage::Answered(answer),
        }
    }

    /// The connection that was used last and still stands.
    async fn idle_link(&self, owner: &NodeAddress) -> Option<Link> {
        loop {
            let mut link = {
                let mut idle = self.idle.lock();
                let at = idle.iter().rposition(|(to, _)| to == owner)?;
                idle.remove(at).1
            };
            if link.used.elapsed() < LINK_IDLE_MAX && link.stands().await {
                return Some(link);
            }
        }
    }

    fn keep(&self, owner: &NodeAddress, mut link: Link) {
        link.used = Instant::now();
        let mut idle = self.idle.lock();
        // In the order of their use. Those to a node that is not asked any more would never be looked at again, and stay when it has closed them.
        let stale = idle.partition_point(|(_, link)| link.used.elapsed() >= LINK_IDLE_MAX);
        idle.drain(..stale);
        if idle.len() >= LINKS_KEPT_MAX {
            // The one that was not needed for longest.
            idle.remove(0);
        }
        idle.push((owner.clone(), link));
    }

    async fn connect(&self, owner: &NodeAddress) -> io::Result<Link> {
        let connecting = async {
            let stream = TcpStream::connect((owner.host(), owner.port())).await?;
            stream.set_nodelay(true)?;
            if !owner.is_secure() {
                return io::Result::Ok(Box::new(stream) as Box<dyn Wire>);
            }
            let name = ServerName::try_from(owner.host().to_owned()).map_err(io::Error::other)?;
            let stream = self.trusting.connect(name, stream).await?;
            Ok(Box::new(stream) as Box<dyn Wire>)
        };
        let wire = timeout(FORWARD_CONNECT_WAIT_MAX, connecting).await;
        let wire = wire.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        Ok(Link { wire, sent: Vec::new(), used: Instant::now() })
    }
}

/// Bytes in both directions, encrypted or not.
trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}

/// A connection to another node.
struct Link {
    wire: Box<dyn Wire>,
    /// Room for what is sent.
    sent: Vec<u8>,
    used: Instant,
}

impl Link {
    /// Whether the other side is still there and has said nothing unasked.
    async fn stands(&mut self) -> bool {
        let mut room = [0];
        poll_fn(|context| {
            let mut room = ReadBuf::new(&mut room);
            let read = Pin::new(&mut self.wire).poll_read(context, &mut room);
            Poll::Ready(read.is_pending())
        })
        .await
    }

    async fn exchange(
        &mut self,
        name: &HeaderValue,
        passed: &PassedBytes<'_>,
    ) -> io::Result<PassedAnswer> {
        let malformed = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        let lines = passed.head.strip_suffix(b"\r\n");
        let lines = lines.ok_or_else(|| malformed("a head without an end"))?;
        self.sent.clear();
        for part in
            [lines, FROM.as_str().as_bytes(), b": ", name.as_bytes(), b"\r\n\r\n", passed.body]
        {
            self.sent.extend_from_slice(part);
        }
        self.wire.write_all(&self.sent).await?;
        self.wire.flush().await?;
        let mut bytes = Vec::with_capacity(READ_ROOM);
        let head = loop {
            if self.wire.read_buf(&mut bytes).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if let Some(head) = AnswerHead::read(&bytes).map_err(malformed)? {
                break head;
            }
            if bytes.len() > PLAIN_HEAD_MAX {
                return Err(malformed("a head that does not end"));
            }
        };
        let length = head.length + head.body_length;
        if head.body_length > FORWARD_ANSWER_MAX || bytes.len() > length {
            return Err(malformed("more than an answer"));
        }
        bytes.reserve_exact(length - bytes.len());
        while bytes.len() < length {
            if self.wire.read_buf(&mut bytes).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        if bytes.len() > length {
            return Err(malformed("more than an answer"));
        }
        Ok(PassedAnswer { bytes: bytes.into(), head })
    }
}

/// What the head of an answer says of its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct AnswerHead {
    status: StatusCode,
    length: usize,
    body_length: usize,
    /// The line about the connection: where there is one, it is closed behind the answer.
    connection: Range<usize>,
    /// The node does not own the account.
    is_not_owner: bool,
}

impl AnswerHead {
    /// Reads a head; nothing when it is not whole yet.
    fn read(bytes: &[u8]) -> Result<Option<Self>, &'static str> {
        let mut places = [httparse::EMPTY_HEADER; PLAIN_HEADERS_MAX];
        let mut response = httparse::Response::new(&mut places);
        let length = match response.parse(bytes) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => return Err("not an answer"),
        };
        let status = response.code.and_then(|code| StatusCode::from_u16(code).ok());
        let status = status.ok_or("no status")?;
        let (mut body_length, mut is_not_owner) = (None, false);
        let mut connection = 0..0;
        for header in response.headers.iter() {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            if is("content-length") && body_length.is_none() {
                let text = std::str::from_utf8(header.value).unwrap_or_default();
                body_length = Some(text.parse().map_err(|_| "a length that is no number")?);
            } else if is("connection") && connection.is_empty() {
                let start = header.name.as_ptr() as usize - bytes.as_ptr() as usize;
                let line = bytes.get(start..).unwrap_or_default();
                let end =
                    line.windows(2).position(|two| two == b"\r\n").ok_or("an endless line")?;
                connection = start..start + end + 2;
            } else if is("transfer-encoding") || is("content-length") || is("connection") {
                return Err("an answer whose end is not known");
            } else if is(NOT_OWNER.as_str()) {
                is_not_owner = status == StatusCode::MISDIRECTED_REQUEST;
            }
        }
        let is_bodyless = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        let body_length = match body_length {
            _ if is_bodyless => 0,
            Some(length) => length,
            None => return Err("an answer whose end is not known"),
        };
        Ok(Some(Self { status, length, body_length, connection, is_not_owner }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_an_answer_tells_where_it_ends() {
        let text = "HTTP/1.1 201 Created\r\netag: \"e\"\r\nconnection: close\r\ncontent-length: 3\r\n\r\nabc";
        let end = text.find("abc").unwrap();
        for length in 0..end {
            assert_eq!(AnswerHead::read(&text.as_bytes()[..length]), Ok(None), "{length}");
        }
        let head = AnswerHead::read(text.as_bytes()).unwrap().unwrap();
        assert_eq!((head.length, head.body_length, head.is_not_owner), (end, 3, false));
        let answer = PassedAnswer { bytes: text.as_bytes().to_vec().into(), head };
        let lines = answer.head();
        assert_eq!(lines.before_connection, b"HTTP/1.1 201 Created\r\netag: \"e\"\r\n");
        assert_eq!(lines.after_connection, b"content-length: 3\r\n");
        assert_eq!((&answer.body()[..], answer.status()), (&b"abc"[..], StatusCode::CREATED));
    }

    #[tokio::test(start_paused = true)]
    async fn links_to_a_node_that_is_not_asked_any_more_go() {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        let links = Links::new(config);
        let owner = |port: u16| -> NodeAddress { format!("http://a:{port}").parse().unwrap() };
        let keep = |port| {
            let wire = Box::new(tokio::io::duplex(1).0);
            links.keep(&owner(port), Link { wire, sent: Vec::new(), used: Instant::now() });
        };
        keep(1);
        keep(1);
        tokio::time::advance(LINK_IDLE_MAX / 2).await;
        keep(2);
        assert_eq!(links.idle.lock().len(), 3);
        tokio::time::advance(LINK_IDLE_MAX / 2).await;
        keep(2);
        let left: Vec<_> = links.idle.lock().iter().map(|(to, _)| to.clone()).collect();
        assert_eq!(left, [owner(2), owner(2)]);
    }

    #[test]
    fn answers_whose_end_is_not_known_are_refused() {
        let read = |lines: &str| AnswerHead::read(format!("HTTP/1.1 {lines}\r\n\r\n").as_bytes());
        assert!(read("200 OK").is_err());
        assert!(read("200 OK\r\ntransfer-encoding: chunked").is_err());
        assert!(read("200 OK\r\ncontent-length: 1\r\ncontent-length: 1").is_err());
        assert!(read("200 OK\r\ncontent-length: x").is_err());
        let bodyless = read("204 No Content").unwrap().unwrap();
        assert_eq!((bodyless.body_length, bodyless.connection), (0, 0..0));
        let moved = read("421 Misdirected Request\r\nx-armilla-not-owner: 1\r\ncontent-length: 0");
        assert!(moved.unwrap().unwrap().is_not_owner);
        let other = read("200 OK\r\nx-armilla-not-owner: 1\r\ncontent-length: 0");
        assert!(!other.unwrap().unwrap().is_not_owner);
    }
}
