//! Syntax trees to compiled queries.
//!
//! Binding resolves names to frames, fills in parameters, folds constants, finds aggregates and
//! checks everything that can be known without data. Several errors are reported at once: binding
//! goes on with `undefined` where something was wrong.

mod call;
mod checks;
mod expression;
mod fold;
mod order;
mod query;

pub(crate) use fold::is_boolean;
pub(crate) use query::{is_aggregated, output_names};

use crate::aggregate::AggregateKind;
use crate::ast::{self, Name, Query};
use crate::compiled::{Aggregate, Compiled, Expr};
use crate::error::{Code, Diagnostic, Location, Result, SqlError};
use crate::limits::ERRORS_REPORTED_MAX;
use crate::schema::Schema;
use armilla_model::Value;

/// The parameters of a query: names with their `@`, and values.
pub type Parameters = [(Name, Value)];

/// Compiles a query for a container.
pub fn compile(query: &Query, parameters: &Parameters, schema: &Schema) -> Result<Compiled> {
    let mut binder = Binder::new(parameters, schema);
    let compiled = binder.query(query, Place::Top);
    match (binder.refusal, binder.errors) {
        (_, errors) if !errors.is_empty() => Err(SqlError::Compile(errors)),
        (Some(refusal), _) => Err(SqlError::Refused(refusal)),
        _ => Ok(compiled),
    }
}

/// Where a query stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The query itself, or the first source of such: its FROM names the container.
    Top,
    /// A sub-query inside of an item.
    Inner,
}

/// A name in scope.
#[derive(Clone, Debug)]
struct Binding {
    name: Option<Name>,
    /// Which frame, counted from the bottom.
    depth: usize,
    /// The frame is the item itself.
    is_item: bool,
    /// Out of reach behind an aggregation.
    hidden: bool,
    /// The frame is an array whose only element, if any, is the value: that of a LET.
    lifted: bool,
}

/// The SELECT list of an aggregated query while it is being bound.
#[derive(Debug)]
struct Grouping {
    keys: Vec<ast::Expr>,
    aggregates: Vec<(ast::Expr, Aggregate)>,
    row_depth: usize,
    bindings_from: usize,
}

struct Binder<'a> {
    parameters: &'a Parameters,
    schema: &'a Schema,
    bindings: Vec<Binding>,
    depth: usize,
    grouping: Option<Grouping>,
    inside_aggregate: bool,
    /// Inside a constructor or call: the outermost one is guarded for all.
    inside_constructor: bool,
    calls_user_functions: bool,
    multiplies: bool,
    /// Computed properties being expanded: they do not see each other.
    inside_computed: bool,
    errors: Vec<Diagnostic>,
    refusal: Option<String>,
}

impl<'a> Binder<'a> {
    fn new(parameters: &'a Parameters, schema: &'a Schema) -> Self {
        Self {
            parameters,
            schema,
            bindings: Vec::new(),
            depth: 0,
            grouping: None,
            inside_aggregate: false,
            inside_constructor: false,
            calls_user_functions: false,
            multiplies: false,
            inside_computed: false,
            errors: Vec::new(),
            refusal: None,
        }
    }

    fn error(&mut self, code: Code, message: impl Into<String>, location: Location) {
        let diagnostic = Diagnostic { code, message: message.into(), location };
        let is_new = self.errors.iter().all(|seen| {
            seen.message != diagnostic.message || seen.location.start != diagnostic.location.start
        });
        if is_new && self.errors.len() < ERRORS_REPORTED_MAX {
            self.errors.push(diagnostic);
        }
    }

    /// Reports an error and goes on with undefined.
    fn wrong(&mut self, code: Code, message: impl Into<String>, location: Location) -> Expr {
        self.error(code, message, location);
        Expr::UNDEFINED
    }

    fn refuse(&mut self, message: &str) {
        self.refusal.get_or_insert_with(|| message.to_owned());
    }

    /// The innermost binding of a name.
    fn find(&self, name: &str) -> Option<&Binding> {
        self.bindings.iter().rev().find(|binding| binding.name.as_deref() == Some(name))
    }

    fn parameter(&mut self, name: &Name, location: Location) -> Option<Value> {
        let found = self.parameters.iter().find(|(known, _)| known == name);
        if found.is_none() {
            let message = format!("The parameter '{name}' was not supplied.");
            self.error(Code::Parameter, message, location);
        }
        found.map(|(_, value)| value.clone())
    }
}

/// The aggregate a call names, if it is one.
pub(crate) fn aggregate_of(expr: &ast::Expr) -> Option<(AggregateKind, &[ast::Expr])> {
    match &expr.kind {
        ast::ExprKind::Call { name, user: false, arguments, .. } => {
            AggregateKind::lookup(name).map(|kind| (kind, arguments.as_slice()))
        }
        _ => None,
    }
}

/// True when an aggregate occurs in an expression, sub-queries not counted.
pub(crate) fn contains_aggregate(expr: &ast::Expr) -> bool {
    aggregate_of(expr).is_some() || children(expr).into_iter().any(contains_aggregate)
}

/// True when a sub-query occurs in an expression.
pub(crate) fn contains_subquery(expr: &ast::Expr) -> bool {
    matches!(expr.kind, ast::ExprKind::Subquery(..))
        || children(expr).into_iter().any(contains_subquery)
}

/// The operands of an expression; those inside sub-queries are not among them.
pub(crate) fn children(expr: &ast::Expr) -> Vec<&ast::Expr> {
    use ast::ExprKind::*;
    match &expr.kind {
        Undefined | Null | Bool(_) | Number(_) | String(_) | Parameter(_) | Identifier(_)
        | Subquery(..) => Vec::new(),
        Member(base, _) => vec![base],
        Unary(_, operand) => vec![operand],
        Index(left, right) | Binary(_, left, right) => vec![left, right],
        Array(list) | And(list) | Or(list) | Call { arguments: list, .. } => list.iter().collect(),
        Object(members) => members.iter().map(|(_, expr)| expr).collect(),
        Conditional(first, second, third) => vec![first, second, third],
        In { needle, list, .. } => std::iter::once(&**needle).chain(list).collect(),
        Between { value, low, high, .. } => vec![value, low, high],
        Like { value, pattern, .. } => vec![value, pattern],
        Chain(first, rest) => {
            std::iter::once(&**first).chain(rest.iter().map(|(_, operand)| operand)).collect()
        }
        Let { value, body, .. } => vec![value, body],
    }
}
