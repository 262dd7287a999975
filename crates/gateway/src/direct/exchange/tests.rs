//! Requests that meet a handover or a split.

use super::*;
use crate::activity::ActivityIds;
use crate::auth::{Authenticator, MasterKeys, Signer, Standing, WELL_KNOWN_KEY, WellKnownKey};
use crate::direct::frame::{Decoder, activity_text};
use crate::direct::token::Writer;
use crate::handle::Settings;
use armilla_model::clock::ManualClock;
use armilla_model::partition_key::PartitionKey;
use bytes::BytesMut;
use http::Method;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const DATE: &str = "Sun, 15 Nov 2026 19:24:19 GMT";
const NOW: u64 = 1_794_770_659;
const PAYLOAD_MAX: usize = 1024;
/// Operations of a frame.
const READ: u8 = 3;
const READ_FEED: u8 = 4;

/// It has the range, and lets nobody in any more.
struct HandingOver;

impl Service for HandingOver {
    async fn call(&self, _call: Call<'_>) -> Reply {
        Reply::elsewhere(come_back())
    }

    fn range_state(&self, _address: &RangeAddress<'_>) -> RangeState {
        RangeState::Serving(Lsn(3))
    }
}

impl Standing for HandingOver {}

/// It is split while a request is looked at: first it serves, then nothing of the key is here.
#[derive(Default)]
struct Splitting {
    is_split: AtomicBool,
}

impl Service for Splitting {
    async fn call(&self, _call: Call<'_>) -> Reply {
        Reply::error(Error::bad_request("nothing of it was split"))
    }

    fn range_state(&self, _address: &RangeAddress<'_>) -> RangeState {
        match self.is_split.load(Ordering::Relaxed) {
            true => RangeState::Moved,
            false => RangeState::Serving(Lsn(3)),
        }
    }

    fn key_share(&self, _address: &RangeAddress<'_>, _key: &PartitionKey) -> KeyShare {
        self.is_split.store(true, Ordering::Relaxed);
        KeyShare::Outside
    }
}

impl Standing for Splitting {}

/// A read of an item, or of all items of its key, as a client sends it to a replica.
fn read(item: Option<&str>) -> RequestFrame {
    let path =
        item.map_or("dbs/d/colls/c/docs".to_owned(), |id| format!("dbs/d/colls/c/docs/{id}"));
    let signer = Signer::new(WELL_KNOWN_KEY).unwrap();
    let authorization = signer.authorization(&Method::GET, &path, DATE).unwrap();
    let mut bytes = vec![0; 4];
    bytes.extend_from_slice(&[3, 0, if item.is_some() { READ } else { READ_FEED }, 0]);
    bytes.extend_from_slice(&[7; 16]);
    let mut tokens = Writer(&mut bytes);
    tokens.string(id::AUTHORIZATION, &authorization);
    tokens.byte(id::PAYLOAD_PRESENT, 0);
    tokens.small_string(id::DATE, DATE);
    let replica = ReplicaPath::Range { container: "AAAAAYAAAAI", range: "1", is_primary: true };
    tokens.string(id::REPLICA_PATH, &replica.to_string());
    tokens.string(id::DATABASE_NAME, "d");
    tokens.string(id::COLLECTION_NAME, "c");
    if let Some(id) = item {
        tokens.string(id::DOCUMENT_NAME, id);
    }
    tokens.string(id::PARTITION_KEY, "[\"i\"]");
    tokens.ulong(id::TRANSPORT_REQUEST_ID, 1);
    let length = u32::try_from(bytes.len()).unwrap();
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    Decoder::new(PAYLOAD_MAX).next(&mut BytesMut::from(&bytes[..])).unwrap().unwrap()
}

async fn ask<S: Service + Standing>(service: S, frame: &RequestFrame) -> Reply {
    let keys = MasterKeys::new(WellKnownKey::OnLoopback);
    let gateway = Gateway {
        service,
        settings: Settings::default(),
        authenticator: Arc::new(Authenticator::new(keys, &[1; 32])),
        clock: Arc::new(ManualClock::at_seconds(NOW)),
        activity_ids: ActivityIds::new(1),
    };
    let address = "127.0.0.1:1".parse().unwrap();
    let peer = Peer { local_address: address, remote_address: address, is_secure: true };
    let connected = Connected { peer, server_name: None, version: "2020-07-15".to_owned() };
    let tokens = frame.tokens().unwrap();
    let exchange = DirectExchange { gateway: &gateway, connected: &connected, frame, tokens };
    exchange.run(&activity_text(&frame.ticket.activity)).await.0
}

#[tokio::test]
async fn whoever_meets_a_closed_gate_is_sent_for_the_next_owner() {
    let reply = ask(HandingOver, &read(Some("i"))).await;
    assert_eq!(reply.status(), StatusCode::GONE);
    assert_eq!(reply.into_answer(b"a").facts.substatus, Some(0), "it has not been split");
}

/// A page without rows would be taken for the whole answer.
#[tokio::test]
async fn a_feed_that_meets_a_split_is_sent_to_the_new_ranges() {
    for item in [None, Some("i")] {
        let reply = ask(Splitting::default(), &read(item)).await;
        assert_eq!(reply.status(), StatusCode::GONE);
        assert_eq!(reply.into_answer(b"a").facts.substatus, Some(PARTITION_MOVED));
    }
}
