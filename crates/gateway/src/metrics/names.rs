//! Which containers have labels of their own.
//!
//! The first that are asked for get some, up to a number; the labels of those that are deleted go to others. Whoever has none is
//! counted under the name `other`, and no figures by container or range are known of it.

use super::kinds::CountedFor;
use super::{NONE, OTHER};
use crate::limits::COUNTED_CONTAINERS_MAX;
use crate::word_hash::WordHash;
use arc_swap::ArcSwap;
use armilla_engine::Container;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The labels of a container: database and name.
type OwnLabels = (String, String);

/// Containers that have labels of their own, by number.
#[derive(Clone, Default)]
pub(super) struct Names(Arc<KnownNames>);

#[derive(Default)]
struct KnownNames {
    known: ArcSwap<HashMap<u32, Arc<OwnLabels>, WordHash>>,
    /// Somebody was turned away since labels were last released.
    wanted: AtomicBool,
}

impl Names {
    /// The labels of a container: its own while there are few.
    pub(super) fn of(&self, container: Option<&Container>) -> OwnLabels {
        let Some(container) = container else { return (NONE.to_owned(), NONE.to_owned()) };
        match self.is_known(container) {
            true => labels_of(container),
            false => (OTHER.to_owned(), OTHER.to_owned()),
        }
    }

    /// Whose labels a container's requests are counted under.
    pub(super) fn owner(&self, container: Option<&Container>) -> CountedFor {
        match container {
            None => CountedFor::Nobody,
            Some(container) if self.is_known(container) => CountedFor::Container(container.number),
            Some(_) => CountedFor::Other,
        }
    }

    /// Whether a container has labels, or would get some with its next request.
    pub(super) fn counts(&self, number: u32) -> bool {
        let known = self.0.known.load();
        known.contains_key(&number) || known.len() < COUNTED_CONTAINERS_MAX
    }

    /// Whether a container was turned away. Says so once.
    pub(super) fn are_wanted(&self) -> bool {
        self.0.wanted.swap(false, Ordering::Relaxed)
    }

    /// Takes the labels of containers that do not live; they come back with their numbers, but for those that a living
    /// container of the same name has too.
    pub(super) fn release(&self, lives: &HashSet<u32>) -> Vec<(u32, Option<OwnLabels>)> {
        let before = self.0.known.load_full();
        self.0.known.rcu(|known| {
            let mut known = HashMap::clone(known);
            known.retain(|number, _| lives.contains(number));
            known
        });
        let after = self.0.known.load();
        let gone = before.iter().filter(|(number, _)| !lives.contains(number));
        let released = gone.map(|(number, labels)| {
            let is_shared = after.values().any(|other| other == labels);
            (*number, (!is_shared).then(|| OwnLabels::clone(labels)))
        });
        released.collect()
    }

    fn is_known(&self, container: &Container) -> bool {
        let number = container.number;
        let known = self.0.known.load();
        if known.contains_key(&number) {
            return true;
        }
        if known.len() >= COUNTED_CONTAINERS_MAX {
            self.0.wanted.store(true, Ordering::Relaxed);
            return false;
        }
        self.0.known.rcu(|known| {
            let mut known = HashMap::clone(known);
            if known.len() < COUNTED_CONTAINERS_MAX {
                known.insert(number, Arc::new(labels_of(container)));
            }
            known
        });
        self.0.known.load().contains_key(&number)
    }
}

fn labels_of(container: &Container) -> OwnLabels {
    let settings = container.settings();
    (settings.database.to_string(), settings.name.to_string())
}
