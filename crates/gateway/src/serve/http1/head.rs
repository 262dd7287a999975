//! Request heads in the common form, and what is not in it.

use crate::cluster::FROM;
use crate::handle::{FieldSpan, PlainRequest};
use crate::limits::PLAIN_HEADERS_MAX;
use http::Method;
use std::mem::MaybeUninit;
use std::ops::Range;

/// What the bytes of a connection begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A head that is not whole yet.
    Partial,
    /// A head in the common form; [`CommonHead`] has it.
    Common,
    /// Anything else, malformed heads among it.
    Uncommon,
}

/// A head in the common form: where its parts lie in the buffer.
#[derive(Debug, Default)]
pub(super) struct CommonHead {
    method: Method,
    path: Range<usize>,
    host: Range<usize>,
    fields: Vec<FieldSpan>,
    /// Bytes of the head, the empty line included.
    pub(super) length: usize,
    /// Bytes of the body behind it.
    pub(super) body_length: usize,
    /// It has credentials.
    pub(super) is_signed: bool,
    /// Another node has passed it on.
    is_passed_on: bool,
}

impl CommonHead {
    /// Reads the head at the beginning of the buffer. Names of headers become small letters there, which means the same to
    /// whoever reads them again.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Form {
        let form = self.lay_out(buffer);
        if form == Form::Common {
            for field in &self.fields {
                if let Some(name) = buffer.get_mut(field.name.clone()) {
                    name.make_ascii_lowercase();
                }
            }
        }
        form
    }

    fn lay_out(&mut self, buffer: &[u8]) -> Form {
        let mut places = [const { MaybeUninit::uninit() }; PLAIN_HEADERS_MAX];
        let mut request = httparse::Request::new(&mut []);
        match request.parse_with_uninit_headers(buffer, &mut places) {
            Ok(httparse::Status::Complete(length)) => self.length = length,
            Ok(httparse::Status::Partial) => return Form::Partial,
            Err(_) => return Form::Uncommon,
        }
        let (Some(method), Some(path)) = (request.method.and_then(common_method), request.path)
        else {
            return Form::Uncommon;
        };
        if request.version != Some(1) || !is_common_path(path.as_bytes()) {
            return Form::Uncommon;
        }
        let span = |part: &[u8]| {
            let start = part.as_ptr() as usize - buffer.as_ptr() as usize;
            start..start + part.len()
        };
        (self.method, self.path) = (method, span(path.as_bytes()));
        (self.host, self.is_signed, self.is_passed_on) = (0..0, false, false);
        self.fields.clear();
        let mut body_length = None;
        for header in request.headers.iter() {
            let (name, value) = (header.name, header.value);
            match meaning_of(name) {
                FieldMeaning::Any => {}
                FieldMeaning::Credentials => self.is_signed = true,
                FieldMeaning::PassedOn => self.is_passed_on = true,
                FieldMeaning::Host if self.host.is_empty() => self.host = span(value),
                FieldMeaning::BodyLength if body_length.is_none() => match digits(value) {
                    Some(length) => body_length = Some(length),
                    None => return Form::Uncommon,
                },
                FieldMeaning::Connection if value.eq_ignore_ascii_case(b"keep-alive") => {}
                _ => return Form::Uncommon,
            }
            self.fields.push(FieldSpan { name: span(name.as_bytes()), value: span(value) });
        }
        self.body_length = body_length.unwrap_or(0);
        if self.host.is_empty() { Form::Uncommon } else { Form::Common }
    }

    /// The name that the request was sent to.
    pub(super) fn host<'b>(&self, buffer: &'b [u8]) -> &'b [u8] {
        buffer.get(self.host.clone()).unwrap_or_default()
    }

    /// The head as the gateway reads it, out of the buffer in which it was found.
    pub(super) fn request<'b>(
        &'b self,
        buffer: &'b [u8],
        foreign_host: Option<&'b [u8]>,
    ) -> PlainRequest<'b> {
        let path = buffer.get(self.path.clone()).unwrap_or_default();
        let path = std::str::from_utf8(path).unwrap_or_default();
        let head = buffer.get(..self.length).unwrap_or_default();
        let (method, fields, is_passed_on) = (&self.method, &*self.fields, self.is_passed_on);
        PlainRequest { method, path, buffer, head, fields, foreign_host, is_passed_on }
    }
}

fn common_method(name: &str) -> Option<Method> {
    Some(match name {
        "GET" => Method::GET,
        "POST" => Method::POST,
        "PUT" => Method::PUT,
        "PATCH" => Method::PATCH,
        "DELETE" => Method::DELETE,
        _ => return None,
    })
}

/// A path that means itself: no query, no fragment, nothing that has to be judged.
fn is_common_path(path: &[u8]) -> bool {
    const COMMON: [bool; 256] = {
        let mut common = [false; 256];
        let mut byte = 0;
        while byte < 256 {
            common[byte] = (byte as u8).is_ascii_alphanumeric();
            byte += 1;
        }
        let others = b"/-._~%+=:@,!$'()*;&";
        let mut at = 0;
        while at < others.len() {
            common[others[at] as usize] = true;
            at += 1;
        }
        common
    };
    path.first() == Some(&b'/') && path.iter().all(|byte| COMMON[usize::from(*byte)])
}

/// What a header means for the form of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldMeaning {
    /// Nothing.
    Any,
    Credentials,
    Host,
    BodyLength,
    Connection,
    /// The node that passed the request on.
    PassedOn,
    /// A body without a length, a client that waits, a page of a browser, a proxy between.
    Uncommon,
}

fn meaning_of(name: &str) -> FieldMeaning {
    const UNCOMMON: [&str; 12] = [
        "te",
        "via",
        "expect",
        "origin",
        "trailer",
        "upgrade",
        "forwarded",
        "x-real-ip",
        "keep-alive",
        "http2-settings",
        "transfer-encoding",
        "proxy-connection",
    ];
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    match name.len() {
        4 if is("host") => FieldMeaning::Host,
        10 if is("connection") => FieldMeaning::Connection,
        13 if is("authorization") => FieldMeaning::Credentials,
        14 if is("content-length") => FieldMeaning::BodyLength,
        14 if is(FROM.as_str()) => FieldMeaning::PassedOn,
        2..=17 if UNCOMMON.into_iter().any(is) => FieldMeaning::Uncommon,
        length if length > 12 && is_forwarded(name) => FieldMeaning::Uncommon,
        _ => FieldMeaning::Any,
    }
}

fn is_forwarded(name: &str) -> bool {
    const PREFIX: &[u8] = b"x-forwarded-";
    name.as_bytes().get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
}

/// A number of nothing but digits, far from any overflow.
fn digits(value: &[u8]) -> Option<usize> {
    const DIGITS_MAX: usize = 9;
    let is_number = (1..=DIGITS_MAX).contains(&value.len()) && value.iter().all(u8::is_ascii_digit);
    is_number.then(|| value.iter().fold(0, |number, digit| number * 10 + usize::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn form(text: &str) -> Form {
        CommonHead::default().read(&mut text.as_bytes().to_vec())
    }

    #[test]
    fn a_request_of_a_client_is_in_the_common_form() {
        let text = "POST /dbs/d/colls/c/docs HTTP/1.1\r\nHost: localhost:8081\r\nX-Ms-Date: Now\r\n\
             Authorization: type%3Dmaster\r\nConnection: Keep-Alive\r\nContent-Length: 12\r\n\r\n{\"id\":\"abc\"}";
        let mut buffer = text.as_bytes().to_vec();
        let mut head = CommonHead::default();
        assert_eq!(head.read(&mut buffer), Form::Common);
        assert_eq!((head.length + head.body_length, head.is_signed), (text.len(), true));
        assert_eq!(head.host(&buffer), b"localhost:8081");
        let request = head.request(&buffer, None);
        assert_eq!((request.method, request.path), (&Method::POST, "/dbs/d/colls/c/docs"));
        let headers: Vec<_> = request.headers().collect();
        assert_eq!(headers[1], ("x-ms-date", &b"Now"[..]));
        assert_eq!(headers.len(), 5);
        for length in 0..text.find("\r\n\r\n").unwrap() + 4 {
            assert_eq!(form(&text[..length]), Form::Partial, "{length}");
        }
    }

    /// What needs judgement is left to the one who judges.
    #[test]
    fn everything_else_is_uncommon() {
        let with = |line: &str| format!("GET /dbs HTTP/1.1\r\nhost: x\r\n{line}\r\n\r\n");
        assert_eq!(form(&with("accept: a")), Form::Common);
        assert_eq!(form(&with("X-Armilla-From: node")), Form::Common);
        for line in [
            "transfer-encoding: chunked",
            "Transfer-Encoding: identity",
            "content-length: 1\r\ncontent-length: 1",
            "content-length: +1",
            "content-length: 1, 1",
            "content-length: 0x1",
            "content-length:",
            "content-length: 99999999999999999999",
            "expect: 100-continue",
            "connection: close",
            "connection: keep-alive, upgrade",
            "upgrade: h2c",
            "te: trailers",
            "origin: http://localhost",
            "X-Forwarded-For: 10.0.0.1",
            "forwarded: for=x",
            "via: 1.1 x",
            "x-real-ip: 1",
            "host: y",
            "bad header",
            " folded: x",
        ] {
            assert_eq!(form(&with(line)), Form::Uncommon, "{line}");
        }
        for text in [
            "GET /dbs HTTP/1.0\r\nhost: x\r\n\r\n",
            "GET /dbs HTTP/1.1\r\n\r\n",
            "HEAD /dbs HTTP/1.1\r\nhost: x\r\n\r\n",
            "OPTIONS * HTTP/1.1\r\nhost: x\r\n\r\n",
            "GET /dbs?x HTTP/1.1\r\nhost: x\r\n\r\n",
            "GET http://x/dbs HTTP/1.1\r\nhost: x\r\n\r\n",
            "GET /\u{fc} HTTP/1.1\r\nhost: x\r\n\r\n",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            "\0\0\0\0",
        ] {
            assert_eq!(form(text), Form::Uncommon, "{text}");
        }
        let many = "x: y\r\n".repeat(PLAIN_HEADERS_MAX);
        assert_eq!(form(&with(many.trim_end())), Form::Uncommon);
    }

    proptest! {
        #[test]
        fn any_bytes_have_a_form(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut head = CommonHead::default();
            let mut buffer = b"GET /dbs HTTP/1.1\r\nhost: x\r\n".to_vec();
            buffer.extend(bytes);
            if head.read(&mut buffer) == Form::Common {
                prop_assert!(head.length <= buffer.len());
                let _ = head.request(&buffer, None).headers().count();
            }
        }
    }
}
