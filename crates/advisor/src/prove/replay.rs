//! Replaying recorded activities on the data as it would be, step by step, and keeping copies up as writes come.

use super::sample::ProofData;
use super::world::{World, id_of};
use crate::flow::FlowStep;
use crate::live::text_of;
use crate::observe::{Asked, Verb};
use crate::propose::{Case, Change, Proposal, Recipe, StepId, with_members};
use crate::rules::capped_list::whole_list;
use crate::rules::extended_reference::with_copies;
use crate::rules::synthetic_key::{id_made_of, values_of, with_id};
use crate::rules::view::key_asked;
use armilla_engine::Container;
use armilla_engine::query::Request;
use armilla_model::partition_key::{Component, PartitionKey};
use armilla_model::value::Value;
use armilla_model::{Error, Result, json};
use std::sync::Arc;

/// Recorded requests of one step that are replayed; their mean stands for the rest.
const REPLAYED_MAX: usize = 12;

pub(crate) struct Replay<'a> {
    pub(crate) case: &'a Case<'a>,
    pub(crate) proposal: &'a Proposal,
    pub(crate) made: &'a [bool],
    pub(crate) world: World,
    pub(crate) data: &'a ProofData,
    /// What keeping copies up has cost since it was last asked.
    pub(crate) upkeep: f64,
}

impl Replay<'_> {
    /// What one activity of a flow costs, and what keeping copies up costs for it.
    pub(crate) fn flow(&mut self, at: usize) -> Result<(f64, f64)> {
        let case = self.case;
        let Some(flow) = case.flows.get(at) else { return Ok((0.0, 0.0)) };
        let (mut units, mut upkeep) = (0.0, 0.0);
        for (place, step) in flow.steps.iter().enumerate() {
            self.upkeep = 0.0;
            let examples: Vec<&Asked> = step.examples.iter().take(REPLAYED_MAX).collect();
            if examples.is_empty() {
                units += step.units;
                continue;
            }
            let mut sum = 0.0;
            let taken = self.proposal.taken(case.flows, (at, place), self.made);
            let once = taken.is_some_and(|(change, _)| self.is_once(change, step));
            for example in &examples {
                sum += match taken {
                    Some((change, predicted)) => {
                        self.taken((at, place), step, example, (change, predicted))?
                    }
                    None => self.plain(step, example)?,
                };
            }
            let mean = sum / examples.len() as f64;
            let times = if once { 1.0 } else { step.times };
            units += mean * times;
            upkeep += self.upkeep / examples.len() as f64 * times;
        }
        Ok((units, upkeep))
    }

    fn change(&self, at: usize) -> Option<&Change> {
        self.proposal.changes.get(at)
    }

    /// Whether one request takes the place of all of the step's.
    fn is_once(&self, change: usize, step: &FlowStep) -> bool {
        match self.change(change).map(|change| &change.recipe) {
            Some(Recipe::Reverse { .. }) => step.shape.verb == Verb::Read,
            Some(Recipe::Reference { .. }) => step.shape.verb.writes(),
            _ => false,
        }
    }

    fn place(&self, name: &str) -> Result<Arc<Container>> {
        let place = self.world.places.get(name);
        place.map(|place| place.container.clone()).ok_or_else(Error::not_found)
    }

    fn item(&self, name: &str, id: &str) -> Option<Value> {
        self.world.places.get(name)?.by_id.get(id).cloned()
    }

    /// A step as it was asked.
    fn plain(&mut self, step: &FlowStep, asked: &Asked) -> Result<f64> {
        let name = &step.shape.container;
        let container = self.place(name)?;
        match step.shape.verb {
            Verb::Read => {
                let id = asked.item.as_deref().unwrap_or_default();
                let Some(item) = self.item(name, id) else { return Ok(asked.units) };
                Ok(self.case.trial.read(&container, &item)? + self.referred(step, &item)?)
            }
            Verb::Query => {
                let body = asked.query.as_deref().unwrap_or_default();
                let request = Request::parse(body.as_bytes())?;
                match asked.key.as_deref() {
                    Some(key) => {
                        let key = PartitionKey::parse(key)?;
                        Ok(self.case.trial.query(&container, &request, Some(&key))?.0)
                    }
                    // A part of the data has fewer rows to go through.
                    None if self.data.is_sample() => Ok(asked.units),
                    None => self.case.trial.fan_out(&container, &request),
                }
            }
            verb if verb.writes_item() => self.write(step, asked, &container),
            _ => Ok(asked.units),
        }
    }

    /// What an item refers to that was inside it before.
    fn referred(&self, step: &FlowStep, item: &Value) -> Result<f64> {
        let mut units = 0.0;
        for (change, _) in self.proposal.changes.iter().zip(self.made).filter(|(_, made)| **made) {
            let Recipe::Reference { entity, path } = &change.recipe else { continue };
            let (Some((list, inside)), true) =
                (path.split_once("/[]"), step.entity == Some(*entity))
            else {
                continue;
            };
            let container = self.place(&change.id)?;
            for element in item.get(&list[1..]).and_then(Value::as_array).unwrap_or_default() {
                let id = element
                    .get(&format!("{}Id", &inside[1..]))
                    .and_then(text_of)
                    .unwrap_or_default();
                if let Some(object) = self.item(&change.id, &id) {
                    units += self.case.trial.read(&container, &object)?;
                }
            }
        }
        Ok(units)
    }

    /// A write with the fields that changes add, by the procedure that counts where one does.
    fn write(&mut self, step: &FlowStep, asked: &Asked, container: &Arc<Container>) -> Result<f64> {
        let name = step.shape.container.clone();
        let Some(written) = asked.written.as_deref() else { return Ok(asked.units) };
        let mut item = json::parse(written.as_bytes())?;
        let is_new = step.shape.verb == Verb::Create;
        if is_new {
            item = self.fresh(&name, &item, container);
        }
        let changes: Vec<Recipe> = self
            .proposal
            .changes
            .iter()
            .zip(self.made)
            .filter(|(_, made)| **made)
            .map(|(change, _)| change.recipe.clone())
            .collect();
        let mut counted = None;
        for recipe in &changes {
            match recipe {
                Recipe::Copy { places, to, fields } => {
                    item = self.copied(step, item, places, (*to, fields))
                }
                Recipe::Count { parent, children } => {
                    if step.entity == Some(*parent) {
                        let zeros: Vec<(String, Value)> =
                            children.values().map(|name| (name.clone(), 0.into())).collect();
                        item = with_members(&item, &zeros);
                    } else if is_new
                        && let Some(counter) = step.entity.and_then(|at| children.get(&at))
                    {
                        counted = Some((*parent, counter.clone()));
                    }
                }
                Recipe::Synthetic { entity, paths } if step.entity == Some(*entity) => {
                    let id = with_id(&item, paths).map(|item| id_of(&item)).unwrap_or_default();
                    let again = if is_new { "-again" } else { "" };
                    let id = Value::from(format!("{id}{again}").as_str());
                    item = with_members(&item, &[("id".to_owned(), id)]);
                }
                Recipe::Reverse { child, property, .. } if step.entity == Some(*child) => {
                    item = with_members(
                        &item,
                        &[(property.clone(), "00000000-0000-0000-0000-000000000000".into())],
                    );
                }
                _ => {}
            }
        }
        let units = match counted {
            Some((parent, counter)) => self.add_counted(container, parent, &item, &counter)?,
            None => self.case.trial.put(container, &item)?,
        };
        self.keep_up(step.entity, &item, is_new)?;
        Ok(units)
    }

    /// An item under a new id: what is there cannot be created again.
    fn fresh(&self, name: &str, item: &Value, container: &Container) -> Value {
        let known = self.world.places.get(name).map_or(0, |place| place.by_id.len());
        let fresh = format!("{}-again-{known}", id_of(item));
        let own = container.key_definition().paths.iter().any(|path| path.to_string() == "/id");
        let repeats = |(member, value): &(&Arc<str>, &Value)| {
            !own && ***member != *"id" && value.as_str() == item.get("id").and_then(Value::as_str)
        };
        let key = item.as_object().into_iter().flat_map(|object| object.iter()).find(repeats);
        let mut members = vec![("id".to_owned(), Value::from(fresh.as_str()))];
        // A key that repeats the id goes on repeating it.
        members.extend(key.map(|(member, _)| (member.to_string(), Value::from(fresh.as_str()))));
        with_members(item, &members)
    }

    fn copied(
        &self,
        step: &FlowStep,
        item: Value,
        places: &[(usize, String)],
        (to, fields): (usize, &Vec<String>),
    ) -> Value {
        let Some(target) = self.case.entity(to) else { return item };
        let look_up = |id: &str| self.item(&target.name, id);
        let mut item = item;
        for (_, path) in places.iter().filter(|(from, _)| step.entity == Some(*from)) {
            item = with_copies(&item, path, fields, &look_up).unwrap_or(item);
        }
        item
    }

    fn add_counted(
        &mut self,
        container: &Arc<Container>,
        parent: usize,
        item: &Value,
        counter: &str,
    ) -> Result<f64> {
        let key = PartitionKey::of_item(item, container.key_definition());
        let entity = self.case.entity(parent).ok_or_else(Error::not_found)?;
        let place = self.world.places.get(&entity.name).ok_or_else(Error::not_found)?;
        let is_parent = |one: &&Value| {
            entity.has(one) && PartitionKey::of_item(one, container.key_definition()) == key
        };
        let owner = place.by_id.values().find(is_parent).cloned().ok_or_else(Error::not_found)?;
        let arguments =
            vec![owner.get("id").cloned().unwrap_or_default(), item.clone(), counter.into()];
        let units = self.case.trial.execute(container, "addCounted", key, arguments)?;
        self.keep_up(Some(parent), &owner, false)?;
        Ok(units)
    }

    /// Writes the copies of an item that was written.
    fn keep_up(&mut self, entity: Option<usize>, item: &Value, is_new: bool) -> Result<()> {
        let Some(at) = entity else { return Ok(()) };
        let chosen: Vec<Change> = self
            .proposal
            .changes
            .iter()
            .zip(self.made)
            .filter(|(_, made)| **made)
            .map(|(change, _)| change.clone())
            .collect();
        for change in chosen {
            match &change.recipe {
                Recipe::View { entity, cap, .. } if *entity == at => {
                    let container = self.place(&change.id)?;
                    let held = self.item(&change.id, &id_of(item));
                    if is_new || held.is_some() {
                        let item = with_members(item, &[("_changed".to_owned(), 1.into())]);
                        self.upkeep += self.case.trial.put(&container, &item)?;
                        self.upkeep += container.rates().feed_item(item.to_json().len()).units();
                    }
                    if is_new && cap.is_some() {
                        self.upkeep += self.case.trial.remove(&container, item)?;
                    }
                }
                Recipe::Copy { places, to, fields } if *to == at && !is_new => {
                    let before = self.upkeep;
                    self.rewrite_copies(item, places, fields)?;
                    let share = self
                        .case
                        .entity(at)
                        .map_or(1.0, |one| self.case.share_changed(one, fields));
                    self.upkeep = before + (self.upkeep - before) * share;
                }
                Recipe::Embed { parent, list, joined, .. }
                    if joined.as_ref().is_some_and(|(to, _)| *to == at) && !is_new =>
                {
                    self.rewrite_lists(*parent, list, item)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn rewrite_copies(
        &mut self,
        original: &Value,
        places: &[(usize, String)],
        fields: &[String],
    ) -> Result<()> {
        let id = id_of(original);
        for (from, path) in places {
            let Some(entity) = self.case.entity(*from) else { continue };
            let container = self.place(&entity.name)?;
            let Some(place) = self.world.places.get(&entity.name) else { continue };
            let refers = |item: &&Value| entity.has(item) && item.to_json().contains(&id);
            let holders: Vec<Value> = place.by_id.values().filter(refers).cloned().collect();
            let scale = self.data.scale(&entity.name);
            for holder in holders {
                self.upkeep += self.case.trial.read(&container, &holder)? * scale;
                let look_up = |_: &str| Some(original.clone());
                let only = path.contains("[]");
                let renewed =
                    if only { None } else { with_copies(&holder, path, fields, &look_up) };
                let renewed = renewed
                    .unwrap_or_else(|| with_members(&holder, &[("_changed".to_owned(), 1.into())]));
                self.upkeep += self.case.trial.put(&container, &renewed)? * scale;
            }
        }
        Ok(())
    }

    fn rewrite_lists(&mut self, parent: usize, list: &str, target: &Value) -> Result<()> {
        let Some(entity) = self.case.entity(parent) else { return Ok(()) };
        let container = self.place(&entity.name)?;
        let Some(place) = self.world.places.get(&entity.name) else { return Ok(()) };
        let id = id_of(target);
        let holds = |item: &&Value| {
            let held = item.get(list).and_then(Value::as_array).unwrap_or_default();
            held.iter().any(|one| one.get("id").and_then(Value::as_str) == Some(&id))
        };
        let holders: Vec<Value> = place.by_id.values().filter(holds).cloned().collect();
        let scale = self.data.scale(&entity.name);
        for holder in holders {
            self.upkeep += self.case.trial.read(&container, &holder)? * scale;
            let renewed = with_members(&holder, &[("_changed".to_owned(), 1.into())]);
            self.upkeep += self.case.trial.put(&container, &renewed)? * scale;
        }
        Ok(())
    }

    /// A step whose option was taken.
    fn taken(
        &mut self,
        id: StepId,
        step: &FlowStep,
        asked: &Asked,
        (at, predicted): (usize, f64),
    ) -> Result<f64> {
        let Some(change) = self.change(at).cloned() else { return self.plain(step, asked) };
        match &change.recipe {
            Recipe::Copy { .. } | Recipe::Embed { .. } => Ok(0.0),
            // Where nobody has read the parent before, it is read instead.
            Recipe::Count { .. } => {
                Ok(if predicted > 0.0 { predicted / step.times.max(1e-9) } else { 0.0 })
            }
            Recipe::View { key, .. } => {
                self.keyed(step, asked, &change.id, std::slice::from_ref(key))
            }
            Recipe::Rekey { keys, .. } => {
                self.keyed(step, asked, &step.shape.container.clone(), keys)
            }
            Recipe::Synthetic { paths, .. } => {
                let name = &step.shape.container;
                let values = values_of(step, asked, paths).unwrap_or_default();
                let item = self.item(name, &id_made_of(&values));
                item.map_or(Ok(asked.units), |item| self.case.trial.read(&self.place(name)?, &item))
            }
            Recipe::Reverse { child, parent, property, .. } => match step.entity {
                Some(entity) if entity == *child => {
                    self.children(id, *parent, &step.shape.container, property)
                }
                _ if predicted == 0.0 => Ok(0.0),
                _ => self.plain(step, asked),
            },
            Recipe::Reference { .. } if step.shape.verb == Verb::Query => Ok(0.0),
            Recipe::Reference { .. } => {
                let container = self.place(&change.id)?;
                let place = self.world.places.get(&change.id).ok_or_else(Error::not_found)?;
                let object = place.by_id.values().next().cloned().ok_or_else(Error::not_found)?;
                self.case
                    .trial
                    .put(&container, &with_members(&object, &[("_changed".to_owned(), 1.into())]))
            }
            Recipe::Capped { list, .. } if step.shape.verb.writes() => {
                self.add_apart(step, asked, list)
            }
            Recipe::Capped { .. } if step.shape.verb == Verb::Query => {
                let key = PartitionKey::parse(asked.key.as_deref().unwrap_or_default())?;
                let owner = key.0.first().map(Component::to_value).unwrap_or_default();
                let (request, key) = whole_list(&owner)?;
                let container = self.place(&step.shape.container)?;
                Ok(self.case.trial.query(&container, &request, Some(&key))?.0)
            }
            Recipe::Composite { .. } if self.data.is_sample() && asked.key.is_none() => {
                Ok(predicted / step.times.max(1e-9))
            }
            Recipe::Capped { .. }
            | Recipe::Index { .. }
            | Recipe::Composite { .. }
            | Recipe::None => self.plain(step, asked),
        }
    }

    /// A query that names the key of a container, or the beginning of one.
    fn keyed(&self, step: &FlowStep, asked: &Asked, name: &str, keys: &[String]) -> Result<f64> {
        let container = self.place(name)?;
        let request = step.request(asked).ok_or_else(Error::not_found)?;
        let key = key_asked(step, &request, keys);
        Ok(self.case.trial.query(&container, &request, Some(&key))?.0)
    }

    /// The children of the parent that a trace begins with.
    fn children(&self, id: StepId, parent: usize, name: &str, property: &str) -> Result<f64> {
        let container = self.place(name)?;
        let flow = self.case.flows.get(id.0).ok_or_else(Error::not_found)?;
        let bringing = flow.steps.iter().find(|step| step.entity == Some(parent));
        let asked = bringing.and_then(|step| step.examples.first()).ok_or_else(Error::not_found)?;
        let owner = Value::from(asked.item.as_deref().unwrap_or_default());
        let text = format!("SELECT * FROM c WHERE c[\"{property}\"] = @parent");
        let request = Request::new(&text, vec![(Arc::from("@parent"), owner.clone())])?;
        let key = PartitionKey(vec![Component::from_value(Some(&owner))]);
        Ok(self.case.trial.query(&container, &request, Some(&key))?.0)
    }

    /// One element more of a list that left its item.
    fn add_apart(&self, step: &FlowStep, asked: &Asked, list: &str) -> Result<f64> {
        let name = &step.shape.container;
        let container = self.place(name)?;
        let id = asked.item.as_deref().unwrap_or_default();
        let Some(owner) = self.item(name, id) else { return Ok(asked.units) };
        let place = self.world.places.get(name).ok_or_else(Error::not_found)?;
        let of = owner.get("id").cloned().unwrap_or_default();
        let is_apart = |item: &&Value| {
            item.get("ownerId").and_then(text_of) == text_of(&of) && id_of(item) != id
        };
        let apart = place.by_id.values().find(is_apart).cloned().ok_or_else(Error::not_found)?;
        let changed = |item: &Value| with_members(item, &[("_changed".to_owned(), 1.into())]);
        let first = match apart.get(list) {
            Some(_) => self.case.trial.put(&container, &changed(&apart))?,
            None => {
                let fresh = Value::from(format!("{}-again", id_of(&apart)).as_str());
                self.case
                    .trial
                    .put(&container, &with_members(&apart, &[("id".to_owned(), fresh)]))?
            }
        };
        Ok(first + self.case.trial.put(&container, &changed(&owner))?)
    }
}
