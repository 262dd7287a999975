//! The one table from a situation to its status, substatus and code.
//!
//! `docs/protocol/errors.md#status-and-substatus` is the same table for people. SDKs branch on status and `x-ms-substatus`; `code` is for people. Two pairs never leave this
//! server: 403/3 and 403/1008 make clients retry for two minutes in the belief that the write
//! region has moved.

use crate::reply::Subject;
use armilla_model::{Error, json};
use http::StatusCode;
use std::time::Duration;

/// Substatus of a 401 for an AAD token that has expired.
pub const AAD_TOKEN_EXPIRED: u32 = 5006;
/// Substatus of a 403 for a directory's principal that has no role here, or not the right one.
pub const AAD_NOT_AUTHORIZED: u32 = 5300;

/// What the wire says about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorStatus {
    /// The HTTP status.
    pub status: StatusCode,
    /// `x-ms-substatus`.
    pub substatus: u32,
    /// `code` of the error document.
    pub code: &'static str,
}

/// Looks an error up in the table.
pub fn status_of(error: &Error) -> ErrorStatus {
    let (status, substatus) = match error {
        Error::BadRequest(_) | Error::QuerySyntax(_) | Error::CrossPartitionDisabled => (400, 0),
        Error::PartitionKeyMismatch(_) => (400, 1001),
        Error::CrossPartitionQuery { .. } => (400, 1004),
        Error::ContainerRecreated => (400, 1024),
        Error::ScriptSyntax(_) => (400, 0xFFFF),
        Error::ScriptFailed { number, .. } => (400, number.unwrap_or(0)),
        Error::Unauthorized(_) => (401, 0),
        Error::Forbidden(_) => (403, 0),
        Error::PartitionFull(_) => (403, 1014),
        Error::NotFound(_) => (404, 0),
        Error::SessionNotAvailable => (404, 1002),
        Error::ParentNotFound(_) => (404, 1003),
        Error::MethodNotAllowed(_) => (405, 0),
        Error::Timeout(_) => (408, 0),
        Error::Conflict(_) => (409, 0),
        Error::UniqueKeyViolation(_) => (409, 3301),
        Error::PartitionGone => (410, 1002),
        Error::PreconditionFailed(_) => (412, 0),
        Error::PatchConditionFailed => (412, 1110),
        Error::TooLarge(_) => (413, 0),
        Error::Misdirected(_) | Error::InOtherSlice { .. } => (421, 0),
        Error::FailedDependency => (424, 0),
        Error::TooManyRequests { .. } | Error::Overloaded { .. } => (429, 3200),
        Error::SignInsFailed { .. } => (429, 0),
        Error::WriteConflict => (449, 0),
        Error::MetadataThrottled { .. } => (429, 3210),
        Error::Internal(_) | Error::Damaged(_) => (500, 0),
        // No SDK tries this status again by itself: the disk does not empty in a second.
        Error::DiskFull => (507, 0),
    };
    let status = StatusCode::from_u16(status).expect("the table holds valid statuses only");
    ErrorStatus { status, substatus, code: code_of(status) }
}

/// The name that the service gives a status in `code`.
pub fn code_of(status: StatusCode) -> &'static str {
    match status.as_u16() {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        405 => "MethodNotAllowed",
        408 => "RequestTimeout",
        409 => "Conflict",
        410 => "Gone",
        412 => "PreconditionFailed",
        413 => "RequestEntityTooLarge",
        421 => "MisdirectedRequest",
        423 => "Locked",
        424 => "FailedDependency",
        429 => "TooManyRequests",
        449 => "RetryWith",
        503 => "ServiceUnavailable",
        507 => "InsufficientStorage",
        _ => "InternalServerError",
    }
}

/// When the client may try again, for the errors that say so.
pub fn retry_after(error: &Error) -> Option<Duration> {
    match error {
        Error::TooManyRequests { retry_after }
        | Error::MetadataThrottled { retry_after }
        | Error::SignInsFailed { retry_after }
        | Error::Overloaded { retry_after } => Some(*retry_after),
        _ => None,
    }
}

/// Writes the error document: `{"code":…,"message":…}`.
///
/// Syntax errors keep the service's nested form, and a query that needs a plan brings it along in
/// `additionalErrorInfo`, which is what the JavaScript SDK looks for.
pub fn write_document(error: &Error, subject: Option<Subject>, activity_id: &str) -> Vec<u8> {
    let status = status_of(error);
    let mut message = String::with_capacity(error.message().len() + 96);
    match error {
        Error::QuerySyntax(_) => message.push_str("Message: "),
        // A test of the JavaScript SDK looks for this line; what follows says more.
        Error::TooLarge(_) => {
            message.push_str("Message: {\"Errors\":[\"Request size is too large\"]}\r\n");
        }
        _ => {}
    }
    message.push_str(error.message());
    if *error == Error::CrossPartitionDisabled {
        message.push_str(
            " Please set x-ms-documentdb-query-enablecrosspartition to true, specify \
             x-ms-documentdb-partitionkey, or revise your query to avoid this exception.",
        );
    }
    message.push_str("\r\nActivityId: ");
    message.push_str(activity_id);
    if let Some(Subject { resource, operation }) = subject {
        message.push_str(&format!(", ResourceType: {resource}, OperationType: {operation}"));
    }
    message.push_str(concat!(", armilla/", env!("CARGO_PKG_VERSION")));

    let mut out = Vec::with_capacity(message.len() + 64);
    out.extend_from_slice(b"{\"code\":\"");
    out.extend_from_slice(status.code.as_bytes());
    out.extend_from_slice(b"\",\"message\":");
    json::write_string(&message, &mut out);
    if let Error::CrossPartitionQuery { plan, .. } = error {
        out.extend_from_slice(b",\"additionalErrorInfo\":");
        json::write_string(plan, &mut out);
    }
    out.push(b'}');
    out
}

/// The error document of one operation among several: it has neither a subject nor an activity of its own.
pub(crate) fn write_row_document(error: &Error) -> Vec<u8> {
    let code = status_of(error).code;
    let mut out = Vec::with_capacity(error.message().len() + 64);
    out.extend_from_slice(b"{\"code\":\"");
    out.extend_from_slice(code.as_bytes());
    out.extend_from_slice(b"\",\"message\":");
    json::write_string(error.message(), &mut out);
    out.push(b'}');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(error: &Error, status: u16, substatus: u32, code: &str) {
        let found = status_of(error);
        assert_eq!((found.status.as_u16(), found.substatus, found.code), (status, substatus, code));
    }

    #[test]
    fn situations_have_the_numbers_of_the_protocol() {
        check(&Error::bad_request("x"), 400, 0, "BadRequest");
        check(&Error::ContainerRecreated, 400, 1024, "BadRequest");
        check(&Error::ScriptSyntax(String::new()), 400, 65535, "BadRequest");
        let failed = Error::ScriptFailed { message: String::new(), number: Some(4711) };
        check(&failed, 400, 4711, "BadRequest");
        check(&Error::SessionNotAvailable, 404, 1002, "NotFound");
        check(&Error::parent_not_found(), 404, 1003, "NotFound");
        check(&Error::PartitionGone, 410, 1002, "Gone");
        check(&Error::PatchConditionFailed, 412, 1110, "PreconditionFailed");
        check(&Error::TooLarge(String::new()), 413, 0, "RequestEntityTooLarge");
        let throttled = Error::TooManyRequests { retry_after: Duration::from_millis(7) };
        check(&throttled, 429, 3200, "TooManyRequests");
        check(&Error::Internal(String::new()), 500, 0, "InternalServerError");
    }

    #[test]
    fn document_escapes_and_names_the_activity() {
        let text = write_document(&Error::bad_request("say \"x\""), None, "abc");
        let document = json::parse(&text).unwrap();
        let message = document.get("message").unwrap().as_str().unwrap();
        assert_eq!(document.get("code").unwrap().as_str(), Some("BadRequest"));
        assert!(message.starts_with("say \"x\"\r\nActivityId: abc, armilla/"));
    }

    #[test]
    fn document_says_what_was_asked_for() {
        let subject = Subject { resource: "Document", operation: "Read" };
        let text = write_document(&Error::not_found(), Some(subject), "abc");
        let document = json::parse(&text).unwrap();
        let message = document.get("message").unwrap().as_str().unwrap();
        assert!(message.starts_with("Resource Not Found."), "{message}");
        let words = "\r\nActivityId: abc, ResourceType: Document, OperationType: Read, armilla/";
        assert!(message.contains(words), "{message}");
    }

    #[test]
    fn plan_travels_as_a_string() {
        let error = Error::CrossPartitionQuery { message: "m".into(), plan: "{\"a\":1}".into() };
        let document = json::parse(&write_document(&error, None, "id")).unwrap();
        assert_eq!(document.get("additionalErrorInfo").unwrap().as_str(), Some("{\"a\":1}"));
    }
}
