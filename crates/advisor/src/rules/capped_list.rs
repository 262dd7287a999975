//! Capped list: a list that grows without bound leaves its item, which keeps the newest few.
//!
//! Two ways are weighed: every element an item of its own, or buckets of a hundred.

use crate::limits::{BUCKET, ITEM_LARGE, LIST_KEPT, LIST_UNBOUNDED};
use crate::observe::Verb;
use crate::propose::{Case, Change, Instruction, Proposal, Recipe, mean_of, with_members};
use crate::trial::Design;
use crate::understand::Entity;
use armilla_model::value::{Object, Value};

const BUILT_MAX: usize = 4;

pub(super) fn propose(case: &Case<'_>, proposal: &mut Proposal) {
    for (at, entity) in case.model.entities.iter().enumerate() {
        let long = entity.paths.iter().find(|(path, figures)| {
            path.matches('/').count() == 1 && figures.elements.1 as f64 > LIST_UNBOUNDED
        });
        if let Some((path, _)) = long.filter(|_| entity.bytes > ITEM_LARGE) {
            for way in [Way::Items, Way::Buckets] {
                offer(case, proposal, (at, entity), path, way);
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
    items: usize,
}

fn offer(
    case: &Case<'_>,
    proposal: &mut Proposal,
    (at, entity): (usize, &Entity),
    path: &str,
    way: Way,
) {
    let Some(built) = build(case, entity, &path[1..], way) else { return };
    let mut change = change(case, entity, &path[1..], way);
    change.built = built.items;
    let buckets = way == Way::Buckets;
    change.recipe = Recipe::Capped { entity: at, list: path[1..].to_owned(), buckets };
    let Some(change) = proposal.add(change) else { return };
    for (id, flow, step) in case.steps().filter(|(_, _, step)| step.entity == Some(at)) {
        let adds =
            flow.steps.iter().any(|one| one.entity == Some(at) && one.shape.verb.writes_item());
        let units = match step.shape.verb {
            Verb::Read if adds => built.read_to_add,
            Verb::Read => built.read,
            verb if verb.writes_item() => built.add,
            _ => continue,
        };
        proposal.option(id, vec![change], units * step.times);
    }
}

fn build(case: &Case<'_>, entity: &Entity, list: &str, way: Way) -> Option<ListBuilt> {
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
                let element = elements(item).into_iter().next().unwrap_or_default();
                let element = match element {
                    Value::Object(_) => element,
                    other => Value::object(Object::of([("value", other)])),
                };
                with_members(
                    &element,
                    &[
                        of(item),
                        ("id".to_owned(), "00000000-0000-0000-0000-000000000001".into()),
                        ("type".to_owned(), "element".into()),
                    ],
                )
            };
            (read, mean_of(&samples, |item| case.trial.put(&container, &alone(item)))? + rewrite)
        }
        Way::Buckets => {
            let bucket = |item: &Value| {
                let held: Vec<Value> = elements(item).into_iter().take(BUCKET).collect();
                let members = [
                    of(item),
                    ("id".to_owned(), "00000000-0000-0000-0000-000000000002".into()),
                    (list.to_owned(), Value::array(held)),
                ];
                with_members(&Value::object(Object::new()), &members)
            };
            mean_of(&samples, |item| case.trial.put(&container, &bucket(item)))?;
            let look = mean_of(&samples, |item| case.trial.read(&container, &bucket(item)))?;
            let write =
                mean_of(&samples, |item| case.trial.put(&container, &changed(&bucket(item))))?;
            (read + look, write + rewrite)
        }
    };
    Some(ListBuilt { read, read_to_add, add, items: samples.len() * 2 })
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
        apply: vec![
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
                "Older ones",
                "sql",
                "SELECT TOP 100 * FROM c WHERE c.ownerId = @owner AND c.type = @type",
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
        ],
        ..Change::default()
    }
}
