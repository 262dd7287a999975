//! Views: containers that the server fills from the change feed of another container (global secondary
//! indexes, formerly materialized views).
//!
//! ```text
//! source: feed + gone behind a position ─► project ─► a transaction per logical partition of the view
//!                 ▲                                            │ with the guard of each item
//!                 └──────────── position ◄─────────────────────┘ queued behind them
//! ```
//!
//! The state of a view is a function of the source: for each living source item its projection, under the
//! key that the projection has. Following is therefore idempotent. Of every source item the view notes
//! where its copy lies and which transaction it was made from ([`placement`]); a note and the copy are in
//! one batch, and the position is queued behind both. Whatever a crash cuts off is done again and finds
//! its own notes ([decision 0020](../../../docs/decisions/0020-views-follow-feed-and-removals.md)).
//!
//! - [`definition`]: which definitions are accepted, read by the SQL parser.
//! - [`project`]: from a source item to the item of the view.
//! - [`state`]: positions in the logs of the source, and when the first build is done.
//! - [`placement`]: where the copy of a source item lies.
//! - [`page`]: what the logs of one source range say behind a position.
//! - [`apply`]: a page written into the view.
//! - [`cap`]: views that keep only the first few items of a key.
//! - [`elsewhere`]: the ranges of a source that are in other slices of the account.
//! - [`follow`]: the thread and its rounds.
//! - [`rekey`]: a container that is filled under another key, to take its source's place.
//! - [`lock_turn`]: waiting for the lock of a key without holding up other views or subscriptions.

mod apply;
mod cap;
pub mod definition;
mod elsewhere;
mod follow;
mod lock_turn;
mod page;
mod placement;
pub mod project;
pub mod rekey;
pub(crate) mod state;

pub(crate) use elsewhere::SeenByViews;
pub use elsewhere::{SliceCopies, SliceCopy};
pub use follow::Followed;
pub(crate) use follow::{Signal, start};
pub(crate) use lock_turn::LockTurn;

use crate::container::Container;
use crate::keys::{self, Meta};
use crate::ranges::Range;
use crate::ranked::{Rank, RankedGuard, RankedLock};
use armilla_model::lsn::Lsn;
use armilla_model::value::{Object, Value};
use armilla_storage::Snapshot;
use definition::ViewDefinition;
use parking_lot::Mutex;
use state::State;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// What makes a container a view.
pub struct ContainerView {
    /// What is copied.
    pub(crate) definition: ViewDefinition,
    /// The members of the definition as they are stored.
    stored: Object,
    state: Mutex<State>,
    /// Items of the source when it was last looked at.
    source_items: AtomicU64,
    following: RankedLock<Following>,
    turn: LockTurn,
    /// Why the last round failed, if it did.
    failure: Mutex<Option<String>>,
    /// It has taken its source's place and follows nobody any more.
    over: AtomicBool,
    /// The first build was seen to be done in all slices.
    active_everywhere: AtomicBool,
}

/// What whoever follows remembers from round to round.
#[derive(Default)]
pub(crate) struct Following {
    /// Rounds that failed one after the other.
    failures: u32,
    /// A failed round is not tried again before this.
    retry_at: Option<Instant>,
    /// What it knows of its source in other slices.
    elsewhere: elsewhere::Elsewhere,
}

/// How far a view has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It does not yet show everything that the source held when the view was made.
    Building {
        /// Roughly how much it shows, 0 to 99.
        percent: u8,
        /// The view comes from a backup and is gone through again.
        restored: bool,
    },
    /// It has shown that once; from then on it only follows.
    Active,
}

impl Status {
    /// The word for clients.
    pub fn word(self) -> &'static str {
        match self {
            Self::Building { restored: false, .. } => "InitialBuildAfterCreate",
            Self::Building { restored: true, .. } => "InitialBuildAfterRestore",
            Self::Active => "Active",
        }
    }

    /// Percent of the first build.
    pub fn percent(self) -> u8 {
        match self {
            Self::Building { percent, .. } => percent,
            Self::Active => 100,
        }
    }
}

/// How far a view is behind its source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// Seconds since the oldest change that is not in the view; 0 when there is none.
    pub seconds: u64,
    /// Transactions of the source behind the positions of the view.
    pub transactions: u64,
}

impl ContainerView {
    /// A view as its stored definition says.
    pub(crate) fn new(definition: ViewDefinition, stored: Object, state: State) -> Self {
        let following = RankedLock::new(Rank::Following, Following::default());
        let (state, source_items) = (Mutex::new(state), AtomicU64::new(0));
        let turn = LockTurn::default();
        Self {
            definition,
            stored,
            state,
            source_items,
            following,
            turn,
            failure: Mutex::default(),
            over: AtomicBool::new(false),
            active_everywhere: AtomicBool::new(false),
        }
    }

    /// The members of the definition, as clients read them, without status.
    pub fn members(&self) -> &Object {
        &self.stored
    }

    /// Name of the source.
    pub fn source_name(&self) -> &str {
        self.stored.get(definition::SOURCE_ID).and_then(Value::as_str).unwrap_or_default()
    }

    /// `_rid` of the source.
    pub fn source_rid(&self) -> &str {
        self.stored.get(definition::SOURCE_RID).and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether it is no view, but its source under another key.
    pub fn is_rekey(&self) -> bool {
        self.stored.get(definition::QUERY).and_then(Value::as_str) == Some(rekey::REKEY)
    }

    /// Why the last round failed, if it did.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }

    /// Keeps others from following.
    pub(crate) fn hold(&self) -> RankedGuard<'_, Following> {
        self.following.lock()
    }

    /// It follows nobody any more.
    pub(crate) fn set_over(&self) {
        self.over.store(true, Ordering::Release);
    }

    /// How far it has come, in this slice.
    pub fn status(&self) -> Status {
        let state = self.state.lock();
        if state.active {
            return Status::Active;
        }
        let source_items = self.source_items.load(Ordering::Relaxed);
        let percent = (state.seen.saturating_mul(100) / source_items.max(1)).min(99);
        let restored = state.restored;
        Status::Building { percent: u8::try_from(percent).unwrap_or(99), restored }
    }

    /// The position in the log of a source range.
    pub(crate) fn position(&self, range: &Range) -> Lsn {
        self.state.lock().position_of(range)
    }
}

impl Container {
    /// What makes this container a view, if it is one.
    pub fn view(&self) -> Option<&Arc<ContainerView>> {
        self.view.get().filter(|view| !view.over.load(Ordering::Acquire))
    }

    /// What follows this container: its views, and itself under another key.
    pub fn views(&self) -> Arc<Vec<Arc<Self>>> {
        self.views.load_full()
    }

    /// The container that is being filled with this one's items under another key.
    pub fn rekey_target(&self) -> Option<Arc<Self>> {
        let views = self.views.load();
        let is_rekey = |view: &&Arc<Self>| view.view().is_some_and(|view| view.is_rekey());
        views.iter().find(is_rekey).cloned()
    }

    pub(crate) fn set_view(&self, view: ContainerView) {
        let _first = self.view.set(Arc::new(view));
    }

    /// Adds a view that follows this container from now on.
    pub(crate) fn add_view(&self, view: &Arc<Self>) {
        let mut views = Vec::clone(&self.views.load());
        views.push(view.clone());
        self.views.store(Arc::new(views));
        self.core.followers.wake();
    }

    /// Lets go of a view that was deleted.
    pub(crate) fn remove_view(&self, view: &Self) {
        let mut views = Vec::clone(&self.views.load());
        views.retain(|known| known.number != view.number);
        self.views.store(Arc::new(views));
    }

    /// Tells whoever follows that there is something new.
    pub(crate) fn wake_followers(&self) {
        if !self.views.load().is_empty() {
            self.core.followers.wake();
        }
        if !self.subscriptions.load().is_empty() {
            self.core.subscribers.wake();
        }
    }

    /// How far one of this container's views is behind, of what this slice has of both.
    pub fn view_lag(&self, view: &ContainerView) -> Lag {
        let mut lag = Lag::default();
        let now = self.core.clock.now_seconds();
        for partition in self.partitions().iter() {
            let (position, head) = (view.position(&partition.range), partition.lsn());
            lag.transactions += head.0.saturating_sub(position.0);
            if position < head
                && let from = page::SourceRange::of(self, partition)
                && let Ok(Some(second)) = page::first_second(self, &from, position)
            {
                lag.seconds = lag.seconds.max(now.saturating_sub(u64::from(second)));
            }
        }
        lag
    }
}

/// The stored state of a view.
pub(crate) fn stored_state(
    snapshot: &dyn Snapshot,
    view: u32,
) -> Result<State, armilla_storage::StoreError> {
    let key = keys::meta(Meta::View, &[view]);
    let stored = snapshot.get(armilla_storage::Keyspace::Meta, &key)?;
    stored.map_or_else(|| Ok(State::default()), |bytes| State::read(&bytes))
}
