//! Compiled queries: names resolved, parameters filled in, constants folded.
//!
//! An expression is evaluated against a chain of frames, one value each. The bottom frame (depth 0)
//! is the item; every source of FROM and JOIN puts one frame on top. A name is therefore a number:
//! how many frames to go down ([`PathRef::hops`]). Sub-queries put their frames on top of the frame
//! they are evaluated in. Behind an aggregation there is one frame with an array of the finished
//! keys and aggregates, read by [`CompiledExpr::Slot`].

use crate::aggregate::AggregateKind;
use crate::ast::{BinaryOperator, Name, SubqueryKind, UnaryOperator};
use crate::functions::Function;
use crate::like::Pattern;
use armilla_model::Value;
use std::sync::Arc;

/// A query ready to run.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// What the bottom frame is.
    pub input: Input,
    /// Sources in order; each puts one frame on top.
    pub sources: Vec<Source>,
    /// The condition rows must meet.
    pub filter: Option<CompiledExpr>,
    /// The same condition in parts, each tested as soon as its frames are there: `checks[n]` on top
    /// of `n` sources.
    pub checks: Vec<Option<CompiledExpr>>,
    /// Grouping and aggregates; the projection then reads its slots.
    pub aggregation: Option<Aggregation>,
    /// What becomes of a row.
    pub projection: Projection,
    /// Equal output rows come once.
    pub distinct: bool,
    /// The order of rows.
    pub order: Order,
    /// `TOP`, applied before OFFSET and LIMIT.
    pub top: Option<u64>,
    /// Rows left out at the start.
    pub offset: u64,
    /// Rows at most.
    pub limit: Option<u64>,
    /// The query calls a user function somewhere.
    pub calls_user_functions: bool,
    /// An item may make many more rows than it has elements: by several arrays or by sub-queries.
    pub multiplies: bool,
}

/// What a query starts from.
#[derive(Clone, Debug)]
pub enum Input {
    /// One row without bindings: no FROM, or a sub-query, which starts from the frame around it.
    Single,
    /// Every item of the container.
    Items,
    /// Every output row of another query over the container.
    Query(Box<Compiled>),
}

/// A source of FROM or JOIN below the input.
#[derive(Clone, Debug)]
pub enum Source {
    /// The value, once, if it is defined.
    One(CompiledExpr),
    /// The elements of the value, if it is an array.
    Each(CompiledExpr),
    /// The rows of a sub-query.
    Rows(Box<Compiled>),
    /// The elements of the arrays that a sub-query returns.
    EachOfRows(Box<Compiled>),
}

/// What becomes of a row.
#[derive(Clone, Debug)]
pub enum Projection {
    /// `SELECT *`: the value of the only source.
    Star,
    /// `SELECT VALUE e`: undefined drops the row.
    Value(CompiledExpr),
    /// `SELECT a, b`: undefined members are left out.
    Object(Vec<(Name, CompiledExpr)>),
}

/// GROUP BY and aggregates. Slots are the keys, then the aggregates.
#[derive(Clone, Debug, Default)]
pub struct Aggregation {
    /// The keys; none for one group over everything.
    pub keys: Vec<CompiledExpr>,
    /// What is aggregated, per row.
    pub aggregates: Vec<Aggregate>,
    /// GROUP BY is there: without rows there is no group.
    pub grouped: bool,
    /// The order of the groups: keys over their slots.
    pub order: Vec<OrderKey>,
}

/// One aggregate.
#[derive(Clone, Debug)]
pub struct Aggregate {
    /// Which.
    pub kind: AggregateKind,
    /// Of what.
    pub argument: CompiledExpr,
}

/// The order of rows.
#[derive(Clone, Debug, Default)]
pub enum Order {
    /// None asked for.
    #[default]
    None,
    /// By these keys. A key that a row lacks is undefined: the smallest of all values.
    Keys {
        /// First the most significant.
        keys: Vec<OrderKey>,
    },
    /// By relevance.
    Rank(Rank),
}

/// One ORDER BY key.
#[derive(Clone, Debug)]
pub struct OrderKey {
    /// The key.
    pub expr: CompiledExpr,
    /// From large to small.
    pub descending: bool,
}

/// `ORDER BY RANK`: components ranked each for itself and fused.
#[derive(Clone, Debug)]
pub struct Rank {
    /// The components.
    pub components: Vec<RankComponent>,
    /// One weight per component, or none for equal ones.
    pub weights: Vec<f64>,
}

/// One ranked component.
#[derive(Clone, Debug)]
pub enum RankComponent {
    /// BM25 of terms in a text.
    FullText {
        /// The text, over the item.
        text: CompiledExpr,
        /// The terms.
        terms: Vec<Value>,
    },
    /// Similarity of vectors.
    Vector {
        /// The call of VECTORDISTANCE.
        distance: CompiledExpr,
        /// The best match has the largest value.
        largest_first: bool,
    },
}

/// A reference to a value in a frame and steps into it.
#[derive(Clone, Debug, PartialEq)]
pub struct PathRef {
    /// Frames to go down; 0 is the innermost.
    pub hops: usize,
    /// Steps into the frame's value.
    pub steps: Box<[Step]>,
}

/// One step into a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// A member of an object.
    Member(Name),
    /// An element of an array.
    Element(usize),
}

/// A compiled expression.
#[derive(Clone, Debug)]
pub enum CompiledExpr {
    /// A constant, `undefined` included.
    Constant(Value),
    /// A value in a frame.
    Path(PathRef),
    /// A computed property of the item `hops` frames down, and steps into it.
    Computed {
        /// Its name.
        name: Name,
        /// The frame of the item.
        hops: usize,
        /// The expression, over a single frame with the item.
        definition: Arc<Self>,
        /// Steps into the result.
        steps: Box<[Step]>,
    },
    /// A finished key or aggregate.
    Slot(usize),
    /// A member of a computed value.
    Member(Box<Self>, Name),
    /// A member or element chosen by a computed value.
    Index(Box<Self>, Box<Self>),
    /// An array constructor.
    Array(Vec<Self>),
    /// An object constructor; names are unique.
    Object(Vec<(Name, Self)>),
    /// A prefix operator.
    Unary(UnaryOperator, Box<Self>),
    /// An infix operator.
    Binary(BinaryOperator, Box<Self>, Box<Self>),
    /// A long chain of infix operators on one level, from left to right.
    Chain(Box<Self>, Vec<(BinaryOperator, Self)>),
    /// All of these; one or more.
    And(Vec<Self>),
    /// Any of these; one or more.
    Or(Vec<Self>),
    /// `a ? b : c`
    Conditional(Box<(Self, Self, Self)>),
    /// `a IN (…)` of constants.
    InSet(Box<Self>, ValueSet),
    /// `a IN (…)`.
    In(Box<Self>, Vec<Self>),
    /// `a BETWEEN b AND c`.
    Between(Box<(Self, Self, Self)>),
    /// `a LIKE 'pattern'`.
    Like(Box<Self>, Pattern),
    /// `a LIKE b` with a computed pattern.
    LikeComputed(Box<(Self, Self)>, Option<char>),
    /// A built-in function.
    Call(&'static Function, Vec<Self>),
    /// A user function.
    User(Name, Vec<Self>),
    /// The document number of the item.
    DocumentId,
    /// An expression whose value is checked for its size.
    Guarded(Box<Self>),
    /// A sub-query.
    Subquery(SubqueryKind, Box<Compiled>),
}

/// A set of constants, sorted in the order of values.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueSet(Vec<Value>);

impl ValueSet {
    /// The set of these values; undefined ones and NaN equal nothing and are left out.
    pub fn new(mut values: Vec<Value>) -> Self {
        values.retain(|value| value.is_defined() && equals_itself(value));
        values.sort_by(Value::order);
        values.dedup();
        Self(values)
    }

    /// True when an equal value is in the set.
    pub fn contains(&self, value: &Value) -> bool {
        self.0.binary_search_by(|probe| probe.order(value)).is_ok()
    }

    /// The values in order.
    pub fn values(&self) -> &[Value] {
        &self.0
    }
}

/// False for NaN and what holds one.
#[expect(clippy::eq_op, reason = "NaN is not equal to itself")]
fn equals_itself(value: &Value) -> bool {
    value == value
}

impl CompiledExpr {
    /// The constant `undefined`.
    pub const UNDEFINED: Self = Self::Constant(Value::Undefined);

    /// The direct operands.
    pub fn operands(&self) -> Vec<&Self> {
        match self {
            Self::Member(base, _)
            | Self::Unary(_, base)
            | Self::InSet(base, _)
            | Self::Like(base, _)
            | Self::Guarded(base) => vec![base],
            Self::Index(left, right) | Self::Binary(_, left, right) => vec![left, right],
            Self::Array(list)
            | Self::And(list)
            | Self::Or(list)
            | Self::Call(_, list)
            | Self::User(_, list) => list.iter().collect(),
            Self::Object(members) => members.iter().map(|(_, expr)| expr).collect(),
            Self::Conditional(parts) | Self::Between(parts) => vec![&parts.0, &parts.1, &parts.2],
            Self::In(needle, list) => std::iter::once(&**needle).chain(list).collect(),
            Self::Chain(first, rest) => {
                std::iter::once(&**first).chain(rest.iter().map(|(_, operand)| operand)).collect()
            }
            Self::LikeComputed(parts, _) => vec![&parts.0, &parts.1],
            Self::Constant(_)
            | Self::Path(_)
            | Self::Computed { .. }
            | Self::Slot(_)
            | Self::DocumentId
            | Self::Subquery(..) => Vec::new(),
        }
    }

    /// The direct operands, to be changed.
    pub(crate) fn operands_mut(&mut self) -> Vec<&mut Self> {
        match self {
            Self::Member(base, _)
            | Self::Unary(_, base)
            | Self::InSet(base, _)
            | Self::Like(base, _)
            | Self::Guarded(base) => vec![base],
            Self::Index(left, right) | Self::Binary(_, left, right) => vec![left, right],
            Self::Array(list)
            | Self::And(list)
            | Self::Or(list)
            | Self::Call(_, list)
            | Self::User(_, list) => list.iter_mut().collect(),
            Self::Object(members) => members.iter_mut().map(|(_, expr)| expr).collect(),
            Self::Conditional(parts) | Self::Between(parts) => {
                vec![&mut parts.0, &mut parts.1, &mut parts.2]
            }
            Self::In(needle, list) => std::iter::once(&mut **needle).chain(list).collect(),
            Self::Chain(first, rest) => std::iter::once(&mut **first)
                .chain(rest.iter_mut().map(|(_, operand)| operand))
                .collect(),
            Self::LikeComputed(parts, _) => vec![&mut parts.0, &mut parts.1],
            Self::Constant(_)
            | Self::Path(_)
            | Self::Computed { .. }
            | Self::Slot(_)
            | Self::DocumentId
            | Self::Subquery(..) => Vec::new(),
        }
    }

    /// The value of a constant expression.
    pub fn constant(&self) -> Option<&Value> {
        if let Self::Constant(value) = self { Some(value) } else { None }
    }
}

impl Compiled {
    /// True when output rows come one by one as items go in: nothing has to be held back.
    pub fn is_streaming(&self) -> bool {
        let input_streams = match &self.input {
            Input::Single | Input::Items => true,
            Input::Query(inner) => inner.is_streaming(),
        };
        input_streams
            && self.aggregation.is_none()
            && !self.distinct
            && matches!(self.order, Order::None)
    }

    /// How many rows may be handed out, after how many are left out.
    pub fn window(&self) -> (u64, u64) {
        let taken = self.limit.unwrap_or(u64::MAX);
        let after_top = self.top.map_or(u64::MAX, |top| top.saturating_sub(self.offset));
        (self.offset, taken.min(after_top))
    }
}
