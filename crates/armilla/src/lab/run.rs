//! A design answers a request: its steps one after the other, counted.

use super::data::Data;
use super::fan_out;
use super::model::{Model, Pattern, Step};
use super::template::{Gaps, Template};
use crate::client::items::{ContainerName, Key, OnConflict};
use crate::client::query::{QueryText, Range, Scope};
use crate::client::{Answer, Client};
use futures_util::stream::{StreamExt as _, TryStreamExt as _, iter};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::{Arc, Mutex};

/// Rows of an `each` that are worked on at once, as an application would.
const ROWS_IN_FLIGHT: usize = 8;

/// Answers requests on a loaded database.
pub(crate) struct Runner {
    client: Client,
    database: String,
    data: Data,
    /// The ranges of each container, known beforehand as an SDK's cache has them.
    ranges: Arc<BTreeMap<String, Vec<Range>>>,
}

/// What a request took.
#[derive(Debug, Default)]
pub(crate) struct Tally(Mutex<Counts>);

/// The counts of a tally.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    pub(crate) requests: u64,
    pub(crate) charge: f64,
    /// Containers and ranges that answered.
    pub(crate) ranges: BTreeSet<(String, String)>,
}

impl Tally {
    /// Counts an answer, refused or not.
    pub(crate) fn count(&self, container: &str, answer: &Answer) {
        let mut counts = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        counts.requests += 1 + u64::from(answer.throttled);
        counts.charge += answer.charge();
        if let Some(range) = answer.header("x-ms-documentdb-partitionkeyrangeid") {
            counts.ranges.insert((container.to_owned(), range.to_owned()));
        }
    }

    /// What was counted.
    pub(crate) fn counts(self) -> Counts {
        self.0.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// What earlier steps found, over the entities that requests ask about.
#[derive(Clone)]
struct Found<'a> {
    data: &'a Data,
    values: BTreeMap<String, Value>,
}

impl Gaps for Found<'_> {
    fn value(&self, path: &[String]) -> Option<Value> {
        match path {
            [new, kind] if new == "new" => fresh(kind),
            [name, below @ ..] => match self.values.get(name) {
                Some(value) => {
                    let mut value = value;
                    for step in below {
                        value = value.get(step)?;
                    }
                    Some(value.clone())
                }
                None => self.data.first().value(path),
            },
            [] => None,
        }
    }

    fn count(&self, entity: &str) -> Option<u64> {
        self.data.first().count(entity)
    }

    fn each(
        &self,
        way: &[String],
        make: &mut dyn FnMut(&dyn Gaps) -> Result<(), String>,
    ) -> Result<(), String> {
        self.data.first().each(way, make)
    }
}

/// A value that is new every time, so that requests that create can be repeated.
fn fresh(kind: &str) -> Option<Value> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).ok()?;
    match kind {
        "guid" => Some(Value::from(super::fields::guid(u64::from_le_bytes(bytes)))),
        _ => None,
    }
}

impl Runner {
    /// A runner for a database that is loaded.
    pub(crate) async fn new(client: &Client, database: &str, data: &Data) -> Result<Self, String> {
        let mut ranges = BTreeMap::new();
        for container in &data.model.containers {
            let name = ContainerName::new(database, &container.name);
            ranges.insert(container.name.clone(), client.ranges(name).await?);
        }
        let (client, data) = (client.clone(), data.clone());
        Ok(Self { client, database: database.to_owned(), data, ranges: Arc::new(ranges) })
    }

    /// How many ranges a container has.
    pub(crate) fn ranges_of(&self, container: &str) -> usize {
        self.ranges.get(container).map_or(0, Vec::len)
    }

    /// The model.
    pub(crate) fn model(&self) -> &Model {
        &self.data.model
    }

    /// Runs the steps of a request once.
    pub(crate) async fn run(&self, pattern: &Pattern) -> Result<Counts, String> {
        let acting = self.acting()?;
        let tally = Tally::default();
        let mut found = Found { data: &self.data, values: BTreeMap::new() };
        for (name, template) in &pattern.shared {
            let value = template.fill(&found)?;
            found.values.insert(name.clone(), value);
        }
        acting.steps(&pattern.steps, &mut found, &tally).await?;
        Ok(tally.counts())
    }

    /// The same runner in an activity of its own, as an application has one for each page that it makes.
    fn acting(&self) -> Result<Self, String> {
        let activity = fresh("guid").ok_or("the system has no random numbers")?;
        let client = self.client.within(activity.as_str().unwrap_or_default());
        let (database, data) = (self.database.clone(), self.data.clone());
        Ok(Self { client, database, data, ranges: self.ranges.clone() })
    }

    fn steps<'a>(
        &'a self,
        steps: &'a [Step],
        found: &'a mut Found<'_>,
        tally: &'a Tally,
    ) -> Pin<Box<dyn Future<Output = Result<(), String>> + 'a>> {
        Box::pin(async move {
            for step in steps {
                if let Some(rows) = &step.each {
                    self.each(rows, step, found, tally).await?;
                    continue;
                }
                let value = self.step(step, found, tally).await?;
                if let Some(name) = &step.result {
                    found.values.insert(name.clone(), value);
                }
            }
            Ok(())
        })
    }

    async fn each(
        &self,
        rows: &str,
        step: &Step,
        found: &Found<'_>,
        tally: &Tally,
    ) -> Result<(), String> {
        let path: Vec<String> = rows.split('.').map(str::to_owned).collect();
        let Some(Value::Array(rows)) = found.value(&path) else {
            return Err(format!("'{rows}' are no rows that a step before has found"));
        };
        let name = step.result.as_deref().unwrap_or("row");
        iter(&rows)
            .map(|row| async move {
                let mut found = found.clone();
                found.values.insert(name.to_owned(), row.clone());
                self.steps(&step.steps, &mut found, tally).await
            })
            .buffer_unordered(ROWS_IN_FLIGHT)
            .try_collect::<Vec<()>>()
            .await?;
        Ok(())
    }

    async fn step(&self, step: &Step, found: &Found<'_>, tally: &Tally) -> Result<Value, String> {
        let verbs =
            [&step.read, &step.query, &step.create, &step.upsert, &step.replace, &step.execute];
        let container = verbs.into_iter().flatten().next().map_or("", String::as_str);
        let name = ContainerName::new(&self.database, container);
        if let Some(sql) = &step.sql {
            return self.query(name, sql, step, found, tally).await;
        }
        let key = filled(&step.key, found)?.ok_or("a step needs its key")?;
        let key = Key::of_values(std::slice::from_ref(&key));
        let answer = if step.read.is_some() {
            self.client.read_item(name, &id(step, found)?, &key).await?
        } else if step.execute.is_some() {
            let arguments: Vec<Value> = step
                .arguments
                .iter()
                .map(|argument| argument.fill(found))
                .collect::<Result<_, _>>()?;
            let procedure = step.procedure.as_deref().unwrap_or_default();
            self.client.execute(name, procedure, &key, &arguments).await?
        } else {
            let item = item(step, found)?;
            if step.replace.is_some() {
                self.client.replace_item(name, &id(step, found)?, &key, item).await?
            } else if let Some(trigger) = &step.post_trigger {
                self.client.create_item_with_trigger(name, &key, trigger, item).await?
            } else {
                let create = step.create.is_some();
                let on_conflict = if create { OnConflict::Refuse } else { OnConflict::Replace };
                self.client.write_item(name, &key, on_conflict, item).await?
            }
        };
        tally.count(container, &answer);
        let answer = answer.success()?;
        if answer.body.is_empty() { Ok(Value::Null) } else { Ok(answer.json()?) }
    }

    async fn query(
        &self,
        container: ContainerName<'_>,
        sql: &str,
        step: &Step,
        found: &Found<'_>,
        tally: &Tally,
    ) -> Result<Value, String> {
        let mut parameters = Vec::with_capacity(step.parameters.len());
        for (name, template) in &step.parameters {
            parameters.push((format!("@{name}"), template.fill(found)?));
        }
        let rows = match filled(&step.key, found)? {
            Some(key) => {
                let key = Key::of_values(std::slice::from_ref(&key));
                let text = QueryText::new(sql, &parameters);
                fan_out::pages(&self.client, container, Scope::Key(&key), &text, None, tally)
                    .await?
            }
            None => {
                let ranges = self.ranges.get(container.container).map_or(&[][..], Vec::as_slice);
                fan_out::query(&self.client, container, ranges, sql, &parameters, tally).await?
            }
        };
        Ok(Value::Array(rows))
    }
}

fn filled(template: &Option<Template>, found: &Found<'_>) -> Result<Option<Value>, String> {
    template.as_ref().map(|template| template.fill(found)).transpose()
}

fn item(step: &Step, found: &Found<'_>) -> Result<String, String> {
    let mut item = filled(&step.item, found)?.ok_or("a write needs its item")?;
    for (name, template) in &step.change {
        item[name.as_str()] = template.fill(found)?;
    }
    Ok(item.to_string())
}

fn id(step: &Step, found: &Found<'_>) -> Result<String, String> {
    match filled(&step.id, found)? {
        Some(Value::String(id)) => Ok(id),
        _ => Err("a step needs its id, as text".to_owned()),
    }
}
