//! A request that meets a handover.

use super::*;
use crate::activity::ActivityIds;
use crate::auth::{Authenticator, MasterKeys, Signer, Standing, WELL_KNOWN_KEY, WellKnownKey};
use crate::direct::frame::{Decoder, activity_text};
use crate::direct::token::Writer;
use crate::handle::Settings;
use armilla_model::clock::ManualClock;
use bytes::BytesMut;
use http::Method;
use std::sync::Arc;

const DATE: &str = "Sun, 15 Nov 2026 19:24:19 GMT";
const NOW: u64 = 1_794_770_659;
const PAYLOAD_MAX: usize = 1024;

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

/// A read of an item, as a client sends it to a replica.
fn read() -> RequestFrame {
    let path = "dbs/d/colls/c/docs/i";
    let signer = Signer::new(WELL_KNOWN_KEY).unwrap();
    let authorization = signer.authorization(&Method::GET, path, DATE).unwrap();
    let mut bytes = vec![0; 4];
    bytes.extend_from_slice(&[3, 0, 3, 0]);
    bytes.extend_from_slice(&[7; 16]);
    let mut tokens = Writer(&mut bytes);
    tokens.string(id::AUTHORIZATION, &authorization);
    tokens.byte(id::PAYLOAD_PRESENT, 0);
    tokens.small_string(id::DATE, DATE);
    let replica = ReplicaPath::Range { container: "AAAAAYAAAAI", range: "1", is_primary: true };
    tokens.string(id::REPLICA_PATH, &replica.to_string());
    tokens.string(id::DATABASE_NAME, "d");
    tokens.string(id::COLLECTION_NAME, "c");
    tokens.string(id::DOCUMENT_NAME, "i");
    tokens.string(id::PARTITION_KEY, "[\"i\"]");
    tokens.ulong(id::TRANSPORT_REQUEST_ID, 1);
    let length = u32::try_from(bytes.len()).unwrap();
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    Decoder::new(PAYLOAD_MAX).next(&mut BytesMut::from(&bytes[..])).unwrap().unwrap()
}

#[tokio::test]
async fn whoever_meets_a_closed_gate_is_sent_for_the_next_owner() {
    let keys = MasterKeys::new(WellKnownKey::OnLoopback);
    let gateway = Gateway {
        service: HandingOver,
        settings: Settings::default(),
        authenticator: Arc::new(Authenticator::new(keys, &[1; 32])),
        clock: Arc::new(ManualClock::at_seconds(NOW)),
        activity_ids: ActivityIds::new(1),
    };
    let address = "127.0.0.1:1".parse().unwrap();
    let peer = Peer { local_address: address, remote_address: address, is_secure: true };
    let connected = Connected { peer, server_name: None, version: "2020-07-15".to_owned() };
    let frame = read();
    let tokens = frame.tokens().unwrap();
    let exchange =
        DirectExchange { gateway: &gateway, connected: &connected, frame: &frame, tokens };
    let (reply, ..) = exchange.run(&activity_text(&frame.ticket.activity)).await;
    assert_eq!(reply.status(), StatusCode::GONE);
    assert_eq!(reply.into_answer(b"a").facts.substatus, Some(0), "it has not been split");
}
