//! Required text: what the stored text of an item must contain if the item meets the condition.
//!
//! An item whose member equals a string has that string in its text, written as texts are stored. A search for those bytes costs a
//! small part of reading the member, so a scan that no index serves parses only the items that have them, and tests those as ever.
//! Where something in the condition could fail or cost on its own, as functions do, nothing is taken for required: an item
//! that is not parsed must not make a difference.

use armilla_model::json::QuotedFinder;
use armilla_model::value::Value;
use armilla_sql::ast::{BinaryOperator, UnaryOperator};
use armilla_sql::compiled::{Compiled, CompiledExpr, Input};

/// Bytes that are in the text of every item that meets a condition.
#[derive(Clone, Debug)]
pub(in crate::query) struct RequiredText(QuotedFinder);

impl RequiredText {
    /// What the condition of a query over items requires of their texts, if anything. Queries that make rows of the members of an item are left
    /// out: how many rows they look at depends on the item.
    pub(in crate::query) fn of(query: &Compiled) -> Option<Self> {
        let is_of_items = matches!(query.input, Input::Items) && query.sources.is_empty();
        let filter = query.filter.as_ref().filter(|filter| is_of_items && is_plain(filter))?;
        longest(filter).map(|(_, finder)| Self(finder))
    }

    /// Whether an item with this text may meet the condition.
    pub(in crate::query) fn is_in(&self, text: &[u8]) -> bool {
        self.0.is_in(text)
    }
}

/// The longest string that some member must equal.
fn longest(condition: &CompiledExpr) -> Option<(usize, QuotedFinder)> {
    match condition {
        CompiledExpr::And(parts) => {
            parts.iter().filter_map(longest).max_by_key(|(length, _)| *length)
        }
        CompiledExpr::Binary(BinaryOperator::Equal, left, right) => match (&**left, &**right) {
            (CompiledExpr::Path(_), CompiledExpr::Constant(Value::String(text)))
            | (CompiledExpr::Constant(Value::String(text)), CompiledExpr::Path(_)) => {
                Some((text.len(), QuotedFinder::of(text)?))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Whether nothing but members, constants and comparisons is in it.
fn is_plain(expr: &CompiledExpr) -> bool {
    match expr {
        CompiledExpr::Constant(_) | CompiledExpr::Path(_) => true,
        CompiledExpr::And(parts) | CompiledExpr::Or(parts) => parts.iter().all(is_plain),
        CompiledExpr::Unary(UnaryOperator::Not, inner) | CompiledExpr::InSet(inner, _) => {
            is_plain(inner)
        }
        CompiledExpr::Between(parts) => {
            is_plain(&parts.0) && is_plain(&parts.1) && is_plain(&parts.2)
        }
        CompiledExpr::Binary(operator, left, right) => {
            is_comparison(*operator) && is_plain(left) && is_plain(right)
        }
        _ => false,
    }
}

fn is_comparison(operator: BinaryOperator) -> bool {
    use BinaryOperator::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
    matches!(operator, Equal | NotEqual | Less | LessOrEqual | Greater | GreaterOrEqual)
}

#[cfg(test)]
mod tests {
    use super::*;
    use armilla_sql::Schema;

    fn of(condition: &str) -> Option<RequiredText> {
        let text = format!("SELECT VALUE COUNT(1) FROM c WHERE {condition}");
        RequiredText::of(&compiled(&text))
    }

    fn compiled(text: &str) -> Compiled {
        let query = armilla_sql::parse(text).unwrap();
        armilla_sql::compile(&query, &[], &Schema::default()).unwrap()
    }

    #[test]
    fn a_string_that_a_member_must_equal_is_required() {
        for condition in [
            "c.a = 'some text'",
            "'some text' = c.a.b",
            "c.n > 1 AND c.a = 'some text' AND c.b = 'x'",
        ] {
            let required = of(condition).unwrap();
            assert!(required.is_in(br#"{"id":"1","z":{"a":"some text"}}"#), "{condition}");
            assert!(
                !required.is_in(br#"{"id":"1","z":{"a":"some texts","b":"x"}}"#),
                "{condition}"
            );
        }
    }

    #[test]
    fn nothing_is_required_where_a_text_may_lack_it_or_something_else_may_happen() {
        for condition in [
            "c.a = 'x' OR c.b = 'y'",
            "NOT c.a = 'x'",
            "c.a != 'x'",
            "c.a = 1",
            "c.a = 'x' AND udf.f(c)",
            "c.a = 'x' AND STARTSWITH(c.b, 'y')",
            "LOWER(c.a) = 'x'",
            "c.a = 'with \\\\ and \\\"'",
            "c.a = c.b",
        ] {
            assert!(of(condition).is_none(), "{condition}");
        }
        let joined = "SELECT VALUE COUNT(1) FROM c JOIN t IN c.tags WHERE c.a = 'x'";
        assert!(RequiredText::of(&compiled(joined)).is_none());
    }
}
