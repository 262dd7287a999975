//! The thread that keeps views up, and its rounds.

use super::elsewhere::{Copies, Elsewhere, Lookup, SliceCopy};
use super::page::SourceRange;
use super::state::SourcePart;
use super::{ContainerView, apply, page, rekey};
use crate::account::Account;
use crate::admission::WriteKind;
use crate::container::Container;
use crate::limits::{VIEW_COPIES_LOOK, VIEW_RETRY_MAX, VIEW_RETRY_MIN, VIEW_WAIT_MAX};
use armilla_model::charge::RequestCharge;
use armilla_model::clock::monotonic;
use armilla_model::error::{Error, Result};
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

/// What wakes the thread: a commit in a container that has views.
#[derive(Default)]
pub(crate) struct Signal {
    raised: Mutex<bool>,
    changed: Condvar,
}

impl Signal {
    /// Wakes the thread, or keeps it from going to sleep.
    pub(crate) fn wake(&self) {
        let mut raised = self.raised.lock();
        if !*raised {
            *raised = true;
            self.changed.notify_one();
        }
    }

    /// Sleeps until somebody wakes the thread, or has done so since the last time.
    pub(crate) fn wait(&self, most: Duration) {
        let mut raised = self.raised.lock();
        if !*raised {
            let _timed_out = self.changed.wait_for(&mut raised, most);
        }
        *raised = false;
    }
}

/// What a round has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Followed {
    /// Every view shows its source as it was when the round came to it.
    Everything,
    /// Something waits for throughput, room, or the next attempt.
    Waiting,
    /// A view moved on and may have more to do.
    More,
}

/// Starts the thread; it ends with the account.
pub(crate) fn start(account: &Arc<Account>) {
    let (signal, account) = (account.core.followers.clone(), Arc::downgrade(account));
    let run = move || watch(&account, &signal);
    if let Err(error) = thread::Builder::new().name("views".to_owned()).spawn(run) {
        tracing::error!(%error, "views will not follow their sources: their thread could not be started");
    }
}

fn watch(account: &Weak<Account>, signal: &Signal) {
    loop {
        let (followed, is_whole) = match account.upgrade() {
            Some(account) if !account.core.background.is_stopping() => {
                (account.follow_views(), account.core.slice.is_whole())
            }
            _ => return,
        };
        match followed {
            Followed::More => {}
            Followed::Waiting => signal.wait(VIEW_RETRY_MIN),
            Followed::Everything if is_whole => signal.wait(VIEW_WAIT_MAX),
            // Nobody wakes the thread when another slice has changed.
            Followed::Everything => signal.wait(VIEW_COPIES_LOOK),
        }
    }
}

impl Account {
    /// Brings every view one page of each source range further. Public so that tests need not wait.
    pub fn follow_views(&self) -> Followed {
        let mut followed = Followed::Everything;
        let mut copies = None;
        for source in self.containers() {
            for target in source.views().iter() {
                if let Some(view) = target.view() {
                    let copies = copies.get_or_insert_with(|| self.core.slice_copies());
                    let round = ViewRound { source: &source, target, view, copies };
                    followed = followed.max(self.follow_round(&round));
                }
            }
        }
        followed
    }

    pub(crate) fn follow_view(
        &self,
        source: &Arc<Container>,
        target: &Arc<Container>,
        view: &ContainerView,
    ) -> Followed {
        let copies = self.core.slice_copies();
        self.follow_round(&ViewRound { source, target, view, copies: &copies })
    }

    fn follow_round(&self, round: &ViewRound<'_>) -> Followed {
        let ViewRound { target, view, .. } = round;
        // Somebody else is at it.
        let Some(mut following) = view.following.try_lock() else { return Followed::Waiting };
        if following.retry_at.is_some_and(|at| monotonic() < at) {
            return Followed::Waiting;
        }
        let ranges = self.follow_ranges(round, &mut following.elsewhere);
        match ranges {
            Ok(followed) => {
                (following.failures, following.retry_at) = (0, None);
                *view.failure.lock() = None;
                followed
            }
            // It was deleted, or the server stops.
            Err(_) if target.check_alive().is_err() || self.core.background.is_stopping() => {
                Followed::Waiting
            }
            // A client's procedure has a key of the view. Its turn comes.
            Err(Error::Overloaded { .. }) => Followed::Waiting,
            Err(error) => {
                let pause = VIEW_RETRY_MIN.saturating_mul(1 << following.failures.min(16));
                following.failures += 1;
                *view.failure.lock() = Some(error.to_string());
                following.retry_at = Some(monotonic() + pause.min(VIEW_RETRY_MAX));
                let (of, name) = (view.source_name(), &target.settings().name);
                tracing::warn!(%error, view = %name, source = %of, "a view cannot follow its source; it will be tried again");
                Followed::Waiting
            }
        }
    }

    /// One page of each range that has something new.
    fn follow_ranges(&self, round: &ViewRound<'_>, elsewhere: &mut Elsewhere) -> Result<Followed> {
        let ViewRound { source, target, view, copies } = *round;
        let slice = self.core.slice;
        // Those of other slices are not counted; they are about as many.
        let items = source.document_count().saturating_mul(u64::from(slice.count()));
        view.source_items.store(items, Ordering::Relaxed);
        elsewhere.look((source, target), copies)?;
        let partitions = source.partitions();
        let ranges: Vec<_> =
            partitions.iter().map(|partition| (partition.range.clone(), partition.lsn())).collect();
        let part = SourcePart { slice: slice.index(), count: slice.count(), ranges: &ranges };
        let mut followed = Followed::Everything;
        for (partition, (range, head)) in partitions.iter().zip(&ranges) {
            let state = view.state.lock().clone();
            if state.position_of(range) >= *head && state.has_built(slice.index()) {
                continue;
            }
            if !source.has_leisure(partition) {
                followed = followed.max(Followed::Waiting);
                continue;
            }
            let from = SourceRange::of(source, partition);
            let (step, charge) = self.follow_range(round, elsewhere, (&part, &from))?;
            // What a slice reads of its own is what reading costs the source; the others read copies.
            if let Some(charge) = charge {
                source.charge_background(partition, charge);
            }
            followed = followed.max(step);
        }
        let others =
            copies.iter().zip(0..).filter_map(|(copy, slice)| Some((slice, copy.as_ref()?)));
        for (number, copy) in others {
            let step = self.follow_slice(round, elsewhere, (number, copy))?;
            if step == Followed::Everything {
                elsewhere.set_done(number);
            }
            followed = followed.max(step);
        }
        Ok(followed)
    }

    /// One page of each range of another slice.
    fn follow_slice(
        &self,
        round: &ViewRound<'_>,
        elsewhere: &Elsewhere,
        (slice, copy): (u32, &SliceCopy),
    ) -> Result<Followed> {
        let mut followed = Followed::Everything;
        let known = elsewhere.part(slice, &round.view.state.lock());
        let Some(known) = known.filter(|known| !known.is_done) else { return Ok(followed) };
        let count = self.core.slice.count();
        let part = SourcePart { slice, count, ranges: &known.ranges };
        for (range, head) in &known.ranges {
            let state = round.view.state.lock().clone();
            if state.position_of(range) >= *head && state.has_built(slice) {
                continue;
            }
            let from = SourceRange { range, head: *head, snapshot: copy.snapshot.clone() };
            let (step, _) = self.follow_range(round, elsewhere, (&part, &from))?;
            followed = followed.max(step);
        }
        Ok(followed)
    }

    /// One page of a range, and what reading it costs.
    fn follow_range(
        &self,
        round: &ViewRound<'_>,
        elsewhere: &Elsewhere,
        (part, from): (&SourcePart<'_>, &SourceRange<'_>),
    ) -> Result<(Followed, Option<RequestCharge>)> {
        let ViewRound { source, target, view, copies } = *round;
        self.require_room(WriteKind::Any)?;
        let has_leisure = target.partitions().iter().all(|partition| target.has_leisure(partition));
        if !has_leisure || !self.core.keeps_up() {
            return Ok((Followed::Waiting, None));
        }
        let state = view.state.lock().clone();
        let page = page::read(source, from, state.position_of(from.range))?;
        let seen = page.entries.len() as u64;
        let next = state.advanced(part, from.range.id, page.position, seen);
        if next == state {
            return Ok((Followed::Everything, None));
        }
        if view.is_rekey() {
            rekey::apply(source, target, view, &page, &next)?;
        } else {
            let lookup = Lookup { copies, elsewhere, state: &state };
            apply::apply((source, target), view, &page, &next, &lookup)?;
        }
        *view.state.lock() = next;
        Ok((Followed::More, (seen > 0).then_some(page.charge)))
    }
}

/// A view that is brought further.
#[derive(Clone, Copy)]
struct ViewRound<'r> {
    source: &'r Arc<Container>,
    target: &'r Arc<Container>,
    view: &'r ContainerView,
    copies: &'r Copies,
}
