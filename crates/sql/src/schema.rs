//! What a container's definition means to its queries, prepared once per container.

use crate::access::PathStep;
use crate::ast::{self, Collection, FromItem, Name, Selection};
use crate::error::{Result, SqlError};
use crate::functions::{DistanceFunction, VectorSetting};
use armilla_model::path::Path;
use armilla_model::policy::{CompositePath, ContainerPolicy, IndexingPolicy};
use std::sync::Arc;

/// The container as queries see it.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    pub(crate) computed: Vec<Computed>,
    pub(crate) indexing: Option<IndexingPolicy>,
    pub(crate) vectors: Vec<VectorSetting>,
    pub(crate) geometry: bool,
}

/// A computed property: a name, and the expression over the item.
#[derive(Clone, Debug)]
pub(crate) struct Computed {
    pub(crate) name: Name,
    pub(crate) alias: Option<Name>,
    pub(crate) expr: Arc<ast::Expr>,
}

impl Schema {
    /// A container without policies: every order is allowed, nothing is computed. The lists of
    /// databases, containers and offers are such.
    pub fn none() -> Self {
        Self::default()
    }

    /// What the policies of a container say. Computed properties that are no queries of the form
    /// `SELECT VALUE … FROM c` are refused.
    pub fn new(policy: &ContainerPolicy) -> Result<Self> {
        let computed = policy
            .computed
            .iter()
            .map(|property| Computed::parse(&property.name, &property.query))
            .collect::<Result<_>>()?;
        let vectors = policy.vectors.iter().map(|embedding| VectorSetting {
            path: embedding.path.to_string(),
            distance_function: distance_function(&embedding.distance_function),
            dimensions: embedding.dimensions,
        });
        Ok(Self {
            computed,
            indexing: Some(policy.indexing.clone()),
            vectors: vectors.collect(),
            geometry: policy.geometry,
        })
    }

    /// The vector policy, for the context of functions.
    pub fn vectors(&self) -> &[VectorSetting] {
        &self.vectors
    }

    /// True for containers of planar geometry.
    pub fn geometry(&self) -> bool {
        self.geometry
    }

    /// True when the path is indexed, or there is no policy that could say otherwise.
    pub(crate) fn is_indexed(&self, names: &[Name]) -> bool {
        let Some(indexing) = &self.indexing else { return true };
        let cursor = names.iter().fold(indexing.paths.root(), |cursor, name| cursor.name(name));
        let is_always_indexed = names.len() == 1 && &*names[0] == "_ts";
        indexing.enabled && (cursor.value_is_indexed() || is_always_indexed)
    }

    /// True when the values at a path have index entries.
    pub(crate) fn indexes(&self, path: &[PathStep]) -> bool {
        let Some(indexing) = &self.indexing else { return false };
        let cursor = path.iter().fold(indexing.paths.root(), |cursor, step| match step {
            PathStep::Name(name) => cursor.name(name),
            PathStep::Element => cursor.element(),
        });
        indexing.enabled && cursor.value_is_indexed()
    }

    /// True when a composite index begins with these paths, in whatever sequence all but the last
    /// are.
    pub(crate) fn has_composite_over(&self, paths: &[Vec<Name>]) -> bool {
        let Some((last, equal)) = paths.split_last() else { return false };
        let composites = self.indexing.iter().flat_map(|indexing| &indexing.composites);
        composites.into_iter().any(|composite| {
            let Some(head) = composite.get(..paths.len()) else { return false };
            let Some((range, leading)) = head.split_last() else { return false };
            same(&range.path, last)
                && equal.iter().all(|names| leading.iter().any(|part| same(&part.path, names)))
        })
    }

    /// True when a composite index serves an order by these paths: same paths in the same
    /// sequence, all directions equal or all opposite.
    pub(crate) fn has_composite(&self, keys: &[(Vec<Name>, bool)]) -> bool {
        let Some(indexing) = &self.indexing else { return true };
        indexing.composites.iter().any(|composite| {
            let same_paths = composite.len() == keys.len()
                && composite.iter().zip(keys).all(|(part, (names, _))| same(&part.path, names));
            let opposite =
                |pair: &(&CompositePath, &(Vec<Name>, bool))| pair.0.descending != pair.1.1;
            let opposites = composite.iter().zip(keys).filter(opposite).count();
            same_paths && (opposites == 0 || opposites == keys.len())
        })
    }
}

impl Computed {
    fn parse(name: &str, text: &str) -> Result<Self> {
        let query = crate::parser::parse(text)?;
        let malformed = || {
            SqlError::refused(format!(
                "The computed property '{name}' must be a query of the form SELECT VALUE … FROM c."
            ))
        };
        // Names that do not resolve are reported now and not by every query later.
        crate::bind::compile(&query, &[], &Schema::none())?;
        let selects_items = matches!(
            query.from.as_slice(),
            [FromItem { collection: Collection::Path { steps, .. }, iterate: false, .. }]
                if steps.is_empty()
        );
        let plain = selects_items
            && !crate::bind::is_aggregated(&query)
            && query.filter.is_none()
            && query.group_by.is_empty()
            && query.order_by.is_empty()
            && !query.distinct
            && query.top.is_none()
            && query.offset_limit.is_none();
        let alias = query.from.first().and_then(|source| source.effective_alias()).cloned();
        match query.select {
            Selection::Value(expr) if plain && alias.is_some() => {
                Ok(Self { name: name.into(), alias, expr: Arc::new(expr) })
            }
            _ => Err(malformed()),
        }
    }
}

fn distance_function(name: &str) -> DistanceFunction {
    match name.to_ascii_lowercase().as_str() {
        "euclidean" => DistanceFunction::Euclidean,
        "dotproduct" => DistanceFunction::DotProduct,
        _ => DistanceFunction::Cosine,
    }
}

fn same(path: &Path, names: &[Name]) -> bool {
    path.0.len() == names.len() && path.0.iter().zip(names).all(|(left, right)| **left == **right)
}
