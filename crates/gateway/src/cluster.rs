//! Several nodes that serve one account: requests go to the node that owns it, and an owner answers only while it holds its lease.
//!
//! ```text
//!   client ──► any node ── Front ──► this node owns the account ──► LateService ──► EngineService
//!                            │
//!                            └─────► another node does ── the whole request, as it came ──► that node
//! ```
//!
//! A node that does not own the account keeps the same doors as every server: names, sizes, times, and credentials before a body is
//! read. Then it passes the request on with the client's own signature, marked by [`FROM`], and answers with what the owner answered. A
//! request that was passed on is never passed on again. While nobody owns the account, requests are held for a moment
//! ([`HELD_WAIT_MAX`](crate::limits::HELD_WAIT_MAX)) and then told to come back (429); a write whose answer was lost on its way is told
//! so (408), because it may have been done.

mod address;
pub(crate) mod front;
mod gauges;
mod late;
pub(crate) mod links;
mod nodes;
mod sliced;
pub(crate) mod slices;

pub use address::NodeAddress;
pub use front::{Front, OwnerPlace, OwnerPlaces};
pub use gauges::NodeGauges;
pub use late::LateService;
pub use nodes::{NodeFacts, NodeRole, Nodes};
pub use sliced::{Editions, SlicedService};
pub use slices::SliceFronts;

pub(crate) use late::unknown_outcome;

use http::HeaderName;

/// The node that passed a request on. Whoever sends it has no right because of it, and loses those of this machine's user.
pub const FROM: HeaderName = HeaderName::from_static("x-armilla-from");

/// The slice that a request which was passed on is for, where the account is cut into slices.
pub const SLICE: HeaderName = HeaderName::from_static("x-armilla-slice");

/// Says in a 421 that the node does not own the account, so that the one who passed the request on looks again.
pub const NOT_OWNER: HeaderName = HeaderName::from_static("x-armilla-not-owner");
