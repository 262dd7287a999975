//! One call of a webhook.

use super::hosts::{AllowedHosts, Destination};
use super::signature;
use crate::limits::{WEBHOOK_ANSWER_MAX, WEBHOOK_TOLD_MAX};
use armilla_engine::subscriptions::entry::{DeliveryFailure, EntryKey};
use armilla_engine::subscriptions::{DeliveryOutcome, Parcel};
use armilla_model::Value;
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Why there is no answer.
type Failed = Box<dyn std::error::Error + Send + Sync>;

struct Answered {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

/// Makes a call and says what its answer means.
pub(super) async fn outcome(
    parcel: &Parcel,
    hosts: &AllowedHosts,
    tls: Arc<ClientConfig>,
) -> DeliveryOutcome {
    let destination = match Destination::parse(&parcel.webhook.url, hosts) {
        Ok(destination) => destination,
        Err(error) => {
            return DeliveryOutcome::Failed(DeliveryFailure::told(error.to_string()), None);
        }
    };
    match timeout(parcel.webhook.timeout, call(parcel, &destination, hosts, tls)).await {
        Ok(Ok(answered)) => meaning(&answered),
        Ok(Err(error)) => {
            DeliveryOutcome::Failed(DeliveryFailure::told(cut(&error.to_string())), None)
        }
        Err(_) => {
            let seconds = parcel.webhook.timeout.as_secs();
            DeliveryOutcome::Failed(
                DeliveryFailure::told(format!("no answer within {seconds} s")),
                None,
            )
        }
    }
}

async fn call(
    parcel: &Parcel,
    destination: &Destination,
    hosts: &AllowedHosts,
    tls: Arc<ClientConfig>,
) -> Result<Answered, Failed> {
    let address = address(destination, hosts).await?;
    let socket = TcpStream::connect(address).await?;
    socket.set_nodelay(true)?;
    let request = request(parcel, destination)?;
    if !destination.tls {
        return exchange(socket, request).await;
    }
    let name = ServerName::try_from(destination.host.clone())?;
    exchange(TlsConnector::from(tls).connect(name, socket).await?, request).await
}

/// The address to connect to: looked up once, and checked.
async fn address(destination: &Destination, hosts: &AllowedHosts) -> Result<SocketAddr, Failed> {
    let host = destination.host.as_str();
    let mut found = lookup_host((host, destination.port)).await?;
    let allowed = found.find(|address| hosts.allows_address(host, address.ip()));
    let refused = || {
        format!(
            "'{host}' stands for an address of this machine or a private network, which was not named"
        )
    };
    allowed.ok_or_else(|| refused().into())
}

fn request(parcel: &Parcel, destination: &Destination) -> Result<Request<Full<Bytes>>, Failed> {
    let mut request = Request::post(&destination.path)
        .header(header::HOST, &destination.authority)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::USER_AGENT, concat!("armilla/", env!("CARGO_PKG_VERSION")))
        .header("x-armilla-delivery", &parcel.uuid)
        .header("x-armilla-attempt", parcel.attempt)
        .header("x-armilla-timestamp", parcel.second);
    if let Some(secret) = &parcel.webhook.secret {
        let signature = signature(secret, parcel.second, &parcel.body);
        request = request.header("x-armilla-signature", signature);
    }
    for (name, value) in &parcel.webhook.headers {
        request = request.header(&**name, &**value);
    }
    Ok(request.body(Full::new(Bytes::from(parcel.body.clone())))?)
}

async fn exchange(
    socket: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    request: Request<Full<Bytes>>,
) -> Result<Answered, Failed> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(socket)).await?;
    let connection = tokio::spawn(connection);
    let answered = read(sender.send_request(request).await?).await;
    connection.abort();
    answered
}

/// Reads an answer; of a body no more than its most.
async fn read(answer: http::Response<Incoming>) -> Result<Answered, Failed> {
    let (parts, body) = answer.into_parts();
    let body = match Limited::new(body, WEBHOOK_ANSWER_MAX).collect().await {
        Ok(body) => body.to_bytes(),
        // What is too long says nothing about failures: those would fit.
        Err(error) if error.is::<http_body_util::LengthLimitError>() => Bytes::new(),
        Err(error) => return Err(error),
    };
    Ok(Answered { status: parts.status, headers: parts.headers, body })
}

fn meaning(answered: &Answered) -> DeliveryOutcome {
    let status = answered.status;
    let failure = || {
        let text = String::from_utf8_lossy(&answered.body);
        DeliveryFailure {
            status: Some(status.as_u16()),
            message: format!("{status}: {}", cut(&text)),
        }
    };
    match status.as_u16() {
        200..=299 => partly(&answered.body),
        408 | 425 | 429 | 500..=599 => {
            DeliveryOutcome::Failed(failure(), retry_after(&answered.headers))
        }
        410 => DeliveryOutcome::Gone(failure()),
        _ => DeliveryOutcome::Refused(failure()),
    }
}

/// What a good answer says: everything is done, or everything but a list.
fn partly(body: &[u8]) -> DeliveryOutcome {
    let body = armilla_model::json::parse(body).unwrap_or(Value::Null);
    let failures = body.get("failures").and_then(Value::as_array).unwrap_or_default();
    let failure = |value: &Value| {
        let key = EntryKey::parse(value.get("key")?.as_str()?)?;
        Some((key, value.get("retry").and_then(Value::as_bool).unwrap_or(true)))
    };
    let failures: Vec<_> = failures.iter().filter_map(failure).collect();
    if failures.is_empty() {
        return DeliveryOutcome::Done;
    }
    DeliveryOutcome::Partly(
        failures,
        DeliveryFailure::told("the receiver named entries that failed"),
    )
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    if let Ok(seconds) = text.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = httpdate::parse_http_date(text).ok()?;
    let sent = headers.get(header::DATE).and_then(|date| date.to_str().ok());
    let sent: SystemTime = httpdate::parse_http_date(sent?).ok()?;
    at.duration_since(sent).ok()
}

/// A text for a status or a dead letter, which is short.
fn cut(text: &str) -> String {
    text.chars().take(WEBHOOK_TOLD_MAX).collect()
}
