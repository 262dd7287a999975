//! Scripts at work: procedures by name, triggers by header.

use crate::support::{Armilla, UPSERT};
use armilla_model::{Value, json};

const POSTS: &str = "/dbs/blog/colls/posts";
const KEY: (&str, &str) = ("x-ms-documentdb-partitionkey", "[\"p\"]");
const LOGGING: (&str, &str) = ("x-ms-documentdb-script-enable-logging", "True");
const LOG: &str = "x-ms-documentdb-script-log-results";

async fn register(armilla: &Armilla, kind: &str, id: &str, body: &str, more: &str) {
    let body = Value::from(body).to_json();
    let script = format!(r#"{{"id":"{id}","body":{body}{more}}}"#);
    armilla.post(&format!("{POSTS}/{kind}"), &script).await.expect(201);
}

async fn with_procedure(body: &str) -> Armilla {
    let armilla = Armilla::with_posts().await;
    register(&armilla, "sprocs", "run", body, "").await;
    armilla
}

#[tokio::test]
async fn arguments_go_in_and_json_comes_out() {
    let armilla = with_procedure(
        "function () { getContext().getResponse().setBody([].slice.call(arguments)); }",
    )
    .await;
    let run = format!("{POSTS}/sprocs/run");
    for (body, wanted) in [
        ("", "[]"),
        ("null", "[]"),
        ("[]", "[]"),
        ("[1,\"a\",{\"x\":null}]", "[1,\"a\",{\"x\":null}]"),
        // As `apply` takes them.
        ("{\"x\":1}", "[]"),
        ("{\"0\":\"one\",\"1\":\"two\",\"length\":2}", "[\"one\",\"two\"]"),
    ] {
        let answer = armilla.send("POST", &run, &[KEY], body).await.expect(200);
        assert_eq!(answer.body, wanted, "{body}");
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(answer.header(LOG), None);
        assert_eq!(answer.header("x-ms-request-charge"), Some("0.25"));
    }
    for body in ["[1", "\"abc\"", "5"] {
        armilla.send("POST", &run, &[KEY], body).await.refused(400, 0);
    }
    armilla.send("POST", &run, &[], "[]").await.refused(400, 1001);
    armilla.send("POST", &format!("{POSTS}/sprocs/none"), &[KEY], "").await.refused(404, 0);
    let silent = with_procedure("function () { }").await;
    assert_eq!(silent.send("POST", &run, &[KEY], "").await.expect(200).body, "\"\"");
}

#[tokio::test]
async fn writes_are_committed_and_told_by_the_session_token() {
    let armilla = with_procedure(
        "function (id, fail) { var c = getContext().getCollection(); \
         c.createDocument(c.getSelfLink(), { id: id, postId: 'p' }, function (e) { if (e) throw e; \
         if (fail) throw new Error(4711, 'no'); }); console.log('made ' + id + ', 100%'); }",
    )
    .await;
    let run = format!("{POSTS}/sprocs/run");
    let answer = armilla.send("POST", &run, &[KEY, LOGGING], "[\"ä\"]").await.expect(200);
    assert_eq!(answer.header(LOG), Some("made%20%C3%A4%2C%20100%25"));
    assert_eq!(answer.header("x-ms-session-token"), Some("0:-1#1"));
    armilla.send("GET", &format!("{POSTS}/docs/%C3%A4"), &[KEY], "").await.expect(200);
    let failed =
        armilla.send("POST", &run, &[KEY, LOGGING], "[\"b\",true]").await.refused(400, 4711);
    assert_eq!(failed.header(LOG), Some("made%20b%2C%20100%25"));
    let message = failed.text("message");
    assert!(
        message.starts_with(
            "{\"Errors\":[\"Encountered exception while executing function. Exception = Error: no"
        ),
        "{message}"
    );
    armilla.send("GET", &format!("{POSTS}/docs/b"), &[KEY], "").await.refused(404, 0);
    let twice = armilla.send("POST", &run, &[KEY], "[\"ä\"]").await.refused(400, 409);
    assert!(twice.text("message").contains("already exists"));
}

#[tokio::test]
async fn triggers_run_when_named() {
    let armilla = Armilla::with_posts().await;
    let stamp = "function () { var r = getContext().getRequest(), b = r.getBody(); b.stamp = r.getOperationType(); r.setBody(b); }";
    let note = "function () { var r = getContext().getResponse(), b = r.getBody(); b.note = 'seen'; r.setBody(b); }";
    register(
        &armilla,
        "triggers",
        "stamp",
        stamp,
        r#","triggerType":"Pre","triggerOperation":"All""#,
    )
    .await;
    register(
        &armilla,
        "triggers",
        "note",
        note,
        r#","triggerType":"Post","triggerOperation":"Create""#,
    )
    .await;
    register(
        &armilla,
        "triggers",
        "no",
        "function () { throw new Error(4444, 'no'); }",
        r#","triggerType":"Post","triggerOperation":"All""#,
    )
    .await;
    let docs = format!("{POSTS}/docs");
    let one = format!("{POSTS}/docs/a");
    let pre = |name| ("x-ms-documentdb-pre-trigger-include", name);
    let post = |name| ("x-ms-documentdb-post-trigger-include", name);
    let body = r#"{"id":"a","postId":"p"}"#;

    for headers in
        [[KEY, pre("none")], [KEY, pre("note")], [KEY, post("stamp")], [KEY, pre("stamp,stamp")]]
    {
        armilla.send("POST", &docs, &headers, body).await.refused(400, 0);
    }
    armilla.send("POST", &docs, &[KEY, pre("stamp"), post("no")], body).await.refused(400, 4444);
    armilla.send("GET", &one, &[KEY], "").await.refused(404, 0);

    let created =
        armilla.send("POST", &docs, &[KEY, pre("stamp"), post("note")], body).await.expect(201);
    assert_eq!(
        (created.text("stamp"), created.text("note")),
        ("Create".to_owned(), "seen".to_owned())
    );
    let stored = armilla.send("GET", &one, &[KEY], "").await.expect(200);
    assert_eq!(stored.header("etag"), created.header("etag"));
    assert!(stored.json().get("note").is_none());
    let upserted =
        armilla.send("POST", &docs, &[KEY, UPSERT, pre("stamp")], body).await.expect(200);
    assert_eq!(upserted.text("stamp"), "Upsert");
    armilla.send("POST", &docs, &[KEY, UPSERT, post("note")], body).await.refused(400, 0);
    let replaced = armilla.send("PUT", &one, &[KEY, pre("stamp")], body).await.expect(200);
    assert_eq!(replaced.text("stamp"), "Replace");
    armilla.send("DELETE", &one, &[KEY, pre("stamp"), post("no")], "").await.refused(400, 4444);
    armilla.send("DELETE", &one, &[KEY, pre("stamp")], "").await.expect(204);
    armilla.send("DELETE", &one, &[KEY, pre("stamp")], "").await.refused(404, 0);
}

const FOR_EACH: (&str, &str) = ("x-armilla-for-each-partition", "true");

/// Ten posts with two items each; the procedure marks what it sees and fails for one post.
async fn with_ten_posts() -> Armilla {
    let armilla = with_procedure(
        "function (mark, bad) { var c = getContext().getCollection(); \
         c.readDocuments(c.getSelfLink(), function (e, items) { if (e) throw e; \
           if (items[0].postId === bad) throw new Error(4711, 'not this one'); \
           items.forEach(function (i) { i[mark] = (i[mark] || 0) + 1; c.replaceDocument(i._self, i); }); \
           getContext().getResponse().setBody(items.length); }); }",
    )
    .await;
    for post in 0..10 {
        for item in ["post", "comment"] {
            let body = format!(r#"{{"id":"{item}","postId":"p{post}","user":{}}}"#, post % 2);
            armilla.post(&format!("{POSTS}/docs"), &body).await.expect(201);
        }
    }
    armilla
}

#[tokio::test]
async fn a_procedure_runs_once_in_each_partition_that_a_query_finds() {
    let armilla = with_ten_posts().await;
    let run = format!("{POSTS}/sprocs/run");
    let body = r#"{"query":"SELECT * FROM c WHERE c.user = @u","parameters":[{"name":"@u","value":1}],
        "arguments":["seen","p3"]}"#;
    let size = ("x-ms-max-item-count", "3");
    let (mut partitions, mut failures, mut token) = (0, 0, String::new());
    let mut pages = 0;
    loop {
        let next = ("x-ms-continuation", token.as_str());
        let answer = armilla.send("POST", &run, &[FOR_EACH, size, next], body).await.expect(200);
        let report = armilla_model::json::parse(answer.body.as_bytes()).unwrap();
        let number = |name: &str| report.get(name).and_then(armilla_model::Value::as_i64).unwrap();
        partitions += number("partitions");
        let failed = report.get("failures").unwrap().as_array().unwrap();
        failures += failed.len();
        for failure in failed {
            assert_eq!(failure.get("partitionKey").unwrap().to_json(), "[\"p3\"]");
            assert_eq!(failure.get("substatus").unwrap().to_json(), "4711");
        }
        assert_eq!(number("succeeded") as usize + failed.len(), number("partitions") as usize);
        assert!(answer.header("x-ms-request-charge").unwrap().parse::<f64>().unwrap() > 0.0);
        pages += 1;
        match answer.header("x-ms-continuation") {
            Some(next) => token = next.to_owned(),
            None => break,
        }
    }
    assert_eq!((partitions, failures), (5, 1));
    assert!(pages > 1, "the pages cut through partitions");
    // Four partitions of two items each were marked, each item once.
    let marked = r#"{"query":"SELECT VALUE c.seen FROM c WHERE IS_DEFINED(c.seen)"}"#;
    let cross = ("x-ms-documentdb-query-enablecrosspartition", "true");
    let docs = format!("{POSTS}/docs");
    let query = ("content-type", "application/query+json");
    let answer = armilla.send("POST", &docs, &[query, cross], marked).await.expect(200);
    assert!(answer.body.contains("[1,1,1,1,1,1,1,1]"), "{}", answer.body);
}

#[tokio::test]
async fn what_cannot_be_run_for_each_partition_is_refused() {
    let armilla = with_ten_posts().await;
    let run = format!("{POSTS}/sprocs/run");
    for body in [
        "",
        "[]",
        "{}",
        r#"{"query":"SELECT"}"#,
        r#"{"query":"SELECT * FROM c ORDER BY c.user"}"#,
        r#"{"query":"SELECT VALUE COUNT(1) FROM c"}"#,
        r#"{"query":"SELECT DISTINCT c.postId FROM c"}"#,
        r#"{"query":"SELECT c.user FROM c"}"#,
        r#"{"query":"SELECT * FROM c","arguments":{}}"#,
    ] {
        armilla.send("POST", &run, &[FOR_EACH], body).await.refused(400, 0);
    }
    let good = r#"{"query":"SELECT c.postId FROM c","arguments":["x"]}"#;
    armilla.send("POST", &run, &[FOR_EACH, KEY], good).await.refused(400, 0);
    let foreign = ("x-ms-continuation", "E1:nonsense:x");
    armilla.send("POST", &run, &[FOR_EACH, foreign], good).await.refused(400, 0);
    let answer = armilla.send("POST", &run, &[FOR_EACH], good).await.expect(200);
    assert!(
        answer.body.contains(r#""partitions":10,"succeeded":10,"failures":[]"#),
        "{}",
        answer.body
    );
    assert!(answer.body.ends_with(r#""progress":1}"#), "{}", answer.body);
}

#[tokio::test]
async fn a_query_is_explained_when_asked() {
    let armilla = with_ten_posts().await;
    let (docs, query) = (format!("{POSTS}/docs"), ("content-type", "application/query+json"));
    let explain = ("x-armilla-explain", "true");
    let body = r#"{"query":"SELECT * FROM c WHERE c.user = 1"}"#;
    let key = ("x-ms-documentdb-partitionkey", "[\"p1\"]");
    let answer = armilla.send("POST", &docs, &[query, key, explain], body).await.expect(200);
    let told = json::parse(answer.header("x-armilla-explain").unwrap().as_bytes()).unwrap();
    assert_eq!(told.get("shape").and_then(Value::as_str), Some("stream"));
    assert_eq!(told.get("rows"), Some(&Value::from(answer.rows("Documents").len() as i64)));
    let text = [query, key, ("x-armilla-explain", "text")];
    let answer = armilla.send("POST", &docs, &text, body).await.expect(200);
    let text = answer.header("x-armilla-explain").unwrap();
    assert!(text.contains("rows%20as%20items%20go%20by") && text.contains("RU"), "{text}");
    let wrong = [query, key, ("x-armilla-explain", "xml")];
    armilla.send("POST", &docs, &wrong, body).await.refused(400, 0);
    let answer = armilla.send("POST", &docs, &[query, key], body).await.expect(200);
    assert_eq!(answer.header("x-armilla-explain"), None);
}

#[tokio::test]
async fn page_sizes_inside_scripts_must_be_numbers() {
    for (size, status) in [("20", 200), ("-1", 200), ("undefined", 200), ("'x'", 400), ("-2", 400)]
    {
        let body = format!(
            "function () {{ var c = getContext().getCollection(); c.queryDocuments(c.getSelfLink(), 'SELECT * FROM c', {{ pageSize: {size} }}, function () {{}}); }}"
        );
        let armilla = with_procedure(&body).await;
        armilla.send("POST", &format!("{POSTS}/sprocs/run"), &[KEY], "[]").await.expect(status);
    }
}

/// Python's standard library refuses a line of headers above 64 KB, Node 16 KB of them.
#[tokio::test]
async fn a_long_log_is_cut_and_says_so() {
    let armilla = with_procedure("function () { console.log(new Array(20000).join('ä')); }").await;
    let run = format!("{POSTS}/sprocs/run");
    let answer = armilla.send("POST", &run, &[KEY, LOGGING], "").await.expect(200);
    let log = answer.header(LOG).unwrap();
    assert!(log.len() <= armilla_gateway::limits::DIAGNOSTIC_HEADER_MAX, "{} bytes", log.len());
    assert!(log.ends_with("cut%20here%3A%20the%20log%20has%2039998%20bytes%5D"), "{log}");
}
