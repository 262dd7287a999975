//! Queries through the engine: the conformance vectors, random queries against the plain evaluator,
//! pages and their continuations.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod brief;
mod charges;
mod explained;
mod explained_sums;
mod found;
mod generate;
mod integers;
mod narrowed;
mod order;
mod pages;
mod random;
mod ranked;
mod sliced;
mod spatial;
mod support;
mod threads;
mod vectors;
