//! Scripts run by the engine itself: the shared cases of the contract, transactions, counters under
//! many threads.

#![allow(clippy::unwrap_used, reason = "tests may unwrap")]

#[path = "scripts/bench.rs"]
mod bench;
#[path = "scripts/cases.rs"]
mod cases;
#[path = "scripts/counters.rs"]
mod counters;
#[path = "scripts/transactions.rs"]
mod transactions;
