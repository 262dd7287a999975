//! The two ways an index can fail: the disk refused, or what it holds is not ours any more.

use std::{fmt, io};

/// Why an index could not be opened or a job could not be finished.
///
/// No data is ever lost with the index: it is derived. After [`Error::Damaged`] the owner calls
/// [`crate::Index::create`] and applies every live document again.
#[derive(Debug)]
pub enum Error {
    /// A file of the index is missing, or its bytes are not what was written: rebuild the index.
    Damaged {
        /// The file, or the part of a file, that was found wrong.
        what: String,
    },
    /// The disk refused; the files that were there before are untouched.
    Io {
        /// The file that was being worked on.
        file: String,
        /// What the disk said.
        source: io::Error,
    },
}

/// The result of everything that touches files or decodes bytes.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Damage found in `what`.
    pub(crate) fn damaged(what: impl Into<String>) -> Self {
        Self::Damaged { what: what.into() }
    }

    /// Turns an I/O error of one file into ours.
    pub(crate) fn io(file: &str) -> impl FnOnce(io::Error) -> Self {
        let file = file.to_owned();
        move |source| Self::Io { file, source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged { what } => write!(formatter, "index is damaged: {what}"),
            Self::Io { file, source } => write!(formatter, "index file {file}: {source}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Damaged { .. } => None,
            Self::Io { source, .. } => Some(source),
        }
    }
}
