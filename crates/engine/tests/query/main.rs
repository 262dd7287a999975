//! Queries through the engine: the conformance vectors, random queries against the plain evaluator,
//! pages and their continuations.

mod pages;
mod support;
mod vectors;
