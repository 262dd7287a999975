//! What scripts have cost lately.

use crate::limits::{SCRIPT_CALLS_REMEMBERED, SCRIPTS_REMEMBERED_MAX};
use armilla_model::charge::RequestCharge;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// What is reserved for a script that was never called.
const FIRST_RESERVE: RequestCharge = RequestCharge::from_21sts(10 * 21);

/// The last charges of each script of a container.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    scripts: Mutex<HashMap<Arc<str>, VecDeque<RequestCharge>>>,
}

impl Recent {
    /// What to reserve for a call.
    pub(crate) fn reserve(&self, script: &str) -> RequestCharge {
        let scripts = self.scripts.lock();
        let Some(charges) = scripts.get(script).filter(|charges| !charges.is_empty()) else {
            return FIRST_RESERVE;
        };
        let sum: RequestCharge = charges.iter().copied().sum();
        RequestCharge::from_steps(sum.steps() / charges.len() as u64)
    }

    /// Remembers what a call has cost.
    pub(crate) fn remember(&self, script: &str, charge: RequestCharge) {
        let mut scripts = self.scripts.lock();
        if scripts.len() >= SCRIPTS_REMEMBERED_MAX && !scripts.contains_key(script) {
            scripts.clear();
        }
        let charges = scripts.entry(script.into()).or_default();
        if charges.len() >= SCRIPT_CALLS_REMEMBERED {
            charges.pop_front();
        }
        charges.push_back(charge);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_sixteen_calls_count() {
        let recent = Recent::default();
        assert_eq!(recent.reserve("s").to_string(), "10");
        recent.remember("s", RequestCharge::ONE * 100);
        assert_eq!(recent.reserve("s").to_string(), "100");
        (0..16).for_each(|_| recent.remember("s", RequestCharge::ONE * 4));
        assert_eq!(recent.reserve("s").to_string(), "4");
        assert_eq!(recent.reserve("other").to_string(), "10");
    }
}
