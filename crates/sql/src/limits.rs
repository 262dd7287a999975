//! Every maximum of the language has a name. Text length and the like are in the model's limits.

pub use armilla_model::limits::QUERY_LENGTH_MAX;

/// Deepest nesting the parser follows: constructors, calls, operands of operators. Parentheses that
/// open one after the other do not count.
pub const EXPRESSION_NESTING_MAX: usize = 128;
/// Tallest expression tree. Chains such as `a + b + c` grow a tree without nesting the text.
pub const EXPRESSION_HEIGHT_MAX: usize = 200;
/// What a sub-query adds to the height of the expression around it: it costs more stack.
pub const SUBQUERY_HEIGHT: usize = 16;
/// Most JOINs in one query.
pub const JOINS_MAX: usize = 10;
/// Most calls of user functions in one query.
pub const USER_FUNCTION_CALLS_MAX: usize = 10;
/// Largest TOP, OFFSET or LIMIT.
pub const COUNT_MAX: u64 = i32::MAX as u64;
/// Most aggregates in a GROUP BY that a client merges over several ranges.
pub const GROUP_AGGREGATES_MAX: usize = 21;
/// Most compile errors reported at once.
pub const ERRORS_REPORTED_MAX: usize = 20;
/// Most ranges of partition keys a plan lists before it gives up and names the whole key space.
pub const PARTITION_KEYS_PINNED_MAX: usize = 2000;
/// Rows a sub-query may hold at once.
pub const SUBQUERY_ROWS_MAX: usize = 1_000_000;
/// Bytes of strings and arrays that functions may make while one item is evaluated.
pub const MADE_FOR_ITEM_MAX: usize = 256 * 1024 * 1024;
/// Largest computed value that may be used again, in bytes of its JSON text, roughly.
pub const COMPUTED_VALUE_MAX: usize = 16 * 1024 * 1024;
/// References in one constructor or call from which on the size of its value is checked.
pub const REFERENCES_UNGUARDED_MAX: usize = 64;
