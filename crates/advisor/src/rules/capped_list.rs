//! Capped list: a list that grows without bound leaves its item, which keeps the newest few.
//!
//! Two ways are weighed: every element an item of its own, which makes an addition cheap, or buckets of a hundred, which make it cheap to go through
//! the whole list.

use crate::flow::FlowStep;
use crate::limits::{BUCKET, ITEM_LARGE, LIST_KEPT, LIST_UNBOUNDED};
use crate::observe::Verb;
use crate::propose::{Case, Change, Instruction, Proposal, Recipe, mean_of, with_members};
use crate::trial::Design;
use crate::understand::Entity;
use armilla_engine::query::Request;
use armilla_model::Result;
use armilla_model::partition_key::{Component, PartitionKey};
use armilla_model::value::{Object, Value};
use std::sync::Arc;

const BUILT_MAX: usize = 4;

pub(super) fn propose(case: &Case<'_>, proposal: &mut Proposal) {
    for (at, entity) in case.model.entities.iter().enumerate() {
        let long = entity.paths.iter().find(|(path, figures)| {
            path.matches('/').count() == 1 && figures.elements.1 as f64 > LIST_UNBOUNDED
        });
        if let Some((path, _)) = long.filter(|_| entity.bytes > ITEM_LARGE) {
            let ways = [Way::Items, Way::Buckets];
            let offered = ways.map(|way| offer(case, proposal, (at, entity), path, way));
            // A list leaves its item in one of the two ways: both together cost more than they could save.
            if let [Some(items), Some(buckets)] = offered {
                let everything = case.flows.iter().map(|flow| flow.units() * flow.times).sum();
                proposal.burden(None, vec![items, buckets], everything);
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Items,
    Buckets,
}

struct ListBuilt {
    read: f64,
    /// Reading what is changed, and writing it, for one element more.
    read_to_add: f64,
    add: f64,
    /// Reading the whole list, if anybody does.
    whole: Option<f64>,
    items: usize,
}

/// The owner with everything that left its list.
const WHOLE: &str = "SELECT * FROM c WHERE c.ownerId = @owner";

/// The request for an owner and its list, and the key that it has.
pub(crate) fn whole_list(owner: &Value) -> Result<(Request, PartitionKey)> {
    let request = Request::new(WHOLE, vec![(Arc::from("@owner"), owner.clone())])?;
    Ok((request, PartitionKey(vec![Component::from_value(Some(owner))])))
}

/// Whether a step goes through the list of one item, which its key names.
fn goes_through(entity: &Entity, step: &FlowStep, path: &str) -> bool {
    let unwinds = step.facts.as_ref().and_then(|facts| facts.unwinds.as_deref());
    unwinds == Some(path) && step.shape.keyed && entity.key == ["/id"]
}

fn offer(
    case: &Case<'_>,
    proposal: &mut Proposal,
    (at, entity): (usize, &Entity),
    path: &str,
    way: Way,
) -> Option<usize> {
    let mut own = case.steps().filter(|(_, _, step)| step.entity == Some(at));
    let is_whole = own.any(|(_, _, step)| goes_through(entity, step, path));
    let built = build(case, entity, &path[1..], (way, is_whole))?;
    let mut change = change(case, entity, &path[1..], way);
    change.built = built.items;
    let buckets = way == Way::Buckets;
    change.recipe = Recipe::Capped { entity: at, list: path[1..].to_owned(), buckets };
    let change = proposal.add(change)?;
    for (id, flow, step) in case.steps().filter(|(_, _, step)| step.entity == Some(at)) {
        let adds =
            flow.steps.iter().any(|one| one.entity == Some(at) && one.shape.verb.writes_item());
        let units = match step.shape.verb {
            Verb::Read if adds => built.read_to_add,
            Verb::Read => built.read,
            verb if verb.writes_item() => built.add,
            Verb::Query if goes_through(entity, step, path) => match built.whole {
                Some(whole) => whole,
                None => continue,
            },
            _ => continue,
        };
        proposal.option(id, vec![change], units * step.times);
    }
    Some(change)
}

fn build(
    case: &Case<'_>,
    entity: &Entity,
    list: &str,
    (way, is_whole): (Way, bool),
) -> Option<ListBuilt> {
    let keys = ["/ownerId".to_owned()];
    let design = Design { key: &keys, ranges: 1, like: &entity.container, indexing: None };
    let container = case.trial.container(&design).ok()?;
    let samples: Vec<&Value> = entity.samples.iter().take(BUILT_MAX).collect();
    let elements =
        |item: &Value| item.get(list).and_then(Value::as_array).unwrap_or_default().to_vec();
    let of = |item: &Value| ("ownerId".to_owned(), item.get("id").cloned().unwrap_or_default());
    let small = |item: &Value| {
        let newest: Vec<Value> = elements(item).into_iter().rev().take(LIST_KEPT).collect();
        with_members(item, &[(list.to_owned(), Value::array(newest)), of(item)])
    };
    let changed = |item: &Value| with_members(item, &[("_changed".to_owned(), 1.into())]);
    mean_of(&samples, |item| case.trial.put(&container, &small(item)))?;
    let read = mean_of(&samples, |item| case.trial.read(&container, &small(item)))?;
    let rewrite = mean_of(&samples, |item| case.trial.put(&container, &changed(&small(item))))?;
    let (read_to_add, add) = match way {
        Way::Items => {
            let alone = |item: &Value| {
                let first = elements(item).into_iter().next().unwrap_or_default();
                moved_out(item, list, (way, 1), &[first])
            };
            (read, mean_of(&samples, |item| case.trial.put(&container, &alone(item)))? + rewrite)
        }
        Way::Buckets => {
            let bucket = |item: &Value| {
                let held: Vec<Value> = elements(item).into_iter().take(BUCKET).collect();
                moved_out(item, list, (way, 1), &held)
            };
            mean_of(&samples, |item| case.trial.put(&container, &bucket(item)))?;
            let look = mean_of(&samples, |item| case.trial.read(&container, &bucket(item)))?;
            let write =
                mean_of(&samples, |item| case.trial.put(&container, &changed(&bucket(item))))?;
            (read + look, write + rewrite)
        }
    };
    let size = if way == Way::Buckets { BUCKET } else { 1 };
    let whole = is_whole.then(|| {
        mean_of(&samples, |item| {
            for (number, held) in elements(item).chunks(size).enumerate() {
                case.trial.put(&container, &moved_out(item, list, (way, number), held))?;
            }
            let (request, key) = whole_list(&item.get("id").cloned().unwrap_or_default())?;
            case.trial.query(&container, &request, Some(&key)).map(|(units, _)| units)
        })
    });
    Some(ListBuilt { read, read_to_add, add, whole: whole.flatten(), items: samples.len() * 2 })
}

/// Elements of an item's list as an item of their own.
fn moved_out(owner: &Value, list: &str, (way, number): (Way, usize), held: &[Value]) -> Value {
    let owner_id = owner.get("id").cloned().unwrap_or_default();
    let id = format!("00000000-0000-0000-0000-{number:012}");
    let members = [("ownerId".to_owned(), owner_id), ("id".to_owned(), id.as_str().into())];
    match (way, held) {
        (Way::Items, [element]) => {
            let element = match element {
                Value::Object(_) => element.clone(),
                other => Value::object(Object::of([("value", other.clone())])),
            };
            let item = with_members(&element, &members);
            with_members(&item, &[("type".to_owned(), "element".into())])
        }
        _ => {
            let bucket = with_members(&Value::object(Object::new()), &members);
            with_members(&bucket, &[(list.to_owned(), Value::array(held.to_vec()))])
        }
    }
}

fn change(case: &Case<'_>, entity: &Entity, list: &str, way: Way) -> Change {
    let (label, name) = (entity.label(), &entity.name);
    let (rule, title, shape) = match way {
        Way::Items => (
            "capped-list",
            format!(
                "Keep the newest {LIST_KEPT} of '{list}' in each {label}, and every one as an item of its own"
            ),
            format!(
                "{{ \"id\": \"…\", \"ownerId\": \"id of the {label}\", \"type\": \"{list}\", … }}"
            ),
        ),
        Way::Buckets => (
            "buckets",
            format!(
                "Keep the newest {LIST_KEPT} of '{list}' in each {label}, and the rest in items of {BUCKET}"
            ),
            format!(
                "{{ \"id\": \"…\", \"ownerId\": \"id of the {label}\", \"number\": 7, \"{list}\": [ … at most {BUCKET} ] }}"
            ),
        ),
    };
    Change {
        id: format!("{rule}:{}/{name}:{list}", case.database),
        rule,
        title,
        reason: format!(
            "'{list}' grows without bound inside the {label}: every read carries all of it, every addition writes all of it again, and one day the item is too large to be stored. The newest few are what most readers want."
        ),
        container: name.clone(),
        share_min: crate::limits::SHARE_MIN,
        apply: instructions(name, list, way, shape),
        ..Change::default()
    }
}

fn instructions(name: &str, list: &str, way: Way, shape: String) -> Vec<Instruction> {
    vec![
        Instruction::new(
            "definition",
            "A container keyed by the owner",
            "json",
            format!(
                "{{ \"id\": \"{name}\", \"partitionKey\": {{ \"paths\": [\"/ownerId\"], \"kind\": \"Hash\", \"version\": 2 }} }}"
            ),
        ),
        Instruction::new("definition", "What moves out", "text", shape),
        Instruction::new(
            "query",
            match way {
                Way::Items => "Older ones",
                Way::Buckets => "The whole list, a hundred to an item, with its owner",
            },
            "sql",
            match way {
                Way::Items => "SELECT TOP 100 * FROM c WHERE c.ownerId = @owner AND c.type = @type",
                Way::Buckets => WHOLE,
            },
        ),
        Instruction::new(
            "backfill",
            "Write the elements as items, then the owner with the newest few",
            "text",
            format!("armilla export, split '{list}', armilla import"),
        ),
        Instruction::new(
            "check",
            "Owners whose list is still long",
            "sql",
            format!("SELECT VALUE COUNT(1) FROM c WHERE ARRAY_LENGTH(c.{list}) > {LIST_KEPT}"),
        ),
        Instruction::new(
            "undo",
            "To undo it",
            "text",
            "Put the elements back into the list before you delete the items.",
        ),
    ]
}
