//! Extended reference: copy the fields that are read with every reference, so that no second request is needed.
//!
//! Found where an item, or rows, are followed by reads of what they refer to. The copies are written with the item and, when the
//! original changes, by whoever follows its feed.

use crate::limits::LIST_BOUND;
use crate::live::{Live, text_of};
use crate::observe::Verb;
use crate::propose::{
    Case, Change, Instruction, Proposal, Recipe, StepId, capital, mean_of, with_members,
};
use crate::trial::Design;
use crate::understand::Entity;
use armilla_model::value::{Object, Value};
use std::collections::BTreeMap;

/// Items that are built to price a change.
const BUILT_MAX: usize = 8;

/// A reference that is followed: from which entity and path, in which steps.
#[derive(Default)]
struct Followed {
    /// Entities and paths that refer.
    from: BTreeMap<(usize, String), ()>,
    /// The reads, and the steps that bring the references.
    reads: Vec<(StepId, StepId, (usize, String))>,
}

/// Looks for reads that follow references.
pub(super) fn propose(case: &Case<'_>, proposal: &mut Proposal) {
    let mut by_target: BTreeMap<(String, usize), Followed> = BTreeMap::new();
    for (id, flow, step) in case.steps() {
        let (Verb::Read, Some(to), Some(origin)) = (step.shape.verb, step.entity, &step.origin)
        else {
            continue;
        };
        let Some(bringing) = flow.steps.get(origin.step) else { continue };
        let Some(from) = bringing.entity.filter(|from| *from != to) else { continue };
        let Some(entity) = case.entity(from).filter(|entity| !entity.is_view) else { continue };
        let is_reference =
            |path: &String| path != "/id" && path != "/" && is_bounded(case, from, path, to);
        if bringing.shape.verb.writes() || !origin.paths().all(is_reference) {
            continue;
        }
        let followed = by_target.entry((entity.name.clone(), to)).or_default();
        for path in origin.paths() {
            let place = (from, path.clone());
            followed.from.insert(place.clone(), ());
            followed.reads.push((id, (id.0, origin.step), place));
        }
    }
    for ((container, to), followed) in by_target {
        if let Some(target) = case.entity(to) {
            offer(case, proposal, &container, (to, target), &followed);
        }
    }
}

/// Lists may hold copies only while they are short and nobody adds to them.
fn is_bounded(case: &Case<'_>, from: usize, path: &str, to: usize) -> bool {
    let Some((list, _)) = path.split_once("/[]") else { return true };
    let elements = case.entity(from).and_then(|entity| entity.paths.get(list));
    let most = elements.map_or(0, |figures| figures.elements.1);
    most as f64 <= LIST_BOUND && case.creations(to) == 0.0
}

fn offer(
    case: &Case<'_>,
    proposal: &mut Proposal,
    container: &str,
    (to, target): (usize, &Entity),
    followed: &Followed,
) {
    let fields = target.fields();
    if fields.is_empty() {
        return;
    }
    let mut upkeep = 0.0;
    let mut storage = 0.0;
    let mut figures: BTreeMap<(usize, String), Enriched> = BTreeMap::new();
    for (from, path) in followed.from.keys() {
        let Some(entity) = case.entity(*from) else { continue };
        let Some(enriched) = enriched(case, entity, path, target, &fields) else { return };
        let per_target = entity.items * enriched.copies / target.items.max(1.0);
        // A change of something else leaves the copies as they are.
        let changes = case.changes(to) * case.share_changed(target, &fields);
        upkeep += changes * per_target * enriched.rewrite;
        storage += entity.items * enriched.bytes;
        figures.insert((*from, path.clone()), enriched);
    }
    let Some(change) = proposal.add(change(case, container, target, &fields, followed)) else {
        return;
    };
    if let Some(change) = proposal.changes.get_mut(change) {
        change.upkeep = upkeep;
        change.storage = storage;
        let places = followed.from.keys().cloned().collect();
        change.recipe = Recipe::Copy { places, to, fields: fields.clone() };
        change.built = figures.values().map(|one| one.built).sum();
    }
    for (read, _, _) in &followed.reads {
        proposal.option(*read, vec![change], 0.0);
    }
    let mut grown = Vec::new();
    for (_, bringing, place) in &followed.reads {
        if grown.contains(&(*bringing, place.clone())) {
            continue;
        }
        grown.push((*bringing, place.clone()));
        let step = case.flows.get(bringing.0).and_then(|flow| flow.steps.get(bringing.1));
        if let (Some(step), Some(enriched)) = (step, figures.get(place)) {
            let units = match step.shape.verb {
                Verb::Read => enriched.read_more * step.times,
                _ => enriched.row_more * step.rows,
            };
            proposal.burden(Some(*bringing), vec![change], units);
        }
    }
    for (id, _, step) in case.steps().filter(|(_, _, step)| step.shape.verb.writes_item()) {
        let own = figures.iter().filter(|((from, _), _)| step.entity == Some(*from));
        let more: f64 = own.map(|(_, enriched)| enriched.write_more).sum();
        proposal.burden(Some(id), vec![change], more * step.times);
    }
}

/// What copies do to the items that hold them, as built and charged.
#[derive(Default)]
struct Enriched {
    /// Copies in one item.
    copies: f64,
    bytes: f64,
    read_more: f64,
    row_more: f64,
    write_more: f64,
    /// Reading and writing an item again with new copies.
    rewrite: f64,
    built: usize,
}

fn enriched(
    case: &Case<'_>,
    entity: &Entity,
    path: &str,
    target: &Entity,
    fields: &[String],
) -> Option<Enriched> {
    let live = Live::new(&target.container);
    let look_up = |id: &str| live.by_id(id);
    let pairs: Vec<(Value, Value)> = entity
        .samples
        .iter()
        .filter_map(|item| Some((item.clone(), with_copies(item, path, fields, &look_up)?)))
        .take(BUILT_MAX)
        .collect();
    let design = Design { key: &entity.key, ranges: 1, like: &entity.container, indexing: None };
    let (plain, copied) =
        (case.trial.container(&design).ok()?, case.trial.container(&design).ok()?);
    let rates = case.rates(entity);
    let write_plain = mean_of(&pairs, |(item, _)| case.trial.put(&plain, item))?;
    let write_copied = mean_of(&pairs, |(_, item)| case.trial.put(&copied, item))?;
    let read_plain = mean_of(&pairs, |(item, _)| case.trial.read(&plain, item))?;
    let read_copied = mean_of(&pairs, |(_, item)| case.trial.read(&copied, item))?;
    // Other values of the same length take the places of the first ones.
    let rewrite = mean_of(&pairs, |(_, item)| {
        let changed = changed_copies(item, path, fields);
        case.trial.put(&copied, &changed)
    })?;
    let size = |item: &Value| item.to_json().len();
    let bytes = mean_of(&pairs, |(item, copied)| Ok(size(copied) as f64 - size(item) as f64))?;
    let row = (entity.bytes as usize).clamp(64, 400);
    let row_more = rates.output(row + bytes as usize).units() - rates.output(row).units();
    let copies = match path.split_once("/[]") {
        Some((list, _)) => entity.paths.get(list)?.elements_mean(),
        None => 1.0,
    };
    Some(Enriched {
        copies,
        bytes,
        read_more: read_copied - read_plain,
        row_more,
        write_more: write_copied - write_plain,
        rewrite: rewrite + read_copied,
        built: pairs.len(),
    })
}

/// The name of a copied field: `userId` and `username` make `userUsername`.
fn copy_name(path: &str, field: &str) -> String {
    let last = path.rsplit('/').find(|step| *step != "[]").unwrap_or_default();
    let stem = last.strip_suffix("Id").or_else(|| last.strip_suffix("-id")).unwrap_or(last);
    format!("{stem}{}", capital(field))
}

fn copies(path: &str, fields: &[String], target: &Value) -> Vec<(String, Value)> {
    let copy = |field: &String| Some((copy_name(path, field), target.get(field)?.clone()));
    fields.iter().filter_map(copy).collect()
}

/// An item with the copies that its references ask for.
pub(crate) fn with_copies(
    item: &Value,
    path: &str,
    fields: &[String],
    look_up: &dyn Fn(&str) -> Option<Value>,
) -> Option<Value> {
    let Some((list, inside)) = path.split_once("/[]") else {
        let id = text_of(item.get(&path[1..])?)?;
        return Some(with_members(item, &copies(path, fields, &look_up(&id)?)));
    };
    let elements = item.get(&list[1..])?.as_array()?;
    let enrich = |element: &Value| {
        let id =
            if inside.is_empty() { text_of(element) } else { text_of(element.get(&inside[1..])?) };
        let id = id?;
        let target = look_up(&id)?;
        if !inside.is_empty() {
            return Some(with_members(element, &copies(inside, fields, &target)));
        }
        // An id alone becomes an object with the id and the fields under their own names.
        let mut object = Object::of([("id", id.as_str().into())]);
        for field in fields {
            object.insert(field.as_str(), target.get(field)?.clone());
        }
        Some(Value::object(object))
    };
    let elements: Option<Vec<Value>> = elements.iter().map(enrich).collect();
    Some(with_members(item, &[(list[1..].to_owned(), Value::array(elements?))]))
}

/// The same item after the original has changed.
fn changed_copies(item: &Value, path: &str, fields: &[String]) -> Value {
    let turned = |value: &Value| match value {
        Value::String(text) => Value::from(text.chars().rev().collect::<String>().as_str()),
        Value::Number(number) => Value::from(number.as_f64() + 1.0),
        other => other.clone(),
    };
    let first = |names: &[String], object: &Value| {
        let name = names.iter().find(|name| object.get(name).is_some());
        let change = name.and_then(|name| Some((name.clone(), turned(object.get(name)?))));
        change.map_or_else(|| object.clone(), |change| with_members(object, &[change]))
    };
    let names: Vec<String> = match path.split_once("/[]") {
        Some((_, "")) => fields.to_vec(),
        Some((_, inside)) => fields.iter().map(|field| copy_name(inside, field)).collect(),
        None => fields.iter().map(|field| copy_name(path, field)).collect(),
    };
    let Some((list, _)) = path.split_once("/[]") else { return first(&names, item) };
    let elements = item.get(&list[1..]).and_then(Value::as_array).unwrap_or_default();
    // One of the originals has changed, not all of them.
    let changed = elements.iter().enumerate().map(|(at, element)| match at {
        0 => first(&names, element),
        _ => element.clone(),
    });
    with_members(item, &[(list[1..].to_owned(), Value::array(changed.collect()))])
}

fn change(
    case: &Case<'_>,
    container: &str,
    target: &Entity,
    fields: &[String],
    followed: &Followed,
) -> Change {
    let listed = fields.iter().map(|field| format!("'{field}'")).collect::<Vec<_>>().join(", ");
    let kinds: Vec<String> =
        followed.from.keys().filter_map(|(from, _)| Some(case.entity(*from)?.label())).collect();
    let kinds = kinds.join(" or ");
    Change {
        id: format!("extended-reference:{}/{container}:{}", case.database, target.name),
        rule: "extended-reference",
        title: format!(
            "Copy {listed} of '{}' into the items of '{container}' that refer to it",
            target.name
        ),
        reason: format!(
            "Whoever reads a {kinds} reads what it refers to right after: extra requests, one for each row. \
             A copy of {listed} in the item itself answers without them."
        ),
        container: container.to_owned(),
        share_min: crate::limits::SHARE_MIN,
        apply: instructions(case, container, target, fields, followed),
        ..Change::default()
    }
}

/// What an item of each kind gets.
fn gains(case: &Case<'_>, fields: &[String], followed: &Followed) -> String {
    let mut lines = Vec::new();
    for (from, path) in followed.from.keys() {
        let Some(kind) = case.entity(*from).map(Entity::label) else { continue };
        for field in fields {
            lines.push(match path.split_once("/[]") {
                Some((list, "")) => {
                    format!("{kind}: {list} becomes a list of {{\"id\", \"{field}\"}}")
                }
                Some((list, inside)) => {
                    format!("{kind}: {list}/[] gets \"{}\"", copy_name(inside, field))
                }
                None => format!("{kind}: \"{}\"", copy_name(path, field)),
            });
        }
    }
    lines.join("\n")
}

fn instructions(
    case: &Case<'_>,
    container: &str,
    target: &Entity,
    fields: &[String],
    followed: &Followed,
) -> Vec<Instruction> {
    let (database, original) = (case.database, &target.name);
    let path = followed.from.keys().next().map_or("", |(_, path)| path.as_str());
    let reference = path.rsplit('/').find(|step| *step != "[]").unwrap_or_default();
    let copy = copy_name(path, fields.first().map_or("", String::as_str));
    let run =
        format!("armilla script run copyFields --database {database} --container {container}");
    vec![
        Instruction::new(
            "definition",
            format!("Items of '{container}' get the fields; write them with the item"),
            "text",
            gains(case, fields, followed),
        ),
        Instruction::new(
            "procedure",
            format!("Brings the copies in one logical partition of '{container}' up to date"),
            "javascript",
            procedure(reference, fields),
        ),
        Instruction::new(
            "subscription",
            format!("On '{original}': tells you that an original has changed"),
            "json",
            format!(
                "{{\"id\": \"copy-{original}\", \"filter\": {{\"operations\": [\"replace\"]}}, \"target\": {{\"kind\": \"webhook\", \"url\": \"https://your.app/changed\"}}}}"
            ),
        ),
        Instruction::new(
            "backfill",
            "For each original, now and whenever one changes",
            "shell",
            format!(
                "{run} --args '[ORIGINAL]' --for-each-partition \"SELECT * FROM c WHERE c.{reference} = 'ID'\""
            ),
        ),
        Instruction::new(
            "check",
            "Items whose copy is missing: the number must be 0",
            "sql",
            format!(
                "SELECT VALUE COUNT(1) FROM c WHERE IS_DEFINED(c.{reference}) AND NOT IS_DEFINED(c.{copy})"
            ),
        ),
        Instruction::new(
            "undo",
            "To undo it",
            "text",
            format!(
                "Delete the subscription 'copy-{original}', read the original again, and stop writing the fields."
            ),
        ),
    ]
}

/// JavaScript that writes the fields of an original into the items that refer to it.
fn procedure(reference: &str, fields: &[String]) -> String {
    let sets: String = fields
        .iter()
        .map(|field| {
            format!("      item[{:?}] = original[{field:?}];\n", copy_name(reference, field))
        })
        .collect();
    format!(
        "// Called with the changed original, once for each logical partition that refers to it.\nfunction copyFields(original) {{\n  const container = getContext().getCollection();\n  const query = {{ query: \"SELECT * FROM c WHERE c.{reference} = @id\", parameters: [{{ name: \"@id\", value: original.id }}] }};\n  container.queryDocuments(container.getSelfLink(), query, (error, items) => {{\n    if (error) throw error;\n    for (const item of items) {{\n{sets}      container.replaceDocument(item._self, item, (error) => {{ if (error) throw error; }});\n    }}\n  }});\n}}\n"
    )
}
