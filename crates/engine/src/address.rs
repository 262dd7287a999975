//! The address of a logical partition: container, settings, partition key, effective key and physical
//! partition. A request finds it once and hands it down; whoever holds one need not check or hash the key
//! again.

use crate::container::{Container, Settings};
use crate::locks::PartitionLock;
use crate::partition::Partition;
use armilla_model::error::Result;
use armilla_model::partition_key::{Epk, PartitionKey};
use std::sync::Arc;

/// Where the items of one partition key are.
#[derive(Clone)]
pub struct ItemAddress {
    /// The container.
    pub container: Arc<Container>,
    /// Its settings when the address was made. The definition of the key, and so the address itself,
    /// never changes.
    pub settings: Arc<Settings>,
    /// The full key.
    pub key: PartitionKey,
    /// Its effective key.
    pub epk: Epk,
    /// The physical partition that holds it, unless it is split meanwhile.
    pub partition: Arc<Partition>,
}

impl ItemAddress {
    /// The address of a full key. An empty one, by which clients say "none", is the undefined key.
    ///
    /// # Errors
    ///
    /// When the key does not fit the container's definition, or lies in another slice of the account.
    pub fn new(
        container: Arc<Container>,
        settings: Arc<Settings>,
        key: PartitionKey,
    ) -> Result<Self> {
        let definition = container.key_definition();
        let key = match key.0.is_empty() {
            true => PartitionKey::undefined(definition.levels()),
            false => key,
        };
        definition.check_full(&key)?;
        let epk = definition.epk(&key);
        container.check_slice(&epk)?;
        let partition = container.partition_of(&epk);
        Ok(Self { container, settings, key, epk, partition })
    }

    /// The address of a full key under the settings of now.
    ///
    /// # Errors
    ///
    /// When the key does not fit the container's definition.
    pub fn of(container: &Arc<Container>, key: PartitionKey) -> Result<Self> {
        Self::new(container.clone(), container.settings(), key)
    }

    /// The same place under the settings of now: for whoever had to wait.
    #[must_use]
    pub fn renewed(self) -> Self {
        Self { settings: self.container.settings(), ..self }
    }

    /// Takes the lock of the logical partition, if nobody has it.
    pub fn try_lock(&self) -> Option<PartitionLock> {
        self.container.try_lock(&self.epk)
    }

    /// Hands the lock to the callback when it is this caller's turn; see [`Container::lock`].
    ///
    /// # Errors
    ///
    /// When too many wait for this key already.
    pub fn lock(
        &self,
        granted: impl FnOnce(PartitionLock) -> Option<PartitionLock> + Send + 'static,
    ) -> Result<()> {
        self.container.lock(&self.epk, granted)
    }
}
