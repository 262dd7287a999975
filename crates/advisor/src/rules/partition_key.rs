//! Partition key: another key for the container itself, where no request uses the one it has.

use super::hierarchical_key;
use super::view::{asked_by, keyed_units, take_option};
use crate::observe::Verb;
use crate::propose::{Case, Change, Instruction, Proposal, Recipe, StepId};
use std::collections::BTreeMap;

pub(super) fn propose(case: &Case<'_>, proposal: &mut Proposal) {
    let mut wanted: BTreeMap<(usize, String), Vec<StepId>> = BTreeMap::new();
    for (id, _, step) in case.steps() {
        let (Some(at), Some(facts)) = (step.entity, &step.facts) else { continue };
        let Some(entity) = case.entity(at).filter(|entity| !entity.is_view) else { continue };
        if step.fans_out()
            && !facts.reshapes
            && let Some(key) = asked_by(facts, entity)
        {
            wanted.entry((at, key)).or_default().push(id);
        }
    }
    for ((at, key), steps) in wanted {
        let is_coarse = hierarchical_key::second(case, at, &key, &steps).is_some();
        if is_free(case, at, &steps) && !is_coarse {
            offer(case, proposal, at, &key, &steps);
        }
    }
}

/// Nobody reads by the key that the container has, and every item of it is of this entity.
pub(super) fn is_free(case: &Case<'_>, at: usize, steps: &[StepId]) -> bool {
    let Some(entity) = case.entity(at) else { return false };
    let others = case.model.entities.iter().filter(|other| other.name == entity.name);
    let uses_key = case.steps().any(|(id, _, step)| {
        let here = step.shape.container == entity.name;
        let reads = matches!(step.shape.verb, Verb::Read | Verb::Query | Verb::Execute);
        let points = matches!(step.shape.verb, Verb::Replace | Verb::Patch | Verb::Delete);
        here && (reads || points) && !steps.contains(&id)
    });
    others.count() == 1 && !uses_key
}

fn offer(case: &Case<'_>, proposal: &mut Proposal, at: usize, key: &str, steps: &[StepId]) {
    let Some(entity) = case.entity(at) else { return };
    let mut priced = Vec::new();
    for id in steps {
        let step = case.flows.get(id.0).and_then(|flow| flow.steps.get(id.1));
        if let Some(step) = step
            && let Some(one) = keyed_units(case, step, entity, &[key.to_owned()])
        {
            priced.push((*id, one));
        }
    }
    if priced.is_empty() {
        return;
    }
    let old = entity.key.join(", ");
    let name = &entity.name;
    let change = Change {
        id: format!("partition-key:{}/{name}:{key}", case.database),
        rule: "partition-key",
        title: format!("Key '{name}' by {key} instead of {old}"),
        reason: format!(
            "No request names {old}, the partition key of '{name}', and the query asks by {key}: key not named by the query, so every range is asked. Keyed by {key}, it asks one."
        ),
        container: name.clone(),
        built: priced.iter().map(|(_, one)| one.built).sum(),
        share_min: crate::limits::SHARE_MIN,
        recipe: Recipe::Rekey { entity: at, keys: vec![key.to_owned()] },
        apply: vec![
            Instruction::new(
                "backfill",
                "Copies the container under the other key while it serves, then swaps the names",
                "shell",
                format!(
                    "armilla rekey --database {} --container {name} --partition-key {key}",
                    case.database
                ),
            ),
            Instruction::new(
                "check",
                "Items without the new key: they would share one partition",
                "sql",
                format!(
                    "SELECT VALUE COUNT(1) FROM c WHERE NOT IS_DEFINED(c[\"{}\"])",
                    key.trim_start_matches('/')
                ),
            ),
            Instruction::new(
                "undo",
                "To undo it",
                "shell",
                format!("armilla rekey --database {} --container {name} --undo", case.database),
            ),
        ],
        ..Change::default()
    };
    let Some(change) = proposal.add(change) else { return };
    for (id, one) in &priced {
        take_option(case, proposal, *id, change, one);
    }
}
