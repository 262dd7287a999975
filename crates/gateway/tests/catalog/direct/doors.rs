//! Who gets in, and what ends a connection: negotiation, bounds, garbage, foreign names, addresses.

use super::client::{Client, Frame, Known, MASTER, addresses, signature};
use crate::rows::{CREATE, DELETE, Operation, PATCH, READ, REPLACE, UPSERT, outcomes, stream};
use crate::support::{Armilla, encoded};
use armilla_engine::Options;
use armilla_gateway::auth::WELL_KNOWN_KEY;
use armilla_gateway::direct::DirectMode;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

async fn blog() -> (Armilla, Known) {
    let armilla = Armilla::direct().and_posts().await;
    let known = Known::read(&armilla, "blog", "posts").await;
    (armilla, known)
}

#[tokio::test]
async fn another_version_of_the_protocol_is_refused_in_words() {
    let armilla = Armilla::direct();
    let mut client = Client::raw(&armilla, "localhost").await;
    let refused = client.negotiate(2).await.unwrap();
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("Version 1"), "{}", refused.text());
    assert!(client.receive().await.is_none(), "and then closed");
}

#[tokio::test]
async fn what_cannot_be_read_ends_the_connection_and_no_other() {
    let (armilla, known) = blog().await;
    let mut healthy = Client::connect(&armilla).await;
    let read = known.item("Read", "[\"p\"]", "a");
    let context = {
        let mut bytes = vec![24, 0, 0, 0, 0, 0, 0, 0];
        bytes.resize(24, 7);
        bytes
    };
    let request = read.bytes(1);
    let mut damaged = request.clone();
    damaged[26] = 0xff;
    let huge = [0xff, 0xff, 0xff, 0x7f, 3, 0, 3, 0];
    for bytes in [&damaged[..], &huge, &context] {
        let mut client = Client::connect(&armilla).await;
        client.write(bytes).await;
        assert!(client.receive().await.is_none(), "{:x?}", &bytes[..8]);
    }
    // A request before its time, and garbage that is no HTTP either.
    for bytes in [&request[..], &[24, 0, 0, 0, 0, 0, 0, 0, 1]] {
        let mut client = Client::raw(&armilla, "localhost").await;
        client.write(bytes).await;
        let _ = tokio::time::timeout(std::time::Duration::from_millis(200), client.receive()).await;
    }
    healthy.call(&read).await.refused(404, 0);
}

#[tokio::test]
async fn payloads_that_are_too_large_are_answered() {
    let (armilla, known) = blog().await;
    let mut client = Client::connect(&armilla).await;
    let item = |size: usize| format!(r#"{{"id":"a","postId":"p","t":"{}"}}"#, "x".repeat(size));
    let large = known.create("[\"p\"]", &item(1_900_000));
    client.call(&large).await.expect(201);
    let read = client.call(&known.item("Read", "[\"p\"]", "a")).await.expect(200);
    assert!(read.payload.len() > 1_900_000);
    client.call(&known.create("[\"p\"]", &item(2_200_000))).await.refused(413, 0);
    client.call(&known.create("[\"p\"]", &item(3_000_000))).await.refused(413, 0);
    client.call(&known.item("Read", "[\"p\"]", "a")).await.expect(200);
}

#[tokio::test]
async fn plain_connections_are_not_spoken_to() {
    let (armilla, known) = blog().await;
    let mut stream = TcpStream::connect(armilla.direct_address()).await.unwrap();
    let _ = stream.write_all(&known.item("Read", "[\"p\"]", "a").bytes(1)).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 400"), "{answer:x?}");
}

#[tokio::test]
async fn http_goes_on_at_the_same_port_inside_tls() {
    let (armilla, _) = blog().await;
    let mut client = Client::raw(&armilla, "localhost").await;
    client.write(b"GET /alive HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await;
    let answer = client.text().await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn a_name_that_the_server_does_not_have_is_misdirected() {
    use armilla_gateway::Settings;
    use armilla_gateway::auth::{Authenticator, MasterKeys, WellKnownKey};
    use armilla_gateway::locality::HostNames;
    let host_names = HostNames::new(Vec::new(), true);
    let settings = Settings { host_names, direct: DirectMode::SamePort, ..Settings::default() };
    let keys = MasterKeys::new(WellKnownKey::OnLoopback);
    let store = std::sync::Arc::new(armilla_storage::MemoryStore::new());
    let armilla = Armilla::guarded(
        store,
        Options::default(),
        |service| service,
        Authenticator::new(keys, &[1; 32]),
        settings,
    );
    let read = Frame::new("Database", "ReadFeed", MASTER).signed("GET", "dbs", "");
    let mut foreign = Client::connect_as(&armilla, "db.example").await;
    foreign.call(&read).await.refused(421, 0);
    let mut own = Client::connect_as(&armilla, "127.0.0.1").await;
    own.call(&read).await.expect(200);
}

#[tokio::test]
async fn addresses_are_told_to_those_who_may_know() {
    let (armilla, known) = blog().await;
    let paths = addresses(&armilla, &known.rid, "0").await;
    assert!(paths[0].ends_with("/1p") && paths[1].ends_with("/2s"), "{paths:?}");
    let database =
        armilla_model::rid::encode(&armilla_model::rid::decode(&known.rid).unwrap()[..4]);
    let resolve = format!("dbs/{database}/colls/{}/docs", known.rid);
    let ask = async |resolve: &str, ranges: &str, authorization: &str| {
        // .NET writes its escapes in small letters and doubles the slash.
        let resolve = small_escapes(&encoded(resolve));
        let path = format!(
            "//addresses/?$resolveFor={resolve}&$filter=protocol%20eq%20rntbd&$partitionKeyRangeIds={ranges}"
        );
        armilla.send_as(authorization, "GET", &path, &[("x-ms-force-refresh", "True")], "").await
    };
    let link = known.rid.to_ascii_lowercase();
    let signed = signature(WELL_KNOWN_KEY, "GET", "docs", &link);
    ask(&resolve, "0", &signed).await.expect(200);
    ask(&resolve, "7", &signed).await.refused(410, 1002);
    ask(&resolve, "0", &signature(WELL_KNOWN_KEY, "GET", "docs", "other")).await.expect(401);
    ask(&resolve, "0", "").await.expect(401);
    let missing = format!("dbs/{database}/colls/{}/docs", "AAAAAYAAAAk=");
    let of_missing = signature(WELL_KNOWN_KEY, "GET", "docs", "aaaaayaaaak=");
    ask(&missing, "0", &of_missing).await.expect(404);
    // A resource token, of the container or of one key, by name.
    armilla.post("/dbs/blog/users", r#"{"id":"mary"}"#).await.expect(201);
    for (name, more) in [("all", ""), ("key", r#","resourcePartitionKey":["p"]"#)] {
        let permission = format!(
            r#"{{"id":"{name}","permissionMode":"Read","resource":"dbs/blog/colls/posts"{more}}}"#
        );
        let answer = armilla.post("/dbs/blog/users/mary/permissions", &permission).await;
        if answer.status == 409 {
            continue;
        }
        let token = encoded(&answer.expect(201).text("_token"));
        ask(&resolve, "0", &token).await.expect(200);
        ask("dbs", "", &token).await.expect(403);
    }
}

/// As over HTTP: each row is asked for its key, whatever the request says.
#[tokio::test]
async fn a_token_for_one_key_is_held_to_it_in_bulk() {
    let (armilla, known) = blog().await;
    let mut client = Client::connect(&armilla).await;
    client.call(&known.create("[\"t2\"]", r#"{"id":"b","postId":"t2"}"#)).await.expect(201);
    armilla.post("/dbs/blog/users", r#"{"id":"mary"}"#).await.expect(201);
    let permission = r#"{"id":"p","permissionMode":"All","resource":"dbs/blog/colls/posts","resourcePartitionKey":["t1"]}"#;
    let made = armilla.post("/dbs/blog/users/mary/permissions", permission).await.expect(201);
    let token = encoded(&made.text("_token"));
    let patch: &[u8] = br#"{"operations":[{"op":"set","path":"/x","value":1}]}"#;
    let (mine, theirs) = (br#"{"id":"b","postId":"t1"}"#, br#"{"id":"b","postId":"t2"}"#);
    let rows = |key: &'static str, item: &'static [u8]| {
        let row =
            |kind, id, body| Operation { kind, key: Some(key), id, body, ..Operation::default() };
        [
            row(UPSERT, None, Some(item)),
            row(READ, Some("b"), None),
            row(CREATE, None, Some(item)),
            row(REPLACE, Some("b"), Some(item)),
            row(PATCH, Some("b"), Some(patch)),
            row(DELETE, Some("b"), None),
        ]
    };
    let frame = known.frame("Batch", &known.ranges[0].path).with("PartitionKeyRangeId", "0");
    let frame = frame.with("IsBatchAtomic", 0).with("ShouldBatchContinueOnError", 1);
    let frame = frame.with("AuthorizationToken", &*token);
    for frame in [frame.clone(), frame.clone().with("PartitionKey", "[\"t1\"]")] {
        let body = stream(&rows("[\"t2\"]", theirs));
        let answer = client.call(&frame.payload(body)).await.expect(207);
        let statuses: Vec<_> = outcomes(&answer.payload).iter().map(|row| row.status).collect();
        assert_eq!(statuses, [403; 6]);
    }
    client.call(&known.item("Read", "[\"t2\"]", "b")).await.expect(200);
    let mut mixed = rows("[\"t1\"]", mine).to_vec();
    mixed.insert(5, rows("[\"t2\"]", theirs)[1].clone());
    let answer = client.call(&frame.payload(stream(&mixed))).await.expect(207);
    let statuses: Vec<_> = outcomes(&answer.payload).iter().map(|row| row.status).collect();
    assert_eq!(statuses, [201, 200, 409, 200, 200, 403, 204]);
}

#[tokio::test]
async fn without_direct_mode_clients_are_told_what_to_do() {
    let armilla = Armilla::start().and_posts().await;
    let answer = armilla.get("/addresses/?$resolveFor=dbs").await.expect(400);
    assert!(answer.text("message").contains("Gateway"), "{}", answer.body);
}

#[tokio::test]
async fn direct_mode_may_have_a_port_of_its_own() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let armilla =
        Armilla::direct_with(Options::default(), DirectMode::Port(free)).and_posts().await;
    let known = Known::read(&armilla, "blog", "posts").await;
    let mut client = Client::connect(&armilla).await;
    client.call(&known.create("[\"p\"]", r#"{"id":"a","postId":"p"}"#)).await.expect(201);
    let metrics = armilla.get("/metrics").await.expect(200).body;
    assert!(metrics.contains("armilla_direct_connections_total 1"), "{metrics}");
}

/// `%2F` as `%2f`; everything else stays.
fn small_escapes(text: &str) -> String {
    let mut out = String::new();
    let mut escaped = 0;
    for letter in text.chars() {
        escaped = if letter == '%' { 2 } else { escaped };
        let is_digit = escaped > 0 && letter != '%';
        out.push(if is_digit { letter.to_ascii_lowercase() } else { letter });
        escaped -= i32::from(is_digit);
    }
    out
}
