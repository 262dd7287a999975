//! Direct mode over real TLS sockets: an engine in memory behind the whole gateway, and a client of our own,
//! written from captured frames, that plays the sequences of the .NET and Java SDKs.

mod answers;
pub(crate) mod client;
mod doors;
mod resumed;
mod rntbd;
mod sequences;
mod splits;
mod vectors;
