//! The numbers behind `Math.random`.
//!
//! SplitMix64: a counter whose every value is mixed into an unrelated one. Good enough for what
//! `Math.random` promises, which is nothing about secrets.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The step of the counter: an odd number whose bits are as irregular as those of the golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A sequence that begins somewhere else for everybody who makes one.
#[derive(Debug)]
pub(crate) struct Random(AtomicU64);

impl Default for Random {
    fn default() -> Self {
        Self(AtomicU64::new(RandomState::new().hash_one(STEP)))
    }
}

impl Random {
    /// A number from 0 up to but not including 1.
    #[allow(clippy::cast_precision_loss, reason = "53 bits are what the type holds exactly")]
    pub(crate) fn next(&self) -> f64 {
        let mixed = mix(self.0.fetch_add(STEP, Relaxed).wrapping_add(STEP));
        (mixed >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_known_ones_for_a_known_beginning() {
        // The published first outputs of SplitMix64 for the seed 1234567.
        let outputs: Vec<u64> =
            (1..=3_u64).map(|at| mix(1_234_567_u64.wrapping_add(STEP.wrapping_mul(at)))).collect();
        assert_eq!(
            outputs,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn numbers_are_spread_over_the_unit_interval() {
        let (random, mut tenths) = (Random::default(), [0; 10]);
        for _ in 0..10_000 {
            let number = random.next();
            assert!((0.0..1.0).contains(&number));
            tenths[(number * 10.0) as usize] += 1;
        }
        assert!(tenths.iter().all(|count| (800..1200).contains(count)), "{tenths:?}");
    }
}
