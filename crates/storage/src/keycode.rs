//! Keys whose bytes sort as their values sort.
//!
//! A key is a row of fields, each encoded so that comparing bytes compares values, and each either
//! of fixed length or ended by a terminator, so that fields can be joined:
//!
//! | field | bytes |
//! |---|---|
//! | `u8`, `u32`, `u64` | big-endian |
//! | `i64` | big-endian, sign bit flipped |
//! | `f64` | big-endian; sign bit flipped when positive, all bits when negative |
//! | byte string, text | `00` becomes `00 ff`, then the terminator `00 00` |
//! | raw | as is: for bytes of a length both sides know, or at the end of a key |
//!
//! `f64` sorts by [`f64::total_cmp`]: −0 before 0, NaNs at the ends. Who wants −0 and 0 to be one
//! value says so before encoding.
//!
//! ```
//! use armilla_storage::keycode::{KeyReader, KeyWriter};
//!
//! let key = KeyWriter::new().u32(7).bytes(b"a\0b").u64(1).finish();
//! assert_eq!(key, b"\0\0\0\x07a\0\xffb\0\0\0\0\0\0\0\0\0\x01");
//!
//! let mut fields = KeyReader::new(&key);
//! assert_eq!(fields.u32()?, 7);
//! assert_eq!(fields.bytes()?, b"a\0b");
//! assert_eq!(fields.u64()?, 1);
//! fields.finish()?;
//! # Ok::<(), armilla_storage::keycode::KeyError>(())
//! ```

use std::fmt;

/// Follows a zero byte that belongs to the string.
const ESCAPED_ZERO: u8 = 0xff;

/// Follows a zero byte that ends the string.
const TERMINATOR: u8 = 0x00;

/// Writes the fields of a key, one after the other.
#[derive(Clone, Debug, Default)]
pub struct KeyWriter {
    bytes: Vec<u8>,
}

impl KeyWriter {
    /// An empty key.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: Vec::new() }
    }

    /// An empty key with room for `capacity` bytes.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self { bytes: Vec::with_capacity(capacity) }
    }

    /// An empty key in memory that an earlier one had.
    #[must_use]
    pub fn reusing(mut bytes: Vec<u8>) -> Self {
        bytes.clear();
        Self { bytes }
    }

    /// Adds a byte.
    #[must_use]
    pub fn u8(self, value: u8) -> Self {
        self.raw(&[value])
    }

    /// Adds a 32-bit number.
    #[must_use]
    pub fn u32(self, value: u32) -> Self {
        self.raw(&value.to_be_bytes())
    }

    /// Adds a 64-bit number.
    #[must_use]
    pub fn u64(self, value: u64) -> Self {
        self.raw(&value.to_be_bytes())
    }

    /// Adds a signed number.
    #[must_use]
    pub fn i64(self, value: i64) -> Self {
        self.u64(value.cast_unsigned() ^ SIGN)
    }

    /// Adds a double.
    #[must_use]
    pub fn f64(self, value: f64) -> Self {
        let bits = value.to_bits();
        let flip = if bits & SIGN == 0 { SIGN } else { u64::MAX };
        self.u64(bits ^ flip)
    }

    /// Adds a byte string of any length, with its terminator.
    #[must_use]
    pub fn bytes(self, value: &[u8]) -> Self {
        self.bytes_prefix(value).raw(&[0, TERMINATOR])
    }

    /// Adds a text, with its terminator; texts sort by their UTF-8 bytes.
    #[must_use]
    pub fn text(self, value: &str) -> Self {
        self.bytes(value.as_bytes())
    }

    /// Adds the beginning of a byte string, without a terminator: the result is the prefix of every
    /// key whose string in this place begins so.
    #[must_use]
    pub fn bytes_prefix(mut self, value: &[u8]) -> Self {
        self.bytes.reserve(value.len() + 2);
        for (index, run) in value.split(|byte| *byte == 0).enumerate() {
            if index > 0 {
                self.bytes.extend_from_slice(&[0, ESCAPED_ZERO]);
            }
            self.bytes.extend_from_slice(run);
        }
        self
    }

    /// Adds bytes as they are.
    #[must_use]
    pub fn raw(mut self, value: &[u8]) -> Self {
        self.bytes.extend_from_slice(value);
        self
    }

    /// The finished key.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// Reads the fields of a key in the order they were written. Takes any bytes without panicking.
#[derive(Clone, Debug)]
pub struct KeyReader<'key> {
    rest: &'key [u8],
}

impl<'key> KeyReader<'key> {
    /// Begins at the first field.
    #[must_use]
    pub const fn new(key: &'key [u8]) -> Self {
        Self { rest: key }
    }

    /// The next byte.
    ///
    /// # Errors
    ///
    /// When the key ends before the field does; so for every other field.
    pub fn u8(&mut self) -> Result<u8, KeyError> {
        self.array().map(u8::from_be_bytes)
    }

    /// The next 32-bit number.
    ///
    /// # Errors
    ///
    /// As [`KeyReader::u8`].
    pub fn u32(&mut self) -> Result<u32, KeyError> {
        self.array().map(u32::from_be_bytes)
    }

    /// The next 64-bit number.
    ///
    /// # Errors
    ///
    /// As [`KeyReader::u8`].
    pub fn u64(&mut self) -> Result<u64, KeyError> {
        self.array().map(u64::from_be_bytes)
    }

    /// The next signed number.
    ///
    /// # Errors
    ///
    /// As [`KeyReader::u8`].
    pub fn i64(&mut self) -> Result<i64, KeyError> {
        self.u64().map(|bits| (bits ^ SIGN).cast_signed())
    }

    /// The next double.
    ///
    /// # Errors
    ///
    /// As [`KeyReader::u8`].
    pub fn f64(&mut self) -> Result<f64, KeyError> {
        let bits = self.u64()?;
        let flip = if bits & SIGN == 0 { u64::MAX } else { SIGN };
        Ok(f64::from_bits(bits ^ flip))
    }

    /// The next byte string.
    ///
    /// # Errors
    ///
    /// When there is no terminator, or a zero byte that is neither escaped nor ends the string.
    pub fn bytes(&mut self) -> Result<Vec<u8>, KeyError> {
        let mut value = Vec::new();
        loop {
            let zero = self.rest.iter().position(|byte| *byte == 0).ok_or(KeyError::Short)?;
            value.extend_from_slice(self.raw(zero)?);
            match self.array::<2>()? {
                [_, TERMINATOR] => return Ok(value),
                [_, ESCAPED_ZERO] => value.push(0),
                _ => return Err(KeyError::Escape),
            }
        }
    }

    /// The next text.
    ///
    /// # Errors
    ///
    /// As [`KeyReader::bytes`], and when the bytes are not UTF-8.
    pub fn text(&mut self) -> Result<String, KeyError> {
        String::from_utf8(self.bytes()?).map_err(|_| KeyError::Utf8)
    }

    /// The next `length` bytes as they are.
    ///
    /// # Errors
    ///
    /// As [`KeyReader::u8`].
    pub fn raw(&mut self, length: usize) -> Result<&'key [u8], KeyError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(KeyError::Short)?;
        self.rest = rest;
        Ok(taken)
    }

    /// The next `N` bytes as an array.
    ///
    /// # Errors
    ///
    /// As [`KeyReader::u8`].
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], KeyError> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(KeyError::Short)?;
        self.rest = rest;
        Ok(*taken)
    }

    /// Everything that has not been read.
    #[must_use]
    pub const fn rest(&self) -> &'key [u8] {
        self.rest
    }

    /// Confirms that every byte has been read.
    ///
    /// # Errors
    ///
    /// When something is left.
    pub const fn finish(self) -> Result<(), KeyError> {
        if self.rest.is_empty() { Ok(()) } else { Err(KeyError::Long) }
    }
}

/// Why bytes are not a key of the expected shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// The key ends inside a field.
    Short,
    /// Bytes are left after the last field.
    Long,
    /// A zero byte in a string is followed by neither an escape nor a terminator.
    Escape,
    /// A text is not UTF-8.
    Utf8,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Short => "the key ends inside a field",
            Self::Long => "bytes are left after the last field",
            Self::Escape => "a zero byte in a string is not escaped",
            Self::Utf8 => "a text is not UTF-8",
        })
    }
}

impl std::error::Error for KeyError {}

/// The sign bit of a 64-bit number.
const SIGN: u64 = 1 << 63;

#[cfg(test)]
mod tests;
