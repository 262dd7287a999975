//! An answer as the bytes of an HTTP/1.1 response, without a map of headers between.

use super::http::HeaderSink;
use super::{Answer, Reply};
use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, DATE};
use http::{HeaderMap, HeaderName, StatusCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Bodies up to this length are copied behind their head, for one write.
const COPIED_BODY_MAX: usize = 8 * 1024;
/// Room that is kept between two answers.
const KEPT_ROOM_MAX: usize = 64 * 1024;

/// What the head says of the connection, not of the answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentHead<'a> {
    /// The time, in seconds since 1970.
    pub(crate) now_seconds: u64,
    /// The same as RFC 1123 has it.
    pub(crate) date: &'a [u8],
    /// Whether the connection is closed behind the answer: it may be decided while that is being made.
    pub(crate) is_leaving: &'a AtomicBool,
}

/// The lines of an answer's head that another node wrote, each with its end, around the one that speaks of its connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PassedHead<'a> {
    pub(crate) before_connection: &'a [u8],
    pub(crate) after_connection: &'a [u8],
}

/// The bytes of an answer. Its room is used again for the next.
#[derive(Debug, Default)]
pub(crate) struct Http1Answer {
    /// The head, and a body that is short.
    head: Vec<u8>,
    /// A body that is long.
    body: Bytes,
}

impl HeaderSink for Http1Answer {
    fn put(&mut self, name: HeaderName, write: impl FnOnce(&mut Vec<u8>)) {
        self.head.extend_from_slice(name.as_str().as_bytes());
        self.head.extend_from_slice(b": ");
        write(&mut self.head);
        self.head.extend_from_slice(b"\r\n");
    }
}

impl Http1Answer {
    /// What is to be sent: two parts, the second of which is mostly empty.
    pub(crate) fn parts(&self) -> (&[u8], &[u8]) {
        (&self.head, &self.body)
    }

    /// Writes an answer.
    pub(crate) fn write(
        &mut self,
        reply: Reply,
        activity_id: &[u8],
        duration: Duration,
        sent: SentHead<'_>,
    ) {
        let answer = reply.into_answer(activity_id);
        self.begin(answer.status);
        let Answer { status, body, .. } = answer.write(activity_id, duration, self);
        self.end(status, body, sent);
    }

    /// Writes a response that was made for any version of HTTP.
    pub(crate) fn write_response(
        &mut self,
        status: StatusCode,
        headers: &HeaderMap,
        body: Bytes,
        sent: SentHead<'_>,
    ) {
        self.begin(status);
        // These are the connection's to say.
        let is_own = |name: &HeaderName| ![CONTENT_LENGTH, CONNECTION, DATE].contains(name);
        for (name, value) in headers.iter().filter(|(name, _)| is_own(name)) {
            self.put(name.clone(), |out| out.extend_from_slice(value.as_bytes()));
        }
        self.end(status, body, sent);
    }

    /// Writes an answer that another node made: its status line and headers as they came, and its body. What the other node said of its
    /// connection, it said to this one.
    pub(crate) fn write_passed(&mut self, head: PassedHead<'_>, body: Bytes, sent: SentHead<'_>) {
        self.body = Bytes::new();
        self.head.clear();
        for line in [head.before_connection, head.after_connection] {
            self.head.extend_from_slice(line);
        }
        if sent.is_leaving.load(Ordering::Relaxed) {
            self.head.extend_from_slice(b"connection: close\r\n");
        }
        self.head.extend_from_slice(b"\r\n");
        self.take_body(body);
    }

    /// Forgets the last answer, and room beyond the ordinary.
    pub(crate) fn clear(&mut self) {
        self.body = Bytes::new();
        if self.head.capacity() > KEPT_ROOM_MAX {
            self.head = Vec::new();
        }
    }

    fn begin(&mut self, status: StatusCode) {
        self.body = Bytes::new();
        self.head.clear();
        self.head.extend_from_slice(b"HTTP/1.1 ");
        self.head.extend_from_slice(status.as_str().as_bytes());
        self.head.push(b' ');
        let reason = status.canonical_reason().unwrap_or("Unknown");
        self.head.extend_from_slice(reason.as_bytes());
        self.head.extend_from_slice(b"\r\n");
    }

    fn end(&mut self, status: StatusCode, body: Bytes, sent: SentHead<'_>) {
        let head = &mut self.head;
        if sent.is_leaving.load(Ordering::Relaxed) {
            head.extend_from_slice(b"connection: close\r\n");
        }
        // A body behind these would be taken for the next answer.
        let is_bodyless = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        if !is_bodyless {
            head.extend_from_slice(b"content-length: ");
            head.extend_from_slice(itoa::Buffer::new().format(body.len()).as_bytes());
            head.extend_from_slice(b"\r\n");
        }
        head.extend_from_slice(b"date: ");
        head.extend_from_slice(sent.date);
        head.extend_from_slice(b"\r\n\r\n");
        if !is_bodyless {
            self.take_body(body);
        }
    }

    fn take_body(&mut self, body: Bytes) {
        if body.len() <= COPIED_BODY_MAX {
            self.head.extend_from_slice(&body);
        } else {
            self.body = body;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use armilla_model::Error;

    const NOW: &[u8] = b"Sun, 15 Nov 2026 19:24:19 GMT";
    static STAYING: AtomicBool = AtomicBool::new(false);
    static LEAVING: AtomicBool = AtomicBool::new(true);
    static SENT: SentHead<'_> =
        SentHead { now_seconds: 1_794_770_659, date: NOW, is_leaving: &STAYING };

    fn text(reply: Reply, sent: SentHead<'_>) -> String {
        let mut answer = Http1Answer::default();
        answer.write(reply, b"an-id", Duration::from_micros(7), sent);
        let (head, body) = answer.parts();
        assert!(body.is_empty());
        String::from_utf8(head.to_vec()).unwrap()
    }

    #[test]
    fn an_answer_is_written_as_it_goes_over_the_wire() {
        let expected = "HTTP/1.1 200 OK\r\netag: \"e\"\r\ncontent-type: application/json\r\n\
             x-ms-activity-id: an-id\r\nx-ms-request-charge: 0\r\nx-ms-request-duration-ms: 0.007\r\n\
             x-ms-version: 2020-07-15\r\ncontent-length: 2\r\ndate: Sun, 15 Nov 2026 19:24:19 GMT\r\n\r\n{}";
        assert_eq!(text(Reply::ok("{}").etag("\"e\""), SENT), expected);
        let last =
            text(Reply::error(Error::not_found()), SentHead { is_leaving: &LEAVING, ..SENT });
        assert!(last.starts_with("HTTP/1.1 404 Not Found\r\n"), "{last}");
        assert!(last.contains("connection: close\r\n") && last.ends_with('}'), "{last}");
    }

    #[test]
    fn answers_without_a_body_have_no_length() {
        for reply in [Reply::no_content(), Reply::not_modified()] {
            let text = text(reply, SENT);
            assert!(!text.contains("content-length") && text.ends_with("\r\n\r\n"), "{text}");
        }
    }

    #[test]
    fn long_bodies_are_not_copied() {
        let mut answer = Http1Answer::default();
        let body = Bytes::from(vec![b'x'; COPIED_BODY_MAX + 1]);
        answer.write(Reply::ok(body.clone()), b"an-id", Duration::ZERO, SENT);
        assert_eq!(answer.parts().1.as_ptr(), body.as_ptr());
        answer.clear();
        assert!(answer.parts().1.is_empty());
    }
}
