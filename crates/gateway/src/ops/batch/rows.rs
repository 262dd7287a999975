//! The answer to a batch: one row for each operation, written behind one another.

use super::charge_of;
use crate::limits::{BULK_ANSWER_MAX, BULK_JSON_ANSWER_MAX};
use crate::wire::hybrid_row::{self, ResultRow, ResultStream};
use crate::{Call, Reply};
use armilla_engine::Container;
use armilla_engine::items::batch::Outcome;
use armilla_model::charge::{Rates, RequestCharge};
use armilla_model::etag::ETag;
use armilla_model::{Error, Number, json};
use http::{HeaderValue, StatusCode};
use std::io::Write as _;
use std::sync::Arc;

const OCTET_STREAM: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// Substatus of a read whose item does not fit into the answer: clients send it again.
const ANSWER_FULL: u32 = 3402;

/// The answer in the making.
pub(in crate::ops) struct Rows<'c> {
    call: &'c Call<'c>,
    rates: Arc<Rates>,
    read_factor: u64,
    out: Out,
    /// Bytes after which no more bodies are added.
    size_max: usize,
    charge: RequestCharge,
    failed: bool,
    throttled: u64,
}

/// The rows so far, in the form of the request.
enum Out {
    Json(Vec<u8>),
    HybridRow(ResultStream),
}

/// What a row says.
struct Row<'r> {
    status: u16,
    substatus: u32,
    charge: RequestCharge,
    etag: Option<ETag>,
    text: Option<&'r [u8]>,
    retry_after_millis: Option<u32>,
    /// What an operation failed for, where it is more than a neighbour.
    error: Option<&'r Error>,
}

impl<'c> Rows<'c> {
    pub(in crate::ops) fn new(
        call: &'c Call<'c>,
        container: &Container,
        capacity: usize,
        read_factor: u64,
    ) -> Self {
        let out = if hybrid_row::is_hybrid_row(&call.body) {
            Out::HybridRow(ResultStream::new(capacity))
        } else {
            let mut body = Vec::with_capacity(capacity + 2);
            body.push(b'[');
            Out::Json(body)
        };
        Self {
            call,
            rates: container.rates(),
            read_factor,
            out,
            size_max: usize::MAX,
            charge: RequestCharge::ZERO,
            failed: false,
            throttled: 0,
        }
    }

    /// The same with the bound of an answer to bulk.
    pub(in crate::ops) fn bounded(self) -> Self {
        let size_max = match &self.out {
            Out::Json(_) => BULK_JSON_ANSWER_MAX,
            Out::HybridRow(_) => BULK_ANSWER_MAX,
        };
        Self { size_max, ..self }
    }

    /// The same with another charge than the sum of the rows'.
    pub(super) fn charged(self, charge: RequestCharge) -> Self {
        Self { charge, ..self }
    }

    /// A row of an operation that succeeded, without the item where either the operation or the whole
    /// request asks for little.
    pub(in crate::ops) fn success(&mut self, outcome: &Outcome, minimal: bool) {
        let minimal = minimal || self.call.context.prefer_minimal;
        let (status, etag, text) = match outcome {
            Outcome::Written(written) => {
                let status = if written.created { 201 } else { 200 };
                (status, written.etag, (!minimal).then_some(&written.text))
            }
            Outcome::Deleted(_) => (204, None, None),
            Outcome::Read(item) => (200, Some(item.etag), Some(&item.text)),
            Outcome::NotModified(item) => (304, Some(item.etag), None),
        };
        let charge = charge_of(outcome, &self.rates, self.read_factor);
        let mut row = Row {
            status,
            substatus: 0,
            charge,
            etag,
            text: text.map(|text| &text[..]),
            retry_after_millis: None,
            error: None,
        };
        let too_large;
        if self.is_full(row.text) {
            // What was written says so, and leaves its item out. What was only read is read again.
            row.text = None;
            if matches!(outcome, Outcome::Read(_)) {
                self.failed = true;
                row = Row { status: 413, substatus: ANSWER_FULL, etag: None, ..row };
                too_large = Error::TooLarge("The results of the batch are too large.".to_owned());
                row.error = Some(&too_large);
            }
        }
        self.push(&row);
    }

    pub(in crate::ops) fn failure(&mut self, error: &Error) {
        let found = crate::error::status_of(error);
        let dependent = *error == Error::FailedDependency;
        let retry_after = crate::error::retry_after(error);
        let free = dependent || retry_after.is_some();
        let charge = if free { RequestCharge::ZERO } else { self.rates.failure };
        let millis = retry_after.map(|wait| wait.as_micros().div_ceil(1000));
        self.failed = true;
        self.throttled += u64::from(retry_after.is_some());
        self.push(&Row {
            status: found.status.as_u16(),
            substatus: found.substatus,
            charge,
            etag: None,
            text: None,
            retry_after_millis: millis.map(|millis| u32::try_from(millis).unwrap_or(u32::MAX)),
            error: (!dependent).then_some(error),
        });
    }

    /// Whether the answer has no more room for this text.
    fn is_full(&self, text: Option<&[u8]>) -> bool {
        let length = match &self.out {
            Out::Json(body) => body.len(),
            Out::HybridRow(stream) => stream.len(),
        };
        text.is_some_and(|text| length.saturating_add(text.len()) > self.size_max)
    }

    fn push(&mut self, row: &Row<'_>) {
        self.charge += row.charge;
        match &mut self.out {
            Out::Json(body) => write_json(row, body),
            Out::HybridRow(stream) => push_row(row, stream),
        }
    }

    pub(in crate::ops) fn reply(self) -> Reply {
        let status = if self.failed { StatusCode::MULTI_STATUS } else { StatusCode::OK };
        let reply = match self.out {
            Out::Json(mut body) => {
                body.push(b']');
                Reply::json(status, body)
            }
            Out::HybridRow(stream) => Reply::other(status, stream.finish(), OCTET_STREAM),
        };
        reply.charge(self.charge).with_throttled(self.throttled)
    }
}

/// Writes a row of the JSON form. Writing to memory cannot fail.
fn write_json(row: &Row<'_>, body: &mut Vec<u8>) {
    if body.len() > 1 {
        body.push(b',');
    }
    body.extend_from_slice(b"{\"statusCode\":");
    Number::Int(row.status.into()).write(body);
    body.extend_from_slice(b",\"requestCharge\":");
    row.charge.write(body);
    if row.substatus != 0 {
        let _ = write!(body, ",\"subStatusCode\":{}", row.substatus);
    }
    if let Some(millis) = row.retry_after_millis {
        let _ = write!(body, ",\"retryAfterMilliseconds\":{millis}");
    }
    if let Some(etag) = row.etag {
        body.extend_from_slice(b",\"eTag\":\"\\\"");
        etag.write_unquoted(body);
        body.extend_from_slice(b"\\\"\"");
    }
    if let Some(text) = row.text {
        body.extend_from_slice(b",\"resourceBody\":");
        body.extend_from_slice(text);
    }
    if let Some(error) = row.error {
        body.extend_from_slice(b",\"message\":");
        json::write_string(error.message(), body);
    }
    body.push(b'}');
}

/// Appends a row of the binary form. Its body is the item, or what the operation failed for: clients show
/// that as the message.
fn push_row(row: &Row<'_>, stream: &mut ResultStream) {
    let etag = row.etag.map(|etag| etag.to_string());
    let document = row.error.map(crate::error::write_row_document);
    stream.push(&ResultRow {
        status: row.status,
        substatus: Some(row.substatus),
        etag: etag.as_ref().map(String::as_bytes),
        body: document.as_deref().or(row.text),
        retry_after_millis: row.retry_after_millis,
        charge: Some(row.charge.hundredths() as f64 / 100.0),
    });
}
