//! Every maximum of the language has a name. Text length and the like are in the model's limits.

pub use armilla_model::limits::QUERY_LENGTH_MAX;

/// Deepest nesting the parser follows: constructors, calls, operands of operators. Parentheses that
/// open one after the other do not count.
pub const EXPRESSION_NESTING_MAX: usize = 128;
/// Tallest expression tree. Chains such as `a + b + c` grow a tree without nesting the text.
pub const EXPRESSION_HEIGHT_MAX: usize = 200;
/// What a sub-query adds to the height of the expression around it: it costs more stack.
pub const SUBQUERY_HEIGHT: usize = 8;
/// Most JOINs in one query.
pub const JOINS_MAX: usize = 10;
/// Most calls of user functions in one query.
pub const USER_FUNCTION_CALLS_MAX: usize = 10;
/// Largest TOP.
pub const TOP_MAX: u64 = i32::MAX as u64;
/// Largest OFFSET, and largest LIMIT behind one.
pub const PLANNED_LIMIT_MAX: u64 = u32::MAX as u64;
/// Largest LIMIT of a page that skips nothing: clients that merge add up what they skip and take.
pub const LIMIT_MAX: u64 = i64::MAX as u64;
/// Most aggregates in a GROUP BY that a client merges over several ranges.
pub const GROUP_AGGREGATES_MAX: usize = 21;
/// Most expressions of a GROUP BY.
pub const GROUP_KEYS_MAX: usize = 500;
/// Most different aggregates of a query.
pub const AGGREGATES_MAX: usize = 500;
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
/// Steps that one call of a function, or one LIKE, may take: a step is a state of a pattern at a
/// character, or an element compared. They are about a fifth of a second.
pub const CALL_STEPS_MAX: u64 = 20_000_000;
/// Steps that everything together may take where no query is asked whether to stop: the condition of a
/// patch, the filter of a view or subscription, a list of the catalog. About a quarter of a second.
pub const ITEM_STEPS_MAX: u64 = 20_000_000;
/// Steps that a row of FROM or JOIN counts for there.
pub const STEPS_OF_A_FRAME: u64 = 8;
/// Steps that folding a constant expression may take: it is done before anybody has looked at the query.
pub const FOLD_STEPS_MAX: u64 = 100_000;
/// Steps between two questions whether a query should stop: about a millisecond.
pub const STEPS_BETWEEN_LOOKS: u64 = 100_000;
/// Steps for which a predicate is tried on the values of indexes before the items are read instead.
pub const TRIED_STEPS_MAX: u64 = 100_000_000;
/// Longest regular expression in bytes.
pub const PATTERN_LENGTH_MAX: usize = 16 * 1024;
/// Largest compiled regular expression in bytes.
pub const PATTERN_SIZE_MAX: usize = 1024 * 1024;
/// Largest cache of a regular expression's matcher in bytes.
pub const PATTERN_MATCHER_SIZE_MAX: usize = 512 * 1024;
/// Deepest nesting of groups in a regular expression.
pub const PATTERN_NESTING_MAX: u32 = 100;
/// Compiled regular expressions kept.
pub const PATTERNS_CACHED_MAX: usize = 128;

// What must hold between them.
const _: () = assert!(EXPRESSION_NESTING_MAX < EXPRESSION_HEIGHT_MAX);
const _: () = assert!(TOP_MAX <= PLANNED_LIMIT_MAX && PLANNED_LIMIT_MAX <= LIMIT_MAX);
const _: () = assert!(GROUP_AGGREGATES_MAX <= AGGREGATES_MAX);
const _: () = assert!(COMPUTED_VALUE_MAX < MADE_FOR_ITEM_MAX);
const _: () = assert!(FOLD_STEPS_MAX < CALL_STEPS_MAX && CALL_STEPS_MAX < TRIED_STEPS_MAX);
const _: () = assert!(STEPS_BETWEEN_LOOKS < CALL_STEPS_MAX);
const _: () = assert!(PATTERN_LENGTH_MAX < PATTERN_SIZE_MAX);
const _: () = assert!(PATTERN_MATCHER_SIZE_MAX <= PATTERN_SIZE_MAX);
