//! Activity ids: the text by which client, answer and log speak of the same request.

use http::HeaderValue;
use std::sync::atomic::{AtomicU64, Ordering};

/// Gives out activity ids in the form of random UUIDs.
///
/// They need to be distinct, not secret: a counter is mixed with the seed that was handed in.
#[derive(Debug)]
pub struct ActivityIds {
    seed: u64,
    next: AtomicU64,
}

impl ActivityIds {
    /// Ids of one run of the server; the seed tells runs apart.
    pub fn new(seed: u64) -> Self {
        Self { seed, next: AtomicU64::new(0) }
    }

    /// The next id as a header value.
    pub fn next(&self) -> HeaderValue {
        HeaderValue::from_bytes(&self.next_text()).expect("hexadecimal digits and dashes")
    }

    /// The next id as text.
    pub(crate) fn next_text(&self) -> [u8; 36] {
        let ordinal = self.next.fetch_add(1, Ordering::Relaxed);
        let high = mix(self.seed ^ mix(ordinal));
        let low = mix(high.wrapping_add(self.seed));
        uuid_text(high, low)
    }
}

/// The finaliser of SplitMix64: every bit of the input moves every bit of the output.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// Version 4, variant 1, in the usual 8-4-4-4-12 form.
fn uuid_text(high: u64, low: u64) -> [u8; 36] {
    let high = (high & !0xF000) | 0x4000;
    let low = (low & !(0b11 << 62)) | (0b10 << 62);
    armilla_model::etag::uuid_text(&(u128::from(high) << 64 | u128::from(low)).to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_look_like_random_uuids_and_differ() {
        let ids = ActivityIds::new(7);
        let mut seen = std::collections::HashSet::new();
        for _ in 0..1000 {
            let id = ids.next().to_str().unwrap().to_owned();
            assert_eq!(id.len(), 36);
            assert_eq!(id.as_bytes()[14], b'4');
            assert!(b"89ab".contains(&id.as_bytes()[19]));
            assert!(seen.insert(id));
        }
        assert_ne!(ActivityIds::new(1).next(), ActivityIds::new(2).next());
    }
}
