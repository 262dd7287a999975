use crate::support::{Armilla, UPSERT, encoded};

const MARY: &str = "/dbs/blog/users/mary";

async fn with_mary() -> Armilla {
    let armilla = Armilla::with_posts().await;
    armilla.post("/dbs/blog/users", r#"{"id":"mary"}"#).await.expect(201);
    armilla
}

#[tokio::test]
async fn a_user_lives_and_dies() {
    let armilla = with_mary().await;
    let read = armilla.get(MARY).await.expect(200);
    let rid = read.text("_rid");
    assert_eq!((rid.len(), read.text("_permissions")), (12, "permissions/".to_owned()));
    assert!(read.text("_self").ends_with(&format!("/users/{rid}/")));
    assert_eq!(read.header("x-ms-alt-content-path"), Some("dbs/blog"));
    assert_eq!(armilla.get(&format!("/dbs/blog/users/{rid}")).await.expect(200).body, read.body);

    armilla.post("/dbs/blog/users", r#"{"id":"mary"}"#).await.refused(409, 0);
    armilla.send("POST", "/dbs/blog/users", &[UPSERT], r#"{"id":"mary"}"#).await.expect(200);
    armilla.send("POST", "/dbs/blog/users", &[UPSERT], r#"{"id":"joe"}"#).await.expect(201);
    armilla.post("/dbs/blog/users", "{}").await.refused(400, 0);
    armilla.post("/dbs/none/users", r#"{"id":"x"}"#).await.refused(404, 1003);
    assert_eq!(armilla.get("/dbs/blog/users").await.expect(200).ids("Users"), ["mary", "joe"]);
    let found = armilla.query("/dbs/blog/users", "SELECT * FROM u WHERE u.id = 'joe'").await;
    assert_eq!(found.expect(200).ids("Users"), ["joe"]);

    armilla.put(MARY, r#"{"id":"joe"}"#).await.refused(409, 0);
    let stale = [("if-match", "\"00000000-0000-0000-0000-000000000000\"")];
    armilla.send("PUT", MARY, &stale, r#"{"id":"ann"}"#).await.refused(412, 0);
    let renamed = armilla.put(MARY, r#"{"id":"ann"}"#).await.expect(200);
    assert_eq!(renamed.text("_rid"), rid);
    armilla.get(MARY).await.refused(404, 0);
    armilla.delete("/dbs/blog/users/ann").await.expect(204);
    armilla.delete("/dbs/blog/users/ann").await.refused(404, 0);
    armilla.get("/dbs/none/users/ann").await.refused(404, 1003);
}

#[tokio::test]
async fn a_permission_lives_and_dies() {
    let armilla = with_mary().await;
    let path = format!("{MARY}/permissions");
    let body = r#"{"id":"p1","permissionMode":"Read","resource":"dbs/blog/colls/posts","resourcePartitionKey":["post-1"]}"#;
    let created = armilla.post(&path, body).await.expect(201);
    assert!(created.text("_token").starts_with("type=resource&ver=1.0&sig="));
    assert_eq!(created.text("_rid").len(), 24);
    assert!(created.body.contains(r#""resourcePartitionKey":["post-1"]"#));
    armilla.post(&path, body).await.refused(409, 0);
    armilla.post(&path, &body.replace("p1", "p2")).await.refused(409, 0);
    for bad in ["{}", r#"{"id":"p","permissionMode":"Own","resource":"dbs/blog"}"#] {
        armilla.post(&path, bad).await.refused(400, 0);
    }
    let other = r#"{"id":"p2","permissionMode":"All","resource":"dbs/blog/colls/posts"}"#;
    armilla.send("POST", &path, &[UPSERT], other).await.expect(201);
    armilla.send("POST", &path, &[UPSERT], other).await.expect(200);

    let one = format!("{path}/p1");
    let read = armilla.get(&one).await.expect(200);
    assert_eq!(read.header("x-ms-alt-content-path"), Some("dbs/blog/users/mary"));
    let by_rid = armilla.get(&format!("{path}/{}", read.text("_rid"))).await.expect(200);
    assert_eq!(by_rid.text("_self"), read.text("_self"));
    armilla.clock.advance_seconds(1);
    assert_ne!(armilla.get(&one).await.expect(200).text("_token"), read.text("_token"));
    assert_eq!(armilla.get(&path).await.expect(200).ids("Permissions"), ["p1", "p2"]);
    let found = armilla.query(&path, "SELECT * FROM p WHERE p.permissionMode = 'All'").await;
    assert_eq!(found.expect(200).ids("Permissions"), ["p2"]);

    let stale = [("if-match", "\"00000000-0000-0000-0000-000000000000\"")];
    armilla.send("PUT", &one, &stale, body).await.refused(412, 0);
    let replaced = armilla.put(&one, &body.replace("Read", "All")).await.expect(200);
    assert_eq!(replaced.text("permissionMode"), "All");
    armilla.delete(&one).await.expect(204);
    armilla.get(&one).await.refused(404, 0);
    armilla.delete(&one).await.refused(404, 0);
    armilla.get("/dbs/blog/users/none/permissions/p1").await.refused(404, 1003);
    for (seconds, status) in [("9", 400), ("10", 200), ("86400", 200), ("86401", 400)] {
        let expiry = [("x-ms-documentdb-expiry-seconds", seconds)];
        armilla.send("GET", &path, &expiry, "").await.expect(status);
    }
}

#[tokio::test]
async fn tokens_open_what_the_permission_names() {
    let armilla = with_mary().await;
    let container = armilla.get("/dbs/blog/colls/posts").await.expect(200);
    let link = container.text("_self");
    for (name, resource) in [("names", "dbs/blog/colls/posts"), ("rids", link.as_str())] {
        let body = format!(r#"{{"id":"{name}","permissionMode":"Read","resource":"{resource}"}}"#);
        let created = armilla.post(&format!("{MARY}/permissions"), &body).await.expect(201);
        let token = encoded(&created.text("_token"));
        for path in ["/dbs/blog/colls/posts", &format!("/{link}")] {
            armilla.send_as(&token, "GET", path, &[], "").await.expect(200);
            let ranges = format!("{}/pkranges", path.trim_end_matches('/'));
            armilla.send_as(&token, "GET", &ranges, &[], "").await.expect(200);
            armilla.send_as(&token, "DELETE", path, &[], "").await.refused(403, 0);
        }
        armilla.send_as(&token, "GET", "/dbs", &[], "").await.refused(403, 0);
        armilla.send_as(&token, "GET", "/dbs/blog/colls/other", &[], "").await.refused(403, 0);
    }
    let expiry = [("x-ms-documentdb-expiry-seconds", "10")];
    let read = armilla.send("GET", &format!("{MARY}/permissions/names"), &expiry, "").await;
    let token = encoded(&read.expect(200).text("_token"));
    armilla.send_as(&token, "GET", "/dbs/blog/colls/posts", &[], "").await.expect(200);
    armilla.clock.advance_seconds(11);
    armilla.send_as(&token, "GET", "/dbs/blog/colls/posts", &[], "").await.refused(403, 0);
}
