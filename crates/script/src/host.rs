//! What a transaction offers to a script.
//!
//! JSON text crosses this boundary in both directions. All operations belong to one logical
//! partition; the host makes items of other partitions invisible and refuses to write them.

/// The operations behind the collection methods, fulfilled one at a time in the order queued.
///
/// An error of one operation is handed to the script, which may go on: the host must leave the
/// transaction usable, with nothing of the failed operation in it.
pub trait Host {
    /// How scripts name the container they run in.
    fn collection(&self) -> CollectionLinks;

    /// Size of the container as scripts may ask for it.
    fn collection_size(&self) -> CollectionSize {
        CollectionSize::default()
    }

    /// Reads one item, own writes included.
    fn read_item(
        &mut self,
        link: &ItemLink,
        if_none_match: Option<&str>,
    ) -> Result<ReadOutcome, HostError>;

    /// One page of the partition's items, own writes included.
    fn read_items(
        &mut self,
        page_size: usize,
        continuation: Option<&str>,
    ) -> Result<Page, HostError>;

    /// One page of a query. `query_json` is `{"query": text, "parameters": [{name, value}]}`;
    /// `parameters` may be missing.
    fn query_items(
        &mut self,
        query_json: &str,
        page_size: usize,
        continuation: Option<&str>,
    ) -> Result<Page, HostError>;

    /// Creates an item and returns it as stored.
    fn create_item(
        &mut self,
        body: &str,
        index_directive: Option<IndexDirective>,
    ) -> Result<String, HostError>;

    /// Creates or replaces an item and returns it as stored. The etag guards a replace.
    fn upsert_item(
        &mut self,
        body: &str,
        etag: Option<&str>,
        index_directive: Option<IndexDirective>,
    ) -> Result<Upserted, HostError>;

    /// Replaces an item, whose id may change, and returns it as stored.
    fn replace_item(
        &mut self,
        link: &ItemLink,
        body: &str,
        etag: Option<&str>,
        index_directive: Option<IndexDirective>,
    ) -> Result<String, HostError>;

    /// Deletes an item.
    fn delete_item(&mut self, link: &ItemLink, etag: Option<&str>) -> Result<(), HostError>;

    /// Whether the throughput budget allows another operation. Asked before the script starts and
    /// after every operation; once it says no, the collection methods return `false`.
    fn accepts(&mut self) -> bool {
        true
    }

    /// A fresh id for an item that came without one.
    fn new_guid(&mut self) -> String;
}

/// The two links of a container, without the item part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectionLinks {
    /// `dbs/<rid>/colls/<rid>/`.
    pub self_link: String,
    /// `dbs/<name>/colls/<name>`.
    pub alt_link: String,
}

/// Size of the container, in megabytes, and how large it may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CollectionSize {
    /// Current size.
    pub megabytes: u64,
    /// Upper bound; 0 when there is none.
    pub megabytes_max: u64,
}

/// How a script named an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ItemLink {
    /// By its id.
    ByName(String),
    /// By its resource id, as in `_self`.
    ByRid(String),
}

/// What a read found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadOutcome {
    /// The item as JSON text.
    Found(String),
    /// The script has this version already.
    NotModified,
}

/// What an upsert did; the item as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Upserted {
    /// There was no such item.
    Created(String),
    /// There was one.
    Replaced(String),
}

/// One page of items or rows, each as JSON text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// The rows.
    pub rows: Vec<String>,
    /// Where the next page begins, if there is one.
    pub continuation: Option<String>,
}

/// Whether a written item is to be indexed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexDirective {
    /// As the policy of the container says.
    Default,
    /// Yes.
    Include,
    /// No.
    Exclude,
}

/// Why an operation failed, as the script sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostError {
    /// What went wrong.
    pub kind: HostErrorKind,
    /// One sentence, such as `Resource Not Found`.
    pub message: String,
}

/// What went wrong with an operation. Scripts see it as the `number` of the error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostErrorKind {
    /// What was asked for makes no sense.
    Invalid,
    /// It is not allowed here.
    Forbidden,
    /// The item is not there.
    NotFound,
    /// An item of that id or unique key is there already.
    Conflict,
    /// The item has changed.
    PreconditionFailed,
    /// The item is too large.
    TooLarge,
    /// Not the script's fault.
    Internal,
}

impl HostError {
    /// An error of a kind, with its sentence.
    pub fn new(kind: HostErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}
