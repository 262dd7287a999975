//! Cosmos SQL: text to plan, and expressions over values.
//!
//! A query goes through these rooms, each plain data or pure functions; nothing here does I/O, asks
//! for the time, or panics on any text:
//!
//! ```text
//!  text ── parser ──> ast ── bind ──> compiled ──┬── eval       rows, projections, aggregates
//!                      │                         ├── access     what an index can do for it
//!                      │                         └── reference  the whole query, in memory
//!                      └── plan ──> what a client needs to run it over several ranges
//! ```
//!
//! - [`parse`] reads a text; the tree depends on nothing else and can be cached by text.
//! - [`compile`] resolves names and parameters against a container's [`Schema`].
//! - [`eval::visit_rows`] expands one item to the rows that pass FROM, JOIN and WHERE, and hands out
//!   a frame per row; [`eval::project`], [`eval::order_keys`] and [`eval::add_row`] take it from
//!   there. [`aggregate::Groups`] of several partitions can be merged, then finished with
//!   [`eval::finished_slots`] and [`eval::project_group`]; [`aggregate::Distinct`] remembers rows.
//! - [`reference::run`] does all of it over a sequence of documents, slowly and obviously.
//! - [`access::analyse`] turns the condition into tests on paths, [`access::partition_keys`] into the
//!   logical partitions it can find anything in.
//! - [`plan::partitioned_plan`] answers the query-plan request of clients that merge themselves.
//! - Errors are [`SqlError`]s: [`SqlError::to_json`] is the document clients read.
//!
//! ```
//! use armilla_model::{Value, json};
//! use armilla_sql::{Schema, parse, reference};
//!
//! let documents = [r#"{"id":"1","likes":3}"#, r#"{"id":"2","likes":12}"#, r#"{"id":"3"}"#];
//! let documents = documents.iter().map(|text| json::parse(text.as_bytes()).unwrap());
//!
//! let query = parse("SELECT VALUE c.id FROM c WHERE c.likes > @n ORDER BY c.id").unwrap();
//! let parameters = [("@n".into(), Value::from(2))];
//! let schema = Schema::none();
//! let rows = reference::run(&query, &parameters, documents, reference::Options::new(&schema));
//! assert_eq!(rows.unwrap(), [Value::from("1"), Value::from("2")]);
//!
//! let error = parse("SELECT * FORM c").unwrap_err();
//! assert!(error.to_json().contains("incorrect syntax near 'FORM'"));
//! ```

pub mod access;
pub mod advice;
pub mod aggregate;
pub mod ast;
pub mod bind;
pub mod compiled;
pub mod effort;
pub mod error;
pub mod eval;
pub mod functions;
pub mod key;
pub mod lexer;
pub mod like;
pub mod limits;
pub mod parser;
pub mod plan;
mod possible;
mod precedence;
pub mod print;
pub mod rank;
pub mod reference;
pub mod regex;
pub mod schema;
pub mod stable;
pub mod udf;
pub mod weight;

pub use bind::{Parameters, check_parameters, compile};
pub use compiled::Compiled;
pub use error::{Result, SqlError};
pub use parser::{parse, parse_condition, parse_expression};
pub use schema::Schema;
