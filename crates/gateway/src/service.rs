//! The seam between protocol and work: what the gateway asks of whoever serves operations.

use crate::auth::{Principal, Standing};
use crate::headers::RequestContext;
use crate::reply::Reply;
use crate::routes::{ContainerPath, Operation};
use armilla_model::lsn::Lsn;
use armilla_model::partition_key::PartitionKey;
use armilla_model::{Error, Result};
use bytes::Bytes;
use std::future::{Future, ready};

/// One request, authenticated and typed. Everything but the body borrows from the request.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    /// What is asked for.
    pub operation: Operation<'a>,
    /// What the headers say. Borrowed, for it is large, and calls are moved on their way.
    pub context: &'a RequestContext<'a>,
    /// Who asks. The gateway has already refused what the credentials do not allow.
    pub principal: &'a Principal,
    /// The body, whole; empty when there is none.
    pub body: Bytes,
}

/// A range of a container, as a client in Direct mode addresses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeAddress<'a> {
    /// The container's `_rid`, without the padding of base64.
    pub container_rid: &'a str,
    /// The range's id.
    pub range: u32,
    /// The same as text.
    pub range_text: &'a str,
    /// The container by the names of the request, where it has them.
    pub named: Option<ContainerPath<'a>>,
}

/// How a range stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeState {
    /// It is served here, and its log is so far.
    Serving(Lsn),
    /// It was split or merged away.
    Moved,
    /// Another node serves it.
    Elsewhere,
    /// The container is gone, or the name belongs to another one.
    NoContainer,
}

/// How much of a partition key, or of a prefix of keys, lies in a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyShare {
    /// All of it.
    Whole,
    /// Nothing.
    Outside,
    /// What lies between two effective keys.
    Part {
        /// The first of them.
        start: Vec<u8>,
        /// The first behind them, if any.
        end: Option<Vec<u8>>,
    },
}

/// What is counted of connections in Direct mode; requests are counted like all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectEvent {
    /// A connection was negotiated.
    Connected,
    /// A connection was closed because of a frame that could not be read.
    Refused,
}

/// What a service says of itself to whoever has signed in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceFacts {
    /// What becomes of requests beyond the throughput of the account: `off`, `on` or `report`.
    pub throttle: Option<&'static str>,
    /// What not every server has, by name: `advice`, `nodes`, `requestLog`, `serverless`.
    pub features: Vec<&'static str>,
}

/// Serves operations.
///
/// An implementation writes `async fn call(&self, call: Call<'_>) -> Reply`. The future runs on
/// the connection's task and is dropped when the client goes away; a panic inside is answered with
/// 500. Whatever blocks must be handed to a pool by the implementation. Resource tokens are held against
/// what it says as [`Standing`].
pub trait Service: Standing + Send + Sync + 'static {
    /// Answers one request.
    fn call(&self, call: Call<'_>) -> impl Future<Output = Reply> + Send;

    /// Whether this process serves the catalog of the account, or another node does.
    fn is_here(&self) -> bool {
        true
    }

    /// Waits until a slice shows what clients were told of the catalog; false when that takes too long.
    fn settle(&self, slice: u32) -> impl Future<Output = bool> + Send {
        let _ = slice;
        ready(true)
    }

    /// What it says of itself.
    fn facts(&self) -> ServiceFacts {
        ServiceFacts::default()
    }

    /// How a range of a container stands that a client in Direct mode addresses.
    fn range_state(&self, address: &RangeAddress<'_>) -> RangeState {
        let _ = address;
        RangeState::NoContainer
    }

    /// How much of a partition key lies in a range.
    fn key_share(&self, address: &RangeAddress<'_>, key: &PartitionKey) -> KeyShare {
        let _ = (address, key);
        KeyShare::Whole
    }

    /// The ids of a container's ranges in a slice.
    fn ranges(&self, slice: u32, container: ContainerPath<'_>) -> Result<Vec<u32>> {
        let _ = (slice, container);
        Err(Error::parent_not_found())
    }

    /// Counts a connection in Direct mode, or a frame that could not be read.
    fn count_direct(&self, event: DirectEvent) {
        let _ = event;
    }

    /// The text of `/metrics`; nothing when nobody counts.
    fn metrics(&self) -> Option<String> {
        None
    }
}
