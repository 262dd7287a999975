//! Numbers of every width.

use super::malformed;
use crate::error::Result;
use crate::number::Number;

/// How many bytes a number has behind its marker; nothing for markers of other things.
pub(super) fn width(marker: u8) -> Option<usize> {
    Some(match marker {
        0xc8 | 0xd7 | 0xd8 => 1,
        0xc9 | 0xcf | 0xd9 => 2,
        0xca | 0xcd | 0xda | 0xdc => 4,
        0xc7 | 0xcb | 0xcc | 0xce | 0xdb => 8,
        _ => return None,
    })
}

/// Writes the text of a number whose bytes are the low ones of `bits`.
pub(super) fn write(marker: u8, bits: u64, out: &mut Vec<u8>) -> Result<()> {
    let int = match marker {
        0xc7 => match i64::try_from(bits) {
            Ok(int) => int,
            Err(_) => {
                out.extend_from_slice(bits.to_string().as_bytes());
                return Ok(());
            }
        },
        0xc8 | 0xd7 | 0xdc => bits as i64,
        0xd8 => i64::from(bits as u8 as i8),
        0xc9 | 0xd9 => i64::from(bits as u16 as i16),
        0xca | 0xda => i64::from(bits as u32 as i32),
        0xcb | 0xdb => bits as i64,
        _ => return write_float(marker, bits, out),
    };
    Number::Int(int).write(out);
    Ok(())
}

fn write_float(marker: u8, bits: u64, out: &mut Vec<u8>) -> Result<()> {
    let float = match marker {
        0xcd => f64::from(f32::from_bits(bits as u32)),
        0xcf => from_half(bits as u16),
        _ => f64::from_bits(bits),
    };
    if !float.is_finite() {
        return malformed("a number is not finite");
    }
    Number::Float(float).write(out);
    Ok(())
}

/// A number of 16 bits: one of sign, five of exponent, ten of fraction.
fn from_half(bits: u16) -> f64 {
    const FRACTION_BITS: i32 = 10;
    const BIAS: i32 = 15;
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let exponent = i32::from(bits >> 10 & 0x1f);
    let fraction = f64::from(bits & 0x3ff);
    match exponent {
        0 => sign * fraction * 2_f64.powi(1 - BIAS - FRACTION_BITS),
        0x1f if fraction == 0.0 => sign * f64::INFINITY,
        0x1f => f64::NAN,
        _ => sign * (1024.0 + fraction) * 2_f64.powi(exponent - BIAS - FRACTION_BITS),
    }
}
