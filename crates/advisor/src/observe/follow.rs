//! Following clients: which requests are one logical query, and which belong to one activity.
//!
//! A query over several ranges is sent by SDKs to each range, in a form that the server's plan gave it. The plans that
//! clients asked for are remembered, so that such requests are found to be the query that the application wrote.
//! A client whose activity ids are never used twice is followed by its data: a read whose id stands in what an earlier
//! request of the same client brought belongs to that request.

use super::shape::canonical;
use super::workload::{Asked, Shape, StepFigures, Verb, Workload};
use super::{Seen, Weights};
use crate::kinds::KindRule;
use crate::limits::{
    ACTIVITIES_MAX, ACTIVITY_STEPS_MAX, ASKED_BYTES_MAX, CONTAINERS_MAX, OPEN_BYTES_MAX,
    PLANNED_MAX, TRACE_STEPS_MAX,
};
use crate::live::{self, Live};
use armilla_engine::query::{self, Request};
use armilla_engine::{Account, Container};
use armilla_model::json;
use armilla_model::value::Value;
use armilla_sql::plan::PlanKind;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// Items from which on it is known that a container has no kinds.
const KINDS_KNOWN_FROM: u64 = 12;
/// Where an order-by query takes its resume condition.
const RESUME_FILTER: &str = "{documentdb-formattableorderbyquery-filter}";
/// Clients whose habits are remembered.
const AGENTS_MAX: usize = 64;
/// Forms of queries that are remembered.
const FORMS_MAX: usize = 512;
/// Activities of a client that a read may belong to.
const CANDIDATES_MAX: usize = 8;
/// A client is taken to go on with an activity for so long.
const FOLLOWED_MILLIS: u64 = 1_000;
/// Activities of a client that are remembered in the order in which they began.
const BEGUN_MAX: usize = 64;

#[derive(Default)]
pub(super) struct Follower {
    open: HashMap<u64, Activity>,
    /// Texts that plans were asked for, newest last.
    planned: VecDeque<String>,
    /// What the application wrote, by the container and the form that is sent to ranges.
    forms: HashMap<(u32, String), String>,
    /// How items are told apart, by container.
    kinds: HashMap<u32, Option<KindRule>>,
    /// Clients that name one activity for several requests, and those that were not seen to.
    sharing: HashMap<u64, bool>,
    /// The activities that each client began last, oldest first; some have ended.
    begun: HashMap<u64, VecDeque<u64>>,
    fresh: u64,
    /// Canonical texts of queries, by what was sent.
    canonicals: HashMap<String, String>,
    /// Bytes of the requests of open activities.
    open_bytes: usize,
}

struct Activity {
    last_millis: u64,
    /// Nothing when it is not to count.
    weight: Option<f64>,
    steps: Vec<OpenStep>,
    /// Values of what the first request brought, once somebody asked.
    brought: Option<HashSet<String>>,
}

/// A request on its way into an activity.
struct Arrival {
    request: Seen,
    asked: Asked,
    /// The range that answered, where the container has several.
    range: Option<u32>,
    weight: Option<f64>,
}

struct OpenStep {
    figures: StepFigures,
    asked: Asked,
    ranges: Vec<u32>,
}

impl Follower {
    pub(super) fn take(
        &mut self,
        account: &Account,
        workload: &mut Workload,
        request: Seen,
        weights: Weights,
    ) {
        if request.verb == Verb::Plan {
            self.plan(request.query.as_deref());
            return;
        }
        let Some(container) = request.container.and_then(|number| live::by_number(account, number))
        else {
            return;
        };
        // What was refused with a plan is asked again, range by range.
        if request.status == 400 && request.verb == Verb::Query {
            self.plan(request.query.as_deref());
            return;
        }
        if request.status >= 400 && request.status != 404 || request.verb == Verb::Other {
            return;
        }
        if workload.since_millis == 0 {
            workload.since_millis = request.at_millis;
        }
        workload.until_millis = workload.until_millis.max(request.at_millis);
        workload.requests += weights.request;
        workload.units += request.units * weights.request;
        let (shape, asked) = self.shaped(&container, &request);
        let known = shape.clone();
        match workload.shape(shape) {
            Some(shape) => {
                sketch(workload, &known, &request, weights);
                let weight = weights.activity;
                let asked = Asked { shape, ..asked };
                let range = request.range.filter(|_| container.partitions().len() > 1);
                self.join(account, workload, Arrival { request, asked, range, weight });
            }
            None => workload.left_out += 1,
        }
    }

    /// Remembers a text that a plan was asked for.
    fn plan(&mut self, body: Option<&str>) {
        let text =
            body.and_then(|body| Request::parse(body.as_bytes()).ok()).map(|query| query.text);
        if let Some(text) = text.filter(|text| !self.planned.contains(text)) {
            self.planned.push_back(text);
            if self.planned.len() > PLANNED_MAX {
                self.planned.pop_front();
            }
        }
    }

    /// The shape of a request, and the request as it is recorded.
    fn shaped(&mut self, container: &Arc<Container>, request: &Seen) -> (Shape, Asked) {
        let settings = container.settings();
        let mut shape = Shape {
            database: settings.database.to_string(),
            container: settings.name.to_string(),
            verb: request.verb,
            keyed: request.key.is_some(),
            ..Shape::default()
        };
        let short = |text: &String| text.len() <= ASKED_BYTES_MAX;
        let mut asked = Asked {
            key: request.key.clone(),
            item: request.item.clone(),
            units: request.units,
            ..Asked::default()
        };
        match request.verb {
            Verb::Query => {
                let body = request.query.as_deref().unwrap_or_default();
                let (text, original) = self.original(container, body);
                shape.text = self.canonical_of(text);
                asked.query = Some(original).filter(short);
            }
            Verb::Execute => shape.kind = request.item.clone(),
            verb if verb.writes_item() => {
                let item = request.written.as_deref().and_then(|body| json::parse(body).ok());
                let item = item.unwrap_or_default();
                shape.kind = self.kind_of(container, &item);
                let id = item.get("id").and_then(Value::as_str).map(str::to_owned);
                asked.item = asked.item.or(id);
                let body = request.written.as_deref().map(String::from_utf8_lossy);
                // What a procedure would be given is needed whole, however long.
                asked.written = body.map(std::borrow::Cow::into_owned);
            }
            _ => {
                let found = self.kind_rule(container).and_then(|_| {
                    let (key, id) = (request.key.as_deref()?, request.item.as_deref()?);
                    Live::new(container).read(key, id)
                });
                shape.kind = found.and_then(|item| self.kind_of(container, &item));
            }
        }
        (shape, asked)
    }

    /// The canonical form of a query; most are asked again and again.
    fn canonical_of(&mut self, text: String) -> String {
        if self.canonicals.len() >= FORMS_MAX {
            self.canonicals.clear();
        }
        self.canonicals.entry(text).or_insert_with_key(|text| canonical(text)).clone()
    }

    /// The query that the application wrote, and a body with it.
    fn original(&mut self, container: &Arc<Container>, body: &str) -> (String, String) {
        let Ok(request) = Request::parse(body.as_bytes()) else {
            return (String::new(), body.to_owned());
        };
        let sent = request.text.replace(RESUME_FILTER, "true");
        let known = (container.number, sent.clone());
        if !self.forms.contains_key(&known) {
            self.learn(container, &request);
        }
        match self.forms.get(&known) {
            Some(text) if *text != request.text => {
                let parameters = request.parameters.iter().map(|(name, value)| {
                    Value::object(armilla_model::value::Object::of([
                        ("name", (&**name).into()),
                        ("value", value.clone()),
                    ]))
                });
                let body = Value::object(armilla_model::value::Object::of([
                    ("query", text.as_str().into()),
                    ("parameters", Value::array(parameters.collect())),
                ]));
                (text.clone(), body.to_json())
            }
            _ => (request.text, body.to_owned()),
        }
    }

    /// Finds the forms in which the planned queries are sent to the ranges of a container.
    fn learn(&mut self, container: &Arc<Container>, request: &Request) {
        if self.forms.len() >= FORMS_MAX {
            self.forms.clear();
        }
        let sent = request.text.replace(RESUME_FILTER, "true");
        for text in &self.planned {
            let planned = Request { text: text.clone(), ..request.clone() };
            let Ok(plan) = query::plan(container, &planned, None, false) else { continue };
            let PlanKind::Query(info) = &plan.plan.kind else { continue };
            let form = Some(&info.rewritten).filter(|form| !form.is_empty()).unwrap_or(text);
            if form.replace(RESUME_FILTER, "true") == sent {
                self.forms.insert((container.number, sent), text.clone());
                return;
            }
        }
        self.forms.insert((container.number, sent), request.text.clone());
    }

    fn kind_rule(&mut self, container: &Arc<Container>) -> Option<KindRule> {
        if self.kinds.len() >= CONTAINERS_MAX {
            self.kinds.clear();
        }
        // A container that has few items yet may get kinds later.
        let count = container.document_count();
        if count == 0 {
            return None;
        }
        if let Some(known) = self.kinds.get(&container.number) {
            return known.clone();
        }
        let rule = live::kind_rule(container);
        if rule.is_some() || count >= KINDS_KNOWN_FROM {
            self.kinds.insert(container.number, rule.clone());
        }
        rule
    }

    fn kind_of(&mut self, container: &Arc<Container>, item: &Value) -> Option<String> {
        self.kind_rule(container)?.kind(item)
    }

    /// Adds a request to the activity that it belongs to.
    fn join(&mut self, account: &Account, workload: &mut Workload, arrival: Arrival) {
        let Arrival { request, asked, range, weight } = arrival;
        let key = self.activity_of(account, workload, &request, &asked);
        if self.open.len() >= ACTIVITIES_MAX && !self.open.contains_key(&key) {
            self.end_oldest(workload);
        }
        while self.open_bytes + asked.bytes() > OPEN_BYTES_MAX && !self.open.is_empty() {
            self.end_oldest(workload);
        }
        if !self.open.contains_key(&key) {
            self.begin(request.agent, key);
        }
        let at = request.at_millis;
        let activity = self.open.entry(key).or_insert_with(|| Activity {
            last_millis: at,
            weight,
            steps: Vec::new(),
            brought: None,
        });
        activity.last_millis = activity.last_millis.max(at);
        let ranges = request.partitions.max(1) as f64;
        let is_fan_out = request.verb == Verb::Query && request.key.is_none();
        // Pages of a query, and the ranges of one that goes to all, are one step.
        let is_part = |step: &&mut OpenStep| {
            let same = step.asked.shape == asked.shape
                && step.asked.query == asked.query
                && step.asked.key == asked.key;
            let is_next = is_fan_out && range.is_some_and(|range| !step.ranges.contains(&range));
            same && request.verb == Verb::Query && (request.continues || is_next)
        };
        let is_full = activity.steps.len() >= ACTIVITY_STEPS_MAX;
        match activity.steps.iter_mut().rev().find(is_part) {
            Some(step) => {
                step.figures.requests += 1.0;
                step.figures.units += request.units;
                step.figures.rows += request.rows as f64;
                if !request.continues {
                    step.figures.ranges += ranges;
                }
                step.asked.units += request.units;
                step.ranges.extend(range);
            }
            None if !is_full => {
                let is_recorded = activity.steps.len() < TRACE_STEPS_MAX;
                let written = asked.written.filter(|_| is_recorded);
                let asked = Asked { written, ..asked };
                self.open_bytes += asked.bytes();
                activity.steps.push(OpenStep {
                    figures: StepFigures {
                        shape: asked.shape,
                        times: 1.0,
                        requests: 1.0,
                        units: request.units,
                        rows: request.rows as f64,
                        ranges,
                    },
                    asked,
                    ranges: range.into_iter().collect(),
                });
            }
            None => workload.left_out += 1,
        }
    }

    /// The activity that a request belongs to: the one it names, or the one it follows from.
    fn activity_of(
        &mut self,
        account: &Account,
        workload: &Workload,
        request: &Seen,
        asked: &Asked,
    ) -> u64 {
        if request.activity != 0 && self.open.contains_key(&request.activity) {
            if self.sharing.len() < AGENTS_MAX {
                self.sharing.insert(request.agent, true);
            }
            return request.activity;
        }
        let shares = self.sharing.get(&request.agent).copied().unwrap_or(false);
        if !shares && let Some(found) = self.followed(account, workload, request, asked) {
            return found;
        }
        if request.activity != 0 {
            return request.activity;
        }
        self.fresh += 1;
        self.fresh
    }

    /// The activity of the same client whose first request brought what this one asks for.
    fn followed(
        &mut self,
        account: &Account,
        workload: &Workload,
        request: &Seen,
        asked: &Asked,
    ) -> Option<u64> {
        let is_recent =
            |last_millis: u64| request.at_millis.saturating_sub(last_millis) < FOLLOWED_MILLIS;
        let open = &self.open;
        let begun = self.begun.get(&request.agent)?.iter().rev();
        let recent = begun.filter(|key| open.get(key).is_some_and(|it| is_recent(it.last_millis)));
        let known: Vec<u64> = recent.take(CANDIDATES_MAX).copied().collect();
        for key in known {
            let activity = self.open.get_mut(&key)?;
            let head = activity.steps.first()?;
            let is_same = head.asked.shape == asked.shape && head.asked.query == asked.query;
            if request.verb == Verb::Query && request.key.is_none() {
                let unseen = request.range.is_none_or(|range| !head.ranges.contains(&range));
                if is_same && (unseen || request.continues) {
                    return Some(key);
                }
                continue;
            }
            if is_same && asked.query.is_none() {
                continue;
            }
            let brought = activity
                .brought
                .get_or_insert_with(|| live::values_of(account, workload, &head.asked));
            if live::used_values(asked).iter().any(|value| brought.contains(value)) {
                return Some(key);
            }
        }
        None
    }

    /// Remembers that a client began an activity.
    fn begin(&mut self, agent: u64, key: u64) {
        if self.begun.len() >= AGENTS_MAX && !self.begun.contains_key(&agent) {
            self.begun.clear();
        }
        let begun = self.begun.entry(agent).or_default();
        if begun.len() >= BEGUN_MAX {
            begun.pop_front();
        }
        begun.push_back(key);
    }

    /// Ends the activities that were silent for longest.
    fn end_oldest(&mut self, workload: &mut Workload) {
        let oldest = self.open.values().map(|activity| activity.last_millis).min();
        self.end(workload, oldest.unwrap_or(0).saturating_add(1));
    }

    /// Forgets what is under way.
    pub(super) fn forget_open(&mut self) {
        self.open.clear();
        self.begun.clear();
        self.open_bytes = 0;
    }

    /// Adds what is under way to a workload, as if it had ended.
    pub(super) fn add_open(&self, workload: &mut Workload) {
        for activity in self.open.values() {
            if let Some(weight) = activity.weight {
                let steps = activity.steps.iter();
                let steps = steps.map(|step| (step.figures.clone(), step.asked.clone()));
                workload.add(steps.collect(), weight);
            }
        }
    }

    /// Ends activities that were silent since a moment.
    pub(super) fn end(&mut self, workload: &mut Workload, since_millis: u64) {
        let ended: Vec<u64> = self
            .open
            .iter()
            .filter(|(_, activity)| activity.last_millis < since_millis)
            .map(|(key, _)| *key)
            .collect();
        for key in ended {
            let Some(activity) = self.open.remove(&key) else { continue };
            let bytes: usize = activity.steps.iter().map(|step| step.asked.bytes()).sum();
            self.open_bytes = self.open_bytes.saturating_sub(bytes);
            if let Some(weight) = activity.weight {
                let steps = activity.steps.into_iter().map(|step| (step.figures, step.asked));
                workload.add(steps.collect(), weight);
            }
        }
    }
}

/// Takes into the sketches of a container what a request says about its items, its keys and its load.
fn sketch(workload: &mut Workload, shape: &Shape, request: &Seen, weights: Weights) {
    let owner = (shape.database.clone(), shape.container.clone());
    let Some((known, room)) = workload.sketch(&owner) else { return };
    let weight = weights.request;
    known.hours.add(request.at_millis, request.units * weight, request.units * weights.pace);
    if let Some(key) = &request.key {
        known.hot.add(key, weight);
    }
    let parsed = |bytes: &Option<bytes::Bytes>| json::parse(bytes.as_deref()?).ok();
    let kind = shape.kind.as_deref();
    let mut taken = 0;
    match (shape.verb, parsed(&request.written)) {
        (Verb::Patch, Some(body)) => known.kinds.patched(kind, &body, weight),
        (verb, Some(item)) if verb.writes_item() => {
            taken = known.kinds.written(kind, &item, weight, room);
            if let Some(before) = parsed(&request.replaced) {
                known.kinds.replaced(kind, &before, &item, weight);
            }
        }
        _ => {}
    }
    workload.took(&owner, taken);
}
