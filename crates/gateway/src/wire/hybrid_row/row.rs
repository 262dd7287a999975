//! The inside of a row: a cursor over its bytes, and sparse fields.

use super::malformed;
use armilla_model::Result;

/// Bytes of the longest variable-length number.
const VARUINT_LENGTH_MAX: u32 = 10;

/// Type codes of sparse fields.
pub(super) mod code {
    pub(in super::super) const FALSE: u8 = 2;
    pub(in super::super) const TRUE: u8 = 3;
    pub(in super::super) const INT32: u8 = 7;
    pub(in super::super) const UINT32: u8 = 11;
    pub(in super::super) const FLOAT64: u8 = 16;
    pub(in super::super) const UTF8: u8 = 20;
    pub(in super::super) const BINARY: u8 = 21;
}

/// A place in a row, bounded by the row's end.
pub(super) struct Cursor<'b> {
    pub(super) rest: &'b [u8],
}

/// The value of a sparse field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Field<'b> {
    Bool(bool),
    Int32(i32),
    Utf8(&'b str),
    Binary(&'b [u8]),
    /// A value of another type: skipped where its path is not known, else refused.
    Other,
}

/// The path of a sparse field: a number of the schema's table, or a name written in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathToken<'b> {
    Number(u64),
    Name(&'b str),
}

impl<'b> Cursor<'b> {
    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn take(&mut self, length: usize) -> Result<&'b [u8]> {
        match self.rest.split_at_checked(length) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => malformed("a value is longer than its row"),
        }
    }

    pub(super) fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    pub(super) fn int32(&mut self) -> Result<i32> {
        match self.take(4)? {
            &[a, b, c, d] => Ok(i32::from_le_bytes([a, b, c, d])),
            _ => malformed("a value is longer than its row"),
        }
    }

    /// A number in groups of seven bits, the lowest first.
    pub(super) fn varuint(&mut self) -> Result<u64> {
        let mut number = 0_u64;
        for group in 0..VARUINT_LENGTH_MAX {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            let shift = group * 7;
            if bits << shift >> shift != bits {
                break;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        malformed("a length has more than 64 bits")
    }

    /// Bytes behind their length.
    pub(super) fn binary(&mut self) -> Result<&'b [u8]> {
        let length = self.varuint()?;
        self.take(usize::try_from(length).unwrap_or(usize::MAX))
    }

    /// Text behind its length.
    pub(super) fn utf8(&mut self) -> Result<&'b str> {
        text(self.binary()?)
    }

    /// The next sparse field. `token_count` is the length of the schema's table of paths.
    pub(super) fn field(&mut self, token_count: u64) -> Result<(PathToken<'b>, Field<'b>)> {
        let code = self.byte()?;
        let token = self.varuint()?;
        let path = match token.checked_sub(token_count) {
            None => PathToken::Number(token),
            Some(length) => {
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                PathToken::Name(text(self.take(length)?)?)
            }
        };
        Ok((path, self.value(code)?))
    }

    fn value(&mut self, code: u8) -> Result<Field<'b>> {
        let skipped = match code {
            code::FALSE => return Ok(Field::Bool(false)),
            code::TRUE => return Ok(Field::Bool(true)),
            code::INT32 => return self.int32().map(Field::Int32),
            code::UTF8 => return self.utf8().map(Field::Utf8),
            code::BINARY => return self.binary().map(Field::Binary),
            // Variable-length numbers.
            13 | 14 => return self.varuint().map(|_| Field::Other),
            1 => 0,
            5 | 9 => 1,
            6 | 10 => 2,
            11 | 15 => 4,
            8 | 12 | 16 | 18 | 23 => 8,
            24 => 12,
            17 | 19 | 22 => 16,
            other => return malformed(&format!("type code {other} is not known")),
        };
        self.take(skipped)?;
        Ok(Field::Other)
    }
}

fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).or_else(|_| malformed("a text is not UTF-8"))
}

/// Appends a number in groups of seven bits.
pub(super) fn write_varuint(mut number: usize, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends the value of a variable column.
pub(super) fn write_binary(bytes: &[u8], out: &mut Vec<u8>) {
    write_varuint(bytes.len(), out);
    out.extend_from_slice(bytes);
}
