//! The indexing policy: which paths have index entries, and which indexes stand beside them.

use super::{list, refuse, text};
use crate::error::Result;
use crate::limits::{
    COMPOSITE_INDEXES_MAX, COMPOSITE_PATHS_MAX, INDEX_PATHS_MAX, NESTING_MAX, SPATIAL_INDEXES_MAX,
};
use crate::path::{Path, Segment, split_segments};
use crate::value::{Object, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A container's indexing policy.
#[derive(Clone, Debug, Default)]
pub struct IndexingPolicy {
    /// False with mode `none`: items can only be found by id.
    pub enabled: bool,
    /// Included and excluded paths, most specific wins.
    pub paths: PathTree,
    /// Composite indexes, each a sequence of paths with a direction.
    pub composites: Vec<Vec<CompositePath>>,
    /// Spatial indexes.
    pub spatial: Vec<SpatialIndex>,
    /// Paths of vector indexes.
    pub vectors: Vec<Path>,
    /// Paths of full-text indexes.
    pub full_text: Vec<Path>,
    /// Paths that the policy names as included, other than the root. Items without a value there
    /// are still found by ORDER BY.
    pub explicit: Vec<IndexPath>,
}

/// One step of an indexed path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// A property.
    Name(String),
    /// Any element of an array.
    Element,
}

/// A path as the policy writes it, without its ending.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IndexPath {
    /// The steps.
    pub steps: Vec<Step>,
    /// `/*` at the end: everything below; otherwise `/?`, the value itself.
    pub subtree: bool,
}

/// A member of a composite index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompositePath {
    /// Where the value is.
    pub path: Path,
    /// Sorted from large to small.
    pub descending: bool,
}

/// A spatial index.
#[derive(Clone, Debug, PartialEq)]
pub struct SpatialIndex {
    /// Where the shape is.
    pub path: Path,
}

/// Included and excluded paths as a tree, walked along with a document.
#[derive(Clone, Debug, Default)]
pub struct PathTree {
    names: BTreeMap<String, Self>,
    element: Option<Box<Self>>,
    subtree: Option<bool>,
    value: Option<bool>,
}

/// Where a walk along a document stands: the node, if the policy still names anything below, and
/// what holds for everything it does not name.
#[derive(Clone, Copy, Debug)]
pub struct PathCursor<'t> {
    node: Option<&'t PathTree>,
    inherited: bool,
}

impl PathTree {
    /// The root of a walk.
    pub fn root(&self) -> PathCursor<'_> {
        PathCursor { node: Some(self), inherited: self.subtree.unwrap_or(false) }
    }

    fn insert(&mut self, path: &IndexPath, included: bool) -> Result<()> {
        let node = path.steps.iter().fold(self, |node, step| match step {
            Step::Name(name) => node.names.entry(name.clone()).or_default(),
            Step::Element => node.element.get_or_insert_with(Box::default),
        });
        let slot = if path.subtree { &mut node.subtree } else { &mut node.value };
        if slot.is_some_and(|before| before != included) {
            return refuse("A path may not be both included and excluded.");
        }
        *slot = Some(included);
        Ok(())
    }
}

impl<'t> PathCursor<'t> {
    /// The cursor one property further.
    pub fn name(self, name: &str) -> Self {
        self.step(self.node.and_then(|node| node.names.get(name)))
    }

    /// The cursor at the elements of the array it stands on.
    pub fn element(self) -> Self {
        self.step(self.node.and_then(|node| node.element.as_deref()))
    }

    fn step(self, node: Option<&'t PathTree>) -> Self {
        let inherited = node.and_then(|node| node.subtree).unwrap_or(self.inherited);
        Self { node, inherited }
    }

    /// True when the value here is indexed.
    pub fn value_is_indexed(self) -> bool {
        self.node.and_then(|node| node.value).unwrap_or(self.inherited)
    }

    /// False when nothing here or below can be indexed, so the walk may turn back.
    pub fn may_index_below(self) -> bool {
        self.inherited || self.node.is_some()
    }
}

impl IndexingPolicy {
    /// Refuses paths with more steps than an item has levels, before a tree is made of them: it is walked by
    /// recursion.
    pub(super) fn check_depth(value: Option<&Value>) -> Result<()> {
        let Some(value) = value else { return Ok(()) };
        for name in ["includedPaths", "excludedPaths"] {
            let entries = value.get(name).and_then(Value::as_array).unwrap_or_default();
            for path in entries.iter().filter_map(|entry| entry.get("path")?.as_str()) {
                // One more for the end, `?` or `*`.
                if path.matches('/').count() > NESTING_MAX + 1
                    && split_segments(path)?.len() > NESTING_MAX + 1
                {
                    return refuse(format!(
                        "A path of '{name}' has more than {NESTING_MAX} steps, and no item is that deep."
                    ));
                }
            }
        }
        Ok(())
    }

    /// Refuses what is refused to clients only, not in definitions that are stored.
    pub(super) fn check_new(value: Option<&Value>) -> Result<()> {
        let Some(value) = value else { return Ok(()) };
        let spatial = list(value, "spatialIndexes")?;
        if spatial.len() > SPATIAL_INDEXES_MAX {
            return refuse(format!("At most {SPATIAL_INDEXES_MAX} spatial indexes are allowed."));
        }
        for entry in spatial {
            if list(entry, "types")?.is_empty() {
                return refuse(format!(
                    "The spatial data types array cannot be empty. Assign at least one spatial type of {}.",
                    SHAPES.join(", ")
                ));
            }
        }
        Ok(())
    }

    /// Reads a policy, or the default where there is none. Returns the policy and its normalised
    /// form.
    pub fn parse(value: Option<&Value>) -> Result<(Self, Value)> {
        let empty = Value::object(Object::new());
        let value = match value {
            None | Some(Value::Null) => &empty,
            Some(object @ Value::Object(_)) => object,
            Some(other) => {
                return refuse(format!("'indexingPolicy' must be an object, and is {other}."));
            }
        };
        let enabled = mode_is_enabled(value)?;
        let included = paths(value, "includedPaths")?;
        let mut excluded = paths(value, "excludedPaths")?;
        if !(enabled || included.is_empty() && excluded.is_empty()) {
            let names_root = excluded.iter().all(|listed| listed.path.is_root());
            if !names_root || !included.is_empty() {
                return refuse("With indexing mode 'none' no path may be included or excluded.");
            }
        }
        let mut policy = Self { enabled, ..Self::default() };
        let included = with_root(included, &excluded)?;
        if enabled {
            let etag = listed("/\"_etag\"/?")?;
            if !excluded.iter().any(|listed| listed.path == etag.path) {
                excluded.push(etag);
            }
            included.iter().try_for_each(|listed| policy.paths.insert(&listed.path, true))?;
            excluded.iter().try_for_each(|listed| policy.paths.insert(&listed.path, false))?;
            policy.explicit = included
                .iter()
                .map(|listed| listed.path.clone())
                .filter(|path| !path.is_root())
                .collect();
        }
        policy.composites = composites(value)?;
        policy.spatial = spatial(value)?;
        policy.vectors = named_paths(value, "vectorIndexes")?;
        policy.full_text = named_paths(value, "fullTextIndexes")?;
        let normalised = normalise(value, enabled, &included, &excluded);
        Ok((policy, normalised))
    }

    /// A normalised policy without the kinds of index (`indexes`) that clients once gave each path. The
    /// service answers them for containers as old as that, and drops them in all others.
    pub(super) fn without_kinds(normalised: &Value) -> Value {
        let mut policy = normalised.as_object().cloned().unwrap_or_default();
        let path = |entry: &Value| {
            let mut entry = entry.as_object().cloned().unwrap_or_default();
            entry.remove("indexes");
            Value::object(entry)
        };
        for list in ["includedPaths", "excludedPaths"] {
            let paths = policy.get(list).and_then(Value::as_array).unwrap_or_default();
            let paths = paths.iter().map(path).collect();
            policy.insert(list, Value::array(paths));
        }
        Value::object(policy)
    }
}

impl IndexPath {
    /// `/*`.
    pub fn is_root(&self) -> bool {
        self.steps.is_empty() && self.subtree
    }
}

fn mode_is_enabled(value: &Value) -> Result<bool> {
    let automatic = match value.get("automatic") {
        None | Some(Value::Null) => true,
        Some(Value::Bool(automatic)) => *automatic,
        Some(other) => {
            return refuse(format!("'automatic' must be true or false, and is {other}."));
        }
    };
    let mode = match value.get("indexingMode") {
        None | Some(Value::Null) => "consistent".to_owned(),
        Some(Value::String(mode)) => mode.to_ascii_lowercase(),
        Some(other) => return refuse(format!("'indexingMode' must be a string, and is {other}.")),
    };
    match mode.as_str() {
        "consistent" | "lazy" => Ok(true),
        "none" if automatic && value.get("automatic").is_some() => refuse(
            "With indexing mode 'none' the property 'automatic' must be false: nothing is indexed.",
        ),
        "none" => Ok(false),
        other => {
            refuse(format!("The indexing mode '{other}' is not known; use 'consistent' or 'none'."))
        }
    }
}

/// A path of a list, as it was written.
struct Listed {
    path: IndexPath,
    written: Arc<str>,
    /// Kinds and precisions, which only old containers have. They are answered and have no effect.
    indexes: Option<Value>,
}

fn listed(written: &str) -> Result<Listed> {
    Ok(Listed { path: parse_index_path(written)?, written: written.into(), indexes: None })
}

fn paths(value: &Value, name: &str) -> Result<Vec<Listed>> {
    let entries = list(value, name)?;
    if entries.len() > INDEX_PATHS_MAX {
        return refuse(format!("'{name}' may have at most {INDEX_PATHS_MAX} entries."));
    }
    entries
        .iter()
        .map(|entry| {
            let indexes = entry
                .get("indexes")
                .filter(|given| given.as_array().is_some_and(|indexes| !indexes.is_empty()));
            Ok(Listed { indexes: indexes.cloned(), ..listed(text(entry, "path")?)? })
        })
        .collect()
}

/// Where neither list names the root, everything is included, unless paths were listed to be
/// included: then it is not clear what holds for the rest.
fn with_root(mut included: Vec<Listed>, excluded: &[Listed]) -> Result<Vec<Listed>> {
    let named = included.iter().chain(excluded).any(|listed| listed.path.is_root());
    if !named && included.is_empty() {
        included.push(listed("/*")?);
    } else if !named {
        return refuse(
            "The special mandatory indexing path \"/\" is not provided in any of the path type sets. \
             Please provide it in one of the sets: name '/*' in 'includedPaths' or 'excludedPaths'.",
        );
    }
    Ok(included)
}

/// Reads `/a/[]/b/?` and the like. A bare `/` is the old spelling of `/*`.
fn parse_index_path(written: &str) -> Result<IndexPath> {
    if written == "/" {
        return Ok(IndexPath { steps: Vec::new(), subtree: true });
    }
    let mut segments = split_segments(written)?;
    let subtree = match segments.pop() {
        Some(Segment::Bare(end)) if end == "*" => true,
        Some(Segment::Bare(end)) if end == "?" => false,
        _ => {
            return refuse(format!(
                "The indexing path '{written}' must end in '/?' for one value or '/*' for everything below."
            ));
        }
    };
    let step = |segment| match segment {
        Segment::Quoted(name) => Ok(Step::Name(name)),
        Segment::Bare(name) if name == "[]" => Ok(Step::Element),
        Segment::Bare(name) if matches!(name.as_str(), "" | "*" | "?") => {
            refuse(format!("The indexing path '{written}' has a wildcard in its middle."))
        }
        Segment::Bare(name) => Ok(Step::Name(name)),
    };
    Ok(IndexPath { steps: segments.into_iter().map(step).collect::<Result<_>>()?, subtree })
}

fn composites(value: &Value) -> Result<Vec<Vec<CompositePath>>> {
    let indexes = list(value, "compositeIndexes")?;
    if indexes.len() > COMPOSITE_INDEXES_MAX {
        return refuse(format!("At most {COMPOSITE_INDEXES_MAX} composite indexes are allowed."));
    }
    indexes.iter().map(composite).collect()
}

fn composite(index: &Value) -> Result<Vec<CompositePath>> {
    let members = index.as_array().unwrap_or_default();
    if !(2..=COMPOSITE_PATHS_MAX).contains(&members.len()) {
        return refuse(format!("A composite index has 2 to {COMPOSITE_PATHS_MAX} paths."));
    }
    let member = |member: &Value| {
        let order = member.get("order").and_then(Value::as_str).unwrap_or("ascending");
        let descending = match order.to_ascii_lowercase().as_str() {
            "ascending" => false,
            "descending" => true,
            other => {
                return refuse(format!("The order '{other}' is neither ascending nor descending."));
            }
        };
        Ok(CompositePath { path: Path::parse(text(member, "path")?)?, descending })
    };
    members.iter().map(member).collect()
}

/// Shapes that a spatial index may be for.
const SHAPES: [&str; 4] = ["Point", "LineString", "Polygon", "MultiPolygon"];

fn spatial(value: &Value) -> Result<Vec<SpatialIndex>> {
    let index = |entry: &Value| {
        for shape in list(entry, "types")? {
            if !shape.as_str().is_some_and(|shape| SHAPES.contains(&shape)) {
                return refuse(format!(
                    "The spatial type {shape} is not one of {}.",
                    SHAPES.join(", ")
                ));
            }
        }
        let written = text(entry, "path")?;
        let bare = written.strip_suffix("/*").or(written.strip_suffix("/?")).unwrap_or(written);
        Ok(SpatialIndex { path: Path::parse(bare)? })
    };
    list(value, "spatialIndexes")?.iter().map(index).collect()
}

fn named_paths(value: &Value, name: &str) -> Result<Vec<Path>> {
    list(value, name)?.iter().map(|entry| Path::parse(text(entry, "path")?)).collect()
}

fn normalise(value: &Value, enabled: bool, included: &[Listed], excluded: &[Listed]) -> Value {
    // A lazy index is made a consistent one, in the answer too: so does the service, and the Java SDK's suite asks for it.
    let mode = if enabled { "consistent" } else { "none" };
    let automatic = value.get("automatic").and_then(Value::as_bool).unwrap_or(enabled);
    let mut object = Object::new();
    object.insert("indexingMode", mode.into());
    object.insert("automatic", automatic.into());
    let listed = |paths: &[Listed]| {
        let entry = |Listed { path, written, indexes }: &Listed| {
            let written: Arc<str> = if path.is_root() { "/*".into() } else { written.clone() };
            let mut entry = Object::of([("path", Value::String(written))]);
            if let Some(indexes) = indexes {
                entry.insert("indexes", indexes.clone());
            }
            Value::object(entry)
        };
        Value::array(paths.iter().map(entry).collect())
    };
    let nothing = Value::array(Vec::new());
    object.insert("includedPaths", if enabled { listed(included) } else { nothing.clone() });
    object.insert("excludedPaths", if enabled { listed(excluded) } else { nothing });
    if let Some(members) = value.as_object() {
        let others = members.iter().filter(|(name, _)| {
            !matches!(&***name, "indexingMode" | "automatic" | "includedPaths" | "excludedPaths")
        });
        others.for_each(|(name, member)| object.insert(name.clone(), with_orders(name, member)));
    }
    Value::object(object)
}

/// Composite paths are answered with their order, also when it was left to the default.
fn with_orders(name: &str, member: &Value) -> Value {
    if name != "compositeIndexes" {
        return member.clone();
    }
    let path = |path: &Value| {
        let mut object = path.as_object().cloned().unwrap_or_default();
        if !object.contains("order") {
            object.insert("order", "ascending".into());
        }
        Value::object(object)
    };
    let index = |index: &Value| {
        Value::array(index.as_array().unwrap_or_default().iter().map(path).collect())
    };
    Value::array(member.as_array().unwrap_or_default().iter().map(index).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(text: &str) -> Result<(IndexingPolicy, Value)> {
        IndexingPolicy::parse(Some(&crate::json::parse(text.as_bytes()).unwrap()))
    }

    #[test]
    fn a_lazy_index_is_made_a_consistent_one() {
        let (policy, echo) = policy(
            r#"{"automatic":false,"indexingMode":"Lazy","includedPaths":[{"path":"/*","indexes":[{"kind":"Range","dataType":"Number","precision":-1}]}]}"#,
        )
        .unwrap();
        assert!(policy.enabled && policy.paths.root().name("a").value_is_indexed());
        assert_eq!(
            echo.to_json(),
            r#"{"indexingMode":"consistent","automatic":false,"includedPaths":[{"path":"/*","indexes":[{"kind":"Range","dataType":"Number","precision":-1}]}],"excludedPaths":[{"path":"/\"_etag\"/?"}]}"#
        );
    }

    #[test]
    fn nothing_given_means_everything_is_indexed() {
        let (policy, echo) = IndexingPolicy::parse(None).unwrap();
        assert!(policy.paths.root().name("a").name("b").value_is_indexed());
        assert!(!policy.paths.root().name("_etag").value_is_indexed());
        assert_eq!(
            echo.to_json(),
            r#"{"indexingMode":"consistent","automatic":true,"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/\"_etag\"/?"}]}"#
        );
    }

    #[test]
    fn the_most_specific_path_wins() {
        let (policy, _) = policy(
            r#"{"includedPaths":[{"path":"/*"},{"path":"/a/b/?"},{"path":"/tags/[]/name/?"}],
                "excludedPaths":[{"path":"/a/*"},{"path":"/tags/*"}]}"#,
        )
        .unwrap();
        let root = policy.paths.root();
        assert!(root.name("x").value_is_indexed());
        assert!(root.name("a").name("b").value_is_indexed());
        assert!(!root.name("a").name("c").value_is_indexed());
        assert!(root.name("tags").element().name("name").value_is_indexed());
        assert!(!root.name("tags").element().name("other").value_is_indexed());
        assert!(!root.name("a").name("c").may_index_below());
    }

    #[test]
    fn what_is_refused() {
        for text in [
            r#"{"includedPaths":[{"path":"/a/?"}]}"#,
            r#"{"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/*"}]}"#,
            r#"{"includedPaths":[{"path":"a"}]}"#,
            r#"{"indexingMode":"sometimes"}"#,
            r#"{"compositeIndexes":[[{"path":"/a"}]]}"#,
            r#"{"indexingMode":"none","automatic":true}"#,
        ] {
            assert!(policy(text).is_err(), "{text} was accepted");
        }
    }
}
