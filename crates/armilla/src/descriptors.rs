//! Open files: who may have how many.
//!
//! Connections, tables and journals draw on one number that the system sets. The store must never
//! find it used up, because a flush that cannot open its file ends the process. So the number is raised as
//! far as the system lets us, the store's part is set aside, and connections share what is left.

use armilla_gateway::limits::{CONNECTIONS_MAX, REFUSALS_MAX};

/// Files that must stay free for what is no connection and no table that is kept open: journals,
/// tables being written or merged, index files, certificates, the log.
const RESERVE: usize = 128;
/// Tables that the store keeps open at most; of a small number it gets a quarter.
const TABLES_MAX: usize = 900;
/// Fewer than this many open files are too few to serve with.
const DESCRIPTORS_MIN: usize = 256;
/// Fewer connections than this are worth a word at the start.
const CONNECTIONS_FEW: usize = 1_000;
/// What is taken where the system has no such number.
const UNLIMITED: usize = 1 << 20;

/// The parts of the number of open files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptors {
    /// The whole number.
    pub(crate) limit: usize,
    /// Tables that the store keeps open.
    pub(crate) tables: usize,
    /// Connections served at once.
    pub(crate) connections: usize,
    /// Connections turned away at once.
    pub(crate) refusals: usize,
}

impl Descriptors {
    /// Raises the limit of this process as far as it goes and divides it.
    pub(crate) fn claim() -> Result<Self, String> {
        Self::divide(raise())
    }

    fn divide(limit: usize) -> Result<Self, String> {
        if limit < DESCRIPTORS_MIN {
            return Err(format!(
                "this process may open {limit} files, and a server needs {DESCRIPTORS_MIN} at least: \
                 raise the hard limit (ulimit -Hn, LimitNOFILE of a unit, --ulimit nofile of a container)"
            ));
        }
        let tables = (limit / 4).min(TABLES_MAX);
        let refusals = (limit / 16).min(REFUSALS_MAX);
        let connections = (limit - tables - refusals - RESERVE).min(CONNECTIONS_MAX);
        Ok(Self { limit, tables, connections, refusals })
    }

    /// What to tell whoever starts a server that can serve few.
    pub(crate) fn warning(&self) -> Option<String> {
        let Self { limit, connections, .. } = *self;
        (connections < CONNECTIONS_FEW).then(|| {
            format!(
                "this process may open {limit} files, so it serves {connections} connections at most; \
                 raise the hard limit (ulimit -Hn, LimitNOFILE) for more"
            )
        })
    }
}

/// Sets the soft limit to the hard one and says what it is then.
#[cfg(unix)]
fn raise() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let found = getrlimit(Resource::Nofile);
    let wanted = Rlimit { current: found.maximum, maximum: found.maximum };
    // Some systems name a hard limit that they do not grant; the soft one then stays.
    let granted = match setrlimit(Resource::Nofile, wanted) {
        Ok(()) => found.maximum,
        Err(_) => found.current,
    };
    granted.map_or(UNLIMITED, |limit| usize::try_from(limit).unwrap_or(UNLIMITED))
}

#[cfg(not(unix))]
fn raise() -> usize {
    UNLIMITED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_never_exceed_the_limit_and_leave_the_reserve() {
        for limit in [256, 300, 512, 1_024, 4_096, 20_000, 65_536, 1 << 20] {
            let parts = Descriptors::divide(limit).unwrap();
            let Descriptors { tables, connections, refusals, .. } = parts;
            assert!(tables + connections + refusals + RESERVE <= limit, "{parts:?}");
            assert!(connections >= 32 && refusals >= 16 && tables >= 64, "{parts:?}");
        }
        let usual = Descriptors::divide(1_024).unwrap();
        assert_eq!((usual.tables, usual.connections, usual.refusals), (256, 576, 64));
        assert!(usual.warning().is_some());
        let plenty = Descriptors::divide(1 << 20).unwrap();
        assert_eq!(plenty.connections, CONNECTIONS_MAX);
        assert!(plenty.warning().is_none());
    }

    #[test]
    fn too_few_open_files_are_refused_with_advice() {
        let refused = Descriptors::divide(255).unwrap_err();
        assert!(refused.contains("255") && refused.contains("LimitNOFILE"), "{refused}");
    }
}
