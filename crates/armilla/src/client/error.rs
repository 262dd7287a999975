//! What can go wrong between a command and a server, in the words a user is shown.

use super::Answer;
use serde_json::Value;
use std::fmt;

/// What came of a request.
pub(crate) type Outcome<T> = Result<T, ClientError>;

/// Why a request was not done.
#[derive(Debug)]
pub(crate) enum ClientError {
    /// What was asked for cannot be sent at all.
    Unusable(String),
    /// No whole answer came back; whether the request was done is not known.
    Unreachable {
        /// The server.
        base: String,
        /// What the transport said.
        why: String,
    },
    /// The server said no.
    Refused {
        /// HTTP status.
        status: u16,
        /// The protocol's finer status, 0 when there is none.
        substatus: u32,
        /// The server's words.
        message: String,
    },
    /// The answer is not what the protocol says.
    Unreadable(String),
}

impl ClientError {
    /// The error that an answer tells of.
    pub(super) fn refused(answer: &Answer) -> Self {
        let body: Option<Value> = serde_json::from_slice(&answer.body).ok();
        let message = body.as_ref().and_then(|body| body["message"].as_str()).map(str::to_owned);
        let substatus = answer.header("x-ms-substatus").and_then(|text| text.parse().ok());
        Self::Refused {
            status: answer.status,
            substatus: substatus.unwrap_or(0),
            message: message
                .unwrap_or_else(|| String::from_utf8_lossy(&answer.body).trim().to_owned()),
        }
    }

    /// The error of a body that does not parse.
    pub(crate) fn unreadable(error: serde_json::Error) -> Self {
        Self::Unreadable(format!("the server's answer cannot be read: {error}"))
    }

    /// The status, when the server gave one.
    pub(crate) fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unusable(why) | Self::Unreadable(why) => f.write_str(why),
            Self::Unreachable { base, why } => write!(f, "{base} does not answer: {why}"),
            Self::Refused { status, substatus: 0, message, .. } => write!(f, "{status}: {message}"),
            Self::Refused { status, substatus, message, .. } => {
                write!(f, "{status}/{substatus}: {message}")
            }
        }
    }
}

impl std::error::Error for ClientError {}

/// Commands end with the sentence that is printed.
impl From<ClientError> for String {
    fn from(error: ClientError) -> Self {
        error.to_string()
    }
}
