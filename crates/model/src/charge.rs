//! Request units: a charge as a number.
//!
//! Published charges of point operations are whole 21sts of a unit, those of queries are decimal.
//! The counter below holds both exactly: one step is 1/21,000,000 RU. What an operation costs is
//! in [`rates`]: one table, so that re-fitting the constants touches that file only.

pub mod rates;

pub use rates::Rates;

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul};

/// A charge, exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestCharge(u64);

/// Steps of the counter in one request unit.
pub const STEPS_PER_UNIT: u64 = 21_000_000;

impl RequestCharge {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// The least that a page of rows or a feed costs.
    pub const ONE: Self = Self::from_21sts(21);

    /// So many 21sts of a unit.
    pub const fn from_21sts(count: u64) -> Self {
        Self(count * (STEPS_PER_UNIT / 21))
    }

    /// So many millionths of a unit.
    pub const fn from_micros(count: u64) -> Self {
        Self(count * (STEPS_PER_UNIT / 1_000_000))
    }

    /// So many steps of 1/21,000,000 RU.
    pub const fn from_steps(steps: u64) -> Self {
        Self(steps)
    }

    /// The charge in steps of 1/21,000,000 RU.
    pub const fn steps(self) -> u64 {
        self.0
    }

    /// The charge without a part of it.
    pub fn less(self, part: Self) -> Self {
        Self(self.0.saturating_sub(part.0))
    }

    /// So much of it per 1024 bytes.
    fn of_bytes(self, bytes: usize) -> Self {
        Self(bytes as u64 * self.0 / 1024)
    }

    /// The charge in units, for metrics and comparisons.
    pub fn units(self) -> f64 {
        self.0 as f64 / STEPS_PER_UNIT as f64
    }

    /// The charge in hundredths of a unit, rounded half up: what headers print.
    pub fn hundredths(self) -> u64 {
        (self.0 * 100 + STEPS_PER_UNIT / 2) / STEPS_PER_UNIT
    }

    /// Writes what [`Display`](fmt::Display) shows, for answers that tell many.
    pub fn write(self, out: &mut Vec<u8>) {
        let hundredths = self.hundredths();
        let (whole, rest) = (hundredths / 100, hundredths % 100);
        out.extend_from_slice(itoa::Buffer::new().format(whole).as_bytes());
        let digits = [b'.', b'0' + (rest / 10) as u8, b'0' + (rest % 10) as u8];
        let shown = match rest {
            0 => 0,
            _ if rest % 10 == 0 => 2,
            _ => 3,
        };
        out.extend_from_slice(&digits[..shown]);
    }
}

impl fmt::Display for RequestCharge {
    /// Two decimals, rounded half up, without trailing zeros.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hundredths = self.hundredths();
        match (hundredths / 100, hundredths % 100) {
            (whole, 0) => write!(formatter, "{whole}"),
            (whole, rest) if rest % 10 == 0 => write!(formatter, "{whole}.{}", rest / 10),
            (whole, rest) => write!(formatter, "{whole}.{rest:02}"),
        }
    }
}

impl Add for RequestCharge {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for RequestCharge {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Mul<u64> for RequestCharge {
    type Output = Self;
    fn mul(self, count: u64) -> Self {
        Self(self.0.saturating_mul(count))
    }
}

impl Sum for RequestCharge {
    fn sum<I: Iterator<Item = Self>>(charges: I) -> Self {
        charges.fold(Self::ZERO, Self::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_print_two_decimals_rounded_half_up() {
        let printed = |steps: u64| {
            let mut written = Vec::new();
            RequestCharge(steps).write(&mut written);
            assert_eq!(String::from_utf8(written).unwrap(), RequestCharge(steps).to_string());
            RequestCharge(steps).to_string()
        };
        for hundredths in 0..300 {
            let text = printed(hundredths * STEPS_PER_UNIT / 100);
            assert_eq!(text.parse::<f64>().unwrap(), hundredths as f64 / 100.0);
        }
        assert_eq!(printed(0), "0");
        assert_eq!(printed(STEPS_PER_UNIT), "1");
        assert_eq!(printed(STEPS_PER_UNIT / 2), "0.5");
        assert_eq!(printed(STEPS_PER_UNIT / 200), "0.01");
        assert_eq!(printed(STEPS_PER_UNIT / 200 - 1), "0");
        assert_eq!(RequestCharge::from_21sts(120).to_string(), "5.71");
    }
}
