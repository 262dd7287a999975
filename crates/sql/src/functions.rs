//! The built-in functions of the query language, one file per family.
//!
//! Every function is a row of one table ([`Function`]): its names, how many arguments it takes, what
//! its result is and depends on, a line of documentation, and plain code from values to a value. The
//! rows stand beside the code. A wrong type is never an error; the answer is then `undefined`. Each
//! function is bounded in time and in the size of what it returns by a limit with a name.
//!
//! Without code here, because they need more than values: aggregates, `DOCUMENTID` and the ranking
//! functions ([`SPECIAL`]), user functions, and `LIKE`.

pub mod array;
mod beyond;
mod case;
pub mod conditional;
pub mod convert;
pub mod date_time;
pub mod full_text;
mod function;
pub mod integer;
pub mod math;
mod position;
mod regular;
pub mod set;
pub mod spatial;
pub mod string;
pub mod types;
mod utf16;
pub mod vector;

#[cfg(test)]
mod tests;

use crate::effort::Effort;
use armilla_model::{Number, Value};
use std::collections::HashMap;
use std::sync::LazyLock;

pub use beyond::{SPECIAL, Special, is_refused, special};
pub use function::{Call, Function, Kind, Volatility};
pub use vector::{DistanceFunction, VectorSetting};

/// Longest string a function returns, in bytes; a longer one is undefined. It is the size of a page.
pub const STRING_RESULT_MAX: usize = armilla_model::limits::PAGE_SIZE_MAX;
/// Longest array a function returns, in elements; a longer one is undefined.
pub const ARRAY_RESULT_MAX: usize = 1 << 20;
/// The edition of the functions. It goes up whenever a function answers other than before for some
/// arguments: what was computed with another edition and kept, such as index terms of computed
/// properties, is then made anew.
pub const EDITION: u32 = 2;
/// Longest name of a function; a longer name is unknown.
const NAME_LENGTH_MAX: usize = 32;

/// What functions may know beside their arguments.
pub struct Context<'a> {
    /// The time now, in 100 ns since 1970; asked for anew by every call.
    pub now_ticks: &'a dyn Fn() -> i64,
    /// The time of the query, in 100 ns since 1970: one value per partition and query.
    pub now_static_ticks: i64,
    /// A new number in [0, 1).
    pub random: &'a mut dyn FnMut() -> f64,
    /// True for containers of planar geometry; otherwise shapes lie on the WGS-84 ellipsoid.
    pub geometry: bool,
    /// The container's vector policy.
    pub vectors: &'a [VectorSetting],
    /// What a call may cost. Functions whose work grows faster than their arguments count it here, and
    /// end with any value once they are told to stop.
    pub effort: Effort<'a>,
}

/// Finds a function by one of its names in any letter case.
pub fn lookup(name: &str) -> Option<&'static Function> {
    let mut upper = [0; NAME_LENGTH_MAX];
    let upper = upper.get_mut(..name.len())?;
    upper.copy_from_slice(name.as_bytes());
    upper.make_ascii_uppercase();
    TABLE.get(&*upper).copied()
}

/// All functions, family by family.
pub fn all() -> impl Iterator<Item = &'static Function> {
    FAMILIES.iter().copied().flatten()
}

static FAMILIES: [&[Function]; 14] = [
    math::FUNCTIONS,
    integer::FUNCTIONS,
    types::FUNCTIONS,
    string::FUNCTIONS,
    position::FUNCTIONS,
    regular::FUNCTIONS,
    convert::FUNCTIONS,
    array::FUNCTIONS,
    set::FUNCTIONS,
    conditional::FUNCTIONS,
    date_time::FUNCTIONS,
    spatial::FUNCTIONS,
    vector::FUNCTIONS,
    full_text::FUNCTIONS,
];

static TABLE: LazyLock<HashMap<&'static [u8], &'static Function>> = LazyLock::new(|| {
    let names = |function: &'static Function| {
        std::iter::once(&function.name).chain(function.aliases).map(|name| name.as_bytes())
    };
    all().flat_map(|function| names(function).map(move |name| (name, function))).collect()
});

// Functions are written with `?` over what does not fit; nothing found is undefined.
fn defined<T: Into<Value>>(result: Option<T>) -> Value {
    result.map_or(Value::Undefined, Into::into)
}

fn text(arguments: &[Value], at: usize) -> Option<&str> {
    arguments.get(at)?.as_str()
}

fn elements(arguments: &[Value], at: usize) -> Option<&[Value]> {
    arguments.get(at)?.as_array()
}

// A whole number of 64 bits, for counts and positions in strings. Wider than `Value::as_i64`, which
// takes no doubles beyond 2^53.
fn integer(value: &Value) -> Option<i64> {
    match value.as_number()? {
        Number::Int(int) => Some(int),
        Number::Float(float) => {
            let fits = float.fract() == 0.0 && (-(2f64.powi(63))..2f64.powi(63)).contains(&float);
            fits.then_some(float as i64)
        }
    }
}

// An optional argument: absent gives the default, present but of another type gives nothing.
fn optional<'v, T>(
    arguments: &'v [Value],
    at: usize,
    default: T,
    read: impl FnOnce(&'v Value) -> Option<T>,
) -> Option<T> {
    arguments.get(at).map_or(Some(default), read)
}

// OR and AND over answers of which some are unknown.
fn any_of(answers: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let mut unknown = false;
    for answer in answers {
        match answer {
            Some(true) => return Some(true),
            Some(false) => {}
            None => unknown = true,
        }
    }
    (!unknown).then_some(false)
}

fn all_of(answers: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    any_of(answers.map(|answer| answer.map(|yes| !yes))).map(|no| !no)
}
