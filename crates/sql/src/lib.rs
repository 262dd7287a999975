//! Cosmos SQL: text to plan, and expressions over values.

pub mod functions;
