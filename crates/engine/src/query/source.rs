//! The items a query goes through: ranges, one consistent view of each, and how items are found.

mod by_id;
mod documents;
mod excluded;
mod hot;
mod merge;
mod shared;
mod target;

pub(super) use target::Target;

use super::access::{Condition, Runs, Selector};
use super::bill::key_paths;
use super::neighbours::Neighbours;
use super::plan::costs::SCAN_MAX;
use super::points;
use super::prepare::Prepared;
use super::reader::Reader;
use super::token::Place;
use super::work::Work;
use super::{Access, Threads};
use crate::container::{Container, Settings};
use crate::generation::IndexDefinition;
use crate::indexing::ROOT;
use crate::partition::Partition;
use crate::ranges::EpkSpan;
use crate::record::Record;
use armilla_index::{DocumentRef, Part};
use armilla_model::error::{Error, Result};
use armilla_model::partition_key::{Epk, PartitionKey};
use armilla_sql::access::KeyConstraint;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Everything in the scope of a query.
pub(super) struct Source<'a> {
    pub(super) container: &'a Container,
    pub(super) settings: &'a Settings,
    pub(super) prepared: &'a Prepared,
    /// In the order of their keys.
    pub(super) targets: &'a [Target],
    /// Which of them documents come from: all, or the one that a thread goes through.
    pub(super) visited: Range<usize>,
    /// The keys that documents come from, where several threads go through all documents of a target.
    pub(super) piece: Option<EpkSpan>,
    /// What the index can say about the condition.
    pub(super) condition: Condition,
    /// The same, whichever way items are found: what candidates are counted by.
    pub(super) charged: Condition,
    /// Searches of the index in each range.
    pub(super) seeks: u64,
    /// What an open transaction has made of items, by ordinal: the index knows these items as they
    /// were. Nothing when the transaction has changed nothing.
    overlay: Option<&'a Overlay>,
    /// The path of `_ts`, which every indexed item has.
    stamp: Option<u32>,
    /// How items are to be found.
    pub(super) access: Access,
    /// Whether ranges may be gone through side by side.
    pub(super) threads: Threads,
    /// What the indexes of the targets were built for: the settings, or those of before while new
    /// indexes are built.
    pub(super) index: Arc<IndexDefinition>,
    /// The index of every target is of this definition.
    indexed: bool,
    /// The second by which items have expired.
    now: u64,
    pub(super) points: Option<Vec<points::Point>>,
    /// Used by one thread at a time; each has a source of its own.
    neighbours: Mutex<Neighbours>,
    estimate: OnceLock<u64>,
    /// Documents that are excluded from the index, by target and part.
    excluded: OnceLock<Vec<Vec<excluded::Locals>>>,
}

/// Items that are different from what the index and the store say, by ordinal: their version, or
/// nothing if they are gone.
pub(crate) type Overlay = HashMap<u64, Option<Record>>;

/// A document of a target.
#[derive(Clone)]
pub(super) struct Found<'s> {
    /// Which of [`Source::targets`].
    pub(super) target: usize,
    /// Which part of the view, and which document there; nothing when it was found by its id.
    pub(super) at: Option<(usize, u32)>,
    pub(super) document: DocumentRef<'s>,
    /// The item, if it was read on the way.
    pub(super) record: Option<Record>,
    /// What is known of the condition.
    pub(super) certainty: Certainty<'s>,
}

/// What is known of the condition before an item is looked at.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Certainty<'s> {
    /// The item may match.
    Open,
    /// The item matches.
    Matches,
    /// The item matches if this is its partition key.
    ByKey(&'s PartitionKey),
}

impl Found<'_> {
    pub(super) fn place(&self) -> Place {
        Place { epk: Epk::from_bytes(self.document.epk), docno: self.document.docno }
    }
}

/// One part of a view, the documents of it that are in scope, and the condition on it.
pub(super) struct PartPlan<'s> {
    pub(super) number: usize,
    pub(super) part: &'s Part,
    pub(super) runs: Runs,
    pub(super) selector: Selector<'s>,
}

impl PartPlan<'_> {
    pub(super) fn scope(&self) -> usize {
        self.runs.iter().map(|run| run.len()).sum()
    }

    /// Candidates at most.
    pub(super) fn size(&self) -> usize {
        self.selector.size().min(self.scope())
    }
}

impl<'a> Source<'a> {
    /// Takes a view of every range that the spans touch.
    pub(super) fn look_at(container: &Container, spans: &[EpkSpan]) -> Vec<Target> {
        let target = |partition: &Arc<Partition>| {
            let parts = spans.iter().filter_map(|span| partition.range.overlap(span));
            let spans: Vec<_> = parts.collect();
            if spans.is_empty() {
                return None;
            }
            Some(Target::new(partition.clone(), spans, container.core.consistent_view(partition)))
        };
        container.partitions().iter().filter_map(target).collect()
    }

    /// The items of ranges that were looked at.
    pub(super) fn new(
        container: &'a Container,
        settings: &'a Settings,
        prepared: &'a Prepared,
        targets: &'a [Target],
        scope_key: Option<&Epk>,
    ) -> Self {
        let policy = &settings.policy;
        let points = points::find(&prepared.node, &policy.partition_key, scope_key);
        let first = targets.first().map(|target| target.published.definition.clone());
        let index = first.unwrap_or_else(|| container.index_definition());
        let indexed = targets.iter().all(|target| target.published.definition.id == index.id);
        let condition = if indexed && points.is_none() {
            Condition::resolve(&prepared.node, container, &index.policy)
        } else {
            Condition::Unknown
        };
        let pinned = scope_key.is_some() || matches!(*prepared.constraint, KeyConstraint::Keys(_));
        let key_paths = if pinned { key_paths(container, policy) } else { Vec::new() };
        Self {
            targets,
            visited: 0..targets.len(),
            piece: None,
            seeks: condition.seeks(&key_paths),
            charged: condition.clone(),
            condition,
            indexed,
            index,
            stamp: container.paths.find_name(ROOT, "_ts"),
            now: u64::from(container.core.now_seconds()),
            points,
            neighbours: Mutex::default(),
            estimate: OnceLock::new(),
            excluded: OnceLock::new(),
            overlay: None,
            access: Access::ByCost,
            threads: Threads::ByCost,
            container,
            settings,
            prepared,
        }
    }

    /// The same with another choice of how many threads there may be.
    pub(super) fn on(self, threads: Threads) -> Self {
        Self { threads, ..self }
    }

    /// The targets that documents come from, and their numbers.
    pub(super) fn visited(&self) -> impl Iterator<Item = (usize, &'a Target)> {
        let targets: &'a [Target] = self.targets;
        self.visited.clone().filter_map(|number| Some((number, targets.get(number)?)))
    }

    /// The same, as an open transaction sees it.
    pub(super) fn over(self, overlay: Option<&'a Overlay>) -> Self {
        match overlay.filter(|overlay| !overlay.is_empty()) {
            Some(overlay) => Self { overlay: Some(overlay), ..self }.without_points(),
            None => self,
        }
    }

    /// The same with another choice of how items are found.
    pub(super) fn by(self, access: Access) -> Self {
        match access {
            Access::ByCost | Access::Index => Self { access, ..self },
            Access::Items => {
                Self { access, condition: Condition::Unknown, ..self.without_points() }
            }
        }
    }

    /// The same, finding items by condition that were named by their ids.
    fn without_points(self) -> Self {
        if self.points.is_none() || !self.indexed {
            return Self { points: None, ..self };
        }
        let policy = &self.settings.policy;
        let charged = Condition::resolve(&self.prepared.node, self.container, &self.index.policy);
        let seeks = charged.seeks(&key_paths(self.container, policy));
        Self { points: None, charged, seeks, ..self }
    }

    /// True when the index may answer for items: it knows them as they are.
    pub(super) fn is_plain(&self) -> bool {
        self.indexed && self.overlay.is_none() && self.access != Access::Items
    }

    /// True when an open transaction has changed items.
    pub(super) fn is_laid_over(&self) -> bool {
        self.overlay.is_some()
    }

    /// A number of items up to which the index is not asked.
    pub(super) fn threshold(&self, items: u64) -> u64 {
        if self.access == Access::Index { 0 } else { items }
    }

    /// True when the items are found by their ids.
    pub(super) fn has_points(&self) -> bool {
        self.points.is_some()
    }

    /// True when values must be tried one by one before items can be found.
    pub(super) fn tries_values(&self) -> bool {
        self.condition.tries_values()
    }

    /// Items that may have to be looked at, at most.
    pub(super) fn estimate(&self) -> u64 {
        *self.estimate.get_or_init(|| match &self.points {
            Some(points) => points.len() as u64,
            None => self.visited().map(|(_, target)| self.candidates_of(target)).sum(),
        })
    }

    /// Items of a target that may have to be looked at, at most.
    pub(super) fn candidates_of(&self, target: &Target) -> u64 {
        let scope = target.scope();
        if scope <= self.threshold(SCAN_MAX) || !self.condition.is_useful() {
            return scope;
        }
        let sizes = self.parts(target, None).iter().map(PartPlan::size).sum::<usize>();
        (sizes as u64).min(scope)
    }

    /// Live documents in scope, expired ones included.
    pub(super) fn scope(&self) -> u64 {
        self.targets.iter().map(Target::scope).sum()
    }

    /// The parts of a target that have documents in scope, with the condition on each.
    pub(super) fn parts<'s>(
        &'s self,
        target: &'s Target,
        after: Option<&Place>,
    ) -> Vec<PartPlan<'s>> {
        let plan = |(number, part, runs): (usize, &'s Part, Runs)| {
            let scope = runs.iter().map(|run| run.len()).sum();
            let selector = Selector::new(&self.condition, part, scope, self.is_bare(part));
            PartPlan { number, part, runs, selector }
        };
        target.runs(after).map(plan).collect()
    }

    /// True when some documents of a part have no terms: their writers wanted none.
    pub(super) fn is_bare(&self, part: &Part) -> bool {
        let stamped = self.stamp.and_then(|path| part.path(path));
        stamped.is_none_or(|index| index.documents_with() < part.len())
    }

    /// True when some documents of some part have no terms.
    pub(super) fn is_any_bare(&self) -> bool {
        let bare =
            |target: &Target| target.published.view.parts().iter().any(|part| self.is_bare(part));
        self.targets.iter().any(bare)
    }

    /// False once an item's time to live has passed.
    pub(super) fn is_alive(&self, document: &DocumentRef<'_>) -> bool {
        let expires_at = document.expires_at(self.settings.policy.default_ttl);
        expires_at.is_none_or(|deadline| self.now < deadline)
    }

    /// The same, for a document of a part.
    pub(super) fn is_alive_at(&self, part: &Part, local: u32) -> bool {
        let Some(default_ttl) = self.settings.policy.default_ttl else { return true };
        let (ts, ttl) = part.ts_and_ttl(local);
        let expires_at = armilla_index::expires_at(ts, ttl, Some(default_ttl));
        expires_at.is_none_or(|deadline| self.now < deadline)
    }

    fn is_gone(&self, found: &Found<'_>) -> bool {
        matches!(self.laid_over(found), Some(None))
    }

    fn laid_over(&self, found: &Found<'_>) -> Option<&Option<Record>> {
        self.overlay?.get(&found.document.docno)
    }

    /// The live document at a place, if it is in scope.
    pub(super) fn find(&self, place: &Place) -> Option<Found<'_>> {
        let target = |target: &Target| target.partition.range.contains(&place.epk);
        let number = self.targets.iter().position(target)?;
        let view = &self.targets[number].published.view;
        let located = view.find(place.epk.as_bytes(), place.docno)?;
        let found = Found {
            target: number,
            at: Some((located.part, located.local)),
            document: located.document,
            record: None,
            certainty: Certainty::Open,
        };
        (!self.is_gone(&found)).then_some(found)
    }

    /// Reads a document's item.
    pub(super) fn record(&self, found: &Found<'_>, work: &mut Work) -> Result<Record> {
        let record = match (&found.record, self.laid_over(found)) {
            (_, Some(Some(record))) | (Some(record), _) => record.clone(),
            (None, _) => {
                let document = &found.document;
                let beside = self.neighbours.lock().take(self, found.target, document)?;
                match beside {
                    Some(record) => record,
                    None => self.search(found.target, document)?,
                }
            }
        };
        work.loaded(record.size())?;
        Ok(record)
    }

    /// Searches the store for a document's item.
    fn search(&self, target: usize, document: &DocumentRef<'_>) -> Result<Record> {
        let (snapshot, epk) = (self.targets[target].snapshot(), Epk::from_bytes(document.epk));
        let read = self.container.find_by_docno(snapshot, &epk, document.hash, document.docno)?;
        read.ok_or_else(|| Error::Internal("the index names an item that is not there".to_owned()))
    }

    /// Says that no more than so many items will be read.
    pub(super) fn read_at_most(&self, items: u64) {
        self.neighbours.lock().limit(items);
    }

    /// Says that items will be read in another order than that of their partitions from now on.
    pub(super) fn read_anywhere(&self) {
        self.neighbours.lock().leave_order();
    }

    /// What reads the items, or what the query needs of them.
    pub(super) fn reader(&self) -> Reader<'_> {
        Reader::new(self, &self.prepared.references)
    }

    /// The same, before rows are made: where those are copies, the items are read for them only.
    pub(super) fn key_reader(&self) -> Reader<'_> {
        Reader::new(self, &self.prepared.key_references)
    }

    /// How each target is gone through, one line each.
    pub(super) fn describe(&self) -> Vec<String> {
        if let Some(points) = &self.points {
            return vec![format!("point reads: {}", points.len())];
        }
        let describe = |target: &Target| {
            let (id, spans) = (target.partition.range.id, target.spans.len());
            let scope = target.scope();
            let head = format!("range {id}: {spans} span(s), {scope} item(s)");
            if !self.condition.is_useful() || scope <= self.threshold(SCAN_MAX) {
                return format!("{head}, scan");
            }
            let parts = self.parts(target, None);
            let size: usize = parts.iter().map(PartPlan::size).sum();
            let exact = parts.iter().all(|plan| plan.selector.may_be_exact());
            let exact = if exact { "exact" } else { "checked again on items" };
            format!("{head}, index: at most {size} in {} part(s), {exact}", parts.len())
        };
        self.targets.iter().map(describe).collect()
    }
}

/// What two spans share.
pub(super) fn overlap(left: &EpkSpan, right: &EpkSpan) -> Option<EpkSpan> {
    left.overlap(right)
}
