//! Understanding: which entities the containers hold, and which refer to which.
//!
//! An entity is a container's items of one kind, where items say their kind or are told apart by their properties, or all of them. A path refers to an entity
//! when its values are ids there: that is looked up, value by value, for a sample.

use crate::limits::{LINK_SHARE_MIN, LINK_VALUES_MAX, PATHS_MAX, SAMPLE_MAX};
use crate::live::{Live, is_system, kind_rule, text_of, visit, without_system};
use crate::observe::{Shape, Workload};
use armilla_engine::{Account, Container};
use armilla_model::value::Value;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// A path whose written values were ids of another entity to such a share is looked up in full.
const SKETCHED_SHARE: f64 = 0.5;
/// Different values of a path that are counted.
const DISTINCT_MAX: usize = 2_000;

/// What stands at a path.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathFigures {
    /// Sampled items that have it.
    pub(crate) items: usize,
    /// Values in all sampled items; several per item inside lists.
    pub(crate) values: usize,
    /// Different ones, as JSON.
    pub(crate) distinct: HashSet<String>,
    /// Texts and numbers.
    pub(crate) is_scalar: bool,
    /// Objects.
    pub(crate) is_object: bool,
    /// Elements of lists: in all, at most, and of how many lists.
    pub(crate) elements: (usize, usize, usize),
    texts: Vec<String>,
}

impl PathFigures {
    /// Elements that a list has on average.
    pub(crate) fn elements_mean(&self) -> f64 {
        self.elements.0 as f64 / self.elements.2.max(1) as f64
    }
}

/// A container's items of one kind.
#[derive(Clone)]
pub(crate) struct Entity {
    pub(crate) container: Arc<Container>,
    pub(crate) database: String,
    pub(crate) name: String,
    pub(crate) kind: Option<String>,
    /// The property that only items of this kind have, where they do not say it.
    pub(crate) mark: Option<Arc<str>>,
    /// How many there are, as the sample says.
    pub(crate) items: f64,
    /// Their mean size.
    pub(crate) bytes: f64,
    pub(crate) paths: BTreeMap<String, PathFigures>,
    pub(crate) samples: Vec<Value>,
    /// Where the partition key lies.
    pub(crate) key: Vec<String>,
    /// The container is a view.
    pub(crate) is_view: bool,
}

impl Entity {
    /// What people would call it.
    pub(crate) fn label(&self) -> String {
        match (&self.kind, &self.mark) {
            (Some(kind), None) => kind.clone(),
            (Some(kind), Some(_)) => format!("{} {kind}", singular(&self.name)),
            (None, _) => singular(&self.name),
        }
    }

    /// Whether an item of the container is one.
    pub(crate) fn has(&self, item: &Value) -> bool {
        match (&self.kind, &self.mark, self.kind_path()) {
            (_, Some(mark), _) => item.get(mark).is_some(),
            (Some(kind), None, Some(path)) => {
                item.get(&path[1..]).and_then(Value::as_str) == Some(kind.as_str())
            }
            _ => true,
        }
    }

    /// The condition that leaves items of this kind, where the container has others.
    pub(crate) fn condition(&self) -> Option<String> {
        let quoted = |name: &str| Value::from(name).to_json();
        if let Some(mark) = &self.mark {
            return Some(format!("IS_DEFINED(c[{}])", quoted(mark)));
        }
        let (path, kind) = self.kind_path().zip(self.kind.as_ref())?;
        Some(format!("c[{}] = {}", quoted(&path[1..]), quoted(kind)))
    }

    /// Scalar properties at the top, but for the id, the key and the kind.
    pub(crate) fn fields(&self) -> Vec<String> {
        let is_field = |path: &str| {
            path.matches('/').count() == 1
                && path != "/id"
                && !self.key.iter().any(|key| key == path)
                && self.kind_path().as_deref() != Some(path)
        };
        let fields =
            self.paths.iter().filter(|(path, figures)| figures.is_scalar && is_field(path));
        fields.map(|(path, _)| path[1..].to_owned()).collect()
    }

    /// Where items say their kind.
    pub(crate) fn kind_path(&self) -> Option<String> {
        let kind = self.kind.as_ref()?;
        let says = |path: &&String| {
            let name = &path[1..];
            self.samples.iter().all(|item| item.get(name).and_then(Value::as_str) == Some(kind))
        };
        self.paths.keys().filter(|path| path.matches('/').count() == 1).find(says).cloned()
    }
}

/// A word for one of several.
pub(crate) fn singular(name: &str) -> String {
    match name.strip_suffix("ies") {
        Some(stem) => format!("{stem}y"),
        None => name.strip_suffix('s').unwrap_or(name).to_owned(),
    }
}

/// A path whose values are ids of another entity.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Link {
    pub(crate) from: usize,
    pub(crate) path: String,
    pub(crate) to: usize,
    /// Share of the values that were found.
    pub(crate) found: f64,
}

/// Entities and links of a database.
#[derive(Clone, Default)]
pub(crate) struct DataModel {
    pub(crate) entities: Vec<Entity>,
    pub(crate) links: Vec<Link>,
}

impl DataModel {
    /// Looks at the containers that requests were about.
    pub(crate) fn of(account: &Account, workload: &Workload, database: &str) -> Self {
        let mut names: Vec<&str> = Vec::new();
        for shape in workload.shapes.iter().filter(|shape| shape.database == database) {
            if !names.contains(&shape.container.as_str()) {
                names.push(&shape.container);
            }
        }
        let mut containers: Vec<Arc<Container>> =
            names.iter().filter_map(|name| account.container(database, name).ok()).collect();
        // Views of these too, whether anybody asks them or not.
        let catalog = account.catalog();
        for container in
            catalog.databases.get(database).into_iter().flat_map(|one| one.containers.values())
        {
            let follows = container.view().is_some_and(|view| names.contains(&view.source_name()));
            if follows && !containers.iter().any(|known| known.number == container.number) {
                containers.push(container.clone());
            }
        }
        let mut model = Self::default();
        for container in &containers {
            model.entities.extend(entities(database, container));
        }
        model.links = links(&model.entities, workload);
        model
    }

    /// The entity of a request.
    pub(crate) fn entity(&self, shape: &Shape, kind: Option<&str>) -> Option<usize> {
        let here =
            |entity: &&Entity| entity.database == shape.database && entity.name == shape.container;
        let mut found = self.entities.iter().enumerate().filter(|(_, entity)| here(entity));
        let exact = found.clone().find(|(_, entity)| entity.kind.as_deref() == kind);
        exact
            .or_else(|| found.next().filter(|_| kind.is_none() && found.next().is_none()))
            .map(|(at, _)| at)
    }
}

fn entities(database: &str, container: &Arc<Container>) -> Vec<Entity> {
    let settings = container.settings();
    let items = Live::new(container).sample(SAMPLE_MAX);
    let rule = kind_rule(container);
    let mut by_kind: BTreeMap<Option<String>, Vec<Value>> = BTreeMap::new();
    for item in &items {
        let kind = rule.as_ref().and_then(|rule| rule.kind(item));
        by_kind.entry(kind).or_default().push(without_system(item));
    }
    if by_kind.is_empty() {
        by_kind.insert(None, Vec::new());
    }
    let count = container.document_count() as f64;
    let entity = |(kind, samples): (Option<String>, Vec<Value>)| Entity {
        container: container.clone(),
        database: database.to_owned(),
        name: settings.name.to_string(),
        mark: rule.as_ref().zip(kind.as_deref()).and_then(|(rule, kind)| rule.mark(kind)),
        kind,
        items: count * samples.len() as f64 / items.len().max(1) as f64,
        bytes: samples.iter().map(|item| item.to_json().len() as f64).sum::<f64>()
            / samples.len().max(1) as f64,
        paths: figures(&samples),
        samples,
        key: container.key_definition().paths.iter().map(ToString::to_string).collect(),
        is_view: container.view().is_some(),
    };
    by_kind.into_iter().map(entity).collect()
}

fn figures(items: &[Value]) -> BTreeMap<String, PathFigures> {
    let mut paths: BTreeMap<String, PathFigures> = BTreeMap::new();
    for item in items {
        let mut seen = HashSet::new();
        visit(item, "", 0, &mut |path, value| {
            if is_system(path) || !paths.contains_key(path) && paths.len() >= PATHS_MAX {
                return;
            }
            let figures = paths.entry(path.to_owned()).or_default();
            figures.items += usize::from(seen.insert(path.to_owned()));
            figures.values += 1;
            match value {
                Value::Array(elements) => {
                    let (sum, most, lists) = figures.elements;
                    figures.elements = (sum + elements.len(), most.max(elements.len()), lists + 1);
                }
                Value::Object(_) => figures.is_object = true,
                _ => figures.is_scalar = true,
            }
            if figures.distinct.len() < DISTINCT_MAX && !matches!(value, Value::Array(_)) {
                figures.distinct.insert(value.to_json());
            }
            if let Some(text) = text_of(value)
                && figures.texts.len() < LINK_VALUES_MAX
                && !figures.texts.contains(&text)
            {
                figures.texts.push(text);
            }
        });
    }
    paths
}

/// The share of the written values of a path that were written as ids of another entity, by their sketches.
fn share_sketched(workload: &Workload, from: &Entity, path: &str, to: &Entity) -> Option<f64> {
    let values = |entity: &Entity, path: &str| {
        let owner = (entity.database.clone(), entity.name.clone());
        let kinds = &workload.containers.get(&owner)?.kinds;
        Some(kinds.get(entity.kind.as_deref())?.paths.get(path)?.values.clone())
    };
    values(from, path)?.share_in(&values(to, "/id")?)
}

fn links(entities: &[Entity], workload: &Workload) -> Vec<Link> {
    let mut found = Vec::new();
    for (from, entity) in entities.iter().enumerate().filter(|(_, entity)| !entity.is_view) {
        for (path, figures) in &entity.paths {
            let is_id = path == "/id" || figures.texts.is_empty();
            // A kind or a flag refers to nothing.
            if is_id || !figures.is_scalar || figures.distinct.len() < 2 && entity.samples.len() > 8
            {
                continue;
            }
            for (to, other) in entities.iter().enumerate().filter(|(_, other)| !other.is_view) {
                let sketched = share_sketched(workload, entity, path, other);
                let is_likely = sketched.is_some_and(|share| share >= SKETCHED_SHARE);
                if let Some(share) = share_found(other, &figures.texts, is_likely)
                    && (share >= LINK_SHARE_MIN)
                    && (from != to || path != "/id")
                {
                    found.push(Link { from, path: path.clone(), to, found: share });
                }
            }
        }
    }
    found
}

/// The share of values that are ids of an entity; nothing when there are none to ask for, or the first say that it is none
/// and nothing else makes it likely.
fn share_found(entity: &Entity, values: &[String], is_likely: bool) -> Option<f64> {
    let live = Live::new(&entity.container);
    let is_there = |id: &&String| live.by_id(id).is_some_and(|item| entity.has(&item));
    // Most pairs are none: one miss among the first four ends it.
    let first = values.iter().take(4).filter(is_there).count();
    if values.is_empty() || !is_likely && first * 4 < values.len().min(4) * 3 {
        return None;
    }
    Some(values.iter().filter(is_there).count() as f64 / values.len() as f64)
}
