//! Embed: a short list of children, which nobody adds to one by one, inside their parent.
//!
//! Found where an item is followed by a query for its children. Children that only join two entities are embedded as what
//! they lead to: `{id, name}` instead of a pair of ids.

use crate::flow::{Flow, FlowStep};
use crate::limits::LIST_BOUND;
use crate::live::{Live, text_of};
use crate::observe::Verb;
use crate::observe::shape::Operand;
use crate::propose::{Case, Change, Instruction, Proposal, Recipe, StepId, mean_of, with_members};
use crate::trial::Design;
use crate::understand::Entity;
use armilla_engine::query::Request;
use armilla_model::value::{Object, Value};
use std::sync::Arc;

const BUILT_MAX: usize = 8;

/// Children that follow their parent.
struct Children<'a> {
    parent: usize,
    child: usize,
    /// The property of the child that has the parent's id.
    by: String,
    /// Where the child leads, if it joins, and by which property.
    joined: Option<(usize, String)>,
    bringing: StepId,
    steps: Vec<StepId>,
    step: &'a FlowStep,
}

pub(super) fn propose(case: &Case<'_>, proposal: &mut Proposal) {
    for (id, flow, step) in case.steps() {
        if let Some(children) = children(case, id, flow, step) {
            offer(case, proposal, &children);
        }
    }
}

fn children<'a>(
    case: &Case<'_>,
    id: StepId,
    flow: &Flow,
    step: &'a FlowStep,
) -> Option<Children<'a>> {
    let facts =
        step.facts.as_ref().filter(|facts| !facts.counts && !facts.reshapes && !facts.has_more)?;
    let (child, origin) = (step.entity?, step.origin.as_ref()?);
    let bringing = flow.steps.get(origin.step).filter(|step| step.shape.verb == Verb::Read)?;
    let parent = bringing.entity.filter(|parent| *parent != child && origin.path == "/id")?;
    let entity = case.entity(child).filter(|entity| !entity.is_view)?;
    let given = |(path, operand): &&(String, Operand)| {
        matches!(operand, Operand::Parameter(_)) && entity.kind_path().as_deref() != Some(path)
    };
    let by = facts.equalities.iter().find(given).map(|(path, _)| path.clone())?;
    let follows = |other: &&(usize, &FlowStep)| {
        let from_here = other.1.origin.as_ref().is_some_and(|origin| origin.step == id.1);
        from_here && other.1.shape.verb == Verb::Read
    };
    let reads = flow.steps.iter().enumerate().collect::<Vec<_>>();
    let next = reads.iter().find(follows);
    let joined = next.and_then(|(_, read)| {
        let to = read.entity?;
        let link = case
            .model
            .links
            .iter()
            .find(|link| link.from == child && link.to == to && link.path != by)?;
        Some((to, link.path.clone()))
    });
    let mut steps = vec![id];
    steps.extend(next.filter(|_| joined.is_some()).map(|(at, _)| (id.0, *at)));
    Some(Children { parent, child, by, joined, bringing: (id.0, origin.step), steps, step })
}

/// Short lists that nobody adds to.
fn is_bounded(case: &Case<'_>, children: &Children<'_>) -> bool {
    let each = children.step.rows / children.step.times.max(1e-9);
    let (Some(parent), Some(child)) = (case.entity(children.parent), case.entity(children.child))
    else {
        return false;
    };
    let mean = child.items / parent.items.max(1.0);
    each <= LIST_BOUND && mean <= LIST_BOUND && case.creations(children.child) == 0.0
}

fn offer(case: &Case<'_>, proposal: &mut Proposal, children: &Children<'_>) {
    let (Some(parent), Some(child)) = (case.entity(children.parent), case.entity(children.child))
    else {
        return;
    };
    if parent.is_view || !is_bounded(case, children) {
        return;
    }
    let target = children.joined.as_ref().and_then(|(to, _)| case.entity(*to)).unwrap_or(child);
    let list = target.name.split(['_', '-']).next().unwrap_or(&target.name).to_owned();
    let pairs: Vec<(Value, Value)> = parent
        .samples
        .iter()
        .filter_map(|item| Some((item.clone(), with_children(case, item, &list, children)?)))
        .take(BUILT_MAX)
        .collect();
    let Some(built) = build(case, parent, &pairs) else { return };
    let per_target = child.items / target.items.max(1.0);
    // What is embedded is rewritten in every parent when it changes.
    let changed = match &children.joined {
        Some((to, _)) => case.changes(*to),
        None => case.changes(children.child),
    };
    let copies = if children.joined.is_some() { per_target } else { 1.0 };
    let mut change = change(case, parent, target, child, &list);
    change.upkeep = changed * copies * (built.rewrite + built.read);
    change.storage = parent.items * built.bytes;
    change.built = pairs.len();
    change.recipe = Recipe::Embed {
        parent: children.parent,
        child: children.child,
        by: children.by.clone(),
        joined: children.joined.clone(),
        list: list.clone(),
    };
    let Some(change) = proposal.add(change) else { return };
    for step in &children.steps {
        proposal.option(*step, vec![change], 0.0);
    }
    let Some(bringing) =
        case.flows.get(children.bringing.0).and_then(|flow| flow.steps.get(children.bringing.1))
    else {
        return;
    };
    proposal.burden(Some(children.bringing), vec![change], built.read_more * bringing.times);
    for (id, _, step) in case.steps() {
        if step.entity == Some(children.parent) && step.shape.verb.writes_item() {
            proposal.burden(Some(id), vec![change], built.write_more * step.times);
        }
        if step.entity == Some(children.parent)
            && step.shape.verb == Verb::Read
            && id != children.bringing
        {
            proposal.burden(Some(id), vec![change], built.read_more * step.times);
        }
    }
}

struct EmbedBuilt {
    read: f64,
    read_more: f64,
    write_more: f64,
    rewrite: f64,
    bytes: f64,
}

fn build(case: &Case<'_>, parent: &Entity, pairs: &[(Value, Value)]) -> Option<EmbedBuilt> {
    let design = Design { key: &parent.key, ranges: 1, like: &parent.container, indexing: None };
    let (plain, full) = (case.trial.container(&design).ok()?, case.trial.container(&design).ok()?);
    // Writes of what is there, as changes are.
    let put = |container, item: &Value| {
        case.trial.put(container, item)?;
        let changed = with_members(item, &[("_changed".to_owned(), 1.into())]);
        case.trial.put(container, &changed)
    };
    let write_plain = mean_of(pairs, |(item, _)| put(&plain, item))?;
    let write_full = mean_of(pairs, |(_, item)| put(&full, item))?;
    let read_plain = mean_of(pairs, |(item, _)| case.trial.read(&plain, item))?;
    let read_full = mean_of(pairs, |(_, item)| case.trial.read(&full, item))?;
    let size = |item: &Value| item.to_json().len() as f64;
    Some(EmbedBuilt {
        read: read_full,
        read_more: read_full - read_plain,
        write_more: write_full - write_plain,
        rewrite: write_full,
        bytes: mean_of(pairs, |(item, full)| Ok(size(full) - size(item)))?,
    })
}

/// A parent with its children inside.
fn with_children(
    case: &Case<'_>,
    item: &Value,
    list: &str,
    children: &Children<'_>,
) -> Option<Value> {
    let child = case.entity(children.child)?;
    let id = item.get("id")?.clone();
    let by = children.by.trim_start_matches('/');
    let filter = child.condition().map_or(String::new(), |kind| format!(" AND {kind}"));
    let text = format!("SELECT * FROM c WHERE c[\"{by}\"] = @id{filter}");
    let request = Request::new(&text, vec![(Arc::from("@id"), id)]).ok()?;
    let rows = Live::new(&child.container).rows(request, None).ok()?;
    let inside = |row: &Value| match &children.joined {
        None => {
            let mut object = crate::live::without_system(row).as_object()?.clone();
            object.remove(by);
            Some(Value::object(object))
        }
        Some((to, path)) => {
            let target = case.entity(*to)?;
            let id = text_of(row.get(&path[1..])?)?;
            let found = Live::new(&target.container).by_id(&id)?;
            let mut object = Object::of([("id", id.as_str().into())]);
            for field in target.fields() {
                if let Some(value) = found.get(&field) {
                    object.insert(field, value.clone());
                }
            }
            Some(Value::object(object))
        }
    };
    let elements: Vec<Value> = rows.iter().filter_map(inside).collect();
    Some(with_members(item, &[(list.to_owned(), Value::array(elements))]))
}

fn change(case: &Case<'_>, parent: &Entity, target: &Entity, child: &Entity, list: &str) -> Change {
    let label = parent.label();
    let fields = target.fields().join(", ");
    Change {
        id: format!("embed:{}/{}:{}", case.database, parent.name, target.name),
        rule: "embed",
        title: format!("Embed the few '{}' of each {label} as a list '{list}' in it", target.name),
        reason: format!(
            "Whoever reads a {label} asks for its {} right after: extra requests. They are few, and nobody adds to them one by one, so they can come with the {label} itself.",
            target.name
        ),
        container: parent.name.clone(),
        share_min: crate::limits::SHARE_MIN,
        apply: vec![
            Instruction::new(
                "definition",
                format!("Items of '{}' get a list", parent.name),
                "json",
                format!(
                    "{{ \"{list}\": [ {{ \"id\": \"…\", \"{}\": \"…\" }} ] }}",
                    fields.replace(", ", "\": \"…\", \"")
                ),
            ),
            Instruction::new(
                "subscription",
                format!("Rewrites the lists when an item of '{}' changes", target.name),
                "json",
                format!(
                    "{{ \"id\": \"embed-{}\", \"target\": {{ \"webhook\": \"https://your.app/embedded\" }} }}",
                    target.name
                ),
            ),
            Instruction::new(
                "backfill",
                "For each parent: the query of today, its rows into the list",
                "text",
                format!(
                    "Read every item of '{}', ask '{}' as before, and replace the item with the list in it.",
                    parent.name, child.name
                ),
            ),
            Instruction::new(
                "check",
                "Parents without the list",
                "sql",
                format!("SELECT VALUE COUNT(1) FROM c WHERE NOT IS_DEFINED(c.{list})"),
            ),
            Instruction::new(
                "undo",
                "To undo it",
                "text",
                format!("'{}' is still there: ask it again.", child.name),
            ),
        ],
        ..Change::default()
    }
}
