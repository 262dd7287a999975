//! Reading a request's body, whole, within its bounds of size and time.

use crate::limits::Limits;
use armilla_model::{Error, Result};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use tokio::time::timeout;

/// The body of a request.
#[derive(Debug)]
pub(crate) enum RequestBody {
    /// It has arrived.
    Whole(Bytes),
    /// It is on its way.
    Arriving(Incoming),
}

impl RequestBody {
    /// Whether nothing of it is to come.
    pub(super) fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_empty(),
            Self::Arriving(body) => body.is_end_stream(),
        }
    }
}

/// The body, or 413 when it is too long and 408 when it does not arrive.
pub(super) async fn read(
    body: RequestBody,
    limits: &Limits,
    expects_continue: bool,
) -> Result<Bytes> {
    let body = match body {
        RequestBody::Whole(body) if body.len() > limits.body_size_max => {
            return Err(too_large(limits));
        }
        RequestBody::Whole(body) => return Ok(body),
        RequestBody::Arriving(body) => body,
    };
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let announced = body.size_hint().lower();
    if announced > limits.body_size_max as u64 {
        discard(RequestBody::Arriving(body), limits, expects_continue).await;
        return Err(too_large(limits));
    }
    match timeout(limits.body_timeout, collect(body, limits)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(Error::Timeout("The request's body did not arrive in time.".to_owned())),
    }
}

/// Reads a body for which there is no use, within bounds, and forgets it.
pub(super) async fn discard(body: RequestBody, limits: &Limits, expects_continue: bool) {
    let RequestBody::Arriving(body) = body else { return };
    // A client that waits for permission has sent nothing; the answer is all it needs.
    let is_short = body.size_hint().lower() <= limits.body_drain_max as u64;
    if !body.is_end_stream() && !expects_continue && is_short {
        let _ = timeout(limits.body_timeout, drain(body, limits.body_drain_max)).await;
    }
}

/// Puts the frames together. Most bodies are one frame, which is passed on uncopied.
async fn collect(mut body: Incoming, limits: &Limits) -> Result<Bytes> {
    let mut first = Bytes::new();
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| {
            Error::bad_request(
                "The connection ended before the whole body had arrived. Send the request again.",
            )
        })?;
        let Ok(data) = frame.into_data() else { continue };
        if first.len() + whole.len() + data.len() > limits.body_size_max {
            let _ = drain(body, limits.body_drain_max).await;
            return Err(too_large(limits));
        }
        if first.is_empty() && whole.is_empty() {
            first = data;
            continue;
        }
        if whole.is_empty() {
            let announced = usize::try_from(body.size_hint().lower()).unwrap_or(0);
            whole.reserve(first.len() + data.len() + announced.min(limits.body_size_max));
            whole.extend_from_slice(&std::mem::take(&mut first));
        }
        whole.extend_from_slice(&data);
    }
    Ok(if whole.is_empty() { first } else { whole.freeze() })
}

/// Reads and forgets, up to a bound.
async fn drain(mut body: Incoming, bytes_max: usize) {
    let mut read = 0;
    while let Some(Ok(frame)) = body.frame().await {
        read += frame.data_ref().map_or(0, Bytes::len);
        if read > bytes_max {
            return;
        }
    }
}

fn too_large(limits: &Limits) -> Error {
    Error::TooLarge(format!(
        "Request size is too large. The largest request body has {} bytes.",
        limits.body_size_max
    ))
}
