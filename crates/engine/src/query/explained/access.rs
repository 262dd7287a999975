//! The step that finds candidates: by id, by indexes, or by going through everything in scope.

use super::Steps;
use crate::query::explain::{Step, StepKind};
use crate::query::find::{Condition, describe, describe_path};
use crate::query::plan::{Operator, RangeAccess};
use armilla_sql::access::Node;

impl Steps<'_> {
    /// How candidates are found; nothing where the step above has the index answer for all items.
    pub(super) fn access(&self) -> Option<Step> {
        if let Some(points) = &self.plan.points {
            let says = format!("point reads: {}", points.len());
            let mut step = Step::new(StepKind::Seek, says);
            step.count = Some(points.len() as u64);
            return Some(step);
        }
        let plan = self.plan;
        let reached = |range: &usize| plan.has_looked_up(*range);
        let ranges = 0..plan.view.ranges.len();
        let scanned = |range: &usize| plan.access_of(*range) == RangeAccess::Scan;
        let by_index =
            plan.is_selective() && ranges.clone().filter(reached).any(|it| !scanned(&it));
        let uses_selectors = matches!(
            plan.operator,
            Operator::OrderedScan(_) | Operator::MinMax { .. } | Operator::IndexAggregate(_)
        );
        if !(by_index || uses_selectors && plan.is_selective()) {
            if uses_selectors && (self.page.is_none() || self.reads_nothing()) {
                return None;
            }
            let by_index = if self.reads_nothing() { ", by the index" } else { "" };
            let mut step = Step::new(StepKind::Scan, format!("every item in scope{by_index}"));
            step.candidates = Some(plan.view.scope());
            step.rows_out = self.visited();
            return Some(step);
        }
        let reached: Vec<usize> = ranges.filter(reached).collect();
        let size: usize =
            reached.iter().flat_map(|range| plan.parts(*range)).map(|it| it.size()).sum();
        let parts: usize = reached.iter().map(|range| plan.parts(*range).len()).sum();
        let exact = if self.is_exact() { "exact" } else { "checked again" };
        let says = format!("index: at most {size} in {parts} part(s), {exact}");
        let kind = if self.searches() > 1 { StepKind::Intersect } else { StepKind::Seek };
        let mut step = Step::new(kind, says);
        step.served = self.described(Condition::is_useful);
        step.index = Some(self.serving_indexes().join(", ")).filter(|paths| !paths.is_empty());
        step.candidates = Some(size as u64);
        step.rows_out = self.visited();
        Some(step)
    }

    /// The indexes that serve the condition: of single paths, and a composite one if it serves more.
    fn serving_indexes(&self) -> Vec<String> {
        let mut paths = Vec::new();
        let conjuncts = self.conjuncts();
        for (node, _) in conjuncts.iter().filter(|(_, condition)| condition.is_useful()) {
            indexed_paths(node, &mut paths);
        }
        if matches!(&self.plan.condition, Condition::And(parts) if parts.len() > conjuncts.len()) {
            let composites = self.usage.utilized_composites.iter();
            paths.extend(composites.map(|paths| format!("({})", paths.join(", "))));
        }
        paths
    }

    fn visited(&self) -> Option<u64> {
        let counters = self.counters()?;
        // The ends of an index stand for items that nobody looked at.
        if matches!(self.plan.operator, Operator::MinMax { .. }) && !counters.taken.min_max_missed {
            return None;
        }
        match counters.tallies.is_empty() {
            true => Some(counters.visited).filter(|visited| *visited > 0),
            false => Some(counters.tallies.iter().map(|tally| tally.visited).sum()),
        }
    }

    /// The parts of the condition, as the text has them and as the index sees them.
    fn conjuncts(&self) -> Vec<(&Node, &Condition)> {
        match (&self.query.prepared.node, &self.plan.condition) {
            (Node::And(nodes), Condition::And(conditions)) => {
                nodes.iter().zip(conditions).collect()
            }
            (node, condition) => vec![(node, condition)],
        }
    }

    /// Those parts in words that pass a test.
    pub(super) fn described(&self, passes: impl Fn(&Condition) -> bool) -> Option<String> {
        let conjuncts = self.conjuncts();
        let parts = conjuncts.iter().filter(|(_, condition)| passes(condition));
        let described = |node: &Node| match node {
            Node::Or(_) if conjuncts.len() > 1 => format!("({})", describe(node)),
            node => describe(node),
        };
        let parts: Vec<String> = parts.map(|(node, _)| described(node)).collect();
        Some(parts.join(" and ")).filter(|parts| !parts.is_empty())
    }

    /// How many tests the index serves at once.
    fn searches(&self) -> usize {
        match &self.plan.condition {
            Condition::Or(parts) => parts.len(),
            _ => self.conjuncts().iter().filter(|(_, condition)| condition.is_useful()).count(),
        }
    }

    /// True when whatever the index finds matches.
    pub(super) fn is_exact(&self) -> bool {
        let plan = self.plan;
        let parts = (0..plan.view.ranges.len())
            .filter(|range| plan.has_looked_up(*range))
            .flat_map(|range| plan.parts(range));
        let mut parts = parts.peekable();
        parts.peek().is_some() && plan.is_plain() && parts.all(|it| it.selector.may_be_exact())
    }
}

/// The paths that a condition tests, as policies name indexes of single paths.
fn indexed_paths(node: &Node, paths: &mut Vec<String>) {
    match node {
        Node::All | Node::Nothing | Node::Unknown => {}
        Node::Atom(atom) => {
            let path = format!("{}/?", describe_path(&atom.path));
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        Node::And(parts) | Node::Or(parts) => {
            parts.iter().for_each(|part| indexed_paths(part, paths));
        }
    }
}
