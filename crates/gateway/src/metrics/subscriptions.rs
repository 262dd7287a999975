//! What subscriptions have delivered, and how far they are behind.

use super::{Names, OTHER};
use armilla_engine::Account;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct SubscriptionLabels {
    database: String,
    container: String,
    subscription: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct SubscriptionEntryLabels {
    database: String,
    container: String,
    subscription: String,
    outcome: &'static str,
}

/// What became of the entries of subscriptions, and how old the oldest is that waits.
pub(super) fn register(registry: &mut Registry, account: &Account, names: &Names) {
    let seconds = Family::<SubscriptionLabels, Gauge>::default();
    let entries = Family::<SubscriptionEntryLabels, Counter>::default();
    let (catalog, now) = (account.catalog(), account.clock().now_seconds());
    for source in catalog.databases.values().flat_map(|all| all.containers.values()) {
        for subscription in source.subscriptions().values() {
            let (database, container) = names.of(Some(source));
            if container == OTHER {
                continue;
            }
            let subscription_name = subscription.name.to_string();
            let figures = subscription.figures();
            let oldest = figures.oldest_second.map(u64::from);
            let age = oldest.map_or(0, |second| now.saturating_sub(second));
            let labels = SubscriptionLabels {
                database: database.clone(),
                container: container.clone(),
                subscription: subscription_name.clone(),
            };
            seconds.get_or_create(&labels).set(i64::try_from(age).unwrap_or(i64::MAX));
            for (outcome, count) in figures.counts.iter() {
                let labels = SubscriptionEntryLabels {
                    database: database.clone(),
                    container: container.clone(),
                    subscription: subscription_name.clone(),
                    outcome,
                };
                entries.get_or_create(&labels).inc_by(count);
            }
        }
    }
    let help = "Age of the oldest entry that a subscription has not delivered";
    registry.register_with_unit("subscription_lag", help, Unit::Seconds, seconds);
    let help = "Entries of subscriptions, by what became of them";
    registry.register("subscription_entries", help, entries);
}
