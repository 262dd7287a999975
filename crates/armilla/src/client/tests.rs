//! The client against a server in this process, over http and https.

use super::items::{ContainerName, OnConflict, bulk_operation};
use super::query::{QueryText, Scope};
use super::*;
use crate::local::LocalServer;
use armilla_model::clock::SystemClock;
use serde_json::json;

const ORDERS: ContainerName<'_> = ContainerName { database: "shop", container: "orders" };

async fn with_container(secure: bool) -> (LocalServer, Client) {
    let server = LocalServer::start_in_memory(Some(3)).await.unwrap();
    let endpoint = if secure { server.https_endpoint() } else { server.endpoint() };
    let client = Client::new(&endpoint, Arc::new(SystemClock)).unwrap();
    client.ensure_database("shop").await.unwrap();
    client.ensure_database("shop").await.unwrap();
    let definition =
        json!({ "id": "orders", "partitionKey": { "paths": ["/town"], "kind": "Hash" } });
    client.create_container("shop", &definition, Some(400)).await.unwrap().success().unwrap();
    (server, client)
}

#[tokio::test(flavor = "multi_thread")]
async fn items_queries_feed_and_procedures_over_http_and_https() {
    for secure in [false, true] {
        let (server, client) = with_container(secure).await;
        let key = items::Key::of("Zürich");
        let item = json!({ "id": "a+1 ü", "town": "Zürich", "n": 1 }).to_string();
        let made = client.write_item(ORDERS, &key, OnConflict::Refuse, item.clone()).await.unwrap();
        assert_eq!(made.status, 201, "{:?}", made.body);
        assert!(made.charge() > 4.0);
        let twice =
            client.write_item(ORDERS, &key, OnConflict::Refuse, item.clone()).await.unwrap();
        assert_eq!(twice.success().unwrap_err().status(), Some(409));
        let again = client.write_item(ORDERS, &key, OnConflict::Replace, item).await.unwrap();
        assert_eq!(again.status, 200);

        let query = QueryText::new("SELECT * FROM c WHERE c.n = @n", &[("@n".into(), json!(1))]);
        for scope in [Scope::Key(&key), Scope::Everywhere] {
            let pages = client.query_all(ORDERS, scope, &query, Some(1)).await.unwrap();
            assert_eq!(pages.iter().map(|page| page.rows().unwrap().len()).sum::<usize>(), 1);
        }
        let ranges = client.ranges(ORDERS).await.unwrap();
        assert_eq!(ranges.len(), 3);
        let mut changes = 0;
        for range in &ranges {
            let feed = client.oldest_changes(ORDERS, &range.id);
            let feed = feed.await.unwrap();
            changes += if feed.status == 304 { 0 } else { feed.rows().unwrap().len() };
        }
        assert_eq!(changes, 1);

        let code = "function f(x) { getContext().getResponse().setBody(x + 1); }";
        client.put_procedure(ORDERS, "plus", "function f() {}").await.unwrap();
        client.put_procedure(ORDERS, "plus", code).await.unwrap();
        let ran = client.execute(ORDERS, "plus", &key, &[json!(41)]).await.unwrap();
        assert_eq!(ran.json().unwrap(), json!(42));
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bulk_requests_answer_line_by_line() {
    let (server, client) = with_container(false).await;
    let range = client.ranges(ORDERS).await.unwrap();
    let mut outcomes = Vec::new();
    for range in &range {
        let mut body = Vec::new();
        for id in ["x", "x"] {
            let item = json!({ "id": id, "town": "Bern" }).to_string();
            bulk_operation(&mut body, &items::Key::of("Bern"), OnConflict::Refuse, item.as_bytes());
        }
        body.push(b']');
        let (_, results) = client.bulk(ORDERS, &range.id, body).await.unwrap();
        outcomes.push(results.iter().map(|line| line.status_code).collect::<Vec<_>>());
    }
    outcomes.sort();
    // One range holds the key; the others say that it is not theirs.
    assert_eq!(outcomes, [vec![201, 409], vec![410, 410], vec![410, 410]]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_checked_unless_told_otherwise() {
    let server = LocalServer::start_in_memory(None).await.unwrap();
    let mut endpoint = server.https_endpoint();
    endpoint.insecure = false;
    let client = Client::new(&endpoint, Arc::new(SystemClock)).unwrap();
    let error = client.ensure_database("shop").await.unwrap_err().to_string();
    assert!(error.contains("does not answer"), "{error}");
    server.stop().await;
}

#[test]
fn endpoints_come_from_flags_or_connection_strings() {
    let text = "AccountEndpoint=https://host:1/;AccountKey=a2V5PT0=;";
    let endpoint = Endpoint::parse(text, false).unwrap();
    assert_eq!((endpoint.base.as_str(), endpoint.key.as_str()), ("https://host:1", "a2V5PT0="));
    assert!(Endpoint::parse("AccountKey=a2V5", false).is_err());
    assert!(Endpoint::new("localhost:8081", "a2V5", false).is_err());
}

#[test]
fn keys_beyond_ascii_are_escaped() {
    assert_eq!(items::Key::of("ü😀").header(), "[\"\\u00fc\\ud83d\\ude00\"]");
}
