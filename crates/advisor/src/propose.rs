//! Proposing: rules look at flows and entities and put forward changes; each is priced by doing.
//!
//! A step of a pattern has [options](StepOption): what it would cost once certain changes are made. Changes have
//! [burdens](Burden): what other steps then cost more, and upkeep that no request of a client shows. Everything is in units
//! of one activity of a pattern, so the total of the observed workload under any set of changes is a sum
//! ([`Proposal::total`]).

use crate::flow::{Flow, FlowStep};
use crate::limits::CHANGES_MAX;
use crate::observe::{ContainerSketch, Verb, Workload};
use crate::trial::Trial;
use crate::understand::{DataModel, Entity};
use armilla_model::Result;
use armilla_model::charge::Rates;
use armilla_model::value::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Changes of which both versions were seen, before they say which properties change.
const CHANGES_SEEN_MIN: f64 = 3.0;

/// Something to copy: a definition, a script, a command.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Instruction {
    pub(crate) what: &'static str,
    pub(crate) title: String,
    pub(crate) language: &'static str,
    pub(crate) text: String,
}

impl Instruction {
    pub(crate) fn new(
        what: &'static str,
        title: impl Into<String>,
        language: &'static str,
        text: impl Into<String>,
    ) -> Self {
        Self { what, title: title.into(), language, text: text.into() }
    }
}

/// What a change does to items, so that a proof can do it.
#[derive(Clone, Debug, Default)]
pub(crate) enum Recipe {
    /// Nothing that could be done.
    #[default]
    None,
    /// Fields of one entity are copied to where others refer to it.
    Copy { places: Vec<(usize, String)>, to: usize, fields: Vec<String> },
    /// Children are counted in their parent.
    Count { parent: usize, children: BTreeMap<usize, String> },
    /// Items are copied under another key, the highest so many by a path where there is a cap.
    View { entity: usize, key: String, cap: Option<(usize, String)> },
    /// The container gets another key, of one path or of several.
    Rekey { entity: usize, keys: Vec<String> },
    /// The id, which is the key too, is made of these properties.
    Synthetic { entity: usize, paths: Vec<String> },
    /// The container gets one composite index more.
    Composite { container: String, index: Value },
    /// Children, or what they join, become a list in their parent.
    Embed { parent: usize, child: usize, by: String, joined: Option<(usize, String)>, list: String },
    /// A list of ids becomes a property of the children, which is their key.
    Reverse { parent: usize, child: usize, list: String, property: String },
    /// An object that stands in many items becomes an item of its own.
    Reference { entity: usize, path: String },
    /// The container is indexed otherwise.
    Index { container: String, policy: Value },
    /// A list leaves its item, but for the newest few.
    Capped { entity: usize, list: String, buckets: bool },
}

/// A change of the data model.
#[derive(Clone, Debug, Default)]
pub(crate) struct Change {
    /// Stable over reports.
    pub(crate) id: String,
    pub(crate) rule: &'static str,
    pub(crate) title: String,
    pub(crate) reason: String,
    pub(crate) container: String,
    /// Bytes that it adds.
    pub(crate) storage: f64,
    /// What keeping it up costs beside the requests of clients, over the observed workload.
    pub(crate) upkeep: f64,
    /// Real items that were built to price it.
    pub(crate) built: usize,
    /// The least share of all units that it must save.
    pub(crate) share_min: f64,
    pub(crate) recipe: Recipe,
    pub(crate) apply: Vec<Instruction>,
}

/// A step, by its flow and its place in it.
pub(crate) type StepId = (usize, usize);

/// What a step costs once changes are made.
#[derive(Clone, Debug)]
pub(crate) struct StepOption {
    pub(crate) step: StepId,
    pub(crate) requires: Vec<usize>,
    /// In one activity.
    pub(crate) units: f64,
}

/// What a step costs more (or less) once changes are made; `None` for what no client's request shows.
#[derive(Clone, Debug)]
pub(crate) struct Burden {
    pub(crate) step: Option<StepId>,
    pub(crate) requires: Vec<usize>,
    /// In one activity; over the whole workload for what no request shows.
    pub(crate) units: f64,
}

/// Changes with what they mean for every step.
#[derive(Clone, Debug, Default)]
pub(crate) struct Proposal {
    pub(crate) changes: Vec<Change>,
    pub(crate) options: Vec<StepOption>,
    pub(crate) burdens: Vec<Burden>,
}

/// What rules look at.
pub(crate) struct Case<'a> {
    pub(crate) database: &'a str,
    pub(crate) model: &'a DataModel,
    pub(crate) flows: &'a [Flow],
    pub(crate) trial: &'a Trial,
    pub(crate) workload: &'a Workload,
}

impl Case<'_> {
    pub(crate) fn entity(&self, at: usize) -> Option<&Entity> {
        self.model.entities.get(at)
    }

    /// All steps with their places.
    pub(crate) fn steps(&self) -> impl Iterator<Item = (StepId, &Flow, &FlowStep)> {
        self.flows.iter().enumerate().flat_map(|(flow_at, flow)| {
            let steps = flow.steps.iter().enumerate();
            steps.map(move |(at, step)| ((flow_at, at), flow, step))
        })
    }

    /// How often items of an entity are written by requests of a verb, over the observed workload.
    pub(crate) fn writes(&self, entity: usize, is_wanted: fn(Verb) -> bool) -> f64 {
        self.steps()
            .filter(|(_, _, step)| step.entity == Some(entity) && is_wanted(step.shape.verb))
            .map(|(_, flow, step)| step.times * flow.times)
            .sum()
    }

    /// How often an item that is there already is changed.
    pub(crate) fn changes(&self, entity: usize) -> f64 {
        self.writes(entity, |verb| matches!(verb, Verb::Upsert | Verb::Replace | Verb::Patch))
    }

    /// The same for an entity at hand.
    pub(crate) fn changes_of(&self, entity: &Entity) -> f64 {
        let is_it = |one: &Entity| one.name == entity.name && one.kind == entity.kind;
        self.model.entities.iter().position(is_it).map_or(0.0, |at| self.changes(at))
    }

    /// How often a new item comes.
    pub(crate) fn creations(&self, entity: usize) -> f64 {
        self.writes(entity, |verb| verb == Verb::Create)
    }

    /// What is known of an entity's container beside its requests.
    pub(crate) fn sketch(&self, entity: &Entity) -> Option<&ContainerSketch> {
        self.workload.containers.get(&(entity.database.clone(), entity.name.clone()))
    }

    /// The share of an entity's changes that are about one of these properties; all of them where that was not seen.
    pub(crate) fn share_changed(&self, entity: &Entity, fields: &[String]) -> f64 {
        let kinds = self.sketch(entity).map(|sketch| &sketch.kinds);
        let Some(sketch) = kinds.and_then(|kinds| kinds.get(entity.kind.as_deref())) else {
            return 1.0;
        };
        if sketch.replaced < CHANGES_SEEN_MIN {
            return 1.0;
        }
        let changed = fields.iter().filter_map(|field| sketch.paths.get(&format!("/{field}")));
        // Changed together or one by one: the sum is the most that it can be.
        let sum: f64 = changed.map(|path| path.changed).sum();
        (sum / sketch.replaced).min(1.0)
    }

    pub(crate) fn rates(&self, entity: &Entity) -> Arc<Rates> {
        entity.container.rates()
    }
}

impl Proposal {
    /// Adds a change; its number.
    pub(crate) fn add(&mut self, change: Change) -> Option<usize> {
        if self.changes.len() >= CHANGES_MAX {
            return None;
        }
        if let Some(known) = self.changes.iter().position(|known| known.id == change.id) {
            return Some(known);
        }
        self.changes.push(change);
        Some(self.changes.len() - 1)
    }

    pub(crate) fn option(&mut self, step: StepId, requires: Vec<usize>, units: f64) {
        self.options.push(StepOption { step, requires, units });
    }

    pub(crate) fn burden(&mut self, step: Option<StepId>, requires: Vec<usize>, units: f64) {
        if units.abs() > 1e-9 {
            self.burdens.push(Burden { step, requires, units });
        }
    }

    /// The change whose option a step takes under a set of changes, if it takes one.
    pub(crate) fn taken(
        &self,
        flows: &[Flow],
        step: StepId,
        made: &[bool],
    ) -> Option<(usize, f64)> {
        let now = flows.get(step.0)?.steps.get(step.1)?.units;
        let holds =
            |requires: &[usize]| requires.iter().all(|change| made.get(*change) == Some(&true));
        let options = self.options.iter().filter(|one| one.step == step && holds(&one.requires));
        let least = options.min_by(|one, other| one.units.total_cmp(&other.units))?;
        (least.units < now).then_some((*least.requires.first()?, least.units))
    }

    /// What a step costs in one activity under a set of changes.
    pub(crate) fn step_units(&self, flows: &[Flow], step: StepId, made: &[bool]) -> f64 {
        let now =
            flows.get(step.0).and_then(|flow| flow.steps.get(step.1)).map_or(0.0, |one| one.units);
        let holds =
            |requires: &[usize]| requires.iter().all(|change| made.get(*change) == Some(&true));
        let options = self.options.iter().filter(|one| one.step == step && holds(&one.requires));
        let least = options.map(|one| one.units).fold(now, f64::min);
        let burdens =
            self.burdens.iter().filter(|one| one.step == Some(step) && holds(&one.requires));
        least + burdens.map(|one| one.units).sum::<f64>()
    }

    /// What keeping the changes up costs beside the requests of clients.
    pub(crate) fn upkeep(&self, made: &[bool]) -> f64 {
        let holds =
            |requires: &[usize]| requires.iter().all(|change| made.get(*change) == Some(&true));
        let own = self.changes.iter().zip(made).filter(|(_, made)| **made);
        let joint = self.burdens.iter().filter(|one| one.step.is_none() && holds(&one.requires));
        own.map(|(change, _)| change.upkeep).sum::<f64>() + joint.map(|one| one.units).sum::<f64>()
    }

    /// What the observed workload costs under a set of changes.
    pub(crate) fn total(&self, flows: &[Flow], made: &[bool]) -> f64 {
        let mut total = self.upkeep(made);
        for (flow_at, flow) in flows.iter().enumerate() {
            for at in 0..flow.steps.len() {
                total += self.step_units(flows, (flow_at, at), made) * flow.times;
            }
        }
        total
    }
}

/// The mean of what is measured for up to `count` samples; nothing when there are none.
pub(crate) fn mean_of<T>(
    samples: impl IntoIterator<Item = T>,
    mut measure: impl FnMut(T) -> Result<f64>,
) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0.0);
    for sample in samples {
        if let Ok(units) = measure(sample) {
            sum += units;
            count += 1.0;
        }
    }
    (count > 0.0).then_some(sum / count)
}

/// An item with other members.
pub(crate) fn with_members(item: &Value, members: &[(String, Value)]) -> Value {
    let mut object = item.as_object().cloned().unwrap_or_default();
    for (name, value) in members {
        object.insert(name.as_str(), value.clone());
    }
    Value::object(object)
}

/// `name` with a capital.
pub(crate) fn capital(name: &str) -> String {
    let mut letters = name.chars();
    letters
        .next()
        .map(|first| first.to_uppercase().collect::<String>() + letters.as_str())
        .unwrap_or_default()
}
