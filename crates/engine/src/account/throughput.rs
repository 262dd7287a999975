//! Offers: made with their resource, read and replaced by themselves.

use super::{Account, Change};
use crate::catalog::stored::write_offer;
use crate::keys::Meta;
use crate::offers::{AUTOSCALE_MIN, Offer, Share, Throughput};
use armilla_model::error::{Error, Result};
use std::sync::Arc;

/// How an offer is to change.
#[derive(Clone, Copy, Debug)]
pub enum OfferChange {
    /// To this throughput, of the same kind.
    Set(Throughput),
    /// From manual to autoscale; the server picks the maximum.
    ToAutoscale,
    /// From autoscale to manual; the server picks the units.
    ToManual,
}

impl Account {
    /// Replaces an offer, and what its throughput buckets may use.
    pub fn replace_offer(
        &self,
        number: u32,
        wanted: OfferChange,
        shares: Option<Vec<Share>>,
        if_match: Option<&str>,
    ) -> Result<Arc<Offer>> {
        self.change(|change| {
            let before =
                change.catalog.offers.get(&number).cloned().ok_or_else(Error::not_found)?;
            before.etag.check(if_match)?;
            let minimum = change.minimum_of(&before);
            let throughput = next_throughput(&before, wanted, minimum)?;
            let (etag, ts) = change.stamp();
            let offer = Offer {
                throughput,
                highest: before.highest.max(throughput.peak()),
                shares: shares.unwrap_or_else(|| before.shares.clone()),
                etag,
                ts,
                ..Offer::clone(&before)
            };
            change.put(Meta::Offer, &[number], write_offer(&offer));
            let offer = Arc::new(offer);
            change.catalog.offers.insert(number, offer.clone());
            Ok(offer)
        })
    }
}

fn next_throughput(before: &Offer, wanted: OfferChange, minimum: u32) -> Result<Throughput> {
    match (before.throughput, wanted) {
        (Throughput::Manual(units), OfferChange::ToAutoscale) => {
            let max = units.next_multiple_of(1000).max(AUTOSCALE_MIN);
            Ok(Throughput::Autoscale { max, increment_percent: None })
        }
        (Throughput::Autoscale { max, .. }, OfferChange::ToManual) => Ok(Throughput::Manual(max)),
        (same, OfferChange::ToAutoscale | OfferChange::ToManual) => Ok(same),
        (Throughput::Manual(_), OfferChange::Set(Throughput::Autoscale { .. }))
        | (Throughput::Autoscale { .. }, OfferChange::Set(Throughput::Manual(_))) => {
            Err(Error::bad_request(
                "Switching between manual and autoscale throughput needs the migration header.",
            ))
        }
        (_, OfferChange::Set(throughput)) if throughput.peak() < minimum => {
            Err(Error::bad_request(format!(
                "The offer cannot be lowered below {minimum} request units per second."
            )))
        }
        (_, OfferChange::Set(throughput)) => Ok(throughput),
    }
}

impl Change<'_> {
    pub(super) fn create_offer(&mut self, resource: &str, rid: &str, throughput: Throughput) {
        let (number, (etag, ts)) = (self.number(), self.stamp());
        let offer = Offer {
            number,
            resource: resource.into(),
            resource_rid: rid.into(),
            throughput,
            highest: throughput.peak(),
            shares: Vec::new(),
            etag,
            ts,
        };
        self.put(Meta::Offer, &[number], write_offer(&offer));
        self.catalog.offers.insert(number, Arc::new(offer));
    }

    pub(super) fn drop_offer(&mut self, resource: &str) {
        let number = self.catalog.offer_of(resource).map(|offer| offer.number);
        if let Some(number) = number {
            self.delete(Meta::Offer, &[number]);
            self.catalog.offers.remove(&number);
        }
    }
}
