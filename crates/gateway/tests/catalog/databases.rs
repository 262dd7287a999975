use crate::support::{Armilla, QUERY};

#[tokio::test]
async fn a_database_lives_and_dies() {
    let armilla = Armilla::start();
    let created = armilla.post("/dbs", r#"{"id":"blog"}"#).await.expect(201);
    assert_eq!(created.header("x-ms-request-charge"), Some("4.95"));
    assert_eq!(created.header("etag"), Some(created.text("_etag").as_str()));
    let (rid, link) = (created.text("_rid"), created.text("_self"));
    assert_eq!((rid.len(), link), (8, format!("dbs/{rid}/")));
    assert_eq!(created.json().get("_ts").unwrap().as_i64(), Some(1_794_770_659));
    armilla.post("/dbs", r#"{"id":"blog"}"#).await.refused(409, 0);

    let read = armilla.get("/dbs/blog").await.expect(200);
    assert_eq!((&read.body, read.header("x-ms-request-charge")), (&created.body, Some("1")));
    assert_eq!(armilla.get(&format!("/dbs/{rid}/")).await.expect(200).body, created.body);
    let known = [("if-none-match", read.header("etag").unwrap())];
    let unchanged = armilla.send("GET", "/dbs/blog", &known, "").await.expect(304);
    assert_eq!(unchanged.body, "");

    let stale = [("if-match", "\"00000000-0000-0000-0000-000000000000\"")];
    armilla.send("DELETE", "/dbs/blog", &stale, "").await.refused(412, 0);
    assert_eq!(armilla.delete("/dbs/blog").await.expect(204).body, "");
    armilla.get("/dbs/blog").await.refused(404, 0);
    armilla.delete("/dbs/blog").await.refused(404, 0);
    let again = armilla.post("/dbs", r#"{"id":"blog"}"#).await.expect(201);
    assert_ne!(again.text("_rid"), rid);
}

#[tokio::test]
async fn what_is_not_a_database_is_refused() {
    let armilla = Armilla::start();
    for body in ["", "{", "[]", "{}", r#"{"id":7}"#, r#"{"id":""}"#, r#"{"id":"a/b"}"#] {
        armilla.post("/dbs", body).await.refused(400, 0);
    }
    let long = format!(r#"{{"id":"{}"}}"#, "x".repeat(256));
    armilla.post("/dbs", &long).await.refused(400, 0);
    let both = [
        ("x-ms-offer-throughput", "400"),
        ("x-ms-cosmos-offer-autopilot-settings", "{\"maxThroughput\":4000}"),
    ];
    armilla.send("POST", "/dbs", &both, r#"{"id":"d"}"#).await.refused(400, 0);
    for (name, value) in [
        ("x-ms-offer-throughput", "350"),
        ("x-ms-offer-throughput", "450"),
        ("x-ms-cosmos-offer-autopilot-settings", "{\"maxThroughput\":1500}"),
        ("x-ms-cosmos-offer-autopilot-settings", "4000"),
    ] {
        armilla.send("POST", "/dbs", &[(name, value)], r#"{"id":"d"}"#).await.refused(400, 0);
    }
    armilla.get("/dbs/d").await.refused(404, 0);
    armilla.put("/dbs/d", "{}").await.refused(405, 0);
}

#[tokio::test]
async fn feeds_and_queries_have_pages() {
    let armilla = Armilla::start();
    assert_eq!(
        armilla.get("/dbs").await.expect(200).body,
        r#"{"_rid":"","Databases":[],"_count":0}"#
    );
    for name in ["e", "d", "c", "b", "a"] {
        armilla.post("/dbs", &format!(r#"{{"id":"{name}"}}"#)).await.expect(201);
    }
    let mut seen = Vec::new();
    let mut token = None;
    loop {
        let mut headers = vec![("x-ms-max-item-count", "2")];
        headers.extend(token.as_deref().map(|token| ("x-ms-continuation", token)));
        let page = armilla.send("GET", "/dbs", &headers, "").await.expect(200);
        seen.extend(page.ids("Databases"));
        token = page.header("x-ms-continuation").map(str::to_owned);
        // What was seen may go without moving what comes.
        armilla.delete(&format!("/dbs/{}", seen.last().unwrap())).await.expect(204);
        if token.is_none() {
            break;
        }
    }
    assert_eq!(seen, ["e", "d", "c", "b", "a"]);
    let foreign = [("x-ms-continuation", "elsewhere")];
    armilla.send("GET", "/dbs", &foreign, "").await.refused(400, 0);

    assert_eq!(armilla.get("/dbs").await.expect(200).ids("Databases"), ["e", "c"]);

    for (name, expected) in [("c", vec!["c"]), ("b", vec![])] {
        let query = format!(
            r#"{{"query":"SELECT * FROM root r WHERE r.id=@id","parameters":[{{"name":"@id","value":"{name}"}}]}}"#
        );
        let found = armilla.query("/dbs", &query).await.expect(200);
        assert_eq!(found.ids("Databases"), expected);
    }
    let first = [QUERY, ("x-ms-max-item-count", "1")];
    let body = r#"{"query":"SELECT VALUE d.id FROM d ORDER BY d.id"}"#;
    let page = armilla.send("POST", "/dbs", &first, body).await.expect(200);
    assert_eq!(page.json().get("Databases").unwrap().to_json(), r#"["c"]"#);
    let token = page.header("x-ms-continuation").unwrap().to_owned();
    let second = [QUERY, ("x-ms-continuation", token.as_str())];
    let page = armilla.send("POST", "/dbs", &second, body).await.expect(200);
    assert_eq!(page.json().get("Databases").unwrap().to_json(), r#"["e"]"#);
    assert_eq!(page.header("x-ms-continuation"), None);
    armilla.query("/dbs", "SELECT FROM").await.refused(400, 0);
    armilla.query("/dbs", "{}").await.refused(400, 0);
}
