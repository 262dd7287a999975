//! Continuation tokens: positions in the data, printable, under 1 KB.
//!
//! ```text
//! "Q1:" + base64url of: hash u64 │ kind u8 │ position │ for each level: rows to skip, rows to take
//! ```
//!
//! The hash binds a token to its query, parameters and partition key. It does not bind it to a
//! range: the children of a split go on from the token of their parent.

pub(in crate::query) mod codec;

use crate::query::{Limit, Request, Scope};
use armilla_model::error::{Error, Result};
use armilla_model::partition_key::Epk;
use armilla_model::rid;
use armilla_model::value::{Type, Value};
use armilla_sql::key::write_key;
use armilla_sql::plan::is_rewritten_order;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use codec::{TokenReader, TokenWriter};
use siphasher::sip::SipHasher13;
use std::cmp::Ordering;
use std::hash::Hasher;

const PREFIX: &str = "Q1:";
/// What is said of a token that this server did not write, or wrote for another query.
pub const INVALID_TOKEN: &str =
    "Invalid Continuation Token: it is not one of this query and server.";
/// Bytes of ORDER BY values in one token.
const VALUES_MAX: usize = 360;
/// Bytes of one ORDER BY value.
const VALUE_MAX: usize = 256;
/// Bytes of a group's key that decide its place; behind them its hash does.
pub(in crate::query) const KEY_PREFIX_MAX: usize = 128;

/// Where a page ended.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::query) enum Position {
    /// Behind (or inside) an item, in the order of items.
    Item {
        /// The last item looked at.
        place: Place,
        /// Rows of it that were handed out; `None` when it is done.
        rows: Option<u32>,
        /// The windows of the query and the queries inside it, innermost first, as they were
        /// before the item.
        windows: Vec<Window>,
    },
    /// Behind a row, in an order.
    Ordered(OrderedPosition, Window),
    /// Behind a group or distinct row.
    Key(GroupKey, Window),
    /// Behind so many rows.
    Count(u64),
}

/// An item's place in its container.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::query) struct Place {
    pub(in crate::query) epk: Epk,
    pub(in crate::query) docno: u64,
}

/// Rows still to be left out, then rows still to be handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::query) struct Window {
    pub(in crate::query) skip: u64,
    pub(in crate::query) take: u64,
}

impl Place {
    /// The place before an item that is not done.
    pub(in crate::query) fn before(&self) -> Self {
        Self { epk: self.epk.clone(), docno: self.docno.saturating_sub(1) }
    }
}

impl Window {
    pub(in crate::query) fn of(query: &armilla_sql::Compiled) -> Self {
        let (skip, take) = query.window();
        Self { skip, take }
    }

    /// Rows that a page of so many takes at most, those to be skipped included, and one to know of more.
    pub(in crate::query) fn wanted(self, count_max: usize) -> usize {
        let page = self.take.min((count_max.max(1) as u64).saturating_add(1));
        usize::try_from(self.skip.saturating_add(page)).unwrap_or(usize::MAX)
    }

    /// Counts a row: true when it is to be handed out.
    pub(in crate::query) fn admit(&mut self) -> bool {
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        self.take = self.take.saturating_sub(1);
        true
    }
}

/// A row's place in an order.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::query) struct OrderedPosition {
    pub(in crate::query) values: Vec<KeyValue>,
    /// Bounds of the range that the row came from: ties go range by range.
    pub(in crate::query) min: Epk,
    pub(in crate::query) max: Option<Epk>,
    pub(in crate::query) place: Place,
    pub(in crate::query) row: u32,
}

impl OrderedPosition {
    pub(in crate::query) fn is_exact(&self) -> bool {
        self.values.iter().all(KeyValue::is_exact)
    }
}

/// The value of an ORDER BY key, as far as a token can hold it.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::query) enum KeyValue {
    Exact(Value),
    /// The beginning of a long string.
    Prefix(Box<str>),
    /// Some long array or object.
    OfType(Type),
}

impl KeyValue {
    /// Where a value lies relative to this one; equal when it cannot be told.
    pub(in crate::query) fn compare(&self, value: &Value) -> Ordering {
        match self {
            Self::Exact(exact) => value.order(exact),
            Self::Prefix(prefix) => match value.as_str() {
                Some(text) if text.starts_with(&**prefix) => Ordering::Equal,
                Some(text) => text.as_bytes().cmp(prefix.as_bytes()),
                None => value.kind().cmp(&Type::String),
            },
            Self::OfType(kind) => value.kind().cmp(kind),
        }
    }

    pub(in crate::query) fn is_exact(&self) -> bool {
        matches!(self, Self::Exact(_))
    }

    fn shorten(value: &Value, bytes_max: usize) -> Self {
        match value {
            Value::String(text) if text.len() > bytes_max => {
                let mut end = bytes_max;
                while !text.is_char_boundary(end) {
                    end -= 1;
                }
                Self::Prefix(text[..end].into())
            }
            Value::Array(_) | Value::Object(_)
                if crate::query::bounded::size(value) > bytes_max =>
            {
                Self::OfType(value.kind())
            }
            _ => Self::Exact(value.clone()),
        }
    }

    /// The values of a row, shortened to what a token holds.
    pub(in crate::query) fn shortened(values: &[Value]) -> Vec<Self> {
        let each = (VALUES_MAX / values.len().max(1)).min(VALUE_MAX);
        values.iter().map(|value| Self::shorten(value, each)).collect()
    }
}

/// The place of a group or distinct row: bytes that sort like its values, then a hash of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::query) struct GroupKey {
    pub(in crate::query) prefix: Vec<u8>,
    pub(in crate::query) hash: u128,
}

/// The part of a text that a token is bound to. A client that resumes a query by its plan puts a
/// condition of its own into the rewritten text; what must stay is the order.
fn bound_text(text: &str) -> &str {
    match text.rfind(" ORDER BY ").filter(|_| is_rewritten_order(text)) {
        Some(order) => &text[order..],
        None => text,
    }
}

/// What a token must agree with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::query) struct Binding {
    /// Of text, parameters and partition key.
    exact: u64,
    /// Of text and parameters: a query over the range of one key may go on as a query of that key.
    loose: u64,
}

/// What the tokens of a query are bound to.
pub(in crate::query) fn binding(request: &Request, scope: &Scope) -> Binding {
    let mut hasher = SipHasher13::new();
    let mut piece = |bytes: &[u8]| {
        hasher.write_usize(bytes.len());
        hasher.write(bytes);
    };
    piece(bound_text(&request.text).as_bytes());
    let mut key = Vec::new();
    for (name, value) in &request.parameters {
        piece(name.as_bytes());
        key.clear();
        write_key(value, &mut key);
        piece(&key);
    }
    let loose = hasher.finish();
    if scope.limit == Limit::Key {
        let key = scope.span.min.as_bytes();
        hasher.write_usize(key.len());
        hasher.write(key);
    }
    Binding { exact: hasher.finish(), loose }
}

/// Writes a token.
pub(in crate::query) fn write(binding: Binding, position: &Position) -> String {
    let mut out = TokenWriter(binding.exact.to_be_bytes().to_vec());
    match position {
        Position::Item { place, rows, windows } => {
            out.0.push(0);
            out.place(place);
            out.number(rows.map_or(0, |rows| u64::from(rows) + 1));
            out.number(windows.len() as u64);
            windows.iter().for_each(|window| out.window(*window));
        }
        Position::Ordered(ordered, window) => {
            out.0.push(1);
            out.number(ordered.values.len() as u64);
            ordered.values.iter().for_each(|value| out.value(value));
            out.bytes(ordered.min.as_bytes());
            out.bytes(ordered.max.as_ref().map_or(&[], |max| max.as_bytes()));
            out.place(&ordered.place);
            out.number(u64::from(ordered.row));
            out.window(*window);
        }
        Position::Key(key, window) => {
            out.0.push(2);
            out.bytes(&key.prefix);
            out.0.extend_from_slice(&key.hash.to_be_bytes());
            out.window(*window);
        }
        Position::Count(count) => {
            out.0.push(3);
            out.number(*count);
        }
    }
    let mut text = PREFIX.to_owned();
    URL_SAFE_NO_PAD.encode_string(out.0, &mut text);
    text
}

/// Reads a token of this query; anything else is refused. A token of the service itself, kept by a
/// client that was pointed here, names an item of another container: the query begins anew.
pub(in crate::query) fn read(text: &str, binding: Binding) -> Result<Option<Position>> {
    let foreign = || Error::bad_request(INVALID_TOKEN);
    if is_of_the_service(text) {
        return Ok(None);
    }
    let encoded = text.strip_prefix(PREFIX).ok_or_else(foreign)?;
    let bytes = URL_SAFE_NO_PAD.decode(encoded).map_err(|_| foreign())?;
    let mut reader = TokenReader(&bytes);
    let fits = |found: &u64| *found == binding.exact || *found == binding.loose;
    let position = reader.u64().filter(fits).and_then(|_| reader.position());
    position.filter(|_| reader.0.is_empty()).map(Some).ok_or_else(foreign)
}

/// True for a token of the service itself: `-RID:~` and an item's rid, then `#RT:` and how many pages went
/// before.
pub fn is_of_the_service(text: &str) -> bool {
    let rid = text.strip_prefix("-RID:~").and_then(|rest| rest.split_once("#RT:"));
    rid.and_then(|(rid, _)| rid::decode(rid)).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bound(hash: u64) -> Binding {
        Binding { exact: hash, loose: hash }
    }

    fn place() -> impl Strategy<Value = Place> {
        (proptest::collection::vec(any::<u8>(), 0..120), any::<u64>())
            .prop_map(|(epk, docno)| Place { epk: Epk::from_bytes(&epk), docno })
    }

    fn window() -> impl Strategy<Value = Window> {
        (any::<u64>(), any::<u64>()).prop_map(|(skip, take)| Window { skip, take })
    }

    fn values() -> impl Strategy<Value = Vec<Value>> {
        let value = prop_oneof![
            Just(Value::Undefined),
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<f64>().prop_filter("finite", |x| x.is_finite()).prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "\\PC{0,300}".prop_map(Value::from),
            Just(Value::array(vec![Value::from("x"); 100])),
            Just(Value::array(vec![Value::from(1)])),
        ];
        proptest::collection::vec(value, 1..=8)
    }

    fn position() -> impl Strategy<Value = Position> {
        prop_oneof![
            (place(), any::<Option<u32>>(), proptest::collection::vec(window(), 0..4)).prop_map(
                |(place, rows, windows)| Position::Item {
                    place,
                    rows: rows.filter(|rows| *rows < u32::MAX),
                    windows
                }
            ),
            (values(), place(), any::<u32>(), window()).prop_map(|(values, place, row, window)| {
                let ordered = OrderedPosition {
                    values: KeyValue::shortened(&values),
                    min: Epk::from_bytes(&[1; 48]),
                    max: Some(Epk::from_bytes(&[2; 48])),
                    place,
                    row,
                };
                Position::Ordered(ordered, window)
            }),
            (proptest::collection::vec(any::<u8>(), 0..KEY_PREFIX_MAX), any::<u128>(), window())
                .prop_map(|(prefix, hash, window)| Position::Key(
                    GroupKey { prefix, hash },
                    window
                )),
            any::<u64>().prop_map(Position::Count),
        ]
    }

    proptest! {
        #[test]
        fn tokens_read_back_and_are_small(position in position()) {
            let text = write(bound(7), &position);
            prop_assert!(text.len() < 1024, "{} bytes", text.len());
            prop_assert_eq!(read(&text, bound(7)).unwrap(), Some(position));
            prop_assert!(read(&text, bound(8)).is_err());
            prop_assert!(read(&text[..text.len() - 1], bound(7)).is_err());
        }

        #[test]
        fn anything_can_be_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut text = PREFIX.to_owned();
            let mut whole = 7u64.to_be_bytes().to_vec();
            whole.extend(bytes);
            URL_SAFE_NO_PAD.encode_string(whole, &mut text);
            let _ = read(&text, bound(7));
        }
    }

    #[test]
    fn foreign_tokens_are_refused() {
        for text in ["", "Q1:", "F1:00:1", "-RID:~abc#RT:1", "Q1:!!!!", "Q1:AAAA"] {
            assert!(read(text, bound(0)).is_err(), "{text}");
        }
    }
}
