//! Raw projection: rows made by copying the stored text of an item, without parsing and writing it again.
//!
//! This is `SELECT *`, and what clients make of it when they merge ranges by themselves: an object
//! of the item, its `_rid` and the values it is ordered by. Of such an item only the few members
//! beside it are looked for, and copied too where they are written as a row writes them.

use crate::record::{Record, not_json};
use armilla_model::error::Result;
use armilla_model::json::{self, MemberTexts, Wanted, write_string};
use armilla_sql::compiled::{Compiled, CompiledExpr, Input, Projection, Step};
use armilla_sql::eval::walk;
use bytes::Bytes;
use std::sync::Arc;

/// What a row has beside the item's text.
#[derive(Clone, Debug)]
pub(in crate::query) struct RawProjection {
    row: RowPiece,
    /// The members of the item that stand beside it.
    names: Wanted,
}

/// A piece of a row.
#[derive(Clone, Debug)]
enum RowPiece {
    /// The item's text.
    Item,
    /// This text in every row.
    Constant(Box<[u8]>),
    Undefined,
    /// A member of the item, by the number of its name, and the way from it to the value.
    Member(usize, Vec<Step>),
    Array(Vec<Self>),
    /// Each piece behind its name, quoted and with its colon.
    Object(Vec<(Box<[u8]>, Self)>),
}

impl RawProjection {
    /// How the rows of a query are made of texts, if each is one item with something around it.
    pub(in crate::query) fn of(plan: &Compiled) -> Option<Self> {
        let of_items = matches!(plan.input, Input::Items) && plan.sources.is_empty();
        if !of_items || plan.aggregation.is_some() {
            return None;
        }
        let mut needs = Needs { items: 0, names: Vec::new() };
        let row = match &plan.projection {
            Projection::Star => {
                needs.items = 1;
                RowPiece::Item
            }
            Projection::Value(expr) => needs.piece(expr)?,
            Projection::Object(members) => needs.object(members)?,
        };
        (needs.items == 1).then(|| Self { row, names: Wanted::new(needs.names) })
    }

    /// The row of an item. Where that is the item's text the record's memory becomes the row's.
    pub(in crate::query) fn row(&self, record: Record) -> Result<Bytes> {
        if matches!(self.row, RowPiece::Item) {
            return Ok(record.into_text());
        }
        let item = ItemText { text: record.as_text(), members: record.member_texts(&self.names)? };
        let mut out = Vec::with_capacity(self.row.size(&item));
        // A row that holds the item is defined.
        self.row.write(&item, &mut out)?;
        Ok(out.into())
    }
}

/// What expressions need of an item.
struct Needs {
    items: usize,
    names: Vec<Arc<str>>,
}

impl Needs {
    /// The piece that an expression gives; nothing when it does more than copy.
    fn piece(&mut self, expr: &CompiledExpr) -> Option<RowPiece> {
        match expr {
            CompiledExpr::Constant(value) if value.is_defined() => {
                Some(RowPiece::Constant(value.to_json().into_bytes().into()))
            }
            CompiledExpr::Constant(_) => Some(RowPiece::Undefined),
            CompiledExpr::Path(path) if path.hops > 0 => None,
            CompiledExpr::Path(path) => Some(match path.steps.split_first() {
                None => {
                    self.items += 1;
                    RowPiece::Item
                }
                Some((Step::Member(name), rest)) => {
                    RowPiece::Member(self.number(name), rest.to_vec())
                }
                // An item is no array.
                Some((Step::Element(_), _)) => RowPiece::Undefined,
            }),
            CompiledExpr::Array(elements) => {
                let pieces: Option<_> =
                    elements.iter().map(|element| self.piece(element)).collect();
                pieces.map(RowPiece::Array)
            }
            CompiledExpr::Object(members) => self.object(members),
            _ => None,
        }
    }

    fn object(&mut self, members: &[(Arc<str>, CompiledExpr)]) -> Option<RowPiece> {
        let member = |(name, expr): &(Arc<str>, CompiledExpr)| {
            let mut label = Vec::with_capacity(name.len() + 3);
            write_string(name, &mut label);
            label.push(b':');
            Some((label.into(), self.piece(expr)?))
        };
        let members: Option<_> = members.iter().map(member).collect();
        members.map(RowPiece::Object)
    }

    fn number(&mut self, name: &Arc<str>) -> usize {
        self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.names.push(name.clone());
            self.names.len() - 1
        })
    }
}

/// An item that a row is made of.
struct ItemText<'t> {
    text: &'t [u8],
    members: MemberTexts<'t>,
}

impl ItemText<'_> {
    fn member(&self, number: usize) -> Option<&[u8]> {
        self.members.get(number)?.as_deref()
    }
}

impl RowPiece {
    /// Bytes of its text; exact when all of it is defined and copied.
    fn size(&self, item: &ItemText<'_>) -> usize {
        // Brackets, and a comma between each two.
        let around = |pieces: usize| 1 + pieces.max(1);
        match self {
            Self::Item => item.text.len(),
            Self::Constant(text) => text.len(),
            Self::Undefined => 0,
            Self::Member(number, _) => item.member(*number).map_or(0, <[u8]>::len),
            Self::Array(pieces) => {
                around(pieces.len()) + pieces.iter().map(|piece| piece.size(item)).sum::<usize>()
            }
            Self::Object(members) => {
                let sizes = members.iter().map(|(label, piece)| label.len() + piece.size(item));
                around(members.len()) + sizes.sum::<usize>()
            }
        }
    }

    /// Writes its text; false when it is undefined.
    fn write(&self, item: &ItemText<'_>, out: &mut Vec<u8>) -> Result<bool> {
        match self {
            Self::Item => out.extend_from_slice(item.text),
            Self::Constant(text) => out.extend_from_slice(text),
            Self::Undefined => return Ok(false),
            Self::Member(number, rest) => return write_member(item.member(*number), rest, out),
            Self::Array(pieces) => {
                out.push(b'[');
                for piece in pieces {
                    let before = out.len();
                    separate(out, b'[');
                    if !piece.write(item, out)? {
                        out.truncate(before);
                    }
                }
                out.push(b']');
            }
            Self::Object(members) => {
                out.push(b'{');
                for (label, piece) in members {
                    let before = out.len();
                    separate(out, b'{');
                    out.extend_from_slice(label);
                    if !piece.write(item, out)? {
                        out.truncate(before);
                    }
                }
                out.push(b'}');
            }
        }
        Ok(true)
    }
}

/// Writes what lies behind a member's text; false when that is undefined.
fn write_member(text: Option<&[u8]>, rest: &[Step], out: &mut Vec<u8>) -> Result<bool> {
    let Some(text) = text else { return Ok(false) };
    if rest.is_empty() && json::is_copied_as_written(text) {
        out.extend_from_slice(text);
        return Ok(true);
    }
    let member = json::parse(text).map_err(not_json)?;
    let value = walk(&member, rest);
    if value.is_defined() {
        value.write_json(out);
    }
    Ok(value.is_defined())
}

/// Writes a comma, unless the bracket is just opened.
fn separate(out: &mut Vec<u8>, bracket: u8) {
    if out.last() != Some(&bracket) {
        out.push(b',');
    }
}
