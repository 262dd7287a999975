//! The shape of a query: its text without values, and what can be read off its syntax.
//!
//! Values go, whether parameters or literals. A short word that a path is compared with (`c.type = 'comment'`) stays:
//! it says which kind of items is asked for, and queries for other kinds are other queries.

use crate::limits::KIND_LENGTH_MAX;
use armilla_model::value::Value;
use armilla_sql::ast::{
    BinaryOperator, Collection, CountValue, Expr, ExprKind, Query, Selection, SourceStep,
};
use armilla_sql::{parse, print};

/// What stands for a value in a shape.
const VALUE: &str = "@value";

/// A query in the form in which shapes are compared; the text itself where it does not parse.
pub fn canonical(text: &str) -> String {
    match parse(text) {
        Ok(mut query) => {
            strip_query(&mut query);
            print::query(&query)
        }
        Err(_) => text.chars().take(200).collect(),
    }
}

fn strip_query(query: &mut Query) {
    match &mut query.select {
        Selection::Star(_) => {}
        Selection::Value(expr) => strip(expr),
        Selection::List(items) => items.iter_mut().for_each(|item| strip(&mut item.expr)),
    }
    for source in &mut query.from {
        if let Collection::Query(inner) = &mut source.collection {
            strip_query(inner);
        }
    }
    query.filter.iter_mut().for_each(strip);
    query.group_by.iter_mut().for_each(strip);
    query.order_by.iter_mut().for_each(|item| strip(&mut item.expr));
}

/// Whether a literal is the name of a kind rather than a value.
fn is_word(text: &str) -> bool {
    (1..=KIND_LENGTH_MAX).contains(&text.len())
        && text.chars().all(|c| c.is_ascii_alphabetic() || matches!(c, '_' | '-'))
}

fn strip(expr: &mut Expr) {
    if let ExprKind::Binary(BinaryOperator::Equal, left, right) = &mut expr.kind {
        let kept = |one: &Expr, other: &Expr| {
            matches!(&one.kind, ExprKind::String(text) if is_word(text))
                && matches!(other.kind, ExprKind::Member(..))
        };
        if kept(left, right) || kept(right, left) {
            return;
        }
    }
    match &mut expr.kind {
        ExprKind::Number(_) | ExprKind::String(_) | ExprKind::Parameter(_) => {
            expr.kind = ExprKind::Parameter(VALUE.into());
        }
        ExprKind::Undefined | ExprKind::Null | ExprKind::Bool(_) | ExprKind::Identifier(_) => {}
        ExprKind::Subquery(_, query) => strip_query(query),
        ExprKind::Member(one, _) | ExprKind::Unary(_, one) => strip(one),
        ExprKind::Index(left, right) | ExprKind::Binary(_, left, right) => {
            strip(left);
            strip(right);
        }
        ExprKind::Array(list) | ExprKind::And(list) | ExprKind::Or(list) => {
            list.iter_mut().for_each(strip);
        }
        ExprKind::Object(members) => members.iter_mut().for_each(|(_, member)| strip(member)),
        ExprKind::Chain(first, rest) => {
            strip(first);
            rest.iter_mut().for_each(|(_, operand)| strip(operand));
        }
        ExprKind::Let { value, body, .. } => {
            strip(value);
            strip(body);
        }
        ExprKind::Call { arguments, .. } => arguments.iter_mut().for_each(strip),
        ExprKind::Conditional(condition, then, otherwise) => {
            [condition, then, otherwise].into_iter().for_each(|part| strip(part));
        }
        // A list of values is as long as it happens to be.
        ExprKind::In { needle, list, .. } => {
            strip(needle);
            list.truncate(1);
            list.iter_mut().for_each(strip);
        }
        ExprKind::Between { value, low, high, .. } => {
            [value, low, high].into_iter().for_each(|part| strip(part));
        }
        ExprKind::Like { value, pattern, .. } => {
            strip(value);
            strip(pattern);
        }
    }
}

/// What a path is compared with.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// A parameter, with its `@`.
    Parameter(String),
    /// A literal.
    Literal(Value),
}

/// What can be read off a query over items.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueryFacts {
    /// The name of the item in the text.
    pub alias: String,
    /// `path = value` among the conditions that must all hold.
    pub equalities: Vec<(String, Operand)>,
    /// There are other conditions.
    pub has_more: bool,
    /// Paths that conditions and orders name, equalities included.
    pub named: Vec<String>,
    /// `SELECT VALUE COUNT(…)`.
    pub counts: bool,
    /// Any aggregate, GROUP BY, DISTINCT, JOIN, OFFSET or subquery: rows are not items.
    pub reshapes: bool,
    /// The list whose elements it goes through, by one JOIN and nothing else.
    pub unwinds: Option<String>,
    /// Paths that are selected; nothing for `*`.
    pub selected: Option<Vec<String>>,
    /// ORDER BY, with DESC.
    pub order: Vec<(String, bool)>,
    /// TOP, where it is a literal.
    pub top: Option<usize>,
}

impl QueryFacts {
    /// Reads a text; nothing when it does not parse or has no items.
    pub fn of(text: &str) -> Option<Self> {
        let query = parse(text).ok()?;
        let source = query.from.first()?;
        let mut facts = Self {
            alias: source.effective_alias()?.to_string(),
            reshapes: query.from.len() > 1
                || source.iterate
                || query.distinct
                || !query.group_by.is_empty()
                || query.offset_limit.is_some(),
            ..Self::default()
        };
        if let Collection::Path { steps, .. } = &source.collection {
            facts.reshapes |= steps.iter().any(|step| matches!(step, SourceStep::Member(_)));
        }
        facts.unwinds = query.from.get(1).filter(|_| query.from.len() == 2).and_then(|joined| {
            let Collection::Path { root, steps, .. } = &joined.collection else { return None };
            let is_own = joined.iterate && **root == *facts.alias;
            let member = |step: &SourceStep| match step {
                SourceStep::Member(name) => Some(format!("/{name}")),
                SourceStep::Element(_) => None,
            };
            steps.iter().map(member).collect::<Option<String>>().filter(|_| is_own)
        });
        facts.read_filter(query.filter.as_ref());
        facts.read_selection(&query);
        for item in &query.order_by {
            if let Some(path) = facts.path(&item.expr) {
                facts.named.push(path.clone());
                facts.order.push((path, item.descending));
            }
        }
        facts.top = query.top.and_then(|top| match top.value {
            CountValue::Literal(number) => usize::try_from(number.as_i64()?).ok(),
            CountValue::Parameter(_) => None,
        });
        Some(facts)
    }

    fn read_filter(&mut self, filter: Option<&Expr>) {
        let Some(filter) = filter else { return };
        let parts = match &filter.kind {
            ExprKind::And(parts) => parts.as_slice(),
            _ => std::slice::from_ref(filter),
        };
        for part in parts {
            match self.equality(part) {
                Some(equality) => {
                    self.named.push(equality.0.clone());
                    self.equalities.push(equality);
                }
                None => {
                    self.has_more = true;
                    self.name_all(part);
                }
            }
        }
    }

    fn name_all(&mut self, expr: &Expr) {
        if let Some(path) = self.path(expr) {
            self.named.push(path);
            return;
        }
        let mut inner = Vec::new();
        expr.for_each_child(&mut |child| inner.push(child.clone()));
        inner.iter().for_each(|child| self.name_all(child));
    }

    fn equality(&self, expr: &Expr) -> Option<(String, Operand)> {
        let ExprKind::Binary(BinaryOperator::Equal, left, right) = &expr.kind else { return None };
        let sided = |path: &Expr, value: &Expr| Some((self.path(path)?, operand(value)?));
        sided(left, right).or_else(|| sided(right, left))
    }

    fn read_selection(&mut self, query: &Query) {
        let calls =
            |expr: &Expr| matches!(&expr.kind, ExprKind::Call { name, .. } if is_aggregate(name));
        let mut selected = Vec::new();
        match &query.select {
            Selection::Star(_) => return,
            Selection::Value(expr) => {
                let counted = matches!(&expr.kind, ExprKind::Call { name, .. } if name.eq_ignore_ascii_case("COUNT"));
                self.counts = counted && !self.reshapes;
                self.reshapes |= calls(expr) && !self.counts;
                if matches!(&expr.kind, ExprKind::Identifier(name) if **name == *self.alias) {
                    return;
                }
                self.paths_in(expr, &mut selected);
            }
            Selection::List(items) => {
                for item in items {
                    self.reshapes |= calls(&item.expr);
                    self.paths_in(&item.expr, &mut selected);
                }
            }
        }
        self.selected = Some(selected);
    }

    fn paths_in(&self, expr: &Expr, found: &mut Vec<String>) {
        if let Some(path) = self.path(expr) {
            found.push(path);
            return;
        }
        expr.for_each_child(&mut |child| self.paths_in(child, found));
    }

    /// The path of `alias.a.b`, as `/a/b`.
    fn path(&self, expr: &Expr) -> Option<String> {
        match &expr.kind {
            ExprKind::Member(inner, name) => match &inner.kind {
                ExprKind::Identifier(root) if **root == *self.alias => Some(format!("/{name}")),
                _ => Some(format!("{}/{name}", self.path(inner)?)),
            },
            _ => None,
        }
    }

    /// The value that a path must have, where a literal says so.
    pub fn literal(&self, path: &str) -> Option<&str> {
        self.equalities.iter().find_map(|(known, operand)| match operand {
            Operand::Literal(Value::String(text)) if known == path => Some(&**text),
            _ => None,
        })
    }
}

fn is_aggregate(name: &str) -> bool {
    ["COUNT", "SUM", "MIN", "MAX", "AVG"].iter().any(|known| name.eq_ignore_ascii_case(known))
}

fn operand(expr: &Expr) -> Option<Operand> {
    Some(match &expr.kind {
        ExprKind::Parameter(name) => Operand::Parameter(name.to_string()),
        ExprKind::String(text) => Operand::Literal(Value::String(text.clone())),
        ExprKind::Number(number) => Operand::Literal(Value::Number(*number)),
        ExprKind::Bool(bool) => Operand::Literal(Value::Bool(*bool)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_go_and_kinds_stay() {
        let one = canonical(
            "SELECT * FROM c WHERE c.postId = 'a1' AND c.type = 'comment' AND c.n IN (1, 2)",
        );
        let other =
            canonical("SELECT * FROM c WHERE c.postId = @p AND c.type = 'comment' AND c.n IN (7)");
        assert_eq!(one, other);
        assert!(one.contains("comment") && !one.contains("a1"), "{one}");
        let like =
            canonical("SELECT * FROM c WHERE c.postId = @p AND c.type = 'like' AND c.n IN (7)");
        assert_ne!(one, like);
    }

    #[test]
    fn a_join_says_which_list_is_gone_through() {
        let list = |text: &str| QueryFacts::of(text).unwrap().unwinds;
        assert_eq!(list("SELECT VALUE l FROM c JOIN l IN c.a.lines"), Some("/a/lines".into()));
        assert_eq!(list("SELECT * FROM c"), None);
        assert_eq!(list("SELECT VALUE m FROM c JOIN l IN c.lines JOIN m IN l.more"), None);
    }

    #[test]
    fn facts_of_queries() {
        let facts = QueryFacts::of(
            "SELECT TOP 100 p.id, LEFT(p.content, 100) AS content FROM p WHERE p.type = 'post' AND p.userId = @user ORDER BY p.at DESC",
        )
        .unwrap();
        assert_eq!(facts.literal("/type"), Some("post"));
        assert_eq!(facts.equalities[1], ("/userId".into(), Operand::Parameter("@user".into())));
        assert_eq!(facts.order, [("/at".to_owned(), true)]);
        assert_eq!(facts.top, Some(100));
        assert_eq!(facts.selected.unwrap(), ["/id", "/content"]);
        assert!(!facts.has_more && !facts.reshapes);
        let count =
            QueryFacts::of("SELECT VALUE COUNT(1) FROM c WHERE c.a = 1 OR c.b = 2").unwrap();
        assert!(count.counts && count.has_more && !count.reshapes);
        assert_eq!(count.named, ["/a", "/b"]);
        assert!(QueryFacts::of("SELECT VALUE h FROM p JOIN h IN p.h").unwrap().reshapes);
    }
}
