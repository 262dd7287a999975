//! Locks with a rank: who holds one may only take those of a higher rank.
//!
//! Threads that take locks in one order cannot wait for one another in a circle. The order is the order of
//! [`Rank`], told in a table in `ARCHITECTURE.md`; debug builds check it whenever a lock is taken. Locks that
//! nothing else is taken under have no rank.

use parking_lot::{Mutex, MutexGuard};
use std::ops::{Deref, DerefMut};

/// The ranks, in the order in which locks are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// One round of a view at a time.
    Following,
    /// One split or merge of a container at a time.
    Reshaping,
    /// One change of a container's definition, or of the index that serves it, at a time.
    Replacing,
    /// The sequencer of a partition; a switch of indexes holds several.
    Sequencer,
    /// One change of the catalog at a time.
    Catalog,
    /// New path numbers on their way into a batch.
    Paths,
    /// The budgets of offers.
    Budgets,
    /// The dials that a container has of its own.
    Dials,
    /// The index of a partition, as its writer sees it.
    Index,
}

impl Rank {
    /// Whether one thread may hold several of this rank. Those of a switch are taken in the order of
    /// their ranges, by one thread per container at a time.
    #[cfg(debug_assertions)]
    fn is_plural(self) -> bool {
        self == Self::Sequencer
    }
}

/// A lock with a rank.
#[derive(Debug)]
pub(crate) struct RankedLock<T> {
    rank: Rank,
    inner: Mutex<T>,
}

/// A lock that is held.
pub(crate) struct RankedGuard<'l, T> {
    // Let go before the rank is.
    inner: MutexGuard<'l, T>,
    _held: held::Held,
}

impl<T> RankedLock<T> {
    pub(crate) const fn new(rank: Rank, value: T) -> Self {
        Self { rank, inner: Mutex::new(value) }
    }

    /// Takes the lock; in debug builds only if this thread holds none of its rank or above.
    pub(crate) fn lock(&self) -> RankedGuard<'_, T> {
        let held = held::Held::in_order(self.rank);
        RankedGuard { inner: self.inner.lock(), _held: held }
    }

    /// Takes the lock if nobody has it. Who does not wait need not keep the order.
    pub(crate) fn try_lock(&self) -> Option<RankedGuard<'_, T>> {
        let inner = self.inner.try_lock()?;
        Some(RankedGuard { inner, _held: held::Held::anyhow(self.rank) })
    }
}

impl<T> Deref for RankedGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> DerefMut for RankedGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

/// The ranks that this thread holds.
#[cfg(debug_assertions)]
mod held {
    use super::Rank;
    use std::cell::RefCell;

    thread_local! {
        static HELD: RefCell<Vec<Rank>> = const { RefCell::new(Vec::new()) };
    }

    /// A rank that is held until this is dropped.
    pub(super) struct Held(Rank);

    impl Held {
        pub(super) fn in_order(rank: Rank) -> Self {
            HELD.with_borrow(|held| {
                let highest = held.iter().max().copied();
                let is_next = |highest| highest < rank || (highest == rank && rank.is_plural());
                assert!(
                    highest.is_none_or(is_next),
                    "{rank:?} is taken by a thread that holds {held:?}: see the lock table in ARCHITECTURE.md"
                );
            });
            Self::anyhow(rank)
        }

        pub(super) fn anyhow(rank: Rank) -> Self {
            HELD.with_borrow_mut(|held| held.push(rank));
            Self(rank)
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            HELD.with_borrow_mut(|held| {
                if let Some(at) = held.iter().rposition(|rank| *rank == self.0) {
                    held.remove(at);
                }
            });
        }
    }
}

#[cfg(not(debug_assertions))]
mod held {
    use super::Rank;

    pub(super) struct Held;

    impl Held {
        pub(super) fn in_order(_: Rank) -> Self {
            Self
        }

        pub(super) fn anyhow(_: Rank) -> Self {
            Self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_taken_in_the_order_of_their_ranks() {
        let catalog = RankedLock::new(Rank::Catalog, 1);
        let sequencers = [RankedLock::new(Rank::Sequencer, 2), RankedLock::new(Rank::Sequencer, 3)];
        for _ in 0..2 {
            let held: Vec<_> = sequencers.iter().map(RankedLock::lock).collect();
            let guard = catalog.lock();
            assert!(catalog.try_lock().is_none());
            assert_eq!((*guard, *held[0]), (1, 2));
            // Let go in any order.
            drop(held);
            drop(guard);
        }
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "is taken by a thread that holds [Catalog]")]
    fn the_wrong_order_is_seen_without_a_deadlock() {
        let catalog = RankedLock::new(Rank::Catalog, ());
        let sequencer = RankedLock::new(Rank::Sequencer, ());
        let _held = catalog.lock();
        let _wrong = sequencer.lock();
    }

    #[test]
    fn who_does_not_wait_need_not_keep_the_order() {
        let catalog = RankedLock::new(Rank::Catalog, ());
        let replacing = RankedLock::new(Rank::Replacing, ());
        let _held = catalog.lock();
        assert!(replacing.try_lock().is_some());
    }
}
