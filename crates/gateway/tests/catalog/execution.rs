//! Scripts at work: procedures by name, triggers by header.

use crate::support::{Armilla, UPSERT};

const POSTS: &str = "/dbs/blog/colls/posts";
const KEY: (&str, &str) = ("x-ms-documentdb-partitionkey", "[\"p\"]");
const LOGGING: (&str, &str) = ("x-ms-documentdb-script-enable-logging", "True");
const LOG: &str = "x-ms-documentdb-script-log-results";

async fn register(armilla: &Armilla, kind: &str, id: &str, body: &str, more: &str) {
    let body = armilla_model::Value::from(body).to_json();
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
        ("5", "[5]"),
        ("{\"x\":1}", "[{\"x\":1}]"),
    ] {
        let answer = armilla.send("POST", &run, &[KEY], body).await.expect(200);
        assert_eq!(answer.body, wanted, "{body}");
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(answer.header(LOG), None);
        assert_eq!(answer.header("x-ms-request-charge"), Some("0.25"));
    }
    armilla.send("POST", &run, &[KEY], "[1").await.refused(400, 0);
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
