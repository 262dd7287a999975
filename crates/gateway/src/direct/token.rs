//! Tokens: the fields of a frame, each `id u16 | type u8 | value`, little-endian.
//!
//! A reader walks the tokens of a frame once and checks them all: types, lengths, text, each id once. Values
//! borrow from the frame, so a declared length allocates nothing. Ids that are not known are skipped by
//! their type; a known id with another type is refused.

use super::Malformed;

/// The type of a token's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Byte,
    UShort,
    ULong,
    Long,
    ULongLong,
    LongLong,
    Guid,
    SmallString,
    String,
    ULongString,
    SmallBytes,
    Bytes,
    ULongBytes,
    Float,
    Double,
}

/// A value, as far as the server looks into it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'b> {
    Byte(u8),
    /// Whole numbers of any width, in the bits of the widest.
    Number(u64),
    Text(&'b str),
    Bytes(&'b [u8]),
    Double(f64),
}

impl Type {
    fn of(code: u8) -> Option<Self> {
        use Type as T;
        const BY_CODE: [Type; 15] = [
            T::Byte,
            T::UShort,
            T::ULong,
            T::Long,
            T::ULongLong,
            T::LongLong,
            T::Guid,
            T::SmallString,
            T::String,
            T::ULongString,
            T::SmallBytes,
            T::Bytes,
            T::ULongBytes,
            T::Float,
            T::Double,
        ];
        BY_CODE.get(usize::from(code)).copied()
    }

    /// The code on the wire.
    pub(crate) fn code(self) -> u8 {
        self as u8
    }
}

/// Reads the fields of a frame one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'b> {
    rest: &'b [u8],
}

impl<'b> Reader<'b> {
    pub(crate) fn new(tokens: &'b [u8]) -> Self {
        Self { rest: tokens }
    }

    /// The next token; nothing at the end.
    pub(crate) fn next(&mut self) -> Result<Option<(u16, Type, Value<'b>)>, Malformed> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let [low, high, code] = *self.array::<3>()?;
        let id = u16::from_le_bytes([low, high]);
        let kind = Type::of(code).ok_or(Malformed("a token has an unknown type"))?;
        Ok(Some((id, kind, self.value(kind)?)))
    }

    fn value(&mut self, kind: Type) -> Result<Value<'b>, Malformed> {
        Ok(match kind {
            Type::Byte => Value::Byte(self.array::<1>()?[0]),
            Type::UShort => Value::Number(u16::from_le_bytes(*self.array()?).into()),
            Type::ULong | Type::Float => Value::Number(u32::from_le_bytes(*self.array()?).into()),
            Type::Long => Value::Number(i64::from(i32::from_le_bytes(*self.array()?)) as u64),
            Type::ULongLong | Type::LongLong => Value::Number(u64::from_le_bytes(*self.array()?)),
            Type::Double => Value::Double(f64::from_le_bytes(*self.array()?)),
            Type::Guid => Value::Bytes(self.array::<16>()?),
            Type::SmallBytes | Type::Bytes | Type::ULongBytes => Value::Bytes(self.counted(kind)?),
            Type::SmallString | Type::String | Type::ULongString => {
                let text = std::str::from_utf8(self.counted(kind)?);
                Value::Text(text.map_err(|_| Malformed("a text is not UTF-8"))?)
            }
        })
    }

    /// Bytes behind their length, which has 1, 2 or 4 bytes.
    fn counted(&mut self, kind: Type) -> Result<&'b [u8], Malformed> {
        let length = match kind {
            Type::SmallString | Type::SmallBytes => u32::from(self.array::<1>()?[0]),
            Type::String | Type::Bytes => u16::from_le_bytes(*self.array()?).into(),
            _ => u32::from_le_bytes(*self.array()?),
        };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(CUT)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<&'b [u8; N], Malformed> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(CUT)?;
        self.rest = rest;
        Ok(taken)
    }
}

const CUT: Malformed = Malformed("a token is longer than its frame");

/// The tokens of a frame, each once and each with the type that its id has.
#[derive(Clone, Debug)]
pub(crate) struct Tokens<'b>(Vec<(u16, Value<'b>)>);

/// More tokens than both clients know ids for: a frame with more is no client's.
const TOKENS_MAX: usize = 512;

impl<'b> Tokens<'b> {
    /// Reads and checks all tokens. `expected` says which types an id may have, if it is known.
    pub(crate) fn read(
        tokens: &'b [u8],
        expected: fn(u16) -> Option<&'static [Type]>,
    ) -> Result<Self, Malformed> {
        let mut reader = Reader::new(tokens);
        let mut found: Vec<(u16, Value<'b>)> = Vec::with_capacity(24);
        while let Some((id, kind, value)) = reader.next()? {
            if expected(id).is_some_and(|types| !types.contains(&kind)) {
                return Err(Malformed("a known token has another type"));
            }
            // Most clients write them in the order of their ids.
            let is_new = found.last().is_none_or(|(last, _)| *last < id)
                || found.iter().all(|(seen, _)| *seen != id);
            if !is_new || found.len() == TOKENS_MAX {
                return Err(Malformed("a token comes twice, or there are too many"));
            }
            found.push((id, value));
        }
        Ok(Self(found))
    }

    pub(crate) fn get(&self, id: u16) -> Option<Value<'b>> {
        self.0.iter().find(|(found, _)| *found == id).map(|(_, value)| *value)
    }

    pub(crate) fn text(&self, id: u16) -> Option<&'b str> {
        match self.get(id)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn bytes(&self, id: u16) -> Option<&'b [u8]> {
        match self.get(id)? {
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    pub(crate) fn byte(&self, id: u16) -> Option<u8> {
        match self.get(id)? {
            Value::Byte(byte) => Some(byte),
            _ => None,
        }
    }

    /// A token that says yes or no.
    pub(crate) fn flag(&self, id: u16) -> bool {
        self.byte(id).is_some_and(|byte| byte != 0)
    }

    /// A number of 32 bits.
    pub(crate) fn number(&self, id: u16) -> Option<u32> {
        match self.get(id)? {
            Value::Number(number) => u32::try_from(number).ok(),
            _ => None,
        }
    }
}

/// Appends tokens to a frame.
pub(crate) struct Writer<'o>(pub(crate) &'o mut Vec<u8>);

impl Writer<'_> {
    fn head(&mut self, id: u16, kind: Type) {
        self.0.extend_from_slice(&id.to_le_bytes());
        self.0.push(kind.code());
    }

    pub(crate) fn byte(&mut self, id: u16, value: u8) {
        self.head(id, Type::Byte);
        self.0.push(value);
    }

    pub(crate) fn ulong(&mut self, id: u16, value: u32) {
        self.head(id, Type::ULong);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn long_long(&mut self, id: u16, value: i64) {
        self.head(id, Type::LongLong);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn double(&mut self, id: u16, value: f64) {
        self.head(id, Type::Double);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// A text of at most 255 bytes; what is longer is cut.
    pub(crate) fn small_string(&mut self, id: u16, text: &str) {
        let text = cut(text, usize::from(u8::MAX));
        self.head(id, Type::SmallString);
        self.0.push(text.len() as u8);
        self.0.extend_from_slice(text.as_bytes());
    }

    /// A text of at most 65535 bytes; what is longer is cut.
    pub(crate) fn string(&mut self, id: u16, text: &str) {
        let text = cut(text, usize::from(u16::MAX));
        self.head(id, Type::String);
        self.0.extend_from_slice(&(text.len() as u16).to_le_bytes());
        self.0.extend_from_slice(text.as_bytes());
    }
}

/// The longest beginning of a text that has so many bytes and ends with a whole character.
fn cut(text: &str, length_max: usize) -> &str {
    let end = text.len().min(length_max);
    let end = (0..=end).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    &text[..end]
}
