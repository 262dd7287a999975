//! Subscriptions over the wire: the resource, what is done with it, and webhooks that answer in every way.

use crate::support::{Answer, Armilla};
use armilla_gateway::webhooks::hosts::AllowedHosts;
use armilla_gateway::webhooks::{Webhooks, signature};
use armilla_model::{Value, json};
use rustls::{ClientConfig, RootCertStore};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::runtime::Handle;

const SUBS: &str = "/_armilla/subs/dbs/blog/colls/posts";
const PATIENCE: Duration = Duration::from_secs(60);

/// A request that a receiver got: its head in lower case, and its body.
type Got = (String, Value);

/// Somebody who is called: answers requests one after the other with what is in the list, the last of it for
/// ever.
struct Receiver {
    port: u16,
    got: Arc<Mutex<Vec<Got>>>,
}

impl Receiver {
    async fn start(answers: Vec<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let got: Arc<Mutex<Vec<Got>>> = Arc::default();
        let kept = got.clone();
        tokio::spawn(async move {
            loop {
                let (mut socket, _) = listener.accept().await.unwrap();
                let (head, body) = read(&mut socket).await;
                let answer = {
                    let mut kept = kept.lock().unwrap();
                    kept.push((head.to_ascii_lowercase(), json::parse(body.as_bytes()).unwrap()));
                    answers[(kept.len() - 1).min(answers.len() - 1)].clone()
                };
                // A client that has read enough may be gone.
                let _gone = socket.write_all(answer.as_bytes()).await;
            }
        });
        Self { port, got }
    }

    fn got(&self) -> Vec<Got> {
        self.got.lock().unwrap().clone()
    }
}

async fn read(socket: &mut tokio::net::TcpStream) -> (String, String) {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let count = socket.read(&mut buffer).await.unwrap();
        bytes.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let lower = head.to_ascii_lowercase();
        let length = lower.split("content-length: ").nth(1).unwrap().lines().next().unwrap();
        if body.len() >= length.trim().parse::<usize>().unwrap() {
            return (head.to_owned(), body.to_owned());
        }
    }
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{headers}\r\n{body}")
}

async fn armilla(hosts: &[&str]) -> Armilla {
    let armilla = Armilla::with_posts().await;
    let tls =
        ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
    let hosts = AllowedHosts::parse(hosts.iter().copied()).unwrap();
    let webhooks = Webhooks::new(hosts, Arc::new(tls), Handle::current());
    armilla.account.set_courier(Box::new(webhooks));
    let dead = r#"{"id":"dead","partitionKey":{"paths":["/subscription"]}}"#;
    armilla.post("/dbs/blog/colls", dead).await.expect(201);
    armilla
}

async fn write(armilla: &Armilla, id: &str) {
    let item = format!(r#"{{"id":"{id}","postId":"p","title":"t{id}"}}"#);
    let key = ("x-ms-documentdb-partitionkey", r#"["p"]"#);
    armilla.send("POST", "/dbs/blog/colls/posts/docs", &[key], &item).await.expect(201);
}

async fn settle(armilla: &Armilla) {
    let account = armilla.account.clone();
    let settled = tokio::task::spawn_blocking(move || account.settle_subscriptions(PATIENCE));
    assert!(settled.await.unwrap(), "the subscriptions do not come to an end");
}

async fn status(armilla: &Armilla) -> Answer {
    armilla.get(&format!("{SUBS}/s/status")).await.expect(200)
}

fn number(answer: &Answer, name: &str) -> i64 {
    answer.json().get(name).and_then(Value::as_i64).unwrap()
}

fn hook(port: u16, rest: &str) -> String {
    format!(
        r#"{{"id":"s","target":{{"kind":"webhook","url":"http://127.0.0.1:{port}/h?x=1","secret":"whsec","headers":{{"x-team":"shop"}},"timeoutSeconds":2}},
            "retry":{{"maxAttempts":3,"minDelayMs":1,"maxDelayMs":5}}{rest}}}"#
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn the_resource_is_made_read_replaced_listed_and_deleted() {
    let armilla = armilla(&["http://127.0.0.1"]).await;
    let created = armilla.post(SUBS, &hook(9, "")).await.expect(201);
    assert!(created.json().get("target").unwrap().get("secret").unwrap() == &Value::Null);
    assert_eq!(created.text("_self").rsplit('/').nth(2).unwrap(), "subs");
    armilla.post(SUBS, &hook(9, "")).await.expect(409);
    let misspelt = armilla.post(SUBS, &hook(9, r#","retyr":{}"#)).await.expect(400);
    assert!(misspelt.body.contains("retyr"), "{}", misspelt.body);
    let read = armilla.get(&format!("{SUBS}/s")).await.expect(200);
    assert_eq!(read.text("_etag"), created.text("_etag"));
    let by_rid = armilla.get(&format!("{SUBS}/{}", created.text("_rid"))).await.expect(200);
    assert_eq!(by_rid.text("id"), "s");
    let path = format!("{SUBS}/s");
    let stale = ("if-match", "\"00000000-0000-0000-0000-000000000000\"");
    armilla.send("PUT", &path, &[stale], &hook(9, "")).await.expect(412);
    let replaced = armilla.put(&path, &hook(9, r#","parallel":2"#)).await.expect(200);
    assert_eq!(number(&replaced, "parallel"), 2);
    let view = r#"{"id":"v","partitionKey":{"paths":["/title"]},"materializedViewDefinition":{"sourceCollectionId":"posts","definition":"SELECT c.title FROM c"}}"#;
    armilla.post("/dbs/blog/colls", view).await.expect(201);
    let listed = armilla.get(SUBS).await.expect(200).rows("Subscriptions");
    let kinds: Vec<_> = listed
        .iter()
        .map(|row| row.get("target").unwrap().get("kind").unwrap().to_json())
        .collect();
    assert_eq!(kinds, [r#""webhook""#, r#""view""#]);
    let container = armilla.get("/dbs/blog/colls/posts").await.expect(200);
    assert!(!container.body.contains("whsec") && !container.body.contains("subs/"));
    armilla.send("DELETE", &path, &[stale], "").await.expect(412);
    armilla.delete(&path).await.expect(204);
    armilla.get(&path).await.expect(404);
    armilla.get(&format!("{path}/status")).await.expect(404);
    armilla.send("PATCH", &path, &[], "{}").await.expect(405);
    armilla.get("/_armilla/subs/dbs/blog/colls/none").await.expect(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_is_called_signed_and_its_answers_count() {
    let ok = answer("200 OK", "", "{}");
    let later = answer("429 Too Many", "retry-after: 0\r\n", "slow down");
    let receiver = Receiver::start(vec![later, ok]).await;
    let named = format!("http://127.0.0.1:{}", receiver.port);
    let armilla = armilla(&[&named]).await;
    armilla
        .post(SUBS, &hook(receiver.port, r#","project":"SELECT c.id, c.title FROM c""#))
        .await
        .expect(201);
    armilla.post(SUBS, &hook(receiver.port + 1, "").replace("\"s\"", "\"t\"")).await.expect(400);
    write(&armilla, "1").await;
    settle(&armilla).await;
    let got = receiver.got();
    assert_eq!(got.len(), 2);
    for (attempt, (head, body)) in got.iter().enumerate() {
        assert!(head.starts_with("post /h?x=1 http/1.1"), "{head}");
        let header = |name: &str| {
            let line = head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
            line.unwrap_or_else(|| panic!("{name} in {head}")).to_owned()
        };
        assert_eq!(header("x-team"), "shop");
        assert_eq!(header("content-type"), "application/json");
        assert_eq!(header("x-armilla-attempt"), (attempt + 1).to_string());
        assert_eq!(header("x-armilla-delivery").len(), 36);
        let timestamp = header("x-armilla-timestamp").parse().unwrap();
        let signed = signature("whsec", timestamp, body.to_json().as_bytes());
        assert_eq!(header("x-armilla-signature"), signed);
        let entry = &body.get("entries").unwrap().as_array().unwrap()[0];
        assert_eq!(entry.get("item").unwrap().to_json(), r#"{"id":"1","title":"t1"}"#);
        assert_eq!(entry.get("partitionKey").unwrap().to_json(), r#"["p"]"#);
        assert_eq!(body.get("container").unwrap().as_str(), Some("posts"));
    }
    let told = status(&armilla).await;
    assert_eq!(
        (told.text("state"), number(&told, "delivered"), number(&told, "retried")),
        ("running".into(), 1, 1)
    );
    assert!(told.body.contains("\"status\":429"), "{}", told.body);
    let metrics = armilla.get("/metrics").await.expect(200).body;
    let line = r#"armilla_subscription_entries_total{database="blog",container="posts",subscription="s",outcome="delivered"} 1"#;
    assert!(metrics.contains(line), "{metrics}");
    assert!(metrics.contains("armilla_subscription_lag_seconds{"));
}

#[tokio::test(flavor = "multi_thread")]
async fn redirects_and_refusals_become_dead_letters_that_can_be_redriven() {
    let moved = answer("302 Found", "location: http://127.0.0.1:1/\r\n", "");
    let ok = answer("204 No Content", "", "");
    let receiver = Receiver::start(vec![moved, answer("400 Bad", "", "no"), ok]).await;
    let armilla = armilla(&["http://127.0.0.1"]).await;
    armilla
        .post(
            SUBS,
            &hook(receiver.port, r#","deadLetter":{"container":"dead"},"batch":{"maxItems":1}"#),
        )
        .await
        .expect(201);
    write(&armilla, "1").await;
    settle(&armilla).await;
    write(&armilla, "2").await;
    settle(&armilla).await;
    assert_eq!(receiver.got().len(), 2, "neither was tried again, and no redirect was followed");
    let dead = armilla.get(&format!("{SUBS}/s/dead")).await.expect(200);
    assert_eq!(number(&dead, "count"), 2);
    let redriven = armilla.post(&format!("{SUBS}/s/redrive"), "{}").await.expect(200);
    assert_eq!((number(&redriven, "delivered"), receiver.got().len()), (2, 4));
    let dead = armilla.get(&format!("{SUBS}/s/dead")).await.expect(200);
    assert_eq!(number(&dead, "count"), 0);
    armilla.post(&format!("{SUBS}/s/redrive"), r#"{"ids":["0:1:0"]}"#).await.expect(404);
    armilla.post(&format!("{SUBS}/s/redrive"), r#"{"ids":1}"#).await.expect(400);
}

#[tokio::test(flavor = "multi_thread")]
async fn huge_answers_are_good_ones_and_slow_ones_are_not() {
    let huge = answer("200 OK", "", &"x".repeat(1 << 20));
    let slow = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf".to_owned();
    let gone = answer("410 Gone", "", "");
    let receiver = Receiver::start(vec![huge, slow, gone]).await;
    let armilla = armilla(&["http://127.0.0.1"]).await;
    armilla.post(SUBS, &hook(receiver.port, "")).await.expect(201);
    write(&armilla, "1").await;
    settle(&armilla).await;
    assert_eq!(number(&status(&armilla).await, "delivered"), 1);
    write(&armilla, "2").await;
    while status(&armilla).await.text("state") != "stopped" {
        let account = armilla.account.clone();
        let settled = move || account.settle_subscriptions(Duration::from_millis(10));
        tokio::task::spawn_blocking(settled).await.unwrap();
    }
    let told = status(&armilla).await;
    assert_eq!(
        (told.text("reason"), number(&told, "delivered"), receiver.got().len()),
        ("gone".into(), 1, 3)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn pausing_answers_when_nothing_is_under_way_and_rewinding_brings_it_again() {
    let receiver = Receiver::start(vec![answer("200 OK", "", "")]).await;
    let armilla = armilla(&["http://127.0.0.1"]).await;
    armilla.post(SUBS, &hook(receiver.port, "")).await.expect(201);
    write(&armilla, "1").await;
    settle(&armilla).await;
    let at = |verb: &str| format!("{SUBS}/s/{verb}");
    armilla.post(&at("rewind"), r#"{"to":"beginning"}"#).await.expect(409);
    let (pause, account) = (at("pause"), armilla.account.clone());
    let drive = async {
        loop {
            account.follow_subscriptions();
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        paused = armilla.post(&pause, "") => drop(paused.expect(204)),
        () = drive => {}
    }
    assert_eq!(status(&armilla).await.text("state"), "paused");
    armilla.post(&at("rewind"), r#"{"to":"sometime"}"#).await.expect(400);
    armilla.post(&at("rewind"), r#"{"to":"beginning"}"#).await.expect(204);
    armilla.post(&at("resume"), "").await.expect(204);
    settle(&armilla).await;
    assert_eq!(receiver.got().len(), 2);
    let tried = armilla.post(&at("try"), r#"{"last":1}"#).await.expect(200);
    assert!(tried.body.contains(r#""delivered":true"#), "{}", tried.body);
    armilla.post(&at("try"), "{}").await.expect(400);
}
