//! The nouns of the database: values, names, policies, limits and errors.
//!
//! Everything here is plain data. Nothing in this crate opens a file, asks for the time, or knows
//! HTTP; the rooms above (`storage`, `sql`, `engine`, `gateway`) meet in these types.

pub mod binary_json;
pub mod charge;
pub mod clock;
pub mod error;
pub mod etag;
pub mod json;
pub mod limits;
pub mod lsn;
pub mod number;
pub mod ordered;
pub mod partition_key;
pub mod path;
pub mod policy;
pub mod rid;
pub mod session_token;
pub mod tally;
pub mod ttl;
pub mod value;

pub use error::{Error, Result};
pub use number::Number;
pub use value::{Object, Value};
