//! An explanation as a text tree, for terminals and golden scripts.
//!
//! ```text
//! Walks the order of /at in each of 4 partitions and stops after 20 rows.
//! limit · the first 20 rows · 20 rows
//! └─ merge · by c.at, descending · 80 → 20 rows
//!    └─ walk · the order of /at · descending · index /at/? · 812 candidates → 80 · 6.2 RU
//! 20 rows, 17.09 RU, 3.1 ms
//! ```

use super::{ExplainedRange, ExplainedRun, Explanation, Step};
use armilla_model::charge::RequestCharge;
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

/// Between two facts of a step.
const BETWEEN: &str = " · ";

/// Whether a text tells times, which differ from run to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// They are told.
    Shown,
    /// They are left out, so that texts can be compared.
    Hidden,
}

impl Display for Explanation {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.lines(Times::Shown).join("\n"))
    }
}

impl Explanation {
    /// The text tree, line by line.
    pub fn lines(&self, times: Times) -> Vec<String> {
        let mut lines = vec![self.says.clone()];
        lines.extend(self.why.iter().map(|why| format!("  {why}")));
        tree(&self.root, times, "", "", &mut lines);
        if let Some(run) = &self.run {
            lines.push(of_run(run, times));
            if run.ranges.len() > 1 {
                lines.extend(run.ranges.iter().map(|range| of_range(range, times)));
            }
        }
        for (title, indexes) in
            [("indexes used", &self.indexes_used), ("indexes possible", &self.indexes_possible)]
        {
            let index = |paths: &Vec<String>| match paths.as_slice() {
                [path] => path.clone(),
                paths => format!("({})", paths.join(", ")),
            };
            let indexes: Vec<String> = indexes.iter().map(index).collect();
            if !indexes.is_empty() {
                lines.push(format!("{title}: {}", indexes.join(", ")));
            }
        }
        lines
    }
}

/// A step and all below it: `head` stands before its own line, `rest` before those below.
fn tree(step: &Step, times: Times, head: &str, rest: &str, lines: &mut Vec<String>) {
    lines.push(format!("{head}{}", facts(step, times).join(BETWEEN)));
    let bar = if step.inputs.is_empty() { "   " } else { "│  " };
    for alternative in &step.alternatives {
        let taken = if alternative.taken { "taken" } else { "not taken" };
        lines.push(format!("{rest}{bar}or: {} ({taken})", alternative.says));
    }
    for (number, input) in step.inputs.iter().enumerate() {
        let (branch, below) =
            if number + 1 == step.inputs.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        tree(input, times, &format!("{rest}{branch}"), &format!("{rest}{below}"), lines);
    }
}

fn facts(step: &Step, times: Times) -> Vec<String> {
    let mut facts = vec![step.kind.name().to_owned()];
    let mut add = |fact: Option<String>| facts.extend(fact);
    add((!step.says.is_empty()).then(|| step.says.clone()));
    add(step.why.clone());
    add(step.index.as_ref().map(|index| format!("index {index}")));
    add(step.direction.map(|direction| direction.name().to_owned()));
    add(step.served.as_ref().map(|served| format!("served: {served}")));
    add(step.left.as_ref().map(|left| format!("tested: {left}")));
    add(flow(step));
    add(step.items.map(|items| match step.bytes {
        Some(bytes) => format!("{} of {}", counted(items, "item"), counted(bytes, "byte")),
        None => counted(items, "item"),
    }));
    add((step.charge > RequestCharge::ZERO).then(|| format!("{} RU", step.charge)));
    add(step.time.filter(|_| times == Times::Shown).map(milliseconds));
    facts
}

/// What goes in and what comes out.
fn flow(step: &Step) -> Option<String> {
    let came = match (step.candidates, step.rows_in) {
        (Some(candidates), _) => Some(counted(candidates, "candidate")),
        (None, Some(rows)) => Some(rows.to_string()),
        (None, None) => None,
    };
    match (came, step.rows_out) {
        (Some(came), Some(went)) => Some(format!("{came} → {}", counted(went, "row"))),
        (Some(came), None) if step.candidates.is_none() => Some(format!("{came} rows in")),
        (Some(came), None) => Some(came),
        (None, Some(went)) => Some(counted(went, "row")),
        (None, None) => None,
    }
}

fn of_run(run: &ExplainedRun, times: Times) -> String {
    let mut text = format!("{}, {} RU", counted(run.rows, "row"), run.charge);
    if times == Times::Shown {
        text.push_str(&format!(", {}", milliseconds(run.time)));
    }
    text
}

fn of_range(range: &ExplainedRange, times: Times) -> String {
    let mut facts = Vec::new();
    facts.extend(range.rows.map(|rows| counted(rows, "row")));
    facts.push(format!("{} RU", range.charge));
    facts.extend(range.time.filter(|_| times == Times::Shown).map(milliseconds));
    format!("range {}: {}", range.id, facts.join(", "))
}

fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

fn milliseconds(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::super::{Alternative, StepDirection, StepKind};
    use super::*;

    fn example() -> Explanation {
        let load = Step {
            items: Some(80),
            bytes: Some(96_210),
            charge: RequestCharge::from_micros(10_890_000),
            ..Step::new(StepKind::Load, "reads the items")
        };
        let walk = Step {
            index: Some("/at/?".into()),
            direction: Some(StepDirection::Descending),
            served: Some("/type = \"post\"".into()),
            candidates: Some(812),
            rows_out: Some(80),
            charge: RequestCharge::from_micros(6_200_000),
            time: Some(Duration::from_micros(1500)),
            alternatives: vec![Alternative { says: "ranks the matches".into(), taken: false }],
            ..Step::new(StepKind::Walk, "the order of /at").over(load)
        };
        let seek = Step { rows_out: Some(1), ..Step::new(StepKind::Seek, "") };
        let merge = Step {
            rows_in: Some(81),
            rows_out: Some(20),
            ..Step::new(StepKind::Merge, "by c.at").over(walk).over(seek)
        };
        let range = |id, rows| ExplainedRange {
            id,
            rows,
            charge: RequestCharge::ONE,
            time: Some(Duration::from_millis(1)),
        };
        Explanation {
            shape: "ordered",
            says: "Walks the order of /at and stops after 20 rows.".into(),
            why: vec!["/userId is not the partition key, so every range is asked.".into()],
            root: merge,
            run: Some(ExplainedRun {
                charge: RequestCharge::from_micros(17_090_000),
                time: Duration::from_micros(3100),
                rows: 20,
                ranges: vec![range(0, Some(6)), range(1, None)],
            }),
            indexes_used: vec![vec!["/at/?".into()]],
            indexes_possible: vec![vec!["/type ASC".into(), "/at DESC".into()]],
        }
    }

    #[test]
    fn a_tree_is_drawn() {
        let expected = "\
Walks the order of /at and stops after 20 rows.
  /userId is not the partition key, so every range is asked.
merge · by c.at · 81 → 20 rows
├─ walk · the order of /at · index /at/? · descending · served: /type = \"post\" · 812 candidates → 80 rows · 6.2 RU · 1.50 ms
│  │  or: ranks the matches (not taken)
│  └─ load · reads the items · 80 items of 96210 bytes · 10.89 RU
└─ seek · 1 row
20 rows, 17.09 RU, 3.10 ms
range 0: 6 rows, 1 RU, 1.00 ms
range 1: 1 RU, 1.00 ms
indexes used: /at/?
indexes possible: (/type ASC, /at DESC)";
        assert_eq!(example().to_string(), expected);
    }

    #[test]
    fn times_can_be_left_out() {
        let lines = example().lines(Times::Hidden);
        assert!(!lines.iter().any(|line| line.contains(" ms")), "{lines:#?}");
        assert_eq!(lines.len(), example().lines(Times::Shown).len());
    }
}
