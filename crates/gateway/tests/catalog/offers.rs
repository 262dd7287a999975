use crate::support::{Answer, Armilla};
use armilla_model::Value;

const MANUAL: (&str, &str) = ("x-ms-offer-throughput", "500");
const AUTOSCALE: (&str, &str) =
    ("x-ms-cosmos-offer-autopilot-settings", "{\"maxThroughput\":4000}");

async fn container(armilla: &Armilla, headers: &[(&str, &str)]) -> Answer {
    let definition = r#"{"id":"posts","partitionKey":{"paths":["/postId"]}}"#;
    armilla.send("POST", "/dbs/blog/colls", headers, definition).await.expect(201)
}

/// The one offer that the answer holds, with its path.
#[track_caller]
fn only(answer: &Answer) -> (Value, String) {
    let body = answer.json();
    let [offer] = body.get("Offers").unwrap().as_array().unwrap() else {
        panic!("{}", answer.body);
    };
    (offer.clone(), format!("/offers/{}", offer.get("_rid").unwrap().as_str().unwrap()))
}

fn throughput(offer: &Value) -> Option<i64> {
    offer.get("content")?.get("offerThroughput")?.as_i64()
}

fn autoscale_max(offer: &Value) -> Option<i64> {
    offer.get("content")?.get("offerAutopilotSettings")?.get("maxThroughput")?.as_i64()
}

#[tokio::test]
async fn every_sdk_finds_the_offer_its_way() {
    let armilla = Armilla::start();
    armilla.post("/dbs", r#"{"id":"blog"}"#).await.expect(201);
    let container = container(&armilla, &[MANUAL]).await;
    let (link, rid) = (container.text("_self"), container.text("_rid"));
    for query in [
        // Python
        format!(
            r#"{{"query":"SELECT * FROM root r WHERE r.resource=@link","parameters":[{{"name":"@link","value":"{link}"}}]}}"#
        ),
        // JavaScript
        format!(r#"SELECT * from root where root.resource = "{link}""#),
        // .NET
        format!(
            r#"{{"query":"select * from root r where r.offerResourceId= @RID","parameters":[{{"name":"@RID","value":"{rid}"}}]}}"#
        ),
    ] {
        let found = armilla.query("/offers", &query).await.expect(200);
        let (offer, path) = only(&found);
        assert_eq!(throughput(&offer), Some(500));
        assert_eq!(found.header("x-ms-cosmos-min-throughput"), Some("400"));
        let read = armilla.get(&path).await.expect(200);
        assert_eq!(read.json(), offer);
        assert_eq!(read.header("x-ms-offer-replace-pending"), Some("false"));
        assert_eq!(read.header("etag"), Some(read.text("_etag").as_str()));
    }
    assert_eq!(
        only(&armilla.get("/offers").await.expect(200)).0.get("resource"),
        Some(&link.into())
    );
    armilla.delete("/dbs/blog").await.expect(204);
    let empty = armilla.get("/offers").await.expect(200);
    assert_eq!(empty.body, r#"{"_rid":"","Offers":[],"_count":0}"#);
}

#[tokio::test]
async fn throughput_is_replaced_within_its_kind() {
    let armilla = Armilla::start();
    armilla.post("/dbs", r#"{"id":"blog"}"#).await.expect(201);
    container(&armilla, &[]).await;
    let (offer, path) = only(&armilla.get("/offers").await.expect(200));
    assert_eq!(throughput(&offer), Some(400));
    let changed = offer.to_json().replace(r#""offerThroughput":400"#, r#""offerThroughput":700"#);
    let stale = [("if-match", "\"00000000-0000-0000-0000-000000000000\"")];
    armilla.send("PUT", &path, &stale, &changed).await.refused(412, 0);
    let replaced = armilla.put(&path, &changed).await.expect(200);
    assert_eq!(throughput(&replaced.json()), Some(700));
    assert_eq!(replaced.header("x-ms-offer-replace-pending"), Some("false"));
    assert_eq!(throughput(&armilla.get(&path).await.expect(200).json()), Some(700));

    for content in [
        r#"{"offerThroughput":300}"#,
        r#"{"offerThroughput":450}"#,
        r#"{"offerAutopilotSettings":{"maxThroughput":4000}}"#,
        "{}",
    ] {
        let body = format!(r#"{{"content":{content}}}"#);
        armilla.put(&path, &body).await.refused(400, 0);
    }
    armilla.put(&path, "{}").await.refused(400, 0);
    armilla.put("/offers/AAAA", &changed).await.refused(404, 0);
    armilla.get("/offers/AAAA").await.refused(404, 0);
    armilla.get("/offers/blog").await.refused(404, 0);
}

#[tokio::test]
async fn kinds_are_switched_by_header() {
    let armilla = Armilla::start();
    armilla.post("/dbs", r#"{"id":"blog"}"#).await.expect(201);
    container(&armilla, &[AUTOSCALE]).await;
    let (offer, path) = only(&armilla.get("/offers").await.expect(200));
    assert_eq!((throughput(&offer), autoscale_max(&offer)), (Some(400), Some(4000)));

    let to_manual = [("x-ms-cosmos-migrate-offer-to-manual-throughput", "true")];
    let body = r#"{"content":{"offerAutopilotSettings":{"maxThroughput":-1}}}"#;
    let manual = armilla.send("PUT", &path, &to_manual, body).await.expect(200).json();
    assert_eq!((throughput(&manual), autoscale_max(&manual)), (Some(4000), None));

    let to_autoscale = [("x-ms-cosmos-migrate-offer-to-autopilot", "True")];
    armilla.send("PUT", &path, &to_autoscale, body).await.refused(400, 0);
    let body = r#"{"content":{"offerThroughput":-1}}"#;
    let autoscale = armilla.send("PUT", &path, &to_autoscale, body).await.expect(200).json();
    assert_eq!(autoscale_max(&autoscale), Some(4000));
}

#[tokio::test]
async fn shared_throughput_leaves_containers_without_offers() {
    let armilla = Armilla::start();
    let database = armilla.send("POST", "/dbs", &[MANUAL], r#"{"id":"blog"}"#).await.expect(201);
    container(&armilla, &[]).await;
    let (offer, _) = only(&armilla.get("/offers").await.expect(200));
    assert_eq!(offer.get("offerResourceId"), Some(&database.text("_rid").into()));
}
