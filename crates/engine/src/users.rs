//! Users and permissions of a database.

use armilla_model::error::{Error, Result};
use armilla_model::etag::ETag;
use armilla_model::partition_key::PartitionKey;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A user.
#[derive(Clone, Debug)]
pub struct User {
    /// Number inside the account.
    pub number: u32,
    /// Name.
    pub name: Arc<str>,
    /// Version.
    pub etag: ETag,
    /// Second of the last change.
    pub ts: u64,
    /// Permissions by name.
    pub permissions: BTreeMap<Arc<str>, Arc<Permission>>,
}

/// What a user may do with one resource.
#[derive(Clone, Debug)]
pub struct Permission {
    /// Number inside the account.
    pub number: u32,
    /// Name.
    pub name: Arc<str>,
    /// Read only, or everything.
    pub mode: Mode,
    /// The mode as its owner spelled it; kept for those who show the permission.
    pub spelling: Arc<str>,
    /// The resource as the permission names it.
    pub resource: Arc<str>,
    /// The one logical partition it is limited to.
    pub partition_key: Option<PartitionKey>,
    /// Version.
    pub etag: ETag,
    /// Second of the last change.
    pub ts: u64,
}

/// How much a permission allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Reading.
    Read,
    /// Everything.
    All,
}

impl Mode {
    /// Reads a mode by its name, in any case.
    pub fn parse(text: &str) -> Result<Self> {
        match text.to_ascii_lowercase().as_str() {
            "read" => Ok(Self::Read),
            "all" => Ok(Self::All),
            _ => Err(Error::bad_request(format!(
                "The permission mode '{text}' is not one of Read, All."
            ))),
        }
    }

    /// Its name.
    pub fn text(self) -> &'static str {
        match self {
            Self::Read => "Read",
            Self::All => "All",
        }
    }
}
