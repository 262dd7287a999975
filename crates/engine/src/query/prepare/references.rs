//! Paths that a query reads of an item, and the members they begin with.

use crate::query::plan::costs::COVERED_PATHS_MAX;
use armilla_model::json::Wanted;
use armilla_sql::access::PathStep;
use std::sync::{Arc, OnceLock};

/// Paths of an item.
pub(in crate::query) struct References {
    pub(in crate::query) paths: Vec<Vec<PathStep>>,
    /// What looks for the members in stored texts, made when the first text is read and kept with the query.
    members: OnceLock<Option<Wanted>>,
}

impl References {
    pub(super) fn new(paths: Vec<Vec<PathStep>>) -> Self {
        Self { paths, members: OnceLock::new() }
    }

    /// The members that paths begin with; nothing when one is the whole item, or there are too many.
    pub(in crate::query) fn members(&self) -> Option<&Wanted> {
        self.members.get_or_init(|| self.names().map(Wanted::new)).as_ref()
    }

    /// The same with some members more.
    pub(in crate::query) fn members_and(
        &self,
        more: impl Iterator<Item = Arc<str>>,
    ) -> Option<Wanted> {
        let mut names = self.names()?;
        more.for_each(|name| add(&mut names, name));
        Some(Wanted::new(names))
    }

    fn names(&self) -> Option<Vec<Arc<str>>> {
        if self.paths.len() > COVERED_PATHS_MAX {
            return None;
        }
        let mut names = Vec::with_capacity(self.paths.len());
        for path in &self.paths {
            match path.first()? {
                PathStep::Name(name) => add(&mut names, name.clone()),
                // An item has no elements.
                PathStep::Element => {}
            }
        }
        Some(names)
    }
}

fn add(names: &mut Vec<Arc<str>>, name: Arc<str>) {
    if !names.contains(&name) {
        names.push(name);
    }
}
