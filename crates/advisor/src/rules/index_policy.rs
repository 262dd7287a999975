//! Index policy: paths that no query names leave the index, so that writes pay for fewer terms.
//!
//! Every path that is left out is a promise about the queries of tomorrow, so this is told only where it saves a tenth of everything.

use crate::limits::INDEX_SHARE_MIN;
use crate::observe::Verb;
use crate::propose::{Case, Change, Instruction, Proposal, Recipe, mean_of, with_members};
use crate::trial::Design;
use crate::understand::Entity;
use armilla_model::value::{Object, Value};
use std::collections::BTreeSet;

const BUILT_MAX: usize = 8;

pub(super) fn propose(case: &Case<'_>, proposal: &mut Proposal) {
    let mut told = BTreeSet::new();
    for entity in case.model.entities.iter().filter(|entity| !entity.is_view) {
        if told.insert(entity.name.clone()) {
            offer(case, proposal, &entity.name);
        }
    }
}

/// Paths that queries on a container name; nothing when one of them cannot be read.
fn named(case: &Case<'_>, container: &str) -> Option<BTreeSet<String>> {
    let mut paths = BTreeSet::new();
    for (_, _, step) in case.steps().filter(|(_, _, step)| step.shape.container == container) {
        match step.shape.verb {
            Verb::Query => {
                let facts = step.facts.as_ref().filter(|facts| !facts.reshapes)?;
                paths.extend(facts.named.iter().cloned());
            }
            // What a procedure asks is not seen.
            Verb::Execute => return None,
            _ => {}
        }
    }
    Some(paths)
}

/// A policy that has these paths alone.
fn policy(paths: &BTreeSet<String>) -> Value {
    let path = |text: &str| Value::object(Object::of([("path", text.into())]));
    let steps = |path: &String| {
        path.split('/').skip(1).map(|step| format!("/\"{step}\"")).collect::<String>() + "/?"
    };
    let included = paths.iter().map(|one| path(&steps(one))).collect();
    Value::object(Object::of([
        ("indexingMode", "consistent".into()),
        ("automatic", true.into()),
        ("includedPaths", Value::array(included)),
        ("excludedPaths", Value::array(vec![path("/*")])),
    ]))
}

fn offer(case: &Case<'_>, proposal: &mut Proposal, container: &str) {
    let Some(paths) = named(case, container) else { return };
    let policy = policy(&paths);
    let mut saved = Vec::new();
    let mut built = 0;
    for (id, _, step) in case.steps() {
        let here = step.shape.container == container && step.shape.verb.writes_item();
        let Some(entity) = step.entity.and_then(|at| case.entity(at)).filter(|_| here) else {
            continue;
        };
        let is_new = step.shape.verb == Verb::Create;
        let (Some(now), Some(then)) = (
            write_units(case, entity, None, is_new),
            write_units(case, entity, Some(&policy), is_new),
        ) else {
            return;
        };
        built += entity.samples.len().min(BUILT_MAX);
        saved.push((id, step.units - (now - then) * step.times));
    }
    if saved.is_empty() {
        return;
    }
    let Some(change) = proposal.add(change(case, container, &paths, policy, built)) else { return };
    for (id, units) in saved {
        proposal.option(id, vec![change], units);
    }
}

/// What writing items costs under a policy.
pub(super) fn write_units(
    case: &Case<'_>,
    entity: &Entity,
    policy: Option<&Value>,
    is_new: bool,
) -> Option<f64> {
    let indexing = policy.cloned();
    let design = Design { key: &entity.key, ranges: 1, like: &entity.container, indexing };
    let container = case.trial.container(&design).ok()?;
    let items: Vec<&Value> = entity.samples.iter().take(BUILT_MAX).collect();
    let created = mean_of(&items, |item| case.trial.put(&container, item))?;
    if is_new {
        return Some(created);
    }
    mean_of(&items, |item| {
        let changed = with_members(item, &[("_changed".to_owned(), 1.into())]);
        case.trial.put(&container, &changed)
    })
}

fn change(
    case: &Case<'_>,
    container: &str,
    paths: &BTreeSet<String>,
    policy: Value,
    built: usize,
) -> Change {
    let listed = paths.iter().cloned().collect::<Vec<_>>().join(", ");
    let kept = if listed.is_empty() { "nothing".to_owned() } else { format!("{listed} only") };
    Change {
        id: format!("index-policy:{}/{container}", case.database),
        rule: "index-policy",
        title: format!("Index {kept} in '{container}'"),
        reason: format!(
            "Every write of '{container}' pays for each path of the item in the index, and no query that was seen names others than {}.",
            if listed.is_empty() { "the id and the key".to_owned() } else { listed }
        ),
        container: container.to_owned(),
        built,
        share_min: INDEX_SHARE_MIN,
        apply: instructions(
            (case.database, container),
            &policy,
            "Whether a query misses a path",
            ("To undo it", r#"{"indexingMode":"consistent","includedPaths":[{"path":"/*"}]}"#),
        ),
        recipe: Recipe::Index { container: container.to_owned(), policy },
        ..Change::default()
    }
}

/// How a container gets another indexing policy, what to look at then, and the way back.
pub(super) fn instructions(
    (database, container): (&str, &str),
    policy: &Value,
    check: &str,
    (undo, before): (&str, &str),
) -> Vec<Instruction> {
    vec![
        Instruction::new(
            "definition",
            "The indexing policy; replace the container with it",
            "json",
            policy.to_json(),
        ),
        Instruction::new(
            "backfill",
            "Nothing to do: the server builds the index while the old one serves",
            "text",
            "Container reads tell the progress.",
        ),
        Instruction::new(
            "check",
            check,
            "shell",
            format!("armilla query --database {database} --container {container} --explain \"…\""),
        ),
        Instruction::new("undo", undo, "json", before),
    ]
}
