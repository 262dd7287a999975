//! Raw projection: rows made by copying the stored text of an item, without parsing and writing it again.
//!
//! This is `SELECT *`, and what clients make of it when they merge ranges by themselves: an object
//! of the item, its `_rid` and the values it is ordered by. Of such an item only the few members
//! beside it are read.

use crate::record::Record;
use armilla_model::error::Result;
use armilla_model::json::{Wanted, write_string};
use armilla_model::value::Value;
use armilla_sql::compiled::{Compiled, Expr, Input, Projection, Step};
use armilla_sql::eval::walk;
use bytes::Bytes;
use std::sync::Arc;

/// What a row has beside the item's text.
#[derive(Clone, Debug)]
pub(in crate::query) struct RawProjection {
    /// The row is the text itself.
    is_text: bool,
    /// The members of the item that stand beside it.
    names: Wanted,
}

impl RawProjection {
    /// How the rows of a query are made of texts, if each is one item with something around it.
    pub(in crate::query) fn of(plan: &Compiled) -> Option<Self> {
        let of_items = matches!(plan.input, Input::Items) && plan.sources.is_empty();
        if !of_items || plan.aggregation.is_some() {
            return None;
        }
        let mut needs = Needs { items: 0, names: Vec::new() };
        let simple = match &plan.projection {
            Projection::Star => {
                needs.items = 1;
                true
            }
            Projection::Value(expr) => needs.of(expr),
            Projection::Object(members) => members.iter().all(|(_, expr)| needs.of(expr)),
        };
        let is_text = match &plan.projection {
            Projection::Star => true,
            Projection::Value(Expr::Path(path)) => path.steps.is_empty(),
            _ => false,
        };
        (simple && needs.items == 1).then(|| Self { is_text, names: Wanted::new(needs.names) })
    }

    /// The row of an item.
    pub(in crate::query) fn row(&self, plan: &Compiled, record: &Record) -> Result<Bytes> {
        let text = record.text();
        if self.is_text {
            return Ok(text);
        }
        let members = record.members(&self.names)?;
        let mut out = Vec::with_capacity(text.len() + 256);
        match &plan.projection {
            Projection::Star => out.extend_from_slice(&text),
            // A value that holds the item is defined.
            Projection::Value(expr) => {
                write(expr, &members, &text, &mut out);
            }
            Projection::Object(named) => write_object(named, &members, &text, &mut out),
        }
        Ok(out.into())
    }
}

/// What expressions need of an item.
struct Needs {
    items: usize,
    names: Vec<Arc<str>>,
}

impl Needs {
    /// Adds what an expression needs; false when it does more than copy.
    fn of(&mut self, expr: &Expr) -> bool {
        match expr {
            Expr::Constant(_) => true,
            Expr::Path(path) if path.hops > 0 => false,
            Expr::Path(path) => match path.steps.first() {
                None => {
                    self.items += 1;
                    true
                }
                Some(Step::Member(name)) => {
                    if !self.names.contains(name) {
                        self.names.push(name.clone());
                    }
                    true
                }
                // An item is no array.
                Some(Step::Element(_)) => true,
            },
            Expr::Array(elements) => elements.iter().all(|element| self.of(element)),
            Expr::Object(members) => members.iter().all(|(_, expr)| self.of(expr)),
            _ => false,
        }
    }
}

/// Writes the value of an expression; false when it is undefined.
fn write(expr: &Expr, members: &Value, text: &[u8], out: &mut Vec<u8>) -> bool {
    let value = match expr {
        Expr::Constant(value) => value,
        Expr::Path(path) if path.steps.is_empty() => {
            out.extend_from_slice(text);
            return true;
        }
        Expr::Path(path) => walk(members, &path.steps),
        Expr::Array(elements) => {
            out.push(b'[');
            for element in elements {
                let before = out.len();
                separate(out, b'[');
                if !write(element, members, text, out) {
                    out.truncate(before);
                }
            }
            out.push(b']');
            return true;
        }
        Expr::Object(named) => {
            write_object(named, members, text, out);
            return true;
        }
        _ => return false,
    };
    if value.is_defined() {
        value.write_json(out);
    }
    value.is_defined()
}

fn write_object(named: &[(Arc<str>, Expr)], members: &Value, text: &[u8], out: &mut Vec<u8>) {
    out.push(b'{');
    for (name, expr) in named {
        let before = out.len();
        separate(out, b'{');
        write_string(name, out);
        out.push(b':');
        if !write(expr, members, text, out) {
            out.truncate(before);
        }
    }
    out.push(b'}');
}

/// Writes a comma, unless the bracket is just opened.
fn separate(out: &mut Vec<u8>, bracket: u8) {
    if out.last() != Some(&bracket) {
        out.push(b',');
    }
}
