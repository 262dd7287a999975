//! Splits, merges and the change feed: random histories against a plain model, and many threads.
//!
//! One seed reproduces one history: `ARMILLA_FEED_SEED=… ARMILLA_FEED_STEPS=… cargo test -p
//! armilla-engine --test partitions`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]
#![allow(clippy::print_stdout, reason = "a failing test must tell its seed")]

mod clock;
mod feed;
mod limits;
mod ordinals;
mod readers;
#[path = "../support/mod.rs"]
mod support;
mod threads;
