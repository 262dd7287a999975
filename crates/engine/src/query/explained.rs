//! Explanation of a page: the steps of its plan, and what was counted while it ran.
//!
//! Every charge belongs to one step, so the steps add up to the page: ranges and searches to the step that finds
//! candidates, items to the one that reads them, evaluation to JOINs or to the step that makes rows, groups to
//! theirs, and rows handed out to the last one.

mod access;
mod levels;

use super::Query;
use super::counters::Counters;
use super::explain::{
    Alternative, ExplainedRange, ExplainedRun, Explanation, Step, StepDirection, StepKind,
};
use super::page::Page;
use super::plan::{Operator, OrderIndex, Plan};
use super::prepare::Shape;
use armilla_index::Direction;
use armilla_model::charge::RequestCharge;
use armilla_sql::access::IndexUsage;
use armilla_sql::compiled::Order;
use std::time::Duration;

impl Query {
    /// How a page is answered by a plan, and what that took if it was made.
    pub fn explain(&self, plan: &Plan, page: Option<&Page>) -> Explanation {
        let usage = self.index_usage();
        let steps = Steps { query: self, plan, page, usage: &usage };
        let run = page.map(|page| run_of(plan, page));
        let root = steps.chain();
        if let Some(page) = page {
            debug_assert_eq!(root.charge_in_all(), page.charge, "every charge has its step");
        }
        Explanation {
            shape: shape(self, plan),
            says: steps.says(),
            why: steps.why(),
            root,
            run,
            indexes_used: all(&usage.utilized, &usage.utilized_composites),
            indexes_possible: all(&usage.potential, &usage.potential_composites),
        }
    }
}

fn all(single: &[String], composite: &[Vec<String>]) -> Vec<Vec<String>> {
    single.iter().map(|path| vec![path.clone()]).chain(composite.iter().cloned()).collect()
}

fn shape(query: &Query, plan: &Plan) -> &'static str {
    match query.prepared.shape {
        Shape::Stream if plan.has_points() => "points",
        Shape::Stream => "stream",
        Shape::Ordered => "ordered",
        Shape::Grouped => "grouped",
        Shape::Whole => "whole",
    }
}

fn run_of(plan: &Plan, page: &Page) -> ExplainedRun {
    let id = |number: usize| plan.view.ranges.get(number).map(|range| range.partition.range.id);
    let charge_of = |id: u32| match page.shares.iter().find(|(range, _)| *range == id) {
        Some((_, charge)) => *charge,
        None => page.charge,
    };
    let times = page.counters.times.as_ref();
    // Groups and rows that are made at once come from all ranges together.
    let by_range =
        matches!(plan.operator, Operator::Stream | Operator::OrderedScan(_) | Operator::TopK);
    let rows_of = |number: usize| match plan.view.ranges.len() {
        1 => Some(page.rows.len() as u64),
        _ if by_range => Some(page.counters.rows_of_ranges.get(number).copied().unwrap_or(0)),
        _ => None,
    };
    let range = |number: usize| {
        let id = id(number)?;
        let time = times.map(|times| times.ranges.get(number).copied().unwrap_or_default());
        Some(ExplainedRange { id, rows: rows_of(number), charge: charge_of(id), time })
    };
    ExplainedRun {
        charge: page.charge,
        time: page.metrics.total_time + plan.planned_in().unwrap_or_default(),
        rows: page.rows.len() as u64,
        ranges: (0..plan.view.ranges.len()).filter_map(range).collect(),
    }
}

/// What steps are made of.
struct Steps<'e> {
    query: &'e Query,
    plan: &'e Plan,
    page: Option<&'e Page>,
    usage: &'e IndexUsage,
}

impl Steps<'_> {
    fn counters(&self) -> Option<&Counters> {
        self.page.map(|page| &page.counters)
    }

    /// A number of the page, if it was made.
    fn counted(&self, count: impl FnOnce(&Page) -> u64) -> Option<u64> {
        self.page.map(count)
    }

    fn charge(&self, charge: impl FnOnce(&Counters) -> RequestCharge) -> RequestCharge {
        self.counters().map_or(RequestCharge::ZERO, charge)
    }

    /// All steps, the last one on top.
    fn chain(&self) -> Step {
        if self.plan.view.ranges.is_empty() {
            return self.without_ranges();
        }
        let mut steps = Vec::new();
        steps.extend(self.limit());
        steps.extend(self.merge());
        steps.extend(self.ranges());
        steps.extend(self.operator());
        steps.extend(self.left_filter());
        let (load, access) = (self.load(), self.access());
        let mut loads_are_charged = false;
        if let Some(mut load) = load {
            load.charge += self.charge(|counters| counters.charges.items);
            loads_are_charged = true;
            steps.push(load);
        }
        steps.extend(self.walk());
        steps.extend(access);
        if let Some(last) = steps.last_mut() {
            last.charge += self.charge(|counters| counters.charges.ranges);
            if !loads_are_charged {
                last.charge += self.charge(|counters| counters.charges.items);
            }
        }
        self.tell_times(&mut steps);
        if let Some(first) = steps.first_mut() {
            first.charge += self.charge(|counters| counters.charges.output);
            first.rows_out = first.rows_out.or(self.counted(|page| page.rows.len() as u64));
        }
        nest(steps)
    }

    /// Where the time went: planning and looking up to the step that finds candidates, reading to the one
    /// that loads them, all else to the step that makes the rows.
    fn tell_times(&self, steps: &mut [Step]) {
        let Some(times) = self.counters().and_then(|counters| counters.times.as_ref()) else {
            return;
        };
        let planned_in = self.plan.planned_in().unwrap_or_default();
        let total = self.page.map_or(Duration::ZERO, |page| page.metrics.total_time);
        let rest = total.saturating_sub(times.loading);
        if let Some(load) = steps.iter_mut().find(|step| step.kind == StepKind::Load) {
            load.time = Some(times.loading);
        }
        if let Some(last) = steps.last_mut() {
            last.time = Some(last.time.unwrap_or_default() + planned_in);
        }
        let makes_rows = |step: &&mut Step| {
            !matches!(step.kind, StepKind::Limit | StepKind::Merge | StepKind::Ranges)
        };
        if let Some(step) = steps.iter_mut().find(makes_rows) {
            step.time = Some(step.time.unwrap_or_default() + rest);
        }
    }

    /// The only step of a query that needs no range.
    fn without_ranges(&self) -> Step {
        let mut step = Step::new(StepKind::Function, "rows without any item");
        step.rows_out = self.counted(|page| page.rows.len() as u64);
        step.charge = self.page.map_or(RequestCharge::ZERO, |page| page.charge);
        step
    }

    /// True when a page was made without reading an item.
    fn reads_nothing(&self) -> bool {
        self.page.is_some_and(|page| page.metrics.retrieved_count == 0)
    }

    /// OFFSET, LIMIT and TOP.
    fn limit(&self) -> Option<Step> {
        window(self.query.prepared.compiled.window())
    }

    /// Rows of several ranges in one order.
    fn merge(&self) -> Option<Step> {
        let is_ordered = self.query.prepared.shape == Shape::Ordered;
        if !is_ordered || self.plan.view.ranges.len() < 2 {
            return None;
        }
        Some(Step::new(StepKind::Merge, format!("by {}", self.order_says())))
    }

    fn ranges(&self) -> Option<Step> {
        let count = self.plan.view.ranges.len() as u64;
        let mut step = Step::new(StepKind::Ranges, format!("each of {count} partitions"));
        step.count = Some(count);
        if self.query.threads != super::Threads::One && self.plan.may_share(&self.query.prepared) {
            let taken = self.counters().is_some_and(|counters| counters.taken.shares > 0);
            let says = "shares of the work on idle threads".to_owned();
            step.alternatives.push(Alternative { says, taken });
        }
        (count > 1).then_some(step)
    }

    /// The steps that make rows of items, the last one first.
    fn operator(&self) -> Vec<Step> {
        let compiled = &self.query.prepared.compiled;
        let mut steps = Vec::new();
        match &self.plan.operator {
            Operator::Whole => steps = self.level_steps(),
            Operator::Stream if self.levels().len() > 1 => steps = self.level_steps(),
            Operator::Stream => steps.push(self.function("rows as items go by")),
            Operator::OrderedScan(_) => steps.push(self.function("rows in order")),
            Operator::TopK => {
                steps.push(self.function("rows of the items that are left"));
                let says = format!("top-k of all candidates by {}", self.order_says());
                steps.push(Step::new(StepKind::Sort, says));
            }
            Operator::MinMax { .. } | Operator::IndexAggregate(_) | Operator::Group => {
                steps.push(self.aggregate());
            }
        }
        if compiled.distinct && matches!(self.plan.operator, Operator::TopK) {
            let mut step = Step::new(StepKind::Distinct, "equal rows come once");
            step.charge = self.charge(|counters| counters.charges.aggregation);
            steps.push(step);
        }
        let is_simple = steps.iter().all(|step| step.kind != StepKind::Join);
        if is_simple && !compiled.sources.is_empty() && self.levels().len() == 1 {
            let mut step = Step::new(StepKind::Join, "elements of arrays become rows");
            step.count = Some(compiled.sources.len() as u64);
            steps.push(step);
        }
        // Evaluation belongs to the JOINs, or to what makes the rows.
        if let Some(step) = steps.last_mut() {
            step.charge += self.charge(|counters| counters.charges.evaluation);
        }
        steps
    }

    fn function(&self, says: &str) -> Step {
        let prepared = &self.query.prepared;
        let mut step = Step::new(StepKind::Function, says);
        if prepared.raw.is_some() {
            step.says = format!("{says}, by copying stored texts");
        } else if self.reads_nothing() && self.page.is_some_and(|page| !page.rows.is_empty()) {
            step.says = format!("{says}, of values in the index");
        }
        step
    }

    fn aggregate(&self) -> Step {
        let compiled = &self.query.prepared.compiled;
        let kind = match &compiled.aggregation {
            None => StepKind::Distinct,
            Some(aggregation) if aggregation.grouped => StepKind::Group,
            Some(_) => StepKind::Aggregate,
        };
        let missed = self.counters().is_some_and(|counters| counters.taken.min_max_missed);
        let says = match &self.plan.operator {
            Operator::MinMax { .. } if !missed => "MIN and MAX from the ends of the index",
            Operator::MinMax { fallback: Some(_), .. } | Operator::IndexAggregate(_)
                if self.page.is_some() && !self.reads_nothing() =>
            {
                "from the columns of the index, and from items where those do not tell"
            }
            Operator::MinMax { fallback: Some(_), .. } | Operator::IndexAggregate(_) => {
                "from the columns of the index alone, each combination of values once"
            }
            _ => "item by item",
        };
        let mut step = Step::new(kind, says);
        if let Operator::MinMax { fallback, .. } = &self.plan.operator {
            let says = match fallback {
                Some(_) => "from all values in the index, where its ends do not tell",
                None => "item by item, where the ends of the index do not tell",
            };
            step.alternatives.push(Alternative { says: says.to_owned(), taken: missed });
        }
        step.charge = self.charge(|counters| counters.charges.aggregation);
        let matched = |counters: &Counters| counters.tallies.iter().map(|it| it.matched).sum();
        let matched: Option<u64> = self.counters().map(matched);
        match (&self.plan.operator, matched) {
            (Operator::Group, matched) => step.rows_in = matched,
            (_, Some(matched)) if self.reads_nothing() => {
                step.why = Some(format!("charged for {matched} items, of which none is read"));
            }
            (_, matched) => step.rows_in = matched,
        }
        step
    }

    /// What of the condition must be tested on items.
    fn left_filter(&self) -> Option<Step> {
        let levels = self.levels();
        let innermost = levels.last()?;
        let is_open = innermost.filter.is_some() && !self.is_exact();
        let answered = matches!(self.plan.operator, Operator::IndexAggregate(_));
        let mut step = Step::new(StepKind::Filter, "the condition is tested on each candidate");
        step.left = self.described(|condition| !condition.is_exact());
        let counters = self.counters().filter(|counters| !counters.tallies.is_empty());
        step.rows_in = counters.map(|it| it.tallies.iter().map(|tally| tally.visited).sum());
        step.rows_out = counters.map(|it| it.tallies.iter().map(|tally| tally.matched).sum());
        if let Some(tally) = self.tally(levels.len() - 1).filter(|_| innermost.sources.is_empty()) {
            step.rows_out = Some(tally.met);
        }
        if self.query.prepared.shape == Shape::Stream && !self.plan.has_points() {
            let taken = counters.is_some_and(|counters| counters.taken.filtered_ahead > 0);
            let says = "several threads filter ahead where hardly an item matches".to_owned();
            step.alternatives.push(Alternative { says, taken });
        }
        (is_open && !answered).then_some(step)
    }

    /// Items that are read.
    fn load(&self) -> Option<Step> {
        let metrics = self.page.map(|page| &page.metrics)?;
        if metrics.retrieved_count == 0 {
            return None;
        }
        let mut step = Step::new(StepKind::Load, "items are read from the store");
        step.items = Some(metrics.retrieved_count);
        step.bytes = Some(metrics.retrieved_size);
        Some(step)
    }

    /// The index that is read in order.
    fn walk(&self) -> Option<Step> {
        let missed = self.counters().is_some_and(|counters| counters.taken.min_max_missed);
        let index: &OrderIndex = match &self.plan.operator {
            Operator::OrderedScan(index) => index,
            Operator::MinMax { ends, .. } if !missed => ends.first()?,
            _ => return None,
        };
        let says = match &self.plan.operator {
            Operator::OrderedScan(_) => format!("the index of {}", self.order_says()),
            _ => "from the ends of the index, to the first value that an item has".to_owned(),
        };
        let mut step = Step::new(StepKind::Walk, says);
        step.direction = Some(match index.direction {
            Direction::Ascending => StepDirection::Ascending,
            Direction::Descending => StepDirection::Descending,
        });
        if matches!(self.plan.operator, Operator::OrderedScan(_)) {
            step.candidates = (!self.plan.is_selective()).then(|| self.plan.view.scope());
            step.rows_out = self.counters().map(|counters| counters.visited);
            let scans = self.counters().map(|counters| counters.taken.scans).unwrap_or_default();
            let mut add = |says: &str, taken: bool| {
                step.alternatives.push(Alternative { says: says.to_owned(), taken });
            };
            add("rank a part's candidates where walking finds none", scans.ranked > 0);
            add("a part's candidates in an order that is cached", scans.cached > 0);
        }
        Some(step)
    }

    fn order_says(&self) -> String {
        let paths = self.query.prepared.order_paths.as_ref();
        let Order::Keys { keys, .. } = &self.query.prepared.compiled.order else {
            return "no order".to_owned();
        };
        let direction = |descending| if descending { "DESC" } else { "ASC" };
        match paths {
            Some(paths) => {
                let key = |path: &armilla_sql::access::OrderPath| {
                    format!("/{} {}", path.path.join("/"), direction(path.descending))
                };
                paths.iter().map(key).collect::<Vec<_>>().join(", ")
            }
            None => format!("{} computed key(s)", keys.len()),
        }
    }

    /// The whole in one sentence.
    fn says(&self) -> String {
        let ranges = match self.plan.view.ranges.len() {
            0 => {
                return "Needs no item: the condition holds for none, or none is asked for.".into();
            }
            1 => "the partition".to_owned(),
            count => format!("each of {count} partitions"),
        };
        match &self.plan.operator {
            Operator::Stream if self.plan.has_points() => "Reads items by their ids.".to_owned(),
            Operator::Stream => format!("Goes through the candidates of {ranges} in order."),
            Operator::OrderedScan(_) => {
                format!("Walks the index of {} in {ranges}.", self.order_says())
            }
            Operator::TopK => format!("Sorts the candidates of {ranges}, keeping the first rows."),
            Operator::MinMax { .. } => format!("Looks at the ends of an index in {ranges}."),
            Operator::IndexAggregate(_) => {
                format!("Counts values in the columns of the index of {ranges}.")
            }
            Operator::Group => format!("Goes through the candidates of {ranges} and groups them."),
            Operator::Whole => format!("Makes all rows of {ranges} at once."),
        }
    }

    /// Why it is not cheaper.
    fn why(&self) -> Vec<String> {
        let mut why = Vec::new();
        let paths = &self.query.settings.policy.partition_key.paths;
        if self.plan.view.ranges.len() > 1 {
            let keys: Vec<String> = paths.iter().map(ToString::to_string).collect();
            let keys = keys.join(", ");
            let whole = if paths.len() > 1 { "whole " } else { "" };
            why.push(format!(
                "Asks {} partitions: the condition does not name the {whole}partition key, {keys}.",
                self.plan.view.ranges.len()
            ));
        }
        if !self.plan.view.is_indexed {
            why.push("A new index is being built, so items are gone through.".to_owned());
        }
        why
    }
}

/// The step that leaves out rows before and behind a window.
fn window(window: (u64, u64)) -> Option<Step> {
    let says = match window {
        (0, u64::MAX) => return None,
        (0, take) => format!("the first {take}"),
        (skip, u64::MAX) => format!("all behind the first {skip}"),
        (skip, take) => format!("{take} behind the first {skip}"),
    };
    Some(Step::new(StepKind::Limit, says))
}

/// Steps one below the other.
fn nest(steps: Vec<Step>) -> Step {
    let mut steps = steps.into_iter().rev();
    let last = steps.next().unwrap_or_else(|| Step::new(StepKind::Scan, "nothing"));
    steps.fold(last, |input, step| step.over(input))
}
