//! Stopping: what is in flight is finished, what is idle is closed, what is new is refused.

use crate::support::{Running, head, soon};
use armilla_gateway::limits::Limits;
use armilla_gateway::serve::Stopped;
use std::time::Duration;
use tokio::net::TcpStream;

const ITEM: &str = "/dbs/d/colls/c/docs/1";
const HELD_ITEM: &str = "/dbs/d/colls/c/docs/held";

#[tokio::test]
async fn request_in_flight_is_finished() {
    let server = Running::start(Limits::default());
    let (address, gate) = (server.address, server.gate.clone());
    let mut idle = server.connect().await;
    soon(idle.get(ITEM)).await;
    let mut busy = server.connect().await;
    busy.send(head("GET", HELD_ITEM, "\r\n")).await;
    gate.arrival().await;
    let stopping = server.begin_stop();
    assert!(soon(idle.closed()).await);
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
    gate.let_one_go();
    let answer = soon(busy.answer()).await.unwrap();
    assert_eq!((answer.status, answer.text().as_str()), (200, "{\"id\":\"held\"}"));
    assert_eq!(answer.header("connection"), Some("close"));
    assert_eq!(soon(stopping).await.unwrap(), Stopped::Finished);
}

/// The request never ends, so the stop can only be the bound's doing.
#[tokio::test]
async fn waiting_is_bounded() {
    let limits = Limits { shutdown_wait: Duration::from_millis(50), ..Limits::default() };
    let server = Running::start(limits);
    let gate = server.gate.clone();
    let mut busy = server.connect().await;
    busy.send(head("GET", HELD_ITEM, "\r\n")).await;
    gate.arrival().await;
    assert_eq!(soon(server.begin_stop()).await.unwrap(), Stopped::CutOff(1));
}

#[tokio::test]
async fn connections_that_said_nothing_do_not_delay_the_end() {
    let server = Running::start(Limits::default());
    let silent = server.connect().await;
    // Connections are accepted in turn: when this one is answered, the silent one has been taken.
    soon(server.connect().await.get(ITEM)).await;
    assert_eq!(soon(server.begin_stop()).await.unwrap(), Stopped::Finished);
    drop(silent);
}
