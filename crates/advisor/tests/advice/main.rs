//! Advice on small workloads that are made for one finding each: it is given where it should be, and not where it should not.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;
mod bounds;
mod rules;
mod runs;
mod watch;
