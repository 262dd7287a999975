//! Order of bytes equals order of values; what is written is read back; any bytes are survived.

use proptest::prelude::*;

use super::*;

/// Byte strings rich in the bytes that matter to the escape.
fn byte_strings() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(
        prop_oneof![Just(0u8), Just(1), Just(0xfe), Just(0xff), any::<u8>()],
        0..8,
    )
}

/// A row of fields such as a real key has.
type Row = (u32, Vec<u8>, i64, u64, u8);

fn rows() -> impl Strategy<Value = Row> {
    (0..3u32, byte_strings(), -2..3i64, 0..3u64, 0..3u8)
}

fn encode((a, b, c, d, e): &Row) -> Vec<u8> {
    KeyWriter::new().u32(*a).bytes(b).i64(*c).u64(*d).u8(*e).finish()
}

fn decode(key: &[u8]) -> Result<Row, KeyError> {
    let mut fields = KeyReader::new(key);
    let row = (fields.u32()?, fields.bytes()?, fields.i64()?, fields.u64()?, fields.u8()?);
    fields.finish()?;
    Ok(row)
}

proptest! {
    #[test]
    fn unsigned_numbers_keep_order_and_value(a: u64, b: u64, c: u32, d: u32) {
        let (x, y) = (KeyWriter::new().u64(a).finish(), KeyWriter::new().u64(b).finish());
        prop_assert_eq!(x.cmp(&y), a.cmp(&b));
        prop_assert_eq!(KeyReader::new(&x).u64(), Ok(a));
        let (x, y) = (KeyWriter::new().u32(c).finish(), KeyWriter::new().u32(d).finish());
        prop_assert_eq!(x.cmp(&y), c.cmp(&d));
        prop_assert_eq!(KeyReader::new(&x).u32(), Ok(c));
    }

    #[test]
    fn signed_numbers_keep_order_and_value(a: i64, b: i64) {
        let (x, y) = (KeyWriter::new().i64(a).finish(), KeyWriter::new().i64(b).finish());
        prop_assert_eq!(x.cmp(&y), a.cmp(&b));
        prop_assert_eq!(KeyReader::new(&x).i64(), Ok(a));
    }

    #[test]
    fn doubles_keep_total_order_and_every_bit(a: u64, b: u64) {
        let (a, b) = (f64::from_bits(a), f64::from_bits(b));
        let (x, y) = (KeyWriter::new().f64(a).finish(), KeyWriter::new().f64(b).finish());
        prop_assert_eq!(x.cmp(&y), a.total_cmp(&b));
        prop_assert_eq!(KeyReader::new(&x).f64().map(f64::to_bits), Ok(a.to_bits()));
    }

    #[test]
    fn byte_strings_keep_order_and_value(a in byte_strings(), b in byte_strings()) {
        let (x, y) = (KeyWriter::new().bytes(&a).finish(), KeyWriter::new().bytes(&b).finish());
        prop_assert_eq!(x.cmp(&y), a.cmp(&b));
        prop_assert_eq!(KeyReader::new(&x).bytes(), Ok(a));
    }

    #[test]
    fn texts_come_back(text: String) {
        let key = KeyWriter::new().text(&text).finish();
        prop_assert_eq!(KeyReader::new(&key).text(), Ok(text));
    }

    #[test]
    fn the_prefix_of_a_string_is_the_prefix_of_its_key(a in byte_strings(), b in byte_strings()) {
        let prefix = KeyWriter::new().bytes_prefix(&a).finish();
        let key = KeyWriter::new().bytes(&b).finish();
        // A prefix that ends in a zero byte is escaped like the whole, so both directions hold.
        prop_assert_eq!(key.starts_with(&prefix), b.starts_with(&a));
    }

    #[test]
    fn rows_keep_order_and_value(a in rows(), b in rows()) {
        let (x, y) = (encode(&a), encode(&b));
        prop_assert_eq!(x.cmp(&y), a.cmp(&b));
        prop_assert_eq!(decode(&x), Ok(a));
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in byte_strings(), length in 0usize..12) {
        let _row = decode(&bytes);
        let mut fields = KeyReader::new(&bytes);
        let _text = fields.text();
        let _number = fields.f64();
        let _raw = fields.raw(length);
        let _end = fields.finish();
    }
}

#[test]
fn special_doubles_are_in_order() {
    let values =
        [f64::NEG_INFINITY, f64::MIN, -1.0, -0.0, 0.0, 1e-300, 1.0, f64::MAX, f64::INFINITY];
    let keys: Vec<_> = values.iter().map(|value| KeyWriter::new().f64(*value).finish()).collect();
    assert!(keys.is_sorted());
}

#[test]
fn each_kind_of_damage_has_its_error() {
    assert_eq!(KeyReader::new(&[1, 2, 3]).u32(), Err(KeyError::Short));
    assert_eq!(KeyReader::new(b"abc").bytes(), Err(KeyError::Short));
    assert_eq!(KeyReader::new(b"abc\0").bytes(), Err(KeyError::Short));
    assert_eq!(KeyReader::new(b"abc\0\x01").bytes(), Err(KeyError::Escape));
    assert_eq!(KeyReader::new(b"\xc3\x28\0\0").text(), Err(KeyError::Utf8));
    assert_eq!(KeyReader::new(b"x").finish(), Err(KeyError::Long));
}
