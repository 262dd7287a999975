//! The gateway over real sockets on loopback, with a stub in place of the engine.

#![allow(clippy::unwrap_used, reason = "this whole target is a test")]

mod cluster;
mod http1;
mod misbehaving;
mod protocols;
mod shutdown;
mod slices;
mod support;
