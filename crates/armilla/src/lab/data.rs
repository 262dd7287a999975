//! The data of a model: entities walked in order, each a pure function of seed and position.
//!
//! Nothing is kept but the way from the root to where the walk stands, so any amount of data is
//! made in constant memory, and the same entity looks the same from every container.

use super::fields::{mix3, pick};
use super::model::{Container, Count, Model, Source};
use super::template::Gaps;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where the numbers that decide counts begin; kept apart from those of fields.
const COUNT_SALT: u64 = 1 << 32;
const PICK_SALT: u64 = 2 << 32;
const FIELD_SALT: u64 = 3 << 32;

/// A model at a scale.
#[derive(Clone)]
pub(crate) struct Data {
    pub(crate) model: Arc<Model>,
    pub(crate) scale: BTreeMap<String, u64>,
}

/// One entity on the way of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Node {
    entity: usize,
    seed: u64,
    ordinal: u64,
    /// Whether it is the first of the first of the first.
    first: bool,
}

/// Where a walk stands: the way from the root.
#[derive(Clone)]
pub(crate) struct Place<'a> {
    data: &'a Data,
    way: Vec<Node>,
}

/// What a walk does at each place.
type Visit<'v> = dyn FnMut(&Place<'_>) -> Result<(), String> + 'v;

impl Data {
    /// The number of items of a container.
    pub(crate) fn items(&self, container: &Container) -> Result<u64, String> {
        let mut total = container.literal.len() as u64;
        for source in &container.items {
            let count = self.entities(&source.from)?;
            total += source.highest.as_ref().map_or(count, |bound| count.min(bound.count as u64));
        }
        Ok(total)
    }

    /// How many of an entity there are.
    pub(crate) fn entities(&self, name: &str) -> Result<u64, String> {
        let entity = self.model.entity(name)?;
        let Some(owner) = &self.model.entities[entity].per else {
            return Ok(self.count(entity, None));
        };
        let mut total = 0;
        self.walk(owner, &mut |place| {
            total += self.count(entity, place.way.last());
            Ok(())
        })?;
        Ok(total)
    }

    /// Makes every item of a container, in the same order every time.
    pub(crate) fn make(
        &self,
        container: &Container,
        take: &mut dyn FnMut(Value) -> Result<(), String>,
    ) -> Result<(), String> {
        for item in &container.literal {
            take(Value::Object(item.clone()))?;
        }
        for source in &container.items {
            match &source.highest {
                None => self.walk(&source.from, &mut |place| take(source.item.fill(place)?))?,
                Some(_) => self.make_highest(source, take)?,
            }
        }
        Ok(())
    }

    fn make_highest(
        &self,
        source: &Source,
        take: &mut dyn FnMut(Value) -> Result<(), String>,
    ) -> Result<(), String> {
        let Some(bound) = &source.highest else { return Ok(()) };
        let by = source.item.member(&bound.by);
        let by = by.ok_or_else(|| format!("items have no property '{}'", bound.by))?;
        let mut kept: BTreeMap<(String, u64), Vec<Node>> = BTreeMap::new();
        let mut number = 0;
        self.walk(&source.from, &mut |place| {
            let value = match by.fill(place)? {
                Value::String(text) => text,
                other => format!("{:>24}", other.to_string()),
            };
            kept.insert((value, number), place.way.clone());
            number += 1;
            if kept.len() > bound.count {
                kept.pop_first();
            }
            Ok(())
        })?;
        for way in kept.into_values().rev() {
            take(source.item.fill(&Place { data: self, way })?)?;
        }
        Ok(())
    }

    /// Visits every entity of a kind.
    fn walk(&self, name: &str, visit: &mut Visit<'_>) -> Result<(), String> {
        let mut kinds = vec![self.model.entity(name)?];
        while let Some(owner) = &self.model.entities[kinds[0]].per {
            kinds.insert(0, self.model.entity(owner)?);
        }
        self.descend(&kinds, Place { data: self, way: Vec::new() }, visit)
    }

    fn descend(
        &self,
        kinds: &[usize],
        place: Place<'_>,
        visit: &mut Visit<'_>,
    ) -> Result<(), String> {
        let Some((&entity, below)) = kinds.split_first() else { return visit(&place) };
        let owner = place.way.last().copied();
        let mut place = place;
        for ordinal in 0..self.count(entity, owner.as_ref()) {
            place.way.push(self.node(entity, owner.as_ref(), ordinal));
            self.descend(below, place.clone(), visit)?;
            place.way.pop();
        }
        Ok(())
    }

    fn node(&self, entity: usize, owner: Option<&Node>, ordinal: u64) -> Node {
        let above = owner.map_or(self.model.seed, |owner| owner.seed);
        Node {
            entity,
            seed: mix3(above, entity as u64 + 1, ordinal),
            ordinal,
            first: ordinal == 0 && owner.is_none_or(|owner| owner.first),
        }
    }

    fn count(&self, entity: usize, owner: Option<&Node>) -> u64 {
        let kind = &self.model.entities[entity];
        if let (Some(first), Some(owner)) = (kind.first, owner)
            && owner.first
        {
            return first;
        }
        match &kind.count {
            Count::Exactly(count) => *count,
            Count::Scaled(name) => self.scale.get(name).copied().unwrap_or(0),
            Count::Between([low, high]) => {
                let seed = owner.map_or(self.model.seed, |owner| owner.seed);
                let span = high.saturating_sub(*low) + 1;
                low + pick(mix3(seed, COUNT_SALT, entity as u64), span)
            }
        }
    }

    /// The place that requests ask about: the first of everything.
    pub(crate) fn first(&self) -> Place<'_> {
        let mut way: Vec<Node> = Vec::new();
        for (entity, kind) in self.model.entities.iter().enumerate() {
            let owner = kind.per.as_ref().and_then(|owner| {
                way.iter().find(|node| self.model.entities[node.entity].name == *owner)
            });
            let node = self.node(entity, owner, 0);
            way.push(node);
        }
        Place { data: self, way }
    }

    fn field(&self, node: &Node, name: &str) -> Option<Value> {
        let kind = &self.model.entities[node.entity];
        if name == "ordinal" {
            return Some(Value::from(node.ordinal));
        }
        let (position, (_, field)) =
            kind.fields.iter().enumerate().find(|(_, (found, _))| *found == name)?;
        Some(field.value(mix3(node.seed, FIELD_SALT, position as u64)))
    }

    /// A root entity by its number, counted around.
    fn root(&self, name: &str, number: impl FnOnce(u64) -> u64) -> Option<Node> {
        let entity = self.model.entity(name).ok()?;
        let count = self.count(entity, None).max(1);
        Some(self.node(entity, None, number(count) % count))
    }
}

impl Place<'_> {
    fn named(&self, name: &str) -> Option<&Node> {
        let kinds = &self.data.model.entities;
        self.way.iter().rev().find(|node| kinds[node.entity].name == name)
    }

    /// An entity that one on the way refers to.
    fn picked(&self, name: &str) -> Option<Node> {
        self.way.iter().rev().find_map(|node| {
            let picks = &self.data.model.entities[node.entity].pick;
            let (position, (_, target)) =
                picks.iter().enumerate().find(|(_, (found, _))| *found == name)?;
            match shifted(target) {
                (target, None) => {
                    let seed = mix3(node.seed, PICK_SALT, position as u64);
                    self.data.root(target, |count| pick(seed, count))
                }
                (target, Some(shift)) => self.neighbour(target, shift),
            }
        })
    }

    /// The root entity that stands a fixed number of places from the one on the way.
    fn neighbour(&self, name: &str, shift: i64) -> Option<Node> {
        let here = self.named(name)?.ordinal;
        self.data.root(name, |count| {
            let moved = i128::from(here) + i128::from(shift);
            moved.rem_euclid(i128::from(count)) as u64
        })
    }
}

/// `author+1` is the next author, `author-1` the one before, `author` any.
pub(super) fn shifted(text: &str) -> (&str, Option<i64>) {
    match text.find(['+', '-']) {
        Some(position) => {
            let (name, shift) = text.split_at(position);
            (name, shift.parse().ok())
        }
        None => (text, None),
    }
}

impl Gaps for Place<'_> {
    fn value(&self, path: &[String]) -> Option<Value> {
        let [name, field] = path else { return None };
        match self.named(name) {
            Some(node) => self.data.field(node, field),
            None => self.data.field(&self.picked(name)?, field),
        }
    }

    fn count(&self, entity: &str) -> Option<u64> {
        let entity = self.data.model.entity(entity).ok()?;
        let owner = self.data.model.entities[entity].per.as_ref()?;
        Some(self.data.count(entity, Some(self.named(owner)?)))
    }

    fn each(
        &self,
        way: &[String],
        make: &mut dyn FnMut(&dyn Gaps) -> Result<(), String>,
    ) -> Result<(), String> {
        let Some((name, below)) = way.split_first() else { return make(self) };
        if let (name, Some(shift)) = shifted(name) {
            let node = self.neighbour(name, shift);
            let node = node.ok_or_else(|| format!("there is no '{name}' on the way"))?;
            return Place { data: self.data, way: vec![node] }.each(below, make);
        }
        let entity = self.data.model.entity(name)?;
        let owner = self.data.model.entities[entity].per.as_deref().unwrap_or_default();
        let owner = self.named(owner).ok_or_else(|| format!("'{name}' has no owner here"))?;
        for ordinal in 0..self.data.count(entity, Some(owner)) {
            let mut way = self.way.clone();
            way.push(self.data.node(entity, Some(owner), ordinal));
            Place { data: self.data, way }.each(below, make)?;
        }
        Ok(())
    }
}
