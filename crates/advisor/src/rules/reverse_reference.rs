//! Reverse reference: a list of ids that grows becomes one id in each child, and the children are keyed by it.

use crate::limits::LIST_BOUND;
use crate::live::Live;
use crate::observe::Verb;
use crate::propose::{Case, Change, Instruction, Proposal, Recipe, StepId, mean_of, with_members};
use crate::trial::Design;
use crate::understand::Entity;
use armilla_engine::query::Request;
use armilla_model::partition_key::{Component, PartitionKey};
use armilla_model::value::Value;
use std::sync::Arc;

const ASKED_MAX: usize = 3;
const BUILT_MAX: usize = 8;

pub(super) fn propose(case: &Case<'_>, proposal: &mut Proposal) {
    for (id, flow, step) in case.steps() {
        let (Verb::Read, Some(child), Some(origin)) = (step.shape.verb, step.entity, &step.origin)
        else {
            continue;
        };
        let Some((list, "")) = origin.path.split_once("/[]") else { continue };
        let Some(parent) = flow.steps.get(origin.step).and_then(|step| step.entity) else {
            continue;
        };
        let Some(entity) = case.entity(parent) else { continue };
        let most = entity.paths.get(list).map_or(0, |figures| figures.elements.1);
        let grows = most as f64 > LIST_BOUND || case.creations(child) > 0.0;
        // Reads by id alone would have to ask every range.
        let read_elsewhere = case.steps().any(|(other, _, step)| {
            other != id && step.entity == Some(child) && step.shape.verb == Verb::Read
        });
        if grows && !read_elsewhere {
            let found = Found {
                parent,
                child,
                list: list.to_owned(),
                read: id,
                bringing: (id.0, origin.step),
            };
            offer(case, proposal, &found);
        }
    }
}

struct Found {
    parent: usize,
    child: usize,
    list: String,
    read: StepId,
    bringing: StepId,
}

fn offer(case: &Case<'_>, proposal: &mut Proposal, found: &Found) {
    let (Some(parent), Some(child)) = (case.entity(found.parent), case.entity(found.child)) else {
        return;
    };
    let property = format!("{}Id", parent.label().split(['_', '-']).next().unwrap_or_default());
    let Some((units, built)) = list_units(case, parent, child, found, &property) else { return };
    let Some(written) = child_more(case, child, &property) else { return };
    let Some(change) = proposal.add(change(case, parent, child, found, &property)) else { return };
    if let Some(change) = proposal.changes.get_mut(change) {
        change.built = built;
        change.recipe = Recipe::Reverse {
            parent: found.parent,
            child: found.child,
            list: found.list.clone(),
            property: property.clone(),
        };
        change.storage =
            child.items * (property.len() + 44) as f64 - parent.items * parent.bytes / 2.0;
    }
    let times = |id: StepId| {
        case.flows.get(id.0).and_then(|flow| flow.steps.get(id.1)).map_or(0.0, |step| step.times)
    };
    proposal.option(found.read, vec![change], units * times(found.bringing));
    let small = |item: &Value| {
        let mut object = item.as_object().cloned().unwrap_or_default();
        object.remove(&found.list[1..]);
        Value::object(object)
    };
    let rates = case.rates(parent);
    let read = mean_of(parent.samples.iter().take(BUILT_MAX), |item| {
        Ok(rates.read(small(item).to_json().len() + 200).units())
    });
    for (id, flow, step) in case.steps() {
        let adds = flow
            .steps
            .iter()
            .any(|one| one.entity == Some(found.child) && one.shape.verb == Verb::Create);
        if step.entity == Some(found.parent) && adds {
            // The list was rewritten for the child that was added.
            proposal.option(id, vec![change], 0.0);
        } else if step.entity == Some(found.parent) && step.shape.verb == Verb::Read {
            proposal.option(id, vec![change], read.unwrap_or(step.units) * step.times);
        }
        if step.entity == Some(found.child) && step.shape.verb.writes_item() {
            proposal.burden(Some(id), vec![change], written * step.times);
        }
    }
}

/// What asking for the children of one parent costs, by doing.
fn list_units(
    case: &Case<'_>,
    parent: &Entity,
    child: &Entity,
    found: &Found,
    property: &str,
) -> Option<(f64, usize)> {
    let keys = [format!("/{property}")];
    let design = Design { key: &keys, ranges: 1, like: &child.container, indexing: None };
    let examples = &case.flows.get(found.bringing.0)?.steps.get(found.bringing.1)?.examples;
    let parents = examples.iter().filter_map(|asked| {
        Live::new(&parent.container).read(asked.key.as_deref()?, asked.item.as_deref()?)
    });
    let mut built = 0;
    let units = mean_of(parents.take(ASKED_MAX), |item| {
        let container = case.trial.container(&design)?;
        let id = item.get("id").cloned().unwrap_or_default();
        let ids = item.get(&found.list[1..]).and_then(Value::as_array).unwrap_or_default();
        let live = Live::new(&child.container);
        for one in ids.iter().filter_map(|id| live.by_id(id.as_str()?)) {
            case.trial
                .put(&container, &with_members(&one, &[(property.to_owned(), id.clone())]))?;
            built += 1;
        }
        let text = format!("SELECT * FROM c WHERE c[\"{property}\"] = @parent");
        let request = Request::new(&text, vec![(Arc::from("@parent"), id.clone())])?;
        let key = PartitionKey(vec![Component::from_value(Some(&id))]);
        Ok(case.trial.query(&container, &request, Some(&key))?.0)
    })?;
    Some((units, built))
}

/// What writing a child costs more with its parent's id.
fn child_more(case: &Case<'_>, child: &Entity, property: &str) -> Option<f64> {
    let keys = [format!("/{property}")];
    let design = |key| Design { key, ranges: 1, like: &child.container, indexing: None };
    let plain = case.trial.container(&design(&child.key)).ok()?;
    let keyed = case.trial.container(&design(&keys)).ok()?;
    let items: Vec<&Value> = child.samples.iter().take(BUILT_MAX).collect();
    let before = mean_of(&items, |item| case.trial.put(&plain, item))?;
    let after = mean_of(&items, |item| {
        let id = item.get("id").cloned().unwrap_or_default();
        case.trial.put(&keyed, &with_members(item, &[(property.to_owned(), id)]))
    })?;
    Some(after - before)
}

fn change(
    case: &Case<'_>,
    parent: &Entity,
    child: &Entity,
    found: &Found,
    property: &str,
) -> Change {
    let (label, list, name) = (parent.label(), found.list.trim_start_matches('/'), &child.name);
    Change {
        id: format!("reverse-reference:{}/{name}:{list}", case.database),
        rule: "reverse-reference",
        title: format!(
            "Put '{property}' into each item of '{name}', key them by it, and drop the list '{list}'"
        ),
        reason: format!(
            "Every {label} has a list of ids that grows with each item of '{name}': adding one rewrites the {label}, and reading them takes an extra request for each. With '{property}' in the items and as their key, adding is one small write and the list is one query in one partition."
        ),
        container: name.clone(),
        share_min: crate::limits::SHARE_MIN,
        apply: vec![
            Instruction::new(
                "definition",
                "The container of the children",
                "json",
                format!(
                    "{{ \"id\": \"{name}\", \"partitionKey\": {{ \"paths\": [\"/{property}\"], \"kind\": \"Hash\", \"version\": 2 }} }}"
                ),
            ),
            Instruction::new(
                "query",
                "The children of one parent",
                "sql",
                format!("SELECT * FROM c WHERE c[\"{property}\"] = @parent"),
            ),
            Instruction::new(
                "backfill",
                "Write the id into the children, then key them by it",
                "shell",
                format!(
                    "armilla rekey --database {} --container {name} --partition-key /{property}",
                    case.database
                ),
            ),
            Instruction::new(
                "check",
                "Children without a parent",
                "sql",
                format!("SELECT VALUE COUNT(1) FROM c WHERE NOT IS_DEFINED(c[\"{property}\"])"),
            ),
            Instruction::new(
                "undo",
                "To undo it",
                "text",
                format!("Keep '{list}' until the check is 0; until then nothing is lost."),
            ),
        ],
        ..Change::default()
    }
}
