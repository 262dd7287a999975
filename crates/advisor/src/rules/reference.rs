//! Reference: what is copied into many items and changes often is kept once and referred to.
//!
//! Found where one change is a query for all items that hold a copy, followed by a write of each of them.

use crate::observe::Verb;
use crate::propose::{Case, Change, Instruction, Proposal, Recipe, StepId, mean_of};
use crate::trial::Design;
use crate::understand::{Entity, PathFigures};
use armilla_model::json;
use armilla_model::value::{Object, Value};

const BUILT_MAX: usize = 8;
/// Writes of one activity from which a change counts as spread.
const SPREAD_MIN: f64 = 2.0;

pub(super) fn propose(case: &Case<'_>, proposal: &mut Proposal) {
    for (id, flow, step) in case.steps() {
        let is_write = matches!(step.shape.verb, Verb::Upsert | Verb::Replace);
        let (true, Some(at), Some(origin)) = (is_write, step.entity, &step.origin) else {
            continue;
        };
        let head = flow
            .steps
            .get(origin.step)
            .filter(|head| head.shape.verb == Verb::Query && head.entity == Some(at));
        if head.is_none() || step.times < SPREAD_MIN {
            continue;
        }
        let Some(entity) = case.entity(at) else { continue };
        if let Some((path, figures)) = repeated(entity) {
            offer(case, proposal, (at, entity), (path, figures), [(id.0, origin.step), id]);
        }
    }
}

/// An object that stands in many items alike.
fn repeated(entity: &Entity) -> Option<(&String, &PathFigures)> {
    let mut found: Vec<_> = entity
        .paths
        .iter()
        .filter(|(path, figures)| {
            figures.is_object
                && !path.ends_with("/[]")
                && figures.distinct.len() * 2 <= figures.values
                && figures.distinct.len() > 1
        })
        .collect();
    found.sort_by_key(|(_, figures)| std::cmp::Reverse(figures.values));
    found.into_iter().next()
}

fn offer(
    case: &Case<'_>,
    proposal: &mut Proposal,
    (at, entity): (usize, &Entity),
    (path, figures): (&str, &PathFigures),
    steps: [StepId; 2],
) {
    let objects: Vec<Value> = figures
        .distinct
        .iter()
        .filter_map(|text| json::parse(text.as_bytes()).ok())
        .take(BUILT_MAX)
        .collect();
    let keys = ["/id".to_owned()];
    let design = Design { key: &keys, ranges: 1, like: &entity.container, indexing: None };
    let Ok(container) = case.trial.container(&design) else { return };
    let item = |number: usize, object: &Value, turn: f64| {
        let mut made =
            Object::of([("id", format!("00000000-0000-0000-0000-{number:012}").as_str().into())]);
        let mut is_turned = false;
        for (name, value) in object.as_object().into_iter().flat_map(Object::iter) {
            let value = match value {
                Value::Number(number) if !is_turned => {
                    is_turned = true;
                    Value::from(number.as_f64() + turn)
                }
                other => other.clone(),
            };
            made.insert(name.clone(), value);
        }
        Value::object(made)
    };
    let numbered: Vec<(usize, &Value)> = objects.iter().enumerate().collect();
    let put = mean_of(&numbered, |(number, object)| {
        case.trial.put(&container, &item(*number, object, 0.0))
    });
    let write = mean_of(&numbered, |(number, object)| {
        case.trial.put(&container, &item(*number, object, 0.5))
    });
    let read = mean_of(&numbered, |(number, object)| {
        case.trial.read(&container, &item(*number, object, 0.0))
    });
    let (Some(_), Some(write), Some(read)) = (put, write, read) else { return };
    let held = figures.values as f64 / entity.samples.len().max(1) as f64;
    let mut change = change(case, entity, path);
    change.built = objects.len();
    change.recipe = Recipe::Reference { entity: at, path: path.to_owned() };
    let Some(change) = proposal.add(change) else { return };
    proposal.option(steps[0], vec![change], 0.0);
    proposal.option(steps[1], vec![change], write);
    for (id, _, step) in case.steps() {
        if step.entity == Some(at) && step.shape.verb == Verb::Read {
            proposal.burden(Some(id), vec![change], held * read * step.times);
        }
    }
}

fn change(case: &Case<'_>, entity: &Entity, path: &str) -> Change {
    let name = path.rsplit('/').find(|step| *step != "[]").unwrap_or("copy");
    let (container, label) = (&entity.name, entity.label());
    Change {
        id: format!("reference:{}/{container}:{path}", case.database),
        rule: "reference",
        title: format!(
            "Keep each '{name}' once, in a container '{name}s', and refer to it from '{container}'"
        ),
        reason: format!(
            "The same '{name}' stands in many items of '{container}', and when it changes all of them are found and written again. Kept once, a change is one write; reading a {label} then takes a request for each '{name}' that it refers to."
        ),
        container: container.clone(),
        share_min: crate::limits::SHARE_MIN,
        apply: vec![
            Instruction::new(
                "definition",
                format!("The container of the {name}s"),
                "json",
                format!(
                    "{{ \"id\": \"{name}s\", \"partitionKey\": {{ \"paths\": [\"/id\"], \"kind\": \"Hash\", \"version\": 2 }} }}"
                ),
            ),
            Instruction::new(
                "definition",
                format!("Items of '{container}' refer to it"),
                "text",
                format!("{path} becomes {path}Id"),
            ),
            Instruction::new(
                "backfill",
                "The different ones, to be created once each",
                "sql",
                format!(
                    "SELECT DISTINCT VALUE x.{name} FROM c JOIN x IN c.{}",
                    path.trim_start_matches('/').split("/[]").next().unwrap_or_default()
                ),
            ),
            Instruction::new(
                "check",
                "Items that still hold a copy",
                "sql",
                format!(
                    "SELECT VALUE COUNT(1) FROM c JOIN x IN c.{} WHERE IS_DEFINED(x.{name})",
                    path.trim_start_matches('/').split("/[]").next().unwrap_or_default()
                ),
            ),
            Instruction::new(
                "undo",
                "To undo it",
                "text",
                "Write the copies back before you delete the new container.",
            ),
        ],
        ..Change::default()
    }
}
