//! Advice about a query: known patterns that another form, or a computed property, would serve better.
//!
//! The rules go by the numbers that the SDKs have texts for; a client turns them into sentences.

use crate::ast::{Collection, Expr, ExprKind, FromItem, Name, Query, Selection};
use armilla_model::Value;

/// `ARRAY_CONTAINS` of a part of an element: EXISTS with a sub-query does it too.
const PARTIAL_ARRAY_CONTAINS: &str = "QA1000";
/// DISTINCT over a JOIN: EXISTS with a sub-query does it too.
const DISTINCT_AND_JOIN: &str = "QA1001";
/// `CONTAINS`: STARTSWITH is better where a prefix is meant.
const CONTAINS: &str = "QA1002";
/// `STARTSWITH` and `STRINGEQUALS` that ignore case: a computed property in lower case.
const CASELESS_START_OR_EQUAL: &str = "QA1003";
/// `ENDSWITH` that ignores case: a computed property of the reversed text.
const CASELESS_END: &str = "QA1004";
/// GROUP BY of an expression: a computed property.
const GROUP_BY_EXPRESSION: &str = "QA1005";
/// `UPPER` and `LOWER` in a condition: a computed property.
const UPPER_OR_LOWER: &str = "QA1006";
/// The time functions whose value differs from item to item.
const CURRENT_TIMES: [(&str, &str); 3] = [
    ("GETCURRENTDATETIME", "QA1007"),
    ("GETCURRENTTICKS", "QA1008"),
    ("GETCURRENTTIMESTAMP", "QA1009"),
];

/// The numbers of the rules that a query breaks, each once: those of its condition first.
pub fn advise(query: &Query, parameters: &[(Name, Value)]) -> Vec<&'static str> {
    let mut advisor = Advisor { parameters, found: Vec::new() };
    advisor.query(query);
    advisor.found
}

struct Advisor<'p> {
    parameters: &'p [(Name, Value)],
    found: Vec<&'static str>,
}

impl Advisor<'_> {
    fn add(&mut self, rule: &'static str) {
        if !self.found.contains(&rule) {
            self.found.push(rule);
        }
    }

    fn query(&mut self, query: &Query) {
        if let Some(filter) = &query.filter {
            self.expression(filter, true);
        }
        query.from.iter().for_each(|source| self.source(source));
        if query.distinct && query.from.len() > 1 {
            self.add(DISTINCT_AND_JOIN);
        }
        match &query.select {
            Selection::Star(_) => {}
            Selection::Value(expr) => self.expression(expr, false),
            Selection::List(items) => {
                items.iter().for_each(|item| self.expression(&item.expr, false));
            }
        }
        for key in &query.group_by {
            if !is_path(key) {
                self.add(GROUP_BY_EXPRESSION);
            }
            self.expression(key, false);
        }
        query.order_by.iter().for_each(|item| self.expression(&item.expr, false));
    }

    fn source(&mut self, source: &FromItem) {
        match &source.collection {
            Collection::Path { .. } => {}
            Collection::Query(query) => self.query(query),
        }
    }

    fn expression(&mut self, expr: &Expr, in_condition: bool) {
        match &expr.kind {
            ExprKind::Call { name, user: false, arguments, .. } => {
                self.call(&name.to_ascii_uppercase(), arguments, in_condition);
            }
            ExprKind::Subquery(_, query) => self.query(query),
            _ => {}
        }
        expr.for_each_child(&mut |child| self.expression(child, in_condition));
    }

    fn call(&mut self, name: &str, arguments: &[Expr], in_condition: bool) {
        let third = arguments.get(2).is_some_and(|argument| self.is_true(argument));
        match name {
            "ARRAY_CONTAINS" if third => self.add(PARTIAL_ARRAY_CONTAINS),
            "CONTAINS" => self.add(CONTAINS),
            "STARTSWITH" | "STRINGEQUALS" if third => self.add(CASELESS_START_OR_EQUAL),
            "ENDSWITH" if third => self.add(CASELESS_END),
            "UPPER" | "LOWER" if in_condition => self.add(UPPER_OR_LOWER),
            _ => {
                let rule = CURRENT_TIMES.iter().find(|(function, _)| *function == name);
                rule.into_iter().for_each(|(_, rule)| self.add(rule));
            }
        }
    }

    fn is_true(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Bool(bool) => *bool,
            ExprKind::Parameter(name) => {
                let given = self.parameters.iter().find(|(parameter, _)| parameter == name);
                given.is_some_and(|(_, value)| *value == Value::Bool(true))
            }
            _ => false,
        }
    }
}

fn is_path(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Identifier(_) => true,
        ExprKind::Member(base, _) | ExprKind::Index(base, _) => is_path(base),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::parse;

    fn rules(text: &str) -> String {
        let parameters = [("@yes".into(), Value::Bool(true)), ("@no".into(), Value::Bool(false))];
        advise(&parse(text).unwrap(), &parameters).join(" ")
    }

    #[test]
    fn patterns_have_their_rules() {
        for (text, expected) in [
            ("SELECT VALUE r.id FROM root r WHERE CONTAINS(r.name, 'Abc')", "QA1002"),
            ("SELECT GetCurrentTicks() FROM r WHERE GetCurrentTimestamp() > 10", "QA1009 QA1008"),
            ("SELECT VALUE r.id FROM r WHERE StringEquals(r.name, 'Abc', false)", ""),
            ("SELECT VALUE r.id FROM r WHERE StringEquals(r.name, 'Abc', true)", "QA1003"),
            ("SELECT * FROM c WHERE STARTSWITH(c.n, 'a', @yes) AND c.x = 1", "QA1003"),
            ("SELECT * FROM c WHERE STARTSWITH(c.n, 'a', @no) OR STARTSWITH(c.n, 'b')", ""),
            ("SELECT * FROM c WHERE ENDSWITH(c.n, 'a', true)", "QA1004"),
            ("SELECT * FROM c WHERE ENDSWITH(c.n, 'a')", ""),
            ("SELECT * FROM c WHERE ARRAY_CONTAINS(c.t, {a: 1}, true)", "QA1000"),
            ("SELECT * FROM c WHERE ARRAY_CONTAINS(c.t, 1)", ""),
            ("SELECT DISTINCT c.a FROM c JOIN t IN c.t", "QA1001"),
            ("SELECT DISTINCT c.a FROM c", ""),
            ("SELECT COUNT(1) FROM c GROUP BY LOWER(c.a), c.b[0].d", "QA1005"),
            ("SELECT LOWER(c.a) FROM c WHERE c.b = 1", ""),
            ("SELECT * FROM c WHERE NOT (UPPER(c.a) IN ('A', lower('b')))", "QA1006"),
            ("SELECT * FROM c WHERE c.t < GetCurrentDateTime()", "QA1007"),
            ("SELECT * FROM c WHERE c.t < GetCurrentDateTimeStatic()", ""),
            (
                "SELECT * FROM c WHERE EXISTS(SELECT 1 FROM t IN c.t WHERE CONTAINS(t, 'x'))",
                "QA1002",
            ),
            ("SELECT * FROM c WHERE udf.CONTAINS(c.a, 'x')", ""),
        ] {
            assert_eq!(rules(text), expected, "{text}");
        }
    }
}
