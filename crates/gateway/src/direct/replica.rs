//! Replica paths: the name of a partition at this server, as `/addresses` tells it and every request
//! repeats it.
//!
//! ```text
//! /apps/armilla/services/{container _rid without padding, or master}/partitions/{range id, or M}/replicas/{1p or 2s}
//! ```
//!
//! Each partition is told twice, as primary and as secondary: clients that find no secondary ask for the
//! addresses again before every read of a catalog resource. Both names lead to the same partition.

use std::fmt;

/// What the paths begin with.
const PREFIX: &str = "apps/armilla/services/";

/// The range id of the partition that serves databases, containers and users.
pub(crate) const MASTER_RANGE: &str = "M";

/// The partition that a request addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplicaPath<'a> {
    /// The catalog.
    Master,
    /// A range of a container.
    Range {
        /// The container's `_rid`, without the padding of base64.
        container: &'a str,
        /// The range's id.
        range: &'a str,
        /// Writes go to the primary alone.
        is_primary: bool,
    },
}

impl<'a> ReplicaPath<'a> {
    /// Reads a path, with or without slashes around it.
    pub(crate) fn parse(path: &'a str) -> Option<Self> {
        let mut parts = path.trim_matches('/').strip_prefix(PREFIX)?.split('/');
        let service = parts.next().filter(|service| !service.is_empty())?;
        let is = |part: Option<&str>, word: &str| part == Some(word);
        let range = is(parts.next(), "partitions").then(|| parts.next())??;
        let replica = is(parts.next(), "replicas").then(|| parts.next())??;
        let is_primary = match replica.as_bytes() {
            [digits @ .., b'p'] if is_number(digits) => true,
            [digits @ .., b's'] if is_number(digits) => false,
            _ => return None,
        };
        match (service, range, parts.next()) {
            (_, _, Some(_)) => None,
            ("master", MASTER_RANGE, None) => Some(Self::Master),
            (container, range, None) if is_number(range.as_bytes()) => {
                Some(Self::Range { container, range, is_primary })
            }
            _ => None,
        }
    }

    /// The number of the range; nothing for the catalog.
    pub(crate) fn range(&self) -> Option<u32> {
        match self {
            Self::Master => None,
            Self::Range { range, .. } => range.parse().ok(),
        }
    }
}

fn is_number(digits: &[u8]) -> bool {
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

impl fmt::Display for ReplicaPath<'_> {
    /// The path with slashes around it, as addresses have it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Master => {
                write!(formatter, "/{PREFIX}master/partitions/{MASTER_RANGE}/replicas/1p/")
            }
            Self::Range { container, range, is_primary } => {
                let replica = if *is_primary { "1p" } else { "2s" };
                write!(formatter, "/{PREFIX}{container}/partitions/{range}/replicas/{replica}/")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_with_and_without_their_last_slash() {
        let range =
            |is_primary| ReplicaPath::Range { container: "AAAAAYAAAAI", range: "12", is_primary };
        for slash in ["", "/"] {
            let path = |end: &str| {
                format!("/apps/armilla/services/AAAAAYAAAAI/partitions/12/replicas/{end}{slash}")
            };
            assert_eq!(ReplicaPath::parse(&path("1p")), Some(range(true)));
            assert_eq!(ReplicaPath::parse(&path("2s")), Some(range(false)));
            let master = format!("/apps/armilla/services/master/partitions/M/replicas/2s{slash}");
            assert_eq!(ReplicaPath::parse(&master), Some(ReplicaPath::Master));
        }
        for path in [range(true), range(false), ReplicaPath::Master] {
            assert_eq!(ReplicaPath::parse(&path.to_string()), Some(path));
        }
    }

    #[test]
    fn other_paths_are_nothing() {
        for path in [
            "",
            "/",
            "/a",
            "/apps/armilla/services/",
            "/apps/armilla/services/x/partitions/M/replicas/1p",
            "/apps/armilla/services/x/partitions/-1/replicas/1p",
            "/apps/armilla/services/x/partitions/1/replicas/1x",
            "/apps/armilla/services/x/partitions/1/replicas/p",
            "/apps/armilla/services/x/partitions/1/replicas/1p/more",
            "/apps/other/services/x/partitions/1/replicas/1p",
        ] {
            assert_eq!(ReplicaPath::parse(path), None, "{path}");
        }
    }
}
