//! Nodes of an account in slices: how requests find their slice, and what becomes of those that need all of them.

use super::support::{Answer, Client, NOW, Stub, head, soon};
use armilla_gateway::activity::ActivityIds;
use armilla_gateway::auth::{Access, Authenticator, MasterKeys, WELL_KNOWN_KEY, WellKnownKey};
use armilla_gateway::cluster::{
    Editions, Front, LateService, OwnerPlace, OwnerPlaces, SliceFronts, SlicedService,
};
use armilla_gateway::serve::Protocols;
use armilla_gateway::{Gateway, Server, Settings};
use armilla_model::clock::ManualClock;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

const ITEMS: &str = "/dbs/d/colls/c/docs";

/// The catalog is the same everywhere.
struct Settled;

impl Editions for Settled {
    fn first(&self) -> u64 {
        1
    }

    fn everywhere(&self) -> u64 {
        1
    }

    fn is_adopting(&self, _slice: u32) -> bool {
        false
    }
}

/// A node of an account in two slices, which is told by the test who owns them.
struct Node {
    address: SocketAddr,
    places: Vec<OwnerPlaces>,
    lates: Vec<LateService<Stub>>,
}

impl Node {
    /// One that owns both slices.
    fn start(name: &str) -> Self {
        let mut keys = MasterKeys::new(WellKnownKey::Nowhere);
        keys.add(WELL_KNOWN_KEY, Access::ReadWrite).unwrap();
        let (mut fronts, mut places, mut lates) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..2 {
            let (front, place) = Front::new(name, rustls::RootCertStore::empty()).unwrap();
            let late = LateService::new();
            late.begin(Stub::new(), Arc::new(|| true));
            place.send_replace(OwnerPlace::Here);
            fronts.push(Arc::new(front));
            places.push(place);
            lates.push(late);
        }
        let settings = Settings {
            front: fronts.first().cloned(),
            slices: Some(Arc::new(SliceFronts::new(fronts))),
            public_metrics: true,
            ..Settings::default()
        };
        let gateway = Gateway {
            service: SlicedService::new(lates.clone(), Arc::new(Settled)),
            settings,
            authenticator: Arc::new(Authenticator::new(keys, &[1; 32])),
            clock: Arc::new(ManualClock::at_seconds(NOW)),
            activity_ids: ActivityIds::new(1),
        };
        let any_port = ["127.0.0.1:0".parse().unwrap()];
        let server = Server::bind(&any_port, Protocols::Plain, gateway).unwrap();
        let address = server.local_addresses().unwrap()[0];
        tokio::spawn(server.run(std::future::pending()));
        Self { address, places, lates }
    }

    async fn ask(&self, request: String) -> Answer {
        let mut client = Client { stream: TcpStream::connect(self.address).await.unwrap() };
        client.send(request).await;
        soon(client.answer()).await.unwrap()
    }
}

#[tokio::test]
async fn a_second_that_no_date_can_say_is_refused() {
    let node = Node::start("node");
    for (second, expected) in
        [("1700000000", 304), ("253402300800", 400), ("99999999999999999", 400)]
    {
        let from = format!("a-im: Incremental feed\r\nif-none-match: \"S0~{second}|1\"\r\n\r\n");
        let mut client = Client { stream: TcpStream::connect(node.address).await.unwrap() };
        client.send(head("GET", ITEMS, &from)).await;
        let answer = soon(client.answer_to(expected != 304)).await.unwrap();
        assert_eq!(answer.status, expected, "{second}: {}", answer.text());
    }
}

#[tokio::test]
async fn a_request_that_meets_the_moment_of_a_handover_is_asked_elsewhere() {
    let (first, second) = (Node::start("first"), Node::start("second"));
    let at =
        |node: &Node| OwnerPlace::Elsewhere(format!("http://{}", node.address).parse().unwrap());
    let third = Node::start("third");
    third.places[0].send_replace(at(&first));
    for node in [&first, &third] {
        first.places[0].send_replace(OwnerPlace::Here);
        third.places[0].send_replace(at(&first));
        first.lates[0].shut();
        let create = head("POST", "/dbs", "content-length: 2\r\n\r\n{}");
        let (made, ()) = tokio::join!(node.ask(create), async {
            // Pause: the request shall meet the gate before; it is answered in any case.
            tokio::time::sleep(Duration::from_millis(100)).await;
            first.places[0].send_replace(at(&second));
            third.places[0].send_replace(at(&second));
        });
        assert_eq!(made.status, 201, "{}", made.text());
    }
}

#[tokio::test]
async fn what_some_slices_have_done_is_told_when_another_has_no_owner() {
    let node = Node::start("node");
    let body = "content-length: 2\r\n\r\n{}";
    let pause = head("POST", "/_armilla/subs/dbs/d/colls/c/s/pause", body);
    let dials = head("PUT", "/_armilla/dials", body);
    for request in [&pause, &dials] {
        let mut client = Client { stream: TcpStream::connect(node.address).await.unwrap() };
        client.send(request).await;
        assert_eq!(soon(client.answer_to(false)).await.unwrap().status, 204);
    }
    let idle = Node::start("idle");
    node.places[1].send_replace(OwnerPlace::Nobody);
    idle.places[0].send_replace(OwnerPlace::Nobody);
    let (refused, paused, turned) =
        tokio::join!(idle.ask(pause.clone()), node.ask(pause.clone()), node.ask(dials));
    assert_eq!(refused.status, 429, "nothing was done: {}", refused.text());
    for told in [paused, turned] {
        assert_eq!(told.status, 408, "{}", told.text());
        assert!(told.text().contains("The first 1 of the 2 slices"), "{}", told.text());
    }
}

#[tokio::test]
async fn a_request_that_is_passed_on_counts_once() {
    let node = Node::start("node");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let owner = format!("http://{}", listener.local_addr().unwrap());
    node.places[0].send_replace(OwnerPlace::Elsewhere(owner.parse().unwrap()));
    let mut client = Client { stream: TcpStream::connect(node.address).await.unwrap() };
    client.send(head("GET", "/dbs", "\r\n")).await;
    let (_asked, _) = soon(listener.accept()).await.unwrap();
    let metrics = node.ask(head("GET", "/metrics", "\r\n")).await.text();
    assert!(metrics.contains("\narmilla_cluster_held 1\n"), "{metrics}");
}
