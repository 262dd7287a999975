//! A model file: what there is, where it is kept in each design, and what is asked of it.
//!
//! The file is TOML. `[[entity]]` says what exists and how much of it, `[[container]]` what is
//! stored about it and under which key, `[[request]]` what each design must do to answer the same
//! question. `docs/lab.md` is the reference; the ready labs are examples.

use super::fields::Field;
use super::template::Template;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The ready labs.
pub(crate) const READY: [(&str, &str); 5] = [
    ("blog", include_str!("../../labs/blog.toml")),
    ("portfolio", include_str!("../../labs/portfolio.toml")),
    ("publisher", include_str!("../../labs/publisher.toml")),
    ("authors", include_str!("../../labs/authors.toml")),
    ("comments", include_str!("../../labs/comments.toml")),
];

/// A model as it is written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Model {
    /// One word; also the database's name.
    pub(crate) name: String,
    /// One line.
    pub(crate) title: String,
    /// What there is to learn from it.
    #[serde(default)]
    pub(crate) about: String,
    /// Where the comparison figures come from.
    #[serde(default)]
    pub(crate) source: Option<String>,
    /// The same seed makes the same data.
    #[serde(default)]
    pub(crate) seed: u64,
    /// Numbers that the command line may change.
    #[serde(default)]
    pub(crate) scale: BTreeMap<String, u64>,
    /// The designs, in the order they are shown.
    pub(crate) designs: Vec<String>,
    #[serde(rename = "entity", default)]
    pub(crate) entities: Vec<Entity>,
    #[serde(rename = "container")]
    pub(crate) containers: Vec<Container>,
    #[serde(rename = "request")]
    pub(crate) requests: Vec<Request>,
}

/// Something that exists, independent of how it is stored.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entity {
    pub(crate) name: String,
    /// The entity it belongs to.
    #[serde(default)]
    pub(crate) per: Option<String>,
    pub(crate) count: Count,
    /// How many the very first owner has: the one that requests ask for.
    #[serde(default)]
    pub(crate) first: Option<u64>,
    /// Other entities it refers to, by a name of its own.
    #[serde(default)]
    pub(crate) pick: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) fields: BTreeMap<String, Field>,
}

/// How many there are.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Count {
    /// This many.
    Exactly(u64),
    /// As many as a number of `[scale]` says.
    Scaled(String),
    /// Between both, evenly.
    Between([u64; 2]),
}

/// A container, and what goes into it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Container {
    pub(crate) name: String,
    /// Path of the partition key.
    pub(crate) key: String,
    /// Physical ranges; one when not said.
    #[serde(default)]
    pub(crate) ranges: Option<u32>,
    /// An indexing policy, as the protocol has it.
    #[serde(default)]
    pub(crate) indexing: Option<serde_json::Value>,
    /// Stored procedures by name.
    #[serde(default)]
    pub(crate) procedures: BTreeMap<String, String>,
    /// Triggers that run after a write, by name.
    #[serde(default)]
    pub(crate) post_triggers: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) items: Vec<Source>,
    /// Items as they are.
    #[serde(default)]
    pub(crate) literal: Vec<serde_json::Map<String, serde_json::Value>>,
    /// The container is a view: the server fills it from another.
    #[serde(default)]
    pub(crate) view: Option<ViewOf>,
}

/// What a view shows.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ViewOf {
    /// Name of a container that comes before it.
    pub(crate) of: String,
    /// The definition, in the words of `views=extended`.
    pub(crate) definition: String,
}

/// Items made of an entity.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Source {
    /// The entity.
    pub(crate) from: String,
    /// What is stored of it.
    pub(crate) item: Template,
    /// Only those with the highest value of a property.
    #[serde(default)]
    pub(crate) highest: Option<Highest>,
}

/// A bound on what is stored: the highest by a property.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Highest {
    pub(crate) by: String,
    pub(crate) count: usize,
}

/// A question that every design answers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    pub(crate) name: String,
    pub(crate) title: String,
    /// Whether it changes data; those run after the others.
    #[serde(default)]
    pub(crate) writes: bool,
    /// The way each design answers it.
    pub(crate) by: BTreeMap<String, Pattern>,
}

/// How one design answers a question.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pattern {
    /// The figures of the source, for comparison.
    #[serde(default)]
    pub(crate) source: Option<Figures>,
    /// The design that does the same.
    #[serde(default)]
    pub(crate) same_as: Option<String>,
    /// Values that the steps share, made anew for every run.
    #[serde(default, rename = "let")]
    pub(crate) shared: BTreeMap<String, Template>,
    #[serde(default)]
    pub(crate) steps: Vec<Step>,
}

/// Figures to compare with.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Figures {
    pub(crate) ms: f64,
    pub(crate) ru: f64,
}

/// One step; exactly one of the verbs is given, as the name of a container (or, for `each`, of rows).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub(crate) struct Step {
    pub(crate) read: Option<String>,
    pub(crate) query: Option<String>,
    pub(crate) create: Option<String>,
    pub(crate) upsert: Option<String>,
    pub(crate) replace: Option<String>,
    pub(crate) execute: Option<String>,
    pub(crate) each: Option<String>,
    /// Partition key value.
    pub(crate) key: Option<Template>,
    pub(crate) id: Option<Template>,
    pub(crate) sql: Option<String>,
    #[serde(default)]
    pub(crate) parameters: BTreeMap<String, Template>,
    pub(crate) item: Option<Template>,
    /// Properties of the item that are set before it is written.
    #[serde(default)]
    pub(crate) change: BTreeMap<String, Template>,
    pub(crate) procedure: Option<String>,
    pub(crate) post_trigger: Option<String>,
    #[serde(default)]
    pub(crate) arguments: Vec<Template>,
    /// The name under which later steps find what came back.
    #[serde(rename = "as")]
    pub(crate) result: Option<String>,
    #[serde(default)]
    pub(crate) steps: Vec<Self>,
}

impl Model {
    /// A ready lab by name, or a file.
    pub(crate) fn find(name: &str) -> Result<Self, String> {
        if let Some((_, text)) = READY.iter().find(|(ready, _)| *ready == name) {
            return Self::parse(text).map_err(|error| format!("the lab '{name}': {error}"));
        }
        let text = std::fs::read_to_string(name).map_err(|error| {
            let ready: Vec<&str> = READY.iter().map(|(name, _)| *name).collect();
            format!(
                "'{name}' is neither a file ({error}) nor one of the ready labs: {}",
                ready.join(", ")
            )
        })?;
        Self::parse(&text).map_err(|error| format!("{name}: {error}"))
    }

    /// Reads and checks a model.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let model: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        model.check().map_err(|problem| problem.located(text))?;
        Ok(model)
    }

    /// The position of an entity.
    pub(crate) fn entity(&self, name: &str) -> Result<usize, String> {
        let found = self.entities.iter().position(|entity| entity.name == name);
        found.ok_or_else(|| format!("there is no entity '{name}'"))
    }

    /// How a design answers, which may be how another does.
    pub(crate) fn pattern<'a>(&self, request: &'a Request, design: &str) -> Option<&'a Pattern> {
        let pattern = request.by.get(design)?;
        match &pattern.same_as {
            Some(other) => request.by.get(other),
            None => Some(pattern),
        }
    }
}
