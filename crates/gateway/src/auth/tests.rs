//! Credentials of every kind, good and bad, and the recorded signatures.

use super::*;
use crate::routes::{Intent, Route};
use armilla_model::{Value, json};
use http::{HeaderMap, HeaderValue};

const VECTORS: &str = include_str!("../../tests/vectors/auth.json");
/// `Sun, 15 Nov 2026 19:24:19 GMT`.
const NOW: u64 = 1_794_770_659;
const SECRET: &[u8; 32] = &[7; 32];
const DATE: &str = "Sun, 15 Nov 2026 19:24:19 GMT";

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap()
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let value = |text| HeaderValue::from_str(text).unwrap();
    pairs.iter().map(|(name, text)| (http::HeaderName::from_static(name), value(text))).collect()
}

struct Attempt<'a> {
    authenticator: &'a Authenticator,
    method: Method,
    path: &'a str,
    headers: HeaderMap,
    locality: Result<(), Stranger>,
    now: u64,
}

impl Attempt<'_> {
    fn run(&self) -> Result<Principal, Denied> {
        let segments = Segments::parse(self.path).unwrap();
        let (context, outcome) = RequestContext::read(&self.headers);
        outcome.unwrap();
        let presented = Presented {
            method: &self.method,
            segments: &segments,
            context: &context,
            locality: &self.locality,
        };
        self.authenticator.authenticate(&presented, self.now)
    }
}

fn well_known() -> Authenticator {
    Authenticator::new(MasterKeys::new(WellKnownKey::OnLoopback), SECRET)
        .accepting_development_tokens(DevelopmentTokens::Local)
}

fn attempt<'a>(authenticator: &'a Authenticator, authorization: &str) -> Attempt<'a> {
    Attempt {
        authenticator,
        method: Method::GET,
        path: "/dbs",
        headers: headers(&[("authorization", authorization), ("x-ms-date", DATE)]),
        locality: Ok(()),
        now: NOW,
    }
}

/// The signature of `GET /dbs` at [`DATE`] with the published key.
const GET_DBS: &str =
    "type%3Dmaster%26ver%3D1.0%26sig%3Dskcmj3NWHoSrvWCgipJgryhAShN6TVI%2BgPNgaPKttK4%3D";

#[test]
fn recorded_signatures_are_accepted() {
    let document = json::parse(VECTORS.as_bytes()).unwrap();
    let authenticator = well_known();
    let vectors = document.get("vectors").unwrap().as_array().unwrap();
    assert_eq!(vectors.len(), 24);
    for vector in vectors {
        let path = text(vector, "path");
        let method = Method::from_bytes(text(vector, "method").as_bytes()).unwrap();
        let segments = Segments::parse(path).unwrap();
        assert_eq!(
            string_to_sign(&method, &segments, DATE),
            text(vector, "stringToSign"),
            "{path}"
        );
        let raw = format!("type=master&ver=1.0&sig={}", text(vector, "sig"));
        for authorization in [text(vector, "authorization"), &raw] {
            let mut attempt = attempt(&authenticator, authorization);
            attempt.method = method.clone();
            attempt.path = path;
            let principal = attempt.run().unwrap_or_else(|denied| panic!("{path}: {denied:?}"));
            assert!(matches!(principal, Principal::Account(Access::ReadWrite)));
            attempt.method = Method::OPTIONS;
            assert!(attempt.run().is_err(), "{path} signed for another method");
        }
    }
}

#[test]
fn mismatch_shows_the_text_to_sign() {
    let authenticator = well_known();
    let mut attempt = attempt(&authenticator, GET_DBS);
    attempt.path = "/dbs/Blog";
    let denied = attempt.run().unwrap_err();
    assert!(matches!(denied.error, Error::Unauthorized(_)));
    let expected = r"'get\ndbs\ndbs/Blog\nsun, 15 nov 2026 19:24:19 gmt\n\n'";
    assert!(denied.error.message().contains(expected), "{}", denied.error);
}

#[test]
fn missing_parts_are_refused() {
    let authenticator = well_known();
    let mut attempt = attempt(&authenticator, GET_DBS);
    attempt.headers.remove("x-ms-date");
    assert!(matches!(attempt.run().unwrap_err().error, Error::Unauthorized(_)));
    attempt.headers.remove("authorization");
    assert!(matches!(attempt.run().unwrap_err().error, Error::Unauthorized(_)));
}

#[test]
fn dates_beyond_the_skew_are_forbidden() {
    let authenticator = well_known();
    let mut attempt = attempt(&authenticator, GET_DBS);
    for now in [NOW - CLOCK_SKEW_MAX_SECONDS, NOW + CLOCK_SKEW_MAX_SECONDS] {
        attempt.now = now;
        attempt.run().unwrap();
    }
    for now in [NOW - CLOCK_SKEW_MAX_SECONDS - 1, NOW + CLOCK_SKEW_MAX_SECONDS + 1] {
        attempt.now = now;
        let denied = attempt.run().unwrap_err();
        assert!(matches!(denied.error, Error::Forbidden(_)));
        assert!(denied.error.message().contains(DATE), "both times are named");
        assert!(denied.error.message().contains("Server time: Sun, 15 Nov 2026"));
    }
}

#[test]
fn date_header_is_signed_when_it_stands_alone() {
    let segments = Segments::parse("/dbs").unwrap();
    let mut message = Vec::new();
    let date = SigningDate { text: DATE, is_ms_date: false };
    signed::write(&Method::GET, &segments, date, signed::LinkForm::Names, &mut message);
    assert_eq!(message, b"get\ndbs\n\n\nsun, 15 nov 2026 19:24:19 gmt\n");
    assert_eq!(parse_http_date("sun, 15 nov 2026 19:24:19 gmt"), Some(NOW));
}

#[test]
fn published_key_stays_at_home() {
    let authenticator = well_known();
    let mut attempt = attempt(&authenticator, GET_DBS);
    for stranger in [
        Stranger::OtherMachine,
        Stranger::Forwarded,
        Stranger::ForeignHost("evil.example".to_owned()),
        Stranger::ForeignOrigin("https://evil.example".to_owned()),
    ] {
        attempt.locality = Err(stranger.clone());
        let denied = attempt.run().unwrap_err();
        assert!(matches!(denied.error, Error::Unauthorized(_)));
        assert!(denied.error.message().contains(&stranger.to_string()), "{}", denied.error);
    }
    let everywhere = Authenticator::new(MasterKeys::new(WellKnownKey::Everywhere), SECRET);
    attempt.authenticator = &everywhere;
    attempt.run().unwrap();
    let nowhere = Authenticator::new(MasterKeys::new(WellKnownKey::Nowhere), SECRET);
    attempt.authenticator = &nowhere;
    attempt.locality = Ok(());
    assert!(attempt.run().is_err());
}

#[test]
fn read_only_keys_read() {
    let mut keys = MasterKeys::new(WellKnownKey::Nowhere);
    keys.add(&format!("{}==", "A".repeat(86)), Access::ReadWrite).unwrap();
    keys.add(WELL_KNOWN_KEY, Access::ReadOnly).unwrap();
    let authenticator = Authenticator::new(keys, SECRET);
    let principal = attempt(&authenticator, GET_DBS).run().unwrap();
    let context = RequestContext::default();
    principal.check(&Operation::ListDatabases, &context, &Blog).unwrap();
    let refused = principal.check(&Operation::CreateDatabase, &context, &Blog).unwrap_err();
    assert!(matches!(refused.error, Error::Forbidden(_)));
    assert!(authenticator.knows_key(WELL_KNOWN_KEY), "it was added by name");
    assert!(!authenticator.knows_key("") && !well_known().knows_key(WELL_KNOWN_KEY));
}

/// A catalog with the container `blog/posts` and one permission.
struct Blog;

impl Standing for Blog {
    fn container_rid(&self, path: crate::routes::ContainerPath<'_>) -> Option<String> {
        let database = matches!(path.database, "blog" | "uQEAAA==");
        let posts = matches!(path.container, "posts" | "uQEAAIAAAAE=");
        (database && posts).then(|| "uQEAAIAAAAE=".to_owned())
    }

    fn permission_stands(&self, permission: &PermissionId) -> bool {
        permission.etag == "\"1\""
    }
}

fn grant() -> Grant {
    Grant {
        issued_for: PermissionId {
            database: "blog".into(),
            user: "mary".into(),
            permission: "p".into(),
            rid: "uQEAAAEAAAAAAAAAAAAAAQ==".into(),
            etag: "\"1\"".into(),
        },
        container_rid: "uQEAAIAAAAE=".into(),
        leaf: None,
        mode: PermissionMode::Read,
        partition_key: None,
        expires_at: NOW + 60,
    }
}

fn key(text: &str) -> Option<armilla_model::partition_key::PartitionKey> {
    Some(armilla_model::partition_key::PartitionKey::parse(text).unwrap())
}

/// Checks a path, method and key header against a grant that has gone through a token.
fn allows(grant: &Grant, method: &Method, path: &str, key: Option<&str>) -> bool {
    let authenticator = well_known();
    let token = authenticator.issue_token(grant);
    let Principal::Resource(opened) = attempt(&authenticator, &token).run().unwrap() else {
        panic!("a resource token makes a resource principal");
    };
    assert_eq!(&*opened, grant);
    let map =
        key.map_or_else(HeaderMap::new, |key| headers(&[("x-ms-documentdb-partitionkey", key)]));
    let (context, _) = RequestContext::read(&map);
    let segments = Segments::parse(path).unwrap();
    let route = Route::find(&segments).unwrap();
    let operation = Operation::find(route, method, Intent::default()).unwrap();
    opened.check(&operation, &context, &Blog).is_ok()
}

#[test]
fn read_token_reads_its_container_by_name_and_rid() {
    let grant = grant();
    for path in [
        "/dbs/blog/colls/posts",
        "/dbs/blog/colls/posts/pkranges",
        "/dbs/blog/colls/posts/docs",
        "/dbs/blog/colls/posts/docs/1",
        "/dbs/uQEAAA==/colls/uQEAAIAAAAE=/docs/1",
        "/dbs/blog/colls/uQEAAIAAAAE=/docs/1",
    ] {
        assert!(allows(&grant, &Method::GET, path, None), "{path}");
    }
    for path in ["/dbs/blog", "/dbs/blog/colls/users", "/dbs/other/colls/posts/docs/1", "/offers"] {
        assert!(!allows(&grant, &Method::GET, path, None), "{path}");
    }
    assert!(!allows(&grant, &Method::DELETE, "/dbs/blog/colls/posts/docs/1", None));
    let all = Grant { mode: PermissionMode::All, ..grant };
    assert!(allows(&all, &Method::DELETE, "/dbs/blog/colls/posts/docs/1", None));
    assert!(allows(&all, &Method::DELETE, "/dbs/blog/colls/posts", None));
}

#[test]
fn item_token_reads_one_item_and_the_metadata() {
    let leaf =
        Leaf { kind: "docs".into(), name: "1".into(), rid: "uQEAAIAAAAEBAAAAAAAAAA==".into() };
    let grant = Grant { leaf: Some(leaf), ..grant() };
    assert!(allows(&grant, &Method::GET, "/dbs/blog/colls/posts/docs/1", None));
    assert!(allows(&grant, &Method::GET, "/dbs/blog/colls/posts", None));
    assert!(!allows(&grant, &Method::GET, "/dbs/blog/colls/posts/docs/2", None));
    assert!(!allows(&grant, &Method::GET, "/dbs/blog/colls/posts/docs", None));
}

#[test]
fn key_token_is_held_to_its_key() {
    let grant = Grant { partition_key: key("[\"t1\"]"), ..grant() };
    let item = "/dbs/blog/colls/posts/docs/1";
    assert!(allows(&grant, &Method::GET, item, Some("[\"t1\"]")));
    assert!(allows(&grant, &Method::GET, item, Some("[\"t1\",\"u1\"]")));
    for other in ["[\"t2\"]", "[]", "[{}]", "[null]", "[\"t2\",\"t1\"]"] {
        assert!(!allows(&grant, &Method::GET, item, Some(other)), "{other}");
    }
    assert!(!allows(&grant, &Method::GET, item, None));
    assert!(allows(&grant, &Method::GET, "/dbs/blog/colls/posts", None));
}

#[test]
fn key_token_is_for_items_alone() {
    let grant = Grant { partition_key: key("[\"t1\"]"), mode: PermissionMode::All, ..grant() };
    let container = "/dbs/blog/colls/posts";
    let allowed = |method, path: &str| {
        allows(&grant, &method, &format!("{container}{path}"), Some("[\"t1\"]"))
    };
    assert!(allowed(Method::POST, "/docs") && allowed(Method::DELETE, "/docs/1"));
    assert!(allowed(Method::POST, "/sprocs/s"));
    for (method, path) in [
        (Method::DELETE, ""),
        (Method::PUT, ""),
        (Method::POST, "/sprocs"),
        (Method::GET, "/sprocs"),
        (Method::GET, "/sprocs/s"),
        (Method::PUT, "/triggers/t"),
        (Method::DELETE, "/udfs/f"),
        (Method::GET, "/conflicts"),
    ] {
        assert!(!allowed(method.clone(), path), "{method} {path}");
    }
}

#[test]
fn tokens_without_a_key_or_container_grant_nothing() {
    let item = "/dbs/blog/colls/posts/docs/1";
    let empty = Grant { partition_key: key("[]"), ..grant() };
    for header in [None, Some("[]"), Some("[\"t1\"]")] {
        assert!(!allows(&empty, &Method::GET, item, header), "{header:?}");
    }
    let nowhere = Grant { container_rid: String::new(), ..grant() };
    assert!(!allows(&nowhere, &Method::GET, item, None));
    assert!(!allows(&nowhere, &Method::GET, "/dbs/other/colls/posts/docs/1", None));
    let recreated = Grant { container_rid: "uQEAAIAAAAA=".into(), ..grant() };
    assert!(!allows(&recreated, &Method::GET, item, None));
}

#[test]
fn a_changed_permission_ends_its_tokens() {
    let authenticator = well_known();
    let principal =
        |grant: &Grant| attempt(&authenticator, &authenticator.issue_token(grant)).run().unwrap();
    principal(&grant()).check_standing(&Blog).unwrap();
    let mut old = grant();
    old.issued_for.etag = "\"0\"".into();
    let refused = principal(&old).check_standing(&Blog).unwrap_err();
    assert!(matches!(refused, Error::Forbidden(_)));
}

#[test]
fn expired_and_forged_tokens_are_refused() {
    let authenticator = well_known();
    let token = authenticator.issue_token(&grant());
    let mut late = attempt(&authenticator, &token);
    late.now = NOW + 60;
    assert!(matches!(late.run().unwrap_err().error, Error::Forbidden(_)));
    let other = Authenticator::new(MasterKeys::new(WellKnownKey::OnLoopback), &[8; 32]);
    assert!(matches!(attempt(&other, &token).run().unwrap_err().error, Error::Unauthorized(_)));
    for forged in ["type=resource&ver=1.0&sig=;;", "type=resource&ver=1.0&sig=x"] {
        assert!(attempt(&authenticator, forged).run().is_err());
    }
}

#[test]
fn directory_tokens_are_judged_by_their_time() {
    let authenticator = well_known();
    let token = |claims: &str| {
        use base64::Engine as _;
        let part = |text: &str| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text);
        format!("type=aad&ver=1.0&sig={}.{}.x", part("{\"alg\":\"none\"}"), part(claims))
    };
    let good = token(&format!("{{\"exp\":{},\"nbf\":{NOW}}}", NOW + 10));
    let principal = attempt(&authenticator, &good).run().unwrap();
    assert!(matches!(principal, Principal::Directory(Access::ReadWrite)));
    let old = token(&format!("{{\"exp\":{NOW}}}"));
    assert_eq!(attempt(&authenticator, &old).run().unwrap_err().substatus, Some(5006));
    let early = token(&format!("{{\"nbf\":{}}}", NOW + 3600));
    assert!(attempt(&authenticator, &early).run().is_err());
    assert!(attempt(&authenticator, "type=aad&ver=1.0&sig=a.b").run().is_err());
    let strict = Authenticator::new(MasterKeys::new(WellKnownKey::OnLoopback), SECRET);
    assert!(attempt(&strict, &good).run().is_err());
}

#[test]
fn unsigned_directory_tokens_stay_at_home_unless_somebody_says_otherwise() {
    let unsigned = "type=aad&ver=1.0&sig=eyJhbGciOiJub25lIn0.e30.";
    let with = |accepted| {
        let mut keys = MasterKeys::new(WellKnownKey::Nowhere);
        keys.add(WELL_KNOWN_KEY, Access::ReadWrite).unwrap();
        Authenticator::new(keys, SECRET).accepting_development_tokens(accepted)
    };
    let run = |authenticator: &Authenticator, locality| {
        Attempt { locality, ..attempt(authenticator, unsigned) }.run()
    };
    let foreign = || Err(Stranger::ForeignOrigin("https://evil.example".to_owned()));
    let local = with(DevelopmentTokens::Local);
    assert!(run(&local, Ok(())).is_ok());
    let denied = run(&local, foreign()).unwrap_err();
    assert!(denied.error.message().contains("https://evil.example"), "{}", denied.error);
    assert!(run(&local, Err(Stranger::Forwarded)).is_err());
    let refused = with(DevelopmentTokens::Refused);
    assert!(run(&refused, Ok(())).unwrap_err().error.message().contains("--entra-issuer"));
    assert!(run(&with(DevelopmentTokens::Everywhere), foreign()).is_ok());
    let checked =
        with(DevelopmentTokens::Refused).with_entra(Arc::new(Entra::new(EntraSettings::default())));
    assert!(run(&checked, Ok(())).is_err(), "a directory of its own takes no unsigned ones");
}
