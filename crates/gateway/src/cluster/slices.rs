//! An account that is cut into slices, as one node sees it: where each slice is served, and in which one a key lies.
//!
//! A node keeps no catalog for this. It guesses, and whoever has the slice knows better: a key that lies elsewhere is refused with
//! [`Error::InOtherSlice`](armilla_model::Error::InOtherSlice), which says where it lies and how the container hashes its keys. From then on the node finds the slice of each
//! key by itself, until it is told again that it was wrong because another container has the name.

use super::Front;
use crate::limits::LEARNED_CONTAINERS_MAX;
use crate::routes::ContainerPath;
use armilla_engine::SliceBounds;
use armilla_model::partition_key::{Definition, Hashing, PartitionKey};
use armilla_model::path::Path;
use parking_lot::RwLock;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// Passes requests on to the owners of slices.
pub struct SliceFronts {
    fronts: Vec<Arc<Front>>,
    learned: RwLock<HashMap<String, Arc<Definition>>>,
    bounds: [SliceBounds; 3],
}

impl fmt::Debug for SliceFronts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(&self.fronts).finish()
    }
}

const HASHINGS: [Hashing; 3] = [Hashing::V1, Hashing::V2, Hashing::MultiHash];

/// What is told of a key that lies elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SliceHint {
    pub(crate) slice: u32,
    pub(crate) hashing: Hashing,
    pub(crate) levels: usize,
}

impl SliceHint {
    /// The text of a header.
    pub(crate) fn write(self) -> String {
        let hashing = match self.hashing {
            Hashing::V1 => "1",
            Hashing::V2 => "2",
            Hashing::MultiHash => "m",
        };
        format!("{};{hashing};{}", self.slice, self.levels)
    }

    /// Reads the text of a header.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut parts = text.split(';');
        let slice = parts.next()?.parse().ok()?;
        let hashing = match parts.next()? {
            "1" => Hashing::V1,
            "2" => Hashing::V2,
            "m" => Hashing::MultiHash,
            _ => return None,
        };
        let levels = parts.next()?.parse().ok().filter(|levels| (1..=3).contains(levels))?;
        Some(Self { slice, hashing, levels })
    }
}

impl SliceFronts {
    /// One front for each slice, in their order.
    #[must_use]
    pub fn new(fronts: Vec<Arc<Front>>) -> Self {
        let count = u32::try_from(fronts.len()).unwrap_or(u32::MAX);
        let bounds = HASHINGS.map(|hashing| SliceBounds::new(hashing, count));
        Self { fronts, learned: RwLock::default(), bounds }
    }

    /// How many slices there are.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.fronts.len()).unwrap_or(u32::MAX)
    }

    /// The front of a slice.
    pub(crate) fn front(&self, slice: u32) -> Option<&Arc<Front>> {
        self.fronts.get(slice as usize)
    }

    /// All of them.
    pub(crate) fn fronts(&self) -> &[Arc<Front>] {
        &self.fronts
    }

    /// Whether requests for every slice can be answered, here or by another node. The first front counts for the whole node.
    pub(crate) fn is_ready(&self) -> bool {
        self.fronts.first().is_some_and(|front| front.is_ready())
            && self.fronts.iter().all(|front| front.is_served())
    }

    /// The slice of a key, where this node has heard how the container hashes its keys.
    pub(crate) fn slice_of(&self, path: ContainerPath<'_>, key: &PartitionKey) -> Option<u32> {
        let definition = self.learned.read().get(&text_of(path)).cloned()?;
        if key.0.len() > definition.levels() {
            return None;
        }
        let bounds = HASHINGS.iter().position(|hashing| *hashing == definition.hashing)?;
        let epk = match key.0.is_empty() {
            true => definition.epk(&PartitionKey::undefined(definition.levels())),
            false => definition.epk(key),
        };
        Some(self.bounds[bounds].slice_of(&epk))
    }

    /// Remembers how a container hashes its keys.
    pub(crate) fn learn(&self, path: ContainerPath<'_>, hint: SliceHint) {
        let mut learned = self.learned.write();
        if learned.len() >= LEARNED_CONTAINERS_MAX {
            learned.clear();
        }
        // Hashes depend on the number of paths and not on their names.
        let paths = vec![Path(Vec::new()); hint.levels];
        let definition = Definition { paths, hashing: hint.hashing };
        learned.insert(text_of(path), Arc::new(definition));
    }
}

fn text_of(path: ContainerPath<'_>) -> String {
    format!("{}/{}", path.database, path.container)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::RootCertStore;

    #[test]
    fn a_key_is_found_once_its_container_is_known() {
        let front = || Arc::new(Front::new("a", RootCertStore::empty()).unwrap().0);
        let fronts = SliceFronts::new((0..4).map(|_| front()).collect());
        let path = ContainerPath { database: "d", container: "c" };
        let key = PartitionKey::parse(r#"["x"]"#).unwrap();
        assert_eq!(fronts.slice_of(path, &key), None);
        let hint = SliceHint { slice: 3, hashing: Hashing::V2, levels: 1 };
        assert_eq!(SliceHint::read(&hint.write()), Some(hint));
        fronts.learn(path, hint);
        assert!(fronts.slice_of(path, &key).is_some_and(|slice| slice < fronts.count()));
        let long = PartitionKey::parse(r#"["x",1]"#).unwrap();
        assert_eq!(fronts.slice_of(path, &long), None, "it does not fit; the owner says so");
        for wrong in ["", "1", "1;3;1", "1;2;0", "1;2;9", "x;2;1"] {
            assert_eq!(SliceHint::read(wrong), None, "{wrong}");
        }
    }
}
