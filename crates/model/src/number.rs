//! JSON numbers: IEEE doubles that remember when they were exact 64-bit integers.
//!
//! Comparison, order and hashing always go by the double, so `1` and `1.0` are one number; the
//! integer is kept only so that ids beyond 2^53 are printed with the digits they came with.

use std::cmp::Ordering;
use std::fmt;

/// A JSON number. Never NaN or infinite when it came from a document; expressions may make those.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    /// An integer that fits 64 bits, kept exactly.
    Int(i64),
    /// Any other number.
    Float(f64),
}

/// Largest magnitude below which every integer is exactly one double.
pub const INTEGER_EXACT_MAX: f64 = 9_007_199_254_740_992.0;

impl Number {
    /// The number as a double: what it compares, sorts and hashes by.
    #[inline]
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Int(int) => int as f64,
            Self::Float(float) => float,
        }
    }

    /// The number as a 64-bit integer, when it is one (`5` and `5.0` are, `5.5` is not).
    pub fn as_i64(self) -> Option<i64> {
        match self {
            Self::Int(int) => Some(int),
            Self::Float(float) => {
                let fits =
                    float.fract() == 0.0 && (-(2f64.powi(63))..2f64.powi(63)).contains(&float);
                fits.then_some(float as i64)
            }
        }
    }

    /// False for NaN and the infinities, which only expressions can make.
    pub fn is_finite(self) -> bool {
        self.as_f64().is_finite()
    }

    /// Order by double; NaN sorts below everything so that the order is total.
    pub fn total_cmp(self, other: Self) -> Ordering {
        let (left, right) = (self.as_f64(), other.as_f64());
        left.partial_cmp(&right).unwrap_or_else(|| right.is_nan().cmp(&left.is_nan()))
    }

    /// Writes the canonical text: integers without fraction or exponent while exact, others in the
    /// shortest form that reads back as the same double.
    pub fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::Int(int) => out.extend_from_slice(itoa::Buffer::new().format(int).as_bytes()),
            Self::Float(float) if float.fract() == 0.0 && float.abs() < 1e17 => {
                out.extend_from_slice(itoa::Buffer::new().format(float as i64).as_bytes());
            }
            Self::Float(float) if float.is_finite() => {
                out.extend_from_slice(ryu::Buffer::new().format_finite(float).as_bytes());
            }
            // JSON has no such number; the text form is what the language contract prints.
            Self::Float(float) if float.is_nan() => out.extend_from_slice(b"\"NaN\""),
            Self::Float(float) if float > 0.0 => out.extend_from_slice(b"\"Infinity\""),
            Self::Float(_) => out.extend_from_slice(b"\"-Infinity\""),
        }
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.as_f64() == other.as_f64()
    }
}

impl From<i64> for Number {
    fn from(int: i64) -> Self {
        Self::Int(int)
    }
}

impl From<f64> for Number {
    fn from(float: f64) -> Self {
        Self::Float(float)
    }
}

impl fmt::Display for Number {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::with_capacity(24);
        self.write(&mut text);
        formatter.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_print_without_fraction() {
        assert_eq!(Number::Float(5.0).to_string(), "5");
        assert_eq!(Number::Float(-0.0).to_string(), "0");
        assert_eq!(Number::Int(i64::MIN).to_string(), "-9223372036854775808");
        assert_eq!(Number::Float(0.1).to_string(), "0.1");
    }

    #[test]
    fn integers_and_floats_are_one_number() {
        assert_eq!(Number::Int(1), Number::Float(1.0));
        assert_eq!(Number::Float(3.0).as_i64(), Some(3));
        assert_eq!(Number::Float(9.3e18).as_i64(), None);
    }
}
