//! Subscriptions: the change feed of a container delivered to a stored procedure or a webhook, by the server
//! itself.
//!
//! ```text
//! feed behind a position ─► condition, projection ─► queue ─► batches ─► target
//!           ▲                                          │  failed: wait, halve, dead letter
//!           └──────── position, and what is done above it ◄──┘ saved every second
//! ```
//!
//! Every entry is delivered at least once. A procedure's writes and a note of each entry commit together, so
//! its effects happen exactly once ([decision 0029](../../../docs/decisions/0029-subscriptions.md)).
//!
//! - [`definition`]: what a subscription says; [`target`]: to whom; [`selection`]: which entries, as what.
//! - [`entry`]: one change; `read`: changes out of the log.
//! - `position`: how far it has come, over splits and merges.
//! - [`queue`]: order, batches, attempts, halving. It does nothing but decide.
//! - `deliver`, [`courier`]: one attempt.
//! - `dead`: entries that were given up.
//! - `runner`: one round of one subscription; `follow`: the thread; [`status`]: what is told of it.

pub mod courier;
pub(crate) mod dead;
pub mod definition;
mod deliver;
pub mod entry;
mod follow;
mod members;
pub(crate) mod position;
pub mod queue;
mod read;
mod redrive;
pub(crate) mod runner;
pub mod selection;
pub mod status;
pub mod target;
mod trial;

pub use courier::{Courier, Parcel};
pub use definition::Definition;
pub use follow::SubscriptionProgress;
pub(crate) use follow::start;
pub use queue::DeliveryOutcome;

use crate::container::Container;
use crate::ranked::{Rank, RankedLock};
use crate::views::LockTurn;
use arc_swap::ArcSwap;
use armilla_model::error::{Error, Result};
use armilla_model::etag::ETag;
use armilla_model::rid::{self, ChildKind};
use parking_lot::Mutex;
use runner::{Ended, Runner};
use status::Figures;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A subscription of a container.
pub struct Subscription {
    /// Number inside the account, never used again.
    pub number: u32,
    /// Name.
    pub name: Arc<str>,
    version: ArcSwap<SubscriptionVersion>,
    pub(crate) runner: RankedLock<Runner>,
    /// Attempts that ended since the last round.
    ended: Mutex<Vec<Ended>>,
    /// The definition was replaced: what was read by the old one is read again.
    replaced: AtomicBool,
    figures: Mutex<Figures>,
    /// The place in the queue for the key of its dead letters.
    turn: LockTurn,
}

/// What replacing a subscription changes.
#[derive(Clone, Debug)]
pub struct SubscriptionVersion {
    /// What it says.
    pub definition: Arc<Definition>,
    /// Its version.
    pub etag: ETag,
    /// Second of the last change.
    pub ts: u64,
}

/// The subscriptions of a container, by name.
pub type Subscriptions = BTreeMap<Arc<str>, Arc<Subscription>>;

impl Subscription {
    pub(crate) fn new(
        number: u32,
        name: Arc<str>,
        version: SubscriptionVersion,
        runner: Runner,
    ) -> Self {
        Self {
            number,
            name,
            version: ArcSwap::from_pointee(version),
            runner: RankedLock::new(Rank::Following, runner),
            ended: Mutex::default(),
            replaced: AtomicBool::new(false),
            figures: Mutex::default(),
            turn: LockTurn::default(),
        }
    }

    /// What it says now.
    pub fn version(&self) -> Arc<SubscriptionVersion> {
        self.version.load_full()
    }

    pub(crate) fn set_version(&self, version: SubscriptionVersion) {
        self.version.store(Arc::new(version));
        self.replaced.store(true, Ordering::Release);
    }

    /// Binary resource id.
    pub fn rid(&self, container: &Container) -> [u8; 16] {
        rid::child(container.rid, ChildKind::Subscription, u64::from(self.number))
    }

    /// Whether a procedure is its target.
    pub(crate) fn has_procedure(&self) -> bool {
        matches!(self.version().definition.target, target::Target::Procedure(_))
    }

    /// Whether it has delivered every change of its container. False while somebody is at it.
    pub(crate) fn is_up_to_date(&self, container: &Container) -> bool {
        let Some(runner) = self.runner.try_lock() else { return false };
        runner.is_up_to_date(container) && self.ended.lock().is_empty()
    }

    /// The stored state of one like it that begins at other positions.
    pub(crate) fn begun_anew(&self, positions: &position::KeyPositions, now: u64) -> Vec<u8> {
        let run = self.runner.try_lock().map_or(status::Run::Running, |runner| runner.run);
        Runner::new(positions.clone(), run, now, status::Counts::default()).write()
    }

    /// What was delivered and what waits, as of the last round.
    pub fn figures(&self) -> Figures {
        self.figures.lock().clone()
    }
}

impl Container {
    /// The subscriptions of now.
    pub fn subscriptions(&self) -> Arc<Subscriptions> {
        self.subscriptions.load_full()
    }

    /// A subscription by name, or else by rid.
    pub fn subscription(&self, segment: &str) -> Result<Arc<Subscription>> {
        let all = self.subscriptions.load();
        let by_rid = || {
            let bytes = rid::decode(segment)?;
            all.values().find(|subscription| subscription.rid(self)[..] == bytes[..])
        };
        all.get(segment).or_else(by_rid).cloned().ok_or_else(Error::not_found)
    }
}
