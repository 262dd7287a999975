//! The throughput of one offer, spread over buckets.

use super::{Ask, Bucket, Rate, SHARES_MAX};
use crate::container::Container;
use crate::dials::{Dials, Throttling};
use crate::partition::Partition;
use armilla_model::charge::RequestCharge;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::time::Duration;

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Nothing is throttled here.
    Free,
    /// It may run, and its charge is to be recorded.
    Granted,
    /// It may run although it would be refused, were the throttle on: with this wait.
    Reported(Duration),
    /// It may not run before this time has passed.
    Refused(Duration),
}

/// The throughput of a container, or of a database that its containers share.
#[derive(Debug, Default)]
pub struct Budget {
    units: AtomicU32,
    /// Shared by several containers.
    shared: bool,
    /// Percentage that each throughput bucket may use; 0 where none is set.
    shares: [AtomicU8; SHARES_MAX as usize + 1],
    buckets: Mutex<HashMap<u32, Bucket>>,
}

impl Budget {
    /// A budget of so many units per second.
    pub fn new(units: u32, shared: bool) -> Self {
        Self { units: AtomicU32::new(units), shared, ..Self::default() }
    }

    /// Units per second.
    pub fn units(&self) -> u32 {
        self.units.load(Ordering::Relaxed)
    }

    /// Changes the units per second; what is spent stays spent.
    pub fn set_units(&self, units: u32) {
        self.units.store(units, Ordering::Relaxed);
    }

    /// Sets what a throughput bucket may use.
    pub fn set_shares(&self, shares: &[(u8, u8)]) {
        for (number, percent) in self.shares.iter().enumerate() {
            let found = shares.iter().find(|(known, _)| usize::from(*known) == number);
            percent.store(found.map_or(0, |(_, percent)| *percent), Ordering::Relaxed);
        }
    }

    fn share(&self, number: u8) -> Option<(u8, u8)> {
        let percent = self.shares.get(usize::from(number))?.load(Ordering::Relaxed);
        (percent > 0).then_some((number, percent))
    }

    /// Which bucket serves a partition, and how it is filled.
    fn place(&self, container: &Container, partition: &Partition, dials: &Dials) -> (u32, Rate) {
        let units = f64::from(self.units()) * dials.throttle_scale;
        let partitions = container.partitions();
        // The other slices of the account have as many partitions, and spend their share elsewhere.
        let slice = container.core.slice;
        let units = units / f64::from(slice.count());
        if !self.shared {
            return (partition.range.id, Rate::new(units, partitions.len(), dials.burst));
        }
        let count = slice.share(dials.partition_count(self.units()));
        let position =
            partitions.iter().position(|known| known.range.id == partition.range.id).unwrap_or(0);
        let slot = u32::try_from(position).unwrap_or(0) % count;
        (slot, Rate::new(units, count as usize, dials.burst))
    }
}

impl Container {
    /// Asks for throughput before a request does anything. `share` is the throughput bucket that
    /// the client named.
    pub fn admit(&self, partition: &Partition, ask: &mut Ask, share: Option<u8>) -> Admission {
        let dials = self.dials();
        if dials.throttle == Throttling::Off {
            return Admission::Free;
        }
        let budget = self.budget();
        ask.share = share.and_then(|number| budget.share(number));
        let (slot, rate) = budget.place(self, partition, &dials);
        let now = self.core.clock.now_millis();
        match budget.buckets.lock().entry(slot).or_default().ask(rate, ask, now) {
            Ok(()) => Admission::Granted,
            Err(wait) if dials.throttle == Throttling::Report => Admission::Reported(wait),
            Err(wait) => Admission::Refused(wait),
        }
    }

    /// Records what a request has cost a partition.
    pub fn spend(&self, partition: &Partition, ask: &Ask, charge: RequestCharge) {
        let dials = self.dials();
        if dials.throttle == Throttling::Off {
            return;
        }
        let budget = self.budget();
        let (slot, rate) = budget.place(self, partition, &dials);
        let now = self.core.clock.now_millis();
        budget.buckets.lock().entry(slot).or_default().spend(rate, ask, charge, now);
    }

    /// True when a partition has throughput left that no request is likely to want: what background
    /// work lives on.
    pub(crate) fn has_leisure(&self, partition: &Partition) -> bool {
        let mut ask = Ask { low_priority: true, ..Ask::default() };
        !matches!(self.admit(partition, &mut ask, None), Admission::Refused(_))
    }

    /// Charges work that no request asked for (expiry, the items of a deleted partition key) to the
    /// partition that did it.
    pub fn charge_background(&self, partition: &Partition, charge: RequestCharge) {
        let ask = Ask { low_priority: true, ..Ask::default() };
        self.spend(partition, &ask, charge);
        if let Some(observer) = self.core.observed.get() {
            observer.charged_in_background(self, partition.range.id, charge);
        }
    }

    /// What a call of a script must find before it starts.
    pub fn script_reserve(&self, script: &str) -> RequestCharge {
        self.recent_scripts.reserve(script)
    }

    /// Remembers what a call of a script has cost.
    pub fn remember_script(&self, script: &str, charge: RequestCharge) {
        self.recent_scripts.remember(script, charge);
    }
}
