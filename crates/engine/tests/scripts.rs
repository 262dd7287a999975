//! Scripts run by the engine itself: the shared cases of
//! `docs/protocol/scripts.md#order-of-events`, transactions, counters under
//! many threads, and what they may not do to the server.

#![allow(clippy::unwrap_used, reason = "tests may unwrap")]
#![allow(clippy::result_large_err, reason = "an answer is an answer, good or bad")]

#[path = "scripts/bench.rs"]
mod bench;
#[path = "scripts/cases.rs"]
mod cases;
#[path = "scripts/counters.rs"]
mod counters;
#[path = "scripts/here.rs"]
mod here;
#[path = "scripts/limits.rs"]
mod limits;
#[path = "support/mod.rs"]
mod support;
#[path = "scripts/transactions.rs"]
mod transactions;
