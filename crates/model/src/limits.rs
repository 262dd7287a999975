//! Every maximum has a name. Values are the service's (`docs/protocol/limits.md#limits-of-the-service`).

/// Largest item, as UTF-8 JSON; larger ones are refused in `engine::items::body`.
pub const ITEM_SIZE_MAX: usize = 2 * 1024 * 1024;
/// Largest request body.
pub const REQUEST_SIZE_MAX: usize = 2 * 1024 * 1024 + 64 * 1024;
/// Most bytes of rows in one page.
pub const PAGE_SIZE_MAX: usize = 4 * 1024 * 1024;
/// Longest item id in bytes.
pub const ITEM_ID_LENGTH_MAX: usize = 1023;
/// Longest name of a database, container, script, user or permission, in characters.
pub const NAME_LENGTH_MAX: usize = 255;
/// Deepest nesting of a document.
pub const NESTING_MAX: usize = 128;
/// Longest partition key value in bytes.
pub const PARTITION_KEY_LENGTH_MAX: usize = 2048;
/// Most levels of a hierarchical partition key.
pub const PARTITION_KEY_LEVELS_MAX: usize = 3;
/// Most operations in one transactional batch.
pub const BATCH_OPERATIONS_MAX: usize = 100;
/// Most operations in one patch.
pub const PATCH_OPERATIONS_MAX: usize = 10;
/// Most unique keys of a container, and paths in one.
pub const UNIQUE_KEYS_MAX: usize = 10;
/// Most paths in one unique key.
pub const UNIQUE_KEY_PATHS_MAX: usize = 16;
/// Most properties in one composite index.
pub const COMPOSITE_PATHS_MAX: usize = 8;
/// Most composite indexes of a container.
pub const COMPOSITE_INDEXES_MAX: usize = 100;
/// Most explicit included (or excluded) paths.
pub const INDEX_PATHS_MAX: usize = 1500;
/// Spatial indexes of a new policy.
pub const SPATIAL_INDEXES_MAX: usize = 100;
/// Paths with vectors, and indexes over them. The service names no figure.
pub const VECTOR_PATHS_MAX: usize = 100;
/// Paths with texts for full-text search, and indexes over them. The service names no figure.
pub const FULL_TEXT_PATHS_MAX: usize = 100;
/// Most computed properties of a container.
pub const COMPUTED_PROPERTIES_MAX: usize = 20;
/// Strings longer than this many bytes are indexed by a prefix.
pub const INDEXED_STRING_MAX: usize = 64;
/// Query text in bytes.
pub const QUERY_LENGTH_MAX: usize = 512 * 1024;
/// Rows of a feed page when the client leaves the choice to the server.
pub const FEED_PAGE_DEFAULT: usize = 100;
/// Rows of a query page when the client leaves the choice to the server.
pub const QUERY_PAGE_DEFAULT: usize = 1000;
/// Client encryption keys of a database.
pub const ENCRYPTION_KEYS_MAX: usize = 20;
/// Longest wrapped data encryption key, in characters of base64.
pub const WRAPPED_KEY_LENGTH_MAX: usize = 4096;
/// Stored procedures of a container.
pub const PROCEDURES_MAX: usize = 100;
/// User functions of a container.
pub const FUNCTIONS_MAX: usize = 50;
/// Triggers of a container.
pub const TRIGGERS_MAX: usize = 25;

// What must hold between them.
const _: () = assert!(ITEM_SIZE_MAX < REQUEST_SIZE_MAX);
const _: () = assert!(ITEM_SIZE_MAX <= PAGE_SIZE_MAX, "a page has room for any item");
const _: () = assert!(ITEM_ID_LENGTH_MAX < ITEM_SIZE_MAX);
const _: () =
    assert!(QUERY_LENGTH_MAX < REQUEST_SIZE_MAX, "a query of any length fits into a request");
const _: () = assert!(FEED_PAGE_DEFAULT <= QUERY_PAGE_DEFAULT);
const _: () = assert!(INDEXED_STRING_MAX < PARTITION_KEY_LENGTH_MAX);
