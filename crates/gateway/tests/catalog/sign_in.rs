//! Sessions of the explorer: who gets one, what it is good for, when it ends, and what it tells of the server.

use crate::explorer::{KEY, with_settings};
use crate::support::{Answer, Armilla, NOW, encoded, signed_with};
use armilla_engine::Options;
use armilla_gateway::Settings;
use armilla_gateway::auth::{Access, Authenticator, MasterKeys, WellKnownKey};
use armilla_storage::MemoryStore;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;

pub(crate) async fn sign_in(server: &Armilla, headers: &[(&str, &str)], body: &str) -> Answer {
    server.send_as("", "POST", "/_armilla/session", headers, body).await
}

pub(crate) fn session(token: &str) -> String {
    encoded(&format!("type=session&ver=1.0&sig={token}"))
}

#[tokio::test]
async fn this_machines_user_needs_no_key_where_the_published_one_is_good() {
    let server = Armilla::start();
    let opened = sign_in(&server, &[], r#"{"auto":true}"#).await.expect(201);
    let session = session(&opened.text("token"));
    server.send_as(&session, "GET", "/dbs", &[], "").await.expect(200);
    let told = server.send_as(&session, "GET", "/_armilla/session", &[], "").await.expect(200);
    assert_eq!(told.text("access"), "readWrite");
    // What gives a stranger away closes the door, and the session that was made here.
    for header in [
        ("x-forwarded-for", "203.0.113.9"),
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("host", "evil.example"),
    ] {
        sign_in(&server, &[header], r#"{"auto":true}"#).await.expect(403);
        server.send_as(&session, "GET", "/dbs", &[header], "").await.expect(401);
    }
    server.send_as(&session, "DELETE", "/_armilla/session", &[], "").await.expect(204);
    server.send_as(&session, "GET", "/dbs", &[], "").await.expect(401);
    server.send_as(&session, "DELETE", "/_armilla/session", &[], "").await.expect(401);
}

#[tokio::test]
async fn a_server_with_a_key_wants_it() {
    let server = with_settings(Settings::default());
    sign_in(&server, &[], r#"{"auto":true}"#).await.expect(403);
    sign_in(&server, &[], "{}").await.expect(400);
    sign_in(&server, &[], "nonsense").await.expect(400);
    sign_in(&server, &[], r#"{"ticket":"x"}"#).await.expect(401);
    let published = format!(r#"{{"key":"{}"}}"#, armilla_gateway::auth::WELL_KNOWN_KEY);
    sign_in(&server, &[], &published).await.expect(401);
    let key = format!(r#"{{"key":"{KEY}","readOnly":true}}"#);
    let opened = sign_in(&server, &[], &key).await.expect(201);
    assert_eq!(opened.text("access"), "readOnly");
    let viewer = session(&opened.text("token"));
    server.send_as(&viewer, "GET", "/dbs", &[], "").await.expect(200);
    server.send_as(&viewer, "POST", "/dbs", &[], r#"{"id":"d"}"#).await.expect(403);
    server.clock.advance_seconds(31 * 60);
    server.send_as(&viewer, "GET", "/dbs", &[], "").await.expect(401);
}

#[tokio::test]
async fn guessing_is_slowed_down() {
    let server = with_settings(Settings::default());
    for _ in 0..10 {
        sign_in(&server, &[], r#"{"key":"d3Jvbmc="}"#).await.expect(401);
    }
    let key = format!(r#"{{"key":"{KEY}"}}"#);
    let refused = sign_in(&server, &[], &key).await.expect(429);
    assert!(refused.header("x-ms-retry-after-ms").is_some());
    assert!(refused.text("message").contains("from this address"));
    // What cannot be guessed is not slowed down.
    sign_in(&server, &[], r#"{"ticket":"x"}"#).await.expect(401);
    server.clock.advance_seconds(61);
    sign_in(&server, &[], &key).await.expect(201);
}

/// A page that cannot read the answer could still use up this machine's attempts.
#[tokio::test]
async fn a_page_of_another_origin_neither_signs_in_nor_counts() {
    let server = with_settings(Settings::default());
    for _ in 0..20 {
        let origin = [("origin", "https://evil.example")];
        sign_in(&server, &origin, r#"{"key":"d3Jvbmc="}"#).await.expect(403);
    }
    let key = format!(r#"{{"key":"{KEY}"}}"#);
    sign_in(&server, &[("origin", "http://localhost:3000")], &key).await.expect(201);
    let long = format!(r#"{{"key":"{}"}}"#, "x".repeat(64 * 1024));
    sign_in(&server, &[], &long).await.expect(413);
}

/// What the session tells of the server, for as long as it is so.
#[tokio::test]
async fn a_session_tells_the_throttle_and_what_this_server_has() {
    let server = Armilla::start();
    let opened = sign_in(&server, &[], r#"{"auto":true}"#).await.expect(201);
    let session = session(&opened.text("token"));
    let told = async || {
        let told = server.send_as(&session, "GET", "/_armilla/session", &[], "").await.expect(200);
        let told = told.json().get("server").unwrap().clone();
        let member = |name: &str| told.get(name).unwrap().to_json();
        (member("throttle"), member("features"))
    };
    assert_eq!(told().await, ("\"off\"".to_owned(), r#"["requestLog"]"#.to_owned()));
    server.put("/_armilla/dials", r#"{"throttle":"on"}"#).await.expect(200);
    assert_eq!(told().await.0, "\"on\"");
    server.put("/_armilla/dials", r#"{"throttle":"report"}"#).await.expect(200);
    assert_eq!(told().await.0, "\"report\"");

    let bare = Armilla::with(Options { serverless: true, ..Options::default() }, |service| {
        service.with_request_log(0)
    });
    let told = bare.get("/_armilla/session").await.expect(200).json();
    let features = told.get("server").unwrap().get("features").unwrap().to_json();
    assert_eq!(features, r#"["serverless"]"#);
    let told = Armilla::direct().get("/_armilla/session").await.expect(200).json();
    assert!(told.get("server").unwrap().get("features").unwrap().to_json().contains("direct"));
}

fn with_key() -> Authenticator {
    let mut keys = MasterKeys::new(WellKnownKey::Nowhere);
    keys.add(KEY, Access::ReadWrite).unwrap();
    Authenticator::new(keys, &[1; 32])
}

#[tokio::test]
async fn a_ticket_opens_one_session_within_a_minute() {
    let authenticator = with_key();
    let ticket = || authenticator.sessions().issue_ticket(NOW).unwrap();
    let (first, second) = (ticket(), ticket());
    let store = Arc::new(MemoryStore::new());
    let (options, settings) = (Options::default(), Settings::default());
    let server = Armilla::guarded(store, options, |service| service, authenticator, settings);
    let first = format!(r#"{{"ticket":"{first}"}}"#);
    let opened = sign_in(&server, &[], &first).await.expect(201);
    server.send_as(&session(&opened.text("token")), "GET", "/dbs", &[], "").await.expect(200);
    let replayed = sign_in(&server, &[], &first).await.expect(401);
    assert!(replayed.text("message").contains("used already"));
    server.clock.advance_seconds(61);
    sign_in(&server, &[], &format!(r#"{{"ticket":"{second}"}}"#)).await.expect(401);
    // Nor is a token good that nobody was given.
    server.send_as(&session(&"A".repeat(43)), "GET", "/dbs", &[], "").await.expect(401);
}

/// The address of this machine that others use. Nothing is sent to find it.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("203.0.113.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

/// Whoever comes by the network over http could be listened to.
#[tokio::test]
async fn over_http_from_another_address_nobody_signs_in_and_no_session_counts() {
    let Some(address) = own_address() else {
        println!("this machine has no address but loopback: nothing to come from");
        return;
    };
    let authenticator = with_key();
    let opened = authenticator.sessions().open(Access::ReadWrite, false, NOW).unwrap();
    let ticket = authenticator.sessions().issue_ticket(NOW).unwrap();
    let at = SocketAddr::new(address, 0);
    let store = Arc::new(MemoryStore::new());
    let guard = (authenticator, Settings::default());
    let server = Armilla::guarded_at(at, store, Options::default(), |service| service, guard);
    let tries = [
        format!(r#"{{"key":"{KEY}"}}"#),
        format!(r#"{{"ticket":"{ticket}"}}"#),
        r#"{"auto":true}"#.to_owned(),
    ];
    for proof in &tries {
        let refused = sign_in(&server, &[], proof).await.expect(403);
        assert!(refused.text("message").contains("https"), "{}", refused.body);
    }
    let session = session(&opened.token);
    for path in ["/dbs", "/_armilla/overview", "/_armilla/session", "/metrics"] {
        server.send_as(&session, "GET", path, &[], "").await.expect(401);
    }
    // A signature does not give the key away.
    let signed = signed_with(KEY, "GET", "/dbs");
    server.send_as(&signed, "GET", "/dbs", &[], "").await.expect(200);

    // Where the published key is good, it is so for this machine's own user alone.
    let open = Authenticator::new(MasterKeys::new(WellKnownKey::OnLoopback), &[1; 32]);
    let store = Arc::new(MemoryStore::new());
    let guard = (open, Settings::default());
    let server = Armilla::guarded_at(at, store, Options::default(), |service| service, guard);
    sign_in(&server, &[], r#"{"auto":true}"#).await.expect(403);
    for path in ["/dbs", "/_armilla/dials", "/metrics"] {
        server.get(path).await.expect(401);
        server.send_as("", "GET", path, &[], "").await.expect(401);
    }
}

/// Neither credentials nor bodies of writes come into the log.
#[tokio::test]
async fn the_log_of_requests_keeps_no_secrets() {
    let server = Armilla::with_posts().await;
    let opened = sign_in(&server, &[], r#"{"auto":true}"#).await.expect(201);
    let session = session(&opened.text("token"));
    let key = [("x-ms-documentdb-partitionkey", r#"["p"]"#)];
    let body = r#"{"id":"a","postId":"p","secret":"hidden words"}"#;
    let docs = "/dbs/blog/colls/posts/docs";
    server.send_as(&session, "POST", docs, &key, body).await.expect(201);
    let path = "/dbs/blog/colls/posts/docs/a";
    server.send_as(&session, "GET", path, &key, "").await.expect(200);
    let signed = signed_with(armilla_gateway::auth::WELL_KNOWN_KEY, "GET", path);
    server.send_as(&signed, "GET", path, &key, "").await.expect(200);
    let log = server.get("/_armilla/requests").await.expect(200).body;
    assert!(log.matches("\"read\"").count() >= 2, "{log}");
    let token = opened.text("token");
    for secret in [token.as_str(), "sig%3d", "sig=", &signed, "hidden words", "authorization"] {
        assert!(!log.to_lowercase().contains(&secret.to_lowercase()), "{secret} in {log}");
    }
}
