//! Offers: how much throughput a database or container has.

use armilla_model::error::{Error, Result};
use armilla_model::etag::ETag;
use std::sync::Arc;

/// Least manual throughput.
pub const MANUAL_MIN: u32 = 400;
/// Least autoscale maximum.
pub const AUTOSCALE_MIN: u32 = 1000;
/// Containers that share a database's throughput before its minimum rises.
const SHARED_CONTAINERS: u32 = 25;
/// Most throughput one can ask for.
const THROUGHPUT_MAX: u32 = 1_000_000;

/// Request units per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Throughput {
    /// Fixed.
    Manual(u32),
    /// Between a tenth of the maximum and the maximum.
    Autoscale {
        /// The maximum.
        max: u32,
        /// By how many percent the maximum grows by itself.
        increment_percent: Option<u32>,
    },
}

/// An offer: the throughput of one resource.
#[derive(Clone, Debug)]
pub struct Offer {
    /// Its number, from which its rid is made.
    pub number: u32,
    /// `_self` of the database or container.
    pub resource: Arc<str>,
    /// Rid of the database or container.
    pub resource_rid: Arc<str>,
    /// The throughput.
    pub throughput: Throughput,
    /// The most it ever was.
    pub highest: u32,
    /// What each throughput bucket may use of it.
    pub shares: Vec<Share>,
    /// Version.
    pub etag: ETag,
    /// Second of the last change.
    pub ts: u64,
}

impl Throughput {
    /// Checks manual throughput.
    pub fn manual(units: i64) -> Result<Self> {
        Ok(Self::Manual(checked(units, MANUAL_MIN, 100, "throughput")?))
    }

    /// Checks an autoscale maximum.
    pub fn autoscale(max: i64, increment_percent: Option<u32>) -> Result<Self> {
        let max = checked(max, AUTOSCALE_MIN, 1000, "autoscale maximum")?;
        Ok(Self::Autoscale { max, increment_percent })
    }

    /// The most it allows per second.
    pub fn peak(self) -> u32 {
        match self {
            Self::Manual(units) => units,
            Self::Autoscale { max, .. } => max,
        }
    }
}

/// A throughput bucket: requests that name it use at most a part of the throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// 1 to 5.
    pub number: u8,
    /// Of the throughput.
    pub percent: u8,
}

impl Share {
    /// Checks a bucket.
    ///
    /// # Errors
    ///
    /// When the number or the part is out of range.
    pub fn new(number: i64, percent: i64) -> Result<Self> {
        let within = |number: i64, max: u8, what: &str| {
            let number = u8::try_from(number).ok().filter(|number| (1..=max).contains(number));
            number.ok_or_else(|| {
                Error::bad_request(format!("The {what} of a throughput bucket must be 1 to {max}."))
            })
        };
        Ok(Self {
            number: within(number, crate::throttle::SHARES_MAX, "id")?,
            percent: within(percent, 100, "percentage")?,
        })
    }
}

/// What a container or a database holds, as far as it decides how low its throughput can go.
#[derive(Clone, Copy, Debug, Default)]
pub struct Holdings {
    /// Whole GB of data.
    pub gigabytes: u32,
    /// Containers that share the throughput; 0 for a container's own.
    pub containers: u32,
}

impl Offer {
    /// The least this offer can be lowered to while it serves no data to speak of.
    pub fn minimum(&self) -> u32 {
        self.minimum_for(Holdings::default())
    }

    /// The least this offer can be lowered to.
    pub fn minimum_for(&self, holdings: Holdings) -> u32 {
        let Holdings { gigabytes, containers } = holdings;
        let further = containers.saturating_sub(SHARED_CONTAINERS);
        match self.throughput {
            Throughput::Manual(_) => {
                let least = gigabytes.max(self.highest / 100).max(MANUAL_MIN + 100 * further);
                least.next_multiple_of(100)
            }
            Throughput::Autoscale { .. } => {
                let by_data = gigabytes.saturating_mul(10).max(self.highest / 10);
                by_data.max(AUTOSCALE_MIN + 1000 * further).next_multiple_of(1000)
            }
        }
    }
}

fn checked(asked: i64, min: u32, step: u32, what: &str) -> Result<u32> {
    if asked < i64::from(min) {
        return Err(Error::bad_request(format!(
            "Requested throughput {asked} is less than required minimum throughput {min}"
        )));
    }
    let units = u32::try_from(asked).unwrap_or(u32::MAX);
    if (min..=THROUGHPUT_MAX).contains(&units) && units.is_multiple_of(step) {
        return Ok(units);
    }
    Err(Error::bad_request(format!(
        "The offer should have valid throughput values between {min} and {THROUGHPUT_MAX} inclusive in increments of {step}: this {what} is not."
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throughput_comes_in_steps_above_a_minimum() {
        assert!(Throughput::manual(400).is_ok() && Throughput::autoscale(1000, None).is_ok());
        for units in [0, -1, 350, 450, 2_000_000] {
            assert!(Throughput::manual(units).is_err(), "{units} was accepted");
        }
        assert!(Throughput::autoscale(1500, None).is_err());
    }

    #[test]
    fn minimums_follow_data_history_and_containers() {
        let offer = |throughput: Throughput, highest| Offer {
            number: 1,
            resource: "".into(),
            resource_rid: "".into(),
            throughput,
            highest,
            shares: Vec::new(),
            etag: ETag([0; 16]),
            ts: 0,
        };
        let manual = |highest| offer(Throughput::Manual(400), highest);
        let autoscale =
            |highest| offer(Throughput::Autoscale { max: 1000, increment_percent: None }, highest);
        let holds = |gigabytes, containers| Holdings { gigabytes, containers };
        assert_eq!(manual(50_000).minimum_for(holds(20, 0)), 500);
        assert_eq!(manual(400).minimum_for(holds(0, 30)), 900);
        assert_eq!(manual(400).minimum_for(holds(4321, 0)), 4400);
        assert_eq!(autoscale(1000).minimum_for(holds(0, 30)), 6000);
        assert_eq!(autoscale(50_000).minimum_for(holds(20, 0)), 5000);
        assert_eq!(autoscale(1000).minimum_for(holds(250, 0)), 3000);
    }

    #[test]
    fn throughput_buckets_are_parts_of_the_whole() {
        assert_eq!(Share::new(1, 20).unwrap(), Share { number: 1, percent: 20 });
        for (number, percent) in [(6, 20), (0, 20), (1, 0), (1, 101), (-1, 5)] {
            assert!(Share::new(number, percent).is_err(), "{number}: {percent}");
        }
    }
}
