//! Hierarchical key: a key of two levels, where the path that every query names has too few values to be a key alone.
//!
//! Keyed by `/tenantId` alone, a large tenant is one logical partition, with the throughput and the size of one; below it a second
//! path that queries name spreads it, and a query that names the first alone still asks only where that tenant lies.

use super::partition_key::is_free;
use super::view::{asked_by, keyed_units, take_option};
use crate::observe::shape::Operand;
use crate::propose::{Case, Change, Instruction, Proposal, Recipe, StepId};
use crate::understand::Entity;
use std::collections::BTreeMap;

/// A value that has such a share of the items is too much for one logical partition.
const COARSE_SHARE: f64 = 0.1;
/// Sampled items from which that can be said.
const SAMPLE_MIN: usize = 20;

pub(super) fn propose(case: &Case<'_>, proposal: &mut Proposal) {
    let mut wanted: BTreeMap<(usize, String), Vec<StepId>> = BTreeMap::new();
    for (id, _, step) in case.steps() {
        let (Some(at), Some(facts)) = (step.entity, &step.facts) else { continue };
        let Some(entity) = case.entity(at).filter(|entity| !entity.is_view) else { continue };
        if step.fans_out()
            && !facts.reshapes
            && let Some(key) = first(case, at, entity)
            && facts.equalities.iter().any(|(path, _)| *path == key)
        {
            wanted.entry((at, key)).or_default().push(id);
        }
    }
    for ((at, key), steps) in wanted {
        if let Some(second) = second(case, at, &key, &steps).filter(|_| is_free(case, at, &steps)) {
            offer(case, proposal, at, &[key, second], &steps);
        }
    }
}

/// The path that all queries over every range compare with a value, if there is one.
fn first(case: &Case<'_>, at: usize, entity: &Entity) -> Option<String> {
    let mut common: Option<Vec<String>> = None;
    for (_, _, step) in case.steps().filter(|(_, _, step)| step.entity == Some(at)) {
        let Some(facts) = step.facts.as_ref().filter(|_| step.fans_out()) else { continue };
        asked_by(facts, entity)?;
        let paths = facts.equalities.iter().map(|(path, _)| path.clone());
        let paths: Vec<String> = paths.filter(|path| is_value(entity, path)).collect();
        common = Some(match common {
            Some(known) => known.into_iter().filter(|path| paths.contains(path)).collect(),
            None => paths,
        });
    }
    // The coarsest of them stands first.
    let distinct = |path: &String| entity.paths.get(path).map_or(0, |one| one.distinct.len());
    common?.into_iter().min_by_key(distinct)
}

fn is_value(entity: &Entity, path: &str) -> bool {
    entity.kind_path().as_deref() != Some(path)
        && path != "/id"
        && !entity.key.iter().any(|key| key == path)
}

/// The second level below a first that has too few values; nothing where the first will do.
pub(super) fn second(case: &Case<'_>, at: usize, key: &str, steps: &[StepId]) -> Option<String> {
    let entity = case.entity(at).filter(|entity| is_coarse(entity, key))?;
    let finer = |path: &&String| {
        let values = |path: &str| entity.paths.get(path).map_or(0, |one| one.distinct.len());
        is_value(entity, path) && values(path) > values(key)
    };
    let mut votes: BTreeMap<String, f64> = BTreeMap::new();
    for (flow, step) in steps {
        let Some(flow) = case.flows.get(*flow) else { continue };
        let Some(facts) = flow.steps.get(*step).and_then(|step| step.facts.as_ref()) else {
            continue;
        };
        let given = |operand: &Operand| matches!(operand, Operand::Parameter(_));
        let named = facts
            .equalities
            .iter()
            .filter(|(path, operand)| path != key && (given(operand) || is_value(entity, path)));
        for (path, _) in named.filter(|(path, _)| finer(&path)) {
            *votes.entry(path.clone()).or_default() += flow.times;
        }
    }
    votes.into_iter().max_by(|one, other| one.1.total_cmp(&other.1)).map(|(path, _)| path)
}

/// Whether one value of a path has too many of the items.
fn is_coarse(entity: &Entity, path: &str) -> bool {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for item in &entity.samples {
        let value = path.split('/').skip(1).try_fold(item, |value, step| value.get(step));
        *counts.entry(value.map(|value| value.to_json()).unwrap_or_default()).or_default() += 1;
    }
    let most = counts.values().max().copied().unwrap_or(0);
    entity.samples.len() >= SAMPLE_MIN && most as f64 > COARSE_SHARE * entity.samples.len() as f64
}

fn offer(
    case: &Case<'_>,
    proposal: &mut Proposal,
    at: usize,
    keys: &[String; 2],
    steps: &[StepId],
) {
    let Some(entity) = case.entity(at) else { return };
    let mut priced = Vec::new();
    for id in steps {
        let step = case.flows.get(id.0).and_then(|flow| flow.steps.get(id.1));
        if let Some(one) = step.and_then(|step| keyed_units(case, step, entity, keys)) {
            priced.push((*id, one));
        }
    }
    if priced.is_empty() {
        return;
    }
    let built = priced.iter().map(|(_, one)| one.built).sum();
    let Some(change) = proposal.add(change(case, (at, entity), keys, built)) else { return };
    for (id, one) in &priced {
        take_option(case, proposal, *id, change, one);
    }
}

fn change(
    case: &Case<'_>,
    (at, entity): (usize, &Entity),
    keys: &[String; 2],
    built: usize,
) -> Change {
    let (name, database, old) = (&entity.name, case.database, entity.key.join(", "));
    let [first, second] = keys;
    Change {
        id: format!("hierarchical-key:{database}/{name}:{first}+{second}"),
        rule: "hierarchical-key",
        title: format!("Key '{name}' by {first} and, below it, {second} instead of {old}"),
        reason: format!(
            "Queries ask by {first} and no request names {old}: key not named by the query, so every range is asked. {first} alone has too few values: one of them would be a logical partition with a tenth of the items or more. With {second} below it each is spread, and a query that names {first} alone still asks only where that value lies."
        ),
        container: name.clone(),
        built,
        share_min: crate::limits::SHARE_MIN,
        recipe: Recipe::Rekey { entity: at, keys: keys.to_vec() },
        apply: vec![
            Instruction::new(
                "backfill",
                "Copies the container under the other key while it serves, then swaps the names",
                "shell",
                format!(
                    "armilla rekey --database {database} --container {name} --partition-key {first},{second}"
                ),
            ),
            Instruction::new(
                "check",
                "Items without one of the two: they would share a partition",
                "sql",
                format!(
                    "SELECT VALUE COUNT(1) FROM c WHERE NOT IS_DEFINED(c[\"{}\"]) OR NOT IS_DEFINED(c[\"{}\"])",
                    first.trim_start_matches('/'),
                    second.trim_start_matches('/')
                ),
            ),
            Instruction::new(
                "undo",
                "To undo it",
                "shell",
                format!(
                    "armilla rekey --database {database} --container {name} --partition-key {old}"
                ),
            ),
        ],
        ..Change::default()
    }
}
