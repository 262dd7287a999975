//! Binary JSON: the form in which some SDKs (Rust by default) send the bodies of items.
//!
//! A body begins with `80`, then one value. The first byte of a value says what it is:
//!
//! ```text
//! 00–1F the integer itself │ 80–BF a string of 0–63 bytes │ C0 C1 C2 a string, length in 1, 2, 4 bytes
//! C7 u64 │ C8 u8 │ C9 i16 │ CA i32 │ CB i64 │ CC double │ D0 null │ D1 false │ D2 true
//! E0 [] │ E1 one element │ E2–E4 length, elements │ E5–E7 length, count, elements
//! E8 {} │ E9 one member  │ EA–EC length, members  │ ED–EF length, count, members
//! ```
//!
//! Numbers and lengths are little-endian. Clients send this subset; the compressed forms that the
//! service itself answers with are refused by name. The result is JSON text, so that everything
//! behind this module sees one form only.

use crate::error::{Error, Result};
use crate::json::write_string;
use crate::limits::NESTING_MAX;
use crate::number::Number;

/// What a binary body begins with.
pub const PREAMBLE: u8 = 0x80;

/// True for a body in this form.
pub fn is_binary(body: &[u8]) -> bool {
    body.first() == Some(&PREAMBLE)
}

/// The JSON text of a binary body.
pub fn to_text(body: &[u8]) -> Result<Vec<u8>> {
    let mut reader = Reader { rest: body.get(1..).unwrap_or_default() };
    let mut out = Vec::with_capacity(body.len() * 2);
    reader.value(&mut out, 0)?;
    if reader.rest.is_empty() { Ok(out) } else { malformed("there is more behind its value") }
}

fn malformed<T>(why: &str) -> Result<T> {
    Err(Error::bad_request(format!("The request body is not valid binary JSON: {why}.")))
}

struct Reader<'b> {
    rest: &'b [u8],
}

impl<'b> Reader<'b> {
    fn value(&mut self, out: &mut Vec<u8>, depth: usize) -> Result<()> {
        if depth >= NESTING_MAX {
            return malformed(&format!("nesting is deeper than {NESTING_MAX} levels"));
        }
        let marker = self.byte()?;
        match marker {
            0x00..=0x1f => number(Number::Int(i64::from(marker)), out),
            0x80..=0xc2 => return self.string(marker, out),
            0xc7 => match self.unsigned(8)? {
                big if i64::try_from(big).is_err() => {
                    out.extend_from_slice(big.to_string().as_bytes())
                }
                small => number(Number::Int(small as i64), out),
            },
            0xc8 => number(Number::Int(i64::from(self.byte()?)), out),
            0xc9 => number(Number::Int(i64::from(self.unsigned(2)? as u16 as i16)), out),
            0xca => number(Number::Int(i64::from(self.unsigned(4)? as u32 as i32)), out),
            0xcb => number(Number::Int(self.unsigned(8)? as i64), out),
            0xcc => match f64::from_bits(self.unsigned(8)?) {
                finite if finite.is_finite() => number(Number::Float(finite), out),
                _ => return malformed("a number is not finite"),
            },
            0xd0 => out.extend_from_slice(b"null"),
            0xd1 => out.extend_from_slice(b"false"),
            0xd2 => out.extend_from_slice(b"true"),
            0xe0..=0xe7 => return self.array(marker, out, depth),
            0xe8..=0xef => return self.object(marker, out, depth),
            other => {
                return malformed(&format!("the form {other:#04x} is not supported in requests"));
            }
        }
        Ok(())
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
            inside.string(marker, out)?;
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
        let width = [1, 2, 4][usize::from((form - 2) % 3)];
        let length = self.unsigned(width)? as usize;
        if form >= 5 {
            // The count is there for readers that skip; the length already says all.
            self.unsigned(width)?;
        }
        let mut inside = Self { rest: self.take(length)? };
        let mut first = true;
        while !inside.rest.is_empty() {
            member(&mut inside, first)?;
            first = false;
        }
        Ok(())
    }

    fn string(&mut self, marker: u8, out: &mut Vec<u8>) -> Result<()> {
        let length = match marker {
            0x80..=0xbf => usize::from(marker & 0x7f),
            0xc0 => self.unsigned(1)? as usize,
            0xc1 => self.unsigned(2)? as usize,
            0xc2 => self.unsigned(4)? as usize,
            other => {
                return malformed(&format!(
                    "the text form {other:#04x} is not supported in requests"
                ));
            }
        };
        match std::str::from_utf8(self.take(length)?) {
            Ok(text) => write_string(text, out),
            Err(_) => return malformed("a string is not UTF-8"),
        }
        Ok(())
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    fn unsigned(&mut self, width: usize) -> Result<u64> {
        let mut bytes = [0; 8];
        bytes[..width].copy_from_slice(self.take(width)?);
        Ok(u64::from_le_bytes(bytes))
    }

    fn take(&mut self, length: usize) -> Result<&'b [u8]> {
        match self.rest.split_at_checked(length) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => malformed("it ends too early"),
        }
    }
}

fn number(number: Number, out: &mut Vec<u8>) {
    number.write(out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(body: &[u8]) -> Result<String> {
        to_text(body).map(|text| String::from_utf8(text).unwrap())
    }

    #[test]
    fn every_form_that_clients_send() {
        let check = |body: &[u8], expected: &str| assert_eq!(text(body).unwrap(), expected);
        check(&[0x80, 0x07], "7");
        check(&[0x80, 0xd0], "null");
        check(&[0x80, 0x82, b'a', b'"'], r#""a\"""#);
        check(&[0x80, 0xc0, 1, b'a'], r#""a""#);
        check(&[0x80, 0xcb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], "-1");
        check(
            &[0x80, 0xc7, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            "18446744073709551615",
        );
        check(&[0x80, 0xcc, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f], "1.5");
        check(&[0x80, 0xe0], "[]");
        check(&[0x80, 0xe1, 0xd2], "[true]");
        check(&[0x80, 0xe5, 2, 2, 0x01, 0x02], "[1,2]");
        check(&[0x80, 0xed, 0, 0], "{}");
        check(&[0x80, 0xed, 6, 2, 0x81, b'a', 0x01, 0x81, b'b', 0xd1], r#"{"a":1,"b":false}"#);
        check(&[0x80, 0xee, 3, 0, 1, 0, 0x81, b'a', 0xe8], r#"{"a":{}}"#);
    }

    #[test]
    fn what_is_refused() {
        for body in [
            &[0x80][..],
            &[0x80, 0x82, b'a'],
            &[0x80, 0xd0, 0xd0],
            &[0x80, 0xe5, 9, 1, 1],
            &[0x80, 0x75],
        ] {
            assert!(text(body).is_err(), "{body:x?} was accepted");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_read(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = to_text(&[&[PREAMBLE][..], &bytes].concat());
        }
    }
}
