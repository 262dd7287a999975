//! What the gateway itself costs per request, step by step, without sockets; then whole requests of the
//! two kinds that must stay quick, answered by an engine in memory.
//!
//! `cargo bench -p armilla-gateway` prints nanoseconds per call; compare runs on one machine only.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench prints and may stop")]

use armilla_engine::account::NewContainer;
use armilla_engine::{Account, Options};
use armilla_gateway::auth::{
    Access, Authenticator, MasterKeys, Presented, Principal, WELL_KNOWN_KEY, WellKnownKey,
};
use armilla_gateway::ops::EngineService;
use armilla_gateway::routes::{Route, Segments};
use armilla_gateway::{Call, Operation, Reply, RequestContext, Service, auth};
use armilla_model::json;
use armilla_model::lsn::Lsn;
use armilla_model::session_token::SessionToken;
use armilla_storage::MemoryStore;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

const NOW: u64 = 1_794_770_659;
const DATE: &str = "Sun, 15 Nov 2026 19:24:19 GMT";
const PATH: &str = "/dbs/blog/colls/posts/docs/post-123456";
const BATCHES: u32 = 400;
const BATCH: u32 = 500;

fn main() {
    let headers = headers();
    let (context, _) = RequestContext::read(&headers);
    let segments = Segments::parse(PATH).unwrap();
    let authenticator = Authenticator::new(MasterKeys::new(WellKnownKey::OnLoopback), &[1; 32]);
    let method = Method::GET;
    let presented =
        Presented { method: &method, segments: &segments, context: &context, locality: &Ok(()) };

    measure("path to operation", || {
        let segments = Segments::parse(black_box(PATH)).unwrap();
        let route = Route::find(&segments).unwrap();
        black_box(Operation::find(route, &method, context.intent).unwrap());
    });
    measure("headers to context", || {
        let _ = black_box(RequestContext::read(black_box(&headers)));
    });
    measure("credentials", || {
        black_box(authenticator.authenticate(black_box(&presented), NOW).unwrap());
    });
    measure("reply with its facts", || {
        let reply = Reply::ok(black_box("{}"))
            .charge(armilla_model::charge::RequestCharge::ONE)
            .position(SessionToken { range: 0, lsn: Lsn(12_345) })
            .etag("\"00004400-0000-0700-0000-655000000000\"")
            .owner("dbs/blog/colls/posts", "uQEAAIAAAAE=");
        black_box(reply.into_answer(b"an-id"));
    });
    whole_requests(&headers);
}

/// A point read and a small upsert, from the typed call to the reply.
fn whole_requests(headers: &HeaderMap) {
    let account = Account::open(
        Arc::new(MemoryStore::new()),
        Options { background: false, ..Options::default() },
    );
    let account = account.unwrap();
    account.create_database("blog", None).unwrap();
    let definition = br#"{"id":"posts","partitionKey":{"paths":["/postId"]}}"#;
    let definition = json::parse(definition).unwrap();
    let new = NewContainer { definition: &definition, throughput: None };
    account.create_container("blog", &new).unwrap();
    let keys = MasterKeys::new(WellKnownKey::OnLoopback);
    let service = EngineService::new(account, Arc::new(Authenticator::new(keys, &[1; 32])));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();

    // Neither the session nor the container of the recorded headers is this one's.
    let mut headers = headers.clone();
    headers.remove("x-ms-session-token");
    headers.remove("x-ms-cosmos-intended-collection-rid");
    let (context, _) = RequestContext::read(&headers);
    let principal = Principal::Account(Access::ReadWrite);
    let ask = |method: Method, path: &str, body: &'static str| {
        let segments = Segments::parse(path).unwrap();
        let route = Route::find(&segments).unwrap();
        let operation = Operation::find(route, &method, context.intent).unwrap();
        let body = bytes::Bytes::from_static(body.as_bytes());
        let call = Call { operation, context: &context, principal: &principal, body };
        let reply = runtime.block_on(service.call(call));
        assert!(reply.status().is_success() || reply.status() == 409, "{:?}", reply.status());
    };
    let item = r#"{"id":"post-123456","postId":"post-123456","title":"A title","likes":12,"tags":["a","b"]}"#;
    ask(Method::POST, "/dbs/blog/colls/posts/docs", item);
    measure("whole point read", || ask(Method::GET, PATH, ""));
    measure("whole small replace", || ask(Method::PUT, PATH, item));
}

/// The best of many short batches: other work on the machine lengthens some, not all.
fn measure(name: &str, mut call: impl FnMut()) {
    let best = (0..BATCHES).map(|_| {
        let started = Instant::now();
        for _ in 0..BATCH {
            call();
        }
        started.elapsed() / BATCH
    });
    println!("{name:<24} {:>6} ns", best.min().unwrap().as_nanos());
}

/// The headers of a point read by the Python SDK.
fn headers() -> HeaderMap {
    let segments = Segments::parse(PATH).unwrap();
    let text = auth::string_to_sign(&Method::GET, &segments, DATE);
    let key = STANDARD.decode(WELL_KNOWN_KEY).unwrap();
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &key);
    let signature = STANDARD.encode(ring::hmac::sign(&key, text.as_bytes()));
    let signature = signature.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
    let authorization = format!("type%3Dmaster%26ver%3D1.0%26sig%3D{signature}");
    let pairs = [
        ("host", "localhost:8081"),
        ("accept", "application/json"),
        ("user-agent", "azsdk-python-cosmos/4.17.1 Python/3.12"),
        ("cache-control", "no-cache"),
        ("accept-encoding", "gzip, deflate"),
        ("x-ms-version", "2020-07-15"),
        ("x-ms-documentdb-query-iscontinuationexpected", "False"),
        ("x-ms-consistency-level", "Session"),
        ("x-ms-documentdb-partitionkey", "[\"post-123456\"]"),
        ("x-ms-session-token", "0:-1#12345"),
        ("x-ms-cosmos-intended-collection-rid", "uQEAAIAAAAE="),
        ("x-ms-activity-id", "3f0c7d9e-8d5c-4f53-9f5d-0a1b2c3d4e5f"),
        ("x-ms-date", DATE),
        ("authorization", &authorization),
    ];
    let value = |text| HeaderValue::from_str(text).unwrap();
    pairs.into_iter().map(|(name, text)| (HeaderName::from_static(name), value(text))).collect()
}
