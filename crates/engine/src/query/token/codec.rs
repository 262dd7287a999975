//! Bytes of a continuation token.

use super::{GroupKey, KeyValue, OrderedPosition, Place, Position, Window};
use armilla_model::partition_key::Epk;
use armilla_model::value::{Type, Value};

/// Writes the bytes of a token.
pub(in crate::query) struct TokenWriter(pub(in crate::query) Vec<u8>);

impl TokenWriter {
    /// Seven bits a byte, lowest first.
    pub(in crate::query) fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    pub(in crate::query) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    pub(in crate::query) fn place(&mut self, place: &Place) {
        self.bytes(place.epk.as_bytes());
        self.number(place.docno);
    }

    pub(super) fn window(&mut self, window: Window) {
        self.number(window.skip);
        self.number(window.take);
    }

    pub(super) fn value(&mut self, value: &KeyValue) {
        match value {
            KeyValue::Exact(Value::Undefined) => self.0.push(0),
            KeyValue::Exact(Value::Number(number)) if number.floor().1 == 0 => {
                self.0.push(1);
                self.0.extend_from_slice(&number.as_f64().to_bits().to_be_bytes());
            }
            KeyValue::Exact(value) => {
                self.0.push(2);
                self.bytes(value.to_json().as_bytes());
            }
            KeyValue::Prefix(prefix) => {
                self.0.push(3);
                self.bytes(prefix.as_bytes());
            }
            KeyValue::OfType(Type::Array) => self.0.push(4),
            KeyValue::OfType(_) => self.0.push(5),
        }
    }
}

/// Reads them back; whatever does not fit is nothing.
pub(in crate::query) struct TokenReader<'b>(pub(in crate::query) &'b [u8]);

impl<'b> TokenReader<'b> {
    pub(in crate::query) fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(in crate::query) fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_be_bytes)
    }

    pub(in crate::query) fn number(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    pub(in crate::query) fn bytes(&mut self) -> Option<&'b [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        self.take(length)
    }

    pub(in crate::query) fn place(&mut self) -> Option<Place> {
        Some(Place { epk: Epk::from_bytes(self.bytes()?), docno: self.number()? })
    }

    pub(super) fn window(&mut self) -> Option<Window> {
        Some(Window { skip: self.number()?, take: self.number()? })
    }

    pub(super) fn value(&mut self) -> Option<KeyValue> {
        Some(match self.byte()? {
            0 => KeyValue::Exact(Value::Undefined),
            1 => KeyValue::Exact(Value::from(f64::from_bits(self.u64()?))),
            2 => KeyValue::Exact(armilla_model::json::parse(self.bytes()?).ok()?),
            3 => KeyValue::Prefix(std::str::from_utf8(self.bytes()?).ok()?.into()),
            4 => KeyValue::OfType(Type::Array),
            5 => KeyValue::OfType(Type::Object),
            _ => return None,
        })
    }

    /// A list whose length cannot be longer than the bytes that are left.
    pub(in crate::query) fn list<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        let count = usize::try_from(self.number()?).ok().filter(|count| *count <= self.0.len())?;
        (0..count).map(|_| read(self)).collect()
    }

    pub(super) fn position(&mut self) -> Option<Position> {
        Some(match self.byte()? {
            0 => Position::Item {
                place: self.place()?,
                rows: match self.number()? {
                    0 => None,
                    rows => Some(u32::try_from(rows - 1).ok()?),
                },
                windows: self.list(Self::window)?,
            },
            1 => {
                let values = self.list(Self::value)?;
                let min = Epk::from_bytes(self.bytes()?);
                let max = Some(self.bytes()?).filter(|max| !max.is_empty()).map(Epk::from_bytes);
                let place = self.place()?;
                let row = u32::try_from(self.number()?).ok()?;
                let position = OrderedPosition { values, min, max, place, row };
                Position::Ordered(position, self.window()?)
            }
            2 => {
                let prefix = self.bytes()?.to_vec();
                let hash = u128::from_be_bytes(self.take(16)?.try_into().ok()?);
                Position::Key(GroupKey { prefix, hash }, self.window()?)
            }
            3 => Position::Count(self.number()?),
            _ => return None,
        })
    }
}
