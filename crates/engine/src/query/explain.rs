//! EXPLAIN: how a page is answered, as a tree of steps that is read from the rows down to the data.
//!
//! An [`Explanation`] is a plain value. It is made from the plan alone, or from the plan and what was
//! counted while a page was made of it; then the charges of its steps add up to the charge of the page.
//! [`Explanation`] prints as a text tree ([`text`]); the form for clients is made in the gateway, from
//! [`Explanation::numbered`].

mod text;

pub use text::Times;

use armilla_model::charge::RequestCharge;
use std::time::Duration;

/// How a page is answered, and what it took.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The kind of answer in one word: `points`, `stream`, `ordered`, `grouped`, `whole`, ….
    pub shape: &'static str,
    /// The whole in one sentence.
    pub says: String,
    /// Why it is not cheaper, a sentence each.
    pub why: Vec<String>,
    /// The last step; what it works on is below it.
    pub root: Step,
    /// What a page took; nothing when none was made.
    pub run: Option<ExplainedRun>,
    /// Paths of single indexes, such as `/likes/?`, and composite ones, that serve the query.
    pub indexes_used: Vec<Vec<String>>,
    /// Those that the policy leaves out and that would serve it.
    pub indexes_possible: Vec<Vec<String>>,
}

/// What making a page took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedRun {
    /// What the page is charged.
    pub charge: RequestCharge,
    /// From the first step to the last.
    pub time: Duration,
    /// Rows of the page.
    pub rows: u64,
    /// What came from each range.
    pub ranges: Vec<ExplainedRange>,
}

/// What one range gave to a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedRange {
    /// The number of the range.
    pub id: u32,
    /// Rows that came from it, where that is known: groups and sums come from all together.
    pub rows: Option<u64>,
    /// Its share of the charge.
    pub charge: RequestCharge,
    /// The time spent on it, where it was measured.
    pub time: Option<Duration>,
}

/// One step of a plan. What is not known or has no meaning for its kind is absent.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What kind of work it is.
    pub kind: StepKind,
    /// What it does, in words.
    pub says: String,
    /// Why it is done in this way.
    pub why: Option<String>,
    /// The index it uses: the path of a single one, or those of a composite one with their orders.
    pub index: Option<String>,
    /// Which way an order is walked.
    pub direction: Option<StepDirection>,
    /// The part of the condition that the index answers.
    pub served: Option<String>,
    /// The part of the condition that is tested on candidates.
    pub left: Option<String>,
    /// How many of its kind there are: ranges, points, joins.
    pub count: Option<u64>,
    /// Candidates that the index names.
    pub candidates: Option<u64>,
    /// Rows or items that came in.
    pub rows_in: Option<u64>,
    /// Rows or items that were handed on.
    pub rows_out: Option<u64>,
    /// Items that were read.
    pub items: Option<u64>,
    /// Bytes of the items that were read.
    pub bytes: Option<u64>,
    /// Its part of the page's charge.
    pub charge: RequestCharge,
    /// The time spent on it, where it was measured.
    pub time: Option<Duration>,
    /// What the plan holds ready for this step, and whether it came to it.
    pub alternatives: Vec<Alternative>,
    /// The steps whose rows it works on.
    pub inputs: Vec<Self>,
}

/// Another way that the plan allows for a step once it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alternative {
    /// What it would do.
    pub says: String,
    /// Whether it was done.
    pub taken: bool,
}

/// The kinds of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StepKind {
    /// Rows of several ranges become one sequence.
    Merge,
    /// Each range is asked by itself.
    Ranges,
    /// Items or terms are looked up by their key.
    Seek,
    /// Every item in scope is gone through.
    Scan,
    /// An order of the index is gone along.
    Walk,
    /// Sets of candidates are intersected or united.
    Intersect,
    /// A condition decides who goes on.
    Filter,
    /// Items are read.
    Load,
    /// Elements of arrays become rows.
    Join,
    /// Rows with the same key come together.
    Group,
    /// Many values become one.
    Aggregate,
    /// Rows are put in order.
    Sort,
    /// Equal rows become one.
    Distinct,
    /// Rows before or behind a window are left out.
    Limit,
    /// Expressions make the rows.
    Function,
}

/// Which way an order is walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepDirection {
    /// From the smallest value.
    Ascending,
    /// From the largest value.
    Descending,
}

impl StepKind {
    /// Every kind.
    pub const ALL: [Self; 15] = [
        Self::Merge,
        Self::Ranges,
        Self::Seek,
        Self::Scan,
        Self::Walk,
        Self::Intersect,
        Self::Filter,
        Self::Load,
        Self::Join,
        Self::Group,
        Self::Aggregate,
        Self::Sort,
        Self::Distinct,
        Self::Limit,
        Self::Function,
    ];

    /// The kind in one word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Merge => "merge",
            Self::Ranges => "ranges",
            Self::Seek => "seek",
            Self::Scan => "scan",
            Self::Walk => "walk",
            Self::Intersect => "intersect",
            Self::Filter => "filter",
            Self::Load => "load",
            Self::Join => "join",
            Self::Group => "group",
            Self::Aggregate => "aggregate",
            Self::Sort => "sort",
            Self::Distinct => "distinct",
            Self::Limit => "limit",
            Self::Function => "function",
        }
    }
}

impl StepDirection {
    /// The direction in one word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ascending => "ascending",
            Self::Descending => "descending",
        }
    }
}

impl Step {
    /// A step that does what it says.
    pub fn new(kind: StepKind, says: impl Into<String>) -> Self {
        Self {
            kind,
            says: says.into(),
            why: None,
            index: None,
            direction: None,
            served: None,
            left: None,
            count: None,
            candidates: None,
            rows_in: None,
            rows_out: None,
            items: None,
            bytes: None,
            charge: RequestCharge::ZERO,
            time: None,
            alternatives: Vec::new(),
            inputs: Vec::new(),
        }
    }

    /// The same step over the rows of another.
    #[must_use]
    pub fn over(mut self, input: Self) -> Self {
        self.inputs.push(input);
        self
    }

    /// Its charge and those of all steps below it.
    pub fn charge_in_all(&self) -> RequestCharge {
        self.charge + self.inputs.iter().map(Self::charge_in_all).sum()
    }
}

/// A step with its number and those of the steps below it.
#[derive(Clone, Debug)]
pub struct NumberedStep<'e> {
    /// Its number; that of the last step is 0.
    pub id: usize,
    /// The step. Its inputs are those numbered in `inputs`.
    pub step: &'e Step,
    /// The numbers of its inputs.
    pub inputs: Vec<usize>,
}

impl Explanation {
    /// All steps in one list, each before its inputs.
    pub fn numbered(&self) -> Vec<NumberedStep<'_>> {
        let mut steps = Vec::new();
        number(&self.root, &mut steps);
        steps
    }

    /// The charges of all steps. After a run it is the charge of the page.
    pub fn charge_of_steps(&self) -> RequestCharge {
        self.root.charge_in_all()
    }
}

fn number<'e>(step: &'e Step, steps: &mut Vec<NumberedStep<'e>>) -> usize {
    let id = steps.len();
    steps.push(NumberedStep { id, step, inputs: Vec::new() });
    let inputs = step.inputs.iter().map(|input| number(input, steps)).collect();
    if let Some(numbered) = steps.get_mut(id) {
        numbered.inputs = inputs;
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_numbered_from_the_last_one_down() {
        let charged = |kind: StepKind, units: u64| Step {
            charge: RequestCharge::from_micros(units * 1_000_000),
            ..Step::new(kind, kind.name())
        };
        let left = charged(StepKind::Filter, 2).over(charged(StepKind::Scan, 3));
        let root = charged(StepKind::Merge, 1).over(left).over(charged(StepKind::Seek, 4));
        let explanation = Explanation {
            shape: "stream",
            says: String::new(),
            why: Vec::new(),
            root,
            run: None,
            indexes_used: Vec::new(),
            indexes_possible: Vec::new(),
        };
        let steps = explanation.numbered();
        let kinds: Vec<_> = steps.iter().map(|step| step.step.kind.name()).collect();
        assert_eq!(kinds, ["merge", "filter", "scan", "seek"]);
        let inputs: Vec<_> = steps.iter().map(|step| step.inputs.clone()).collect();
        assert_eq!(inputs, [vec![1, 3], vec![2], vec![], vec![]]);
        assert!(steps.iter().enumerate().all(|(number, step)| step.id == number));
        assert_eq!(explanation.charge_of_steps(), RequestCharge::from_micros(10_000_000));
    }

    #[test]
    fn every_kind_has_a_word_of_its_own() {
        let mut names = StepKind::ALL.map(StepKind::name).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), StepKind::ALL.len());
    }
}
