//! The report: what was found, what it would save, and how to do it.

pub mod html;
mod json;
pub mod text;

use crate::choose::{self, Point};
use crate::flow::Flow;
use crate::limits::WORKLOAD_SHOWN;
use crate::observe::{Verb, Workload};
use crate::propose::{Instruction, Proposal};

pub use json::advice_json;

/// Everything that is told.
#[derive(Clone, Debug, Default)]
pub struct Advice {
    pub(crate) says: String,
    pub(crate) observed: Observed,
    pub(crate) points: Vec<PointFigures>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) praise: Vec<Praise>,
    pub(crate) workload: Vec<WorkloadRow>,
    /// On how much of the data it was proved, if it was.
    pub(crate) proof: Option<ProofFigures>,
}

/// On how much of the data a proof was made.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProofFigures {
    pub(crate) items: usize,
    pub(crate) of: f64,
    pub(crate) is_sample: bool,
}

impl ProofFigures {
    /// In a sentence.
    pub(crate) fn says(&self) -> String {
        let (items, of) = (grouped(self.items as f64), grouped(self.of));
        match self.is_sample {
            true => format!(
                "Proved on {items} of {of} items: those that the recorded requests touch, what they refer to, and a part of the rest. Queries over all ranges count with what they were charged; upkeep of copies is scaled up."
            ),
            false => format!("Proved on all {items} items."),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Observed {
    pub(crate) requests: f64,
    pub(crate) seconds: u64,
    pub(crate) since: u64,
    pub(crate) units: f64,
    pub(crate) shapes: usize,
    pub(crate) left_out: u64,
    pub(crate) missed: u64,
}

impl Observed {
    /// What a number over the observed time is in a day.
    pub(crate) fn per_day(&self, number: f64) -> f64 {
        number * 86_400.0 / (self.seconds.max(1) as f64)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct PointFigures {
    pub(crate) name: &'static str,
    pub(crate) findings: Vec<String>,
    pub(crate) units_after: f64,
    pub(crate) saved_share: f64,
    pub(crate) storage: f64,
}

/// One thing that was found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Finding {
    pub(crate) id: String,
    pub(crate) rule: &'static str,
    pub(crate) title: String,
    pub(crate) reason: String,
    pub(crate) database: String,
    pub(crate) container: String,
    /// Nothing for what is only to be watched.
    pub(crate) saved: Option<f64>,
    pub(crate) saved_share: f64,
    pub(crate) cost: f64,
    pub(crate) storage: f64,
    pub(crate) confidence: &'static str,
    pub(crate) confidence_reason: String,
    pub(crate) requests: Vec<RequestFigures>,
    pub(crate) apply: Vec<Instruction>,
    /// What a proof measured.
    pub(crate) proved: Option<f64>,
    /// What throughput costs before and after, where that is what changes.
    pub(crate) bill: Option<Bill>,
}

/// What the recorded hours cost, in hours of one unit a second of manual throughput.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bill {
    pub(crate) hours: u64,
    pub(crate) before: f64,
    pub(crate) after: f64,
    /// For an account without provisioned throughput.
    pub(crate) serverless: f64,
}

impl Bill {
    pub(crate) fn saved_share(&self) -> f64 {
        1.0 - self.after / self.before.max(1e-9)
    }
}

impl Finding {
    /// Whether there is something to change, and not only to look at.
    pub(crate) fn is_change(&self) -> bool {
        self.saved.is_some() || self.bill.is_some()
    }
}

/// A kind of activity before and after a change.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestFigures {
    pub(crate) title: String,
    pub(crate) head: String,
    pub(crate) steps: Vec<StepRow>,
    pub(crate) times: f64,
    pub(crate) before: f64,
    pub(crate) after: f64,
    pub(crate) measured: Option<f64>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct StepRow {
    pub(crate) shape: String,
    pub(crate) operation: &'static str,
    pub(crate) container: String,
    pub(crate) times: f64,
    pub(crate) units: f64,
    pub(crate) ranges: f64,
    pub(crate) why: &'static str,
}

/// Something that looks wrong and is right.
#[derive(Clone, Debug)]
pub(crate) struct Praise {
    pub(crate) title: String,
    pub(crate) database: String,
    pub(crate) container: String,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct WorkloadRow {
    pub(crate) request: RequestFigures,
    pub(crate) share: f64,
    pub(crate) findings: Vec<String>,
}

/// What a database's part of a report is made of.
#[derive(Clone)]
pub(crate) struct Judged {
    pub(crate) database: String,
    pub(crate) flows: Vec<Flow>,
    pub(crate) proposal: Proposal,
    pub(crate) points: Vec<Point>,
    pub(crate) watched: Vec<Finding>,
    pub(crate) praise: Vec<Praise>,
}

impl Advice {
    /// Adds the proof of one database.
    pub(crate) fn add_proof(&mut self, proof: &crate::prove::Proof) {
        if proof.measured.is_empty() {
            return;
        }
        let told = self.proof.get_or_insert_default();
        told.items += proof.items.0;
        told.of += proof.items.1;
        told.is_sample |= proof.is_sample;
    }

    /// Puts the parts of all databases together.
    pub(crate) fn of(workload: &Workload, parts: &[Judged]) -> Self {
        let mut advice = Self {
            observed: Observed {
                requests: workload.requests,
                seconds: workload.seconds(),
                since: workload.since_millis / 1000,
                units: workload.units,
                shapes: workload.shapes.len(),
                left_out: workload.left_out,
                missed: workload.missed,
            },
            ..Self::default()
        };
        let units: f64 =
            parts.iter().flat_map(|part| &part.flows).map(|flow| flow.units() * flow.times).sum();
        for part in parts {
            advice.findings.extend(findings(part, units));
            advice.praise.extend(part.praise.iter().cloned());
        }
        advice.points = point_figures(parts, units);
        advice.workload = rows(parts, units, &advice.findings);
        // Within a database findings keep the order in which they are made.
        for part in parts {
            advice.findings.extend(part.watched.iter().cloned());
        }
        advice.says = says(&advice, units);
        advice
    }
}

fn says(advice: &Advice, units: f64) -> String {
    let looked = format!(
        "Looked at {} requests in {}.",
        grouped(advice.observed.requests),
        duration(advice.observed.seconds)
    );
    let changes = advice.findings.iter().filter(|finding| finding.saved.is_some()).count();
    let bills = advice.findings.iter().filter_map(|finding| finding.bill.as_ref());
    let (before, after) =
        bills.fold((0.0, 0.0), |sum: (f64, f64), bill| (sum.0 + bill.before, sum.1 + bill.after));
    let bill = match before > 0.0 {
        true => format!(
            " Another way to pay saves {:.0} % of the bill for throughput.",
            (1.0 - after / before) * 100.0
        ),
        false => String::new(),
    };
    if changes == 0 {
        return format!("Nothing worth 1 % of your RU. {looked}{bill}");
    }
    let share = advice.points.first().map_or(0.0, |point| point.saved_share);
    let findings = if changes == 1 {
        "1 finding saves".to_owned()
    } else {
        format!("{changes} findings save")
    };
    format!("{looked} {findings} {:.0} % of {} RU.{bill}", share * 100.0, grouped(units))
}

/// A number with a comma every three digits.
pub(crate) fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) && !text.ends_with('-') {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

pub(crate) fn duration(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

fn findings(part: &Judged, units: f64) -> Vec<Finding> {
    let Some(point) = part.points.first() else { return Vec::new() };
    let proposal = &part.proposal;
    let mut made = vec![false; point.made.len()];
    let mut found = Vec::new();
    for at in choose::order(proposal, &point.made) {
        let Some(change) = proposal.changes.get(at) else { continue };
        let before = made.clone();
        made[at] = true;
        let saved = proposal.total(&part.flows, &before) - proposal.total(&part.flows, &made);
        let requests = part.flows.iter().enumerate().filter_map(|(flow_at, flow)| {
            let cost = |made: &[bool]| -> f64 {
                (0..flow.steps.len())
                    .map(|step| proposal.step_units(&part.flows, (flow_at, step), made))
                    .sum()
            };
            let (cost_before, cost_after) = (cost(&before), cost(&made));
            ((cost_before - cost_after).abs() > 0.005).then(|| RequestFigures {
                before: cost_before,
                after: cost_after,
                ..figures(flow)
            })
        });
        let mut requests: Vec<RequestFigures> = requests.collect();
        requests.sort_by(|one, other| {
            let saved = |row: &RequestFigures| (row.before - row.after) * row.times;
            saved(other).total_cmp(&saved(one))
        });
        let asked: f64 = requests.iter().map(|row| row.times).sum();
        let confidence = match (change.built, asked) {
            (8.., 20.0..) => "high",
            (3.., 3.0..) => "medium",
            _ => "low",
        };
        found.push(Finding {
            id: change.id.clone(),
            rule: change.rule,
            title: change.title.clone(),
            reason: change.reason.clone(),
            database: part.database.clone(),
            container: change.container.clone(),
            saved: Some(saved),
            saved_share: saved / units.max(1e-9),
            cost: proposal.upkeep(&made) - proposal.upkeep(&before),
            storage: change.storage,
            confidence,
            confidence_reason: format!(
                "priced on {} real items; {} requests observed",
                change.built,
                grouped(asked)
            ),
            requests,
            apply: change.apply.clone(),
            ..Finding::default()
        });
    }
    found
}

/// A flow as it is told.
pub(crate) fn figures(flow: &Flow) -> RequestFigures {
    let row = |(at, step): (usize, &crate::flow::FlowStep)| StepRow {
        shape: step.shape.title(),
        operation: step.shape.verb.name(),
        container: step.shape.container.clone(),
        times: step.times,
        units: step.units,
        ranges: step.ranges / step.times.max(1e-9),
        why: match (step.fans_out(), at > 0 && matches!(step.shape.verb, Verb::Read | Verb::Query))
        {
            (true, _) => "key not named by the query",
            (false, true) => "extra request",
            (false, false) => "",
        },
    };
    let steps: Vec<StepRow> = flow.steps.iter().enumerate().map(row).collect();
    let head = flow.steps.first().map(|step| step.shape.title()).unwrap_or_default();
    let rest = flow.steps.iter().skip(1).map(|step| step.shape.title()).collect::<Vec<_>>();
    let title =
        if rest.is_empty() { head.clone() } else { format!("{head}; then {}", rest.join("; ")) };
    let units = flow.units();
    RequestFigures {
        title,
        head,
        steps,
        times: flow.times,
        before: units,
        after: units,
        measured: None,
    }
}

fn point_figures(parts: &[Judged], units: f64) -> Vec<PointFigures> {
    let names = ["cheapest", "fewest changes", "smallest"];
    let point = |(at, name): (usize, &'static str)| {
        let chosen = parts.iter().filter_map(|part| Some((part, part.points.get(at)?)));
        let (mut after, mut storage, mut findings) = (0.0, 0.0, Vec::new());
        for (part, point) in chosen {
            after += point.units;
            for change in choose::order(&part.proposal, &point.made) {
                if let Some(change) = part.proposal.changes.get(change) {
                    storage += change.storage;
                    findings.push(change.id.clone());
                }
            }
        }
        // How to pay is another question: the answer is part of every choice.
        let bills = parts.iter().flat_map(|part| &part.watched).filter(|one| one.bill.is_some());
        findings.extend(bills.map(|finding| finding.id.clone()));
        let saved_share = (units - after) / units.max(1e-9);
        PointFigures { name, findings, units_after: after, saved_share, storage }
    };
    names.into_iter().enumerate().map(point).collect()
}

fn rows(parts: &[Judged], units: f64, findings: &[Finding]) -> Vec<WorkloadRow> {
    let mut rows: Vec<WorkloadRow> = parts
        .iter()
        .flat_map(|part| &part.flows)
        .map(|flow| {
            let request = figures(flow);
            let about = |finding: &&Finding| {
                finding
                    .requests
                    .iter()
                    .any(|one| one.title == request.title && one.after < one.before)
            };
            WorkloadRow {
                share: flow.units() * flow.times / units.max(1e-9),
                findings: findings.iter().filter(about).map(|finding| finding.id.clone()).collect(),
                request,
            }
        })
        .collect();
    rows.sort_by(|one, other| other.share.total_cmp(&one.share));
    rows.truncate(WORKLOAD_SHOWN);
    rows
}
