//! Partition keys: their values, and the effective partition key that routes them.
//!
//! A key has one component per path of the container's definition. Its *effective* key (EPK) is a
//! byte string that decides the range an item lives in and sorts items of one logical partition
//! together; the three ways to compute it (Hash V1, Hash V2, MultiHash) are those of the clients,
//! because clients route by it too (`docs/protocol/partition-keys.md#effective-partition-keys`).

use crate::error::{Error, Result};
use crate::limits::{ITEM_SIZE_MAX, PARTITION_KEY_LENGTH_MAX, PARTITION_KEY_LEVELS_MAX};
use crate::path::Path;
use crate::tally::{self, Work};
use crate::value::Value;
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;

/// One component of a partition key.
#[derive(Clone, Debug, PartialEq)]
pub enum Component {
    /// The item has no scalar at the path.
    Undefined,
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number; keys are doubles, and `-0` is `0`.
    Number(f64),
    /// A string.
    String(Arc<str>),
}

/// The values of a key, outermost level first. May be shorter than the definition: a prefix.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct PartitionKey(pub Vec<Component>);

/// How a container computes effective keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hashing {
    /// `Hash`, version 1: 32-bit hash, then the key itself.
    V1,
    /// `Hash`, version 2: 128-bit hash.
    V2,
    /// `MultiHash`: the 128-bit hash of each level.
    MultiHash,
}

/// A container's partition key definition.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// Where the components are found in an item.
    pub paths: Vec<Path>,
    /// How they are hashed.
    pub hashing: Hashing,
}

/// An effective partition key: the bytes that route an item.
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epk(pub SmallVec<[u8; 48]>);

impl Clone for Epk {
    // What is derived would copy byte by byte.
    fn clone(&self) -> Self {
        Self::from_bytes(&self.0)
    }
}

impl Component {
    /// The component a JSON value stands for; objects and arrays count as undefined.
    pub fn from_value(value: Option<&Value>) -> Self {
        match value {
            Some(Value::Null) => Self::Null,
            Some(Value::Bool(bool)) => Self::Bool(*bool),
            // Adding zero turns -0 into 0: same number, same partition.
            Some(Value::Number(number)) => Self::Number(number.as_f64() + 0.0),
            Some(Value::String(text)) => Self::String(text.clone()),
            _ => Self::Undefined,
        }
    }

    /// The component as a value, `undefined` included.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Undefined => Value::Undefined,
            Self::Null => Value::Null,
            Self::Bool(bool) => Value::Bool(*bool),
            Self::Number(number) => Value::from(*number),
            Self::String(text) => Value::String(text.clone()),
        }
    }

    fn write_hashed(&self, terminator: u8, out: &mut SmallVec<[u8; 64]>) {
        match self {
            Self::Undefined => out.push(0x00),
            Self::Null => out.push(0x01),
            Self::Bool(false) => out.push(0x02),
            Self::Bool(true) => out.push(0x03),
            Self::Number(number) => {
                out.push(0x05);
                out.extend_from_slice(&number.to_le_bytes());
            }
            Self::String(text) => {
                out.push(0x08);
                out.extend_from_slice(text.as_bytes());
                out.push(terminator);
            }
        }
    }
}

impl PartitionKey {
    /// Reads a key written as a JSON array, as batches, permissions and the catalog have it. `[{}]` is undefined; `[]` is a prefix of no
    /// components.
    pub fn parse(header: &str) -> Result<Self> {
        let malformed =
            |why: &str| Error::bad_request(format!("The partition key '{header}' {why}."));
        let value = crate::json::parse(header.as_bytes())
            .map_err(|error| malformed(&format!("is not JSON: {error}")))?;
        let components =
            value.as_array().ok_or_else(|| malformed("is not an array of key values"))?;
        components.iter().map(read_component).collect::<Option<_>>().map(Self).ok_or_else(|| {
            malformed("may hold only strings, numbers, booleans, null and {} for undefined")
        })
    }

    /// The key of items that have none, in a container with so many levels.
    pub fn undefined(levels: usize) -> Self {
        Self(vec![Component::Undefined; levels])
    }

    /// The key of an item under a definition: always one component per path.
    pub fn of_item(item: &Value, definition: &Definition) -> Self {
        let component = |path: &Path| Component::from_value(path.find(item));
        Self(definition.paths.iter().map(component).collect())
    }

    /// The key as the JSON array of the header.
    pub fn to_header(&self) -> String {
        let texts = self.0.iter().map(|component| match component.to_value() {
            Value::Undefined => "{}".to_owned(),
            value => value.to_json(),
        });
        format!("[{}]", texts.collect::<Vec<_>>().join(","))
    }
}

fn read_component(value: &Value) -> Option<Component> {
    match value {
        Value::Object(object) => object.is_empty().then_some(Component::Undefined),
        Value::Array(_) => None,
        scalar => Some(Component::from_value(Some(scalar))),
    }
}

impl Definition {
    /// Number of components of a full key.
    pub fn levels(&self) -> usize {
        self.paths.len()
    }

    /// The effective key of a full key or of a prefix of a hierarchical one.
    pub fn epk(&self, key: &PartitionKey) -> Epk {
        tally::count(Work::KeyHash);
        match self.hashing {
            _ if key.0.is_empty() => Epk::default(),
            Hashing::V1 => epk_v1(&key.0),
            Hashing::V2 => Epk::from_bytes(&hash128(&key.0)),
            Hashing::MultiHash => {
                Epk(key.0.iter().flat_map(|part| hash128(std::slice::from_ref(part))).collect())
            }
        }
    }

    /// Refuses keys with more components than there are paths, incomplete ones, and those with a value
    /// that is too long.
    pub fn check_full(&self, key: &PartitionKey) -> Result<()> {
        tally::count(Work::KeyCheck);
        if key.0.len() == self.levels() {
            return self.check_lengths(key);
        }
        Err(Error::PartitionKeyMismatch(format!(
            "Partition key provided either doesn't correspond to definition in the collection or \
             doesn't match partition key field values specified in the document. It has {} \
             components, the container's definition has {}.",
            key.0.len(),
            self.levels()
        )))
    }

    /// Refuses keys with a value that is too long. The bound is the same for version 1, although only the
    /// first 100 characters count there: as in the service, longer keys that begin alike are one logical
    /// partition.
    pub fn check_lengths(&self, key: &PartitionKey) -> Result<()> {
        let length = |component: &Component| match component {
            Component::String(text) => text.len(),
            _ => 0,
        };
        match key.0.iter().map(length).find(|length| *length > PARTITION_KEY_LENGTH_MAX) {
            None => Ok(()),
            // An item with such a key is too large, and that is what its writer looks for.
            Some(length) if length >= ITEM_SIZE_MAX => {
                Err(Error::TooLarge(format!("The partition key value has {length} bytes.")))
            }
            Some(length) => Err(Error::bad_request(format!(
                "The partition key value has {length} bytes; values may have at most \
                 {PARTITION_KEY_LENGTH_MAX}."
            ))),
        }
    }

    /// True when no other key that [`check_lengths`](Self::check_lengths) accepts has the same effective key.
    /// Version 1 takes the first 100 characters of a string.
    pub fn is_distinct(&self, key: &PartitionKey) -> bool {
        let is_short = |component: &Component| match component {
            Component::String(text) => text.chars().count() < V1_STRING_MAX,
            _ => true,
        };
        self.hashing != Hashing::V1 || key.0.iter().all(is_short)
    }

    /// True when a key of so many components is a proper prefix of a hierarchical key.
    pub fn is_prefix(&self, key: &PartitionKey) -> bool {
        self.hashing == Hashing::MultiHash && key.0.len() < self.levels()
    }

    /// Checks the definition itself.
    pub fn check(&self) -> Result<()> {
        let levels_max =
            if self.hashing == Hashing::MultiHash { PARTITION_KEY_LEVELS_MAX } else { 1 };
        if self.paths.len() > levels_max {
            return Err(Error::bad_request(format!(
                "Too many partition key paths ({}) specified. A maximum of {levels_max} is allowed.",
                self.paths.len()
            )));
        }
        if self.paths.is_empty() {
            return Err(Error::bad_request(format!(
                "The partition key must have between 1 and {levels_max} paths, and has {}.",
                self.paths.len()
            )));
        }
        Ok(())
    }
}

fn hash128(components: &[Component]) -> [u8; 16] {
    let mut bytes = SmallVec::new();
    components.iter().for_each(|component| component.write_hashed(0xff, &mut bytes));
    let hash = murmur3::murmur3_x64_128(&mut &bytes[..], 0).expect("a slice can always be read");
    // The second half of the hash comes first, each half big-endian: together the big-endian form.
    let mut epk = hash.to_be_bytes();
    epk[0] &= 0x3f;
    epk
}

/// Characters of a string that count in a V1 key.
const V1_STRING_MAX: usize = 100;

fn epk_v1(components: &[Component]) -> Epk {
    let truncated: Vec<Component> = components
        .iter()
        .map(|component| match component {
            Component::String(text) if text.chars().count() > V1_STRING_MAX => {
                Component::String(text.chars().take(V1_STRING_MAX).collect::<String>().into())
            }
            other => other.clone(),
        })
        .collect();
    let mut bytes = SmallVec::new();
    truncated.iter().for_each(|component| component.write_hashed(0x00, &mut bytes));
    let hash = murmur3::murmur3_32(&mut &bytes[..], 0).expect("a slice can always be read");
    let mut epk = Epk::default();
    write_v1(&Component::Number(f64::from(hash)), &mut epk.0);
    truncated.iter().for_each(|component| write_v1(component, &mut epk.0));
    epk
}

/// The order-preserving form of a component in V1 keys.
fn write_v1(component: &Component, out: &mut SmallVec<[u8; 48]>) {
    match component {
        Component::Undefined => out.push(0x00),
        Component::Null => out.push(0x01),
        Component::Bool(false) => out.push(0x02),
        Component::Bool(true) => out.push(0x03),
        Component::Number(number) => write_v1_number(*number, out),
        Component::String(text) => {
            out.push(0x08);
            let bytes = text.as_bytes();
            let short = bytes.len() <= V1_STRING_MAX;
            let shown = if short { bytes } else { &bytes[..=V1_STRING_MAX] };
            out.extend(shown.iter().map(|byte| byte.wrapping_add(1)));
            if short {
                out.push(0x00);
            }
        }
    }
}

/// The V1 form of a number alone: the bounds between ranges of V1 containers.
pub fn v1_number(number: f64) -> Epk {
    let mut epk = Epk::default();
    write_v1_number(number, &mut epk.0);
    epk
}

fn write_v1_number(number: f64, out: &mut SmallVec<[u8; 48]>) {
    const SIGN: u64 = 1 << 63;
    let bits = number.to_bits();
    let ordered = if bits & SIGN == 0 { bits ^ SIGN } else { bits.wrapping_neg() };
    out.push(0x05);
    out.push((ordered >> 56) as u8);
    let mut rest = ordered << 8;
    // Seven bits a byte; the lowest bit says whether another byte follows.
    loop {
        let byte = (rest >> 56) as u8;
        rest <<= 7;
        if rest == 0 {
            out.push(byte & 0xfe);
            return;
        }
        out.push(byte | 1);
    }
}

/// Reads the number at the beginning of a V1 key back.
pub fn read_v1_number(bytes: &[u8]) -> Option<f64> {
    const SIGN: u64 = 1 << 63;
    let (&[kind, first], rest) = bytes.split_first_chunk()?;
    if kind != 0x05 {
        return None;
    }
    let (mut ordered, mut shift) = (u64::from(first) << 56, 56_u32);
    for byte in rest {
        // The last byte holds what is left of the 64 bits.
        let bits = u64::from(byte >> 1);
        ordered |= if shift >= 7 { bits << (shift - 7) } else { bits >> (7 - shift) };
        shift = shift.saturating_sub(7);
        if byte & 1 == 0 {
            break;
        }
    }
    let bits = if ordered & SIGN == 0 { ordered.wrapping_neg() } else { ordered ^ SIGN };
    Some(f64::from_bits(bits))
}

impl Epk {
    /// The key of some bytes.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self(SmallVec::from_slice(bytes))
    }

    /// Reads the upper- or lower-case hex of the wire.
    pub fn parse_hex(text: &str) -> Result<Self> {
        let malformed = || {
            Error::bad_request(format!(
                "'{text}' is not an effective partition key in hexadecimal."
            ))
        };
        if !text.len().is_multiple_of(2) || !text.is_ascii() {
            return Err(malformed());
        }
        let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| malformed());
        (0..text.len()).step_by(2).map(byte).collect::<Result<_>>().map(Self)
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Epk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02X}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(kind: &str, version: i64, paths: &[Value]) -> Definition {
        let hashing = match (kind, version) {
            ("MultiHash", _) => Hashing::MultiHash,
            (_, 1) => Hashing::V1,
            _ => Hashing::V2,
        };
        let paths = paths.iter().map(|path| Path::parse(path.as_str().unwrap()).unwrap());
        Definition { paths: paths.collect(), hashing }
    }

    /// Vector keys keep `-0`, which [`PartitionKey::parse`] folds into `0`.
    fn vector_key(value: &Value) -> PartitionKey {
        let component = |value: &Value| match value {
            Value::Number(number) => Component::Number(number.as_f64()),
            other => read_component(other).unwrap(),
        };
        PartitionKey(value.as_array().unwrap().iter().map(component).collect())
    }

    #[test]
    fn effective_keys_are_those_of_the_clients() {
        let vectors = crate::json::parse(include_bytes!("../tests/vectors/epk.json")).unwrap();
        let cases = vectors.get("vectors").unwrap().as_array().unwrap();
        assert_eq!(cases.len(), 113);
        for case in cases {
            let field = |name| case.get(name).unwrap();
            let definition = definition(
                field("kind").as_str().unwrap(),
                field("version").as_i64().unwrap(),
                field("paths").as_array().unwrap(),
            );
            let epk = definition.epk(&vector_key(field("partitionKey")));
            assert_eq!(epk.to_string(), field("epk").as_str().unwrap(), "{case}");
        }
    }

    #[test]
    fn prefixes_of_hierarchical_keys_are_ranges() {
        let vectors = crate::json::parse(include_bytes!("../tests/vectors/epk.json")).unwrap();
        for case in vectors.get("prefixRanges").unwrap().as_array().unwrap() {
            let paths = case.get("paths").unwrap().as_array().unwrap();
            let key = vector_key(case.get("prefix").unwrap());
            let epk = definition("MultiHash", 2, paths).epk(&key).to_string();
            assert_eq!(epk, case.get("minInclusive").unwrap().as_str().unwrap(), "{case}");
        }
    }

    #[test]
    fn values_beyond_the_limit_are_refused() {
        let key = |length: usize| PartitionKey(vec![Component::String("k".repeat(length).into())]);
        let path = [Value::string("/k")];
        for version in [1, 2] {
            let definition = definition("Hash", version, &path);
            definition.check_full(&key(2048)).unwrap();
            let refused = definition.check_full(&key(2049)).unwrap_err();
            assert!(refused.message().contains("2048"), "{refused}");
        }
        let deep = definition("MultiHash", 2, &[path[0].clone(), path[0].clone()]);
        assert!(deep.check_lengths(&key(2049)).is_err(), "of a prefix too");
        deep.check_lengths(&key(2048)).unwrap();
    }

    #[test]
    fn keys_that_share_what_version_1_hashes_are_not_distinct() {
        let key = |text: String| PartitionKey(vec![Component::String(text.into())]);
        let definition = definition("Hash", 1, &[Value::string("/k")]);
        let (long, longer) = ("k".repeat(100), format!("{}x", "k".repeat(100)));
        assert_eq!(definition.epk(&key(long.clone())), definition.epk(&key(longer.clone())));
        assert!(!definition.is_distinct(&key(long)) && !definition.is_distinct(&key(longer)));
        assert!(definition.is_distinct(&key("k".repeat(99))));
    }

    #[test]
    fn header_forms() {
        let key = PartitionKey::parse(r#"["a",5.0,true,null,{}]"#).unwrap();
        assert_eq!(key.to_header(), r#"["a",5,true,null,{}]"#);
        assert_eq!(PartitionKey::parse("[-0]").unwrap(), PartitionKey::parse("[0]").unwrap());
        for text in ["", "5", r#"{"a":1}"#, "[[1]]", r#"[{"a":1}]"#] {
            assert!(PartitionKey::parse(text).is_err(), "{text} was accepted");
        }
    }
}
