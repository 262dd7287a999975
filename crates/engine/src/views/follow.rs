//! The thread that keeps views up, and its rounds.

use super::{ContainerView, apply, page, rekey};
use crate::account::Account;
use crate::admission::WriteKind;
use crate::container::Container;
use crate::limits::{VIEW_RETRY_MAX, VIEW_RETRY_MIN, VIEW_WAIT_MAX};
use crate::ranges::Range;
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
        let followed = match account.upgrade() {
            Some(account) if !account.core.background.is_stopping() => account.follow_views(),
            _ => return,
        };
        match followed {
            Followed::More => {}
            Followed::Waiting => signal.wait(VIEW_RETRY_MIN),
            Followed::Everything => signal.wait(VIEW_WAIT_MAX),
        }
    }
}

impl Account {
    /// Brings every view one page of each source range further. Public so that tests need not wait.
    pub fn follow_views(&self) -> Followed {
        let mut followed = Followed::Everything;
        for source in self.containers() {
            for target in source.views().iter() {
                if let Some(view) = target.view() {
                    followed = followed.max(self.follow_view(&source, target, view));
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
        // Somebody else is at it.
        let Some(mut following) = view.following.try_lock() else { return Followed::Waiting };
        if following.retry_at.is_some_and(|at| monotonic() < at) {
            return Followed::Waiting;
        }
        match self.follow_ranges(source, target, view) {
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
    fn follow_ranges(
        &self,
        source: &Arc<Container>,
        target: &Arc<Container>,
        view: &ContainerView,
    ) -> Result<Followed> {
        view.source_items.store(source.document_count(), Ordering::Relaxed);
        let partitions = source.partitions();
        let ranges: Vec<Range> =
            partitions.iter().map(|partition| partition.range.clone()).collect();
        let mut followed = Followed::Everything;
        for partition in partitions.iter() {
            let state = view.state.lock().clone();
            let position = state.position_of(&partition.range);
            if position >= partition.lsn() && state.active {
                continue;
            }
            self.require_room(WriteKind::Any)?;
            let has_leisure = source.has_leisure(partition)
                && target.partitions().iter().all(|partition| target.has_leisure(partition));
            if !has_leisure || !self.core.keeps_up() {
                followed = followed.max(Followed::Waiting);
                continue;
            }
            let page = page::read(source, partition, position)?;
            let seen = page.entries.len() as u64;
            let next = state.advanced(&ranges, partition.range.id, page.position, seen);
            if next == state {
                continue;
            }
            if view.is_rekey() {
                rekey::apply(source, target, view, &page, &next)?;
            } else {
                apply::apply(source, target, view, &page, &next)?;
            }
            if seen > 0 {
                source.charge_background(partition, page.charge);
            }
            *view.state.lock() = next;
            followed = Followed::More;
        }
        Ok(followed)
    }
}
