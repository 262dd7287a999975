//! Request units and throughput, asked of a whole server: what headers say.

#![allow(clippy::unwrap_used, reason = "this whole target is a test")]

mod article;
mod blog;
mod scan;
mod shares;
#[path = "../catalog/support.rs"]
#[allow(dead_code, reason = "shared with the tests of the catalog")]
mod support;
mod throttle;
mod vectors;
