//! The throttle: how much a physical partition may serve in a second, and who is told 429 instead.
//!
//! A [`Bucket`] is refilled every second on the second. A request is let in while anything is left
//! and may overdraw; the debt carries into the seconds that follow. Charges are recorded after the
//! work and nothing is refunded, so a refusal never undoes anything: it comes before the first step.
//! Time is handed in.

mod budget;
mod recent;

pub use budget::{Admission, Budget};
pub(crate) use recent::Recent;

use armilla_model::charge::{RequestCharge, STEPS_PER_UNIT};
use std::time::Duration;

/// Seconds of unused throughput that a partition banks.
const BANKED_SECONDS: i64 = 300;
/// Units per second up to which banked throughput is spent.
const BURST_UNITS: i64 = 3000;
/// Throughput buckets that a client can name: 1 to this.
pub const SHARES_MAX: u8 = 5;
/// Units per second for everything that is no item.
pub const METADATA_UNITS: u32 = 240;

/// A time that lies so many seconds back was set; less is a request that looked at the clock a little earlier.
const CLOCK_SET_BACK_SECONDS: u64 = 2;

const STEPS: i64 = STEPS_PER_UNIT as i64;

/// What a bucket is filled with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Steps of a charge per second.
    steps: i64,
    /// Unused throughput is banked.
    burst: bool,
}

impl Rate {
    /// So many units per second, an equal part of them for each of some partitions.
    pub fn new(units: f64, partitions: usize, burst: bool) -> Self {
        let steps = units * STEPS as f64 / partitions.max(1) as f64;
        Self { steps: (steps as i64).max(1), burst }
    }

    /// Steps that may be taken from the bank in one second.
    fn burst_steps(&self) -> i64 {
        if self.burst { (BURST_UNITS * STEPS - self.steps).max(0) } else { 0 }
    }

    fn bank_max(&self) -> i64 {
        if self.burst_steps() > 0 { self.steps.saturating_mul(BANKED_SECONDS) } else { 0 }
    }
}

/// Who asks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ask {
    /// Gives way to the others when there is not enough for all.
    pub low_priority: bool,
    /// The throughput bucket that the client named, and the percentage of the throughput it may
    /// use.
    pub share: Option<(u8, u8)>,
    /// What must be there before it starts: a script's average.
    pub reserve: RequestCharge,
}

/// What a partition has left.
#[derive(Clone, Debug, Default)]
pub struct Bucket {
    /// The second that the rest is about; nothing before the first request.
    second: Option<u64>,
    available: i64,
    bank: i64,
    burst_left: i64,
    /// What requests of high priority have used in this second, and in the one before.
    high: i64,
    high_before: i64,
    /// By throughput bucket: what it has used.
    shares: [i64; SHARES_MAX as usize + 1],
}

impl Bucket {
    /// Lets a request in, or says how long it has to wait.
    pub fn ask(&mut self, rate: Rate, ask: &Ask, now_millis: u64) -> Result<(), Duration> {
        self.advance(rate, now_millis);
        let banked = self.bank.min(self.burst_left).max(0);
        let to_refill = 1000 - now_millis % 1000;
        let wait = |debt: i64| {
            let seconds = u64::try_from(debt.max(0) / rate.steps).unwrap_or(0);
            Err(Duration::from_millis(to_refill + 1000 * seconds))
        };
        if self.available + banked <= 0 {
            return wait(-self.available);
        }
        let reserve = (ask.reserve.steps() as i64).min(rate.steps);
        if self.available + banked < reserve {
            return wait(0);
        }
        if ask.low_priority {
            // The others will want about as much as in the last second.
            let wanted = (self.high_before - self.high).max(0);
            if self.available + banked <= wanted {
                return wait(0);
            }
        }
        if let Some((number, percent)) = ask.share {
            let allowed = share_steps(rate, percent);
            let used = self.share(number);
            if *used >= allowed {
                let debt = *used - allowed;
                let seconds = u64::try_from(debt / allowed.max(1)).unwrap_or(0);
                return Err(Duration::from_millis(to_refill + 1000 * seconds));
            }
        }
        Ok(())
    }

    /// Records what a request has cost.
    pub fn spend(&mut self, rate: Rate, ask: &Ask, charge: RequestCharge, now_millis: u64) {
        self.advance(rate, now_millis);
        let steps = i64::try_from(charge.steps()).unwrap_or(i64::MAX / 4);
        self.available = self.available.saturating_sub(steps);
        if self.available < 0 {
            let taken = (-self.available).min(self.bank).min(self.burst_left).max(0);
            self.available += taken;
            self.bank -= taken;
            self.burst_left -= taken;
        }
        if !ask.low_priority {
            self.high = self.high.saturating_add(steps);
        }
        if let Some((number, _)) = ask.share {
            let used = self.share(number);
            *used = used.saturating_add(steps);
        }
    }

    /// What can be used in this second; negative when there is a debt.
    pub fn available(&self) -> f64 {
        self.available as f64 / STEPS as f64
    }

    /// What is banked.
    pub fn banked(&self) -> f64 {
        self.bank as f64 / STEPS as f64
    }

    fn share(&mut self, number: u8) -> &mut i64 {
        &mut self.shares[usize::from(number.min(SHARES_MAX))]
    }

    /// Goes on to the second of now.
    fn advance(&mut self, rate: Rate, now_millis: u64) {
        let now = now_millis / 1000;
        let Some(second) = self.second else {
            self.second = Some(now);
            (self.available, self.burst_left) = (rate.steps, rate.burst_steps());
            return;
        };
        if second.saturating_sub(now) >= CLOCK_SET_BACK_SECONDS {
            // What is left stays, and the next second of the new time fills it up.
            self.second = Some(now);
        }
        if now <= second {
            return;
        }
        self.second = Some(now);
        self.high_before = if now == second + 1 { self.high.min(rate.steps) } else { 0 };
        self.high = 0;
        for _ in second..now {
            self.bank = (self.bank + self.available.max(0)).min(rate.bank_max());
            self.available = self.available.min(0) + rate.steps;
            if self.available == rate.steps && self.bank == rate.bank_max() {
                break;
            }
        }
        self.burst_left = rate.burst_steps();
        // What a share overdrew it pays back from its part of the seconds since.
        let paid = rate.steps.saturating_mul(i64::try_from(now - second).unwrap_or(i64::MAX));
        for used in &mut self.shares {
            *used = if *used > rate.steps { (*used - paid).max(0) } else { 0 };
        }
    }
}

fn share_steps(rate: Rate, percent: u8) -> i64 {
    (rate.steps / 100).saturating_mul(i64::from(percent.min(100)))
}

#[cfg(test)]
mod tests;
