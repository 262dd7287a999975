//! A node that does not own the account: its doors, and how it passes requests on.

use super::support::{Answer, Client, DATE, NOW, Stub, authorization, head, soon};
use armilla_gateway::activity::ActivityIds;
use armilla_gateway::auth::{Access, Authenticator, MasterKeys, WELL_KNOWN_KEY, WellKnownKey};
use armilla_gateway::cluster::{Front, LateService, NodeGauges, OwnerPlace, OwnerPlaces};
use armilla_gateway::serve::Protocols;
use armilla_gateway::{Gateway, Server, Settings};
use armilla_model::clock::ManualClock;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const ITEMS: &str = "/dbs/d/colls/c/docs";

/// A node, whose front is told by the test who owns the account.
struct Node {
    address: SocketAddr,
    places: OwnerPlaces,
    late: LateService<Stub>,
    holds_lease: Arc<AtomicBool>,
    gauges: Arc<NodeGauges>,
}

impl Node {
    fn start(name: &str) -> Self {
        Self::start_with(name, None)
    }

    /// A node that may have a port for health checks.
    fn start_with(name: &str, health_port: Option<u16>) -> Self {
        let holds_lease = Arc::new(AtomicBool::new(true));
        let late = LateService::new();
        // The account's own key, as nodes have it: it happens to be the one that the requests here are signed with.
        let mut keys = MasterKeys::new(WellKnownKey::Nowhere);
        keys.add(WELL_KNOWN_KEY, Access::ReadWrite).unwrap();
        let (front, places) = Front::new(name, rustls::RootCertStore::empty()).unwrap();
        let gauges = front.gauges();
        gauges.note_lease(Duration::from_secs(3600));
        let gateway = Gateway {
            service: late.clone(),
            settings: Settings { front: Some(Arc::new(front)), health_port, ..Settings::default() },
            authenticator: Arc::new(Authenticator::new(keys, &[1; 32])),
            clock: Arc::new(ManualClock::at_seconds(NOW)),
            activity_ids: ActivityIds::new(1),
        };
        let any_port = ["127.0.0.1:0".parse().unwrap()];
        let server = Server::bind(&any_port, Protocols::Plain, gateway).unwrap();
        let address = server.local_addresses().unwrap()[0];
        tokio::spawn(server.run(std::future::pending()));
        Self { address, places, late, holds_lease, gauges }
    }

    /// Two nodes, the second of which owns the account.
    fn pair() -> (Self, Self) {
        let (standby, owner) = (Self::start("standby"), Self::start("owner"));
        let asked = owner.holds_lease.clone();
        owner.late.begin(Stub::new(), Arc::new(move || asked.load(Ordering::SeqCst)));
        owner.places.send_replace(OwnerPlace::Here);
        standby.follow(owner.address);
        (standby, owner)
    }

    fn follow(&self, owner: SocketAddr) {
        self.places.send_replace(OwnerPlace::Elsewhere(format!("http://{owner}").parse().unwrap()));
    }

    async fn ask(&self, request: String) -> Answer {
        let mut client = Client { stream: TcpStream::connect(self.address).await.unwrap() };
        client.send(request).await;
        soon(client.answer()).await.unwrap()
    }

    async fn get(&self, path: &str) -> Answer {
        self.ask(head("GET", path, "\r\n")).await
    }

    async fn create(&self, body: &str) -> Answer {
        self.ask(head("POST", ITEMS, &format!("content-length: {}\r\n\r\n{body}", body.len())))
            .await
    }
}

#[tokio::test]
async fn any_node_answers_what_the_owner_answers() {
    let (standby, owner) = Node::pair();
    for node in [&standby, &owner] {
        let found = node.get(&format!("{ITEMS}/a")).await;
        assert_eq!((found.status, found.text().as_str()), (200, "{\"id\":\"a\"}"));
        assert_eq!(found.header("x-ms-request-charge"), Some("1"));
        let made = node.create("{\"id\":\"b\"}").await;
        assert_eq!((made.status, made.text().as_str()), (201, "{\"id\":\"b\"}"));
        let missing = node.get(&format!("{ITEMS}/missing")).await;
        assert_eq!((missing.status, missing.header("x-ms-session-token").is_some()), (404, true));
        assert_eq!(node.get("/alive").await.status, 200);
        assert_eq!(node.get("/ready").await.status, 200);
    }
}

#[tokio::test]
async fn a_node_that_has_lost_sight_of_the_owner_is_not_ready_and_still_passes_on() {
    let (standby, owner) = Node::pair();
    standby.gauges.note_lease(Duration::ZERO);
    assert_eq!(standby.get("/ready").await.status, 503);
    assert_eq!(standby.get("/alive").await.status, 200);
    assert_eq!(standby.get(&format!("{ITEMS}/a")).await.status, 200);
    assert_eq!(owner.get("/ready").await.status, 200);
    standby.gauges.note_lease(Duration::from_secs(3600));
    assert_eq!(standby.get("/ready").await.status, 200);
}

#[tokio::test]
async fn an_owner_that_vanishes_in_the_middle_of_its_answer_is_not_waited_for() {
    let (standby, owner) = Node::pair();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    standby.follow(listener.local_addr().unwrap());
    // Chunks are not passed on as the bytes that came.
    let framed = "transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n";
    let (written, _stream) = tokio::join!(standby.ask(head("POST", ITEMS, framed)), async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read_buf(&mut Vec::with_capacity(4096)).await.unwrap();
        stream.write_all(b"HTTP/1.1 201 Created\r\ncontent-length: 9\r\n\r\n{").await.unwrap();
        standby.follow(owner.address);
        stream
    });
    assert_eq!(written.status, 408, "{}", written.text());
}

#[tokio::test]
async fn a_stranger_is_refused_where_it_comes_and_its_body_goes_nowhere() {
    let standby = Node::start("standby");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    standby.follow(listener.local_addr().unwrap());
    let unsigned = format!(
        "POST {ITEMS} HTTP/1.1\r\nhost: localhost\r\nx-ms-date: {DATE}\r\nauthorization: {}\r\ncontent-length: 2\r\n\r\n{{}}",
        authorization("POST", "/dbs/other/colls/c/docs")
    );
    assert_eq!(standby.ask(unsigned).await.status, 401);
    let nobody = tokio::time::timeout(Duration::from_millis(50), listener.accept()).await;
    assert!(nobody.is_err(), "the owner was asked");
}

#[tokio::test]
async fn what_is_passed_on_is_marked_and_otherwise_as_it_came() {
    let standby = Node::start("standby");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    standby.follow(listener.local_addr().unwrap());
    let owner = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 4096];
        let length = stream.read(&mut request).await.unwrap();
        let answer = b"HTTP/1.1 204 No Content\r\nx-own: 1\r\nconnection: close\r\n\r\n";
        stream.write_all(answer).await.unwrap();
        String::from_utf8(request[..length].to_vec()).unwrap()
    };
    let more = "x-forwarded-proto: https\r\nconnection: x-hop\r\nx-hop: 1\r\n\r\n";
    let path = format!("{ITEMS}/a%20b");
    let (asked, answer) = soon(async {
        tokio::join!(owner, async {
            let mut client = Client { stream: TcpStream::connect(standby.address).await.unwrap() };
            client.send(head("DELETE", &path, more)).await;
            client.answer_to(false).await.unwrap()
        })
    })
    .await;
    assert_eq!((answer.status, answer.header("x-own")), (204, Some("1")));
    let asked = asked.to_lowercase();
    assert!(asked.starts_with("delete /dbs/d/colls/c/docs/a%20b http/1.1\r\n"), "{asked}");
    for line in ["host: localhost:8081", "x-armilla-from: standby", "x-forwarded-proto: http"] {
        assert!(asked.contains(&format!("\r\n{line}\r\n")), "{line}: {asked}");
    }
    assert!(asked.contains("\r\nauthorization: type%3dmaster"), "{asked}");
    assert!(!asked.contains("x-hop"), "{asked}");
}

#[tokio::test]
async fn a_request_is_passed_on_once_and_no_further() {
    let (first, second) = (Node::start("first"), Node::start("second"));
    second.follow(first.address);
    let passed = second.ask(head("GET", ITEMS, "x-armilla-from: first\r\n\r\n")).await;
    assert_eq!((passed.status, passed.header("x-armilla-not-owner")), (421, Some("1")));
    // Each takes the other for the owner: the request is held, and then told to come back.
    first.follow(second.address);
    let told = first.get(ITEMS).await;
    assert_eq!((told.status, told.header("x-ms-substatus")), (429, Some("3200")));
    assert_eq!(told.header("x-ms-retry-after-ms"), Some("1000"));
}

#[tokio::test]
async fn a_request_waits_for_the_next_owner() {
    let (standby, owner) = Node::pair();
    standby.places.send_replace(OwnerPlace::Nobody);
    assert_eq!(standby.get("/ready").await.status, 503);
    assert_eq!(standby.get("/alive").await.status, 200);
    let path = format!("{ITEMS}/a");
    let (answer, ()) = tokio::join!(standby.get(&path), async {
        // Pause: the request shall be held when the owner appears; it is answered in any case.
        tokio::time::sleep(Duration::from_millis(100)).await;
        standby.follow(owner.address);
    });
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn a_write_whose_answer_is_lost_is_told_so_and_a_read_is_asked_again() {
    let (standby, owner) = Node::pair();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    standby.follow(listener.local_addr().unwrap());
    let break_off = || async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 4096]).await;
    };
    let (written, ()) = tokio::join!(standby.create("{\"id\":\"b\"}"), break_off());
    assert_eq!(written.status, 408, "{}", written.text());
    let path = format!("{ITEMS}/a");
    let (read, ()) = tokio::join!(standby.get(&path), async {
        break_off().await;
        standby.follow(owner.address);
    });
    assert_eq!(read.status, 200);
}

#[tokio::test]
async fn a_write_that_the_owner_of_before_has_done_is_told_and_a_read_is_asked_again_at_once() {
    let (standby, owner) = Node::pair();
    for is_plain in [true, false] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let before = listener.local_addr().unwrap();
        standby.follow(before);
        let body = "{\"id\":\"b\"}";
        // Chunks are not passed on as the bytes that came.
        let framed = match is_plain {
            true => format!("content-length: {}\r\n\r\n{body}", body.len()),
            false => format!("transfer-encoding: chunked\r\n\r\na\r\n{body}\r\n0\r\n\r\n"),
        };
        let (written, mut connection) =
            tokio::join!(standby.ask(head("POST", ITEMS, &framed)), async {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = Vec::new();
                while !request.windows(body.len()).any(|part| part == body.as_bytes()) {
                    assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0);
                }
                standby.follow(owner.address);
                // Pause: the standby shall know of it before the answer comes.
                tokio::time::sleep(Duration::from_millis(100)).await;
                let answer = b"HTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n";
                stream.write_all(answer).await.unwrap();
                stream
            });
        assert_eq!(written.status, 201, "{}", written.text());
        // Held open, and silent.
        standby.follow(before);
        let (path, mut asked) = (format!("{ITEMS}/a"), [0; 4096]);
        let (read, ()) = tokio::join!(standby.get(&path), async {
            tokio::select! {
                _ = connection.read(&mut asked) => {}
                _ = listener.accept() => {}
            }
            standby.follow(owner.address);
        });
        assert_eq!(read.status, 200);
    }
}

#[tokio::test]
async fn a_request_that_meets_the_moment_of_a_handover_is_asked_elsewhere() {
    let (standby, owner) = Node::pair();
    let next = Node::start("next");
    next.late.begin(Stub::new(), Arc::new(|| true));
    next.places.send_replace(OwnerPlace::Here);
    let body = "{\"id\":\"b\"}";
    // Chunks do not take the quick way.
    let create = format!("transfer-encoding: chunked\r\n\r\na\r\n{body}\r\n0\r\n\r\n");
    for node in [&standby, &owner] {
        standby.follow(owner.address);
        owner.places.send_replace(OwnerPlace::Here);
        // It has given the account up, and has yet to say so.
        owner.late.shut();
        let (written, ()) = tokio::join!(node.ask(head("POST", ITEMS, &create)), async {
            // Pause: the request shall meet the gate before; it is answered in any case.
            tokio::time::sleep(Duration::from_millis(100)).await;
            owner.follow(next.address);
            standby.follow(next.address);
        });
        assert_eq!((written.status, written.text().as_str()), (201, body));
    }
}

#[tokio::test]
async fn an_owner_without_its_lease_reads_nothing_out() {
    let (standby, owner) = Node::pair();
    owner.holds_lease.store(false, Ordering::SeqCst);
    for node in [&standby, &owner] {
        assert_eq!(node.get(&format!("{ITEMS}/a")).await.status, 429);
        assert_eq!(node.create("{\"id\":\"b\"}").await.status, 201, "it is in the ledger");
    }
}

#[tokio::test]
async fn an_owner_without_its_lease_tells_nothing_that_it_only_read() {
    let (standby, owner) = Node::pair();
    let body = "content-length: 2\r\n\r\n[]";
    let batch = || head("POST", ITEMS, &format!("x-ms-cosmos-is-batch-request: True\r\n{body}"));
    let procedure = || head("POST", "/dbs/d/colls/c/sprocs/p", body);
    let permission = || head("GET", "/dbs/d/users/u/permissions/p", "\r\n");
    for (holds, expected) in [(true, 200), (false, 429)] {
        owner.holds_lease.store(holds, Ordering::SeqCst);
        for node in [&standby, &owner] {
            for request in [batch(), procedure(), permission()] {
                assert_eq!(node.ask(request.clone()).await.status, expected, "{request}");
            }
        }
    }
    let made = owner.ask(head("POST", "/dbs", "content-length: 2\r\n\r\n{}")).await;
    assert_eq!(made.status, 408, "what the catalog was changed to is in the ledger, or is not");
}

#[tokio::test]
async fn the_port_of_health_checks_passes_nothing_on() {
    let owner = Node::pair().1;
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let health = free.local_addr().unwrap();
    drop(free);
    let mut standby = Node::start_with("standby", Some(health.port()));
    standby.gauges.note_lease(Duration::from_secs(3600));
    standby.follow(owner.address);
    let path = format!("{ITEMS}/a");
    assert_eq!(standby.get(&path).await.status, 200);
    standby.address = health;
    for path in ["/alive", "/ready", "/status"] {
        assert_eq!(standby.get(path).await.status, 200, "{path}");
    }
    let body = "content-length: 2\r\n\r\n{}";
    for request in [head("GET", &path, "\r\n"), head("POST", ITEMS, body)] {
        assert_eq!(standby.ask(request.clone()).await.status, 404, "{request}");
    }
    standby.places.send_replace(OwnerPlace::Nobody);
    assert_eq!(standby.get("/ready").await.status, 503);
}

#[tokio::test]
async fn sessions_are_the_owners() {
    let (standby, owner) = Node::pair();
    let request = "GET /_armilla/session HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let told = standby.ask(request.to_owned()).await;
    assert_eq!(told.status, 421);
    assert!(told.text().contains(&owner.address.to_string()), "{}", told.text());
}
