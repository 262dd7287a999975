//! Queries through the engine: the conformance vectors, random queries against the plain evaluator,
//! pages and their continuations.

mod generate;
mod pages;
mod random;
mod support;
mod vectors;
