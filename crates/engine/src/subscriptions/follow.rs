//! The thread that keeps subscriptions going, and its rounds.

use super::Subscription;
use super::queue::Rules;
use super::runner::{Left, SubscriptionRound, until};
use crate::account::Account;
use crate::container::Container;
use crate::limits::SUBSCRIPTION_WAIT_MAX;
use crate::views::Signal;
use armilla_model::clock::monotonic;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// What a round of all subscriptions has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubscriptionProgress {
    /// Everything there was is delivered, or belongs to a subscription that does not run.
    pub is_idle: bool,
    /// When there is something to do even if nobody wakes the thread.
    pub due: Option<Instant>,
}

/// Starts the thread; it ends with the account.
pub(crate) fn start(account: &Arc<Account>) {
    let (signal, account) = (account.core.subscribers.clone(), Arc::downgrade(account));
    let run = move || watch(&account, &signal);
    if let Err(error) = thread::Builder::new().name("subscriptions".to_owned()).spawn(run) {
        tracing::error!(%error, "subscriptions will not be delivered: their thread could not be started");
    }
}

fn watch(account: &Weak<Account>, signal: &Signal) {
    loop {
        let progress = match account.upgrade() {
            Some(account) if !account.core.background.is_stopping() => {
                account.follow_subscriptions()
            }
            _ => return,
        };
        signal.wait(until(progress.due, SUBSCRIPTION_WAIT_MAX));
    }
}

impl Account {
    /// Brings every subscription one round further. Public so that tests need not wait.
    pub fn follow_subscriptions(&self) -> SubscriptionProgress {
        let mut progress = SubscriptionProgress { is_idle: true, due: None };
        for container in self.containers() {
            for subscription in container.subscriptions().values() {
                let left = self.follow_subscription(&container, subscription);
                progress.is_idle &= left.idle;
                progress.due = left.due.into_iter().chain(progress.due).min();
            }
        }
        progress
    }

    /// Follows until everything is delivered; false when that takes longer. For tests.
    pub fn settle_subscriptions(&self, most: Duration) -> bool {
        let (begun, mut was_idle) = (monotonic(), false);
        loop {
            let progress = self.follow_subscriptions();
            // Twice: one subscription may have written what another one had not yet to do.
            if progress.is_idle && was_idle {
                return true;
            }
            was_idle = progress.is_idle;
            if was_idle {
                continue;
            }
            if begun.elapsed() > most {
                return false;
            }
            self.core.subscribers.wait(until(progress.due, SUBSCRIPTION_WAIT_MAX));
        }
    }

    fn follow_subscription(
        &self,
        container: &Arc<Container>,
        subscription: &Arc<Subscription>,
    ) -> Left {
        // Somebody else is at it.
        let Some(mut runner) = subscription.runner.try_lock() else {
            return Left { idle: false, due: None };
        };
        let round = self.round(container, subscription);
        let left = round.run(&mut runner);
        let figures = round.figures(&runner);
        *subscription.figures.lock() = figures;
        left
    }

    pub(crate) fn round<'r>(
        &'r self,
        container: &'r Arc<Container>,
        subscription: &'r Arc<Subscription>,
    ) -> SubscriptionRound<'r> {
        let definition = subscription.version().definition.clone();
        let rules = Rules::from(&*definition);
        SubscriptionRound { account: self, container, subscription, definition, rules }
    }

    /// Saves how far every subscription has come, before the store is closed.
    pub(crate) fn close_subscriptions(&self) {
        for container in self.containers() {
            for subscription in container.subscriptions().values() {
                let mut runner = subscription.runner.lock();
                self.round(&container, subscription).close(&mut runner);
            }
        }
    }
}
