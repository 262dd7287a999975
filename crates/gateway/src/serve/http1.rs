//! HTTP/1.1 fast path: requests in the common form are read and answered without hyper.
//!
//! Nearly all requests look alike: a path without a query, one `host`, a short body with its length
//! before it. They are parsed by `httparse`, which hyper uses too, read by the gateway out of the connection's buffer, and
//! answered by one write. Whatever looks different (chunks, `expect`, `connection: close`, HTTP/2, HTTP/1.0, `HEAD`, browsers, proxies, foreign
//! names, long or malformed heads, long bodies) is not judged here: the connection goes to hyper with every byte of that request, and
//! stays there. So the rules of HTTP that clients and proxies may read differently are kept in one place, which is not this one.

mod head;

use super::connection::InFlight;
use super::watched::{Pulse, Watched};
use crate::auth::ShownBefore;
use crate::handle::{Gateway, Peer};
use crate::limits::{PLAIN_AHEAD_MAX, PLAIN_BODY_MAX, PLAIN_HEAD_MAX, PLAIN_READS_MAX};
use crate::reply::{Http1Answer, SentHead};
use crate::service::Service;
use armilla_model::Error;
use bytes::Bytes;
use head::{CommonHead, Form};
use http::StatusCode;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll};
use std::time::{Duration, UNIX_EPOCH};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;

/// Room for what is read at once: a request with a short body.
const READ_ROOM: usize = 4 * 1024;

/// How the fast path ended.
pub(super) enum Left {
    /// The connection is at its end.
    AtEnd,
    /// The connection goes on with these bytes, of which nothing was acted on.
    Uncommon(Bytes),
}

/// One connection on the fast path.
pub(super) struct PlainConnection<'c, S, IO> {
    gateway: &'c Gateway<S>,
    peer: Peer,
    io: &'c mut Watched<IO>,
    pulse: Arc<Pulse>,
    /// What was read and is not answered yet.
    buffer: Vec<u8>,
    head: CommonHead,
    /// What was read while a request was being answered.
    ahead: Vec<u8>,
    answer: Http1Answer,
    date: DateText,
    /// The last name that the server was asked by and answers to, and whether it is none of its own.
    known_host: Vec<u8>,
    is_foreign: bool,
    shown: ShownBefore,
}

impl<'c, S: Service, IO: AsyncRead + AsyncWrite + Unpin + Send> PlainConnection<'c, S, IO> {
    pub(super) fn new(
        gateway: &'c Gateway<S>,
        peer: Peer,
        io: &'c mut Watched<IO>,
        pulse: Arc<Pulse>,
    ) -> Self {
        Self {
            gateway,
            peer,
            io,
            pulse,
            buffer: Vec::new(),
            head: CommonHead::default(),
            ahead: Vec::new(),
            answer: Http1Answer::default(),
            date: DateText::default(),
            known_host: Vec::new(),
            is_foreign: false,
            shown: ShownBefore::default(),
        }
    }

    /// Answers requests until one is uncommon or the connection ends, and then closes it.
    pub(super) async fn run(mut self) -> io::Result<Left> {
        let left = self.answer_all().await?;
        if matches!(left, Left::AtEnd) {
            self.io.shutdown().await?;
        }
        Ok(left)
    }

    async fn answer_all(&mut self) -> io::Result<Left> {
        loop {
            match self.next_head().await? {
                Form::Common => {}
                Form::Uncommon => {
                    return Ok(Left::Uncommon(std::mem::take(&mut self.buffer).into()));
                }
                // The client has gone, or the server stops.
                Form::Partial => return Ok(Left::AtEnd),
            }
            let in_flight = InFlight::begin(&self.pulse);
            if !self.read_body().await? {
                return Ok(Left::AtEnd);
            }
            let Some(status) = self.answer().await else { return Ok(Left::AtEnd) };
            if self.head.is_signed && status != StatusCode::UNAUTHORIZED {
                self.pulse.let_in();
            }
            drop(in_flight);
            let is_last = self.pulse.is_leaving();
            self.send().await?;
            if is_last {
                return Ok(Left::AtEnd);
            }
            self.go_on();
        }
    }

    /// Waits for a whole head. [`Form::Partial`] says that none will come.
    async fn next_head(&mut self) -> io::Result<Form> {
        for _ in 0..PLAIN_READS_MAX {
            if !self.buffer.is_empty() {
                match self.head.read(&mut self.buffer) {
                    Form::Partial => self.pulse.head_has_begun(),
                    Form::Common if !self.is_host_answered() => return Ok(Form::Uncommon),
                    Form::Common if !self.has_room_for_body() => return Ok(Form::Uncommon),
                    form => return Ok(form),
                }
            }
            if self.buffer.len() > PLAIN_HEAD_MAX {
                return Ok(Form::Uncommon);
            }
            let (pulse, io, buffer) = (&self.pulse, &mut *self.io, &mut self.buffer);
            let read = poll_fn(|context| {
                if pulse.is_leaving() {
                    return Poll::Ready(Ok(0));
                }
                poll_read(io, buffer, context)
            });
            if read.await? == 0 {
                return Ok(if self.buffer.is_empty() { Form::Partial } else { Form::Uncommon });
            }
        }
        // A head that comes in many pieces would be looked through as often.
        Ok(Form::Uncommon)
    }

    /// Whether requests for the head's host are answered at all. Who is asked by the same name again need not think again.
    fn is_host_answered(&mut self) -> bool {
        let host = self.head.host(&self.buffer);
        if host == self.known_host {
            return true;
        }
        let names = &self.gateway.settings.host_names;
        let Ok(text) = std::str::from_utf8(host) else { return false };
        let is_foreign = !names.knows(text);
        if is_foreign && names.misdirected(Some(text)).is_some() {
            return false;
        }
        self.is_foreign = is_foreign;
        self.known_host.clear();
        self.known_host.extend_from_slice(host);
        true
    }

    fn has_room_for_body(&self) -> bool {
        let limits = &self.gateway.settings.limits;
        self.head.body_length <= PLAIN_BODY_MAX.min(limits.body_size_max)
    }

    /// Bytes of the request.
    fn request_length(&self) -> usize {
        self.head.length + self.head.body_length
    }

    /// Waits for the body; false when it will not come.
    async fn read_body(&mut self) -> io::Result<bool> {
        let length = self.request_length();
        if self.buffer.len() >= length {
            return Ok(true);
        }
        let wait = self.gateway.settings.limits.body_timeout;
        let (io, buffer) = (&mut *self.io, &mut self.buffer);
        buffer.reserve(length - buffer.len());
        let rest = async {
            while buffer.len() < length {
                if io.read_buf(buffer).await? == 0 {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        match timeout(wait, rest).await {
            Ok(arrived) => arrived,
            Err(_) => {
                let error = "The request's body did not arrive in time.".to_owned();
                self.pulse.leave();
                let sent = self.date.sent(self.gateway.clock.now_seconds(), self.pulse.leaving());
                let id = self.gateway.activity_ids.next_text();
                self.answer.write(Error::Timeout(error).into(), &id, wait, sent);
                self.send().await?;
                Ok(false)
            }
        }
    }

    /// Makes the answer; nothing when the client has gone, and the request with it.
    async fn answer(&mut self) -> Option<StatusCode> {
        let body = self.buffer.get(self.head.length..self.request_length()).unwrap_or_default();
        let body = if body.is_empty() { Bytes::new() } else { Bytes::copy_from_slice(body) };
        let foreign = self.is_foreign.then_some(&*self.known_host);
        let request = self.head.request(&self.buffer, foreign);
        let now_seconds = self.gateway.clock.now_seconds();
        let sent = self.date.sent(now_seconds, self.pulse.leaving());
        let (io, ahead, answer) = (&mut *self.io, &mut self.ahead, &mut self.answer);
        let shown = &mut self.shown;
        let request = (self.peer, request);
        let mut status = pin!(self.gateway.handle_plain(request, body, sent, answer, shown));
        poll_fn(|context| {
            if let Poll::Ready(status) = status.as_mut().poll(context) {
                return Poll::Ready(Some(status));
            }
            while ahead.len() < PLAIN_AHEAD_MAX {
                match poll_read(io, ahead, context) {
                    Poll::Pending => break,
                    Poll::Ready(Ok(read)) if read > 0 => {}
                    Poll::Ready(_) => return Poll::Ready(None),
                }
            }
            Poll::Pending
        })
        .await
    }

    async fn send(&mut self) -> io::Result<()> {
        let (head, body) = self.answer.parts();
        let mut sent = 0;
        if !body.is_empty() {
            sent = self.io.write_vectored(&[IoSlice::new(head), IoSlice::new(body)]).await?;
        }
        let rest = head.get(sent..).unwrap_or_default();
        self.io.write_all(rest).await?;
        let rest = body.get(sent.saturating_sub(head.len())..).unwrap_or_default();
        self.io.write_all(rest).await?;
        self.io.flush().await
    }

    /// Forgets a request that was answered.
    fn go_on(&mut self) {
        self.answer.clear();
        let length = self.request_length();
        if self.buffer.len() > length {
            self.buffer.drain(..length);
        } else if self.buffer.capacity() > 2 * PLAIN_HEAD_MAX {
            self.buffer = Vec::new();
        } else {
            self.buffer.clear();
        }
        if !self.ahead.is_empty() {
            self.buffer.append(&mut self.ahead);
            self.ahead = Vec::new();
        }
    }
}

/// Reads what there is; 0 at the end of the stream.
fn poll_read<IO: AsyncRead + Unpin>(
    io: &mut IO,
    buffer: &mut Vec<u8>,
    context: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    if buffer.capacity() - buffer.len() < READ_ROOM / 4 {
        buffer.reserve(READ_ROOM);
    }
    pin!(io.read_buf(buffer)).poll(context)
}

/// The text of a second, kept while it lasts.
#[derive(Debug, Default)]
struct DateText {
    second: u64,
    text: String,
}

impl DateText {
    fn sent<'s>(&'s mut self, now_seconds: u64, is_leaving: &'s AtomicBool) -> SentHead<'s> {
        if self.second != now_seconds || self.text.is_empty() {
            self.second = now_seconds;
            self.text = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(now_seconds));
        }
        SentHead { now_seconds, date: self.text.as_bytes(), is_leaving }
    }
}
