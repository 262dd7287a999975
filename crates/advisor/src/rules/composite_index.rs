//! Composite index: one index over the paths that a query compares together.
//!
//! Without it a query is charged for all items that meet the most selective of its conditions; with it, for those that meet all of
//! them. Every write pays for one term more.

use super::index_policy::{instructions, write_units};
use crate::flow::FlowStep;
use crate::limits::{ROWS_MAX, SHARE_MIN};
use crate::live::{Live, without_system};
use crate::observe::Verb;
use crate::observe::shape::QueryFacts;
use crate::propose::{Case, Change, Proposal, Recipe, StepId, with_members};
use crate::trial::Design;
use crate::understand::Entity;
use armilla_engine::Container;
use armilla_engine::query::Request;
use armilla_model::partition_key::PartitionKey;
use armilla_model::value::{Object, Value};
use std::collections::BTreeMap;

/// Recorded queries that are asked again.
const ASKED_MAX: usize = 2;
/// Paths of a composite index.
const MEMBERS_MAX: usize = 4;

/// Paths of an index, each with its direction.
type Members = Vec<(String, bool)>;

pub(super) fn propose(case: &Case<'_>, proposal: &mut Proposal) {
    let mut wanted: BTreeMap<(usize, Members), Vec<StepId>> = BTreeMap::new();
    for (id, _, step) in case.steps() {
        let (Some(at), Some(facts)) = (entity_at(case, step), &step.facts) else { continue };
        let Some(entity) = case.entity(at).filter(|entity| !entity.is_view) else { continue };
        if let Some(members) = members(facts, entity)
            && !has(&entity.container, &members)
        {
            wanted.entry((at, members)).or_default().push(id);
        }
    }
    for ((at, members), steps) in wanted {
        offer(case, proposal, at, &members, &steps);
    }
}

/// The entity of a step; the first of its container where it asks for no kind.
fn entity_at(case: &Case<'_>, step: &FlowStep) -> Option<usize> {
    let first =
        || case.model.entities.iter().position(|entity| entity.name == step.shape.container);
    step.entity.or_else(first)
}

/// What a query compares, and then orders by; nothing when that is one path alone.
fn members(facts: &QueryFacts, entity: &Entity) -> Option<Members> {
    if facts.reshapes && !facts.counts {
        return None;
    }
    let mut members = Members::new();
    let is_own = |path: &str| path == "/id" || entity.key.iter().any(|key| key == path);
    for (path, _) in facts.equalities.iter().filter(|(path, _)| !is_own(path)) {
        if !members.iter().any(|(known, _)| known == path) {
            members.push((path.clone(), false));
        }
    }
    if let [(path, descending)] = facts.order.as_slice()
        && !members.is_empty()
        && !members.iter().any(|(known, _)| known == path)
    {
        members.push((path.clone(), *descending));
    }
    ((2..=MEMBERS_MAX).contains(&members.len())).then_some(members)
}

/// Whether a container has an index that begins with these paths.
fn has(container: &Container, members: &Members) -> bool {
    let policy = policy_of(container);
    let indexes = policy.get("compositeIndexes").and_then(Value::as_array).unwrap_or_default();
    let path = |member: &Value| member.get("path").and_then(Value::as_str).map(str::to_owned);
    indexes.iter().filter_map(Value::as_array).any(|index| {
        let known: Vec<String> = index.iter().take(members.len()).filter_map(path).collect();
        members.iter().all(|(path, _)| known.contains(path))
    })
}

/// The indexing policy of a container.
pub(crate) fn policy_of(container: &Container) -> Value {
    container.settings().policy.definition.get("indexingPolicy").cloned().unwrap_or_default()
}

/// A policy with one composite index more.
pub(crate) fn with_composite(policy: &Value, index: &Value) -> Value {
    let known = policy.get("compositeIndexes").and_then(Value::as_array).unwrap_or_default();
    let all = known.iter().cloned().chain([index.clone()]).collect();
    with_members(policy, &[("compositeIndexes".to_owned(), Value::array(all))])
}

fn index_of(members: &Members) -> Value {
    let member = |(path, descending): &(String, bool)| {
        let order = if *descending { "descending" } else { "ascending" };
        Value::object(Object::of([("path", path.as_str().into()), ("order", order.into())]))
    };
    Value::array(members.iter().map(member).collect())
}

fn offer(case: &Case<'_>, proposal: &mut Proposal, at: usize, members: &Members, steps: &[StepId]) {
    let Some(entity) = case.entity(at) else { return };
    let index = index_of(members);
    let policy = with_composite(&policy_of(&entity.container), &index);
    let (mut priced, mut built) = (Vec::new(), 0);
    for id in steps {
        let step = case.flows.get(id.0).and_then(|flow| flow.steps.get(id.1));
        let Some(step) = step else { continue };
        if let Some((ratio, items)) = ratio(case, entity, step, &policy) {
            priced.push((*id, step.units * ratio));
            built += items;
        }
    }
    if priced.is_empty() {
        return;
    }
    let change = change(case, entity, members, (index, policy.clone()), built);
    let Some(change) = proposal.add(change) else { return };
    for (id, units) in priced {
        proposal.option(id, vec![change], units);
    }
    for (id, _, step) in case.steps() {
        let here = step.shape.container == entity.name && step.shape.verb.writes_item();
        let Some(written) = step.entity.and_then(|at| case.entity(at)).filter(|_| here) else {
            continue;
        };
        let is_new = step.shape.verb == Verb::Create;
        let write = |policy: Option<&Value>| write_units(case, written, policy, is_new);
        if let (Some(now), Some(then)) = (write(None), write(Some(&policy))) {
            proposal.burden(Some(id), vec![change], (then - now) * step.times);
        }
    }
}

/// What the recorded queries cost with the index, as a part of what they cost without, on the same items.
fn ratio(
    case: &Case<'_>,
    entity: &Entity,
    step: &FlowStep,
    policy: &Value,
) -> Option<(f64, usize)> {
    let (mut without, mut with, mut built) = (0.0, 0.0, 0);
    for example in step.examples.iter().take(ASKED_MAX) {
        let request = step.request(example)?;
        let key = example.key.as_deref();
        let all = Request::of_text("SELECT * FROM c");
        let items = Live::new(&entity.container).rows(all, key).ok()?;
        built += items.len();
        let key = key.and_then(|key| PartitionKey::parse(key).ok());
        for (units, indexing) in [(&mut without, None), (&mut with, Some(policy.clone()))] {
            let design = Design { key: &entity.key, ranges: 1, like: &entity.container, indexing };
            let container = case.trial.container(&design).ok()?;
            for item in &items {
                case.trial.put(&container, &without_system(item)).ok()?;
            }
            *units += case.trial.query(&container, &request, key.as_ref()).ok()?.0;
        }
    }
    debug_assert!(built <= ASKED_MAX * (ROWS_MAX + armilla_model::limits::QUERY_PAGE_DEFAULT));
    (without > 0.0 && built > 0).then(|| ((with / without).min(1.0), built))
}

fn change(
    case: &Case<'_>,
    entity: &Entity,
    members: &Members,
    (index, policy): (Value, Value),
    built: usize,
) -> Change {
    let (name, database) = (&entity.name, case.database);
    let paths = members.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>();
    let listed = paths.join(", ");
    let before = policy_of(&entity.container).to_json();
    Change {
        id: format!("composite-index:{database}/{name}:{}", paths.join("+")),
        rule: "composite-index",
        title: format!("Add a composite index over {listed} to '{name}'"),
        reason: format!(
            "The query compares {listed} together. Each has an index of its own, and what is paid for is every item that meets the most selective of them; an index over all of them finds those that meet the whole condition."
        ),
        container: name.clone(),
        built,
        share_min: SHARE_MIN,
        recipe: Recipe::Composite { container: name.clone(), index },
        apply: instructions(
            (database, name),
            &policy,
            "The query names the composite index",
            ("To undo it: the policy of today", &before),
        ),
        ..Change::default()
    }
}
