//! Feed envelopes: `{"_rid":"…","Documents":[…],"_count":2}`, written around item texts.

use armilla_model::json;
use bytes::Bytes;

/// What a feed holds, which decides the name of its array. Python and JavaScript index the body by
/// that name and fail when it is missing.
#[allow(missing_docs, reason = "each kind is the name on the wire in today's vocabulary")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedKind {
    Databases,
    Containers,
    Items,
    StoredProcedures,
    Triggers,
    UserFunctions,
    Conflicts,
    Users,
    Permissions,
    Offers,
    PartitionKeyRanges,
    EncryptionKeys,
    Attachments,
    Subscriptions,
}

impl FeedKind {
    /// The name of the array.
    pub fn name(self) -> &'static str {
        match self {
            Self::Databases => "Databases",
            Self::Containers => "DocumentCollections",
            Self::Items => "Documents",
            Self::StoredProcedures => "StoredProcedures",
            Self::Triggers => "Triggers",
            Self::UserFunctions => "UserDefinedFunctions",
            Self::Conflicts => "Conflicts",
            Self::Users => "Users",
            Self::Permissions => "Permissions",
            Self::Offers => "Offers",
            Self::PartitionKeyRanges => "PartitionKeyRanges",
            Self::EncryptionKeys => "ClientEncryptionKeys",
            Self::Attachments => "Attachments",
            Self::Subscriptions => "Subscriptions",
        }
    }
}

/// An envelope in the making. Rows are JSON texts and are copied once, unread.
#[derive(Clone, Debug)]
pub struct FeedBody {
    out: Vec<u8>,
    count: usize,
}

impl FeedBody {
    /// An envelope of a feed owned by this `_rid` (empty for the account's feeds).
    pub fn new(kind: FeedKind, rid: &str) -> Self {
        Self::with_capacity(kind, rid, 0)
    }

    /// The same with room for this many bytes of rows.
    pub fn with_capacity(kind: FeedKind, rid: &str, row_bytes: usize) -> Self {
        let mut out = Vec::with_capacity(row_bytes + rid.len() + 64);
        out.extend_from_slice(b"{\"_rid\":");
        json::write_string(rid, &mut out);
        out.extend_from_slice(b",\"");
        out.extend_from_slice(kind.name().as_bytes());
        out.extend_from_slice(b"\":[");
        Self { out, count: 0 }
    }

    /// The whole envelope around rows that are at hand.
    pub fn of<Row: AsRef<[u8]>>(kind: FeedKind, rid: &str, rows: &[Row]) -> Self {
        let row_bytes = rows.iter().map(|row| row.as_ref().len() + 1).sum();
        let mut body = Self::with_capacity(kind, rid, row_bytes);
        for row in rows {
            body.push(row.as_ref());
        }
        body
    }

    /// Adds a row, a JSON text.
    pub fn push(&mut self, row: &[u8]) {
        self.push_with(|out| out.extend_from_slice(row));
    }

    /// Adds a row that is written in place.
    pub fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.count > 0 {
            self.out.push(b',');
        }
        write(&mut self.out);
        self.count += 1;
    }

    /// Rows so far.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Bytes so far.
    pub fn size(&self) -> usize {
        self.out.len()
    }

    /// The finished text and the number of rows.
    pub fn finish(mut self) -> (Bytes, usize) {
        self.out.extend_from_slice(b"],\"_count\":");
        self.out.extend_from_slice(itoa::Buffer::new().format(self.count).as_bytes());
        self.out.push(b'}');
        (Bytes::from(self.out), self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_in_the_envelope() {
        let (body, count) =
            FeedBody::of(FeedKind::Items, "uQEAAIAAAAE=", &["{\"id\":1}", "2"]).finish();
        assert_eq!(count, 2);
        assert_eq!(&body[..], br#"{"_rid":"uQEAAIAAAAE=","Documents":[{"id":1},2],"_count":2}"#);
    }

    #[test]
    fn empty_feeds_have_their_array() {
        let (body, count) = FeedBody::new(FeedKind::Conflicts, "").finish();
        assert_eq!((&body[..], count), (&br#"{"_rid":"","Conflicts":[],"_count":0}"#[..], 0));
    }
}
