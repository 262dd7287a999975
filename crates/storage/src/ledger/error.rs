//! Why the ledger refused or failed.

use std::fmt;

/// A failure of the ledger. None of them is a reason to end the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LedgerError {
    /// The database cannot be reached, and nothing was done.
    Unreachable(String),
    /// The answer did not come or cannot be trusted: the change may have happened or not.
    OutcomeUnknown(String),
    /// The database holds tables of another version.
    Format {
        /// The version found.
        found: u32,
        /// The version this program reads and writes.
        expected: u32,
    },
    /// The database holds something that no version of this program writes.
    Damage(String),
    /// The database is set up in a way that could lose acknowledged writes.
    Unfit(String),
}

impl fmt::Display for LedgerError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(reason) => {
                write!(formatter, "the ledger cannot be reached: {reason}")
            }
            Self::OutcomeUnknown(reason) => {
                write!(
                    formatter,
                    "the ledger's answer did not come; what became of the change is unknown: {reason}"
                )
            }
            Self::Format { found, expected } => write!(
                formatter,
                "the ledger has format {found}, this program reads format {expected}: run a program of that version"
            ),
            Self::Damage(reason) => {
                write!(formatter, "the ledger holds what was never written: {reason}")
            }
            Self::Unfit(reason) => {
                write!(formatter, "the database cannot serve as a ledger: {reason}")
            }
        }
    }
}

impl std::error::Error for LedgerError {}
