//! The syntax tree: what was written, with its places, before any name is resolved.

use crate::error::Location;
use armilla_model::Number;
use std::sync::Arc;

/// A name or text, shared.
pub type Name = Arc<str>;

/// One query or sub-query.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// `DISTINCT` is there.
    pub distinct: bool,
    /// `TOP n`.
    pub top: Option<Count>,
    /// What is selected.
    pub select: Selection,
    /// The sources: the first one, then the JOINs. Empty without FROM.
    pub from: Vec<FromItem>,
    /// `WHERE`.
    pub filter: Option<Expr>,
    /// `GROUP BY`.
    pub group_by: Vec<Expr>,
    /// `ORDER BY`.
    pub order_by: Vec<OrderItem>,
    /// The order is `ORDER BY RANK`.
    pub rank: bool,
    /// `OFFSET n LIMIT m`.
    pub offset_limit: Option<(Count, Count)>,
    /// The whole query.
    pub location: Location,
    /// Where its clauses stand.
    pub places: Places,
    /// What was parsed; empty in sub-queries.
    pub text: Text,
}

/// Where the clauses of a query stand.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Places {
    /// From SELECT up to FROM.
    pub select: Location,
    /// `TOP n`
    pub top: Location,
    /// `GROUP BY …`
    pub group_by: Location,
    /// `ORDER BY …`
    pub order_by: Location,
    /// `OFFSET n LIMIT m`
    pub offset_limit: Location,
}

/// The text a query was parsed from, for messages that quote it. Two of them always compare equal.
#[derive(Clone, Debug, Default)]
pub struct Text(pub Name);

impl PartialEq for Text {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Text {
    /// What stands at a place.
    pub fn at(&self, location: Location) -> Option<String> {
        let (start, end) = (location.start as usize, location.end as usize);
        if self.0.is_ascii() {
            return self.0.get(start..end).map(str::to_owned);
        }
        let units: Vec<u16> = self.0.encode_utf16().skip(start).take(end - start).collect();
        String::from_utf16(&units).ok()
    }
}

/// A row count: a literal or a parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Count {
    /// The number or parameter.
    pub value: CountValue,
    /// Where it stands.
    pub location: Location,
}

/// See [`Count`].
#[derive(Clone, Debug, PartialEq)]
pub enum CountValue {
    /// A number as written.
    Literal(Number),
    /// A parameter, with its `@`.
    Parameter(Name),
}

/// What is selected.
#[derive(Clone, Debug, PartialEq)]
pub enum Selection {
    /// `*`
    Star(Location),
    /// `VALUE e`
    Value(Expr),
    /// `e AS a, …`
    List(Vec<SelectItem>),
}

/// One selected expression.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectItem {
    /// The expression.
    pub expr: Expr,
    /// Its explicit name.
    pub alias: Option<Name>,
}

/// One source of rows.
#[derive(Clone, Debug, PartialEq)]
pub struct FromItem {
    /// Where the rows come from.
    pub collection: Collection,
    /// `alias IN collection`: one row per array element instead of one row.
    pub iterate: bool,
    /// The explicit alias.
    pub alias: Option<Name>,
    /// Where the alias stands, the explicit one or the name it is taken from.
    pub alias_location: Location,
    /// The whole source.
    pub location: Location,
}

/// Where the rows of a source come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Collection {
    /// A name and steps into it.
    Path {
        /// The container or an alias.
        root: Name,
        /// Where that stands.
        root_location: Location,
        /// Steps below it.
        steps: Vec<SourceStep>,
    },
    /// A sub-query.
    Query(Box<Query>),
}

/// One step into a value.
#[derive(Clone, Debug, PartialEq)]
pub enum SourceStep {
    /// A member of an object.
    Member(Name),
    /// An element of an array.
    Element(u64),
}

/// One ORDER BY expression.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderItem {
    /// The expression.
    pub expr: Expr,
    /// `DESC` is there.
    pub descending: bool,
    /// `ASC` or `DESC` is there.
    pub directed: bool,
}

/// A scalar expression and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Where it stands.
    pub location: Location,
}

/// The kinds of expressions.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// `undefined`
    Undefined,
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// A number, never negative.
    Number(Number),
    /// A string.
    String(Name),
    /// A parameter with its `@`.
    Parameter(Name),
    /// A name: an alias of FROM.
    Identifier(Name),
    /// `e.name`; also `e["name"]` with a constant name.
    Member(Box<Expr>, Name),
    /// `e[index]`
    Index(Box<Expr>, Box<Expr>),
    /// `[a, b]`
    Array(Vec<Expr>),
    /// `{a: b}`
    Object(Vec<(Name, Expr)>),
    /// `-e` and the like
    Unary(UnaryOperator, Box<Expr>),
    /// `a + b` and the like
    Binary(BinaryOperator, Box<Expr>, Box<Expr>),
    /// `a + b - c …`: a long chain of operators on one level, from left to right
    Chain(Box<Expr>, Vec<(BinaryOperator, Expr)>),
    /// `(LET name = value IN body)`
    Let {
        /// What the body calls the value.
        name: Name,
        /// The value.
        value: Box<Expr>,
        /// What is made of it.
        body: Box<Expr>,
    },
    /// `a AND b AND c`: two or more
    And(Vec<Expr>),
    /// `a OR b OR c`: two or more
    Or(Vec<Expr>),
    /// `a ? b : c`
    Conditional(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `a [NOT] IN (b, c)`
    In {
        /// What is looked for.
        needle: Box<Expr>,
        /// Where.
        list: Vec<Expr>,
        /// `NOT IN`
        negated: bool,
    },
    /// `a [NOT] BETWEEN b AND c`
    Between {
        /// What is compared.
        value: Box<Expr>,
        /// Lower bound, inclusive.
        low: Box<Expr>,
        /// Upper bound, inclusive.
        high: Box<Expr>,
        /// `NOT BETWEEN`
        negated: bool,
    },
    /// `a [NOT] LIKE b [ESCAPE 'c']`
    Like {
        /// What is matched.
        value: Box<Expr>,
        /// The pattern.
        pattern: Box<Expr>,
        /// The escape character.
        escape: Option<Name>,
        /// `NOT LIKE`
        negated: bool,
    },
    /// A call of a built-in or user function.
    Call {
        /// The name as written.
        name: Name,
        /// `udf.name`
        user: bool,
        /// The arguments.
        arguments: Vec<Expr>,
        /// Where the name stands.
        name_location: Location,
    },
    /// A sub-query as an expression.
    Subquery(SubqueryKind, Box<Query>),
}

/// How the rows of a sub-query become a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubqueryKind {
    /// `(q)`: the only row.
    Scalar,
    /// `EXISTS(q)`
    Exists,
    /// `ARRAY(q)`
    Array,
    /// `ALL(q)`
    All,
    /// `FIRST(q)`
    First,
    /// `LAST(q)`
    Last,
}

/// Prefix operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryOperator {
    /// `-`
    Minus,
    /// `+`
    Plus,
    /// `~`
    BitNot,
    /// `NOT`
    Not,
}

/// Infix operators, but for AND and OR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryOperator {
    /// `??`
    Coalesce,
    /// `||`
    Concat,
    /// `|`
    BitOr,
    /// `^`
    BitXor,
    /// `&`
    BitAnd,
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `<<`
    ShiftLeft,
    /// `>>`
    ShiftRight,
    /// `>>>`
    ShiftRightUnsigned,
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`
    Modulo,
}

impl BinaryOperator {
    /// How it is written.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Coalesce => "??",
            Self::Concat => "||",
            Self::BitOr => "|",
            Self::BitXor => "^",
            Self::BitAnd => "&",
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::ShiftLeft => "<<",
            Self::ShiftRight => ">>",
            Self::ShiftRightUnsigned => ">>>",
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Modulo => "%",
        }
    }
}

impl Expr {
    /// An expression without a place, for texts the planner makes.
    pub fn made(kind: ExprKind) -> Self {
        Self { kind, location: Location::default() }
    }

    /// The name a projection gives this expression when it has no alias: the last name of a
    /// property reference.
    pub fn inferred_name(&self) -> Option<&Name> {
        match &self.kind {
            ExprKind::Identifier(name) | ExprKind::Member(_, name) => Some(name),
            _ => None,
        }
    }

    /// Visits the expressions right below this one, those of sub-queries left out.
    pub fn for_each_child(&self, visit: &mut dyn FnMut(&Self)) {
        match &self.kind {
            ExprKind::Undefined
            | ExprKind::Null
            | ExprKind::Bool(_)
            | ExprKind::Number(_)
            | ExprKind::String(_)
            | ExprKind::Parameter(_)
            | ExprKind::Identifier(_)
            | ExprKind::Subquery(..) => {}
            ExprKind::Member(one, _) | ExprKind::Unary(_, one) => visit(one),
            ExprKind::Index(left, right) | ExprKind::Binary(_, left, right) => {
                visit(left);
                visit(right);
            }
            ExprKind::Array(list) | ExprKind::And(list) | ExprKind::Or(list) => {
                list.iter().for_each(visit);
            }
            ExprKind::Chain(first, rest) => {
                visit(first);
                rest.iter().for_each(|(_, operand)| visit(operand));
            }
            ExprKind::Let { value, body, .. } => {
                visit(value);
                visit(body);
            }
            ExprKind::Call { arguments, .. } => arguments.iter().for_each(visit),
            ExprKind::Object(members) => members.iter().for_each(|(_, member)| visit(member)),
            ExprKind::Conditional(condition, then, otherwise) => {
                [condition, then, otherwise].into_iter().for_each(|part| visit(part));
            }
            ExprKind::In { needle, list, .. } => {
                visit(needle);
                list.iter().for_each(visit);
            }
            ExprKind::Between { value, low, high, .. } => {
                [value, low, high].into_iter().for_each(|part| visit(part));
            }
            ExprKind::Like { value, pattern, .. } => {
                visit(value);
                visit(pattern);
            }
        }
    }
}

impl FromItem {
    /// The alias: the explicit one, or the last name of a path.
    pub fn effective_alias(&self) -> Option<&Name> {
        if self.alias.is_some() {
            return self.alias.as_ref();
        }
        match &self.collection {
            Collection::Path { root, steps, .. } => match steps.last() {
                None => Some(root),
                Some(SourceStep::Member(name)) => Some(name),
                Some(SourceStep::Element(_)) => None,
            },
            Collection::Query(_) => None,
        }
    }
}
