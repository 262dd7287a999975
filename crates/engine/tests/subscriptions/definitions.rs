//! What definitions may say.

use super::{Receiver, bench, subscribe, value};
use armilla_engine::subscriptions::definition::{Definition, Secret};
use armilla_engine::subscriptions::queue::DeliveryOutcome;
use armilla_model::Value;

const HOOK: &str = r#""target":{"kind":"webhook","url":"https://hooks.example/a","secret":"s3","headers":{"x-team":"shop"}}"#;

fn parse(members: &str) -> armilla_model::Result<Definition> {
    Definition::parse(&value(&format!(r#"{{"id":"s",{HOOK}{members}}}"#)), None)
}

#[test]
fn defaults_are_spelled_out_and_read_back() {
    let definition = parse("").unwrap();
    let shown = Value::object(definition.members(Secret::Hidden)).to_json();
    assert_eq!(
        shown,
        concat!(
            r#"{"enabled":true,"feed":{"mode":"latest","start":"now"},"#,
            r#""target":{"kind":"webhook","url":"https://hooks.example/a","headers":{"x-team":"shop"},"secret":null,"timeoutSeconds":30},"#,
            r#""batch":{"maxItems":100,"maxBytes":1048576,"maxWaitMs":0},"ordering":"partitionKey","parallel":4,"#,
            r#""retry":{"maxAttempts":12,"minDelayMs":500,"maxDelayMs":60000,"maxAgeSeconds":86400,"halve":true},"#,
            r#""onExhausted":"stop","skipOwnWrites":true}"#
        )
    );
    assert!(!format!("{definition:?}").contains("s3"), "secrets are not printed");
    let stored = Value::object(definition.members(Secret::Shown));
    let read = Definition::parse(&stored, None).unwrap();
    assert_eq!(Value::object(read.members(Secret::Shown)).to_json(), stored.to_json());
    let kept = Definition::parse(&value(&shown), Some(&definition)).unwrap();
    assert_eq!(kept.webhook().unwrap().secret.as_deref(), Some("s3"), "a secret left out stays");
    let removed = shown.replace("\"secret\":null", "\"secret\":\"\"");
    let removed = Definition::parse(&value(&removed), Some(&definition)).unwrap();
    assert!(removed.webhook().unwrap().secret.is_none());
}

#[test]
fn nonsense_is_refused_with_its_name() {
    for (members, named) in [
        (r#","retyr":{}"#, "retyr"),
        (r#","retry":{"maxAttempt":3}"#, "maxAttempt"),
        (r#","retry":{"maxAttempts":0}"#, "maxAttempts"),
        (r#","retry":{"minDelayMs":9,"maxDelayMs":8}"#, "maxDelayMs"),
        (r#","batch":{"maxItems":1001}"#, "maxItems"),
        (r#","batch":{"maxBytes":4000000}"#, "maxBytes"),
        (r#","batch":{"maxWaitMs":60001}"#, "maxWaitMs"),
        (r#","parallel":17"#, "parallel"),
        (r#","ordering":"range","parallel":2"#, "parallel"),
        (r#","ordering":"some""#, "ordering"),
        (r#","feed":{"mode":"oldest"}"#, "feed.mode"),
        (r#","feed":{"start":"yesterday"}"#, "start"),
        (r#","feed":{"start":{"time":"noon"}}"#, "start"),
        (r#","filter":{"operations":["delete"]}"#, "operations"),
        (r#","filter":{"where":"c.a = "}"#, ""),
        (r#","filter":{"where":"c.a ORDER BY c.b"}"#, "filter.where"),
        (r#","filter":{"where":"EXISTS(SELECT VALUE 1 FROM t IN c.a)"}"#, "sub-queries"),
        (r#","filter":{"where":"udf.f(c.a)"}"#, "filter.where"),
        (r#","filter":{"where":"c.at < GetCurrentTimestamp()"}"#, "filter.where"),
        (r#","filter":{"where":"previous.a = 1"}"#, ""),
        (r#","filter":{"where":"r.c = 1"}"#, "'r'"),
        (r#","project":"SELECT c.a FROM c WHERE c.b""#, "project"),
        (r#","project":"SELECT TOP 1 c.a FROM c""#, "project"),
        (r#","project":"SELECT t FROM t IN c.a""#, "project"),
        (r#","onExhausted":"deadLetter""#, "deadLetter"),
        (r#","onExhausted":"cry""#, "onExhausted"),
        (r#","deadLetter":{}"#, "deadLetter"),
        (r#","skipOwnWrites":1"#, "skipOwnWrites"),
    ] {
        let error = parse(members).expect_err(members).to_string();
        assert!(error.contains(named), "{members}: {error}");
    }
    for target in [
        r#""target":{"kind":"view","container":"v"}"#,
        r#""target":{"kind":"mail"}"#,
        r#""enabled":true"#,
    ] {
        assert!(Definition::parse(&value(&format!("{{{target}}}")), None).is_err(), "{target}");
    }
    let endless = parse(r#","retry":{"maxAttempts":-1,"maxAgeSeconds":-1}"#).unwrap();
    assert_eq!((endless.retry.attempts_max, endless.retry.age_max), (None, None));
    assert!(parse(r#","feed":{"start":{"time":"2026-01-01T00:00:00Z"}}"#).is_ok());
}

#[test]
fn what_a_definition_names_must_be_there() {
    let bench = bench();
    let create = |body: &str| bench.account.create_subscription(&bench.container, &value(body));
    let hook = r#"{"id":"s","target":{"kind":"webhook","url":"https://a"}}"#;
    let error = create(hook).err().unwrap().to_string();
    assert!(error.contains("--webhooks"), "{error}");
    bench.account.set_courier(Box::new(Receiver::new(|_| DeliveryOutcome::Done)));
    for (body, named) in [
        (r#"{"target":{"kind":"sproc","id":"p"}}"#, "'id'"),
        (r#"{"id":"s","target":{"kind":"sproc","id":"p"}}"#, "'p'"),
        (r#"{"id":"s","target":{"kind":"webhook","url":"http://a"}}"#, "https"),
        (
            r#"{"id":"s","target":{"kind":"webhook","url":"https://a"},"deadLetter":{"container":"x"}}"#,
            "'x'",
        ),
        (
            r#"{"id":"s","target":{"kind":"webhook","url":"https://a"},"deadLetter":{"container":"c"}}"#,
            "itself",
        ),
        (
            r#"{"id":"s","target":{"kind":"webhook","url":"https://a"},"feed":{"mode":"allVersionsAndDeletes"}}"#,
            "changeFeedPolicy",
        ),
    ] {
        let error = create(body).err().unwrap().to_string();
        assert!(error.contains(named), "{body}: {error}");
    }
    let subscription = subscribe(&bench, hook);
    assert!(create(hook).is_err(), "the name is taken");
    let (account, container) = (&bench.account, &bench.container);
    let stale = Some("\"00000000-0000-0000-0000-000000000000\"");
    assert!(account.replace_subscription(container, "s", &value(hook), stale).is_err());
    assert!(account.delete_subscription(container, "s", stale).is_err());
    let etag = subscription.version().etag.to_string();
    account.replace_subscription(container, "s", &value(hook), Some(&etag)).unwrap();
    account.delete_subscription(container, "s", None).unwrap();
    assert!(container.subscription("s").is_err());
    for number in 0..25 {
        subscribe(&bench, &hook.replace("\"s\"", &format!("\"s{number}\"")));
    }
    assert!(create(hook).err().unwrap().to_string().contains("25"));
}
