//! Indexes on disk: what a start takes up, what a crash leaves, and what damage does.

#![allow(clippy::unwrap_used, reason = "tests may unwrap")]

mod bench;
mod history;
mod paths;
mod starts;
#[path = "../support/mod.rs"]
mod support;
