//! What can go wrong below the engine: the disk, or what was read from it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why the store refused or failed.
///
/// Corruption is never worked around here: the caller stops using what is damaged and says where.
#[derive(Clone, Debug)]
pub enum StoreError {
    /// The operating system refused, or the disk failed.
    Io {
        /// What was being done, with the path where there is one.
        context: String,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// Stored bytes are not what was written.
    Corruption {
        /// The file, keyspace or key concerned.
        place: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Another process has this folder open.
    Locked {
        /// The folder.
        path: PathBuf,
    },
    /// The folder was written by another version of the format.
    FormatVersion {
        /// The version found.
        found: u32,
        /// The version this program reads and writes.
        expected: u32,
    },
}

impl StoreError {
    /// An I/O failure while doing `context`.
    pub fn io(context: impl Into<String>, source: io::Error) -> Self {
        Self::Io { context: context.into(), source: Arc::new(source) }
    }

    /// An I/O failure on a file: `"write to <path>"`.
    pub fn file(action: &str, path: &Path, source: io::Error) -> Self {
        Self::io(format!("{action} {}", path.display()), source)
    }

    /// Damage at `place`.
    pub fn corruption(place: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Corruption { place: place.into(), reason: reason.into() }
    }

    /// What to do about it, where that is not plain.
    #[must_use]
    pub const fn advice(&self) -> Option<&'static str> {
        match self {
            Self::Corruption { .. } => Some(
                "no item was changed or removed. Put the missing or original files back, restore a backup into a new \
                 folder (armilla restore), or export what can still be read (armilla salvage --data DIR \
                 --to FILE)",
            ),
            _ => None,
        }
    }

    /// Whether the disk has no room left.
    #[must_use]
    pub fn is_full_disk(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull)
    }

    /// Whether stored bytes are damaged, rather than the disk out of reach.
    #[must_use]
    pub const fn is_corruption(&self) -> bool {
        matches!(self, Self::Corruption { .. })
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { context, source } => write!(f, "{context}: {source}"),
            Self::Corruption { place, reason } => write!(f, "corruption in {place}: {reason}"),
            Self::Locked { path } => {
                write!(f, "{} is in use by another process", path.display())
            }
            Self::FormatVersion { found, expected } => write!(
                f,
                "the data folder has format version {found}, this program reads version {expected}"
            ),
        }
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source.as_ref()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_is_one_clear_line() {
        let errors = [
            StoreError::file("open", Path::new("data/format"), io::Error::other("no")),
            StoreError::corruption("items", "checksum mismatch"),
            StoreError::Locked { path: "data".into() },
            StoreError::FormatVersion { found: 2, expected: 1 },
        ];
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "open data/format: no",
                "corruption in items: checksum mismatch",
                "data is in use by another process",
                "the data folder has format version 2, this program reads version 1",
            ]
        );
    }
}
