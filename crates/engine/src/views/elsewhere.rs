//! A source in other slices: its ranges there, read in the copies of these slices that the node has.
//!
//! Each slice fills its own part of a view: the copies whose key in the view lies there. For that it reads the logs of the source in every
//! slice, and takes what is not for it as if it were not there. Positions, notes and copies of items lie together in the slice that has the
//! part, so a page has its effect once as in an account that is not cut; only reading goes across slices, and no node asks another
//! ([decision 0074](../../../../docs/decisions/0074-views-in-slices.md)).

use super::state::{SourcePart, State};
use super::{ContainerView, Status, stored_state};
use crate::account::{Account, stored_head};
use crate::catalog::stored::{StoredContainer, StoredEntry};
use crate::container::Container;
use crate::core::Core;
use crate::keys::{self, Meta};
use crate::limits::VIEW_RETRY_MIN;
use crate::ranges::Range;
use crate::slice::SliceBounds;
use crate::store_failure;
use armilla_model::error::{Error, Result};
use armilla_model::lsn::Lsn;
use armilla_model::partition_key::Epk;
use armilla_storage::{Keyspace, Snapshot, StoreError};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Who has copies of the slices of an account.
pub trait SliceCopies: Send + Sync {
    /// The copy of a slice; nothing while it is being made.
    fn copy(&self, slice: u32) -> Option<SliceCopy>;
}

/// A slice as a copy of it was at one moment: a beginning of what its owner has made durable.
#[derive(Clone)]
pub struct SliceCopy {
    /// Another one whenever the copy has changed.
    pub place: u64,
    /// What it holds.
    pub snapshot: Arc<dyn Snapshot>,
}

/// The copies of all slices at the beginning of a round; nothing for the own one.
pub(super) type Copies = Vec<Option<SliceCopy>>;

impl Account {
    /// Sets who has copies of the other slices of this account. Only the first word counts.
    pub fn set_copies(&self, copies: Box<dyn SliceCopies>) {
        let _already_set = self.core.copies.set(copies);
        self.core.followers.wake();
    }
}

impl Core {
    /// The copies of the other slices; none where the account is not cut.
    pub(super) fn slice_copies(&self) -> Copies {
        if self.slice.is_whole() {
            return Vec::new();
        }
        let copy = |slice| match self.copies.get() {
            Some(copies) if slice != self.slice.index() => copies.copy(slice),
            _ => None,
        };
        (0..self.slice.count()).map(copy).collect()
    }
}

/// A source in another slice, as a copy had it.
pub(super) struct PartElsewhere {
    place: u64,
    pub(super) ranges: Vec<(Range, Lsn)>,
    /// All of it is in the view.
    pub(super) is_done: bool,
}

/// What is known of a source in other slices, by slice.
#[derive(Default)]
pub(super) struct Elsewhere(Vec<Option<PartElsewhere>>);

impl Elsewhere {
    /// Looks at the copies that have changed.
    pub(super) fn look(
        &mut self,
        (source, target): (&Container, &Container),
        copies: &Copies,
    ) -> Result<()> {
        self.0.resize_with(copies.len(), || None);
        for (known, copy) in self.0.iter_mut().zip(copies) {
            let Some(copy) = copy else {
                *known = None;
                continue;
            };
            if known.as_ref().is_none_or(|known| known.place != copy.place) {
                let ranges = ranges_in(&*copy.snapshot, source, target).map_err(store_failure)?;
                *known = ranges.map(|ranges| {
                    let (place, is_done) = (copy.place, false);
                    PartElsewhere { place, ranges, is_done }
                });
            }
        }
        Ok(())
    }

    /// What is known of one slice, unless it is older than what was read there before.
    pub(super) fn part(&self, slice: u32, state: &State) -> Option<&PartElsewhere> {
        let known = self.0.get(slice as usize)?.as_ref()?;
        let count = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        let part = SourcePart { slice, count, ranges: &known.ranges };
        (!state.is_ahead_of(&part)).then_some(known)
    }

    /// Notes that all of a slice is in the view.
    pub(super) fn set_done(&mut self, slice: u32) {
        if let Some(Some(known)) = self.0.get_mut(slice as usize) {
            known.is_done = true;
        }
    }
}

/// The ranges of a source in a copy, with their heads. Nothing before that slice has the view: from then on it keeps removals for it.
fn ranges_in(
    snapshot: &dyn Snapshot,
    source: &Container,
    target: &Container,
) -> Result<Option<Vec<(Range, Lsn)>>, StoreError> {
    let stored = |container: &Container| {
        let key = keys::meta(Meta::Container, &[container.database, container.number]);
        snapshot.get(Keyspace::Meta, &key)
    };
    let (Some(source_there), Some(_)) = (stored(source)?, stored(target)?) else {
        return Ok(None);
    };
    let stored = StoredContainer::read(&StoredEntry::read(&source_there)?)?;
    let head = |range: Range| {
        let head = stored_head(snapshot, source.number, &range)?;
        Ok((range, head))
    };
    stored.ranges.into_iter().map(head).collect::<Result<_, _>>().map(Some)
}

/// Where items of a source are looked up while a page is applied.
pub(super) struct Lookup<'l> {
    pub(super) copies: &'l Copies,
    pub(super) elsewhere: &'l Elsewhere,
    pub(super) state: &'l State,
}

impl Lookup<'_> {
    /// What holds the items of a key of the source: the own snapshot, or that of a copy.
    ///
    /// # Errors
    ///
    /// When the copy is not there, or older than what was read before: then it is tried again.
    pub(super) fn snapshot_of<'s>(
        &'s self,
        source: &Container,
        epk: &Epk,
        own: &'s dyn Snapshot,
    ) -> Result<&'s dyn Snapshot> {
        let slice = source.core.slice;
        if slice.is_whole() {
            return Ok(own);
        }
        let bounds = SliceBounds::new(source.key_definition().hashing, slice.count());
        let of_key = bounds.slice_of(epk);
        if of_key == slice.index() {
            return Ok(own);
        }
        let copy = self.copies.get(of_key as usize).and_then(Option::as_ref);
        let part = self.elsewhere.part(of_key, self.state);
        match (copy, part) {
            (Some(copy), Some(_)) => Ok(&*copy.snapshot),
            _ => Err(Error::Overloaded { retry_after: VIEW_RETRY_MIN }),
        }
    }
}

impl Container {
    /// How far a view has come in all slices; nothing when this container is none.
    pub fn view_status(&self) -> Option<Status> {
        let view = self.view()?;
        let own = view.status();
        if own != Status::Active || view.active_everywhere.load(Ordering::Relaxed) {
            return Some(own);
        }
        let own_slice = self.core.slice.index() as usize;
        let copies = self.core.slice_copies();
        let states = states_of(self, &copies, own_slice);
        let is_active = |state: &State| state.active;
        if states.iter().all(is_active) {
            view.active_everywhere.store(true, Ordering::Relaxed);
            return Some(Status::Active);
        }
        let restored = states.iter().any(|state| state.restored);
        Some(Status::Building { percent: 99, restored })
    }
}

/// The states of a view in the other slices; that of a view which has read nothing where a slice's is not known.
fn states_of(view: &Container, copies: &Copies, own: usize) -> Vec<State> {
    let others = copies.iter().enumerate().filter(|(slice, _)| *slice != own);
    let state = |copy: &Option<SliceCopy>| {
        let stored = copy.as_ref().map(|copy| stored_state(&*copy.snapshot, view.number));
        stored.and_then(Result::ok).unwrap_or_default()
    };
    others.map(|(_, copy)| state(copy)).collect()
}

/// What the views of a container have seen of it, in all slices.
pub(crate) struct SeenByViews(Vec<State>);

impl SeenByViews {
    /// As of now. What other slices have seen lately may not be known here yet.
    pub(crate) fn of(source: &Container) -> Self {
        let views = source.views();
        if views.is_empty() {
            return Self(Vec::new());
        }
        let (copies, own) = (source.core.slice_copies(), source.core.slice.index() as usize);
        let states = views.iter().flat_map(|target| {
            let own_state =
                target.view().map(|view: &Arc<ContainerView>| view.state.lock().clone());
            own_state.map(|state| {
                let mut states = states_of(target, &copies, own);
                states.push(state);
                states
            })
        });
        Self(states.flatten().collect())
    }

    /// The transaction up to which every view has seen a range; nothing when there is no view.
    pub(crate) fn followed_to(&self, range: &Range) -> Option<Lsn> {
        self.0.iter().map(|state| state.position_of(range)).min()
    }
}
