//! Cosmos SQL: text to plan, and expressions over values.

pub mod access;
pub mod aggregate;
pub mod ast;
pub mod bind;
pub mod compiled;
pub mod error;
pub mod eval;
pub mod functions;
pub mod key;
pub mod lexer;
pub mod like;
pub mod limits;
pub mod parser;
pub mod plan;
pub mod print;
pub mod rank;
pub mod reference;
pub mod schema;
pub mod udf;

pub use bind::{Parameters, compile};
pub use compiled::Compiled;
pub use error::{Result, SqlError};
pub use parser::{parse, parse_condition, parse_expression};
pub use schema::Schema;
