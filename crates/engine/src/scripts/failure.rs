//! Errors on their way into a script, and out of one.

use armilla_model::error::Error;
use armilla_script::host::HostError;
use armilla_script::{ScriptError, ScriptErrorKind};

/// What a script hears of an operation that failed.
pub(super) fn into_script(error: &Error) -> HostError {
    let (number, message) = match error {
        Error::NotFound(_) => (404, "Resource Not Found"),
        Error::Conflict(_) => (409, "Resource with specified id or name already exists."),
        Error::UniqueKeyViolation(message) => (409, message.as_str()),
        Error::PreconditionFailed(message) => (412, message.as_str()),
        Error::TooLarge(message) => (413, message.as_str()),
        Error::Forbidden(message) | Error::PartitionFull(message) => (403, message.as_str()),
        Error::Internal(message) | Error::Damaged(message) => (500, message.as_str()),
        other => (400, other.message()),
    };
    HostError::new(number, message)
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
