//! View: a copy of the items under the key by which a query asks, kept up by the server.
//!
//! Found where a query does not name the partition key and goes to every range. A query for the newest few of all, which names no
//! value at all, gets a view that holds no more than those under one key.

use crate::flow::FlowStep;
use crate::live::{Live, text_of};
use crate::observe::Verb;
use crate::observe::shape::{Operand, QueryFacts};
use crate::propose::{Case, Change, Instruction, Proposal, Recipe, StepId, mean_of};
use crate::trial::Design;
use crate::understand::{Entity, singular};
use armilla_engine::query::Request;
use armilla_model::partition_key::{Component, PartitionKey};
use armilla_model::value::{Object, Value};
use armilla_sql::ast::Selection;
use armilla_sql::{parse, print};
use std::collections::{BTreeMap, HashSet};

/// Recorded queries that are asked again.
const ASKED_MAX: usize = 4;
/// Rows that a capped view may hold.
const CAP_MAX: usize = 1_000;
/// Items that are written to price upkeep.
const BUILT_MAX: usize = 8;

/// What a view would be like.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Wanted {
    entity: usize,
    key: String,
    /// The highest so many by a path.
    cap: Option<(usize, String, bool)>,
}

pub(super) fn propose(case: &Case<'_>, proposal: &mut Proposal) {
    let mut wanted: BTreeMap<Wanted, Vec<StepId>> = BTreeMap::new();
    for (id, _, step) in case.steps() {
        if let Some(view) = wish(case, step) {
            wanted.entry(view).or_default().push(id);
        }
    }
    for (view, steps) in wanted {
        offer(case, proposal, &view, &steps);
    }
}

/// The view that would help a step.
fn wish(case: &Case<'_>, step: &FlowStep) -> Option<Wanted> {
    let facts = step.facts.as_ref().filter(|facts| !facts.reshapes && !facts.counts)?;
    let at = step.entity.filter(|_| step.fans_out())?;
    let entity = case.entity(at).filter(|entity| !entity.is_view)?;
    if let Some(key) = asked_by(facts, entity) {
        return Some(Wanted { entity: at, key, cap: None });
    }
    let [(path, descending)] = facts.order.as_slice() else { return None };
    let top = facts.top.filter(|top| *top <= CAP_MAX && !facts.has_more)?;
    let kind = entity.kind_path().filter(|kind| facts.literal(kind).is_some())?;
    let only_kind = facts.equalities.iter().all(|(path, _)| *path == kind);
    (only_kind && *descending).then(|| Wanted {
        entity: at,
        key: kind,
        cap: Some((top, path.clone(), *descending)),
    })
}

/// The path by whose value a query asks, other than the partition key.
pub(super) fn asked_by(facts: &QueryFacts, entity: &Entity) -> Option<String> {
    let given = |(path, operand): &&(String, Operand)| {
        let is_kind = entity.kind_path().as_deref() == Some(path);
        let is_value = matches!(operand, Operand::Parameter(_)) || !is_kind;
        is_value && !is_kind && !entity.key.contains(path) && path != "/id"
    };
    facts.equalities.iter().find(given).map(|(path, _)| path.clone())
}

/// The items that a recorded query is about.
pub(crate) fn items_of(step: &FlowStep, entity: &Entity, request: &Request) -> Option<Vec<Value>> {
    let mut query = parse(&request.text).ok()?;
    query.select = Selection::Star(armilla_sql::error::Location::default());
    let all = Request { text: print::query(&query), ..request.clone() };
    debug_assert!(step.shape.verb == Verb::Query, "only queries are about items");
    Live::new(&entity.container).rows(all, None).ok()
}

/// What recorded queries cost on a container of one key.
pub(super) struct KeyedUnits {
    /// In one activity.
    pub(super) units: f64,
    /// Items that were built for it.
    pub(super) built: usize,
    /// Rows that come back in one activity; a fan-out may have brought more, and thrown them away.
    pub(super) rows: f64,
}

/// The value that a query compares a path with.
pub(crate) fn value_asked(step: &FlowStep, request: &Request, path: &str) -> Option<Value> {
    let facts = step.facts.as_ref()?;
    match &facts.equalities.iter().find(|(known, _)| known == path)?.1 {
        Operand::Literal(value) => Some(value.clone()),
        Operand::Parameter(name) => {
            let found = request.parameters.iter().find(|(known, _)| **known == **name);
            found.map(|(_, value)| value.clone())
        }
    }
}

/// The key that a query names, as far as it does.
pub(crate) fn key_asked(step: &FlowStep, request: &Request, keys: &[String]) -> PartitionKey {
    let values = keys.iter().map_while(|path| value_asked(step, request, path));
    let components: Vec<Component> =
        values.map(|value| Component::from_value(Some(&value))).collect();
    match components.is_empty() {
        true => PartitionKey(vec![Component::from_value(None)]),
        false => PartitionKey(components),
    }
}

/// The mean of that, by doing.
pub(super) fn keyed_units(
    case: &Case<'_>,
    step: &FlowStep,
    entity: &Entity,
    keys: &[String],
) -> Option<KeyedUnits> {
    let design = Design { key: keys, ranges: 1, like: &entity.container, indexing: None };
    let (mut built, mut asked) = (0, 0);
    let units = mean_of(step.examples.iter().take(ASKED_MAX), |example| {
        let missing = || armilla_model::Error::bad_request("the recorded query cannot be asked");
        let request = step.request(example).ok_or_else(missing)?;
        let items = items_of(step, entity, &request).ok_or_else(missing)?;
        let container = case.trial.container(&design)?;
        for item in &items {
            case.trial.put(&container, item)?;
        }
        built += items.len();
        asked += 1;
        let of = match keys {
            [_] => {
                items.first().map(|item| PartitionKey::of_item(item, container.key_definition()))
            }
            _ => Some(key_asked(step, &request, keys)),
        };
        Ok(case.trial.query(&container, &request, of.as_ref())?.0)
    })?;
    let rows = built as f64 / f64::from(asked.max(1)) * step.times;
    Some(KeyedUnits { units: units * step.times, built, rows })
}

fn offer(case: &Case<'_>, proposal: &mut Proposal, view: &Wanted, steps: &[StepId]) {
    let Some(entity) = case.entity(view.entity) else { return };
    let find = |id: &StepId| case.flows.get(id.0).and_then(|flow| flow.steps.get(id.1));
    let mut priced = Vec::new();
    for id in steps {
        let Some(step) = find(id) else { continue };
        if let Some(priced_step) = keyed_units(case, step, entity, std::slice::from_ref(&view.key))
        {
            priced.push((*id, priced_step));
        }
    }
    let Some(kept) = upkeep(case, entity, view) else { return };
    let Some(first) = priced.first().and_then(|(id, _)| find(id)) else { return };
    let Some(change) = proposal.add(change(case, entity, view, first)) else { return };
    let held = view.cap.as_ref().map_or(entity.items, |cap| entity.items.min(cap.0 as f64));
    let inside = view.cap.as_ref().and_then(|_| keys_inside(first, entity));
    let created =
        case.creations(view.entity) * (kept.put + view.cap.as_ref().map_or(0.0, |_| kept.removed));
    if let Some(change) = proposal.changes.get_mut(change) {
        change.storage = held * entity.bytes;
        let cap = view.cap.clone().map(|(count, path, _)| (count, path));
        change.recipe = Recipe::View { entity: view.entity, key: view.key.clone(), cap };
        let is_change = |step: &FlowStep| {
            step.entity == Some(view.entity)
                && step.shape.verb.writes()
                && step.shape.verb != Verb::Create
        };
        let changed = case.steps().filter(|(_, _, step)| is_change(step));
        let changed = changed
            .map(|(_, flow, step)| flow.times * step.times * share_inside(step, inside.as_ref()));
        change.upkeep = created + changed.sum::<f64>() * kept.replaced;
        change.built = priced.iter().map(|(_, one)| one.built).sum();
    }
    for (id, one) in &priced {
        take_option(case, proposal, *id, change, one);
    }
    // A counter in the source rewrites the view's copy with every child that is added.
    let counters: Vec<usize> = proposal
        .changes
        .iter()
        .enumerate()
        .filter(|(_, known)| known.rule == "counter" && known.container == entity.name)
        .map(|(at, _)| at)
        .collect();
    for counter in counters {
        let added: f64 = proposal
            .burdens
            .iter()
            .filter(|burden| burden.requires == [counter])
            .filter_map(|burden| burden.step)
            .filter_map(|(flow, at)| {
                let flow = case.flows.get(flow)?;
                let step = flow.steps.get(at)?;
                let is_child = step.shape.verb == Verb::Create && step.entity != Some(view.entity);
                let share = share_inside(step, inside.as_ref());
                is_child.then_some(flow.times * step.times * share)
            })
            .sum();
        proposal.burden(None, vec![counter, change], added * kept.replaced);
    }
}

/// The keys, in the source, of the items that a capped view holds now.
fn keys_inside(step: &FlowStep, entity: &Entity) -> Option<HashSet<String>> {
    let request = step.request(step.examples.first()?)?;
    let key = entity.key.first()?;
    let items = items_of(step, entity, &request)?;
    Some(items.iter().filter_map(|item| text_of(item.get(&key[1..])?)).collect())
}

/// The share of a step's recorded writes that are about items in the view.
fn share_inside(step: &FlowStep, inside: Option<&HashSet<String>>) -> f64 {
    let Some(inside) = inside else { return 1.0 };
    let keys =
        step.examples.iter().filter_map(|asked| PartitionKey::parse(asked.key.as_deref()?).ok());
    let known: Vec<bool> = keys
        .map(|key| {
            let text = key.0.first().and_then(|component| text_of(&component.to_value()));
            text.is_some_and(|text| inside.contains(&text))
        })
        .collect();
    known.iter().filter(|inside| **inside).count() as f64 / known.len().max(1) as f64
}

/// Offers a step its query on one key. Rows that grew by other changes grow only as often as they still come.
pub(super) fn take_option(
    case: &Case<'_>,
    proposal: &mut Proposal,
    step: StepId,
    change: usize,
    keyed: &KeyedUnits,
) {
    proposal.option(step, vec![change], keyed.units);
    let Some(now) = case.flows.get(step.0).and_then(|flow| flow.steps.get(step.1)) else { return };
    let gone = 1.0 - (keyed.rows / now.rows.max(1e-9)).min(1.0);
    let grown: Vec<(Vec<usize>, f64)> = proposal
        .burdens
        .iter()
        .filter(|burden| burden.step == Some(step) && !burden.requires.contains(&change))
        .map(|burden| (burden.requires.clone(), burden.units))
        .collect();
    for (mut requires, units) in grown {
        requires.push(change);
        proposal.burden(Some(step), requires, -units * gone);
    }
}

/// What writing a copy costs.
struct ViewUpkeep {
    put: f64,
    replaced: f64,
    removed: f64,
}

fn upkeep(case: &Case<'_>, entity: &Entity, view: &Wanted) -> Option<ViewUpkeep> {
    let paths = [view.key.clone()];
    let design = Design { key: &paths, ranges: 1, like: &entity.container, indexing: None };
    let container = case.trial.container(&design).ok()?;
    let rates = case.rates(entity);
    let items: Vec<&Value> = entity.samples.iter().take(BUILT_MAX).collect();
    let feed = rates.feed_item(entity.bytes as usize).units();
    let put = mean_of(&items, |item| case.trial.put(&container, item))?;
    let replaced = mean_of(&items, |item| {
        let changed = crate::propose::with_members(item, &[("_changed".to_owned(), 1.into())]);
        case.trial.put(&container, &changed)
    })?;
    let removed = mean_of(&items, |item| case.trial.remove(&container, item))?;
    Some(ViewUpkeep { put: put + feed, replaced: replaced + feed, removed })
}

/// Names of the view's columns: what the query selects, asks by and orders by; nothing for all.
fn columns(entity: &Entity, facts: &QueryFacts, view: &Wanted) -> Option<Vec<String>> {
    let mut paths = vec!["/id".to_owned(), view.key.clone()];
    paths.extend(entity.kind_path());
    paths.extend(facts.selected.clone()?);
    paths.extend(facts.named.iter().cloned());
    let mut unique: Vec<String> = Vec::new();
    for path in paths {
        if !unique.contains(&path) {
            unique.push(path);
        }
    }
    Some(unique)
}

/// `c.a["b-c"]` of `/a/b-c`.
fn dotted(path: &str) -> String {
    let is_plain = |step: &str| step.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let step = |step: &str| match is_plain(step) {
        true => format!(".{step}"),
        false => format!("[\"{step}\"]"),
    };
    format!("c{}", path.split('/').skip(1).map(step).collect::<String>())
}

/// The condition that leaves items of one kind.
fn kind_filter(entity: &Entity) -> String {
    match (&entity.mark, entity.kind_path().zip(entity.kind.as_ref())) {
        (Some(mark), _) => format!(" WHERE IS_DEFINED({})", dotted(&format!("/{mark}"))),
        (None, Some((path, kind))) => format!(" WHERE {} = '{kind}'", dotted(&path)),
        (None, None) => String::new(),
    }
}

fn name_of(entity: &Entity, view: &Wanted) -> String {
    let key = view.key.trim_start_matches('/').replace('/', "-");
    match &view.cap {
        Some(_) => format!("{}-newest", entity.name),
        None => format!("{}-by-{}", entity.name, singular(key.strip_suffix("Id").unwrap_or(&key))),
    }
}

/// The container to create.
fn definition(entity: &Entity, view: &Wanted, facts: &QueryFacts) -> String {
    let selected = columns(entity, facts, view).map_or("*".to_owned(), |paths| {
        paths.iter().map(|path| dotted(path)).collect::<Vec<_>>().join(", ")
    });
    let (top, order) = match &view.cap {
        Some((count, path, _)) => {
            (format!("TOP {count} "), format!(" ORDER BY {} DESC", dotted(path)))
        }
        None => (String::new(), String::new()),
    };
    let query = format!("SELECT {top}{selected} FROM c{}{order}", kind_filter(entity));
    let key = Object::of([
        ("paths", Value::array(vec![view.key.as_str().into()])),
        ("kind", "Hash".into()),
        ("version", 2.into()),
    ]);
    let source = Object::of([
        ("sourceCollectionId", entity.name.as_str().into()),
        ("definition", query.as_str().into()),
    ]);
    let container = Object::of([
        ("id", name_of(entity, view).as_str().into()),
        ("partitionKey", Value::object(key)),
        ("materializedViewDefinition", Value::object(source)),
    ]);
    Value::object(container).to_json()
}

fn change(case: &Case<'_>, entity: &Entity, view: &Wanted, step: &FlowStep) -> Change {
    let (name, label, key) = (name_of(entity, view), entity.label(), &view.key);
    let (rule, title, reason) = match &view.cap {
        Some((count, path, _)) => (
            "capped-view",
            format!("Keep the {count} newest of all {label}s in a view '{name}' under one key"),
            format!(
                "The query orders every {label} by {path} and names no partition key: key not named by the query, so it asks \
                 all ranges and throws most of it away. A view that never holds more than {count} answers from one partition."
            ),
        ),
        None => (
            "view",
            format!("Keep a view '{name}' of '{}' under the key {key}", entity.name),
            format!(
                "The query asks by {key} and not by {}: key not named by the query, so every range is asked. \
                 A copy keyed by {key} answers from one partition.",
                entity.key.join(", ")
            ),
        ),
    };
    Change {
        id: format!("{rule}:{}/{}:{key}", case.database, entity.name),
        rule,
        title,
        reason,
        container: entity.name.clone(),
        share_min: crate::limits::SHARE_MIN,
        apply: instructions(entity, view, step),
        ..Change::default()
    }
}

fn instructions(entity: &Entity, view: &Wanted, step: &FlowStep) -> Vec<Instruction> {
    let (name, filter, source) = (name_of(entity, view), kind_filter(entity), &entity.name);
    let facts = step.facts.clone().unwrap_or_default();
    let is_plain = filter.is_empty() && view.cap.is_none();
    let needs = if is_plain { "" } else { " (needs the dial views=extended)" };
    vec![
        Instruction::new(
            "view",
            format!("Create this container{needs}"),
            "json",
            definition(entity, view, &facts),
        ),
        Instruction::new(
            "query",
            format!("Ask '{name}' so, with the key; the source's id is _id there"),
            "sql",
            step.shape.text.clone(),
        ),
        Instruction::new(
            "backfill",
            "Nothing to do: the server fills the view",
            "text",
            "Wait until its status is Active.",
        ),
        Instruction::new(
            "check",
            format!(
                "In '{source}', and without the condition in '{name}': the numbers must agree{}",
                if view.cap.is_some() { ", up to the cap" } else { "" }
            ),
            "sql",
            format!("SELECT VALUE COUNT(1) FROM c{filter}"),
        ),
        Instruction::new(
            "undo",
            "To undo it",
            "text",
            format!("Ask '{source}' again and delete the container '{name}'."),
        ),
    ]
}
