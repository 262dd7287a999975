//! Sums that do not depend on the order of what is added.
//!
//! Adding doubles rounds at every step, so a plain sum tells in which order it was made: over which
//! ranges, by how many threads, from an index or from items. Here nothing is rounded until the end.
//! Integers are added up in 128 bits. Other numbers are held as a few doubles that do not overlap
//! (Shewchuk's expansions), mostly one. A sum of integers that fits 64 bits is exact; every other
//! one is the double nearest to the true sum.

use armilla_model::{Number, Value};
use smallvec::SmallVec;

/// Numbers from here on are added up apart and scaled down, so that no step can overflow.
const HUGE: f64 = f64::from_bits((1023 + 900) << 52);
/// What huge numbers are scaled down by, a power of two: it costs no digit.
const SCALE: f64 = f64::from_bits((1023 + 200) << 52);
/// Below this the error of a product may be too small for a double.
const TINY: f64 = f64::from_bits((1023 - 900) << 52);
/// Counts up to here are doubles themselves.
const COUNT_MAX: u64 = 1 << 53;

/// The sum of the numbers seen so far.
#[derive(Clone, Debug, Default)]
pub struct ExactSum {
    /// The sum of all integers: 2^64 of them fit.
    integers: i128,
    parts: Parts,
    /// Something was no integer.
    has_doubles: bool,
    rare: Option<Box<Rare>>,
}

/// What hardly any sum has.
#[derive(Clone, Debug, Default)]
struct Rare {
    /// Numbers from [`HUGE`] on, divided by [`SCALE`].
    huge: Parts,
    /// The sum of infinities, if there was one.
    endless: Option<f64>,
}

impl ExactSum {
    /// Adds a number.
    pub fn add(&mut self, number: Number) {
        match number.as_i64() {
            Some(int) => self.integers += i128::from(int),
            None => self.add_double(number.as_f64()),
        }
    }

    /// Adds a number so many times.
    pub fn add_many(&mut self, number: Number, count: u64) {
        match number.as_i64() {
            Some(int) => self.integers += i128::from(int) * i128::from(count),
            None => self.add_doubles(number.as_f64(), count),
        }
    }

    fn add_double(&mut self, number: f64) {
        self.has_doubles = true;
        if number.abs() < HUGE {
            self.parts.add(number);
        } else {
            self.add_rare(number);
        }
    }

    fn add_doubles(&mut self, number: f64, count: u64) {
        let size = number.abs();
        if !(TINY..HUGE / COUNT_MAX as f64).contains(&size) || count > COUNT_MAX {
            if number != 0.0 {
                (0..count).for_each(|_| self.add_double(number));
            }
            return;
        }
        let product = number * count as f64;
        self.add_double(product);
        // What the product was rounded by.
        self.add_double(number.mul_add(count as f64, -product));
    }

    /// Adds what another sum has.
    pub fn merge(&mut self, other: &Self) {
        self.integers += other.integers;
        self.has_doubles |= other.has_doubles;
        other.parts.0.iter().for_each(|part| self.parts.add(*part));
        if let Some(other) = &other.rare {
            let rare = self.rare.get_or_insert_default();
            other.huge.0.iter().for_each(|part| rare.huge.add(*part));
            rare.endless = match (rare.endless, other.endless) {
                (Some(left), Some(right)) => Some(left + right),
                (left, right) => left.or(right),
            };
        }
    }

    /// The sum where integers make one that fits 64 bits, else the double nearest to it.
    pub fn value(&self) -> Number {
        match i64::try_from(self.integers) {
            Ok(int) if !self.has_doubles => Number::Int(int),
            _ => Number::Float(self.nearest()),
        }
    }

    /// All of it, so that another process can go on: see [`ExactSum::of_state`].
    pub fn state(&self) -> Value {
        let rare = self.rare.as_deref();
        Value::array(vec![
            Value::from(self.integers.to_string()),
            Value::from(self.has_doubles),
            self.parts.state(),
            rare.map_or(Value::Null, |rare| rare.huge.state()),
            rare.and_then(|rare| rare.endless).map_or(Value::Null, bits),
        ])
    }

    /// The sum of a state; nothing where it is none.
    pub fn of_state(state: &Value) -> Option<Self> {
        let [integers, has_doubles, parts, huge, endless] = state.as_array()? else { return None };
        let rare = match (huge, endless) {
            (Value::Null, Value::Null) => None,
            (huge, endless) => {
                let huge = if *huge == Value::Null { Parts::default() } else { Parts::of(huge)? };
                Some(Box::new(Rare { huge, endless: number(endless) }))
            }
        };
        Some(Self {
            integers: integers.as_str()?.parse().ok()?,
            parts: Parts::of(parts)?,
            has_doubles: has_doubles.as_bool()?,
            rare,
        })
    }

    fn nearest(&self) -> f64 {
        let mut all = self.parts.clone();
        // Three doubles hold what 128 bits hold.
        let mut rest = self.integers;
        while rest != 0 {
            let part = rest as f64;
            all.add(part);
            rest -= part as i128;
        }
        let sum = all.rounded();
        match self.rare.as_deref() {
            None => sum,
            Some(Rare { endless: Some(endless), .. }) => *endless,
            Some(Rare { huge, .. }) => huge.rounded() * SCALE + sum,
        }
    }

    #[cold]
    fn add_rare(&mut self, number: f64) {
        let rare = self.rare.get_or_insert_default();
        if number.is_finite() {
            rare.huge.add(number / SCALE);
        } else {
            rare.endless = Some(rare.endless.unwrap_or(0.0) + number);
        }
    }
}

/// Doubles that do not overlap, the smallest first, none of them zero: their sum is the sum.
#[derive(Clone, Debug, Default)]
struct Parts(SmallVec<[f64; 2]>);

impl Parts {
    fn state(&self) -> Value {
        Value::array(self.0.iter().copied().map(bits).collect())
    }

    fn of(state: &Value) -> Option<Self> {
        let mut parts = Self::default();
        for part in state.as_array()? {
            parts.add(number(part)?);
        }
        Some(parts)
    }

    fn add(&mut self, number: f64) {
        let (mut sum, mut kept) = (number, 0);
        for at in 0..self.0.len() {
            let (rounded, lost) = two_sum(sum, self.0[at]);
            if lost != 0.0 {
                self.0[kept] = lost;
                kept += 1;
            }
            sum = rounded;
        }
        self.0.truncate(kept);
        if sum != 0.0 {
            self.0.push(sum);
        }
    }

    fn rounded(&self) -> f64 {
        let mut parts = self.0.iter().rev();
        let Some(mut sum) = parts.next().copied() else { return 0.0 };
        while let Some(part) = parts.next() {
            let (rounded, lost) = two_sum(sum, *part);
            sum = rounded;
            if lost != 0.0 {
                // A tie was rounded to even; what comes behind it may tip it the other way.
                let tipped = parts.next().is_some_and(|next| (*next < 0.0) == (lost < 0.0));
                let doubled = lost * 2.0;
                let other = sum + doubled;
                if tipped && doubled == other - sum {
                    sum = other;
                }
                break;
            }
        }
        sum
    }
}

/// A double that no text can hold better, infinities included.
fn bits(number: f64) -> Value {
    Value::from(number.to_bits().cast_signed())
}

fn number(bits: &Value) -> Option<f64> {
    Some(f64::from_bits(bits.as_number()?.as_i64()?.cast_unsigned()))
}

/// The rounded sum of two numbers, and what the rounding lost.
fn two_sum(left: f64, right: f64) -> (f64, f64) {
    let (large, small) = if left.abs() < right.abs() { (right, left) } else { (left, right) };
    let sum = large + small;
    (sum, small - (sum - large))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sum_of(numbers: &[f64]) -> f64 {
        let mut sum = ExactSum::default();
        numbers.iter().for_each(|number| sum.add(Number::Float(*number)));
        sum.value().as_f64()
    }

    #[test]
    fn nothing_is_lost_on_the_way() {
        assert_eq!(sum_of(&[]).to_bits(), 0);
        assert_eq!(sum_of(&[-0.0]).to_bits(), 0);
        assert_eq!(sum_of(&[0.1; 10]), 1.0);
        assert_eq!(sum_of(&[1e16, 1.0, -1e16]), 1.0);
        assert_eq!(sum_of(&[1e308, 1e308, -1e308]), 1e308);
        assert_eq!(sum_of(&[f64::MAX, f64::MAX]), f64::INFINITY);
        assert_eq!(sum_of(&[f64::INFINITY, 1.0]), f64::INFINITY);
        // A tie that something tiny decides.
        assert_eq!(sum_of(&[1.0, f64::EPSILON / 2.0, 1e-300]), 1.0 + f64::EPSILON);
        assert_eq!(sum_of(&[1.0, f64::EPSILON / 2.0]), 1.0);
    }

    #[test]
    fn integers_add_up_exactly_while_they_fit() {
        let sum_of = |numbers: &[Number]| {
            let mut sum = ExactSum::default();
            numbers.iter().for_each(|number| sum.add(*number));
            sum.value().to_string()
        };
        use Number::{Float, Int};
        assert_eq!(sum_of(&[Int(9_007_199_254_740_993), Int(2)]), "9007199254740995");
        assert_eq!(sum_of(&[Int(9_007_199_254_740_993), Float(2.0)]), "9007199254740995");
        assert_eq!(sum_of(&[Int(i64::MAX), Int(1), Int(-2)]), "9223372036854775806");
        assert_eq!(sum_of(&[Int(i64::MAX), Int(1)]), "9.223372036854776e18");
        assert_eq!(sum_of(&[Int(9_007_199_254_740_993), Float(0.5)]), "9007199254740994");
    }

    fn any_number() -> impl Strategy<Value = Number> {
        prop_oneof![
            (-1000i32..1000).prop_map(|number| Number::Float(number.into())),
            (-1e6..1e6f64).prop_map(Number::Float),
            any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(Number::Float),
            any::<i64>().prop_map(Number::Int),
            Just(Number::Float(f64::MIN_POSITIVE / 4.0)),
        ]
    }

    proptest! {
        #[test]
        fn order_and_grouping_do_not_matter(
            numbers in proptest::collection::vec((any_number(), 1u64..40), 0..40),
            turn in 0usize..40,
        ) {
            let mut whole = ExactSum::default();
            for (number, count) in &numbers {
                (0..*count).for_each(|_| whole.add(*number));
            }
            let (head, tail) = numbers.split_at(turn.min(numbers.len()));
            let mut halves = [ExactSum::default(), ExactSum::default()];
            tail.iter().for_each(|(number, count)| halves[0].add_many(*number, *count));
            head.iter().rev().for_each(|(number, count)| halves[1].add_many(*number, *count));
            let [merged, right] = halves;
            let mut merged = ExactSum::of_state(&merged.state()).unwrap();
            merged.merge(&ExactSum::of_state(&right.state()).unwrap());
            prop_assert_eq!(whole.value().to_string(), merged.value().to_string());
        }

        #[test]
        fn whole_numbers_add_up(numbers in proptest::collection::vec(any::<i32>(), 0..200)) {
            let doubles: Vec<f64> = numbers.iter().map(|number| f64::from(*number)).collect();
            let expected: i64 = numbers.iter().map(|number| i64::from(*number)).sum();
            prop_assert_eq!(sum_of(&doubles), expected as f64);
        }
    }
}
