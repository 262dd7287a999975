//! The report as JSON, as `/_armilla/advice` answers it.

use super::{Advice, Bill, Finding, PointFigures, Praise, RequestFigures, StepRow, WorkloadRow};
use crate::propose::Instruction;
use armilla_model::value::{Object, Value};

/// A report as JSON text.
pub fn advice_json(advice: &Advice) -> String {
    let observed = &advice.observed;
    let list = |values: Vec<Value>| Value::array(values);
    let document = Object::of([
        ("version", 1.into()),
        ("state", "observing".into()),
        ("says", advice.says.as_str().into()),
        (
            "observed",
            Value::object(Object::of([
                ("requests", count(observed.requests)),
                ("seconds", count(observed.seconds as f64)),
                ("since", count(observed.since as f64)),
                ("requestUnits", units(observed.units)),
                ("unitsPerDay", units(observed.per_day(observed.units))),
                ("shapes", count(observed.shapes as f64)),
                ("shapesLeftOut", count(observed.left_out as f64)),
                ("requestsLeftOut", count(observed.missed as f64)),
            ])),
        ),
        (
            "proof",
            advice.proof.as_ref().map_or(Value::Null, |proof| {
                Value::object(Object::of([
                    ("items", count(proof.items as f64)),
                    ("of", count(proof.of)),
                    ("sampled", proof.is_sample.into()),
                    ("says", proof.says().as_str().into()),
                ]))
            }),
        ),
        ("point", "cheapest".into()),
        ("points", list(advice.points.iter().map(point).collect())),
        ("findings", list(advice.findings.iter().map(|one| finding(advice, one)).collect())),
        ("praise", list(advice.praise.iter().map(praise).collect())),
        ("workload", list(advice.workload.iter().map(row).collect())),
    ]);
    Value::object(document).to_json()
}

fn count(number: f64) -> Value {
    Value::from(number.round() as i64)
}

/// Units with two digits behind the point.
fn units(number: f64) -> Value {
    Value::from((number * 100.0).round() / 100.0)
}

fn share(number: f64) -> Value {
    Value::from((number * 10_000.0).round() / 10_000.0)
}

fn point(point: &PointFigures) -> Value {
    Value::object(Object::of([
        ("name", point.name.into()),
        ("findings", Value::array(point.findings.iter().map(|id| id.as_str().into()).collect())),
        ("unitsAfter", units(point.units_after)),
        ("savedShare", share(point.saved_share)),
        ("storageBytes", count(point.storage)),
        ("changes", count(point.findings.len() as f64)),
    ]))
}

fn finding(advice: &Advice, finding: &Finding) -> Value {
    let saved = |value: Option<Value>| value.unwrap_or(Value::Null);
    Value::object(Object::of([
        ("id", finding.id.as_str().into()),
        ("rule", finding.rule.into()),
        ("kind", if finding.is_change() { "change" } else { "watch" }.into()),
        ("title", finding.title.as_str().into()),
        ("reason", finding.reason.as_str().into()),
        ("database", finding.database.as_str().into()),
        ("container", finding.container.as_str().into()),
        ("page", format!("docs/advice/{}.md", finding.rule).as_str().into()),
        ("savedUnits", saved(finding.saved.map(units))),
        ("savedUnitsPerDay", saved(finding.saved.map(|one| units(advice.observed.per_day(one))))),
        ("savedShare", saved(finding.saved.map(|_| share(finding.saved_share)))),
        ("costUnits", units(finding.cost)),
        ("storageBytes", count(finding.storage)),
        ("confidence", finding.confidence.into()),
        ("confidenceReason", finding.confidence_reason.as_str().into()),
        ("requests", Value::array(finding.requests.iter().map(request).collect())),
        ("apply", Value::array(finding.apply.iter().map(instruction).collect())),
        ("provedUnits", saved(finding.proved.map(units))),
        ("bill", finding.bill.as_ref().map_or(Value::Null, bill)),
    ]))
}

/// What throughput costs, in hours of one unit a second.
fn bill(bill: &Bill) -> Value {
    Value::object(Object::of([
        ("hours", count(bill.hours as f64)),
        ("before", units(bill.before)),
        ("after", units(bill.after)),
        ("serverless", units(bill.serverless)),
        ("savedShare", share(bill.saved_share())),
    ]))
}

fn request(row: &RequestFigures) -> Value {
    Value::object(Object::of([
        ("title", row.title.as_str().into()),
        ("head", row.head.as_str().into()),
        ("steps", Value::array(row.steps.iter().map(step).collect())),
        ("times", count(row.times)),
        ("unitsBefore", units(row.before)),
        ("unitsAfter", units(row.after)),
        ("measured", row.measured.map_or(Value::Null, units)),
    ]))
}

fn step(step: &StepRow) -> Value {
    Value::object(Object::of([
        ("shape", step.shape.as_str().into()),
        ("operation", step.operation.into()),
        ("container", step.container.as_str().into()),
        ("times", units(step.times)),
        ("units", units(step.units)),
        ("ranges", units(step.ranges)),
        ("why", step.why.into()),
    ]))
}

fn instruction(instruction: &Instruction) -> Value {
    Value::object(Object::of([
        ("what", instruction.what.into()),
        ("title", instruction.title.as_str().into()),
        ("language", instruction.language.into()),
        ("text", instruction.text.as_str().into()),
    ]))
}

fn praise(praise: &Praise) -> Value {
    Value::object(Object::of([
        ("title", praise.title.as_str().into()),
        ("database", praise.database.as_str().into()),
        ("container", praise.container.as_str().into()),
    ]))
}

fn row(row: &WorkloadRow) -> Value {
    let request = &row.request;
    Value::object(Object::of([
        ("title", request.title.as_str().into()),
        ("head", request.head.as_str().into()),
        ("times", count(request.times)),
        ("units", units(request.before * request.times)),
        ("share", share(row.share)),
        ("steps", Value::array(request.steps.iter().map(step).collect())),
        ("findings", Value::array(row.findings.iter().map(|id| id.as_str().into()).collect())),
    ]))
}
