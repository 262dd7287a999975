//! Request units: what an operation costs.
//!
//! Published charges of point operations are whole 21sts of a unit, those of queries are decimal.
//! The counter below holds both exactly: one step is 1/21,000,000 RU. The constants are the
//! contract's (`request units`, section 3.1); re-fitting them touches this file only.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul};

/// A charge, exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestCharge(u64);

const STEPS_PER_UNIT: u64 = 21_000_000;

impl RequestCharge {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// Reads that find nothing, refused writes, metadata reads.
    pub const ONE: Self = Self::from_21sts(21);
    /// One index term.
    pub const TERM: Self = Self::from_21sts(4);
    /// One operation of a patch.
    pub const PATCH_OPERATION: Self = Self::from_21sts(8);
    /// Creating, replacing or deleting a database, container, script, user or permission.
    pub const METADATA_WRITE: Self = Self::from_21sts(104);
    /// What a query pays for each range it visits.
    pub const QUERY_BASE: Self = Self::from_micros(2_820_000);
    /// Each index seek of a query after the first.
    pub const QUERY_SEEK: Self = Self::from_micros(30_000);
    /// Each matched item of an aggregate.
    pub const AGGREGATE_ITEM: Self = Self::from_micros(130_000);
    /// Running a script at all.
    pub const SCRIPT_BASE: Self = Self::from_micros(250_000);
    /// Each interrupt tick of a script after the first.
    pub const SCRIPT_TICK: Self = Self::from_micros(10_000);
    /// Calling a user function once.
    pub const FUNCTION_CALL: Self = Self::from_micros(10_000);

    /// So many 21sts of a unit.
    pub const fn from_21sts(count: u64) -> Self {
        Self(count * (STEPS_PER_UNIT / 21))
    }

    /// So many millionths of a unit.
    pub const fn from_micros(count: u64) -> Self {
        Self(count * (STEPS_PER_UNIT / 1_000_000))
    }

    /// Reading an item of this size.
    pub fn read(size: usize) -> Self {
        Self::from_21sts(bracket(size).read)
    }

    /// The size part of writing an item of this size.
    pub fn write(size: usize) -> Self {
        Self::from_21sts(bracket(size).write)
    }

    /// An item's share of a feed page: never more than reading it alone.
    pub fn feed_item(size: usize) -> Self {
        Self::read(size).min(Self(size as u64 * STEPS_PER_UNIT / 1024))
    }

    /// Loading a candidate of a query.
    pub fn load(size: usize) -> Self {
        Self::from_micros(35_000) + Self(size as u64 * (STEPS_PER_UNIT / 200) / 1024)
    }

    /// Handing out a row of a query.
    pub fn output(size: usize) -> Self {
        const DEAR_BYTES: usize = 2048;
        let dear = Self(size.min(DEAR_BYTES) as u64 * (STEPS_PER_UNIT * 15 / 100) / 1024);
        let cheap = Self(size.saturating_sub(DEAR_BYTES) as u64 * (STEPS_PER_UNIT / 200) / 1024);
        Self::from_micros(10_000) + dear + cheap
    }

    /// The share a script pays for an operation: nine tenths.
    pub fn in_script(self) -> Self {
        Self(self.0 * 9 / 10)
    }

    /// The charge without a part of it.
    pub fn less(self, part: Self) -> Self {
        Self(self.0.saturating_sub(part.0))
    }

    /// The charge in units, for metrics and comparisons with a budget.
    pub fn units(self) -> f64 {
        self.0 as f64 / STEPS_PER_UNIT as f64
    }
}

struct Bracket {
    size_max: usize,
    read: u64,
    write: u64,
}

const fn kb(size_kb: usize, read: u64, write: u64) -> Bracket {
    Bracket { size_max: size_kb * 1024, read, write }
}

/// Published charges by item size, in 21sts.
const BRACKETS: [Bracket; 12] = [
    kb(1, 21, 104),
    kb(2, 22, 132),
    kb(4, 24, 140),
    kb(8, 28, 148),
    kb(16, 35, 200),
    kb(32, 46, 236),
    kb(64, 100, 476),
    kb(128, 209, 1012),
    kb(256, 426, 2064),
    kb(512, 860, 3876),
    kb(1024, 3064, 13125),
    kb(2048, 6128, 26250),
];

fn bracket(size: usize) -> &'static Bracket {
    let position = BRACKETS.partition_point(|bracket| bracket.size_max < size);
    // Stored items carry system properties and may pass the client's limit by a little.
    &BRACKETS[position.min(BRACKETS.len() - 1)]
}

impl fmt::Display for RequestCharge {
    /// Two decimals, rounded half up, without trailing zeros.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hundredths = (self.0 * 100 + STEPS_PER_UNIT / 2) / STEPS_PER_UNIT;
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
        Self(self.0 * count)
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
    fn published_reads_and_writes() {
        let printed = |charge: RequestCharge| charge.to_string();
        assert_eq!(printed(RequestCharge::read(1024)), "1");
        assert_eq!(printed(RequestCharge::read(1025)), "1.05");
        assert_eq!(printed(RequestCharge::read(100 * 1024)), "9.95");
        assert_eq!(printed(RequestCharge::write(289) + RequestCharge::TERM * 4), "5.71");
        assert_eq!(printed(RequestCharge::write(1713) + RequestCharge::TERM * 13), "8.76");
    }

    #[test]
    fn published_queries() {
        let one = |size| RequestCharge::load(size) + RequestCharge::output(size);
        assert_eq!((RequestCharge::QUERY_BASE + one(9963)).to_string(), "3.25");
        assert_eq!((RequestCharge::QUERY_BASE + one(1265) * 20).to_string(), "7.55");
    }
}
