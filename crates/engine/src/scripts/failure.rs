//! Errors on their way into a script, and out of one.

use armilla_model::error::Error;
use armilla_script::host::{HostError, HostErrorKind};
use armilla_script::{ScriptError, ScriptErrorKind};

/// What a script hears of an operation that failed.
pub(super) fn into_script(error: &Error) -> HostError {
    let (kind, message) = match error {
        Error::NotFound(_) => (HostErrorKind::NotFound, "Resource Not Found"),
        Error::Conflict(_) => {
            (HostErrorKind::Conflict, "Resource with specified id or name already exists.")
        }
        Error::UniqueKeyViolation(message) => (HostErrorKind::Conflict, message.as_str()),
        Error::PreconditionFailed(message) => (HostErrorKind::PreconditionFailed, message.as_str()),
        Error::TooLarge(message) => (HostErrorKind::TooLarge, message.as_str()),
        Error::Forbidden(message) | Error::PartitionFull(message) => {
            (HostErrorKind::Forbidden, message.as_str())
        }
        Error::Internal(message) | Error::Damaged(message) => {
            (HostErrorKind::Internal, message.as_str())
        }
        other => (HostErrorKind::Invalid, other.message()),
    };
    HostError::new(kind, message)
}

/// What the client hears of a script that failed.
pub(crate) fn out_of_script(error: &ScriptError) -> Error {
    let message = error.message();
    match error.kind {
        ScriptErrorKind::Threw { number } => Error::ScriptFailed { message, number },
        ScriptErrorKind::OutOfMemory => Error::ScriptFailed { message, number: None },
        ScriptErrorKind::Timeout => Error::Timeout(message),
        ScriptErrorKind::Blocked => Error::Forbidden(message),
        ScriptErrorKind::Internal => Error::Internal(message),
    }
}
