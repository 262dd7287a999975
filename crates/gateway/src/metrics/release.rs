//! What was counted for containers that are deleted: it goes when somebody else wants the place.

use super::kinds::{CountedFor, RequestKind};
use super::{ContainerLabels, Metrics, OperationLabels, PartitionLabels, RequestLabels};
use armilla_engine::Account;

impl Metrics {
    /// Gives the labels of containers that are gone to others that want some.
    pub(crate) fn release(&self, account: &Account) {
        if !self.names.are_wanted() {
            return;
        }
        let catalog = account.catalog();
        let all = catalog.databases.values().flat_map(|database| database.containers.values());
        let gone = self.names.release(&all.map(|container| container.number).collect());
        let is_gone = |owner: CountedFor| match owner {
            CountedFor::Container(number) => gone.iter().any(|(one, _)| *one == number),
            CountedFor::Nobody | CountedFor::Other => false,
        };
        for (number, labels) in &gone {
            // A container of the same name goes on with what is counted there.
            let Some((database, container)) = labels.clone() else { continue };
            let labels = ContainerLabels { database, container };
            self.kinds.each(|kind, _| {
                if kind.owner == CountedFor::Container(*number) {
                    self.remove_kind(&labels, kind);
                }
            });
            for ranges in [&self.partitions, &*self.background] {
                ranges.each(|(of, range), _| {
                    if of == number {
                        self.remove_range(&labels, *range);
                    }
                });
            }
        }
        self.kinds.retain(|kind| !is_gone(kind.owner));
        for ranges in [&self.partitions, &*self.background] {
            ranges.retain(|(number, _)| !is_gone(CountedFor::Container(*number)));
        }
    }

    fn remove_kind(&self, of: &ContainerLabels, kind: &RequestKind) {
        let ContainerLabels { database, container } = of.clone();
        let labels = OperationLabels { operation: kind.operation, database, container };
        self.units.remove(&labels);
        self.throttled.remove(&labels);
        self.latency.remove(&labels);
        let OperationLabels { operation, database, container } = labels;
        let status = u32::from(kind.status);
        self.requests.remove(&RequestLabels { operation, database, container, status });
        if let Some(range) = kind.range {
            self.remove_range(of, range);
        }
    }

    fn remove_range(&self, of: &ContainerLabels, partition: u32) {
        let ContainerLabels { database, container } = of.clone();
        let labels = PartitionLabels { database, container, partition };
        self.partition_units.remove(&labels);
        self.background_units.remove(&labels);
    }
}
