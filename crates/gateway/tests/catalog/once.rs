//! A request without HTTP: typed values in, named facts out, as any wire hands them over. And what such a
//! request computes, counted: its key is hashed once, its container found once, its body parsed once.

use armilla_engine::dials::{Dials, Throttling};
use armilla_engine::{Account, Options};
use armilla_gateway::activity::ActivityIds;
use armilla_gateway::auth::{Authenticator, MasterKeys, Signer, WELL_KNOWN_KEY, WellKnownKey};
use armilla_gateway::ops::EngineService;
use armilla_gateway::reply::{Answer, Session};
use armilla_gateway::routes::Segments;
use armilla_gateway::{Gateway, Request, RequestContext, Settings};
use armilla_model::clock::ManualClock;
use armilla_model::lsn::Lsn;
use armilla_model::session_token::SessionToken;
use armilla_model::tally::{self, Work};
use armilla_storage::MemoryStore;
use http::Method;
use std::sync::Arc;

const DATE: &str = "Sun, 15 Nov 2026 19:24:19 GMT";
const KEY: (&str, &str) = ("x-ms-documentdb-partitionkey", "[\"a\"]");
const SEEN: (&str, &str) = ("x-ms-session-token", "0:-1#1,7:-1#3");
const ITEMS: [&str; 5] = ["dbs", "blog", "colls", "posts", "docs"];
const POST: &str = r#"{"id":"1","postId":"a"}"#;

/// What is counted, in the order of the expectations.
const COUNTED: [Work; 6] = [
    Work::ContainerLookup,
    Work::KeyCheck,
    Work::KeyHash,
    Work::SessionList,
    Work::ItemParse,
    Work::SettingsLoad,
];

/// A gateway that no socket belongs to.
struct Bare(Gateway<EngineService>);

impl Bare {
    async fn with_posts(throttle: Throttling) -> Self {
        let clock = Arc::new(ManualClock::at_seconds(super::support::NOW));
        let dials = Dials { throttle, ..Dials::default() };
        let options =
            Options { clock: clock.clone(), background: false, dials, ..Options::default() };
        let account = Account::open(Arc::new(MemoryStore::new()), options).unwrap();
        let keys = MasterKeys::new(WellKnownKey::OnLoopback);
        let authenticator = Arc::new(Authenticator::new(keys, &[1; 32]));
        let bare = Self(Gateway {
            service: EngineService::new(account, authenticator.clone()),
            settings: Settings::default(),
            authenticator,
            clock,
            activity_ids: ActivityIds::new(1),
        });
        bare.ask(Method::POST, &["dbs"], &[], r#"{"id":"blog"}"#).await;
        let posts = r#"{"id":"posts","partitionKey":{"paths":["/postId"]}}"#;
        let made = bare.ask(Method::POST, &["dbs", "blog", "colls"], &[], posts).await;
        assert_eq!(made.status, 201);
        bare
    }

    async fn ask(
        &self,
        method: Method,
        path: &[&str],
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let signer = Signer::new(WELL_KNOWN_KEY).unwrap();
        let signature = signer.authorization(&method, &path.join("/"), DATE).unwrap();
        let segments = Segments::of(path.iter().map(|part| (*part).into())).unwrap();
        let mut context = RequestContext {
            authorization: Some(signature.as_bytes()),
            ms_date: Some(DATE.as_bytes()),
            ..RequestContext::default()
        };
        for (name, value) in headers {
            context.set(name, value.as_bytes()).unwrap();
        }
        let request = Request {
            method: &method,
            segments: &segments,
            context: &context,
            readable: Ok(()),
            locality: Ok(()),
            now_seconds: super::support::NOW,
            proved: None,
        };
        let reply = self.0.answer(request, body.to_owned().into(), b"an-id").await;
        reply.into_answer(b"an-id")
    }

    /// Asks twice, so that what is kept between requests is there, and counts the second time.
    async fn counted(
        &self,
        method: Method,
        item: Option<&str>,
        headers: &[(&str, &str)],
        bodies: [&str; 2],
        status: u16,
    ) -> [u64; COUNTED.len()] {
        let path: Vec<&str> = ITEMS.into_iter().chain(item).collect();
        self.ask(method.clone(), &path, headers, bodies[0]).await;
        let before = COUNTED.map(tally::read);
        let answer = self.ask(method, &path, headers, bodies[1]).await;
        assert_eq!(answer.status, status, "{answer:?}");
        let after = COUNTED.map(tally::read);
        std::array::from_fn(|at| after[at] - before[at])
    }
}

#[tokio::test]
async fn a_wire_needs_no_http() {
    let bare = Bare::with_posts(Throttling::Off).await;
    let made = bare.ask(Method::POST, &ITEMS, &[KEY], POST).await;
    assert_eq!((made.status.as_u16(), made.facts.range, made.facts.lsn), (201, Some(0), Some(1)));
    assert_eq!(made.facts.session, Session::One(SessionToken { range: 0, lsn: Lsn(1) }));
    let path = ["dbs", "blog", "colls", "posts", "docs", "1"];
    let read = bare.ask(Method::GET, &path, &[KEY], "").await;
    assert_eq!((read.status.as_u16(), &read.body), (200, &made.body));
    assert_eq!((read.facts.etag, read.facts.item_lsn), (made.facts.etag, Some(1)));
    let owner = read.facts.owner.unwrap();
    assert_eq!(&*owner.path, "dbs/blog/colls/posts");
    assert_eq!(read.facts.usage.unwrap().items, 1);

    let missing = ["dbs", "blog", "colls", "posts", "docs", "ü x+y"];
    let missing = bare.ask(Method::GET, &missing, &[KEY], "").await;
    assert_eq!((missing.status.as_u16(), missing.facts.substatus), (404, Some(0)));
    assert!(String::from_utf8_lossy(&missing.body).contains("ActivityId: an-id"));

    let query = [KEY, ("x-ms-documentdb-isquery", "true")];
    let found = bare.ask(Method::POST, &ITEMS, &query, r#"{"query":"SELECT * FROM c"}"#).await;
    assert_eq!((found.status.as_u16(), found.facts.item_count), (200, Some(1)));
    let nowhere = bare.ask(Method::GET, &["nowhere"], &[], "").await;
    assert_eq!(nowhere.status, 404);
}

#[tokio::test]
async fn a_point_read_computes_its_address_once() {
    for throttle in [Throttling::Off, Throttling::Report] {
        let bare = Bare::with_posts(throttle).await;
        bare.ask(Method::POST, &ITEMS, &[KEY], POST).await;
        let read = bare.counted(Method::GET, Some("1"), &[KEY, SEEN], ["", ""], 200).await;
        assert_eq!(read, [1, 1, 1, 1, 0, 1]);
        let missing = bare.counted(Method::GET, Some("2"), &[KEY, SEEN], ["", ""], 404).await;
        assert_eq!(missing, [1, 1, 1, 1, 0, 1]);
    }
}

/// Settings are loaded once more under the sequencer, where those of that moment are wanted.
#[tokio::test]
async fn a_write_computes_its_address_and_parses_its_body_once() {
    let other = r#"{"id":"2","postId":"a","n":1}"#;
    for throttle in [Throttling::Off, Throttling::Report] {
        let bare = Bare::with_posts(throttle).await;
        let created = bare.counted(Method::POST, None, &[KEY, SEEN], [POST, other], 201).await;
        assert_eq!(created, [1, 1, 1, 1, 1, 2]);
        let replaced = bare.counted(Method::PUT, Some("2"), &[KEY], [other, other], 200).await;
        assert_eq!(replaced, [1, 1, 1, 0, 1, 2]);

        let bare = Bare::with_posts(throttle).await;
        let keyless = bare.counted(Method::POST, None, &[], [POST, other], 201).await;
        assert_eq!(keyless, [1, 1, 1, 0, 1, 2]);
        let upsert = [("x-ms-documentdb-is-upsert", "true")];
        let upserted = bare.counted(Method::POST, None, &upsert, [other, other], 200).await;
        assert_eq!(upserted, [1, 1, 1, 0, 1, 2]);
    }
}
