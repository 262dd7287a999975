//! Strings: plain, of the fixed table, packed, as GUIDs, as base64, and by reference.

use super::read::BinaryReader;
use super::{SYSTEM_STRINGS, malformed};
use crate::error::Result;
use std::borrow::Cow;

const LOWER_HEX: &[u8; 16] = b"0123456789abcdef";
const UPPER_HEX: &[u8; 16] = b"0123456789ABCDEF";
const DATE_TIME: &[u8; 16] = b" 0123456789:-.TZ";

/// Reads the string whose marker was just taken.
pub(super) fn read<'b>(reader: &mut BinaryReader<'b>, marker: u8) -> Result<Cow<'b, str>> {
    match marker {
        0xc3..=0xc6 => {
            // Where the reference itself stands: its target is before that.
            let here = reader.at - 1;
            let target = reader.length(usize::from(marker - 0xc2))?;
            referred(reader.body, target, here)
        }
        _ => own(reader, marker),
    }
}

/// An earlier string of the body.
fn referred(body: &[u8], target: usize, here: usize) -> Result<Cow<'_, str>> {
    if target == 0 || target >= here {
        return malformed("a reference does not lead to an earlier string");
    }
    let mut reader = BinaryReader { body, at: target, end: here };
    let marker = reader.byte()?;
    own(&mut reader, marker)
}

/// Any string but a reference.
fn own<'b>(reader: &mut BinaryReader<'b>, marker: u8) -> Result<Cow<'b, str>> {
    let length = match marker {
        0x20..=0x3f => return Ok(SYSTEM_STRINGS[usize::from(marker - 0x20)].into()),
        0x71..=0x74 => return base64_text(reader, marker).map(Cow::Owned),
        0x75..=0x77 => return Ok(guid_text(reader.take(16)?, marker).into()),
        0x78..=0x7f => return packed(reader, marker).map(Cow::Owned),
        0x80..=0xbf => usize::from(marker & 0x3f),
        0xc0 => reader.length(1)?,
        0xc1 => reader.length(2)?,
        0xc2 => reader.length(4)?,
        0x40..=0x67 => return malformed("it refers to a dictionary of strings that is not sent"),
        other => return malformed(&format!("{other:#04x} is not a value or not a string")),
    };
    match std::str::from_utf8(reader.take(length)?) {
        Ok(text) => Ok(text.into()),
        Err(_) => malformed("a string is not UTF-8"),
    }
}

/// Digits in the order of the text, two in a byte, the low half first.
fn guid_text(bytes: &[u8], marker: u8) -> String {
    let digits = if marker == 0x76 { UPPER_HEX } else { LOWER_HEX };
    let halves = bytes.iter().flat_map(|byte| [byte & 15, byte >> 4]);
    let text = dashed(halves.map(|half| digits[usize::from(half)]));
    if marker == 0x77 { format!("\"{text}\"") } else { text }
}

/// A GUID as a value: the first three groups are little-endian numbers.
pub(super) fn guid_value(bytes: &[u8]) -> String {
    const ORDER: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let halves =
        ORDER.iter().filter_map(|at| bytes.get(*at)).flat_map(|byte| [byte >> 4, byte & 15]);
    dashed(halves.map(|half| LOWER_HEX[usize::from(half)]))
}

fn dashed(digits: impl Iterator<Item = u8>) -> String {
    let mut text = String::with_capacity(36);
    for (position, digit) in digits.enumerate() {
        if matches!(position, 8 | 12 | 16 | 20) {
            text.push('-');
        }
        text.push(char::from(digit));
    }
    text
}

/// Characters of 4 to 7 bits, packed into one little-endian number.
fn packed(reader: &mut BinaryReader<'_>, marker: u8) -> Result<String> {
    let count = reader.length(if marker == 0x7f { 2 } else { 1 })?;
    let (bits, base, table) = match marker {
        0x78 => (4, 0, Some(LOWER_HEX)),
        0x79 => (4, 0, Some(UPPER_HEX)),
        0x7a => (4, 0, Some(DATE_TIME)),
        0x7b..=0x7d => (usize::from(marker - 0x77), reader.byte()?, None),
        _ => (7, 0, None),
    };
    let bytes = reader.take((count * bits).div_ceil(8))?;
    let mut text = String::with_capacity(count);
    for position in 0..count {
        let at = position * bits;
        let low = u16::from(bytes[at / 8]);
        let high = u16::from(bytes.get(at / 8 + 1).copied().unwrap_or(0));
        let code = ((high << 8 | low) >> (at % 8)) & ((1 << bits) - 1);
        let character = match table {
            Some(table) => table[usize::from(code)],
            None => match u8::try_from(code + u16::from(base)) {
                Ok(ascii) if ascii.is_ascii() => ascii,
                _ => return malformed("a packed string is not ASCII"),
            },
        };
        text.push(char::from(character));
    }
    Ok(text)
}

/// Text that was base64: its length in groups of four, how its padding is written, and the bytes.
fn base64_text(reader: &mut BinaryReader<'_>, marker: u8) -> Result<String> {
    let is_url = marker >= 0x73;
    let groups = reader.length(if matches!(marker, 0x71 | 0x73) { 1 } else { 2 })?;
    let padding = reader.byte()?;
    // Above 2 it is inverted: the text leaves the padding out.
    let (missing, omitted) = if padding > 2 { (!padding, true) } else { (padding, false) };
    let Some(characters) = (groups * 4).checked_sub(usize::from(missing)).filter(|_| missing <= 2)
    else {
        return malformed("a base64 string has no valid length");
    };
    let mut text = base64(reader.take(characters * 3 / 4)?, is_url);
    if omitted {
        text.truncate(text.trim_end_matches('=').len());
    }
    Ok(text)
}

/// Bytes as base64, padded.
pub(super) fn base64(bytes: &[u8], is_url: bool) -> String {
    const PLAIN: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let alphabet = if is_url { URL } else { PLAIN };
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for position in 0..4 {
            let is_there = position <= group.len();
            let sextet = (bits >> (18 - 6 * position)) & 0x3f;
            text.push(if is_there { char::from(alphabet[sextet as usize]) } else { '=' });
        }
    }
    text
}
