//! Synthetic key: an id made of the properties that every query names, so that a query for one item becomes a point read.

use super::partition_key::is_free;
use super::view::value_asked;
use crate::flow::FlowStep;
use crate::live::text_of;
use crate::observe::{Asked, Verb};
use crate::propose::{Case, Change, Instruction, Proposal, Recipe, StepId, mean_of, with_members};
use crate::trial::Design;
use crate::understand::Entity;
use armilla_model::value::Value;
use std::collections::{BTreeMap, HashSet};

/// Between two properties in an id.
const JOINT: &str = "|";
const BUILT_MAX: usize = 8;
/// Sampled items from which it can be said that no two would have one id.
const SAMPLE_MIN: usize = 10;
/// Rows of a request that asks for one item.
const ONE_ROW: f64 = 1.05;

pub(super) fn propose(case: &Case<'_>, proposal: &mut Proposal) {
    let mut wanted: BTreeMap<usize, Vec<StepId>> = BTreeMap::new();
    for (id, _, step) in case.steps().filter(|(_, _, step)| step.shape.verb == Verb::Query) {
        if let Some(at) = step.entity {
            wanted.entry(at).or_default().push(id);
        }
    }
    for (at, steps) in wanted {
        if let Some(paths) = paths(case, at, &steps) {
            offer(case, proposal, at, &paths, &steps);
        }
    }
}

/// The properties that all queries for an entity compare, when nobody uses its id and they say which item is meant.
fn paths(case: &Case<'_>, at: usize, steps: &[StepId]) -> Option<Vec<String>> {
    let entity = case.entity(at).filter(|entity| !entity.is_view && entity.kind.is_none())?;
    let mut common: Option<Vec<String>> = None;
    for (flow, step) in steps {
        let step = case.flows.get(*flow)?.steps.get(*step)?;
        let facts = step.facts.as_ref()?;
        let is_one = step.rows <= step.times * ONE_ROW && !facts.counts && !facts.reshapes;
        let mut paths: Vec<String> =
            facts.equalities.iter().map(|(path, _)| path.clone()).collect();
        paths.sort_unstable();
        paths.dedup();
        let is_plain = paths.iter().all(|path| path.matches('/').count() == 1 && path != "/id");
        if !is_one || facts.has_more || paths.is_empty() || !is_plain {
            return None;
        }
        if common.as_ref().is_some_and(|known| *known != paths) {
            return None;
        }
        common = Some(paths);
    }
    let paths = common?;
    let is_named = case.model.links.iter().any(|link| link.to == at);
    let ids: HashSet<String> = entity
        .samples
        .iter()
        .filter_map(|item| with_id(item, &paths)?.get("id").and_then(text_of))
        .collect();
    let is_unique = ids.len() == entity.samples.len() && ids.len() >= SAMPLE_MIN;
    (is_unique && !is_named && is_free(case, at, steps)).then_some(paths)
}

/// The id that is made of values.
pub(crate) fn id_made_of(values: &[Value]) -> String {
    let texts: Vec<String> =
        values.iter().map(|value| text_of(value).unwrap_or_default()).collect();
    texts.join(JOINT)
}

/// An item under the id that its properties make.
pub(crate) fn with_id(item: &Value, paths: &[String]) -> Option<Value> {
    let value = |path: &String| item.get(&path[1..]).filter(|value| text_of(value).is_some());
    let values: Option<Vec<Value>> = paths.iter().map(|path| value(path).cloned()).collect();
    let id = Value::from(id_made_of(&values?).as_str());
    Some(with_members(item, &[("id".to_owned(), id)]))
}

/// The values that a recorded query compares these paths with.
pub(crate) fn values_of(step: &FlowStep, asked: &Asked, paths: &[String]) -> Option<Vec<Value>> {
    let request = step.request(asked)?;
    paths.iter().map(|path| value_asked(step, &request, path)).collect()
}

fn offer(case: &Case<'_>, proposal: &mut Proposal, at: usize, paths: &[String], steps: &[StepId]) {
    let Some(entity) = case.entity(at) else { return };
    let key = ["/id".to_owned()];
    let design = Design { key: &key, ranges: 1, like: &entity.container, indexing: None };
    let plain = Design { key: &entity.key, ranges: 1, like: &entity.container, indexing: None };
    let (Ok(container), Ok(plain)) = (case.trial.container(&design), case.trial.container(&plain))
    else {
        return;
    };
    let now: Vec<Value> = entity.samples.iter().take(BUILT_MAX).cloned().collect();
    let items: Vec<Value> = now.iter().filter_map(|item| with_id(item, paths)).collect();
    let put = mean_of(&items, |item| case.trial.put(&container, item));
    let read = mean_of(&items, |item| case.trial.read(&container, item));
    let before = mean_of(&now, |item| case.trial.put(&plain, item));
    let (Some(put), Some(read), Some(before)) = (put, read, before) else { return };
    let Some(change) = proposal.add(change(case, (at, entity), paths, items.len())) else { return };
    for id in steps {
        let step = case.flows.get(id.0).and_then(|flow| flow.steps.get(id.1));
        if let Some(step) = step {
            proposal.option(*id, vec![change], read * step.times);
        }
    }
    for (id, _, step) in case.steps() {
        if step.entity == Some(at) && step.shape.verb.writes_item() {
            proposal.burden(Some(id), vec![change], (put - before) * step.times);
        }
    }
}

/// A text in which jq puts these properties; the whole stands between quotes of a shell.
fn filter_of(paths: &[String]) -> String {
    let part = |path: &String| format!("\\(.[{}])", Value::from(&path[1..]).to_json());
    let parts: Vec<String> = paths.iter().map(part).collect();
    parts.join(JOINT).replace('\'', r"'\''")
}

fn change(
    case: &Case<'_>,
    (at, entity): (usize, &Entity),
    paths: &[String],
    built: usize,
) -> Change {
    let (name, database, label) = (&entity.name, case.database, entity.label());
    let listed = paths.join(" and ");
    let made = paths.iter().map(|path| format!("{{{}}}", &path[1..])).collect::<Vec<_>>();
    let made = made.join(JOINT);
    let doubles = paths.iter().map(|path| format!("c[\"{}\"]", &path[1..])).collect::<Vec<_>>();
    let doubles = doubles.join(", ");
    Change {
        id: format!("synthetic-key:{database}/{name}:{}", paths.join("+")),
        rule: "synthetic-key",
        title: format!(
            "Make the id of each {label} of {listed}, key '{name}' by it, and read it by that"
        ),
        reason: format!(
            "Every query of '{name}' names {listed} and gets one {label}, and nobody asks by the id. An id that is made of them, and is the partition key too, turns the query into a point read, which is the cheapest request there is."
        ),
        container: name.clone(),
        built,
        share_min: crate::limits::SHARE_MIN,
        recipe: Recipe::Synthetic { entity: at, paths: paths.to_vec() },
        apply: vec![
            Instruction::new("definition", "What the id of an item becomes", "text", made.clone()),
            Instruction::new(
                "query",
                "Read the item so, instead of the query",
                "text",
                format!("read item \"{made}\" with the key \"{made}\""),
            ),
            Instruction::new(
                "backfill",
                format!(
                    "Into a container '{name}-by-id' with the key /id, where the application writes from then on. armilla rekey cannot do it: it keeps every id, and here the id itself is another. Run it again when the application has changed: what was written meanwhile is replaced"
                ),
                "shell",
                format!(
                    "armilla export items.jsonl --database {database} --container {name}\njq -c '.id = \"{}\"' items.jsonl > keyed.jsonl\narmilla import keyed.jsonl --database {database} --container {name}-by-id --partition-key /id",
                    filter_of(paths)
                ),
            ),
            Instruction::new(
                "check",
                "Items that would have one id: no row may say more than 1",
                "sql",
                format!("SELECT {doubles}, COUNT(1) AS items FROM c GROUP BY {doubles}"),
            ),
            Instruction::new(
                "undo",
                "To undo it",
                "text",
                format!("Ask '{name}' by the query again and delete '{name}-by-id'."),
            ),
        ],
        ..Change::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_named_for_jq_and_the_shell() {
        let paths = ["/product".to_owned(), "/it's".to_owned()];
        assert_eq!(filter_of(&paths), r#"\(.["product"])|\(.["it'\''s"])"#);
    }
}
