//! Tallies of work that one request does once: hashing its partition key, looking up its container,
//! parsing its body. Debug builds count, each thread for itself, so that tests can hold the server to it;
//! in release builds nothing is left of this.

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// An effective partition key was hashed.
    KeyHash,
    /// A partition key was held against its container's definition.
    KeyCheck,
    /// A container was looked up by its path.
    ContainerLookup,
    /// The settings of a container were loaded.
    SettingsLoad,
    /// A list of session tokens was read.
    SessionList,
    /// The body of an item was parsed.
    ItemParse,
}

#[cfg(debug_assertions)]
mod counted {
    use super::Work;
    use std::cell::Cell;

    const KINDS: usize = Work::ItemParse as usize + 1;

    thread_local! {
        static COUNTS: [Cell<u64>; KINDS] = const { [const { Cell::new(0) }; KINDS] };
    }

    pub(super) fn add(work: Work) {
        // A thread that is ending counts no more.
        let _ = COUNTS.try_with(|counts| {
            let count = &counts[work as usize];
            count.set(count.get() + 1);
        });
    }

    pub(super) fn read(work: Work) -> u64 {
        COUNTS.with(|counts| counts[work as usize].get())
    }
}

/// Counts one piece of work of this thread.
#[inline]
pub fn count(work: Work) {
    #[cfg(debug_assertions)]
    counted::add(work);
    #[cfg(not(debug_assertions))]
    let _ = work;
}

/// How often this thread has done such work. Always 0 in release builds.
pub fn read(work: Work) -> u64 {
    #[cfg(debug_assertions)]
    return counted::read(work);
    #[cfg(not(debug_assertions))]
    {
        let _ = work;
        0
    }
}
