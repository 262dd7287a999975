//! Client encryption keys: data keys of a database that clients have wrapped with keys of their own. The server
//! keeps them and can open none of them.

use armilla_model::etag::ETag;
use armilla_model::value::Object;
use std::sync::Arc;

/// A wrapped data encryption key.
#[derive(Clone, Debug)]
pub struct EncryptionKey {
    /// Number inside the account.
    pub number: u32,
    /// Name.
    pub name: Arc<str>,
    /// Version.
    pub etag: ETag,
    /// Second of the last change.
    pub ts: u64,
    /// Second in which it was made.
    pub created: u64,
    /// What the client sent, without the name and what servers add.
    pub definition: Object,
}

/// What a client asks for.
pub struct NewEncryptionKey {
    /// Its name.
    pub name: String,
    /// Everything else.
    pub definition: Object,
}
