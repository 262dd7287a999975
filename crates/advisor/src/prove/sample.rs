//! The data that a proof works on: all of it, or, where that is too much, what the recorded requests touch and a part of the rest.

use crate::flow::FlowStep;
use crate::live::{Live, text_of, visit, without_system};
use crate::observe::{Asked, Verb};
use crate::propose::Case;
use crate::rules::view::items_of;
use crate::understand::Entity;
use armilla_engine::query::Request;
use armilla_model::value::Value;
use std::collections::{BTreeMap, HashSet};

/// References of touched items that are followed.
const FOLLOWED_MAX: usize = 2_000;

/// Items by container.
pub(crate) struct ProofData {
    pub(crate) items: BTreeMap<String, Vec<Value>>,
    /// Items of which how many are here, by container.
    pub(crate) of: BTreeMap<String, f64>,
}

impl ProofData {
    /// All items, or so many.
    pub(crate) fn of(case: &Case<'_>, items_max: usize) -> Self {
        let mut of: BTreeMap<String, f64> = BTreeMap::new();
        for entity in &case.model.entities {
            *of.entry(entity.name.clone()).or_default() += entity.items;
        }
        let all: f64 = of.values().sum();
        let mut items: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        let mut known = Known::default();
        if all > items_max as f64 {
            touch(case, &mut known, &mut items);
            follow(case, &mut known, &mut items);
        }
        for entity in &case.model.entities {
            let here = items.entry(entity.name.clone()).or_default();
            let share = of.get(&entity.name).copied().unwrap_or(0.0) / all.max(1.0);
            let quota = match all > items_max as f64 {
                true => (share * items_max as f64) as usize,
                false => usize::MAX,
            };
            if here.len() < quota && known.filled.insert(entity.name.clone()) {
                let wanted = quota.saturating_sub(here.len());
                let rest = Live::new(&entity.container).spread(wanted);
                here.extend(rest.into_iter().filter(|item| known.is_new(&entity.name, item)));
            }
        }
        for list in items.values_mut() {
            list.iter_mut().for_each(|item| *item = without_system(item));
        }
        Self { items, of }
    }

    /// How many items there are in all, and here.
    pub(crate) fn counts(&self) -> (f64, usize) {
        (self.of.values().sum(), self.items.values().map(Vec::len).sum())
    }

    /// Whether some items are not here.
    pub(crate) fn is_sample(&self) -> bool {
        let (of, here) = self.counts();
        (here as f64) < of - 0.5
    }

    /// For how many items of a container one stands.
    pub(crate) fn scale(&self, name: &str) -> f64 {
        let here = self.items.get(name).map_or(0, Vec::len).max(1) as f64;
        (self.of.get(name).copied().unwrap_or(here) / here).max(1.0)
    }
}

/// Items that are here already.
#[derive(Default)]
struct Known {
    places: HashSet<(String, String)>,
    filled: HashSet<String>,
}

impl Known {
    fn is_new(&mut self, container: &str, item: &Value) -> bool {
        let rid = item.get("_rid").and_then(Value::as_str).unwrap_or_default();
        self.places.insert((container.to_owned(), rid.to_owned()))
    }
}

/// What the recorded requests read and write.
fn touch(case: &Case<'_>, known: &mut Known, items: &mut BTreeMap<String, Vec<Value>>) {
    for (_, _, step) in case.steps() {
        let entity = case.model.entities.iter().find(|entity| entity.name == step.shape.container);
        let Some(entity) = entity else { continue };
        for asked in &step.examples {
            let here = items.entry(entity.name.clone()).or_default();
            let found = touched(step, entity, asked);
            here.extend(found.into_iter().filter(|item| known.is_new(&entity.name, item)));
        }
    }
}

fn touched(step: &FlowStep, entity: &Entity, asked: &Asked) -> Vec<Value> {
    let live = Live::new(&entity.container);
    match (step.shape.verb, asked.key.as_deref(), asked.item.as_deref()) {
        (Verb::Query, None, _) => {
            let request = step.request(asked);
            request.and_then(|request| items_of(step, entity, &request)).unwrap_or_default()
        }
        (Verb::Read, Some(key), Some(id)) => live.read(key, id).into_iter().collect(),
        // The logical partition: what is counted there, and where a procedure works.
        (_, Some(key), _) => {
            live.rows(Request::of_text("SELECT * FROM c"), Some(key)).unwrap_or_default()
        }
        _ => Vec::new(),
    }
}

/// What these refer to.
fn follow(case: &Case<'_>, known: &mut Known, items: &mut BTreeMap<String, Vec<Value>>) {
    let mut wanted: Vec<(usize, String)> = Vec::new();
    for link in &case.model.links {
        let Some(from) = case.entity(link.from) else { continue };
        for item in items.get(&from.name).into_iter().flatten() {
            visit(item, "", 0, &mut |path, value| {
                if let Some(id) = text_of(value).filter(|_| path == link.path) {
                    wanted.push((link.to, id));
                }
            });
        }
    }
    wanted.sort_unstable();
    wanted.dedup();
    for (to, id) in wanted.into_iter().take(FOLLOWED_MAX) {
        let Some(entity) = case.entity(to) else { continue };
        if let Some(item) = Live::new(&entity.container).by_id(&id)
            && known.is_new(&entity.name, &item)
        {
            items.entry(entity.name.clone()).or_default().push(item);
        }
    }
}
