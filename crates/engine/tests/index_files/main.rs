//! Indexes on disk: what a start takes up, what a crash leaves, and what damage does.

mod bench;
mod history;
mod starts;
