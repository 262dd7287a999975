//! The data as it would be: every container's items, changed as the proposal says, in a throw-away account.

use super::sample::ProofData;
use crate::limits::{BUCKET, LIST_KEPT};
use crate::live::text_of;
use crate::propose::{Case, Proposal, Recipe, with_members};
use crate::rules::composite_index::{policy_of, with_composite};
use crate::rules::counter::PROCEDURE;
use crate::rules::extended_reference::with_copies;
use crate::rules::synthetic_key::with_id;
use crate::trial::Design;
use crate::understand::Entity;
use armilla_engine::Container;
use armilla_model::value::{Object, Value};
use armilla_model::{Error, Result};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A container of the world.
pub(crate) struct Place {
    pub(crate) container: Arc<Container>,
    pub(crate) by_id: HashMap<String, Value>,
}

/// Containers by their names; those that a change adds by the change's id.
pub(crate) struct World {
    pub(crate) places: BTreeMap<String, Place>,
}

/// Items and keys while they are changed.
#[derive(Default)]
struct Making {
    items: BTreeMap<String, Vec<Value>>,
    keys: BTreeMap<String, Vec<String>>,
    policies: BTreeMap<String, Value>,
}

impl World {
    /// Builds the world under a set of changes.
    pub(crate) fn build(
        case: &Case<'_>,
        proposal: &Proposal,
        made: &[bool],
        data: &ProofData,
    ) -> Result<Self> {
        let mut making = Making::default();
        for entity in &case.model.entities {
            if !making.items.contains_key(&entity.name) {
                let items = data.items.get(&entity.name).cloned().unwrap_or_default();
                making.items.insert(entity.name.clone(), items);
                making.keys.insert(entity.name.clone(), entity.key.clone());
            }
        }
        for at in crate::choose::order(proposal, made) {
            if let Some(change) = proposal.changes.get(at) {
                making.apply(case, &change.id, &change.recipe);
            }
        }
        let mut places = BTreeMap::new();
        for (name, items) in making.items {
            let source = case.model.entities.iter().find(|entity| entity.name == name);
            let like =
                source.or_else(|| case.model.entities.first()).ok_or_else(Error::not_found)?;
            let key = making.keys.get(&name).cloned().unwrap_or_default();
            // What changes its key, or is new, begins with one range.
            let is_same = source.is_some_and(|source| source.key == key);
            let ranges = if is_same { like.container.partitions().len() } else { 1 };
            let ranges = u32::try_from(ranges).unwrap_or(1);
            let indexing = making.policies.get(&name).cloned();
            let design = Design { key: &key, ranges, like: &like.container, indexing };
            let container = case.trial.container(&design)?;
            let mut by_id = HashMap::new();
            for item in items {
                case.trial.put(&container, &item)?;
                by_id.insert(id_of(&item), item);
            }
            case.trial.procedure(&container, "addCounted", PROCEDURE)?;
            places.insert(name, Place { container, by_id });
        }
        Ok(Self { places })
    }
}

/// The id of an item.
pub(crate) fn id_of(item: &Value) -> String {
    item.get("id").and_then(Value::as_str).unwrap_or_default().to_owned()
}

impl Making {
    fn of(&self, name: &str) -> &[Value] {
        self.items.get(name).map_or(&[], Vec::as_slice)
    }

    fn by_id(&self, name: &str) -> HashMap<String, Value> {
        self.of(name).iter().map(|item| (id_of(item), item.clone())).collect()
    }

    /// Changes the items of an entity.
    fn change(&mut self, entity: &Entity, change: impl Fn(&Value) -> Option<Value>) {
        for item in self.items.entry(entity.name.clone()).or_default() {
            if entity.has(item)
                && let Some(changed) = change(item)
            {
                *item = changed;
            }
        }
    }

    fn apply(&mut self, case: &Case<'_>, id: &str, recipe: &Recipe) {
        match recipe {
            Recipe::None => {}
            Recipe::Index { container, policy } => {
                self.policies.insert(container.clone(), policy.clone());
            }
            Recipe::Copy { places, to, fields } => {
                let Some(target) = case.entity(*to) else { return };
                let originals = self.by_id(&target.name);
                for (from, path) in places {
                    let Some(entity) = case.entity(*from) else { continue };
                    let look_up = |id: &str| originals.get(id).cloned();
                    self.change(entity, |item| with_copies(item, path, fields, &look_up));
                }
            }
            Recipe::Count { parent, children } => self.count(case, *parent, children),
            Recipe::View { entity, key, cap } => {
                let Some(entity) = case.entity(*entity) else { return };
                let mut items: Vec<Value> =
                    self.of(&entity.name).iter().filter(|item| entity.has(item)).cloned().collect();
                if let Some((count, path)) = cap {
                    let by = |item: &Value| item.get(&path[1..]).cloned().unwrap_or_default();
                    items.sort_by(|one, other| by(other).order(&by(one)));
                    items.truncate(*count);
                }
                self.items.insert(id.to_owned(), items);
                self.keys.insert(id.to_owned(), vec![key.clone()]);
            }
            Recipe::Rekey { entity, keys } => {
                let Some(entity) = case.entity(*entity) else { return };
                self.keys.insert(entity.name.clone(), keys.clone());
            }
            Recipe::Synthetic { entity, paths } => {
                let Some(entity) = case.entity(*entity) else { return };
                self.change(entity, |item| with_id(item, paths));
                self.keys.insert(entity.name.clone(), vec!["/id".to_owned()]);
            }
            Recipe::Composite { container, index } => {
                let like = case.model.entities.iter().find(|entity| entity.name == *container);
                let policy = self.policies.get(container).cloned();
                let policy = policy.or_else(|| Some(policy_of(&like?.container)));
                let policy = with_composite(&policy.unwrap_or_default(), index);
                self.policies.insert(container.clone(), policy);
            }
            Recipe::Embed { .. } => self.embed(case, recipe),
            Recipe::Reverse { .. } => self.reverse(case, recipe),
            Recipe::Reference { entity, path } => self.refer(case, id, *entity, path),
            Recipe::Capped { entity, list, buckets } => self.cap(case, *entity, list, *buckets),
        }
    }

    /// The children get what the parent's list said.
    fn reverse(&mut self, case: &Case<'_>, recipe: &Recipe) {
        let Recipe::Reverse { parent, child, list, property } = recipe else { return };
        let (Some(parent), Some(child)) = (case.entity(*parent), case.entity(*child)) else {
            return;
        };
        let mut parents = HashMap::new();
        for item in self.of(&parent.name) {
            let ids = item.get(&list[1..]).and_then(Value::as_array).unwrap_or_default();
            parents.extend(ids.iter().filter_map(text_of).map(|child| (child, id_of(item))));
        }
        self.change(child, |item| {
            let parent = parents.get(&id_of(item))?.as_str().into();
            Some(with_members(item, &[(property.clone(), parent)]))
        });
        self.change(parent, |item| {
            let mut object = item.as_object()?.clone();
            object.remove(&list[1..]);
            Some(Value::object(object))
        });
        self.keys.insert(child.name.clone(), vec![format!("/{property}")]);
    }

    fn count(&mut self, case: &Case<'_>, parent: usize, children: &BTreeMap<usize, String>) {
        let Some(entity) = case.entity(parent) else { return };
        let Some(key) = entity.key.first().map(|key| key[1..].to_owned()) else { return };
        let mut counts: HashMap<(String, &String), i64> = HashMap::new();
        for (child, name) in children {
            let Some(child) = case.entity(*child) else { continue };
            for item in
                self.items.get(&child.name).into_iter().flatten().filter(|item| child.has(item))
            {
                let of = item.get(&key).and_then(text_of).unwrap_or_default();
                *counts.entry((of, name)).or_default() += 1;
            }
        }
        self.change(entity, |item| {
            let of = item.get(&key).and_then(text_of)?;
            let members: Vec<(String, Value)> = children
                .values()
                .map(|name| {
                    (name.clone(), counts.get(&(of.clone(), name)).copied().unwrap_or(0).into())
                })
                .collect();
            Some(with_members(item, &members))
        });
    }

    fn embed(&mut self, case: &Case<'_>, recipe: &Recipe) {
        let Recipe::Embed { parent, child, by, joined, list } = recipe else { return };
        let (Some(parent), Some(child)) = (case.entity(*parent), case.entity(*child)) else {
            return;
        };
        let target = joined.as_ref().and_then(|(to, _)| case.entity(*to));
        let targets = target.map(|target| self.by_id(&target.name)).unwrap_or_default();
        let fields = target.map(Entity::fields).unwrap_or_default();
        let mut lists: HashMap<String, Vec<Value>> = HashMap::new();
        for item in self.of(&child.name).iter().filter(|item| child.has(item)) {
            let Some(owner) = item.get(&by[1..]).and_then(text_of) else { continue };
            let inside = match joined {
                None => item.clone(),
                Some((_, path)) => {
                    let Some(id) = item.get(&path[1..]).and_then(text_of) else { continue };
                    let mut object = Object::of([("id", id.as_str().into())]);
                    for field in &fields {
                        let value = targets.get(&id).and_then(|target| target.get(field));
                        object.insert(field.as_str(), value.cloned().unwrap_or(Value::Null));
                    }
                    Value::object(object)
                }
            };
            lists.entry(owner).or_default().push(inside);
        }
        self.change(parent, |item| {
            let held = lists.get(&id_of(item)).cloned().unwrap_or_default();
            Some(with_members(item, &[(list.clone(), Value::array(held))]))
        });
    }

    /// Objects inside a list become items of a new container.
    fn refer(&mut self, case: &Case<'_>, id: &str, entity: usize, path: &str) {
        let (Some(entity), Some((list, inside))) = (case.entity(entity), path.split_once("/[]"))
        else {
            return;
        };
        let name = inside.trim_start_matches('/');
        let mut numbers: BTreeMap<String, String> = BTreeMap::new();
        let mut objects = Vec::new();
        for element in self
            .of(&entity.name)
            .iter()
            .flat_map(|item| item.get(&list[1..]).and_then(Value::as_array).unwrap_or_default())
        {
            let Some(object) = element.get(name) else { continue };
            let text = object.to_json();
            if !numbers.contains_key(&text) {
                let id = format!("00000000-0000-0000-0000-{:012}", numbers.len());
                objects.push(with_members(object, &[("id".to_owned(), id.as_str().into())]));
                numbers.insert(text, id);
            }
        }
        self.change(entity, |item| {
            let elements = item.get(&list[1..])?.as_array()?.iter().map(|element| {
                let mut object = element.as_object().cloned().unwrap_or_default();
                let held = object.remove(name).map(|held| held.to_json());
                let id = held.and_then(|held| numbers.get(&held)).cloned().unwrap_or_default();
                object.insert(format!("{name}Id"), id.as_str().into());
                Value::object(object)
            });
            Some(with_members(item, &[(list[1..].to_owned(), Value::array(elements.collect()))]))
        });
        self.items.insert(id.to_owned(), objects);
        self.keys.insert(id.to_owned(), vec!["/id".to_owned()]);
    }

    fn cap(&mut self, case: &Case<'_>, entity: usize, list: &str, buckets: bool) {
        let Some(entity) = case.entity(entity) else { return };
        let mut apart = Vec::new();
        for item in self.of(&entity.name) {
            let elements = item.get(list).and_then(Value::as_array).unwrap_or_default();
            let owner = ("ownerId".to_owned(), item.get("id").cloned().unwrap_or_default());
            let size = if buckets { BUCKET } else { 1 };
            for (number, held) in elements.chunks(size).enumerate() {
                let id =
                    ("id".to_owned(), Value::from(format!("{}-{number:08}", id_of(item)).as_str()));
                apart.push(match (buckets, held) {
                    (false, [one @ Value::Object(_)]) => with_members(
                        one,
                        &[owner.clone(), id, ("type".to_owned(), "element".into())],
                    ),
                    (false, [one]) => with_members(
                        &Value::object(Object::of([("value", one.clone())])),
                        &[owner.clone(), id, ("type".to_owned(), "element".into())],
                    ),
                    _ => with_members(
                        &Value::object(Object::new()),
                        &[owner.clone(), id, (list.to_owned(), Value::array(held.to_vec()))],
                    ),
                });
            }
        }
        self.change(entity, |item| {
            let elements = item.get(list).and_then(Value::as_array).unwrap_or_default();
            let newest: Vec<Value> = elements.iter().rev().take(LIST_KEPT).cloned().collect();
            let owner = ("ownerId".to_owned(), item.get("id").cloned().unwrap_or_default());
            Some(with_members(item, &[(list.to_owned(), Value::array(newest)), owner]))
        });
        self.items.entry(entity.name.clone()).or_default().extend(apart);
        self.keys.insert(entity.name.clone(), vec!["/ownerId".to_owned()]);
    }
}
