//! What was observed: shapes, and patterns of activities with figures and a few recordings.

use super::load::{HotKeys, Hours};
use super::sketch::Kinds;
use crate::limits::{
    CONTAINER_BYTES_MAX, CONTAINERS_MAX, HOT_KEYS, HOURS_MAX, SHAPE_BYTES, SHAPES_MAX,
    TRACE_STEPS_MAX, TRACES_MAX,
};
use std::collections::{BTreeMap, HashMap};

/// Bytes of a pattern and of a shape's figures in it.
const PATTERN_BYTES: usize = 96;
const STEP_BYTES: usize = size_of::<StepFigures>();
/// Bytes up to which activities are recorded.
const TRACED_BYTES_MAX: usize = CONTAINER_BYTES_MAX - SHAPE_BYTES;
/// Bytes that a container's hottest keys and hours take at most.
const LOAD_BYTES: usize = HOT_KEYS * (48 + 256) + HOURS_MAX * 24;

/// What a request does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    /// Reads an item.
    Read,
    /// Asks a query.
    Query,
    /// Asks for the plan of one.
    Plan,
    /// Creates an item.
    Create,
    /// Creates or replaces one.
    Upsert,
    /// Replaces one.
    Replace,
    /// Changes one.
    Patch,
    /// Removes one.
    Delete,
    /// Runs a procedure.
    Execute,
    /// Anything else.
    #[default]
    Other,
}

const VERBS: [(Verb, &str); 10] = [
    (Verb::Read, "read"),
    (Verb::Query, "query"),
    (Verb::Plan, "query_plan"),
    (Verb::Create, "create"),
    (Verb::Upsert, "upsert"),
    (Verb::Replace, "replace"),
    (Verb::Patch, "patch"),
    (Verb::Delete, "delete"),
    (Verb::Execute, "execute"),
    (Verb::Other, "other"),
];

impl Verb {
    /// By the name that metrics have for it.
    pub fn named(name: &str) -> Self {
        VERBS.iter().find(|(_, known)| *known == name).map_or(Self::Other, |(verb, _)| *verb)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        VERBS.iter().find(|(verb, _)| *verb == self).map_or("other", |(_, name)| name)
    }

    /// Whether it changes items.
    pub fn writes(self) -> bool {
        !matches!(self, Self::Read | Self::Query | Self::Plan | Self::Other)
    }

    /// Whether it writes one item whole.
    pub fn writes_item(self) -> bool {
        matches!(self, Self::Create | Self::Upsert | Self::Replace)
    }
}

/// Requests that differ in their values only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shape {
    /// The database.
    pub database: String,
    /// The container.
    pub container: String,
    /// What they do.
    pub verb: Verb,
    /// The kind of the item, where items of the container say one; the name of a procedure.
    pub kind: Option<String>,
    /// A query without its values.
    pub text: String,
    /// The request names a partition key.
    pub keyed: bool,
}

impl Shape {
    /// In a few words.
    pub fn title(&self) -> String {
        let kind = self.kind.as_deref().map(|kind| format!(" ({kind})")).unwrap_or_default();
        match self.verb {
            Verb::Query => format!("query {}: {}", self.container, self.text),
            verb => format!("{} {}{kind}", verb.name(), self.container),
        }
    }

    fn bytes(&self) -> usize {
        128 + self.text.len() + self.kind.as_ref().map_or(0, String::len)
    }
}

/// Figures of one shape inside a pattern.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepFigures {
    /// The shape, by its place in [`Workload::shapes`].
    pub shape: usize,
    /// Logical requests.
    pub times: f64,
    /// Requests on the wire: pages, and ranges of a fan-out.
    pub requests: f64,
    /// What they cost.
    pub units: f64,
    /// Rows or items that came back.
    pub rows: f64,
    /// Ranges that were asked.
    pub ranges: f64,
}

/// One recorded request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asked {
    /// Its shape.
    pub shape: usize,
    /// The partition key as the header had it.
    pub key: Option<String>,
    /// The item of the path, or of the body.
    pub item: Option<String>,
    /// The body of a query.
    pub query: Option<String>,
    /// The body of a write.
    pub written: Option<String>,
    /// What it cost.
    pub units: f64,
}

impl Asked {
    pub(super) fn bytes(&self) -> usize {
        let texts = [&self.key, &self.item, &self.query, &self.written];
        96 + texts.into_iter().flatten().map(String::len).sum::<usize>()
    }
}

/// One recorded activity.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// Its requests in order.
    pub steps: Vec<Asked>,
}

impl Trace {
    fn bytes(&self) -> usize {
        self.steps.iter().map(Asked::bytes).sum()
    }
}

/// Activities that begin with the same shape.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pattern {
    /// The shape of the first request.
    pub head: usize,
    /// They change items.
    pub writes: bool,
    /// How many there were.
    pub times: f64,
    /// What they asked, shape by shape, in order of appearance.
    pub steps: Vec<StepFigures>,
    /// Some of them.
    pub traces: Vec<Trace>,
}

impl Pattern {
    /// What one of them costs.
    pub fn units(&self) -> f64 {
        self.steps.iter().map(|step| step.units).sum::<f64>() / self.times.max(1.0)
    }
}

/// What is known of a container beside its requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerSketch {
    /// Its items, by kind.
    pub kinds: Kinds,
    /// Its hottest logical keys.
    pub hot: HotKeys,
    /// Its units, hour by hour.
    pub hours: Hours,
}

/// A container by the names of its database and its own.
pub type ContainerId = (String, String);

/// Everything that was observed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workload {
    /// The first request, in milliseconds since 1970.
    pub since_millis: u64,
    /// The last one.
    pub until_millis: u64,
    /// How many there were, with those that were missed.
    pub requests: f64,
    /// What they cost.
    pub units: f64,
    /// Requests that were not seen one by one.
    pub missed: u64,
    /// Requests whose shape was one too many.
    pub left_out: u64,
    /// All shapes.
    pub shapes: Vec<Shape>,
    /// All patterns.
    pub patterns: Vec<Pattern>,
    /// What is known of the containers.
    pub containers: BTreeMap<ContainerId, ContainerSketch>,
    /// Shapes and bytes by container.
    pub(super) bytes: HashMap<ContainerId, (usize, usize)>,
}

impl Workload {
    /// The number of a shape; nothing when its container has too many.
    pub(super) fn shape(&mut self, shape: Shape) -> Option<usize> {
        if let Some(known) = self.shapes.iter().position(|known| *known == shape) {
            return Some(known);
        }
        let owner = (shape.database.clone(), shape.container.clone());
        if self.is_full() && !self.bytes.contains_key(&owner) {
            return None;
        }
        let taken = self.bytes_of(&shape.database, &shape.container);
        let (count, bytes) = self.bytes.entry(owner).or_default();
        if *count >= SHAPES_MAX || taken + shape.bytes() > CONTAINER_BYTES_MAX {
            return None;
        }
        *count += 1;
        *bytes += shape.bytes();
        self.shapes.push(shape);
        Some(self.shapes.len() - 1)
    }

    /// No further container is observed.
    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= CONTAINERS_MAX
    }

    /// What is known of a container that has a shape, and the bytes that it may still take.
    pub(super) fn sketch(&mut self, owner: &ContainerId) -> Option<(&mut ContainerSketch, usize)> {
        let (_, bytes) = self.bytes.get_mut(owner)?;
        if !self.containers.contains_key(owner) {
            if *bytes + LOAD_BYTES > CONTAINER_BYTES_MAX {
                return None;
            }
            *bytes += LOAD_BYTES;
        }
        let room = CONTAINER_BYTES_MAX.saturating_sub(*bytes);
        Some((self.containers.entry(owner.clone()).or_default(), room))
    }

    /// Counts bytes that a container took.
    pub(super) fn took(&mut self, owner: &ContainerId, taken: usize) {
        if let Some((_, bytes)) = self.bytes.get_mut(owner) {
            *bytes += taken;
        }
    }

    /// Forgets containers that are no longer there. Numbers of shapes change.
    pub(super) fn retain(&mut self, is_there: impl Fn(&ContainerId) -> bool) {
        let mut numbers: Vec<Option<usize>> = Vec::new();
        let mut kept = Vec::new();
        for shape in std::mem::take(&mut self.shapes) {
            let stays = is_there(&(shape.database.clone(), shape.container.clone()));
            numbers.push(stays.then_some(kept.len()));
            kept.extend(stays.then_some(shape));
        }
        self.shapes = kept;
        let number = |shape: usize| numbers.get(shape).copied().flatten();
        self.patterns.retain_mut(|pattern| {
            let Some(head) = number(pattern.head) else { return false };
            pattern.head = head;
            pattern
                .steps
                .retain_mut(|step| number(step.shape).map(|shape| step.shape = shape).is_some());
            for trace in &mut pattern.traces {
                trace.steps.retain_mut(|asked| {
                    number(asked.shape).map(|shape| asked.shape = shape).is_some()
                });
            }
            true
        });
        self.containers.retain(|owner, _| is_there(owner));
        self.count_bytes();
    }

    /// Counts again what every container takes; recordings of those that take too much go.
    pub(super) fn count_bytes(&mut self) {
        self.bytes.clear();
        for shape in &self.shapes {
            let owner = (shape.database.clone(), shape.container.clone());
            let (count, bytes) = self.bytes.entry(owner).or_default();
            *count += 1;
            *bytes += shape.bytes();
        }
        for (owner, sketch) in &self.containers {
            let bytes = LOAD_BYTES + sketch.kinds.bytes;
            self.bytes.entry(owner.clone()).or_default().1 += bytes;
        }
        for pattern in &mut self.patterns {
            let Some(shape) = self.shapes.get(pattern.head) else { continue };
            let owner = (shape.database.clone(), shape.container.clone());
            let used = &mut self.bytes.entry(owner).or_default().1;
            *used += PATTERN_BYTES + pattern.steps.len() * STEP_BYTES;
            pattern.traces.retain(|trace| {
                let stays = *used + trace.bytes() <= TRACED_BYTES_MAX;
                *used += if stays { trace.bytes() } else { 0 };
                stays
            });
        }
    }

    /// Bytes that a container's observations take.
    pub fn bytes_of(&self, database: &str, container: &str) -> usize {
        self.bytes.get(&(database.to_owned(), container.to_owned())).map_or(0, |(_, bytes)| *bytes)
    }

    /// Adds an activity that has ended.
    pub(super) fn add(&mut self, steps: Vec<(StepFigures, Asked)>, weight: f64) {
        let Some((first, _)) = steps.first() else { return };
        let head = first.shape;
        let writes = steps
            .iter()
            .any(|(step, _)| self.shapes.get(step.shape).is_some_and(|shape| shape.verb.writes()));
        let known = self
            .patterns
            .iter()
            .position(|pattern| pattern.head == head && pattern.writes == writes);
        let Some(shape) = self.shapes.get(head) else { return };
        let owner = (shape.database.clone(), shape.container.clone());
        let used = &mut self.bytes.entry(owner).or_default().1;
        let place = match known {
            Some(place) => place,
            None if *used + PATTERN_BYTES > CONTAINER_BYTES_MAX => {
                self.left_out += 1;
                return;
            }
            None => {
                *used += PATTERN_BYTES;
                self.patterns.push(Pattern { head, writes, ..Pattern::default() });
                self.patterns.len() - 1
            }
        };
        let Some(pattern) = self.patterns.get_mut(place) else { return };
        pattern.times += weight;
        for (figures, _) in &steps {
            let shape = figures.shape;
            if !pattern.steps.iter().any(|step| step.shape == shape) {
                if *used + STEP_BYTES > CONTAINER_BYTES_MAX {
                    self.left_out += 1;
                    continue;
                }
                *used += STEP_BYTES;
                pattern.steps.push(StepFigures { shape, ..StepFigures::default() });
            }
            let Some(step) = pattern.steps.iter_mut().find(|step| step.shape == shape) else {
                continue;
            };
            step.times += weight;
            step.requests += figures.requests * weight;
            step.units += figures.units * weight;
            step.rows += figures.rows * weight;
            step.ranges += figures.ranges * weight;
        }
        self.record(place, steps);
    }

    /// Keeps an activity whole, if there is room: the longest ones say most.
    fn record(&mut self, place: usize, steps: Vec<(StepFigures, Asked)>) {
        let Some(pattern) = self.patterns.get_mut(place) else { return };
        let Some(owner) = self.shapes.get(pattern.head) else { return };
        let asked = steps.into_iter().map(|(_, asked)| asked).take(TRACE_STEPS_MAX);
        let trace = Trace { steps: asked.collect() };
        let owner = (owner.database.clone(), owner.container.clone());
        let shortest = (pattern.traces.len() >= TRACES_MAX).then(|| {
            let lengths = pattern.traces.iter().map(|trace| trace.steps.len()).enumerate();
            lengths.min_by_key(|(_, length)| *length)
        });
        let used = self.bytes.entry(owner).or_default();
        match shortest.flatten() {
            Some((_, length)) if length >= trace.steps.len() => {}
            Some((at, _)) => {
                let freed = pattern.traces.get(at).map_or(0, Trace::bytes);
                if used.1 + trace.bytes() <= TRACED_BYTES_MAX + freed {
                    used.1 = used.1 + trace.bytes() - freed;
                    pattern.traces[at] = trace;
                }
            }
            None if used.1 + trace.bytes() <= TRACED_BYTES_MAX => {
                used.1 += trace.bytes();
                pattern.traces.push(trace);
            }
            None => {}
        }
    }

    /// Seconds that were observed.
    pub fn seconds(&self) -> u64 {
        self.until_millis.saturating_sub(self.since_millis).div_ceil(1000)
    }
}
