//! What Cosmos DB says: the HTTP protocol that the official SDKs speak.
//!
//! A request walks straight through: [`serve`] owns sockets and connections, [`handle`] takes one
//! HTTP request apart, [`headers`] turns header text into typed values, [`auth`] decides who is asking,
//! [`routes`] turns path and method into an [`Operation`](routes::Operation), a
//! [`Service`](service::Service) does the work, and [`reply`] gathers the facts of the answer, which HTTP
//! writes as the headers that SDKs rely on. [`request`] is the part of the walk that knows no wire.
//! [`error`] holds the one table that gives each error its status and substatus.
//!
//! This crate is the only one that knows HTTP, header names and `colls/docs/sprocs` paths. The
//! time of day and activity ids are handed in through [`Gateway`]; how long a request took is measured
//! with the system's monotonic clock.

pub mod account_document;
pub mod activity;
pub mod advice;
pub mod auth;
pub mod certificates;
pub mod cluster;
pub mod cors;
pub mod direct;
pub mod error;
pub mod explorer;
pub mod handle;
pub mod headers;
mod hot_keys;
pub mod limits;
pub mod locality;
pub mod metrics;
pub mod observed;
pub mod ops;
pub mod reply;
pub mod request;
mod request_log;
pub mod routes;
pub mod serve;
pub mod service;
pub mod webhooks;
pub mod wire;
mod word_hash;

pub use handle::{Gateway, Settings};
pub use headers::RequestContext;
pub use reply::Reply;
pub use request::Request;
pub use routes::Operation;
pub use serve::Server;
pub use service::{Call, Service};
