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
mod rank;

pub(crate) use fold::{fold, is_boolean};
pub(crate) use query::{is_aggregated, output_names};

use crate::aggregate::AggregateKind;
use crate::ast::{self, Name, Query};
use crate::compiled::{Aggregate, Compiled, CompiledExpr};
use crate::error::{Code, Diagnostic, Location, Result, SqlError};
use crate::limits::ERRORS_REPORTED_MAX;
use crate::schema::Schema;
use armilla_model::Value;
use std::collections::{HashMap, HashSet};

/// The parameters of a query: names with their `@`, and values.
pub type Parameters = [(Name, Value)];

/// Parameters that are searched one by one.
const PARAMETERS_SEARCHED_MAX: usize = 16;

/// Compiles a query for a container.
pub fn compile(query: &Query, parameters: &Parameters, schema: &Schema) -> Result<Compiled> {
    compile_for(Purpose::Run, query, parameters, schema)
}

/// What a query is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To run: parameters must have values, and orders must have indexes.
    Run,
    /// To plan: a parameter without a value is undefined, and no index is asked for.
    Plan,
}

pub(crate) fn compile_for(
    purpose: Purpose,
    query: &Query,
    parameters: &Parameters,
    schema: &Schema,
) -> Result<Compiled> {
    let mut binder = Binder::new(parameters, schema);
    binder.purpose = purpose;
    binder.text = query.text.clone();
    let compiled = binder.query(query, Place::Top);
    if !binder.errors.is_empty() {
        binder.errors.sort_by_key(|error| error.code.phase());
        return Err(SqlError::Compile(binder.errors));
    }
    if binder.orders_by_no_path {
        // Only when nothing else is wrong.
        let message = "Unsupported ORDER BY clause. ORDER BY item expression could not be mapped \
                       to a document path.";
        return Err(SqlError::compile(Code::OrderByNotPath, message, Location::default()));
    }
    binder.refusal.map_or(Ok(compiled), |refusal| Err(SqlError::Refused(refusal)))
}

/// Refuses parameters whose names are no names, or are given twice.
pub fn check_parameters(parameters: &Parameters) -> Result<()> {
    let mut seen = std::collections::HashSet::with_capacity(parameters.len());
    for (name, _) in parameters {
        if !crate::lexer::is_parameter(name) {
            return Err(SqlError::refused(format!(
                "Invalid query. Specified parameter name '{name}' is invalid. Parameter names \
                 should be in the format of symbol '@' followed by a valid identifier. E.g. @param1"
            )));
        }
        if !seen.insert(name) {
            let message = format!("Invalid query. Specified duplicate parameter name '{name}'.");
            return Err(SqlError::refused(message));
        }
    }
    Ok(())
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
    /// What of it lies in a document, so that it can be sorted by.
    mapping: Mapping,
    /// It comes from a JOIN.
    joined: bool,
}

impl Binding {
    fn new(name: Option<Name>, depth: usize) -> Self {
        let mapping = Mapping::Document;
        Self { name, depth, is_item: false, hidden: false, lifted: false, mapping, joined: false }
    }
}

/// How the values of a frame lie in documents.
#[derive(Clone, Debug)]
enum Mapping {
    /// As they are.
    Document,
    /// Members that were selected from documents.
    Members(Vec<Name>),
    /// Not at all: they are computed.
    Nowhere,
}

/// What is being bound, for errors that depend on the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clause {
    /// The select list, or anything else.
    Select,
    /// WHERE.
    Where,
    /// ORDER BY of an aggregated query.
    Order,
    /// A query with ORDER BY RANK: nothing may be aggregated.
    Ranked,
}

/// The SELECT list of an aggregated query while it is being bound.
#[derive(Debug)]
struct Grouping {
    keys: Vec<ast::Expr>,
    aggregates: Vec<(ast::Expr, Aggregate)>,
    row_depth: usize,
    bindings_from: usize,
}

/// Names that were written: few are compared one by one, many are hashed.
enum Seen<'n> {
    Few(Vec<&'n Name>),
    Many(HashSet<&'n Name>),
}

impl<'n> Seen<'n> {
    const FEW: usize = 16;

    fn new(count: usize) -> Self {
        if count <= Self::FEW {
            Self::Few(Vec::with_capacity(count))
        } else {
            Self::Many(HashSet::with_capacity(count))
        }
    }

    /// True when the name is new.
    fn insert(&mut self, name: &'n Name) -> bool {
        match self {
            Self::Few(names) => {
                let is_new = !names.contains(&name);
                names.push(name);
                is_new
            }
            Self::Many(names) => names.insert(name),
        }
    }
}

struct Binder<'a> {
    purpose: Purpose,
    text: ast::Text,
    parameters: &'a Parameters,
    /// Where a parameter is, when there are many.
    parameter_places: HashMap<&'a str, usize>,
    schema: &'a Schema,
    bindings: Vec<Binding>,
    depth: usize,
    clause: Clause,
    /// Inside a sub-query.
    nested: bool,
    grouping: Option<Grouping>,
    /// GROUP BY is wrong itself: what is not grouped is not reported.
    groups_are_wrong: bool,
    inside_aggregate: bool,
    /// Inside a constructor or call: the outermost one is guarded for all.
    inside_constructor: bool,
    calls_user_functions: bool,
    multiplies: bool,
    /// Computed properties being expanded: they do not see each other.
    inside_computed: bool,
    errors: Vec<Diagnostic>,
    /// Some ORDER BY key is no path; reported when nothing else is wrong.
    orders_by_no_path: bool,
    refusal: Option<String>,
}

impl<'a> Binder<'a> {
    fn new(parameters: &'a Parameters, schema: &'a Schema) -> Self {
        let mut parameter_places = HashMap::new();
        if parameters.len() > PARAMETERS_SEARCHED_MAX {
            for (place, (name, _)) in parameters.iter().enumerate() {
                parameter_places.entry(&**name).or_insert(place);
            }
        }
        Self {
            purpose: Purpose::Run,
            text: ast::Text::default(),
            parameters,
            parameter_places,
            schema,
            bindings: Vec::new(),
            depth: 0,
            clause: Clause::Select,
            nested: false,
            grouping: None,
            groups_are_wrong: false,
            inside_aggregate: false,
            inside_constructor: false,
            calls_user_functions: false,
            multiplies: false,
            inside_computed: false,
            errors: Vec::new(),
            orders_by_no_path: false,
            refusal: None,
        }
    }

    fn error(&mut self, code: Code, message: impl Into<String>, location: Location) {
        let diagnostic = Diagnostic { code, message: message.into(), location, hint: None };
        let is_new = self.errors.iter().all(|seen| {
            seen.message != diagnostic.message || seen.location.start != diagnostic.location.start
        });
        if is_new && self.errors.len() < ERRORS_REPORTED_MAX {
            self.errors.push(diagnostic);
        }
    }

    /// Reports an error and goes on with undefined.
    fn wrong(
        &mut self,
        code: Code,
        message: impl Into<String>,
        location: Location,
    ) -> CompiledExpr {
        self.error(code, message, location);
        CompiledExpr::UNDEFINED
    }

    fn refuse(&mut self, message: &str) {
        self.refusal.get_or_insert_with(|| message.to_owned());
    }

    /// The innermost binding of a name.
    fn find(&self, name: &str) -> Option<&Binding> {
        self.bindings.iter().rev().find(|binding| binding.name.as_deref() == Some(name))
    }

    fn parameter(&mut self, name: &Name, location: Location) -> Option<Value> {
        let found = match self.parameters {
            few if few.len() <= PARAMETERS_SEARCHED_MAX => {
                few.iter().find(|(known, _)| known == name)
            }
            many => self.parameter_places.get(&**name).and_then(|place| many.get(*place)),
        };
        if found.is_none() && self.purpose == Purpose::Plan {
            return Some(Value::Undefined);
        }
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

/// True when a LET occurs in an expression.
pub(crate) fn contains_let(expr: &ast::Expr) -> bool {
    matches!(expr.kind, ast::ExprKind::Let { .. }) || children(expr).into_iter().any(contains_let)
}

/// True when a name occurs in an expression.
pub(crate) fn contains_reference(expr: &ast::Expr) -> bool {
    matches!(expr.kind, ast::ExprKind::Identifier(_))
        || children(expr).into_iter().any(contains_reference)
}

/// True for a name and steps into it.
pub(crate) fn is_path(expr: &ast::Expr) -> bool {
    match &expr.kind {
        ast::ExprKind::Identifier(_) => true,
        ast::ExprKind::Member(base, _) | ast::ExprKind::Index(base, _) => is_path(base),
        _ => false,
    }
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
