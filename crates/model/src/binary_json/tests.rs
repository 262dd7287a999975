//! Bodies of the .NET client's own writer, bodies that must be refused, and the way back.

use super::*;
use crate::json;
use crate::limits::ITEM_SIZE_MAX;
use crate::value::Value;
use proptest::prelude::*;

fn vectors(name: &str) -> Vec<Value> {
    let vectors = json::parse(include_bytes!("../../tests/vectors/binary-json.json")).unwrap();
    vectors.get(name).unwrap().as_array().unwrap().to_vec()
}

fn bytes_of(case: &Value) -> Vec<u8> {
    let hex = case.get("hex").unwrap().as_str().unwrap();
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// The text of a body, parsed and written again: 100.0 and 100 are told apart, escapes are not.
fn canonical(text: &[u8]) -> String {
    json::parse(text).unwrap().to_json()
}

fn text(body: &[u8]) -> Result<String> {
    to_text(body).map(|text| String::from_utf8(text).unwrap())
}

#[test]
fn bodies_of_the_clients_writer_equal_their_text() {
    let bodies = vectors("bodies");
    assert_eq!(bodies.len(), 163);
    for case in bodies {
        let expected = case.get("text").unwrap().as_str().unwrap();
        let found = to_text(&bytes_of(&case)).unwrap_or_else(|error| panic!("{expected}: {error}"));
        let (found, expected) =
            (json::parse(&found).unwrap(), json::parse(expected.as_bytes()).unwrap());
        assert_eq!(found, expected);
    }
}

#[test]
fn damaged_bodies_are_refused() {
    let refused = vectors("refused");
    assert_eq!(refused.len(), 13);
    for case in refused {
        let error = to_text(&bytes_of(&case)).unwrap_err();
        assert!(matches!(error, Error::BadRequest(_)), "{case}: {error}");
    }
}

#[test]
fn a_body_that_is_cut_is_refused() {
    for case in vectors("bodies") {
        let body = bytes_of(&case);
        for length in 0..body.len().min(400) {
            assert!(to_text(&body[..length]).is_err(), "{case} cut at {length}");
        }
    }
}

#[test]
fn what_is_written_is_read_again() {
    for case in vectors("bodies") {
        let expected = case.get("text").unwrap().as_str().unwrap();
        let binary = from_text(expected.as_bytes()).unwrap();
        assert_eq!(canonical(&to_text(&binary).unwrap()), canonical(expected.as_bytes()));
    }
    let long = format!("{{\"id\":\"{}\",\"n\":[{}]}}", "x".repeat(70_000), "1,".repeat(300) + "2");
    let binary = from_text(long.as_bytes()).unwrap();
    assert_eq!(text(&binary).unwrap(), long);
}

#[test]
fn small_forms_are_chosen() {
    let check = |text: &str, expected: &[u8]| {
        assert_eq!(
            from_text(text.as_bytes()).unwrap(),
            [&[PREAMBLE][..], expected].concat(),
            "{text}"
        );
    };
    check("31", &[0x1f]);
    check("32", &[0xc8, 0x20]);
    check("-1", &[0xc9, 0xff, 0xff]);
    check("100000", &[0xca, 0xa0, 0x86, 0x01, 0]);
    check("1.5", &[0xcc, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f]);
    check(r#"{"id":"a"}"#, &[0xe9, 0x2c, 0x81, b'a']);
    check("[1,[]]", &[0xe2, 2, 1, 0xe0]);
}

#[test]
fn every_form_of_a_number() {
    let check = |body: &[u8], expected: &str| {
        assert_eq!(text(&[&[PREAMBLE][..], body].concat()).unwrap(), expected, "{body:x?}");
    };
    check(&[0x07], "7");
    check(&[0xc7, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], "18446744073709551615");
    check(&[0xcb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], "-1");
    check(&[0xcd, 0, 0, 0xc0, 0x3f], "1.5");
    check(&[0xcf, 0x00, 0x3e], "1.5");
    check(&[0xcf, 0x01, 0x80], "-5.960464477539063e-8");
    check(&[0xd8, 0xff], "-1");
    check(&[0xdc, 0xff, 0xff, 0xff, 0xff], "4294967295");
    check(&[0xf0, 0xd7, 3, 1, 2, 255], "[1,2,255]");
    check(&[0xf2, 0xf0, 0xd7, 2, 2, 1, 2, 3, 4], "[[1,2],[3,4]]");
    check(
        &[0xd3, 3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15],
        "\"00010203-0405-0607-0809-0a0b0c0d0e0f\"",
    );
    check(&[0xdd, 2, 0xff, 0xee], "\"/+4=\"");
    for infinite in
        [&[0xcf, 0x00, 0x7c][..], &[0xcd, 0, 0, 0x80, 0x7f], &[0xcc, 0, 0, 0, 0, 0, 0, 0xf0, 0x7f]]
    {
        assert!(text(&[&[PREAMBLE][..], infinite].concat()).is_err(), "{infinite:x?}");
    }
}

#[test]
fn references_do_not_grow_beyond_an_item() {
    // An array whose first element is a long text, and then many references to it.
    let (length, references) = (60_000_usize, 60_usize);
    let mut inside = vec![0xc1];
    inside.extend_from_slice(&(length as u16).to_le_bytes());
    inside.extend(std::iter::repeat_n(b'x', length));
    for _ in 0..references {
        inside.extend_from_slice(&[0xc3, 6]);
    }
    let mut body = vec![PREAMBLE, 0xe4];
    body.extend_from_slice(&(inside.len() as u32).to_le_bytes());
    body.extend_from_slice(&inside);
    assert!(length * references > ITEM_SIZE_MAX);
    assert!(matches!(to_text(&body), Err(Error::TooLarge(_))));
}

#[test]
fn references_lead_backwards_to_strings_alone() {
    let fine = [0x80, 0xe2, 4, 0x81, b'a', 0xc3, 3];
    assert_eq!(text(&fine).unwrap(), r#"["a","a"]"#);
    for target in [0, 1, 2, 5, 6, 200] {
        let body = [0x80, 0xe2, 4, 0x81, b'a', 0xc3, target];
        assert!(text(&body).is_err(), "a reference to {target}");
    }
    let twice = [0x80, 0xe2, 6, 0x81, b'a', 0xc3, 3, 0xc3, 5];
    assert!(text(&twice).is_err(), "a reference to a reference");
}

proptest! {
    #[test]
    fn any_bytes_can_be_read(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = to_text(&[&[PREAMBLE][..], &bytes].concat());
    }
}
