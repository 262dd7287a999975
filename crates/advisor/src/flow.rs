//! Where the values of a request come from: the flow of data inside an activity.
//!
//! The recorded activities are read again on the live data; a request whose id or parameters stand in what an earlier one
//! brings comes from there, at that path.

use crate::live::{rows_of, text_of, used_values, visit};
use crate::observe::shape::QueryFacts;
use crate::observe::{Asked, Pattern, Shape, Verb, Workload};
use crate::understand::{DataModel, Entity};
use armilla_engine::Account;
use armilla_engine::query::Request;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Requests of one shape that are read again.
const READ_AGAIN_MAX: usize = 12;
/// Requests of one shape in an activity whose values are followed.
const FOLLOWED_MAX: usize = 200;
/// Paths that values may come from together.
const PATHS_TOGETHER_MAX: usize = 3;
/// Share of the requests whose values must come from one place.
const SHARE_MIN: f64 = 0.8;

/// Where a request's values come from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Origin {
    /// The step, by its place in the pattern.
    pub(crate) step: usize,
    /// The path in what it brings.
    pub(crate) path: String,
    /// Further paths, where the values come from several lists.
    pub(crate) more: Vec<String>,
}

impl Origin {
    /// All paths.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.path).chain(&self.more)
    }
}

/// A step of a pattern with all that is known of it. Figures are of one activity.
#[derive(Clone, Debug)]
pub(crate) struct FlowStep {
    pub(crate) shape: Shape,
    pub(crate) times: f64,
    pub(crate) units: f64,
    pub(crate) rows: f64,
    pub(crate) ranges: f64,
    pub(crate) entity: Option<usize>,
    pub(crate) facts: Option<QueryFacts>,
    pub(crate) origin: Option<Origin>,
    /// Some of its requests, as recorded.
    pub(crate) examples: Vec<Asked>,
}

impl FlowStep {
    /// A query that does not name the partition key, and goes to several ranges.
    pub(crate) fn fans_out(&self) -> bool {
        self.shape.verb == Verb::Query
            && !self.shape.keyed
            && self.ranges / self.times.max(1e-9) > 1.5
    }

    /// A recorded query.
    pub(crate) fn request(&self, example: &Asked) -> Option<Request> {
        Request::parse(example.query.as_deref()?.as_bytes()).ok()
    }
}

/// A pattern with the flow of its data.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) times: f64,
    pub(crate) steps: Vec<FlowStep>,
}

impl Flow {
    /// What one activity costs.
    pub(crate) fn units(&self) -> f64 {
        self.steps.iter().map(|step| step.units).sum()
    }
}

/// The flows of all patterns of a database.
pub(crate) fn flows(
    account: &Account,
    workload: &Workload,
    model: &DataModel,
    database: &str,
) -> Vec<Flow> {
    let mut found = Vec::new();
    for pattern in &workload.patterns {
        let here =
            workload.shapes.get(pattern.head).is_some_and(|shape| shape.database == database);
        if here && pattern.times > 0.0 {
            found.push(flow(account, workload, model, pattern));
        }
    }
    found
}

fn flow(account: &Account, workload: &Workload, model: &DataModel, pattern: &Pattern) -> Flow {
    let origins = origins(account, workload, pattern);
    let step = |(at, figures): (usize, &crate::observe::StepFigures)| {
        let shape = workload.shapes.get(figures.shape)?.clone();
        let examples: Vec<Asked> = pattern
            .traces
            .iter()
            .flat_map(|trace| trace.steps.iter().filter(|asked| asked.shape == figures.shape))
            .take(READ_AGAIN_MAX)
            .cloned()
            .collect();
        let text = examples.iter().find_map(|asked| {
            Request::parse(asked.query.as_deref()?.as_bytes()).ok().map(|request| request.text)
        });
        let facts = text.as_deref().and_then(QueryFacts::of);
        let kind = match shape.verb {
            Verb::Query => facts.as_ref().and_then(|facts| kind_asked(model, &shape, facts)),
            Verb::Execute => None,
            _ => shape.kind.clone(),
        };
        let each = 1.0 / pattern.times;
        Some(FlowStep {
            entity: model.entity(&shape, kind.as_deref()),
            times: figures.times * each,
            units: figures.units * each,
            rows: figures.rows * each,
            ranges: figures.ranges * each,
            origin: origins.get(at).cloned().flatten(),
            shape,
            facts,
            examples,
        })
    };
    let steps = pattern.steps.iter().enumerate().filter_map(step).collect();
    Flow { times: pattern.times, steps }
}

/// The kind of items that a query asks for.
fn kind_asked(model: &DataModel, shape: &Shape, facts: &QueryFacts) -> Option<String> {
    let here = model.entities.iter().filter(|entity| {
        entity.database == shape.database && entity.name == shape.container && entity.kind.is_some()
    });
    let mut asked = here.filter_map(|entity| {
        let kind = facts.literal(&entity.kind_path()?)?;
        (entity.kind.as_deref() == Some(kind)).then(|| kind.to_owned())
    });
    asked.next().or_else(|| kind_named(model, shape, facts))
}

/// The kind of items that a query asks for by what only they have.
fn kind_named(model: &DataModel, shape: &Shape, facts: &QueryFacts) -> Option<String> {
    let has_all = |entity: &&Entity| {
        entity.mark.is_some()
            && entity.database == shape.database
            && entity.name == shape.container
            && facts.named.iter().all(|path| entity.paths.contains_key(path))
    };
    let mut found = model.entities.iter().filter(has_all);
    let entity = found.next()?;
    if found.next().is_some() { None } else { entity.kind.clone() }
}

/// Values by the paths where they stand.
type Places = HashMap<String, HashSet<String>>;

fn origins(account: &Account, workload: &Workload, pattern: &Pattern) -> Vec<Option<Origin>> {
    let count = pattern.steps.len();
    // For each step, for each of its requests: where its values stand.
    let mut sources: Vec<Vec<Sources>> = vec![Vec::new(); count];
    for trace in &pattern.traces {
        let of_step = |at: usize| {
            let shape = pattern.steps.get(at).map(|step| step.shape);
            trace.steps.iter().filter(move |asked| Some(asked.shape) == shape)
        };
        let places: Vec<Places> = (0..count)
            .map(|at| places(account, workload, of_step(at).take(READ_AGAIN_MAX)))
            .collect();
        for (at, sources) in sources.iter_mut().enumerate().skip(1) {
            for asked in of_step(at).take(FOLLOWED_MAX) {
                let used = used_values(asked);
                let mut found = Sources::new();
                for (earlier, places) in places.iter().enumerate().take(at) {
                    let paths = used.iter().filter_map(|value| places.get(value)).flatten();
                    found.extend(paths.map(|path| (earlier, path.clone())));
                }
                sources.push(found);
            }
        }
    }
    sources.iter().enumerate().map(|(at, sources)| origin(at, sources)).collect()
}

/// Steps and paths where the values of one request stand.
type Sources = HashSet<(usize, String)>;

/// The earliest step that most requests take their values from, at one path or at a few together.
fn origin(at: usize, sources: &[Sources]) -> Option<Origin> {
    let needed = ((sources.len() as f64 * SHARE_MIN).ceil() as usize).max(1);
    let mut covers = (0..at).filter_map(|step| {
        let mut left: Vec<&Sources> = sources.iter().collect();
        let mut paths: Vec<String> = Vec::new();
        while paths.len() < PATHS_TOGETHER_MAX && sources.len() - left.len() < needed {
            let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
            for (_, path) in
                left.iter().flat_map(|one| one.iter()).filter(|(from, _)| *from == step)
            {
                *votes.entry(path).or_default() += 1;
            }
            // Of equals the id says most, then the shortest path.
            let rank = |(path, count): &(&str, usize)| {
                (std::cmp::Reverse(*count), *path != "/id", path.len())
            };
            let path = votes.into_iter().min_by_key(rank)?.0.to_owned();
            left.retain(|one| !one.contains(&(step, path.clone())));
            paths.push(path);
        }
        (sources.len() - left.len() >= needed).then_some((step, paths))
    });
    let mut found: Option<(usize, Vec<String>)> = covers.next();
    for (step, paths) in covers {
        if found.as_ref().is_none_or(|(_, known)| paths.len() < known.len()) {
            found = Some((step, paths));
        }
    }
    let (step, mut paths) = found?;
    let path = paths.remove(0);
    Some(Origin { step, path, more: paths })
}

fn places<'a>(
    account: &Account,
    workload: &Workload,
    asked: impl Iterator<Item = &'a Asked>,
) -> Places {
    let mut places = Places::new();
    for asked in asked {
        for row in rows_of(account, workload, asked) {
            // A query for single values brings them without a name.
            if let Some(text) = text_of(&row) {
                places.entry(text).or_default().insert("/".to_owned());
            }
            visit(&row, "", 0, &mut |path, value| {
                if let Some(text) = text_of(value) {
                    places.entry(text).or_default().insert(path.to_owned());
                }
            });
        }
    }
    places
}
