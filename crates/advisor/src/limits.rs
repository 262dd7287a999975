//! Everything has a maximum.

use std::time::Duration;

/// Shapes of requests that are told apart in one container; further ones are counted together.
pub const SHAPES_MAX: usize = 512;
/// Bytes that the observations of one container may take.
pub const CONTAINER_BYTES_MAX: usize = 4 << 20;
/// Bytes of these that sketches of its items may take.
pub const SKETCH_BYTES_MAX: usize = 1 << 20;
/// Bytes of these that recorded activities leave to shapes.
pub const SHAPE_BYTES: usize = 1 << 20;
/// Containers that are observed.
pub const CONTAINERS_MAX: usize = 256;
/// Activities of clients that are followed at once.
pub const ACTIVITIES_MAX: usize = 512;
/// Requests of one activity that are told apart.
pub const ACTIVITY_STEPS_MAX: usize = 2_000;
/// An activity that was silent for so long is over.
pub const ACTIVITY_IDLE: Duration = Duration::from_secs(2);
/// Recorded activities that are kept of each kind, to be priced and replayed.
pub const TRACES_MAX: usize = 3;
/// Requests of one of them that are kept.
pub const TRACE_STEPS_MAX: usize = 700;
/// Bytes of one recorded request.
pub const ASKED_BYTES_MAX: usize = 2 * 1024;
/// Bytes of the requests of all activities that are followed at once.
pub const OPEN_BYTES_MAX: usize = 16 << 20;
/// Kinds of items that are sketched in one container.
pub const KINDS_MAX: usize = 32;
/// Least hashes that are kept of the values of a path.
pub const MINHASH: usize = 64;
/// Logical keys of a container that are counted at once.
pub const HOT_KEYS: usize = 32;
/// Hours of which the units are kept.
pub const HOURS_MAX: usize = 24 * 8;
/// At each end of a run of requests from a busy server, so large a part only completes activities: see `observe`.
pub const RUN_EDGE: usize = 5;
/// Runs that are shorter have no such parts.
pub const RUN_EDGED_MIN: usize = 100;
/// Length of a literal in a query that is taken for a kind of item and not for a value.
pub const KIND_LENGTH_MAX: usize = 24;
/// Texts of queries that wait for the form in which a client sends them to each range.
pub const PLANNED_MAX: usize = 64;

/// Items of a container that are looked at.
pub const SAMPLE_MAX: usize = 400;
/// Values of a path that are looked up to see whether it refers to another container.
pub const LINK_VALUES_MAX: usize = 24;
/// Share of them that must be found.
pub const LINK_SHARE_MIN: f64 = 0.9;
/// Paths of an item that are looked at.
pub const PATHS_MAX: usize = 200;
/// Rows of a recorded query that are looked at.
pub const ROWS_MAX: usize = 1_000;

/// Elements of a list that may be kept inside an item.
pub const LIST_BOUND: f64 = 32.0;
/// Elements at which a list counts as growing without bound.
pub const LIST_UNBOUNDED: f64 = 200.0;
/// Bytes at which an item with such a list is large.
pub const ITEM_LARGE: f64 = 32.0 * 1024.0;
/// Newest elements that stay inside an item whose list moves out.
pub const LIST_KEPT: usize = 3;
/// Elements of a bucket.
pub const BUCKET: usize = 100;

/// The least share of all observed units that a finding saves.
pub const SHARE_MIN: f64 = 0.01;
/// The same for paths left out of the index: each is a promise about the queries of tomorrow.
pub const INDEX_SHARE_MIN: f64 = 0.10;
/// Changes that are weighed exactly; more are weighed by local search.
pub const EXACT_MAX: usize = 40;
/// Changes that are weighed at all.
pub const CHANGES_MAX: usize = 120;
/// Kinds of requests that a report lists.
pub const WORKLOAD_SHOWN: usize = 100;

/// Items that a proof copies at most; beyond, it works on those that the recorded requests touch and a part of the rest.
pub const PROOF_ITEMS_MAX: usize = 200_000;
