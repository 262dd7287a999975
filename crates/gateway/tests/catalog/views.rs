//! Views over the wire: both names of a definition, what a source tells of its views, and that no way of
//! writing reaches a view.

use crate::direct::client::{Client, Known};
use crate::support::{Answer, Armilla, UPSERT};
use armilla_engine::views::Followed;
use armilla_model::{Value, json};

const COLLS: &str = "/dbs/blog/colls";
const VIEW: &str = "/dbs/blog/colls/by-author";
const KEY: (&str, &str) = ("x-ms-documentdb-partitionkey", r#"["ann"]"#);
const BATCH: (&str, &str) = ("x-ms-cosmos-is-batch-request", "True");
const DEFINITION: &str =
    r#"{"sourceCollectionId":"posts","definition":"SELECT c.author, c.title FROM c"}"#;

fn body(name: &str, definition: &str) -> String {
    format!(
        r#"{{"id":"by-author","partitionKey":{{"paths":["/author"],"kind":"Hash","version":2}},"{name}":{definition}}}"#
    )
}

/// A blog with two posts and a view of them, which shows both.
async fn blog(armilla: Armilla) -> (Armilla, String) {
    let armilla = armilla.and_posts().await;
    for (id, author) in [("1", "ann"), ("2", "bob")] {
        let item =
            format!(r#"{{"id":"{id}","postId":"{id}","author":"{author}","title":"t{id}"}}"#);
        let key = format!(r#"["{id}"]"#);
        let key = ("x-ms-documentdb-partitionkey", key.as_str());
        armilla.send("POST", "/dbs/blog/colls/posts/docs", &[key], &item).await.expect(201);
    }
    armilla.post(COLLS, &body("materializedViewDefinition", DEFINITION)).await.expect(201);
    follow(&armilla).await;
    let rows = armilla.send("GET", &format!("{VIEW}/docs"), &[KEY], "").await.expect(200);
    let rows = rows.rows("Documents");
    assert_eq!(rows.len(), 1);
    let id = rows[0].get("id").unwrap().as_str().unwrap().to_owned();
    (armilla, id)
}

async fn follow(armilla: &Armilla) {
    while armilla.account.follow_views() != Followed::Everything {
        tokio::task::yield_now().await;
    }
}

fn definition_of(answer: &Answer, name: &str) -> Value {
    answer.json().get(name).unwrap().clone()
}

#[tokio::test]
async fn a_definition_has_two_names_in_every_answer() {
    let armilla = Armilla::with_posts().await;
    let source = armilla.get("/dbs/blog/colls/posts").await.expect(200);
    assert!(source.json().get("materializedViews").is_none());
    let name = "globalSecondaryIndexDefinition";
    let created = armilla.post(COLLS, &body(name, DEFINITION)).await.expect(201);
    follow(&armilla).await;
    let read = armilla.get(VIEW).await.expect(200);
    let listed = armilla.get(COLLS).await.expect(200).rows("DocumentCollections");
    let listed = listed.iter().find(|row| row.get("id") == Some(&"by-author".into())).unwrap();
    for name in [name, "materializedViewDefinition"] {
        let definition = definition_of(&read, name);
        assert_eq!(
            definition.get("sourceCollectionRid"),
            Some(&source.text("_rid").as_str().into())
        );
        assert_eq!(definition.get("status"), Some(&"Active".into()));
        assert_eq!(definition.get("progress").unwrap().as_i64(), Some(100));
        assert_eq!(listed.get(name), Some(&definition));
        assert!(definition_of(&created, name).get("status").is_some());
    }
    let source = armilla.get("/dbs/blog/colls/posts").await.expect(200);
    let views = source.json().get("materializedViews").unwrap().to_json();
    assert_eq!(views, format!(r#"[{{"id":"by-author","_rid":"{}"}}]"#, created.text("_rid")));

    // Clients send back what they read.
    armilla.put("/dbs/blog/colls/posts", &source.body).await.expect(200);
    let replaced = armilla.put(VIEW, &read.body).await.expect(200);
    assert_eq!(definition_of(&replaced, name), definition_of(&read, name));
    let changed = read.body.replace("c.title", "c.text");
    armilla.put(VIEW, &changed).await.refused(400, 0);
    armilla.delete("/dbs/blog/colls/posts").await.refused(400, 0);
    armilla.delete(VIEW).await.expect(204);
    armilla.delete("/dbs/blog/colls/posts").await.expect(204);
}

#[tokio::test]
async fn definitions_that_cannot_be_kept_are_refused() {
    let armilla = Armilla::with_posts().await;
    let refuse = async |definition: &str, says: &str| {
        let body = body("materializedViewDefinition", definition);
        let answer = armilla.post(COLLS, &body).await.refused(400, 0);
        assert!(answer.body.contains(says), "{}", answer.body);
    };
    refuse(r#"{"sourceCollectionId":"none","definition":"SELECT * FROM c"}"#, "'none'").await;
    refuse(r#"{"sourceCollectionId":"posts"}"#, "'definition'").await;
    let rid = r#"{"sourceCollectionId":"posts","sourceCollectionRid":"AAAAAA==","definition":"SELECT * FROM c"}"#;
    refuse(rid, "_rid").await;
    let place = r#"{"sourceCollectionId":"posts","definition":"SELECT c.a FROM c WHERE c.b = 1"}"#;
    refuse(place, "at 24 to 31").await;
    refuse(r#"{"sourceCollectionId":"posts","definition":"SELECT c.a FORM c"}"#, "near 'c'").await;
    let dial = [("x-armilla-views", "extended")];
    armilla
        .send("POST", COLLS, &dial, &body("materializedViewDefinition", place))
        .await
        .expect(201);
}

#[tokio::test]
async fn no_way_of_writing_reaches_a_view() {
    let (armilla, id) = blog(Armilla::start()).await;
    let (docs, one) = (format!("{VIEW}/docs"), format!("{VIEW}/docs/{id}"));
    let item = format!(r#"{{"id":"{id}","author":"ann"}}"#);
    let patch = r#"{"operations":[{"op":"set","path":"/title","value":"x"}]}"#;
    armilla.send("POST", &docs, &[KEY], &item).await.refused(403, 0);
    armilla.send("POST", &docs, &[KEY, UPSERT], &item).await.refused(403, 0);
    armilla.send("PUT", &one, &[KEY], &item).await.refused(403, 0);
    armilla.send("PATCH", &one, &[KEY], patch).await.refused(403, 0);
    armilla.send("DELETE", &one, &[KEY], "").await.refused(403, 0);
    armilla.send("DELETE", &format!("{docs}/none"), &[KEY], "").await.refused(403, 0);
    let delete_all = format!("{VIEW}/operations/partitionkeydelete");
    armilla.send("POST", &delete_all, &[KEY], "").await.refused(403, 0);

    let create = format!(r#"{{"operationType":"Create","resourceBody":{item}}}"#);
    let atomic = [KEY, BATCH, ("x-ms-cosmos-batch-atomic", "True")];
    let answer = armilla.send("POST", &docs, &atomic, &format!("[{create}]")).await;
    assert_eq!(statuses(&answer), [403], "{}", answer.body);
    let range = ("x-ms-documentdb-partitionkeyrangeid", "0");
    let go_on = ("x-ms-cosmos-batch-continue-on-error", "True");
    let delete = format!(r#"{{"operationType":"Delete","id":"{id}","partitionKey":"[\"ann\"]"}}"#);
    let create = create.replacen("{", r#"{"partitionKey":"[\"ann\"]","#, 1);
    let operations = format!("[{create},{delete}]");
    let answer = armilla.send("POST", &docs, &[BATCH, range, go_on], &operations).await;
    assert_eq!(statuses(&answer), [403, 403], "{}", answer.body);

    let script = r#"{"id":"w","body":"function () { const c = getContext().getCollection(); c.createDocument(c.getSelfLink(), {id: 'x', author: 'ann'}, (error) => { if (error) throw error; }); }"}"#;
    armilla.post(&format!("{VIEW}/sprocs"), script).await.expect(201);
    let executed = armilla.send("POST", &format!("{VIEW}/sprocs/w"), &[KEY], "[]").await;
    assert!(executed.body.contains("view of 'posts'"), "{}", executed.body);
    let rows = armilla.send("GET", &docs, &[KEY], "").await.expect(200);
    assert_eq!(rows.rows("Documents")[0].get("title"), Some(&"t1".into()));
}

fn statuses(answer: &Answer) -> Vec<i64> {
    let rows = json::parse(answer.body.as_bytes()).unwrap();
    let rows = rows.as_array().unwrap_or_default();
    rows.iter().map(|row| row.get("statusCode").and_then(Value::as_i64).unwrap()).collect()
}

#[tokio::test]
async fn nor_does_direct_mode() {
    let (armilla, id) = blog(Armilla::direct()).await;
    let mut client = Client::connect(&armilla).await;
    let known = Known::read(&armilla, "blog", "by-author").await;
    let item = format!(r#"{{"id":"{id}","author":"ann"}}"#);
    client.call(&known.create(r#"["ann"]"#, &item)).await.refused(403, 0);
    client.call(&known.item("Delete", r#"["ann"]"#, &id)).await.refused(403, 0);
    client.call(&known.item("Read", r#"["ann"]"#, &id)).await.expect(200);
}

#[tokio::test]
async fn the_lag_of_a_view_is_a_metric() {
    let (armilla, _) = blog(Armilla::start()).await;
    let metrics = armilla.get("/metrics").await.expect(200).body;
    let line = |name: &str| {
        format!(r#"{name}{{database="blog",container="by-author",status="Active"}} 0"#)
    };
    for name in ["armilla_view_lag_seconds", "armilla_view_pending_transactions"] {
        assert!(metrics.contains(&line(name)), "{metrics}");
    }
}
