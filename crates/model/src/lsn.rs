//! Log sequence numbers: the order of transactions inside one physical partition.

use std::fmt;

/// Position of a transaction in its physical partition; grows by one per committed transaction and
/// never goes back. Session tokens and the change feed speak it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl Lsn {
    /// The position of the next transaction.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}
