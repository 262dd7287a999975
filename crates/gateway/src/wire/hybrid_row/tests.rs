//! Vectors of HybridRow: captured streams of the real client, examples, what is to be tolerated, what is
//! to be refused; then cuts and changed bytes.

use super::operation::OperationRow;
use super::record::rows;
use super::*;
use armilla_engine::items::batch::Verb;
use armilla_model::{Value, json};

fn vectors() -> Value {
    json::parse(include_bytes!("../../../tests/vectors/hybridrow.json")).unwrap()
}

fn list(vectors: &Value, name: &str) -> Vec<Value> {
    vectors.get(name).unwrap().as_array().unwrap().to_vec()
}

fn text<'v>(case: &'v Value, name: &str) -> &'v str {
    case.get(name).unwrap().as_str().unwrap()
}

fn from_hex(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn stream_of(case: &Value) -> Vec<u8> {
    from_hex(text(case, "stream"))
}

fn bytes_of(value: &Value) -> Vec<u8> {
    from_hex(text(value, "hex"))
}

/// Examples and captured streams of one direction, each with the values of its rows.
fn streams(direction: &str) -> Vec<(String, Vec<u8>, Vec<Value>)> {
    let vectors = vectors();
    let mut found = Vec::new();
    for group in ["examples", "captured"] {
        for case in list(&vectors, group) {
            if text(&case, "direction") == direction {
                let rows = list(&case, "rows");
                let values = rows.iter().map(|row| row.get("values").unwrap().clone()).collect();
                found.push((text(&case, "name").to_owned(), stream_of(&case), values));
            }
        }
    }
    found
}

/// All columns of a row, compared with what the vector says.
#[track_caller]
fn assert_row(name: &str, row: &OperationRow<'_>, expected: &Value) {
    let number = |column: &str| {
        let value = expected.get(column).and_then(Value::as_i64);
        value.map(|number| i32::try_from(number).unwrap())
    };
    let words = |column: &str| expected.get(column).map(|value| value.as_str().unwrap().to_owned());
    let bytes = |column: &str| expected.get(column).map(bytes_of);
    assert_eq!(row.operation_type, number("operationType"), "{name}");
    assert_eq!(row.resource_type, number("resourceType"), "{name}");
    assert_eq!(row.time_to_live, number("timeToLiveInSeconds"), "{name}");
    for (found, column) in [
        (row.partition_key, "partitionKey"),
        (row.id, "id"),
        (row.indexing_directive, "indexingDirective"),
        (row.if_match, "ifMatch"),
        (row.if_none_match, "ifNoneMatch"),
    ] {
        assert_eq!(found.map(str::to_owned), words(column), "{name}: {column}");
    }
    for (found, column) in [
        (row.effective_partition_key, "effectivePartitionKey"),
        (row.binary_id, "binaryId"),
        (row.resource_body, "resourceBody"),
    ] {
        assert_eq!(found.map(<[u8]>::to_vec), bytes(column), "{name}: {column}");
    }
    let minimal = expected.get("minimalReturnPreference").map(|flag| flag.as_bool().unwrap());
    assert_eq!(row.minimal, minimal, "{name}");
}

#[track_caller]
fn assert_stream(name: &str, stream: &[u8], expected: &[Value]) {
    let found: Vec<_> = rows(stream).map(Result::unwrap).collect();
    assert_eq!(found.len(), expected.len(), "{name}");
    for (row, expected) in found.into_iter().zip(expected) {
        assert_row(name, &OperationRow::read(row).unwrap(), expected);
    }
}

#[test]
fn requests_of_the_client_are_read_column_by_column() {
    let requests = streams("request");
    assert_eq!(requests.len(), 27, "6 examples and 21 captured");
    for (name, stream, expected) in &requests {
        assert_stream(name, stream, expected);
    }
}

#[test]
fn every_captured_row_is_an_operation() {
    for (name, stream, expected) in streams("request") {
        if expected.is_empty() {
            assert!(parse_operations(&stream).is_err(), "{name}: a batch has operations");
            continue;
        }
        for operation in parse_operations(&stream).unwrap() {
            // "every column" has a body without an id, which is checked later.
            assert!(!matches!(operation.verb, Verb::Unreadable(_)), "{name}: {operation:?}");
        }
    }
}

#[test]
fn results_are_written_as_the_client_reads_them() {
    let responses = streams("response");
    assert_eq!(responses.len(), 10, "4 examples and 6 captured");
    for (name, stream, expected) in responses {
        let mut written = ResultStream::new(stream.len());
        for values in &expected {
            let number = |column: &str| values.get(column).and_then(Value::as_i64);
            let etag = values.get("eTag").map(|etag| etag.as_str().unwrap());
            let body = values.get("resourceBody").map(bytes_of);
            written.push(&ResultRow {
                status: u16::try_from(number("statusCode").unwrap()).unwrap(),
                substatus: number("subStatusCode").map(|number| u32::try_from(number).unwrap()),
                etag: etag.map(str::as_bytes),
                body: body.as_deref(),
                retry_after_millis: number("retryAfterMilliseconds")
                    .map(|number| u32::try_from(number).unwrap()),
                charge: values.get("requestCharge").map(|charge| charge.as_f64().unwrap()),
            });
        }
        assert_eq!(written.finish(), stream, "{name}");
    }
}

#[test]
fn unusual_streams_are_tolerated() {
    for case in list(&vectors(), "tolerated") {
        let (name, stream, expected) = (text(&case, "name"), stream_of(&case), list(&case, "rows"));
        match text(&case, "direction") {
            "request" => assert_stream(name, &stream, &expected),
            _ => assert_eq!(rows(&stream).filter(Result::is_ok).count(), expected.len(), "{name}"),
        }
    }
}

#[test]
fn damaged_streams_are_refused() {
    let refused = list(&vectors(), "refused");
    assert_eq!(refused.len(), 14);
    for case in refused {
        let error = parse_operations(&stream_of(&case)).unwrap_err();
        assert!(matches!(error, Error::BadRequest(_)), "{}: {error:?}", text(&case, "name"));
    }
}

#[test]
fn a_stream_that_is_cut_is_refused_or_has_fewer_rows() {
    for (name, stream, expected) in streams("request") {
        for length in 0..stream.len() {
            if let Ok(operations) = parse_operations(&stream[..length]) {
                assert!(operations.len() < expected.len(), "{name} cut at {length}");
            }
        }
    }
}

#[test]
fn a_changed_byte_in_a_record_is_refused() {
    for (name, stream, _) in streams("request") {
        for at in 10..stream.len() {
            let mut changed = stream.clone();
            changed[at] ^= 1;
            // Without one of its records a stream of several may still be whole; never with a wrong one.
            assert!(parse_operations(&changed).is_err(), "{name} changed at {at}");
        }
    }
}

#[test]
fn declared_lengths_are_compared_with_what_is_there() {
    for tail in [&[0xff; 10][..], &[0xff, 0xff, 0xff, 0xff, 0x7f], &[0x80; 11]] {
        let mut stream = record::begin(0);
        record::append(&mut stream, |out| {
            record::head(2_145_473_648, out);
            out.extend_from_slice(&[0b1_0011, 2, 0, 0, 0, 2, 0, 0, 0]);
            out.extend_from_slice(tail);
        });
        assert!(parse_operations(&stream).is_err(), "{tail:x?}");
    }
}

#[test]
fn a_body_that_is_not_json_fails_its_own_row() {
    let mut stream = record::begin(0);
    for body in [&b"{\"id\":\"a\"}"[..], b"not JSON", b"\x80\xff", b"{\"id\":\"b\"}"] {
        record::append(&mut stream, |out| {
            record::head(2_145_473_648, out);
            out.extend_from_slice(&[0b100_0011, 0, 0, 0, 0, 2, 0, 0, 0]);
            row::write_binary(body, out);
        });
    }
    let verbs: Vec<_> = parse_operations(&stream)
        .unwrap()
        .into_iter()
        .map(|operation| matches!(operation.verb, Verb::Unreadable(_)))
        .collect();
    assert_eq!(verbs, [false, true, true, false]);
}

#[test]
fn more_operations_than_a_batch_may_have_are_refused() {
    let batch = |count: usize| {
        let mut stream = record::begin(0);
        for _ in 0..count {
            record::append(&mut stream, |out| {
                record::head(2_145_473_648, out);
                out.extend_from_slice(&[0b1_0011, 2, 0, 0, 0, 2, 0, 0, 0, 1, b'a']);
            });
        }
        parse_operations(&stream)
    };
    assert_eq!(batch(BATCH_OPERATIONS_MAX).unwrap().len(), BATCH_OPERATIONS_MAX);
    let error = batch(BATCH_OPERATIONS_MAX + 1).unwrap_err();
    assert!(error.message().contains("It has 101"), "{error}");
}
