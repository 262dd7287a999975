//! From text to binary JSON, in the forms that every reader of it knows: smallest integers, strings of the
//! fixed table, strings with their lengths, arrays and objects with theirs.

use super::{PREAMBLE, SYSTEM_STRINGS};
use crate::error::Result;
use crate::json;
use crate::number::Number;
use crate::value::Value;

/// The binary body of a JSON text.
pub fn from_text(text: &[u8]) -> Result<Vec<u8>> {
    let value = json::parse(text)?;
    let mut out = Vec::with_capacity(text.len() + 1);
    out.push(PREAMBLE);
    write_value(&value, &mut out);
    Ok(out)
}

fn write_value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Undefined | Value::Null => out.push(0xd0),
        Value::Bool(false) => out.push(0xd1),
        Value::Bool(true) => out.push(0xd2),
        Value::Number(number) => write_number(*number, out),
        Value::String(text) => write_string(text, out),
        Value::Array(elements) => {
            write_members(0xe0, elements.len(), out, |out| {
                elements.iter().for_each(|element| write_value(element, out));
            });
        }
        Value::Object(object) => {
            write_members(0xe8, object.len(), out, |out| {
                for (name, value) in object.iter() {
                    write_string(name, out);
                    write_value(value, out);
                }
            });
        }
    }
}

fn write_number(number: Number, out: &mut Vec<u8>) {
    let int = match number {
        Number::Int(int) => int,
        Number::Float(float) => {
            out.push(0xcc);
            out.extend_from_slice(&float.to_le_bytes());
            return;
        }
    };
    if let Ok(byte) = u8::try_from(int) {
        if byte >= 0x20 {
            out.push(0xc8);
        }
        out.push(byte);
    } else if let Ok(short) = i16::try_from(int) {
        out.push(0xc9);
        out.extend_from_slice(&short.to_le_bytes());
    } else if let Ok(word) = i32::try_from(int) {
        out.push(0xca);
        out.extend_from_slice(&word.to_le_bytes());
    } else {
        out.push(0xcb);
        out.extend_from_slice(&int.to_le_bytes());
    }
}

fn write_string(text: &str, out: &mut Vec<u8>) {
    if let Some(number) = SYSTEM_STRINGS.iter().position(|known| *known == text) {
        out.push(0x20 + number as u8);
        return;
    }
    let length = text.len();
    if length < 0x40 {
        out.push(0x80 + length as u8);
    } else {
        write_length(0xc0, length, out);
    }
    out.extend_from_slice(text.as_bytes());
}

/// A marker of a family of three and a length in 1, 2 or 4 bytes.
fn write_length(first: u8, length: usize, out: &mut Vec<u8>) {
    if let Ok(byte) = u8::try_from(length) {
        out.extend_from_slice(&[first, byte]);
    } else if let Ok(short) = u16::try_from(length) {
        out.push(first + 1);
        out.extend_from_slice(&short.to_le_bytes());
    } else {
        let word = u32::try_from(length).expect("a stored item is shorter than 4 GB");
        out.push(first + 2);
        out.extend_from_slice(&word.to_le_bytes());
    }
}

/// An array or object: `kind` is the marker of the empty one.
fn write_members(kind: u8, count: usize, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    match count {
        0 => out.push(kind),
        1 => {
            out.push(kind + 1);
            write(out);
        }
        _ => {
            let at = out.len();
            write(out);
            // The length is known now; its bytes go in front of what it counts.
            let mut head = Vec::with_capacity(5);
            write_length(kind + 2, out.len() - at, &mut head);
            out.splice(at..at, head);
        }
    }
}
