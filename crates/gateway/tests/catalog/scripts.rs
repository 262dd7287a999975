use crate::support::{Armilla, UPSERT};

const POSTS: &str = "/dbs/blog/colls/posts";
const TRIGGER: &str =
    r#"{"id":"stamp","body":"function () { }","triggerType":"Pre","triggerOperation":"All"}"#;

#[tokio::test]
async fn scripts_of_every_kind_live_and_die() {
    let armilla = Armilla::with_posts().await;
    let container = armilla.get(POSTS).await.expect(200);
    for (kind, feed, body) in [
        ("sprocs", "StoredProcedures", r#"{"id":"stamp","body":"function (a) { return a; }"}"#),
        ("triggers", "Triggers", TRIGGER),
        ("udfs", "UserDefinedFunctions", r#"{"id":"stamp","body":"s => s.trim()"}"#),
    ] {
        let (all, one) = (format!("{POSTS}/{kind}"), format!("{POSTS}/{kind}/stamp"));
        let created = armilla.post(&all, body).await.expect(201);
        assert!(created.body.starts_with(body.trim_end_matches('}')), "{}", created.body);
        let rid = created.text("_rid");
        assert_eq!(created.text("_self"), format!("{}{kind}/{rid}/", container.text("_self")));
        assert_eq!(created.header("x-ms-alt-content-path"), Some("dbs/blog/colls/posts"));
        assert_eq!(created.header("x-ms-content-path"), Some(container.text("_rid").as_str()));
        assert_eq!(created.header("x-ms-session-token"), Some("0:-1#0"));
        assert_eq!(armilla.get(&one).await.expect(200).body, created.body);
        assert_eq!(armilla.get(&format!("{all}/{rid}")).await.expect(200).body, created.body);

        armilla.post(&all, body).await.refused(409, 0);
        armilla.send("POST", &all, &[UPSERT], body).await.expect(200);
        armilla.send("POST", &all, &[UPSERT], &body.replace("stamp", "other")).await.expect(201);
        assert_eq!(armilla.get(&all).await.expect(200).ids(feed), ["stamp", "other"]);
        let found = armilla.query(&all, "SELECT * FROM root r WHERE r.id = 'other'").await;
        assert_eq!(found.expect(200).ids(feed), ["other"]);

        let stale = [("if-match", "\"00000000-0000-0000-0000-000000000000\"")];
        armilla.send("PUT", &one, &stale, body).await.refused(412, 0);
        let next = body.replace("\"body\":\"", "\"body\":\"/* next */ ");
        let replaced = armilla.put(&one, &next).await.expect(200);
        assert_eq!(replaced.text("_rid"), rid);
        assert!(armilla.get(&one).await.expect(200).text("body").starts_with("/* next */"));
        armilla.put(&one, &body.replace("stamp", "other")).await.refused(409, 0);
        armilla.put(&format!("{all}/none"), body).await.refused(404, 0);

        armilla.delete(&one).await.expect(204);
        armilla.get(&one).await.refused(404, 0);
        armilla.delete(&one).await.refused(404, 0);
        armilla.post(&format!("/dbs/blog/colls/none/{kind}"), body).await.refused(404, 1003);
    }
}

#[tokio::test]
async fn what_cannot_run_is_refused() {
    let armilla = Armilla::with_posts().await;
    let (sprocs, triggers) = (format!("{POSTS}/sprocs"), format!("{POSTS}/triggers"));
    let broken = r#"{"id":"p","body":"function () { This is not JavaScript!"}"#;
    armilla.post(&sprocs, broken).await.refused(400, 0xFFFF);
    armilla.send("POST", &sprocs, &[UPSERT], broken).await.refused(400, 0xFFFF);
    for (path, body, missing) in [
        (&sprocs, r#"{"id":"p"}"#, "'body; '"),
        (&sprocs, r#"{"body":"function () { }"}"#, "'id; '"),
        (
            &triggers,
            r#"{"id":"t","body":"function () { }","triggerOperation":"All"}"#,
            "'triggerType; '",
        ),
        (
            &triggers,
            r#"{"id":"t","body":"function () { }","triggerType":"Pre"}"#,
            "'triggerOperation; '",
        ),
    ] {
        let refused = armilla.post(path, body).await.refused(400, 0);
        assert!(refused.text("message").contains(&format!("required properties - {missing}")));
    }
    for body in [TRIGGER.replace("Pre", "During"), TRIGGER.replace("All", "Some")] {
        armilla.post(&triggers, &body).await.refused(400, 0);
    }
    let function = r#"{"id":"not a name","body":"function () { }"}"#;
    armilla.post(&format!("{POSTS}/udfs"), function).await.expect(201);
    armilla.post(&sprocs, function).await.expect(201);
    assert_eq!(armilla.get(&sprocs).await.expect(200).ids("StoredProcedures"), ["not a name"]);
}
