//! Ordinary HTTP/1.1 requests.

use crate::support::{Running, head, soon};
use armilla_gateway::limits::Limits;

const ITEM: &str = "/dbs/d/colls/c/docs/1";
const ITEMS: &str = "/dbs/d/colls/c/docs";

#[tokio::test]
async fn one_connection_serves_many_requests() {
    let server = Running::start(Limits::default());
    let mut client = server.connect().await;
    for _ in 0..3 {
        let answer = soon(client.get(ITEM)).await;
        assert_eq!((answer.status, answer.text().as_str()), (200, "{\"id\":\"1\"}"));
        assert_eq!(answer.header("x-ms-request-charge"), Some("1"));
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(answer.header("lsn"), Some("7"));
        assert_eq!(answer.header("x-ms-activity-id").unwrap().len(), 36);
        assert!(answer.header("date").is_some());
    }
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let server = Running::start(Limits::default());
    let mut client = server.connect().await;
    let requests = ["a", "b", "c"].map(|id| head("GET", &format!("{ITEMS}/{id}"), "\r\n"));
    client.send(requests.concat()).await;
    for id in ["a", "b", "c"] {
        assert_eq!(soon(client.answer()).await.unwrap().text(), format!("{{\"id\":\"{id}\"}}"));
    }
}

#[tokio::test]
async fn bodies_come_with_a_length_or_in_chunks() {
    let server = Running::start(Limits::default());
    let mut client = server.connect().await;
    client.send(head("POST", ITEMS, "content-length: 8\r\n\r\n{\"id\":1}")).await;
    let answer = soon(client.answer()).await.unwrap();
    assert_eq!((answer.status, answer.text().as_str()), (201, "{\"id\":1}"));
    let chunked = "transfer-encoding: chunked\r\n\r\n3\r\n{\"i\r\n5\r\nd\":2}\r\n0\r\n\r\n";
    client.send(head("POST", ITEMS, chunked)).await;
    assert_eq!(soon(client.answer()).await.unwrap().text(), "{\"id\":2}");
    // Python announces an empty body on reads and deletes.
    client.send(head("GET", "/dbs/d/colls/c/docs/1/", "content-length: 0\r\n\r\n")).await;
    assert_eq!(soon(client.answer()).await.unwrap().status, 200);
}

/// A connection remembers the last signature that was good. That lets nothing in but the very same request by the very same sender.
#[tokio::test]
async fn credentials_that_are_shown_again_are_good_for_nothing_else() {
    let server = Running::start(Limits::default());
    let mut client = server.connect().await;
    let good = head("POST", ITEMS, "content-length: 2\r\n\r\n{}");
    let forged = good.replacen("sig%3D", "sig%3Dx", 1);
    let elsewhere = good.replacen(ITEMS, "/dbs/d/colls/other/docs", 1);
    let later = good.replacen("19:24:19", "19:24:20", 1);
    let by_another_method = good.replacen("POST", "PUT", 1).replacen(ITEMS, ITEM, 1);
    let unsigned = good.replacen("authorization", "x-authorization", 1);
    // The published key is good for this machine's own user, and for nobody whose request was passed on.
    let passed_on = good.replacen("host:", "x-armilla-from: elsewhere\r\nhost:", 1);
    for (request, status) in [
        (&good, 201),
        (&good, 201),
        (&forged, 401),
        (&good, 201),
        (&elsewhere, 401),
        (&later, 401),
        (&by_another_method, 401),
        (&unsigned, 401),
        (&passed_on, 401),
        (&good, 201),
    ] {
        client.send(request).await;
        let answer = soon(client.answer()).await.unwrap();
        assert_eq!(answer.status, status, "{request} {}", answer.text());
    }
}

#[tokio::test]
async fn answers_without_a_body_leave_the_connection_in_step() {
    let server = Running::start(Limits::default());
    let mut client = server.connect().await;
    client.send(head("DELETE", ITEM, "\r\n")).await;
    let answer = soon(client.answer()).await.unwrap();
    assert_eq!((answer.status, answer.header("content-length")), (204, None));
    let answer = soon(client.get(&format!("{ITEMS}/same"))).await;
    assert_eq!((answer.status, answer.header("etag")), (304, Some("\"e\"")));
    client.send(head("HEAD", ITEM, "\r\n")).await;
    assert_eq!(soon(client.answer_to(false)).await.unwrap().status, 200);
    assert_eq!(soon(client.get(ITEM)).await.status, 200);
}

#[tokio::test]
async fn account_names_the_host_that_was_asked() {
    let server = Running::start(Limits::default());
    let mut client = server.connect().await;
    let answer = soon(client.get("/")).await;
    assert_eq!(answer.status, 200);
    assert!(answer.text().contains("\"databaseAccountEndpoint\":\"http://127.0.0.1:8081/\""));
    assert_eq!(answer.header("etag"), None);
}

#[tokio::test]
async fn failures_have_the_error_form() {
    let server = Running::start(Limits::default());
    let mut client = server.connect().await;
    let own = head("GET", &format!("{ITEMS}/missing"), "x-ms-activity-id: my-own\r\n\r\n");
    client.send(own).await;
    let answer = soon(client.answer()).await.unwrap();
    assert_eq!((answer.status, answer.header("x-ms-substatus")), (404, Some("0")));
    assert_eq!(answer.header("x-ms-activity-id"), Some("my-own"));
    assert_eq!(answer.header("x-ms-session-token"), Some("0:-1#5"));
    assert!(
        answer
            .text()
            .starts_with("{\"code\":\"NotFound\",\"message\":\"Resource Not Found. Entity with")
    );
    assert!(answer.text().contains("\\r\\nActivityId: my-own, armilla/"));

    let answer = soon(client.get("/no/such/path")).await;
    assert_eq!(answer.status, 404);
    client.send(head("PATCH", ITEMS, "\r\n")).await;
    let answer = soon(client.answer()).await.unwrap();
    assert_eq!(answer.status, 405);
    assert!(answer.text().contains("MethodNotAllowed"));
    client.send(head("GET", ITEM, "x-ms-max-item-count: many\r\n\r\n")).await;
    let answer = soon(client.answer()).await.unwrap();
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("x-ms-max-item-count"));
}

#[tokio::test]
async fn panic_is_answered_and_the_connection_lives() {
    let server = Running::start(Limits::default());
    let mut client = server.connect().await;
    let answer = soon(client.get(&format!("{ITEMS}/panic"))).await;
    assert_eq!(answer.status, 500);
    assert!(answer.text().contains(answer.header("x-ms-activity-id").unwrap()));
    assert!(answer.text().contains("Its log has the reason"), "{}", answer.text());
    assert_eq!(soon(client.get(ITEM)).await.status, 200);
}

#[tokio::test]
async fn strangers_see_only_the_open_paths() {
    let server = Running::start(Limits::default());
    let mut client = server.connect().await;
    for (path, status) in [
        ("/alive", 200),
        ("/ready", 200),
        ("/status", 200),
        ("/clientconfigs", 200),
        ("/_explorer/emulator.pem", 200),
        ("//addresses/?$resolveFor=dbs", 400),
        ("/", 401),
        (ITEM, 401),
    ] {
        client.send(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n")).await;
        let answer = soon(client.answer()).await.unwrap();
        assert_eq!(answer.status, status, "{path}");
        match path {
            "//addresses/?$resolveFor=dbs" => assert!(answer.text().contains("Gateway")),
            "/_explorer/emulator.pem" => {
                assert_eq!(answer.text(), server.authority.certificate_pem);
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn browsers_may_ask() {
    let server = Running::start(Limits::default());
    let mut client = server.connect().await;
    let preflight = "OPTIONS /dbs HTTP/1.1\r\nhost: x\r\norigin: http://localhost:3000\r\naccess-control-request-method: POST\r\naccess-control-request-headers: authorization,x-ms-date\r\n\r\n";
    client.send(preflight).await;
    let answer = soon(client.answer()).await.unwrap();
    assert_eq!(answer.status, 204);
    assert_eq!(answer.header("access-control-allow-origin"), Some("http://localhost:3000"));
    let allowed = answer.header("access-control-allow-headers");
    assert_eq!(allowed, Some("authorization,x-ms-date"));
    client.send(head("GET", ITEM, "origin: http://localhost:3000\r\n\r\n")).await;
    let answer = soon(client.answer()).await.unwrap();
    assert_eq!(answer.header("access-control-allow-origin"), Some("http://localhost:3000"));
    assert_eq!(answer.header("access-control-expose-headers"), Some("*"));
}

/// Requests in the common form do not pass through hyper; whoever asks cannot tell by the answer.
#[tokio::test]
async fn both_ways_of_http1_answer_alike() {
    let server = Running::start(Limits::default());
    let body = "content-length: 8\r\n\r\n{\"id\":1}";
    let missing = format!("{ITEMS}/missing");
    let same = format!("{ITEMS}/same");
    let panics = format!("{ITEMS}/panic");
    for (method, path, rest) in [
        ("GET", ITEM, "\r\n"),
        ("GET", missing.as_str(), "\r\n"),
        ("GET", same.as_str(), "\r\n"),
        ("GET", panics.as_str(), "\r\n"),
        ("GET", "/", "\r\n"),
        ("GET", "/alive", "\r\n"),
        ("GET", "/no/such/path", "\r\n"),
        ("GET", "/dbs/%zz", "\r\n"),
        ("DELETE", ITEM, "\r\n"),
        ("PATCH", ITEMS, "\r\n"),
        ("POST", ITEMS, body),
    ] {
        let path_signed = if path.contains("%zz") { "/dbs/x" } else { path };
        let mut answers = Vec::new();
        // A client that says so takes trailers, which the fast path knows nothing of.
        for uncommon in ["", "te: trailers\r\n"] {
            let mut client = server.connect().await;
            let more = format!("{uncommon}x-ms-activity-id: my-own\r\n{rest}");
            client.send(head(method, path_signed, &more).replace(path_signed, path)).await;
            let answer = soon(client.answer()).await.unwrap();
            let mut lines: Vec<String> = answer.head.lines().map(str::to_owned).collect();
            lines.retain(|line| !line.starts_with("date:") && !line.contains("duration"));
            lines.sort();
            answers.push((lines, answer.text()));
        }
        assert_eq!(answers[0], answers[1], "{method} {path}");
    }
}
