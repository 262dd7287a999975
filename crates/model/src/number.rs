//! JSON numbers: 64-bit integers kept exactly, and IEEE doubles for everything else.
//!
//! Two numbers compare by their exact values, whichever form they have: `1` and `1.0` are one
//! number, `9007199254740993` and the double nearest to it are two. Arithmetic between integers is
//! exact as long as the result fits 64 bits, and done in doubles otherwise.

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
/// The first double beyond all 64-bit integers.
pub const INTEGERS_END: f64 = 9_223_372_036_854_775_808.0;

impl Number {
    /// The double nearest to the number: what partition keys are hashed by.
    #[inline]
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Int(int) => int as f64,
            Self::Float(float) => float,
        }
    }

    /// The number as a 64-bit integer, when the language takes it for one: an integer, or a double
    /// without fraction that no other integer is nearest to (`5` and `5.0` are, `5.5` and `1e16`
    /// are not).
    #[inline]
    pub fn as_i64(self) -> Option<i64> {
        match self {
            Self::Int(int) => Some(int),
            Self::Float(float) => {
                let int = float as i64;
                (int as f64 == float && float.abs() < INTEGER_EXACT_MAX).then_some(int)
            }
        }
    }

    /// False for NaN and the infinities, which only expressions can make.
    pub fn is_finite(self) -> bool {
        self.as_f64().is_finite()
    }

    /// True for numbers so large that several integers share their double.
    #[inline]
    pub fn is_beyond_doubles(self) -> bool {
        self.as_f64().abs() >= INTEGER_EXACT_MAX
    }

    /// The greatest double that is not above the number, and how far the number is above it. The
    /// second is 0 for all but integers beyond 2^53, and always below 1024.
    pub fn floor(self) -> (f64, u16) {
        let nearest = self.as_f64();
        let int = match self {
            Self::Int(int) if nearest.abs() >= INTEGER_EXACT_MAX => int,
            _ => return (nearest, 0),
        };
        let above = i128::from(int) - nearest as i128;
        let (floor, above) = if above < 0 {
            let below = nearest.next_down();
            (below, i128::from(int) - below as i128)
        } else {
            (nearest, above)
        };
        // Doubles of 63 bits are 1024 apart.
        (floor, above as u16)
    }

    /// Order by value; NaN sorts above everything so that the order is total.
    #[inline]
    pub fn total_cmp(self, other: Self) -> Ordering {
        self.partial_cmp(&other)
            .unwrap_or_else(|| self.as_f64().is_nan().cmp(&other.as_f64().is_nan()))
    }

    /// The sum: exact between integers while it fits, else of doubles.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.integers(other, i64::checked_add)
            .unwrap_or_else(|| Self::Float(self.as_f64() + other.as_f64()))
    }

    /// The difference: exact between integers while it fits, else of doubles.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        self.integers(other, i64::checked_sub)
            .unwrap_or_else(|| Self::Float(self.as_f64() - other.as_f64()))
    }

    /// The product: exact between integers while it fits, else of doubles.
    #[must_use]
    pub fn times(self, other: Self) -> Self {
        self.integers(other, i64::checked_mul)
            .unwrap_or_else(|| Self::Float(self.as_f64() * other.as_f64()))
    }

    /// The quotient: an integer where one integer divides the other, else of doubles. By zero it
    /// is infinite or NaN.
    #[must_use]
    pub fn divided_by(self, other: Self) -> Self {
        let whole = |left: i64, right: i64| {
            (left.checked_rem(right)? == 0).then(|| left.checked_div(right)).flatten()
        };
        self.integers(other, whole).unwrap_or_else(|| Self::Float(self.as_f64() / other.as_f64()))
    }

    /// What a division leaves, with the sign of the dividend. By zero it is NaN.
    #[must_use]
    pub fn modulo(self, other: Self) -> Self {
        // The smallest integer by -1 leaves nothing, although its quotient does not fit.
        let rest = |left: i64, right: i64| (right != 0).then(|| left.wrapping_rem(right));
        self.integers(other, rest).unwrap_or_else(|| Self::Float(self.as_f64() % other.as_f64()))
    }

    /// The number with its sign changed. Integers stay integers: 0 has no sign, and the smallest
    /// wraps around to itself.
    #[must_use]
    pub fn negated(self) -> Self {
        match self {
            Self::Int(int) => Self::Int(int.wrapping_neg()),
            Self::Float(float) => Self::Float(-float),
        }
    }

    #[inline]
    fn integers(self, other: Self, act: impl Fn(i64, i64) -> Option<i64>) -> Option<Self> {
        match (self, other) {
            (Self::Int(left), Self::Int(right)) => act(left, right).map(Self::Int),
            _ => None,
        }
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
            // JSON has no such number; the text form is the one of `docs/protocol/sql.md#numbers`.
            Self::Float(float) if float.is_nan() => out.extend_from_slice(b"\"NaN\""),
            Self::Float(float) if float > 0.0 => out.extend_from_slice(b"\"Infinity\""),
            Self::Float(_) => out.extend_from_slice(b"\"-Infinity\""),
        }
    }
}

impl Number {
    /// Writes a text that reads back as the same number in the same form: a double among the large integers, each of
    /// which is also one, keeps its fraction (`9007199254740992.0`).
    pub fn write_kept(self, out: &mut Vec<u8>) {
        self.write(out);
        if let Self::Float(float) = self
            && float.fract() == 0.0
            && (INTEGER_EXACT_MAX..1e17).contains(&float.abs())
        {
            out.extend_from_slice(b".0");
        }
    }
}

impl PartialEq for Number {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialOrd for Number {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match (*self, *other) {
            (Self::Int(left), Self::Int(right)) => Some(left.cmp(&right)),
            (Self::Float(left), Self::Float(right)) => left.partial_cmp(&right),
            (Self::Int(left), Self::Float(right)) => order_mixed(left, right),
            (Self::Float(left), Self::Int(right)) => {
                order_mixed(right, left).map(Ordering::reverse)
            }
        }
    }
}

/// Where an integer lies relative to a double, exactly.
#[inline]
fn order_mixed(int: i64, float: f64) -> Option<Ordering> {
    let rounded = int as f64;
    // Rounding keeps the order; only where it makes both equal can it have hidden a difference.
    if rounded != float || rounded.abs() < INTEGER_EXACT_MAX {
        return rounded.partial_cmp(&float);
    }
    // Integers near the end of their range round up to a double that is none of them.
    Some(if float >= INTEGERS_END { Ordering::Less } else { int.cmp(&(float as i64)) })
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
        assert_eq!(Number::Int(0), Number::Float(-0.0));
        assert_eq!(Number::Float(3.0).as_i64(), Some(3));
        assert_eq!(Number::Float(-0.0).as_i64(), Some(0));
        for no_integer in [9.3e18, 1e16, 9_007_199_254_740_992.0, 0.5, f64::NAN, f64::INFINITY] {
            assert_eq!(Number::Float(no_integer).as_i64(), None, "{no_integer}");
        }
        assert_eq!(Number::Float(-9_007_199_254_740_991.0).as_i64(), Some(-9_007_199_254_740_991));
    }

    /// Numbers around every place where doubles and integers part, in their order.
    fn ascending() -> Vec<Number> {
        use Number::{Float, Int};
        vec![
            Float(f64::NEG_INFINITY),
            Float(-1e19),
            Int(i64::MIN),
            Int(i64::MIN + 1),
            Int(-9_007_199_254_740_993),
            Float(-9_007_199_254_740_992.0),
            Int(-1),
            Float(-0.5),
            Int(0),
            Float(0.5),
            Int(9_007_199_254_740_991),
            Float(9_007_199_254_740_992.0),
            Int(9_007_199_254_740_993),
            Float(9_007_199_254_740_994.0),
            Int(9_007_199_254_740_995),
            Int(i64::MAX - 1),
            Int(i64::MAX),
            Float(9_223_372_036_854_775_808.0),
            Float(f64::INFINITY),
            Float(f64::NAN),
        ]
    }

    #[test]
    fn order_is_exact_between_integers_and_doubles() {
        let numbers = ascending();
        for (at, left) in numbers.iter().enumerate() {
            for (behind, right) in numbers.iter().enumerate() {
                assert_eq!(left.total_cmp(*right), at.cmp(&behind), "{left} and {right}");
                let equal = at == behind && !left.as_f64().is_nan();
                assert_eq!(left == right, equal, "{left} and {right}");
            }
        }
    }

    #[test]
    fn a_number_is_its_floor_and_what_is_above_it() {
        for number in ascending() {
            let Number::Int(int) = number else { continue };
            let (floor, above) = number.floor();
            assert_eq!(floor as i128 + i128::from(above), i128::from(int), "{number}");
            assert!(above < 1024 && (above == 0 || number.is_beyond_doubles()));
        }
    }

    #[test]
    fn integers_are_added_and_divided_exactly_while_they_fit() {
        use Number::{Float, Int};
        let large = 9_007_199_254_740_993;
        assert_eq!(Int(large - 1).plus(Int(1)), Int(large));
        assert_eq!(Int(i64::MAX).plus(Int(1)), Float(9_223_372_036_854_775_808.0));
        assert_eq!(Int(i64::MIN).minus(Int(1)), Float(-9_223_372_036_854_775_808.0));
        assert_eq!(Int(94_906_267).times(Int(94_906_267)), Int(9_007_199_515_875_289));
        assert_eq!(Int(large).divided_by(Int(3)), Int(3_002_399_751_580_331));
        assert_eq!(Int(1).divided_by(Int(2)), Float(0.5));
        assert_eq!(Int(i64::MIN).divided_by(Int(-1)), Float(9_223_372_036_854_775_808.0));
        assert_eq!(Int(1).divided_by(Int(0).negated()), Float(f64::INFINITY));
        assert!(Int(0).divided_by(Int(0)).as_f64().is_nan());
        assert_eq!(Int(i64::MAX).modulo(Int(10)), Int(7));
        assert_eq!(Int(i64::MAX).modulo(Float(10.0)), Int(8));
        assert_eq!(Int(i64::MIN).modulo(Int(-1)), Int(0));
        assert!(Int(5).modulo(Int(0)).as_f64().is_nan());
        assert_eq!(Int(i64::MIN).negated(), Int(i64::MIN));
    }
}
