//! The seven ordered maps a store consists of.

use std::fmt;

/// One of the ordered maps of a store. Keys of different keyspaces never meet.
///
/// The discriminant is part of the backup format: never renumber, only append.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Keyspace {
    /// Databases, containers, scripts, users, offers, partition ranges, LSN heads.
    Meta = 0,
    /// The items themselves.
    Items = 1,
    /// The change feed: one entry per live item, at its last LSN.
    Feed = 2,
    /// Removed versions, until the index manifest covers them.
    Gone = 3,
    /// Unique keys.
    Unique = 4,
    /// Items with their own time to live, by the second they end.
    Expiry = 5,
    /// The log of all versions and deletes, where a container keeps one.
    Versions = 6,
}

impl Keyspace {
    /// Every keyspace, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::Meta,
        Self::Items,
        Self::Feed,
        Self::Gone,
        Self::Unique,
        Self::Expiry,
        Self::Versions,
    ];

    /// The name used on disk and in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Meta => "meta",
            Self::Items => "items",
            Self::Feed => "feed",
            Self::Gone => "gone",
            Self::Unique => "unique",
            Self::Expiry => "expiry",
            Self::Versions => "versions",
        }
    }

    /// The keyspace's place in [`Keyspace::ALL`], for arrays indexed by keyspace.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The keyspace with this name, if there is one.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|keyspace| keyspace.name() == name)
    }
}

impl fmt::Display for Keyspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_distinct_and_lead_back() {
        for (index, keyspace) in Keyspace::ALL.into_iter().enumerate() {
            assert_eq!(keyspace.index(), index);
            assert_eq!(Keyspace::from_name(keyspace.name()), Some(keyspace));
        }
        assert_eq!(Keyspace::from_name("nothing"), None);
    }
}
