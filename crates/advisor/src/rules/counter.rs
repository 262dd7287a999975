//! Counter: keep the number of an item's children in the item, in the same transaction that adds a child.
//!
//! Found where counts of one logical partition are asked for again and again. Parent and children must share the partition key:
//! only then can one transaction write both.

use crate::observe::Verb;
use crate::observe::shape::Operand;
use crate::propose::{Case, Change, Instruction, Proposal, Recipe, StepId, mean_of, with_members};
use crate::trial::Design;
use crate::understand::Entity;
use armilla_model::partition_key::PartitionKey;
use armilla_model::value::Value;
use std::collections::BTreeMap;

const BUILT_MAX: usize = 8;

/// Counts of one parent: the children, and the steps that count or bring the parent.
#[derive(Default)]
struct Counted {
    children: BTreeMap<usize, String>,
    counts: Vec<(StepId, Option<StepId>)>,
}

pub(super) fn propose(case: &Case<'_>, proposal: &mut Proposal) {
    let mut by_parent: BTreeMap<usize, Counted> = BTreeMap::new();
    for (id, flow, step) in case.steps() {
        let Some(facts) = step.facts.as_ref().filter(|facts| facts.counts && !facts.has_more)
        else {
            continue;
        };
        let Some(child) = step.entity.filter(|_| step.shape.keyed) else { continue };
        let Some(entity) = case.entity(child) else { continue };
        let [key] = entity.key.as_slice() else { continue };
        // The only value asked by is the partition key.
        let values: Vec<&String> = facts
            .equalities
            .iter()
            .filter(|(path, operand)| {
                matches!(operand, Operand::Parameter(_))
                    || Some(path) != entity.kind_path().as_ref()
            })
            .map(|(path, _)| path)
            .collect();
        // A procedure that counts tells kinds apart by what they say.
        if values.iter().any(|path| *path != key) || entity.is_view || entity.mark.is_some() {
            continue;
        }
        let brought = step.origin.as_ref().and_then(|origin| flow.steps.get(origin.step));
        let parent = brought.and_then(|step| step.entity).filter(|at| *at != child);
        let parent = parent.or_else(|| parent_of(case, child, key));
        let Some(parent) = parent.filter(|at| {
            case.entity(*at)
                .is_some_and(|parent| parent.name == entity.name && parent.kind.is_some())
        }) else {
            continue;
        };
        let counted = by_parent.entry(parent).or_default();
        counted.children.insert(child, format!("{}Count", entity.label()));
        let bringing = step.origin.as_ref().map(|origin| (id.0, origin.step));
        counted.counts.push((id, bringing.filter(|at| at.1 != id.1)));
    }
    for (parent, counted) in by_parent {
        offer(case, proposal, parent, &counted);
    }
}

/// The entity whose id the children's key is.
fn parent_of(case: &Case<'_>, child: usize, key: &str) -> Option<usize> {
    let link = case.model.links.iter().find(|link| link.from == child && link.path == key)?;
    Some(link.to)
}

fn offer(case: &Case<'_>, proposal: &mut Proposal, parent: usize, counted: &Counted) {
    let Some(entity) = case.entity(parent) else { return };
    let names: Vec<(String, Value)> =
        counted.children.values().map(|name| (name.clone(), Value::from(20_i64))).collect();
    let Some(built) = build(case, entity, counted, &names) else { return };
    let Some(change) = proposal.add(change(case, parent, entity, counted)) else { return };
    if let Some(change) = proposal.changes.get_mut(change) {
        change.storage =
            entity.items * names.iter().map(|(name, _)| name.len() + 6).sum::<usize>() as f64;
        change.built = built.items;
    }
    for (count, bringing) in &counted.counts {
        let step = case.flows.get(count.0).and_then(|flow| flow.steps.get(count.1));
        let times = step.map_or(0.0, |step| step.times);
        // Where nobody has read the parent before, it is read instead.
        let units = if bringing.is_some() { 0.0 } else { built.read * times };
        proposal.option(*count, vec![change], units);
    }
    let mut grown: Vec<StepId> = Vec::new();
    for bringing in counted.counts.iter().filter_map(|(_, bringing)| *bringing) {
        if grown.contains(&bringing) {
            continue;
        }
        grown.push(bringing);
        let Some(step) = case.flows.get(bringing.0).and_then(|flow| flow.steps.get(bringing.1))
        else {
            continue;
        };
        if step.shape.verb == Verb::Query {
            proposal.burden(Some(bringing), vec![change], built.row_more * step.rows);
        }
    }
    for (id, _, step) in case.steps() {
        let more = match step.entity {
            Some(at) if at == parent && step.shape.verb.writes_item() => built.write_more,
            Some(at) if step.shape.verb == Verb::Create => match built.added.get(&at) {
                Some(more) => *more,
                None => continue,
            },
            _ => continue,
        };
        proposal.burden(Some(id), vec![change], more * step.times);
    }
}

/// What it costs, as built.
struct CounterBuilt {
    read: f64,
    write_more: f64,
    row_more: f64,
    /// What adding a child costs more, by child.
    added: BTreeMap<usize, f64>,
    items: usize,
}

fn build(
    case: &Case<'_>,
    entity: &Entity,
    counted: &Counted,
    names: &[(String, Value)],
) -> Option<CounterBuilt> {
    let design = Design { key: &entity.key, ranges: 1, like: &entity.container, indexing: None };
    let (plain, kept) = (case.trial.container(&design).ok()?, case.trial.container(&design).ok()?);
    let parents: Vec<&Value> = entity.samples.iter().take(BUILT_MAX).collect();
    let write_plain = mean_of(&parents, |item| case.trial.put(&plain, item))?;
    let write_kept = mean_of(&parents, |item| case.trial.put(&kept, &with_members(item, names)))?;
    let read = mean_of(&parents, |item| case.trial.read(&kept, item))?;
    case.trial.procedure(&kept, "addCounted", PROCEDURE).ok()?;
    let key = entity.key.first()?;
    let mut added = BTreeMap::new();
    let mut items = parents.len() * 2;
    for (child, counter) in &counted.children {
        let children = case.entity(*child)?;
        // The children are given to the parents that are there.
        let pairs: Vec<(Value, &Value)> = children
            .samples
            .iter()
            .zip(parents.iter().cycle())
            .filter_map(|(one, parent)| {
                let key_value = parent.get(&key[1..])?.clone();
                Some((with_members(one, &[(key[1..].to_owned(), key_value)]), *parent))
            })
            .take(BUILT_MAX)
            .collect();
        let alone = mean_of(&pairs, |(one, _)| case.trial.put(&plain, one))?;
        let together = mean_of(&pairs, |(one, parent)| {
            let of = PartitionKey::of_item(parent, kept.key_definition());
            let id = parent.get("id").cloned().unwrap_or_default();
            let arguments = vec![id, one.clone(), counter.as_str().into()];
            case.trial.execute(&kept, "addCounted", of, arguments)
        })?;
        added.insert(*child, together - alone);
        items += pairs.len();
    }
    let more: usize = names.iter().map(|(name, _)| name.len() + 6).sum();
    let rates = case.rates(entity);
    let row_more = rates.output(400 + more).units() - rates.output(400).units();
    Some(CounterBuilt { read, write_more: write_kept - write_plain, row_more, added, items })
}

/// Adds a child and raises the parent's count in one transaction.
pub(crate) const PROCEDURE: &str = "// Adds an item and raises its parent's count, both or neither.
function addCounted(parentId, item, counter) {
  const container = getContext().getCollection();
  const fail = (error) => { if (error) throw error; };
  const accepted = container.readDocument(`${container.getAltLink()}/docs/${parentId}`, (error, parent) => {
    fail(error);
    parent[counter] = (parent[counter] || 0) + 1;
    container.replaceDocument(parent._self, parent, { etag: parent._etag }, (error) => {
      fail(error);
      container.createDocument(container.getSelfLink(), item, (error, made) => {
        fail(error);
        getContext().getResponse().setBody({ id: made.id, count: parent[counter] });
      });
    });
  });
  if (!accepted) throw new Error(\"the server is busy\");
}
";

fn change(case: &Case<'_>, parent: usize, entity: &Entity, counted: &Counted) -> Change {
    let names: Vec<&String> = counted.children.values().collect();
    let listed = names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(" and ");
    let label = entity.label();
    let children: Vec<String> =
        counted.children.keys().filter_map(|child| Some(case.entity(*child)?.label())).collect();
    let key = entity.key.first().cloned().unwrap_or_default();
    let kind = entity.kind_path().unwrap_or_default();
    let checks = counted.children.iter().filter_map(|(child, name)| {
        let child = case.entity(*child)?.kind.clone()?;
        Some(format!(
            "-- for one {label}: both numbers must agree\nSELECT VALUE c.{name} FROM c WHERE c{key_path} = @key AND c{kind_path} = '{label}'\nSELECT VALUE COUNT(1) FROM c WHERE c{key_path} = @key AND c{kind_path} = '{child}'",
            key_path = key.replace('/', "."), kind_path = kind.replace('/', "."),
        ))
    });
    let apply = vec![
        Instruction::new(
            "definition",
            format!("Every {label} gets {listed}, 0 at first"),
            "json",
            format!(
                "{{ {} }}",
                names.iter().map(|name| format!("\"{name}\": 0")).collect::<Vec<_>>().join(", ")
            ),
        ),
        Instruction::new(
            "procedure",
            format!(
                "Adds a {} and counts it in one transaction; call it instead of create",
                children.join(" or a ")
            ),
            "javascript",
            PROCEDURE,
        ),
        Instruction::new(
            "backfill",
            "Counts what is there, once for each logical partition",
            "javascript",
            backfill(&label, &kind, &counted.children, case),
        ),
        Instruction::new("check", "Is it right?", "sql", checks.collect::<Vec<_>>().join("\n")),
        Instruction::new(
            "undo",
            "To undo it",
            "text",
            format!(
                "Create the {} directly again and count by query; the properties do no harm.",
                children.join(" and the ")
            ),
        ),
    ];
    Change {
        id: format!("counter:{}/{}:{label}", case.database, entity.name),
        rule: "counter",
        title: format!("Keep {listed} in each {label}, in the transaction that adds one"),
        reason: format!(
            "Every {label} that is shown is followed by a query that counts its {}: extra requests that read the index of all of them each time. A count in the {label} itself comes with it, and one procedure keeps it right.",
            children.join(" and another that counts its ")
        ),
        container: entity.name.clone(),
        share_min: crate::limits::SHARE_MIN,
        recipe: Recipe::Count { parent, children: counted.children.clone() },
        apply,
        ..Change::default()
    }
}

fn backfill(
    label: &str,
    kind: &str,
    children: &BTreeMap<usize, String>,
    case: &Case<'_>,
) -> String {
    let kind = kind.replace('/', "");
    let counts: String = children
        .iter()
        .filter_map(|(child, name)| {
            let child = case.entity(*child)?.kind.clone()?;
            Some(format!("      parent.{name} = items.filter((item) => item.{kind} === \"{child}\").length;\n"))
        })
        .collect();
    format!(
        "function countChildren() {{\n  const container = getContext().getCollection();\n  container.queryDocuments(container.getSelfLink(), \"SELECT * FROM c\", {{ pageSize: -1 }}, (error, items) => {{\n    if (error) throw error;\n    for (const parent of items.filter((item) => item.{kind} === \"{label}\")) {{\n{counts}      container.replaceDocument(parent._self, parent, (error) => {{ if (error) throw error; }});\n    }}\n  }});\n}}\n"
    )
}
