//! The numbers that scripts see: they are part of the interface that scripts are written against, as
//! `error.number` of a failed operation and as the status of one that succeeded.

use crate::host::HostErrorKind;

/// An operation gave an item or a page.
pub(crate) const OK: u16 = 200;
/// An item was made.
pub(crate) const CREATED: u16 = 201;
/// An operation gave nothing.
pub(crate) const NO_CONTENT: u16 = 204;
/// The item is the one that the script knows.
pub(crate) const NOT_MODIFIED: u16 = 304;
/// A body is larger than scripts may make it.
pub(crate) const TOO_LARGE: u16 = 413;

/// The number of an operation that failed.
pub(crate) fn of(kind: HostErrorKind) -> u16 {
    match kind {
        HostErrorKind::Invalid => 400,
        HostErrorKind::Forbidden => 403,
        HostErrorKind::NotFound => 404,
        HostErrorKind::Conflict => 409,
        HostErrorKind::PreconditionFailed => 412,
        HostErrorKind::TooLarge => TOO_LARGE,
        HostErrorKind::Internal => 500,
    }
}
