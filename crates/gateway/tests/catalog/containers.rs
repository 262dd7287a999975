use crate::support::Armilla;
use armilla_model::{Object, Value, json};

const POSTS: &str = "/dbs/blog/colls/posts";

#[tokio::test]
async fn a_container_is_answered_with_its_defaults() {
    let armilla = Armilla::start();
    let database = armilla.post("/dbs", r#"{"id":"blog"}"#).await.expect(201).text("_rid");
    let definition = r#"{"id":"posts","partitionKey":{"paths":["/postId"]},"defaultTtl":-1,"newMember":{"a":1}}"#;
    let created = armilla.post("/dbs/blog/colls", definition).await.expect(201);
    let names: Vec<String> =
        created.json().as_object().unwrap().iter().map(|(name, _)| name.to_string()).collect();
    assert_eq!(names.first().map(String::as_str), Some("id"));
    let system =
        ["_rid", "_ts", "_self", "_etag", "_docs", "_sprocs", "_triggers", "_udfs", "_conflicts"];
    assert_eq!(names[names.len() - system.len()..], system);
    assert!(created.body.contains(r#""partitionKey":{"paths":["/postId"],"kind":"Hash"}"#));
    assert!(
        created.body.contains(r#""indexingPolicy":{"indexingMode":"consistent","automatic":true"#)
    );
    assert!(
        created.body.contains(r#""defaultTtl":-1"#)
            && created.body.contains(r#""newMember":{"a":1}"#)
    );
    let rid = created.text("_rid");
    assert_eq!(rid.len(), 12);
    assert_eq!(created.text("_self"), format!("dbs/{database}/colls/{rid}/"));

    assert_eq!(created.header("etag"), Some(created.text("_etag").as_str()));
    assert_eq!(created.header("x-ms-alt-content-path"), Some("dbs/blog"));
    assert_eq!(created.header("x-ms-content-path"), Some(database.as_str()));
    assert_eq!(
        created.header("x-ms-documentdb-collection-index-transformation-progress"),
        Some("100")
    );

    let read = armilla.get(POSTS).await.expect(200);
    assert_eq!(read.body, created.body);
    let by_rid = armilla.get(&format!("/dbs/{database}/colls/{rid}")).await.expect(200);
    assert_eq!(by_rid.body, created.body);
    let head = armilla.send("HEAD", POSTS, &[], "").await.expect(200);
    assert_eq!((head.body.as_str(), head.header("etag")), ("", read.header("etag")));
    assert!(read.header("x-ms-resource-quota").unwrap().contains("documentsCount=-1;"));
    assert!(read.header("x-ms-resource-usage").unwrap().ends_with("triggers=0;"));
    assert!(read.json().get("statistics").is_none());
    let wanted = [("x-ms-documentdb-populatepartitionstatistics", "True")];
    let read = armilla.send("GET", POSTS, &wanted, "").await.expect(200);
    let statistics = read.json().get("statistics").unwrap().to_json();
    assert_eq!(statistics, r#"[{"id":"0","sizeInKB":0,"documentCount":0,"partitionKeys":[]}]"#);
}

#[tokio::test]
async fn missing_parents_are_told_from_missing_containers() {
    let armilla = Armilla::with_posts().await;
    armilla.get("/dbs/blog/colls/none").await.refused(404, 0);
    armilla.get("/dbs/none/colls/posts").await.refused(404, 1003);
    armilla.get("/dbs/none/colls").await.refused(404, 1003);
    armilla.query("/dbs/none/colls", "SELECT * FROM c").await.refused(404, 1003);
    let definition = r#"{"id":"posts","partitionKey":{"paths":["/p"]}}"#;
    armilla.post("/dbs/none/colls", definition).await.refused(404, 1003);
    armilla.put("/dbs/blog/colls/none", definition).await.refused(404, 0);
    armilla.delete("/dbs/blog/colls/none").await.refused(404, 0);
    armilla.get("/dbs/blog/colls/none/pkranges").await.refused(404, 1003);
    armilla.get("/dbs/blog/colls/none/conflicts").await.refused(404, 1003);
}

#[tokio::test]
async fn what_is_not_a_container_is_refused() {
    let armilla = Armilla::with_posts().await;
    for body in [
        "",
        "[]",
        r#"{"partitionKey":{"paths":["/p"]}}"#,
        r#"{"id":"c"}"#,
        r#"{"id":"c#","partitionKey":{"paths":["/p"]}}"#,
        r#"{"id":"c","partitionKey":{"paths":["p"]}}"#,
        r#"{"id":"c","partitionKey":{"paths":["/p"]},"defaultTtl":0}"#,
        r#"{"id":"c","partitionKey":{"paths":["/p"]},"computedProperties":[{"name":"x","query":"SELECT"}]}"#,
    ] {
        armilla.post("/dbs/blog/colls", body).await.refused(400, 0);
    }
    let taken = r#"{"id":"posts","partitionKey":{"paths":["/p"]}}"#;
    armilla.post("/dbs/blog/colls", taken).await.refused(409, 0);
}

#[tokio::test]
async fn replacing_changes_what_may_change() {
    let armilla = Armilla::with_posts().await;
    let before = armilla.get(POSTS).await.expect(200);
    let changed = before.body.replace(r#""id":"posts","#, r#""id":"posts","defaultTtl":60,"#);
    let stale = [("if-match", "\"00000000-0000-0000-0000-000000000000\"")];
    armilla.send("PUT", POSTS, &stale, &changed).await.refused(412, 0);
    let etag = before.text("_etag");
    let replaced = armilla.send("PUT", POSTS, &[("if-match", &etag)], &changed).await.expect(200);
    assert_eq!(replaced.json().get("defaultTtl"), Some(&Value::from(60)));
    assert_ne!(replaced.text("_etag"), etag);
    assert_eq!(replaced.text("_rid"), before.text("_rid"));
    assert_eq!(armilla.get(POSTS).await.expect(200).body, replaced.body);
    armilla.send("PUT", POSTS, &[("if-match", &etag)], &changed).await.refused(412, 0);

    armilla.put(POSTS, r#"{"id":"posts"}"#).await.expect(200);
    armilla.put(POSTS, r#"{"id":"other"}"#).await.refused(400, 0);
    let other_key =
        r#"{"id":"posts","partitionKey":{"paths":["/other"],"kind":"Hash","version":2}}"#;
    armilla.put(POSTS, other_key).await.refused(400, 0);
    armilla.put(POSTS, "{}").await.refused(400, 0);
}

#[tokio::test]
async fn a_container_made_anew_is_another_one() {
    let armilla = Armilla::with_posts().await;
    let rid = armilla.get(POSTS).await.expect(200).text("_rid");
    assert_eq!(
        armilla.get("/dbs/blog/colls").await.expect(200).ids("DocumentCollections"),
        ["posts"]
    );
    let stale = [("if-match", "\"00000000-0000-0000-0000-000000000000\"")];
    armilla.send("DELETE", POSTS, &stale, "").await.refused(412, 0);
    armilla.delete(POSTS).await.expect(204);
    armilla.get(POSTS).await.refused(404, 0);
    let feed = armilla.get("/dbs/blog/colls").await.expect(200);
    assert_eq!(feed.ids("DocumentCollections"), Vec::<String>::new());
    let definition = r#"{"id":"posts","partitionKey":{"paths":["/postId"]}}"#;
    let again = armilla.post("/dbs/blog/colls", definition).await.expect(201);
    assert_ne!(again.text("_rid"), rid);
    let found = armilla.query("/dbs/blog/colls", "SELECT * FROM root r WHERE r.id='posts'").await;
    assert_eq!(found.expect(200).ids("DocumentCollections"), ["posts"]);
}

#[tokio::test]
async fn there_are_no_conflicts() {
    let armilla = Armilla::with_posts().await;
    let path = format!("{POSTS}/conflicts");
    let none = armilla.get(&path).await.expect(200).ids("Conflicts");
    assert!(none.is_empty());
    // Like items, conflicts are queried inside one partition unless the client says otherwise.
    armilla.query(&path, "SELECT * FROM c").await.refused(400, 0);
    armilla.get(&format!("{path}/x")).await.refused(404, 0);
    armilla.delete(&format!("{path}/x")).await.refused(404, 0);
}

#[tokio::test]
async fn ranges_cover_the_space_and_are_told_once() {
    let armilla = Armilla::start();
    armilla.post("/dbs", r#"{"id":"blog"}"#).await.expect(201);
    let settings = [("x-ms-cosmos-offer-autopilot-settings", "{\"maxThroughput\":40000}")];
    let definition = r#"{"id":"posts","partitionKey":{"paths":["/postId"]}}"#;
    let container =
        armilla.send("POST", "/dbs/blog/colls", &settings, definition).await.expect(201);
    let path = format!("{POSTS}/pkranges");
    let asked = [("a-im", "Incremental Feed"), ("x-ms-max-item-count", "-1")];
    let first = armilla.send("GET", &path, &asked, "").await.expect(200);
    assert_eq!(first.ids("PartitionKeyRanges"), ["0", "1", "2", "3"]);
    assert_eq!(first.text("_rid"), container.text("_rid"));
    let body = first.json();
    let rows = body.get("PartitionKeyRanges").unwrap().as_array().unwrap();
    let text = |row: &Value, name: &str| row.get(name).unwrap().as_str().unwrap().to_owned();
    assert_eq!(text(&rows[0], "minInclusive"), "");
    assert_eq!(text(&rows[3], "maxExclusive"), "FF");
    for pair in rows.windows(2) {
        assert_eq!(text(&pair[0], "maxExclusive"), text(&pair[1], "minInclusive"));
    }
    assert_eq!(text(&rows[1], "_rid").len(), 24);
    assert_eq!(rows[1].get("throughputFraction").unwrap().as_f64(), Some(0.25));
    assert_eq!(rows[1].get("parents").unwrap().to_json(), "[]");

    let etag = first.header("etag").unwrap().to_owned();
    let again = [("a-im", "Incremental Feed"), ("if-none-match", etag.as_str())];
    let unchanged = armilla.send("GET", &path, &again, "").await.expect(304);
    assert_eq!((unchanged.body.as_str(), unchanged.header("etag")), ("", Some(etag.as_str())));
    let by_rid = format!("/{}pkranges", container.text("_self"));
    assert_eq!(armilla.get(&by_rid).await.expect(200).body, first.body);
    let foreign = [("if-none-match", "\"0-9\"")];
    armilla.send("GET", &path, &foreign, "").await.expect(200);
}

/// The members of a vector that are given, under their names.
fn members(vector: &Value, names: &[&str]) -> Object {
    let mut members = Object::new();
    for name in names {
        if let Some(value) = vector.get(name) {
            members.insert(*name, value.clone());
        }
    }
    members
}

#[tokio::test]
async fn policies_for_vectors_and_texts_are_judged_as_the_vectors_say() {
    let armilla = Armilla::with_posts().await;
    let vectors = json::parse(include_bytes!("../vectors/search-policies.json")).unwrap();
    let vectors = vectors.as_array().unwrap();
    assert_eq!(vectors.len(), 28);
    for (number, vector) in vectors.iter().enumerate() {
        let mut definition = members(vector, &["fullTextPolicy"]);
        let key = json::parse(br#"{"paths":["/pk"],"kind":"Hash"}"#).unwrap();
        definition.insert("id", format!("searched-{number}").as_str().into());
        definition.insert("partitionKey", key);
        let embeddings = members(vector, &["vectorEmbeddings"]);
        if !embeddings.is_empty() {
            definition.insert("vectorEmbeddingPolicy", Value::object(embeddings));
        }
        let indexes = members(vector, &["vectorIndexes", "fullTextIndexes"]);
        definition.insert("indexingPolicy", Value::object(indexes));
        let answer = armilla.post("/dbs/blog/colls", &Value::object(definition).to_json()).await;
        let expected = vector.get("status").and_then(Value::as_i64).unwrap();
        assert_eq!(i64::from(answer.status), expected, "{number}: {vector}: {}", answer.body);
        if let Some(message) = vector.get("message").and_then(Value::as_str) {
            assert!(answer.text("message").contains(message), "{number}: {}", answer.body);
        }
        for (name, value) in
            vector.get("echo").and_then(Value::as_object).cloned().unwrap_or_default().iter()
        {
            let policy = answer.json().get("fullTextPolicy").cloned().unwrap_or_default();
            assert_eq!(policy.get(name), Some(value), "{number}: {}", answer.body);
        }
    }
}
