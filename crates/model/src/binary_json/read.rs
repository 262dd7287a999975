//! From binary JSON to text.

use super::{PREAMBLE, malformed, numbers, strings};
use crate::error::{Error, Result};
use crate::json::write_string;
use crate::limits::{ITEM_SIZE_MAX, NESTING_MAX};

/// The JSON text of a binary body.
pub fn to_text(body: &[u8]) -> Result<Vec<u8>> {
    if body.first() != Some(&PREAMBLE) {
        return malformed("it does not begin with 0x80");
    }
    let mut reader = BinaryReader { body, at: 1, end: body.len() };
    let mut out = Vec::with_capacity((body.len() * 2).min(ITEM_SIZE_MAX));
    reader.value(&mut out, 0)?;
    if reader.is_at_end() { Ok(out) } else { malformed("there is more behind its value") }
}

/// A place in the body, and the end of what it is inside of.
#[derive(Clone, Copy)]
pub(super) struct BinaryReader<'b> {
    /// All of it: references count from its beginning.
    pub(super) body: &'b [u8],
    pub(super) at: usize,
    pub(super) end: usize,
}

impl<'b> BinaryReader<'b> {
    fn value(&mut self, out: &mut Vec<u8>, depth: usize) -> Result<()> {
        if depth >= NESTING_MAX {
            return malformed(&format!("nesting is deeper than {NESTING_MAX} levels"));
        }
        let marker = self.byte()?;
        match marker {
            0x00..=0x1f => out.extend_from_slice(marker.to_string().as_bytes()),
            0xd0 => out.extend_from_slice(b"null"),
            0xd1 => out.extend_from_slice(b"false"),
            0xd2 => out.extend_from_slice(b"true"),
            0xd3 => write_string(&strings::guid_value(self.take(16)?), out),
            0xdd..=0xdf => {
                let length = self.length(width_of(marker - 0xdd))?;
                write_string(&strings::base64(self.take(length)?, false), out);
            }
            0xe0..=0xe7 => self.array(marker, out, depth)?,
            0xe8..=0xef => self.object(marker, out, depth)?,
            0xf0 | 0xf1 => {
                let item = self.byte()?;
                let count = self.length(usize::from(marker - 0xef))?;
                self.numbers(item, count, out)?;
            }
            0xf2 | 0xf3 => self.number_arrays(usize::from(marker - 0xf1), out)?,
            other if numbers::width(other).is_some() => self.number(other, out)?,
            text => write_string(&strings::read(self, text)?, out),
        }
        check_size(out)
    }

    fn array(&mut self, marker: u8, out: &mut Vec<u8>, depth: usize) -> Result<()> {
        out.push(b'[');
        self.members(marker - 0xe0, |inside, first| {
            if !first {
                out.push(b',');
            }
            inside.value(out, depth + 1)
        })?;
        out.push(b']');
        Ok(())
    }

    fn object(&mut self, marker: u8, out: &mut Vec<u8>, depth: usize) -> Result<()> {
        out.push(b'{');
        self.members(marker - 0xe8, |inside, first| {
            if !first {
                out.push(b',');
            }
            let marker = inside.byte()?;
            write_string(&strings::read(inside, marker)?, out);
            check_size(out)?;
            out.push(b':');
            inside.value(out, depth + 1)
        })?;
        out.push(b'}');
        Ok(())
    }

    /// Walks the inside of an array or object; `form` is its marker without the kind.
    fn members(
        &mut self,
        form: u8,
        mut member: impl FnMut(&mut Self, bool) -> Result<()>,
    ) -> Result<()> {
        match form {
            0 => return Ok(()),
            1 => return member(self, true),
            _ => {}
        }
        let width = width_of((form - 2) % 3);
        let length = self.length(width)?;
        if form >= 5 {
            // The count is there for readers that skip; the length already says all.
            self.length(width)?;
        }
        let start = self.at;
        self.take(length)?;
        let mut inside = Self { body: self.body, at: start, end: self.at };
        let mut first = true;
        while !inside.is_at_end() {
            member(&mut inside, first)?;
            first = false;
        }
        Ok(())
    }

    /// An array of numbers of one type, without their markers.
    fn numbers(&mut self, item: u8, count: usize, out: &mut Vec<u8>) -> Result<()> {
        out.push(b'[');
        for position in 0..count {
            if position > 0 {
                out.push(b',');
            }
            self.number(item, out)?;
        }
        out.push(b']');
        Ok(())
    }

    /// An array of arrays of numbers, all of one length and type.
    fn number_arrays(&mut self, width: usize, out: &mut Vec<u8>) -> Result<()> {
        let (inner, item) = (self.byte()?, self.byte()?);
        if !matches!(inner, 0xf0 | 0xf1) {
            return malformed("an array of arrays holds something else");
        }
        let (inner, count) = (self.length(width)?, self.length(width)?);
        out.push(b'[');
        for position in 0..count {
            if position > 0 {
                out.push(b',');
            }
            self.numbers(item, inner, out)?;
            check_size(out)?;
        }
        out.push(b']');
        Ok(())
    }

    fn number(&mut self, marker: u8, out: &mut Vec<u8>) -> Result<()> {
        let Some(width) = numbers::width(marker) else {
            return malformed(&format!("the form {marker:#04x} is not a number"));
        };
        numbers::write(marker, self.unsigned(width)?, out)
    }

    pub(super) fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    /// A length or count of so many bytes.
    pub(super) fn length(&mut self, width: usize) -> Result<usize> {
        Ok(usize::try_from(self.unsigned(width)?).unwrap_or(usize::MAX))
    }

    fn unsigned(&mut self, width: usize) -> Result<u64> {
        let mut bytes = [0; 8];
        bytes[..width].copy_from_slice(self.take(width)?);
        Ok(u64::from_le_bytes(bytes))
    }

    pub(super) fn take(&mut self, length: usize) -> Result<&'b [u8]> {
        let end = self.at.checked_add(length).filter(|end| *end <= self.end);
        let taken = end.and_then(|end| self.body.get(self.at..end));
        match taken {
            Some(taken) => {
                self.at += length;
                Ok(taken)
            }
            None => malformed("it ends too early"),
        }
    }

    fn is_at_end(&self) -> bool {
        self.at >= self.end
    }
}

/// Widths of lengths: 1, 2 or 4 bytes.
fn width_of(form: u8) -> usize {
    1 << form
}

/// Refuses a text that has become larger than any item may be.
fn check_size(out: &[u8]) -> Result<()> {
    if out.len() <= ITEM_SIZE_MAX {
        return Ok(());
    }
    Err(Error::TooLarge(format!(
        "Request size is too large: as text, the body has more than the {ITEM_SIZE_MAX} bytes of the largest item."
    )))
}
