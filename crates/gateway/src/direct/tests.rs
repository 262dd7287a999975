//! Vectors of Direct mode: frames of the real clients and built ones decode to their values, what is damaged
//! is refused or waits, however the bytes are cut.

use super::frame::{Decoder, Payload, RequestFrame, activity_text, take_context};
use super::ids::{context_types, is_operation, is_resource, request_types};
use super::token::{Reader, Type, Value as Found};
use super::*;
use armilla_model::{Value, json};
use bytes::BytesMut;

const PAYLOAD_MAX: usize = 2 * 1024 * 1024;

fn vectors() -> Value {
    json::parse(include_bytes!("../../tests/vectors/direct.json")).unwrap()
}

fn text<'v>(case: &'v Value, name: &str) -> &'v str {
    case.get(name).unwrap().as_str().unwrap()
}

fn from_hex(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn cases(kind: &str) -> Vec<Value> {
    let vectors = vectors();
    let mut found = Vec::new();
    for group in ["built", "captured"] {
        let cases = vectors.get(group).unwrap().as_array().unwrap().to_vec();
        found.extend(cases.into_iter().filter(|case| text(case, "kind") == kind));
    }
    found
}

fn decode(bytes: &[u8]) -> Result<Option<RequestFrame>, Malformed> {
    Decoder::new(PAYLOAD_MAX).next(&mut BytesMut::from(bytes))
}

/// Name, id and type of each token of a table.
fn table(name: &str) -> Vec<(String, u16, String)> {
    let rows = vectors().get("tables").unwrap().get(name).unwrap().as_array().unwrap().to_vec();
    let row = |row: &Value| {
        let id = u16::try_from(row.get("id").unwrap().as_i64().unwrap()).unwrap();
        let kind = row.get("type").unwrap().as_str().unwrap_or("?").to_owned();
        (text(row, "name").to_owned(), id, kind)
    };
    rows.iter().map(row).collect()
}

fn named(kind: &str) -> Type {
    match kind {
        "B" => Type::Byte,
        "u2" => Type::UShort,
        "u4" => Type::ULong,
        "i4" => Type::Long,
        "u8" => Type::ULongLong,
        "i8" => Type::LongLong,
        "G" => Type::Guid,
        "s" => Type::SmallString,
        "S" => Type::String,
        "Z" => Type::ULongString,
        "y" => Type::SmallBytes,
        "Y" => Type::Bytes,
        "W" => Type::ULongBytes,
        "f" => Type::Float,
        "d" => Type::Double,
        other => panic!("no type {other}"),
    }
}

/// Holds a value against the text, number or hexadecimal of the vector.
fn assert_value(name: &str, found: Found<'_>, expected: &Value, kind: Type) {
    match found {
        Found::Byte(byte) => assert_eq!(expected.as_i64(), Some(i64::from(byte)), "{name}"),
        Found::Number(number) => assert_eq!(expected.as_i64(), Some(number as i64), "{name}"),
        Found::Text(found) => assert_eq!(expected.as_str(), Some(found), "{name}"),
        Found::Double(double) => assert_eq!(expected.as_f64(), Some(double), "{name}"),
        Found::Bytes(bytes) if kind == Type::Guid => {
            let activity: [u8; 16] = bytes.try_into().unwrap();
            assert_eq!(expected.as_str(), Some(&*activity_text(&activity)), "{name}");
        }
        Found::Bytes(bytes) => {
            assert_eq!(from_hex(expected.as_str().unwrap()), bytes, "{name}");
        }
    }
}

#[test]
fn requests_decode_to_their_values() {
    let table = table("request");
    let number = |group: &str, name: &str| {
        let tables = vectors();
        let numbers = tables.get("tables").unwrap().get(group).unwrap();
        u16::try_from(numbers.get(name).unwrap().as_i64().unwrap()).unwrap()
    };
    let requests = cases("req");
    assert!(requests.len() > 70, "{} requests", requests.len());
    for case in requests {
        let (name, frame) = (text(&case, "name"), case.get("frame").unwrap());
        let bytes = from_hex(text(&case, "hex"));
        let found = decode(&bytes).unwrap().unwrap_or_else(|| panic!("{name} is not whole"));
        assert_eq!(found.resource, number("resource_types", text(frame, "resource")), "{name}");
        assert_eq!(found.operation, number("operation_types", text(frame, "operation")), "{name}");
        assert_eq!(activity_text(&found.ticket.activity), text(frame, "activity"), "{name}");
        let mut reader = Reader::new(&found.tokens);
        for token in frame.get("tokens").unwrap().as_array().unwrap() {
            let (id, kind, value) = reader.next().unwrap().unwrap();
            let token = token.as_array().unwrap();
            let expected = match token {
                [name, value] => {
                    let known = |row: &&(String, u16, String)| Some(&*row.0) == name.as_str();
                    let (_, id, kind) = table.iter().find(known).unwrap();
                    (*id, named(kind), value)
                }
                [id, kind, value] => {
                    (id.as_i64().unwrap() as u16, named(kind.as_str().unwrap()), value)
                }
                _ => panic!("{name}: a token of {} parts", token.len()),
            };
            assert_eq!((id, kind), (expected.0, expected.1), "{name}");
            assert_value(name, value, expected.2, kind);
        }
        assert_eq!(reader.next(), Ok(None), "{name}");
        let payload = frame.get("payload").unwrap();
        let payload = match payload.get("hex") {
            Some(hex) => from_hex(hex.as_str().unwrap()),
            None => payload.as_str().unwrap().as_bytes().to_vec(),
        };
        assert_eq!(found.payload, Payload::Whole(payload.into()), "{name}");
    }
}

#[test]
fn negotiations_decode_to_their_values() {
    for case in cases("ctxreq") {
        let bytes = from_hex(text(&case, "hex"));
        assert!(is_context(bytes.first_chunk().unwrap()));
        let found = take_context(&mut BytesMut::from(&bytes[..])).unwrap().unwrap();
        assert_eq!(found.protocol_version, 1);
        assert_eq!(found.client_version, "2020-07-15");
        assert!(found.user_agent.contains("cosmos"), "{found:?}");
        for length in 0..bytes.len() {
            assert_eq!(take_context(&mut BytesMut::from(&bytes[..length])), Ok(None));
        }
        let answer = context::answer(&found);
        assert_eq!(answer[..4], (answer.len() as u32).to_le_bytes());
        assert_eq!(answer[4..8], [200, 0, 0, 0]);
        assert_eq!(answer[8..24], found.activity);
        let refused = context::answer(&frame::ContextFrame { protocol_version: 2, ..found });
        assert_eq!(refused[4..8], [0x90, 1, 0, 0]);
    }
}

#[test]
fn http_is_no_negotiation() {
    for first in [b"GET / HT", b"PRI * HT", b"POST /db", b"PUT /dbs"] {
        assert!(!is_context(first));
    }
}

#[test]
fn damaged_frames_are_refused() {
    let refused = vectors().get("refused").unwrap().as_array().unwrap().to_vec();
    assert_eq!(refused.len(), 20);
    for case in refused {
        let bytes = from_hex(text(&case, "hex"));
        // What is cut off waits for the rest; a connection that ends so is closed.
        let is_whole = match text(&case, "kind") {
            "ctxreq" => matches!(take_context(&mut BytesMut::from(&bytes[..])), Ok(Some(_))),
            _ => matches!(decode(&bytes), Ok(Some(_))),
        };
        assert!(!is_whole, "{} was accepted", text(&case, "name"));
    }
}

#[test]
fn a_frame_that_is_cut_waits() {
    for case in cases("req") {
        let bytes = from_hex(text(&case, "hex"));
        for length in 0..bytes.len() {
            let found = decode(&bytes[..length]);
            assert!(matches!(found, Ok(None)), "{} cut at {length}", text(&case, "name"));
        }
    }
}

#[test]
fn frames_come_out_alike_however_their_bytes_are_cut() {
    let requests: Vec<_> = cases("req").iter().map(|case| from_hex(text(case, "hex"))).collect();
    let stream: Vec<u8> = requests.concat();
    for step in [1, 7, 24, 1000, stream.len()] {
        let (mut decoder, mut buffer) = (Decoder::new(PAYLOAD_MAX), BytesMut::new());
        let mut found = Vec::new();
        for piece in stream.chunks(step) {
            buffer.extend_from_slice(piece);
            while let Some(frame) = decoder.next(&mut buffer).unwrap() {
                found.push(frame.ticket);
            }
        }
        let alone: Vec<_> =
            requests.iter().map(|bytes| decode(bytes).unwrap().unwrap().ticket).collect();
        assert_eq!(found, alone, "in steps of {step}");
        assert!(buffer.is_empty() && decoder.is_between_frames());
    }
}

/// A small frame that announces a payload, and so many bytes of it.
fn with_payload(announced: u32, sent: usize) -> Vec<u8> {
    let tokens = [&[2, 0, 0, 1][..], &[0x13, 0, 8, 2, 0, b'/', b'a'], &[0x4d, 0, 2, 9, 0, 0, 0]];
    let tokens = tokens.concat();
    let mut frame = (24 + tokens.len() as u32).to_le_bytes().to_vec();
    frame.extend_from_slice(&[3, 0, 1, 0]);
    frame.extend_from_slice(&[0; 16]);
    frame.extend_from_slice(&tokens);
    frame.extend_from_slice(&announced.to_le_bytes());
    frame.resize(frame.len() + sent, b'x');
    frame
}

#[test]
fn payloads_have_a_bound() {
    let max = PAYLOAD_MAX as u32;
    let whole = decode(&with_payload(max, PAYLOAD_MAX)).unwrap().unwrap();
    assert_eq!(whole.payload, Payload::Whole(vec![b'x'; PAYLOAD_MAX].into()));
    let (mut decoder, mut buffer) = (Decoder::new(PAYLOAD_MAX), BytesMut::new());
    buffer.extend_from_slice(&with_payload(max + 1, PAYLOAD_MAX));
    assert!(decoder.next(&mut buffer).unwrap().is_none());
    assert!(buffer.is_empty(), "what is too long is not kept");
    buffer.extend_from_slice(b"x");
    buffer.extend_from_slice(&with_payload(2, 2));
    let refused = decoder.next(&mut buffer).unwrap().unwrap();
    assert_eq!(refused.payload, Payload::TooLarge(PAYLOAD_MAX + 1));
    assert_eq!(refused.ticket.transport_id, 9);
    let next = decoder.next(&mut buffer).unwrap().unwrap();
    assert_eq!(next.payload, Payload::Whole("xx".into()));
    let drained = frame::PAYLOAD_DRAIN_MAX as u32;
    assert!(decode(&with_payload(drained + 1, 0)).is_err(), "beyond that the connection ends");
}

#[test]
fn ids_have_the_types_of_the_table() {
    let table = table("request");
    assert_eq!(table.len(), 247);
    for id in 0..0x200_u16 {
        let known = table.iter().find(|row| row.1 == id).map(|row| named(&row.2));
        let found = request_types(id);
        assert_eq!(found.is_some(), known.is_some(), "{id:#x}");
        assert!(known.is_none_or(|known| found.unwrap().contains(&known)), "{id:#x}");
        assert!(id == 0x59 || found.is_none_or(|types| types.len() == 1), "{id:#x}");
    }
    assert_eq!(context_types(8), None);
    let numbers = |group: &str| {
        let vectors = vectors();
        let numbers = vectors.get("tables").unwrap().get(group).unwrap().as_object().unwrap();
        numbers.iter().map(|(_, number)| number.as_i64().unwrap() as u16).collect::<Vec<_>>()
    };
    let (resources, operations) = (numbers("resource_types"), numbers("operation_types"));
    for number in 0..100 {
        assert_eq!(is_resource(number), resources.contains(&number), "resource {number}");
        assert_eq!(is_operation(number), operations.contains(&number), "operation {number}");
    }
}

/// Java and .NET give a request five seconds on this wire; a page must be on its way before.
#[test]
fn pages_end_before_clients_of_this_wire_give_up() {
    let query = cases("req").into_iter().find(|case| text(case, "name") == "query page request");
    let frame = decode(&from_hex(text(&query.unwrap(), "hex"))).unwrap().unwrap();
    let tokens = frame.tokens().unwrap();
    let asked = map::asked(&frame, &tokens).unwrap();
    let (context, _) = map::context(&asked, &tokens, false);
    let patience = context.page_time_max.unwrap();
    assert_eq!(patience, crate::limits::DIRECT_PAGE_TIME_MAX);
    assert!(patience < armilla_engine::limits::PAGE_TIME_MAX);
    assert_eq!(crate::headers::RequestContext::default().page_time_max, None);
}
