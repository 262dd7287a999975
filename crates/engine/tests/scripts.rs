//! Scripts run by the engine itself: the shared cases of the contract, transactions, counters under
//! many threads, and what they may not do to the server.

#![allow(clippy::unwrap_used, reason = "tests may unwrap")]
#![allow(clippy::result_large_err, reason = "an answer is an answer, good or bad")]

#[path = "scripts/bench.rs"]
mod bench;
#[path = "scripts/cases.rs"]
mod cases;
#[path = "scripts/counters.rs"]
mod counters;
#[path = "scripts/limits.rs"]
mod limits;
#[path = "scripts/transactions.rs"]
mod transactions;
