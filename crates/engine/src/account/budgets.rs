//! Who draws on which throughput, and the dials of the account.

use super::{Account, Change};
use crate::catalog::{Catalog, Database};
use crate::container::Container;
use crate::dials::{Dials, Throttling, Turned};
use crate::keys::Meta;
use crate::offers::{Holdings, Offer};
use crate::ranked::{Rank, RankedLock};
use crate::throttle::{Admission, Ask, Bucket, Budget, METADATA_UNITS, Rate};
use armilla_model::charge::RequestCharge;
use armilla_model::error::{Error, Result};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Units per second of a container in an account without provisioned throughput.
const SERVERLESS_UNITS: u32 = 20_000;

/// The budgets of all offers, and that of the account's own resources.
pub(super) struct Budgets {
    by_resource: RankedLock<HashMap<Arc<str>, Arc<Budget>>>,
    metadata: Mutex<Bucket>,
}

impl Default for Budgets {
    fn default() -> Self {
        Self {
            by_resource: RankedLock::new(Rank::Budgets, HashMap::new()),
            metadata: Mutex::default(),
        }
    }
}

impl Account {
    /// Gives every container the budget it draws on: that of its own offer, else its database's.
    pub(super) fn assign_budgets(&self) {
        let catalog = self.catalog();
        let mut budgets = self.budgets.by_resource.lock();
        let offers: HashMap<&str, &Arc<Offer>> =
            catalog.offers.values().map(|offer| (&*offer.resource, offer)).collect();
        budgets.retain(|resource, _| offers.contains_key(&**resource));
        for database in catalog.databases.values() {
            let shared = offers.get(&*database.self_link()).copied();
            for container in database.containers.values() {
                let own = offers.get(&*container.self_link).copied();
                let Some(offer) = own.or(shared) else {
                    let units = container.budget().units();
                    if self.options.serverless && units != SERVERLESS_UNITS {
                        container.set_budget(Arc::new(Budget::new(SERVERLESS_UNITS, false)));
                    }
                    continue;
                };
                let units = offer.throughput.peak();
                let budget = budgets
                    .entry(offer.resource.clone())
                    .or_insert_with(|| Arc::new(Budget::new(units, own.is_none())));
                budget.set_units(units);
                let shares = offer.shares.iter().map(|share| (share.number, share.percent));
                budget.set_shares(&shares.collect::<Vec<_>>());
                if !Arc::ptr_eq(budget, &container.budget()) {
                    container.set_budget(budget.clone());
                }
            }
        }
    }

    /// The least that an offer can be lowered to, by what its resource holds.
    pub fn offer_minimum(&self, offer: &Offer) -> u32 {
        minimum_of(&self.catalog(), offer)
    }

    /// Asks for throughput for a request on databases, containers, scripts, users or offers.
    pub fn admit_metadata(&self) -> Admission {
        let throttle = self.dials().throttle;
        if throttle == Throttling::Off {
            return Admission::Free;
        }
        let now = self.core.clock.now_millis();
        match self.budgets.metadata.lock().ask(self.metadata_rate(), &Ask::default(), now) {
            Ok(()) => Admission::Granted,
            Err(wait) if throttle == Throttling::Report => Admission::Reported(wait),
            Err(wait) => Admission::Refused(wait),
        }
    }

    /// Records what such a request has cost.
    pub fn spend_metadata(&self, charge: RequestCharge) {
        if self.dials().throttle != Throttling::Off {
            let now = self.core.clock.now_millis();
            let rate = self.metadata_rate();
            self.budgets.metadata.lock().spend(rate, &Ask::default(), charge, now);
        }
    }

    fn metadata_rate(&self) -> Rate {
        Rate::new(f64::from(METADATA_UNITS) * self.dials().throttle_scale, 1, false)
    }

    /// The dials of the account.
    pub fn dials(&self) -> Arc<Dials> {
        self.core.dials.load_full()
    }

    /// How long every answer is held back, if it is.
    pub fn latency(&self) -> Option<Duration> {
        Some(self.core.dials.load().latency).filter(|latency| !latency.is_zero())
    }

    /// Turns dials of the account, all or none.
    pub fn turn_dials(&self, turns: &[(String, String)]) -> Result<Arc<Dials>> {
        let mut dials = Dials::clone(&self.dials());
        for (name, text) in turns {
            dials.turn(name, text)?;
        }
        self.core.dials.store(Arc::new(dials));
        let catalog = self.catalog();
        for container in catalog.databases.values().flat_map(|all| all.containers.values()) {
            container.adjust();
        }
        Ok(self.dials())
    }

    /// Turns dials of one container, all or none; they are kept.
    pub fn turn_container_dials(
        &self,
        container: &Container,
        turns: &[(String, String)],
    ) -> Result<Arc<Dials>> {
        let mut turned = container.turned();
        for (name, text) in turns {
            turned.turn(name, text)?;
        }
        self.keep_turned(container, turned)?;
        Ok(container.dials())
    }

    fn keep_turned(&self, container: &Container, turned: Turned) -> Result<()> {
        self.change(|change| {
            let found = change.catalog.databases.values().find_map(|database| {
                database.containers.values().find(|known| known.number == container.number)
            });
            found.ok_or_else(Error::not_found)?;
            change.put(Meta::Dials, &[container.number], turned.write());
            Ok(())
        })?;
        container.set_turned(turned);
        Ok(())
    }
}

impl Change<'_> {
    /// The least that an offer can be lowered to.
    pub(super) fn minimum_of(&self, offer: &Offer) -> u32 {
        minimum_of(&self.catalog, offer)
    }
}

fn minimum_of(catalog: &Catalog, offer: &Offer) -> u32 {
    let gigabytes = |size: u64| u32::try_from(size >> 30).unwrap_or(u32::MAX);
    let of_database = |database: &Arc<Database>| {
        let shared = |container: &&Arc<Container>| catalog.offer_of(&container.self_link).is_none();
        let containers: Vec<_> = database.containers.values().filter(shared).collect();
        Holdings {
            gigabytes: gigabytes(containers.iter().map(|container| container.size()).sum()),
            containers: u32::try_from(containers.len()).unwrap_or(u32::MAX),
        }
    };
    let mut databases = catalog.databases.values();
    let holdings = match databases.clone().find(|known| *known.self_link() == *offer.resource) {
        Some(database) => of_database(database),
        None => {
            let container = databases.find_map(|database| {
                database.containers.values().find(|known| known.self_link == offer.resource)
            });
            let size = container.map_or(0, |container| container.size());
            Holdings { gigabytes: gigabytes(size), containers: 0 }
        }
    };
    offer.minimum_for(holdings)
}
