//! What an index can do for a query: the condition as a tree of tests on paths.
//!
//! [`analyse`] turns WHERE (and what FROM and JOIN imply) into a [`Node`]. The tree describes a set
//! of items that contains every item with a row; an atom that is [`Atom::exact`] describes its
//! predicate exactly, so a tree of exact atoms needs no second look at the items. The language's
//! three-valued logic is respected by asking two questions of every predicate, where it is *true*
//! and where it is *false*; where it is undefined it is in neither set, so `NOT (c.a > 1)` becomes
//! "numbers up to 1" and not a complement.
//!
//! Everything here is plain data. Which slices of which index serve an atom, and at what cost, is
//! the engine's to decide.

mod atoms;
mod functions;
mod metrics;
mod partition;
mod paths;
mod predicate;

pub use metrics::{IndexUsage, index_usage, path_text};
pub use partition::{KeyConstraint, partition_keys, pinned_keys};
pub use paths::{OrderPath, deciding_paths, order_paths, referenced_paths};
pub use predicate::Predicate;

use crate::ast::{Name, SubqueryKind, UnaryOperator};
use crate::compiled::{Compiled, CompiledExpr, Input, PathRef, Projection, Source, Step, ValueSet};
use armilla_model::Value;
use armilla_model::value::Type;
use std::ops::Bound;
use std::sync::Arc;

/// A set of items.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// Every item, for certain.
    All,
    /// No item, for certain.
    Nothing,
    /// Any item may be in the set; only the items themselves tell.
    Unknown,
    /// A test on a path.
    Atom(Atom),
    /// Items in all of these; two or more.
    And(Vec<Self>),
    /// Items in any of these; two or more.
    Or(Vec<Self>),
}

/// Items that have a value at a path which passes a test.
#[derive(Clone, Debug, PartialEq)]
pub struct Atom {
    /// The path from the item; through arrays it names several values, of which one must pass.
    pub path: Vec<PathStep>,
    /// The test.
    pub test: Test,
    /// The first step names a computed property.
    pub computed: bool,
    /// The atom is the predicate: items that pass need not be looked at again.
    pub exact: bool,
}

/// One step of an indexed path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PathStep {
    /// A property.
    Name(Name),
    /// Any element of an array.
    Element,
}

/// A test on the value at a path. All but `NotDefined` and `NotType` need a value there.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// Equal to a scalar.
    Equal(Value),
    /// Any other value than this scalar.
    NotEqual(Value),
    /// Equal to one of these scalars.
    In(ValueSet),
    /// None of these scalars.
    NotIn(ValueSet),
    /// Of this scalar type and between the bounds.
    Range {
        /// The type.
        kind: Type,
        /// The lower bound.
        low: Bound<Value>,
        /// The upper bound.
        high: Bound<Value>,
    },
    /// A string that starts so.
    StartsWith(Arc<str>),
    /// There is a value.
    Defined,
    /// There is no value. Only on paths without array steps.
    NotDefined,
    /// Of one of these types.
    Type(Vec<Type>),
    /// There is no value, or it is of none of these types. Only on paths without array steps.
    NotType(Vec<Type>),
    /// A predicate over the single value: walk the path's values and test each.
    Predicate(Predicate),
    /// A shape near, within or crossing another.
    Spatial(Spatial),
}

/// A test a spatial index can narrow down.
#[derive(Clone, Debug, PartialEq)]
pub enum Spatial {
    /// Closer to the shape than this distance.
    Near {
        /// The shape, as GeoJSON.
        shape: Value,
        /// The distance, in the container's unit.
        distance: f64,
    },
    /// Touching or inside the shape.
    Intersects(Value),
}

/// Analyses the condition of a query over items.
pub fn analyse(query: &Compiled) -> Node {
    let mut scope = Scope::of(query);
    let mut parts: Vec<_> = query.sources.iter().map(|source| scope.source(source)).collect();
    if let Some(filter) = &query.filter {
        parts.push(scope.node(filter, true));
    }
    and(parts)
}

impl Node {
    /// True when the items of the set are exactly those the condition selects.
    pub fn is_exact(&self) -> bool {
        match self {
            Self::All | Self::Nothing => true,
            Self::Unknown => false,
            Self::Atom(atom) => atom.exact,
            Self::And(parts) | Self::Or(parts) => parts.iter().all(Self::is_exact),
        }
    }

    /// Every atom of the tree.
    pub fn atoms(&self) -> Vec<&Atom> {
        match self {
            Self::Atom(atom) => vec![atom],
            Self::And(parts) | Self::Or(parts) => parts.iter().flat_map(Self::atoms).collect(),
            Self::All | Self::Nothing | Self::Unknown => Vec::new(),
        }
    }

    /// The same set, with every atom marked as in need of a second look.
    fn inexact(self) -> Self {
        match self {
            Self::Atom(atom) => Self::Atom(Atom { exact: false, ..atom }),
            Self::And(parts) => Self::And(parts.into_iter().map(Self::inexact).collect()),
            Self::Or(parts) => Self::Or(parts.into_iter().map(Self::inexact).collect()),
            Self::All | Self::Unknown => Self::Unknown,
            Self::Nothing => Self::Nothing,
        }
    }
}

/// Where the frames of a query lie in the item.
#[derive(Clone, Debug)]
struct Scope {
    /// For every frame from the bottom: its path, if it has one.
    frames: Vec<Option<Vec<PathStep>>>,
}

/// A path into the item, found for an expression.
#[derive(Clone, Debug)]
struct Found {
    path: Vec<PathStep>,
    computed: bool,
    /// The path says exactly where the value is: no array was entered on the way.
    precise: bool,
}

impl Scope {
    fn of(query: &Compiled) -> Self {
        let item = matches!(query.input, Input::Items).then(Vec::new);
        Self { frames: vec![item] }
    }

    /// Puts the frame of a source on top and says what the source demands of the item.
    fn source(&mut self, source: &Source) -> Node {
        let (found, node) = match source {
            Source::One(expr) => {
                let found = self.find(expr);
                let node = found.as_ref().map(|found| found.atom(Test::Defined));
                (found.map(|found| found.path), node)
            }
            Source::Each(expr) => {
                let found = self.find(expr).map(|mut found| {
                    found.path.push(PathStep::Element);
                    found
                });
                let node = found.as_ref().map(|found| found.atom(Test::Defined).inexact());
                (found.map(|found| found.path), node)
            }
            Source::Rows(_) | Source::EachOfRows(_) => (None, None),
        };
        self.frames.push(found);
        node.unwrap_or(Node::Unknown)
    }

    /// The place in the item an expression refers to.
    fn find(&self, expr: &CompiledExpr) -> Option<Found> {
        match expr {
            CompiledExpr::Path(path) => self.find_path(path),
            CompiledExpr::Computed { name, hops, steps, .. } => {
                let base = self.frame(*hops)?;
                if !base.is_empty() {
                    return None;
                }
                let mut found = Found {
                    path: vec![PathStep::Name(name.clone())],
                    computed: true,
                    precise: true,
                };
                found.extend(steps);
                Some(found)
            }
            _ => None,
        }
    }

    fn find_path(&self, path: &PathRef) -> Option<Found> {
        let base = self.frame(path.hops)?.clone();
        let precise = !base.contains(&PathStep::Element);
        let mut found = Found { path: base, computed: false, precise };
        found.extend(&path.steps);
        Some(found)
    }

    fn frame(&self, hops: usize) -> Option<&Vec<PathStep>> {
        let depth = self.frames.len().checked_sub(hops + 1)?;
        self.frames.get(depth)?.as_ref()
    }

    /// The items where a predicate is `wanted`.
    fn node(&self, expr: &CompiledExpr, wanted: bool) -> Node {
        match expr {
            CompiledExpr::Constant(value) => match value.as_bool() {
                Some(bool) if bool == wanted => Node::All,
                _ => Node::Nothing,
            },
            CompiledExpr::And(parts) if wanted => and(self.nodes(parts, true)),
            CompiledExpr::And(parts) => or(self.nodes(parts, false)),
            CompiledExpr::Or(parts) if wanted => or(self.nodes(parts, true)),
            CompiledExpr::Or(parts) => and(self.nodes(parts, false)),
            CompiledExpr::Unary(UnaryOperator::Not, operand) => self.node(operand, !wanted),
            CompiledExpr::Path(_) | CompiledExpr::Computed { .. } => match self.find(expr) {
                Some(found) => found.atom(Test::Equal(Value::Bool(wanted))),
                None => Node::Unknown,
            },
            CompiledExpr::Conditional(_)
            | CompiledExpr::User(..)
            | CompiledExpr::DocumentId
            | CompiledExpr::Slot(_) => self.predicate(expr, wanted),
            CompiledExpr::Subquery(SubqueryKind::Exists, query) if wanted => self.exists(query),
            CompiledExpr::Subquery(..) => Node::Unknown,
            _ => self.atom(expr, wanted).unwrap_or_else(|| self.predicate(expr, wanted)),
        }
    }

    fn nodes(&self, parts: &[CompiledExpr], wanted: bool) -> Vec<Node> {
        parts.iter().map(|part| self.node(part, wanted)).collect()
    }

    /// `EXISTS(SELECT … FROM t IN c.path WHERE …)`.
    fn exists(&self, query: &Compiled) -> Node {
        if query.aggregation.is_some() || query.top == Some(0) || query.limit == Some(0) {
            return Node::Unknown;
        }
        let mut inner = self.clone();
        let demanded: Vec<_> = query.sources.iter().map(|source| inner.source(source)).collect();
        let filter = query.filter.as_ref();
        let condition = filter.map_or(Node::All, |filter| inner.node(filter, true));
        // One test of one element is the condition; two tests may be met by two elements.
        let always_yields = match &query.projection {
            Projection::Star | Projection::Object(_) => true,
            Projection::Value(CompiledExpr::Constant(value)) => value.is_defined(),
            Projection::Value(CompiledExpr::Path(path)) => path.steps.is_empty(),
            Projection::Value(_) => false,
        };
        let is_plain = query.sources.len() == 1 && query.offset == 0 && always_yields;
        match condition {
            Node::All if is_plain => element_exact(and(demanded)),
            Node::Atom(atom) if is_plain && self.is_element_test(&inner, &atom) => {
                Node::Atom(Atom { exact: atom.can_be_exact(), ..atom })
            }
            other => and(demanded.into_iter().chain([other]).collect()).inexact(),
        }
    }

    /// True when the atom is below the innermost frame of a sub-query.
    fn is_element_test(&self, inner: &Self, atom: &Atom) -> bool {
        let frame = inner.frames.last().and_then(Option::as_ref);
        frame.is_some_and(|frame| {
            frame.len() <= atom.path.len()
                && *frame == atom.path[..frame.len()]
                && !atom.path[frame.len()..].contains(&PathStep::Element)
        })
    }
}

fn element_exact(node: Node) -> Node {
    match node {
        Node::Atom(atom) => Node::Atom(Atom { exact: atom.can_be_exact(), ..atom }),
        other => other,
    }
}

impl Atom {
    /// Through an array only one array step is allowed for an exact answer, because positions and
    /// elements are no longer told apart below it.
    fn can_be_exact(&self) -> bool {
        let elements = self.path.iter().filter(|step| **step == PathStep::Element).count();
        elements <= 1 && self.test.is_exact_test()
    }
}

impl Test {
    fn is_exact_test(&self) -> bool {
        match self {
            Self::Equal(value) => is_scalar(value),
            Self::Predicate(predicate) => !predicate.non_scalars,
            Self::Spatial(_) => false,
            _ => true,
        }
    }

    fn needs_precise_path(&self) -> bool {
        matches!(self, Self::NotDefined | Self::NotType(_))
    }
}

impl Found {
    fn extend(&mut self, steps: &[Step]) {
        for step in steps {
            match step {
                Step::Member(name) => self.path.push(PathStep::Name(name.clone())),
                Step::Element(_) => {
                    self.path.push(PathStep::Element);
                    self.precise = false;
                }
            }
        }
    }

    fn atom(&self, test: Test) -> Node {
        if test.needs_precise_path() && !self.precise {
            return Node::Unknown;
        }
        // The item itself is always defined and always an object.
        if self.path.is_empty() {
            return Node::Unknown;
        }
        let exact = self.precise && test.is_exact_test();
        Node::Atom(Atom { path: self.path.clone(), test, computed: self.computed, exact })
    }
}

pub(crate) fn is_scalar(value: &Value) -> bool {
    matches!(value, Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_))
}

/// The items in all sets.
fn and(parts: Vec<Node>) -> Node {
    let mut flat = Vec::with_capacity(parts.len());
    for part in parts {
        match part {
            Node::Nothing => return Node::Nothing,
            Node::All => {}
            Node::And(inner) => flat.extend(inner),
            other => flat.push(other),
        }
    }
    let flat = atoms::merge_ranges(flat);
    if flat.contains(&Node::Nothing) {
        return Node::Nothing;
    }
    single(flat, Node::All, Node::And)
}

/// The items in any set.
fn or(parts: Vec<Node>) -> Node {
    let mut flat = Vec::with_capacity(parts.len());
    for part in parts {
        match part {
            Node::All => return Node::All,
            Node::Nothing => {}
            Node::Or(inner) => flat.extend(inner),
            other => flat.push(other),
        }
    }
    let flat = atoms::merge_equals(flat);
    single(flat, Node::Nothing, Node::Or)
}

fn single(mut parts: Vec<Node>, empty: Node, many: fn(Vec<Node>) -> Node) -> Node {
    match parts.len() {
        0 => empty,
        1 => parts.remove(0),
        _ => many(parts),
    }
}
