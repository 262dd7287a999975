//! The items a query goes through: ranges, one consistent view of each, and how items are found.

mod by_id;
mod documents;
mod excluded;
mod hot;
pub(in crate::query) mod merge;
mod shared;

use crate::container::{Container, Settings};
use crate::generation::IndexDefinition;
use crate::indexing::ROOT;
use crate::partition::Partition;
use crate::query::charge::key_paths;
use crate::query::exec::context::Work;
use crate::query::find::points;
use crate::query::find::{Condition, Runs, Selector};
use crate::query::plan::costs::SCAN_MAX;
use crate::query::prepare::Prepared;
use crate::query::read::columns::Reader;
use crate::query::read::prefetch::Neighbours;
use crate::query::token::Place;
use crate::query::view::Target;
use crate::query::{Access, Threads};
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
pub(in crate::query) struct Source<'a> {
    pub(in crate::query) container: &'a Container,
    pub(in crate::query) settings: &'a Settings,
    pub(in crate::query) prepared: &'a Prepared,
    /// In the order of their keys.
    pub(in crate::query) targets: &'a [Target],
    /// Which of them documents come from: all, or the one that a thread goes through.
    pub(in crate::query) visited: Range<usize>,
    /// The keys that documents come from, where several threads go through all documents of a target.
    pub(in crate::query) piece: Option<EpkSpan>,
    /// What the index can say about the condition.
    pub(in crate::query) condition: Condition,
    /// The same, whichever way items are found: what candidates are counted by.
    pub(in crate::query) charged: Condition,
    /// Searches of the index in each range.
    pub(in crate::query) seeks: u64,
    /// What an open transaction has made of items, by ordinal: the index knows these items as they
    /// were. Nothing when the transaction has changed nothing.
    overlay: Option<&'a Overlay>,
    /// The path of `_ts`, which every indexed item has.
    stamp: Option<u32>,
    /// How items are to be found.
    pub(in crate::query) access: Access,
    /// Whether ranges may be gone through side by side.
    pub(in crate::query) threads: Threads,
    /// What the indexes of the targets were built for: the settings, or those of before while new
    /// indexes are built.
    pub(in crate::query) index: Arc<IndexDefinition>,
    /// The index of every target is of this definition.
    indexed: bool,
    /// The second by which items have expired.
    now: u64,
    pub(in crate::query) points: Option<Vec<points::Point>>,
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
pub(in crate::query) struct Found<'s> {
    /// Which of [`Source::targets`].
    pub(in crate::query) target: usize,
    /// Which part of the view, and which document there; nothing when it was found by its id.
    pub(in crate::query) at: Option<(usize, u32)>,
    pub(in crate::query) document: DocumentRef<'s>,
    /// The item, if it was read on the way.
    pub(in crate::query) record: Option<Record>,
    /// What is known of the condition.
    pub(in crate::query) certainty: Certainty<'s>,
}

/// What is known of the condition before an item is looked at.
#[derive(Clone, Copy, PartialEq)]
pub(in crate::query) enum Certainty<'s> {
    /// The item may match.
    Open,
    /// The item matches.
    Matches,
    /// The item matches if this is its partition key.
    ByKey(&'s PartitionKey),
}

impl Found<'_> {
    pub(in crate::query) fn place(&self) -> Place {
        Place { epk: Epk::from_bytes(self.document.epk), docno: self.document.docno }
    }
}

/// One part of a view, the documents of it that are in scope, and the condition on it.
pub(in crate::query) struct PartPlan<'s> {
    pub(in crate::query) number: usize,
    pub(in crate::query) part: &'s Part,
    pub(in crate::query) runs: Runs,
    pub(in crate::query) selector: Selector<'s>,
}

impl PartPlan<'_> {
    pub(in crate::query) fn scope(&self) -> usize {
        self.runs.iter().map(|run| run.len()).sum()
    }

    /// Candidates at most.
    pub(in crate::query) fn size(&self) -> usize {
        self.selector.size().min(self.scope())
    }
}

impl<'a> Source<'a> {
    /// Takes a view of every range that the spans touch.
    pub(in crate::query) fn look_at(container: &Container, spans: &[EpkSpan]) -> Vec<Target> {
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
    pub(in crate::query) fn new(
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
    pub(in crate::query) fn on(self, threads: Threads) -> Self {
        Self { threads, ..self }
    }

    /// The targets that documents come from, and their numbers.
    pub(in crate::query) fn visited(&self) -> impl Iterator<Item = (usize, &'a Target)> {
        let targets: &'a [Target] = self.targets;
        self.visited.clone().filter_map(|number| Some((number, targets.get(number)?)))
    }

    /// The same, as an open transaction sees it.
    pub(in crate::query) fn over(self, overlay: Option<&'a Overlay>) -> Self {
        match overlay.filter(|overlay| !overlay.is_empty()) {
            Some(overlay) => Self { overlay: Some(overlay), ..self }.without_points(),
            None => self,
        }
    }

    /// The same with another choice of how items are found.
    pub(in crate::query) fn by(self, access: Access) -> Self {
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
    pub(in crate::query) fn is_plain(&self) -> bool {
        self.indexed && self.overlay.is_none() && self.access != Access::Items
    }

    /// True when an open transaction has changed items.
    pub(in crate::query) fn is_laid_over(&self) -> bool {
        self.overlay.is_some()
    }

    /// A number of items up to which the index is not asked.
    pub(in crate::query) fn threshold(&self, items: u64) -> u64 {
        if self.access == Access::Index { 0 } else { items }
    }

    /// True when the items are found by their ids.
    pub(in crate::query) fn has_points(&self) -> bool {
        self.points.is_some()
    }

    /// True when values must be tried one by one before items can be found.
    pub(in crate::query) fn tries_values(&self) -> bool {
        self.condition.tries_values()
    }

    /// Items that may have to be looked at, at most.
    pub(in crate::query) fn estimate(&self) -> u64 {
        *self.estimate.get_or_init(|| match &self.points {
            Some(points) => points.len() as u64,
            None => self.visited().map(|(_, target)| self.candidates_of(target)).sum(),
        })
    }

    /// Items of a target that may have to be looked at, at most.
    pub(in crate::query) fn candidates_of(&self, target: &Target) -> u64 {
        let scope = target.scope();
        if scope <= self.threshold(SCAN_MAX) || !self.condition.is_useful() {
            return scope;
        }
        let sizes = self.parts(target, None).iter().map(PartPlan::size).sum::<usize>();
        (sizes as u64).min(scope)
    }

    /// Live documents in scope, expired ones included.
    pub(in crate::query) fn scope(&self) -> u64 {
        self.targets.iter().map(Target::scope).sum()
    }

    /// The parts of a target that have documents in scope, with the condition on each.
    pub(in crate::query) fn parts<'s>(
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
    pub(in crate::query) fn is_bare(&self, part: &Part) -> bool {
        let stamped = self.stamp.and_then(|path| part.path(path));
        stamped.is_none_or(|index| index.documents_with() < part.len())
    }

    /// True when some documents of some part have no terms.
    pub(in crate::query) fn is_any_bare(&self) -> bool {
        let bare =
            |target: &Target| target.published.view.parts().iter().any(|part| self.is_bare(part));
        self.targets.iter().any(bare)
    }

    /// False once an item's time to live has passed.
    pub(in crate::query) fn is_alive(&self, document: &DocumentRef<'_>) -> bool {
        self.settings.policy.liveness(self.now).is_alive(document.ts, document.ttl)
    }

    /// The same, for a document of a part.
    pub(in crate::query) fn is_alive_at(&self, part: &Part, local: u32) -> bool {
        let liveness = self.settings.policy.liveness(self.now);
        if !liveness.is_limited() {
            return true;
        }
        let (ts, ttl) = part.ts_and_ttl(local);
        liveness.is_alive(ts, ttl)
    }

    fn is_gone(&self, found: &Found<'_>) -> bool {
        matches!(self.laid_over(found), Some(None))
    }

    fn laid_over(&self, found: &Found<'_>) -> Option<&Option<Record>> {
        self.overlay?.get(&found.document.docno)
    }

    /// The live document at a place, if it is in scope.
    pub(in crate::query) fn find(&self, place: &Place) -> Option<Found<'_>> {
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
    pub(in crate::query) fn record(&self, found: &Found<'_>, work: &mut Work) -> Result<Record> {
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
    pub(in crate::query) fn read_at_most(&self, items: u64) {
        self.neighbours.lock().limit(items);
    }

    /// Says that items will be read in another order than that of their partitions from now on.
    pub(in crate::query) fn read_anywhere(&self) {
        self.neighbours.lock().leave_order();
    }

    /// What reads the items, or what the query needs of them.
    pub(in crate::query) fn reader(&self) -> Reader<'_> {
        Reader::new(self, &self.prepared.references)
    }

    /// The same, before rows are made: where those are copies, the items are read for them only.
    pub(in crate::query) fn key_reader(&self) -> Reader<'_> {
        Reader::new(self, &self.prepared.key_references)
    }

    /// How each target is gone through, one line each.
    pub(in crate::query) fn describe(&self) -> Vec<String> {
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
pub(in crate::query) fn overlap(left: &EpkSpan, right: &EpkSpan) -> Option<EpkSpan> {
    left.overlap(right)
}
