//! Stopping: what is in flight is finished, what is idle is closed, what is new is refused.

use crate::support::{Running, head, soon};
use armilla_gateway::limits::Limits;
use armilla_gateway::serve::Stopped;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

const SLOW_ITEM: &str = "/dbs/d/colls/c/docs/slow";

#[tokio::test]
async fn request_in_flight_is_finished() {
    let server = Running::start(Limits::default());
    let address = server.address;
    let mut idle = server.connect().await;
    soon(idle.get("/dbs/d/colls/c/docs/1")).await;
    let mut busy = server.connect().await;
    busy.send(head("GET", SLOW_ITEM, "\r\n")).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let stopping = server.begin_stop();
    assert!(soon(idle.closed()).await);
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
    let answer = soon(busy.answer()).await.unwrap();
    assert_eq!((answer.status, answer.text().as_str()), (200, "{\"id\":\"slow\"}"));
    assert_eq!(answer.header("connection"), Some("close"));
    assert_eq!(soon(stopping).await.unwrap(), Stopped::Finished);
}

#[tokio::test]
async fn waiting_is_bounded() {
    let limits = Limits { shutdown_wait: Duration::from_millis(50), ..Limits::default() };
    let server = Running::start(limits);
    let mut busy = server.connect().await;
    busy.send(head("GET", SLOW_ITEM, "\r\n")).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let started = Instant::now();
    assert_eq!(soon(server.begin_stop()).await.unwrap(), Stopped::CutOff(1));
    assert!(started.elapsed() < Duration::from_millis(300));
}

#[tokio::test]
async fn connections_that_said_nothing_do_not_delay_the_end() {
    let server = Running::start(Limits::default());
    let silent = server.connect().await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(soon(server.begin_stop()).await.unwrap(), Stopped::Finished);
    drop(silent);
}
