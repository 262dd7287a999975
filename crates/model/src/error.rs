//! What a client can cause, named for the situation.
//!
//! The gateway has one table that gives each situation its status, substatus and code. Below the gateway
//! only scripts know such numbers, because their callbacks are told them (`err.number`).

use crate::partition_key::Hashing;
use std::fmt;
use std::time::Duration;

/// The result of anything a client asked for.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A refusal or failure, with what the caller needs next.
#[derive(Clone, Debug, PartialEq)]
pub enum Error {
    /// The request is malformed: JSON, header, id, policy, query, token.
    BadRequest(String),
    /// A query does not compile. The text is the JSON document `{"errors":[…]}`.
    QuerySyntax(String),
    /// The partition key of the header and that of the body differ.
    PartitionKeyMismatch(String),
    /// The container that the client cached by `_rid` is not the one that is there now.
    ContainerRecreated,
    /// A query reaches over partitions, and its client has not allowed that.
    CrossPartitionDisabled,
    /// A query across partitions that must go through a query plan.
    CrossPartitionQuery {
        /// What cannot be served directly.
        message: String,
        /// The plan, as JSON text.
        plan: String,
    },
    /// A script does not compile.
    ScriptSyntax(String),
    /// A script threw; `number` is the error's own number when it had one.
    ScriptFailed {
        /// The exception with its stack.
        message: String,
        /// `Error.number` of the thrown error.
        number: Option<u32>,
    },
    /// No or unusable credentials.
    Unauthorized(String),
    /// Credentials that do not allow this.
    Forbidden(String),
    /// The request was sent to a name that is not this server's.
    Misdirected(String),
    /// The key lies in another slice of the account, which may be served by another node. What is needed to find it is told.
    InOtherSlice {
        /// That slice.
        slice: u32,
        /// How the container's keys are hashed.
        hashing: Hashing,
        /// How many levels they have.
        levels: usize,
    },
    /// A logical partition has reached its size limit.
    PartitionFull(String),
    /// The resource does not exist.
    NotFound(String),
    /// The database or container the resource would be in does not exist.
    ParentNotFound(String),
    /// The client has seen a later state than this server has.
    SessionNotAvailable,
    /// The path exists, the method does not.
    MethodNotAllowed(String),
    /// The request or script ran out of time.
    Timeout(String),
    /// The id or name is taken.
    Conflict(String),
    /// A unique key is taken.
    UniqueKeyViolation(String),
    /// The partition key range is gone: split or merged.
    PartitionGone,
    /// A precondition on the etag failed.
    PreconditionFailed(String),
    /// The condition of a patch was false.
    PatchConditionFailed,
    /// The body, item or answer is too large.
    TooLarge(String),
    /// Rolled back because another operation of the batch failed.
    FailedDependency,
    /// No request units left; try again after this time.
    TooManyRequests {
        /// When to try again.
        retry_after: Duration,
    },
    /// No request units left for databases, containers and other resources that are no items.
    MetadataThrottled {
        /// When to try again.
        retry_after: Duration,
    },
    /// Too many sign-ins of one address failed; try again after this time.
    SignInsFailed {
        /// When to try again.
        retry_after: Duration,
    },
    /// Work is queued up to its bound; try again after this time.
    Overloaded {
        /// When to try again.
        retry_after: Duration,
    },
    /// The disk is nearly full: nothing is written but deletes until there is room.
    DiskFull,
    /// Another writer was faster; the same request may succeed when it is sent again.
    WriteConflict,
    /// Stored data is not what was written. The message says where it is and what to do.
    Damaged(String),
    /// A defect of this server. The message is for its log as much as for the client.
    Internal(String),
}

impl Error {
    /// A malformed request.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::BadRequest(message.into())
    }

    /// The standard message for a missing resource. Clients look for either sentence.
    pub fn not_found() -> Self {
        Self::NotFound(
            "Resource Not Found. Entity with the specified id does not exist in the system."
                .to_owned(),
        )
    }

    /// The standard message for a missing parent.
    pub fn parent_not_found() -> Self {
        Self::ParentNotFound(
            "Resource Not Found. The database or container of this request does not exist."
                .to_owned(),
        )
    }

    /// The standard message for a taken id.
    pub fn conflict() -> Self {
        Self::Conflict("Entity with the specified id already exists in the system.".to_owned())
    }

    /// The standard message for a stale etag.
    pub fn precondition_failed() -> Self {
        Self::PreconditionFailed("One of the specified pre-condition is not met.".to_owned())
    }

    /// The text for people.
    pub fn message(&self) -> &str {
        match self {
            Self::BadRequest(message)
            | Self::QuerySyntax(message)
            | Self::PartitionKeyMismatch(message)
            | Self::CrossPartitionQuery { message, .. }
            | Self::ScriptSyntax(message)
            | Self::ScriptFailed { message, .. }
            | Self::Unauthorized(message)
            | Self::Forbidden(message)
            | Self::Misdirected(message)
            | Self::PartitionFull(message)
            | Self::NotFound(message)
            | Self::ParentNotFound(message)
            | Self::MethodNotAllowed(message)
            | Self::Timeout(message)
            | Self::Conflict(message)
            | Self::UniqueKeyViolation(message)
            | Self::PreconditionFailed(message)
            | Self::TooLarge(message)
            | Self::Damaged(message)
            | Self::Internal(message) => message,
            Self::ContainerRecreated => {
                "The container was deleted and created again; read it anew."
            }
            Self::InOtherSlice { .. } => "Another slice of the account has this partition key.",
            Self::CrossPartitionDisabled => "Cross partition query is required but disabled.",
            Self::SessionNotAvailable => {
                "The read session is not available for the input session token."
            }
            Self::PartitionGone => {
                "The requested partition key range is gone; read the ranges anew."
            }
            Self::PatchConditionFailed => "The condition of the patch is not met.",
            Self::FailedDependency => "Rolled back because another operation of the batch failed.",
            Self::TooManyRequests { .. } | Self::MetadataThrottled { .. } => {
                "Request rate is large. More Request Units may be needed."
            }
            Self::SignInsFailed { .. } => {
                "Too many keys from this address were wrong. Wait a minute, then sign in with the right one."
            }
            Self::WriteConflict => "Another write came between; try again.",
            Self::DiskFull => {
                "The server's disk is nearly full: reads and deletes go on, other writes are refused until there is room."
            }
            Self::Overloaded { .. } => "The server has more work queued than it takes; try again.",
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.message())
    }
}

impl std::error::Error for Error {}

impl From<crate::json::JsonError> for Error {
    fn from(error: crate::json::JsonError) -> Self {
        Self::BadRequest(format!("The request body is not valid JSON: {error}."))
    }
}
