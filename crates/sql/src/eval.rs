//! Compiled expressions over values.
//!
//! Nothing is copied that can be borrowed: a path into an item evaluates to a reference into it.
//! Type mismatches are never errors, they are `undefined`; the only errors are user functions that
//! fail, scalar sub-queries with more than one row, and the runtime's own interruption.

mod operators;
mod rows;
mod sink;

pub use rows::{VisitRow, Visited, matches_item, order_keys, project, project_group, visit_rows};
pub use sink::{Sink, add_row, compare_keys, finished_slots};

use crate::ast::SubqueryKind;
use crate::compiled::{Compiled, CompiledExpr, PathRef, Step};
use crate::effort::Stopped;
use crate::error::{Result, SqlError};
use crate::functions::Context;
use crate::like::Pattern;
use crate::limits::{COMPUTED_VALUE_MAX, MADE_FOR_ITEM_MAX};
use crate::udf;
use crate::weight;
use armilla_model::{Object, Value};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::ops::ControlFlow;

/// What evaluation needs beside the query and the item.
pub struct Runtime<'r> {
    /// Clock, randomness and settings of the built-in functions.
    pub functions: Context<'r>,
    /// The container's user functions.
    pub users: &'r dyn udf::Functions,
    /// The document number of the item at hand, for `DOCUMENTID`.
    pub document_id: u64,
    /// Rows of FROM and JOIN tested so far, those of sub-queries included.
    pub rows_visited: u64,
    /// Frames entered so far: rows, and what JOINs went through on the way to them.
    frames_entered: u64,
    /// Bytes of strings and elements of arrays that functions made for the item at hand.
    made: usize,
}

/// How many frames go by between two questions whether to stop.
const FRAMES_BETWEEN_INTERRUPTS: u64 = 1024;

impl<'r> Runtime<'r> {
    /// A runtime without user functions that is never interrupted.
    pub fn new(functions: Context<'r>) -> Self {
        let users = &udf::NoFunctions;
        Self { functions, users, document_id: 0, rows_visited: 0, frames_entered: 0, made: 0 }
    }

    /// Counts a frame; `is_row` when no source is left to expand.
    fn count_frame(&mut self, is_row: bool) -> Result<()> {
        self.rows_visited += u64::from(is_row);
        self.frames_entered += 1;
        let effort = &mut self.functions.effort;
        if effort.count_frame().is_err() {
            return Err(effort.check().err().unwrap_or(SqlError::Interrupted));
        }
        if self.frames_entered.is_multiple_of(FRAMES_BETWEEN_INTERRUPTS)
            && (self.functions.effort.interrupted)()
        {
            return Err(SqlError::Interrupted);
        }
        Ok(())
    }

    /// Counts what a function made; all of it may be held at once in the arrays of sub-queries.
    fn count_made(&mut self, value: &Value) -> Result<()> {
        self.made = self.made.saturating_add(match value {
            Value::String(text) => text.len(),
            Value::Array(elements) => elements.len().saturating_mul(size_of::<Value>()),
            _ => return Ok(()),
        });
        if self.made > MADE_FOR_ITEM_MAX {
            return Err(SqlError::refused("The query makes more values of one item than it may."));
        }
        Ok(())
    }
}

/// One value and the frames below it.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'v> {
    parent: Option<&'v Self>,
    value: &'v Value,
}

impl<'v> Frame<'v> {
    /// The bottom frame: the item.
    pub fn item(item: &'v Value) -> Self {
        Self { parent: None, value: item }
    }

    /// A frame on top of another.
    pub fn on(parent: &'v Self, value: &'v Value) -> Self {
        Self { parent: Some(parent), value }
    }

    /// The value of this frame.
    pub fn value(&self) -> &'v Value {
        self.value
    }

    fn down(&self, hops: usize) -> &'v Value {
        let mut frame = *self;
        for _ in 0..hops {
            frame = *frame.parent.expect("the binder counts frames");
        }
        frame.value
    }
}

static UNDEFINED: Value = Value::Undefined;

/// Follows steps into a value.
pub fn walk<'v>(value: &'v Value, steps: &[Step]) -> &'v Value {
    let mut value = value;
    for step in steps {
        let next = match step {
            Step::Member(name) => value.get(name),
            Step::Element(index) => value.as_array().and_then(|elements| elements.get(*index)),
        };
        match next {
            Some(found) => value = found,
            None => return &UNDEFINED,
        }
    }
    value
}

type Evaluated<'v> = Result<Cow<'v, Value>>;

/// Evaluates an expression.
pub fn evaluate<'v>(
    expr: &'v CompiledExpr,
    frame: &'v Frame<'v>,
    runtime: &mut Runtime<'_>,
) -> Evaluated<'v> {
    match expr {
        CompiledExpr::Constant(value) => Ok(Cow::Borrowed(value)),
        CompiledExpr::Path(path) => Ok(Cow::Borrowed(resolve(path, frame))),
        CompiledExpr::Slot(slot) => Ok(Cow::Borrowed(slot_value(frame, *slot))),
        CompiledExpr::Computed { hops, definition, steps, .. } => {
            computed(definition, frame.down(*hops), steps, runtime).map(Cow::Owned)
        }
        CompiledExpr::Member(base, name) => {
            Ok(pick(evaluate(base, frame, runtime)?, |base| base.get(name)))
        }
        CompiledExpr::Index(base, index) => indexed(base, index, frame, runtime),
        CompiledExpr::Array(elements) => array(elements, frame, runtime),
        CompiledExpr::Object(members) => object(members, frame, runtime),
        CompiledExpr::Unary(..) | CompiledExpr::Binary(..) | CompiledExpr::Chain(..) => {
            operators::evaluate(expr, frame, runtime)
        }
        CompiledExpr::Conditional(parts) => {
            let (condition, then, otherwise) = &**parts;
            let picked =
                if truth(condition, frame, runtime)? == Some(true) { then } else { otherwise };
            evaluate(picked, frame, runtime)
        }
        CompiledExpr::Call(..) | CompiledExpr::User(..) => call(expr, frame, runtime),
        CompiledExpr::DocumentId => {
            let id = i64::try_from(runtime.document_id).unwrap_or(i64::MAX);
            Ok(Cow::Owned(Value::from(id)))
        }
        CompiledExpr::Guarded(inner) => guarded(inner, frame, runtime),
        CompiledExpr::Subquery(kind, query) => {
            subquery(*kind, query, frame, runtime).map(Cow::Owned)
        }
        CompiledExpr::And(_)
        | CompiledExpr::Or(_)
        | CompiledExpr::InSet(..)
        | CompiledExpr::In(..)
        | CompiledExpr::Between(_)
        | CompiledExpr::Like(..)
        | CompiledExpr::LikeComputed(..) => {
            let truth = truth(expr, frame, runtime)?;
            Ok(Cow::Owned(truth.map_or(Value::Undefined, Value::Bool)))
        }
    }
}

/// Evaluates a condition: `None` is undefined, or anything that is no boolean.
pub fn truth<'v>(
    expr: &'v CompiledExpr,
    frame: &'v Frame<'v>,
    runtime: &mut Runtime<'_>,
) -> Result<Option<bool>> {
    match expr {
        CompiledExpr::And(parts) => connective(parts, false, frame, runtime),
        CompiledExpr::Or(parts) => connective(parts, true, frame, runtime),
        CompiledExpr::InSet(needle, set) => {
            let needle = evaluate(needle, frame, runtime)?;
            Ok(needle.is_defined().then(|| set.contains(&needle)))
        }
        CompiledExpr::In(needle, list) => in_list(needle, list, frame, runtime),
        CompiledExpr::Between(parts) => between(parts, frame, runtime),
        CompiledExpr::Like(value, pattern) => {
            let value = evaluate(value, frame, runtime)?;
            value.as_str().map(|text| like(pattern, text, runtime)).transpose()
        }
        CompiledExpr::LikeComputed(parts, escape) => {
            let value = evaluate(&parts.0, frame, runtime)?;
            let pattern = evaluate(&parts.1, frame, runtime)?;
            let both = value.as_str().zip(pattern.as_str());
            both.map(|(text, pattern)| like(&Pattern::new(pattern, *escape), text, runtime))
                .transpose()
        }
        CompiledExpr::Unary(..) | CompiledExpr::Binary(..) => {
            operators::truth(expr, frame, runtime)
        }
        _ => Ok(evaluate(expr, frame, runtime)?.as_bool()),
    }
}

fn resolve<'v>(path: &PathRef, frame: &Frame<'v>) -> &'v Value {
    walk(frame.down(path.hops), &path.steps)
}

fn slot_value<'v>(frame: &Frame<'v>, slot: usize) -> &'v Value {
    frame.value.as_array().and_then(|slots| slots.get(slot)).unwrap_or(&UNDEFINED)
}

fn computed(
    definition: &CompiledExpr,
    item: &Value,
    steps: &[Step],
    runtime: &mut Runtime<'_>,
) -> Result<Value> {
    let frame = Frame::item(item);
    let value = evaluate(definition, &frame, runtime)?;
    Ok(walk(&value, steps).clone())
}

/// A part of a value, borrowed when the value is.
fn pick<'v>(
    value: Cow<'v, Value>,
    find: impl for<'a> FnOnce(&'a Value) -> Option<&'a Value>,
) -> Cow<'v, Value> {
    match value {
        Cow::Borrowed(value) => Cow::Borrowed(find(value).unwrap_or(&UNDEFINED)),
        Cow::Owned(value) => Cow::Owned(find(&value).cloned().unwrap_or_default()),
    }
}

fn indexed<'v>(
    base: &'v CompiledExpr,
    index: &'v CompiledExpr,
    frame: &'v Frame<'v>,
    runtime: &mut Runtime<'_>,
) -> Evaluated<'v> {
    let base = evaluate(base, frame, runtime)?;
    let index = evaluate(index, frame, runtime)?;
    Ok(match &*index {
        Value::String(name) => pick(base, |base| base.get(name)),
        Value::Number(number) => {
            let position = number.as_i64().and_then(|position| usize::try_from(position).ok());
            pick(base, |base| base.as_array()?.get(position?))
        }
        _ => Cow::Borrowed(&UNDEFINED),
    })
}

fn array<'v>(
    elements: &'v [CompiledExpr],
    frame: &'v Frame<'v>,
    runtime: &mut Runtime<'_>,
) -> Evaluated<'v> {
    let mut values = Vec::with_capacity(elements.len());
    for element in elements {
        let value = evaluate(element, frame, runtime)?;
        if value.is_defined() {
            values.push(value.into_owned());
        }
    }
    Ok(Cow::Owned(Value::array(values)))
}

fn object<'v>(
    members: &'v [(crate::ast::Name, CompiledExpr)],
    frame: &'v Frame<'v>,
    runtime: &mut Runtime<'_>,
) -> Evaluated<'v> {
    Ok(Cow::Owned(build_object(members, frame, runtime)?))
}

/// An object of the defined members.
fn build_object<'v>(
    members: &'v [(crate::ast::Name, CompiledExpr)],
    frame: &'v Frame<'v>,
    runtime: &mut Runtime<'_>,
) -> Result<Value> {
    let mut values = Vec::with_capacity(members.len());
    for (name, expr) in members {
        let value = evaluate(expr, frame, runtime)?;
        if value.is_defined() {
            values.push((name.clone(), value.into_owned()));
        }
    }
    Ok(Value::object(Object::from_unique(values)))
}

fn connective<'v>(
    parts: &'v [CompiledExpr],
    decisive: bool,
    frame: &'v Frame<'v>,
    runtime: &mut Runtime<'_>,
) -> Result<Option<bool>> {
    let mut result = Some(!decisive);
    for part in parts {
        match truth(part, frame, runtime)? {
            Some(bool) if bool == decisive => return Ok(Some(decisive)),
            Some(_) => {}
            None => result = None,
        }
    }
    Ok(result)
}

fn in_list<'v>(
    needle: &'v CompiledExpr,
    list: &'v [CompiledExpr],
    frame: &'v Frame<'v>,
    runtime: &mut Runtime<'_>,
) -> Result<Option<bool>> {
    let needle = evaluate(needle, frame, runtime)?;
    if needle.is_undefined() {
        return Ok(None);
    }
    for member in list {
        if *evaluate(member, frame, runtime)? == *needle {
            return Ok(Some(true));
        }
    }
    Ok(Some(false))
}

fn between<'v>(
    parts: &'v (CompiledExpr, CompiledExpr, CompiledExpr),
    frame: &'v Frame<'v>,
    runtime: &mut Runtime<'_>,
) -> Result<Option<bool>> {
    let value = evaluate(&parts.0, frame, runtime)?;
    let low = evaluate(&parts.1, frame, runtime)?;
    let high = evaluate(&parts.2, frame, runtime)?;
    let above = operators::ordering(&value, &low).map(|order| order.is_ge());
    let below = operators::ordering(&value, &high).map(|order| order.is_le());
    Ok(operators::and(above, below))
}

fn call<'v>(
    expr: &'v CompiledExpr,
    frame: &'v Frame<'v>,
    runtime: &mut Runtime<'_>,
) -> Evaluated<'v> {
    let (CompiledExpr::Call(_, arguments) | CompiledExpr::User(_, arguments)) = expr else {
        return Ok(Cow::Borrowed(&UNDEFINED));
    };
    let sees_undefined = matches!(expr, CompiledExpr::Call(function, _) if function.sees_undefined);
    let mut values: SmallVec<[Value; 4]> = SmallVec::with_capacity(arguments.len());
    for argument in arguments {
        let value = evaluate(argument, frame, runtime)?;
        if value.is_undefined() && !sees_undefined {
            return Ok(Cow::Borrowed(&UNDEFINED));
        }
        values.push(value.into_owned());
    }
    let effort = &mut runtime.functions.effort;
    effort.begin_call();
    // What fails here is told by the check.
    let _ = effort.count(values.iter().map(size_in_steps).sum::<u64>() + 1);
    effort.check()?;
    let value = match expr {
        CompiledExpr::Call(function, _) => {
            let value = (function.call)(&mut runtime.functions, &values);
            runtime.functions.effort.check()?;
            value
        }
        CompiledExpr::User(name, _) => {
            runtime.users.call(name, &values).map_err(SqlError::Refused)?
        }
        _ => Value::Undefined,
    };
    runtime.count_made(&value)?;
    Ok(Cow::Owned(value))
}

/// What it costs to go through the outermost part of an argument.
fn size_in_steps(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.len() as u64 / 16,
        Value::Array(elements) => elements.len() as u64,
        Value::Object(object) => object.len() as u64,
        _ => 0,
    }
}

fn like(pattern: &Pattern, text: &str, runtime: &mut Runtime<'_>) -> Result<bool> {
    let effort = &mut runtime.functions.effort;
    effort.begin_call();
    match pattern.matches(text, effort) {
        Ok(matched) => Ok(matched),
        Err(Stopped) => Err(effort.check().err().unwrap_or(SqlError::Interrupted)),
    }
}

/// An expression that repeats what it refers to so often that its value may be enormous.
fn guarded<'v>(
    expr: &'v CompiledExpr,
    frame: &'v Frame<'v>,
    runtime: &mut Runtime<'_>,
) -> Evaluated<'v> {
    let value = evaluate(expr, frame, runtime)?;
    check_weight(&value)?;
    Ok(value)
}

/// Refuses a computed value that is too large to be used again: the rows of a query that another
/// query selects from.
pub fn check_weight(value: &Value) -> Result<()> {
    if weight::exceeds(value, COMPUTED_VALUE_MAX) {
        return Err(SqlError::refused("The query makes a value that is larger than it may be."));
    }
    Ok(())
}

fn subquery<'v>(
    kind: SubqueryKind,
    query: &'v Compiled,
    frame: &'v Frame<'v>,
    runtime: &mut Runtime<'_>,
) -> Result<Value> {
    match kind {
        SubqueryKind::Exists => exists(query, frame, runtime).map(Value::Bool),
        SubqueryKind::Array => Ok(Value::array(sink::collect(query, frame, runtime)?)),
        SubqueryKind::First => {
            Ok(sink::collect(query, frame, runtime)?.into_iter().next().unwrap_or_default())
        }
        SubqueryKind::Last => Ok(sink::collect(query, frame, runtime)?.pop().unwrap_or_default()),
        SubqueryKind::All => rows::all_pass(query, frame, runtime).map(Value::Bool),
        SubqueryKind::Scalar => {
            let mut rows = sink::collect(query, frame, runtime)?;
            if rows.len() > 1 {
                return Err(SqlError::refused(
                    "The cardinality of a scalar subquery result set cannot be greater than one.",
                ));
            }
            Ok(rows.pop().unwrap_or_default())
        }
    }
}

fn exists<'v>(
    query: &'v Compiled,
    frame: &'v Frame<'v>,
    runtime: &mut Runtime<'_>,
) -> Result<bool> {
    if !query.is_streaming() || query.window() != (0, u64::MAX) {
        return Ok(!sink::collect(query, frame, runtime)?.is_empty());
    }
    let mut found = false;
    let _stopped = rows::visit(query, frame, runtime, &mut |row, runtime| {
        found = rows::project(query, row, runtime)?.is_some();
        Ok(if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(found)
}
