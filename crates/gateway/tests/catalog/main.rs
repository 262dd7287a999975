//! The catalog over real sockets: an engine in memory behind the whole gateway, signatures and
//! resource tokens included.

#![allow(clippy::unwrap_used, reason = "this whole target is a test")]

mod asked;
mod authorisation;
mod binary_batches;
mod bounds;
mod bulk;
mod clients;
mod containers;
mod databases;
mod direct;
mod encryption;
mod execution;
mod explained;
mod explorer;
mod lease;
mod offers;
mod official;
mod once;
mod partitions;
mod pressure;
mod queries;
mod rows;
mod scripts;
mod sign_in;
mod spoken;
mod subscriptions;
#[allow(dead_code, reason = "shared with the tests of request units")]
mod support;
mod tokens;
mod users;
mod views;
mod words;
