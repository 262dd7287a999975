//! Every bound of the crate, by name.

use std::time::Duration;

/// What a script may use. [`Limits::default`] is `docs/protocol/scripts.md#limits`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Wall clock of one call; the script is stopped when it has passed.
    pub time: Duration,
    /// How long past its time a call may be inside a built-in function before its thread is given up.
    pub late_max: Duration,
    /// After this long the collection methods refuse further operations.
    pub accept_time: Duration,
    /// Memory of one call, in bytes.
    pub memory_bytes_max: usize,
    /// Stack of one call, in bytes.
    pub stack_bytes_max: usize,
    /// Largest response body, in bytes of JSON text.
    pub response_bytes_max: usize,
    /// Largest log of one call, in bytes.
    pub log_bytes_max: usize,
    /// Largest source text of a script, in bytes.
    pub body_bytes_max: usize,
    /// Operations accepted per call; a dial for tests, `None` in real life.
    pub accept_operations_max: Option<u64>,
    /// Calls, of a hundred, that end with a write conflict; a dial for tests, 0 in real life.
    pub conflict_percent: u8,
    /// Stops (for time or memory) of one script body before it is blocked.
    pub stops_before_block: u32,
    /// Runtimes kept when no call uses them.
    pub idle_runtimes_max: usize,
    /// Make a runtime and a context for every call, with the system's allocator, instead of putting the
    /// memory image of one back: slower, for comparison and for tools that watch memory.
    pub fresh_contexts: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(5),
            late_max: Duration::from_secs(2),
            accept_time: Duration::from_secs(4),
            memory_bytes_max: 64 << 20,
            stack_bytes_max: 512 << 10,
            response_bytes_max: 4 << 20,
            log_bytes_max: 64 << 10,
            body_bytes_max: 2 << 20,
            accept_operations_max: None,
            conflict_percent: 0,
            stops_before_block: 5,
            idle_runtimes_max: 16,
            fresh_contexts: false,
        }
    }
}

/// Items a script gets in one page, whatever page size it asks for.
pub(crate) const PAGE_ITEMS_MAX: usize = 1000;
