//! Clients that are too large, too slow, too many, or not speaking HTTP.

use crate::support::{Client, Running, head, soon};
use armilla_gateway::limits::Limits;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

const ITEM: &str = "/dbs/d/colls/c/docs/1";
const ITEMS: &str = "/dbs/d/colls/c/docs";

fn quick() -> Limits {
    Limits {
        header_timeout: Duration::from_millis(200),
        body_timeout: Duration::from_millis(200),
        idle_timeout: Duration::from_secs(2),
        ..Limits::default()
    }
}

async fn expect_too_large(client: &mut Client<TcpStream>) {
    let answer = soon(client.answer()).await.unwrap();
    assert_eq!(answer.status, 413);
    assert!(answer.text().contains("RequestEntityTooLarge"), "{}", answer.text());
    assert!(answer.header("x-ms-activity-id").is_some());
}

#[tokio::test]
async fn large_bodies_are_refused_and_the_client_hears_it() {
    let server = Running::start(Limits::default());
    let mut client = server.connect().await;
    let body = vec![b' '; 3 * 1024 * 1024];
    client.send(head("POST", ITEMS, &format!("content-length: {}\r\n\r\n", body.len()))).await;
    client.send(&body).await;
    expect_too_large(&mut client).await;
    assert_eq!(soon(client.get(ITEM)).await.status, 200, "the connection goes on");

    client.send(head("POST", ITEMS, "transfer-encoding: chunked\r\n\r\n300000\r\n")).await;
    client.send(&body).await;
    client.send("\r\n0\r\n\r\n").await;
    expect_too_large(&mut client).await;
}

/// A client that sends everything before it reads would see a broken pipe, and try again for minutes.
#[tokio::test]
async fn the_refusal_waits_until_twenty_megabytes_are_sent() {
    let server = Running::start(Limits::default());
    let body = vec![b' '; 20 * 1024 * 1024];
    for head_of in [format!("content-length: {}\r\n\r\n", body.len()), chunked(body.len())] {
        let mut client = server.connect().await;
        client.send(head("POST", ITEMS, &head_of)).await;
        soon(client.send(&body)).await;
        if head_of.starts_with("transfer") {
            client.send("\r\n0\r\n\r\n").await;
        }
        expect_too_large(&mut client).await;
        assert_eq!(soon(client.get(ITEM)).await.status, 200, "the connection goes on");
    }
}

fn chunked(length: usize) -> String {
    format!("transfer-encoding: chunked\r\n\r\n{length:x}\r\n")
}

#[tokio::test]
async fn huge_announcements_are_refused_unread() {
    let server = Running::start(Limits::default());
    let mut client = server.connect().await;
    client.send(head("POST", ITEMS, "content-length: 1000000000\r\n\r\n")).await;
    expect_too_large(&mut client).await;
    let mut client = server.connect().await;
    let asking = "content-length: 3000000\r\nexpect: 100-continue\r\n\r\n";
    client.send(head("POST", ITEMS, asking)).await;
    expect_too_large(&mut client).await;
}

#[tokio::test]
async fn refusals_wait_for_a_body_that_is_on_its_way() {
    let server = Running::start(Limits::default());
    let mut client = server.connect().await;
    let unsigned = format!("POST {ITEMS} HTTP/1.1\r\nhost: x\r\ncontent-length: 500000\r\n\r\n");
    for _ in 0..3 {
        client.send(&unsigned).await;
        for _ in 0..5 {
            // Pause: paces the body; every pace must give the same answer.
            tokio::time::sleep(Duration::from_millis(5)).await;
            client.send(vec![b' '; 100_000]).await;
        }
        let answer = soon(client.answer()).await.unwrap();
        assert_eq!(answer.status, 401);
    }
    assert_eq!(soon(client.get(ITEM)).await.status, 200, "the connection goes on");
}

#[tokio::test]
async fn clients_that_do_not_read_are_cut_off() {
    let limits = Limits { idle_timeout: Duration::from_millis(100), ..Limits::default() };
    let server = Running::start(limits);
    let mut client = server.connect().await;
    let large = head("GET", "/dbs/d/colls/c/docs/large", "\r\n").repeat(8);
    client.send(large).await;
    // The server has answered as much as the system holds for a client that does not read.
    let mut first = [0; 12];
    soon(client.stream.peek(&mut first)).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    // Once it has cut the connection off, its system refuses what the client still sends.
    let cut_off = async {
        while client.stream.write_all(b" ").await.is_ok() {
            // Pause: between two looks at the condition that is awaited.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    soon(cut_off).await;
    let received = soon(client.stream_to_end()).await.len();
    assert!(received < 8 * 4 * 1024 * 1024, "{received}: everything was sent");
}

#[tokio::test]
async fn body_of_exactly_the_limit_is_taken() {
    let server = Running::start(Limits { body_size_max: 1000, ..Limits::default() });
    let mut client = server.connect().await;
    for (length, status) in [(1000, 201), (1001, 413)] {
        client.send(head("POST", ITEMS, &format!("content-length: {length}\r\n\r\n"))).await;
        client.send(vec![b' '; length]).await;
        assert_eq!(soon(client.answer()).await.unwrap().status, status, "{length}");
    }
}

#[tokio::test]
async fn slow_heads_are_cut_off_and_idle_connections_are_not() {
    let server = Running::start(quick());
    let mut idle = server.connect().await;
    let mut used = server.connect().await;
    soon(used.get(ITEM)).await;
    let mut slow = server.connect().await;
    slow.send("GET / HTTP/1.1\r\nhost: ").await;
    // A head that grows byte by byte, for ever: no byte of it gives it more time.
    let trickle = async {
        while slow.stream.write_all(b"x").await.is_ok() {
            let a_while = tokio::time::timeout(Duration::from_millis(10), slow.closed());
            if a_while.await.unwrap_or(false) {
                return;
            }
        }
    };
    soon(trickle).await;
    // The others have been silent for longer than a head may take.
    assert_eq!(soon(used.get(ITEM)).await.status, 200);
    assert_eq!(soon(idle.get(ITEM)).await.status, 200);
    // The second head on a kept connection is held to the same time.
    used.send("GET ").await;
    assert!(soon(used.closed()).await);
}

#[tokio::test]
async fn idle_connections_end_after_the_idle_time() {
    let limits = Limits { idle_timeout: Duration::from_millis(300), ..Limits::default() };
    let server = Running::start(limits);
    let mut never = server.connect().await;
    let mut used = server.connect().await;
    soon(used.get(ITEM)).await;
    used.send(head("GET", "/dbs/d/colls/c/docs/held", "\r\n")).await;
    server.gate.arrival().await;
    // Came later and has been sent away: the request was in flight for longer than the idle time.
    let mut later = server.connect().await;
    assert!(soon(later.closed()).await);
    server.gate.let_one_go();
    assert_eq!(soon(used.answer()).await.unwrap().status, 200);
    assert!(soon(never.closed()).await);
    assert!(soon(used.closed()).await);
}

#[tokio::test]
async fn half_sent_bodies_time_out() {
    let server = Running::start(quick());
    let mut client = server.connect().await;
    client.send(head("POST", ITEMS, "content-length: 100\r\n\r\n{\"id\":")).await;
    let answer = soon(client.answer()).await.unwrap();
    assert_eq!(answer.status, 408);
    assert!(soon(client.closed()).await);
    // A client that goes away in the middle leaves nothing behind.
    let mut gone = server.connect().await;
    gone.send(head("POST", ITEMS, "content-length: 100\r\n\r\n{\"id\":")).await;
    gone.stream.shutdown().await.unwrap();
    drop(gone);
    assert_eq!(soon(server.connect().await.get(ITEM)).await.status, 200);
}

#[tokio::test]
async fn nonsense_is_answered_with_400_or_closed() {
    let server = Running::start(quick());
    for nonsense in [
        "GET\r\n\r\n",
        "HELLO WORLD\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "GET / HTTP/1.1\r\nbad header\r\n\r\n",
        "POST / HTTP/1.1\r\ncontent-length: -5\r\n\r\n",
        "POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        "\0\0\0\0\0\0\0\0\r\n\r\n",
        "\u{16}\u{3}\u{1}not a handshake",
    ] {
        let mut client = server.connect().await;
        client.send(nonsense).await;
        let answer = soon(client.stream_to_end()).await;
        let status = String::from_utf8_lossy(&answer);
        let is_refusal = status.is_empty() || status.starts_with("HTTP/1.1 400");
        // A TLS alert is the refusal of a broken handshake.
        assert!(is_refusal || answer[0] == 0x15, "{nonsense:?}: {status}");
    }
    assert_eq!(soon(server.connect().await.get(ITEM)).await.status, 200);
}

#[tokio::test]
async fn long_heads_are_refused() {
    let server = Running::start(Limits::default());
    let mut client = server.connect().await;
    let long = format!("x-long: {}\r\n\r\n", "x".repeat(100_000));
    client.send(head("GET", ITEM, &long)).await;
    let answer = soon(client.answer()).await.unwrap();
    assert_eq!(answer.status, 431);
    let mut client = server.connect().await;
    let fits = format!("x-long: {}\r\n\r\n", "x".repeat(50_000));
    client.send(head("GET", ITEM, &fits)).await;
    assert_eq!(soon(client.answer()).await.unwrap().status, 200);
}

#[tokio::test]
async fn connections_beyond_the_maximum_are_told_so() {
    let server = Running::start(Limits { connections_max: 3, ..Limits::default() });
    let mut held = Vec::new();
    for _ in 0..3 {
        let mut client = server.connect().await;
        assert_eq!(soon(client.get(ITEM)).await.status, 200);
        held.push(client);
    }
    let mut refused = server.connect().await;
    refused.send(head("GET", ITEM, "\r\n")).await;
    let answer = soon(refused.answer()).await.unwrap();
    assert_eq!(answer.status, 503);
    assert!(answer.text().contains("too many connections"));
    assert!(soon(refused.closed()).await);
    held.pop();
    soon(until_served(&server)).await;
}

/// Tries until a new connection is served: the server hears of those that went away in its own time.
async fn until_served(server: &Running) {
    loop {
        let mut client = server.connect().await;
        client.send(head("GET", ITEM, "\r\n")).await;
        match client.answer().await {
            Some(answer) if answer.status == 200 => return,
            _ => tokio::task::yield_now().await,
        }
    }
}

#[tokio::test]
async fn many_idle_connections_are_no_burden() {
    let server = Running::start(Limits::default());
    let mut idle = Vec::new();
    for _ in 0..400 {
        idle.push(server.connect().await);
    }
    assert_eq!(soon(server.connect().await.get(ITEM)).await.status, 200);
    for client in idle.iter_mut().step_by(40) {
        assert_eq!(soon(client.get(ITEM)).await.status, 200);
    }
}

#[tokio::test]
async fn silence_before_the_first_request_ends_sooner_than_idleness() {
    let first_request_timeout = Duration::from_millis(200);
    let server = Running::start(Limits { first_request_timeout, ..Limits::default() });
    let mut used = server.connect().await;
    assert_eq!(soon(used.get(ITEM)).await.status, 200);
    // A head that was begun has its own, longer time.
    let mut slow = server.connect().await;
    slow.send("GET ").await;
    let mut silent = server.connect().await;
    // The last to come: once it is sent away, the time has passed for the others too.
    assert!(soon(silent.closed()).await);
    assert_eq!(soon(used.get(ITEM)).await.status, 200, "who was let in may be idle");
    slow.send(&head("GET", ITEM, "\r\n")["GET ".len()..]).await;
    assert_eq!(soon(slow.answer()).await.unwrap().status, 200);
}

#[tokio::test]
async fn strangers_cannot_take_every_place() {
    let server = Running::start(Limits { connections_max: 8, ..Limits::default() });
    let mut used = server.connect().await;
    assert_eq!(soon(used.get(ITEM)).await.status, 200);
    let mut strangers = Vec::new();
    for number in 0..60 {
        let mut stranger = server.connect().await;
        if number % 2 == 0 {
            // A request without credentials is no better than silence.
            stranger.send(format!("GET {ITEM} HTTP/1.1\r\nhost: x\r\n\r\n")).await;
        }
        strangers.push(stranger);
    }
    // While the crowd is being sent away a client may be told to come back.
    soon(until_served(&server)).await;
    assert_eq!(soon(used.get(ITEM)).await.status, 200, "who was let in stays");
    drop(strangers);
}
