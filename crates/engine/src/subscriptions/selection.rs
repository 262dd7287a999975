//! Which entries of the feed are delivered, and as what: operations, a condition, a projection.

use super::definition::FeedMode;
use super::entry::EntryOperation;
use super::members::{Members, refuse};
use crate::query::is_pure;
use armilla_model::error::{Error, Result};
use armilla_model::value::{Object, Value};
use armilla_sql::ast::{Expr, ExprKind, Query, Selection as Select};
use armilla_sql::reference::{Options, run_compiled, with_runtime};
use armilla_sql::{Compiled, Schema, compile, parse};
use std::sync::Arc;

/// What is delivered of a feed.
#[derive(Clone, Debug)]
pub struct Selection {
    operations: Option<Vec<EntryOperation>>,
    condition: Option<(Arc<str>, Arc<Compiled>)>,
    projection: Option<(Arc<str>, Arc<Compiled>)>,
}

/// What becomes of one entry.
#[derive(Clone, Debug, PartialEq)]
pub enum Selected {
    /// It is left out.
    No,
    /// It is delivered as this; nothing for an item that is gone.
    As(Option<Value>),
}

impl Selection {
    pub(super) fn parse(all: &Members<'_>, mode: FeedMode) -> Result<Self> {
        let filter = all.inner("filter")?;
        filter.only(["where", "operations"].iter())?;
        let condition = match filter.word("where")? {
            None => None,
            Some(text) => Some((text.into(), Arc::new(condition(text, mode)?))),
        };
        let projection = match all.word("project")? {
            None => None,
            Some(text) => Some((text.into(), Arc::new(projection(text)?))),
        };
        Ok(Self { operations: operations(&filter, mode)?, condition, projection })
    }

    pub(super) fn show(&self, members: &mut Object) {
        let mut filter = Object::new();
        if let Some((text, _)) = &self.condition {
            filter.insert("where", Value::String(text.clone()));
        }
        if let Some(operations) = &self.operations {
            let words = operations.iter().map(|operation| operation.word().into()).collect();
            filter.insert("operations", Value::array(words));
        }
        if !filter.is_empty() {
            members.insert("filter", Value::object(filter));
        }
        if let Some((text, _)) = &self.projection {
            members.insert("project", Value::String(text.clone()));
        }
    }

    /// Judges an entry: the item after the change and before it, where there is one.
    ///
    /// # Errors
    ///
    /// When condition or projection fail on it.
    pub fn judge(
        &self,
        operation: EntryOperation,
        item: Option<&Value>,
        previous: Option<&Value>,
    ) -> Result<Selected> {
        if self.operations.as_ref().is_some_and(|wanted| !wanted.contains(&operation)) {
            return Ok(Selected::No);
        }
        if let Some((_, condition)) = &self.condition {
            let side = |value: Option<&Value>| {
                Value::array(vec![value.cloned().unwrap_or_else(|| Value::object(Object::new()))])
            };
            let both = Object::of([("c", side(item)), ("previous", side(previous))]);
            if run_on(condition, Value::object(both))?.is_none() {
                return Ok(Selected::No);
            }
        }
        Ok(Selected::As(match (&self.projection, item) {
            (Some((_, projection)), Some(item)) => {
                Some(run_on(projection, item.clone())?.unwrap_or(Value::Null))
            }
            (_, item) => item.cloned(),
        }))
    }
}

/// The first row of a query over one document.
fn run_on(query: &Compiled, document: Value) -> Result<Option<Value>> {
    let schema = Schema::none();
    let rows = with_runtime(Options::bounded(&schema), |runtime| {
        run_compiled(query, vec![document], runtime)
    });
    Ok(rows.map_err(Error::from)?.into_iter().next())
}

fn operations(filter: &Members<'_>, mode: FeedMode) -> Result<Option<Vec<EntryOperation>>> {
    let Some(given) = filter.get("operations") else { return Ok(None) };
    let most = match mode {
        FeedMode::Latest => &EntryOperation::ALL[..2],
        FeedMode::AllVersions => &EntryOperation::ALL[..],
    };
    let known = |value: &Value| {
        let word = value.as_str();
        most.iter().copied().find(|operation| Some(operation.word()) == word)
    };
    let read = given.as_array().filter(|given| !given.is_empty());
    let read: Option<Vec<_>> = read.and_then(|given| given.iter().map(known).collect());
    match read {
        Some(operations) => Ok(Some(operations)),
        None => {
            let words: Vec<_> = most.iter().map(|operation| operation.word()).collect();
            refuse(format!(
                "'filter.operations' is a list of {} (delete and expire need the feed of all versions and deletes).",
                words.join(", ")
            ))
        }
    }
}

/// A condition over the item `c` and, where the feed has it, over the version before, `previous`.
fn condition(text: &str, mode: FeedMode) -> Result<Compiled> {
    let query = match mode {
        FeedMode::Latest => format!("SELECT VALUE 1 FROM r JOIN c IN r.c WHERE {text}"),
        FeedMode::AllVersions => {
            format!("SELECT VALUE 1 FROM r JOIN c IN r.c JOIN previous IN r.previous WHERE {text}")
        }
    };
    let query = parse(&query)?;
    let is_alone = query.filter.is_some()
        && query.group_by.is_empty()
        && query.order_by.is_empty()
        && query.offset_limit.is_none();
    if !is_alone {
        return refuse("'filter.where' is one condition and nothing behind it.");
    }
    check_names(query.filter.iter(), &["c", "previous"], "'filter.where'")?;
    pure(&query, "'filter.where'")
}

fn projection(text: &str) -> Result<Compiled> {
    let query = parse(text)?;
    let is_alone = query.filter.is_none()
        && query.group_by.is_empty()
        && query.order_by.is_empty()
        && query.offset_limit.is_none()
        && query.top.is_none()
        && !query.distinct
        && query.from.len() == 1
        && !query.from.iter().any(|source| source.iterate);
    if !is_alone {
        return refuse(
            "'project' is a list of expressions: SELECT … FROM c, without any other clause.",
        );
    }
    let expressions: Vec<&Expr> = match &query.select {
        Select::Star(_) => Vec::new(),
        Select::Value(expr) => vec![expr],
        Select::List(items) => items.iter().map(|item| &item.expr).collect(),
    };
    if expressions.iter().any(|expr| has_subquery(expr)) {
        return refuse("'project' takes no sub-queries.");
    }
    pure(&query, "'project'")
}

fn check_names<'e>(
    expressions: impl Iterator<Item = &'e Expr>,
    names: &[&str],
    of: &str,
) -> Result<()> {
    for expr in expressions {
        if has_subquery(expr) {
            return refuse(format!("{of} takes no sub-queries."));
        }
        if let Some(name) = unknown_name(expr, names) {
            return refuse(format!("{of} names '{name}'; the item is called 'c'."));
        }
    }
    Ok(())
}

fn has_subquery(expr: &Expr) -> bool {
    let mut found = matches!(expr.kind, ExprKind::Subquery(..));
    expr.for_each_child(&mut |child| found |= has_subquery(child));
    found
}

fn unknown_name(expr: &Expr, names: &[&str]) -> Option<String> {
    if let ExprKind::Identifier(name) = &expr.kind
        && !names.contains(&&**name)
    {
        return Some(name.to_string());
    }
    let mut found = None;
    expr.for_each_child(&mut |child| {
        if found.is_none() {
            found = unknown_name(child, names);
        }
    });
    found
}

fn pure(query: &Query, of: &str) -> Result<Compiled> {
    let compiled = compile(query, &[], &Schema::none())?;
    if !is_pure(&compiled) {
        return refuse(format!(
            "{of} must be determined by the item: user-defined functions and functions of time and chance are not allowed."
        ));
    }
    Ok(compiled)
}
