//! An HTTP/1.1 client that costs little: one connection that is kept, whole requests as bytes, answers read no further than the
//! benchmark needs.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const BUFFER_BYTES: usize = 1 << 16;

/// What the headers of an answer said.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) charge: f64,
    /// How many rows a page has.
    pub(crate) items: Option<u64>,
    pub(crate) continuation: Option<String>,
    pub(crate) retry_after_ms: u64,
    /// Head and body.
    pub(crate) bytes: u64,
}

/// A connection.
pub(crate) struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
    body: std::ops::Range<usize>,
}

impl Connection {
    /// Connects to `host:port`.
    pub(crate) async fn open(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, received: Vec::with_capacity(BUFFER_BYTES), body: 0..0 })
    }

    /// The body of the last answer.
    pub(crate) fn body(&self) -> &[u8] {
        self.received.get(self.body.clone()).unwrap_or_default()
    }

    /// Sends a request and reads its answer to the end.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> io::Result<Answer> {
        self.received.clear();
        self.stream.write_all(request).await?;
        let head = loop {
            if let Some(end) = memchr::memmem::find(&self.received, b"\r\n\r\n") {
                break end + 4;
            }
            self.fill().await?;
        };
        let (mut answer, length) = read_head(self.received.get(..head).unwrap_or_default())?;
        while self.received.len() < head + length {
            self.fill().await?;
        }
        self.body = head..head + length;
        answer.bytes = u64::try_from(head + length).unwrap_or(u64::MAX);
        Ok(answer)
    }

    async fn fill(&mut self) -> io::Result<()> {
        self.received.reserve(BUFFER_BYTES);
        match self.stream.read_buf(&mut self.received).await? {
            0 => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the server closed the connection",
            )),
            _ => Ok(()),
        }
    }
}

/// Status and the headers that matter, with the length of the body.
fn read_head(head: &[u8]) -> io::Result<(Answer, usize)> {
    let refused = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let head = std::str::from_utf8(head).map_err(|_| refused("a head that is not text"))?;
    let status = head.get(9..12).and_then(|status| status.parse().ok());
    let mut answer = Answer {
        status: status.ok_or_else(|| refused("an answer without a status"))?,
        ..Answer::default()
    };
    let mut length = None;
    for line in head.split("\r\n").skip(1) {
        let Some((name, value)) = line.split_once(':') else { continue };
        let value = value.trim();
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        match name.len() {
            14 if is("content-length") => length = value.parse().ok(),
            15 if is("x-ms-item-count") => answer.items = value.parse().ok(),
            17 if is("transfer-encoding") => {
                return Err(refused("an answer in chunks, which this client does not read"));
            }
            17 if is("x-ms-continuation") && !value.is_empty() => {
                answer.continuation = Some(value.to_owned());
            }
            19 if is("x-ms-request-charge") => answer.charge = value.parse().unwrap_or(0.0),
            19 if is("x-ms-retry-after-ms") => answer.retry_after_ms = value.parse().unwrap_or(1),
            _ => {}
        }
    }
    let empty = matches!(answer.status, 204 | 304);
    let length = if empty { Some(0) } else { length };
    Ok((answer, length.ok_or_else(|| refused("an answer without a length"))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_whatever_the_case_of_its_names() {
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nx-ms-request-charge: 2.5\r\nx-ms-item-count: 3\r\n\r\n";
        let (answer, length) = read_head(head).unwrap();
        assert_eq!((answer.status, length, answer.items), (200, 12, Some(3)));
        assert!((answer.charge - 2.5).abs() < 1e-9);
        assert!(read_head(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
        assert_eq!(read_head(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap().1, 0);
    }
}
