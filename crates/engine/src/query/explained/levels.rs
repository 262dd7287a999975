//! The steps of a query over the rows of other queries: those of each level, the outermost first.

use super::Steps;
use crate::query::counters::LevelTally;
use crate::query::explain::{Step, StepKind};
use crate::query::plan::Operator;
use armilla_sql::compiled::{Compiled, Input, Order};

impl Steps<'_> {
    /// The query, and the one in its FROM, and so on: the outermost first.
    pub(super) fn levels(&self) -> Vec<&Compiled> {
        let mut levels = vec![&self.query.prepared.compiled];
        while let Some(Input::Query(inner)) = levels.last().map(|level| &level.input) {
            levels.push(inner);
        }
        levels
    }

    /// What went through a level, if that was counted.
    pub(super) fn tally(&self, depth: usize) -> Option<&LevelTally> {
        self.counters()?.levels.get(depth)
    }

    /// The steps of all levels.
    pub(super) fn level_steps(&self) -> Vec<Step> {
        let levels = self.levels();
        let last = levels.len() - 1;
        let of_level =
            |(depth, level): (usize, &&Compiled)| self.steps_of(level, depth, depth == last);
        let mut steps: Vec<Step> = levels.iter().enumerate().flat_map(of_level).collect();
        if let Some(step) = steps.first_mut() {
            step.charge += self.charge(|counters| counters.charges.aggregation);
            if matches!(self.plan.operator, Operator::Whole) {
                step.why = Some("all rows are made for every page".to_owned());
            }
        }
        steps
    }

    fn steps_of(&self, level: &Compiled, depth: usize, is_innermost: bool) -> Vec<Step> {
        let name = match (depth, is_innermost) {
            (0, true) => "the query".to_owned(),
            (0, false) => "the outer query".to_owned(),
            (1, true) => "the sub-query".to_owned(),
            (depth, _) => format!("sub-query {depth}"),
        };
        let mut steps = Vec::new();
        let window = level.window();
        if depth > 0 {
            steps.extend(super::window(window));
        }
        if level.distinct {
            steps.push(Step::new(StepKind::Distinct, format!("equal rows of {name} come once")));
        }
        steps.extend(order(level, &name));
        steps.push(rows(level, &name));
        // What is tested on items stands below, with what the index leaves of it.
        if level.filter.is_some() && !matches!(level.input, Input::Items) {
            let says = format!("the condition of {name} is tested on each row");
            steps.push(Step::new(StepKind::Filter, says));
        }
        if !level.sources.is_empty() {
            let mut join = Step::new(StepKind::Join, "elements of arrays become rows");
            join.count = Some(level.sources.len() as u64);
            steps.push(join);
        }
        if let Some(tally) = self.tally(depth) {
            count(&mut steps, tally);
        }
        steps
    }
}

/// ORDER BY of a level.
fn order(level: &Compiled, name: &str) -> Option<Step> {
    let says = match &level.order {
        Order::None => return None,
        Order::Keys { keys, .. } => format!("all rows of {name} by {} key(s)", keys.len()),
        Order::Rank(rank) => {
            format!("all rows of {name} by the rank of {} score(s)", rank.components.len())
        }
    };
    let mut step = Step::new(StepKind::Sort, says);
    if matches!((&level.order, &level.input), (Order::Rank(_), Input::Items)) {
        step.why = Some("scores need the statistics of all items, which are read first".to_owned());
    }
    Some(step)
}

/// The step that makes the rows of a level.
fn rows(level: &Compiled, name: &str) -> Step {
    match &level.aggregation {
        None => Step::new(StepKind::Function, format!("rows of {name}")),
        Some(aggregation) if aggregation.grouped => {
            Step::new(StepKind::Group, format!("groups of {name}"))
        }
        Some(_) => Step::new(StepKind::Aggregate, format!("aggregates of {name}")),
    }
}

/// What came in at the first step of a level, met its condition, and went out at the last one.
fn count(steps: &mut [Step], tally: &LevelTally) {
    let makes_rows = |step: &&mut Step| {
        matches!(step.kind, StepKind::Function | StepKind::Group | StepKind::Aggregate)
    };
    if let Some(step) = steps.iter_mut().find(makes_rows) {
        step.rows_in = Some(tally.met);
    }
    if let Some(step) = steps.iter_mut().find(|step| step.kind == StepKind::Filter) {
        step.rows_out = Some(tally.met);
    }
    if let Some(step) = steps.last_mut().filter(|step| step.rows_in.is_none()) {
        step.rows_in = Some(tally.taken);
    }
    if let Some(step) = steps.first_mut() {
        step.rows_out = Some(tally.made);
    }
}
