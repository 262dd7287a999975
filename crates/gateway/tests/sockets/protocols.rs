//! HTTP/2 and TLS on the port that also speaks plain HTTP/1.1.

use crate::support::{Client, DATE, NOW, Running, authorization, soon};
use armilla_gateway::limits::Limits;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const ITEM: &str = "/dbs/d/colls/c/docs/1";
const ITEMS: &str = "/dbs/d/colls/c/docs";

type Sender = http2::SendRequest<Full<Bytes>>;

async fn http2(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Sender {
    let io = TokioIo::new(stream);
    let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    sender
}

fn request(method: &str, path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    Request::builder()
        .method(method)
        .uri(format!("http://localhost:8081{path}"))
        .header("x-ms-date", DATE)
        .header("authorization", authorization(method, path))
        .body(Full::new(body.into()))
        .unwrap()
}

async fn text(response: Response<Incoming>) -> String {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A time source for the client that stands at the server's time.
#[derive(Debug)]
struct StandingClock;

impl rustls::time_provider::TimeProvider for StandingClock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(NOW)))
    }
}

/// Connects as a client that trusts the server's authority.
async fn secure(server: &Running, name: &str, alpn: &[&str]) -> TlsStream<TcpStream> {
    let mut roots = rustls::RootCertStore::empty();
    let pem = server.authority.certificate_pem.as_bytes();
    roots.add(CertificateDer::from_pem_slice(pem).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_details(provider, Arc::new(StandingClock))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    let stream = TcpStream::connect(server.address).await.unwrap();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}

#[tokio::test]
async fn http2_with_prior_knowledge() {
    let server = Running::start(Limits::default());
    let mut sender = http2(server.connect().await.stream).await;
    let response = soon(sender.send_request(request("GET", "/", ""))).await.unwrap();
    assert_eq!(response.version(), http::Version::HTTP_2);
    assert!(text(response).await.contains("\"http://127.0.0.1:8081/\""), "from the authority");
    let body = "{\"id\":1}".to_owned() + &" ".repeat(1_000_000);
    let response = soon(sender.send_request(request("POST", ITEMS, body.clone()))).await.unwrap();
    assert_eq!(response.status(), StatusCode::CREATED);
    assert_eq!(soon(text(response)).await, body);
}

#[tokio::test]
async fn http2_requests_do_not_wait_for_each_other() {
    let server = Running::start(Limits::default());
    let mut sender = http2(server.connect().await.stream).await;
    let slow = sender.send_request(request("GET", &format!("{ITEMS}/held"), ""));
    let slow = tokio::spawn(slow);
    server.gate.arrival().await;
    for _ in 0..20 {
        let response = soon(sender.send_request(request("GET", ITEM, ""))).await.unwrap();
        assert_eq!(text(response).await, "{\"id\":\"1\"}");
    }
    assert!(!slow.is_finished());
    server.gate.let_one_go();
    assert_eq!(soon(slow).await.unwrap().unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn http2_refuses_large_bodies_and_serves_on() {
    let server = Running::start(Limits::default());
    let mut sender = http2(server.connect().await.stream).await;
    for megabytes in [3, 20] {
        let large = request("POST", ITEMS, vec![b' '; megabytes * 1024 * 1024]);
        let response = soon(sender.send_request(large)).await.unwrap();
        assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
        assert!(soon(text(response)).await.contains("RequestEntityTooLarge"));
    }
    let response = soon(sender.send_request(request("GET", ITEM, ""))).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let large = request("GET", &format!("{ITEMS}/large"), "");
    let response = soon(sender.send_request(large)).await.unwrap();
    assert_eq!(soon(text(response)).await.len(), 4 * 1024 * 1024);
}

#[tokio::test]
async fn quiet_http2_connections_are_not_taken_for_slow_heads() {
    let limits = Limits { header_timeout: Duration::from_millis(100), ..Limits::default() };
    let server = Running::start(limits);
    let mut sender = http2(server.connect().await.stream).await;
    // Once a head that was begun later is cut off, its time has passed for the quiet one too.
    let mut slow = server.connect().await;
    slow.send("GET ").await;
    assert!(soon(slow.closed()).await);
    let response = soon(sender.send_request(request("GET", ITEM, ""))).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
}

#[tokio::test]
async fn tls_speaks_http2_and_http1_beside_plain() {
    let server = Running::start(Limits::default());
    let stream = soon(secure(&server, "localhost", &["h2", "http/1.1"])).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let mut sender = http2(stream).await;
    let response = soon(sender.send_request(request("GET", ITEM, ""))).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);

    for alpn in [&["http/1.1"][..], &[]] {
        let stream = soon(secure(&server, "127.0.0.1", alpn)).await;
        let negotiated = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
        assert_eq!(negotiated, alpn.first().map(|name| name.as_bytes().to_vec()));
        let mut client = Client { stream };
        let answer = soon(client.get("/")).await;
        assert!(answer.text().contains("\"https://127.0.0.1:8081/\""), "the scheme is seen");
        assert_eq!(soon(client.get(ITEM)).await.status, 200);
    }
    assert_eq!(soon(server.connect().await.get(ITEM)).await.status, 200);
}
