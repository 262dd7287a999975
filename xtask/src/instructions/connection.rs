//! One connection that sends requests made beforehand, so that the client is no part of what is waited for.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use crate::Outcome;
use crate::rest::Client;
use crate::server::Server;

const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// A connection to the server.
pub(crate) struct Connection {
    stream: TcpStream,
    signer: Client,
    answer: Vec<u8>,
}

impl Connection {
    pub(crate) fn open(server: &Server) -> Outcome<Self> {
        let stream = TcpStream::connect(server.address())?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, signer: server.client(), answer: vec![0; ANSWER_BYTES_MAX] })
    }

    /// A signed request as it goes over the wire.
    pub(crate) fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Vec<u8> {
        let mut text = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n");
        for (name, value) in self.signer.signed(method, path) {
            text.extend([name, ": ", value.as_str(), "\r\n"]);
        }
        for (name, value) in headers {
            text.extend([*name, ": ", *value, "\r\n"]);
        }
        text.push_str("accept: application/json\r\nuser-agent: instructions\r\n");
        if method != "GET" {
            text.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        (text + "\r\n" + body).into_bytes()
    }

    /// Sends a request and reads its answer, which must be a success.
    pub(crate) fn ask(&mut self, request: &[u8]) -> Outcome<()> {
        self.stream.write_all(request)?;
        let mut read = 0;
        loop {
            let room = self.answer.get_mut(read..).filter(|room| !room.is_empty());
            let more = self.stream.read(room.ok_or("an answer is too long")?)?;
            if more == 0 {
                return Err("the server closed the connection".into());
            }
            read += more;
            let answer = self.answer.get(..read).unwrap_or_default();
            if is_whole(answer) {
                let text = || String::from_utf8_lossy(answer).into_owned();
                return if answer.get(9) == Some(&b'2') { Ok(()) } else { Err(text().into()) };
            }
        }
    }
}

/// Whether the head and as much body as it says are there.
fn is_whole(answer: &[u8]) -> bool {
    const LENGTH: &[u8] = b"content-length: ";
    let find = |text: &[u8]| answer.windows(text.len()).position(|found| found == text);
    let Some(head) = find(b"\r\n\r\n") else { return false };
    let length = find(LENGTH).map_or(0, |at| {
        let digits = answer.iter().skip(at + LENGTH.len()).take_while(|byte| byte.is_ascii_digit());
        digits.fold(0, |number, digit| number * 10 + usize::from(digit - b'0'))
    });
    answer.len() >= head + 4 + length
}
