//! Syntax trees back to text.
//!
//! The text parses to the same tree; it is not the text that was written. Parentheses stand only where
//! the tree would be another one without them: they count as nesting, so a text with more of them than
//! the original could be nested too deeply to be read again.

use crate::ast::{
    BinaryOperator, Collection, Count, CountValue, Expr, ExprKind, FromItem, OrderItem, Query,
    SelectItem, Selection, SourceStep, SubqueryKind, UnaryOperator,
};
use crate::lexer::is_plain_name;
use crate::precedence;
use armilla_model::Number;
use armilla_model::json::write_string;

/// A query as text.
pub fn query(query: &Query) -> String {
    let mut out = String::new();
    write_query(query, &mut out);
    out
}

/// An expression as text.
pub fn expression(expr: &Expr) -> String {
    let mut out = String::new();
    write_expr(expr, &mut out);
    out
}

/// `FROM … JOIN …` with a blank in front; nothing without sources.
pub fn from_clause(sources: &[FromItem]) -> String {
    let mut out = String::new();
    write_from(sources, &mut out);
    out
}

/// The list behind ORDER BY.
pub fn order_list(items: &[OrderItem]) -> String {
    let mut out = String::new();
    write_separated(items, &mut out, |item, out| {
        write_order_key(&item.expr, out);
        out.push_str(match (item.directed, item.descending) {
            (true, false) => " ASC",
            (_, true) => " DESC",
            _ => "",
        });
    });
    out
}

/// Expressions separated by commas.
pub fn expression_list(list: &[Expr]) -> String {
    let mut out = String::new();
    write_separated(list, &mut out, write_expr);
    out
}

/// A string as a literal.
pub fn string_literal(text: &str) -> String {
    let mut out = Vec::new();
    write_string(text, &mut out);
    String::from_utf8(out).expect("JSON text is built from strings")
}

fn write_query(query: &Query, out: &mut String) {
    out.push_str("SELECT ");
    if query.distinct {
        out.push_str("DISTINCT ");
    }
    if let Some(top) = &query.top {
        out.push_str("TOP ");
        write_count(top, out);
        out.push(' ');
    }
    write_selection(&query.select, out);
    write_from(&query.from, out);
    if let Some(filter) = &query.filter {
        out.push_str(" WHERE ");
        write_expr(filter, out);
    }
    if !query.group_by.is_empty() {
        out.push_str(" GROUP BY ");
        out.push_str(&expression_list(&query.group_by));
    }
    if !query.order_by.is_empty() {
        out.push_str(if query.rank { " ORDER BY RANK " } else { " ORDER BY " });
        out.push_str(&order_list(&query.order_by));
    }
    if let Some((offset, limit)) = &query.offset_limit {
        out.push_str(" OFFSET ");
        write_count(offset, out);
        out.push_str(" LIMIT ");
        write_count(limit, out);
    }
}

/// A row count as text.
pub fn count(count: &Count) -> String {
    let mut out = String::new();
    write_count(count, &mut out);
    out
}

fn write_count(count: &Count, out: &mut String) {
    match &count.value {
        CountValue::Literal(number) => write_number(*number, out),
        CountValue::Parameter(name) => out.push_str(name),
    }
}

fn write_selection(selection: &Selection, out: &mut String) {
    match selection {
        Selection::Star(_) => out.push('*'),
        Selection::Value(expr) => {
            out.push_str("VALUE ");
            write_expr(expr, out);
        }
        Selection::List(items) => write_separated(items, out, write_item),
    }
}

fn write_item(item: &SelectItem, out: &mut String) {
    write_expr(&item.expr, out);
    if let Some(alias) = &item.alias {
        out.push_str(" AS ");
        if is_plain_name(alias) {
            out.push_str(alias);
        } else {
            out.push_str(&string_literal(alias));
        }
    }
}

fn write_from(sources: &[FromItem], out: &mut String) {
    for (position, source) in sources.iter().enumerate() {
        out.push_str(if position == 0 { " FROM " } else { " JOIN " });
        match &source.alias {
            Some(alias) if source.iterate => {
                out.push_str(alias);
                out.push_str(" IN ");
                write_collection(&source.collection, out);
            }
            Some(alias) => {
                write_collection(&source.collection, out);
                out.push_str(" AS ");
                out.push_str(alias);
            }
            None => write_collection(&source.collection, out),
        }
    }
}

fn write_collection(collection: &Collection, out: &mut String) {
    match collection {
        Collection::Path { root, steps, .. } => {
            out.push_str(root);
            for step in steps {
                match step {
                    SourceStep::Member(name) => write_member(name, out),
                    SourceStep::Element(index) => out.push_str(&format!("[{index}]")),
                }
            }
        }
        Collection::Query(query) => write_parenthesised(query, out),
    }
}

fn write_parenthesised(query: &Query, out: &mut String) {
    out.push('(');
    write_query(query, out);
    out.push(')');
}

fn write_member(name: &str, out: &mut String) {
    if is_plain_name(name) {
        out.push('.');
        out.push_str(name);
    } else {
        out.push('[');
        out.push_str(&string_literal(name));
        out.push(']');
    }
}

fn write_number(number: Number, out: &mut String) {
    match number {
        // A literal is negative only as the bits of a hexadecimal one.
        Number::Int(int @ ..0) => out.push_str(&format!("0x{int:x}")),
        Number::Float(float) if float.is_nan() => out.push_str("NaN"),
        Number::Float(float) if float.is_infinite() => out.push_str("Infinity"),
        _ => out.push_str(&number.to_string()),
    }
}

fn write_separated<T>(items: &[T], out: &mut String, write: impl Fn(&T, &mut String)) {
    for (position, item) in items.iter().enumerate() {
        if position > 0 {
            out.push_str(", ");
        }
        write(item, out);
    }
}

/// An order by something that is called `rank` must not look like ORDER BY RANK.
fn write_order_key(key: &Expr, out: &mut String) {
    let looks_like_rank =
        matches!(&key.kind, ExprKind::Identifier(name) if name.eq_ignore_ascii_case("rank"));
    write_grouped(looks_like_rank, key, out);
}

/// An expression, in parentheses where `grouped` says so.
fn write_grouped(grouped: bool, expr: &Expr, out: &mut String) {
    out.push_str(if grouped { "(" } else { "" });
    write_expr(expr, out);
    out.push_str(if grouped { ")" } else { "" });
}

/// An operand of something that takes operands binding at least as tightly as `minimum`.
fn write_operand(expr: &Expr, minimum: u8, out: &mut String) {
    write_grouped(precedence::of(expr) < minimum, expr, out);
}

/// Operands on one level; all but the first have to bind more tightly than it.
fn write_chain(parts: &[Expr], word: &str, level: u8, out: &mut String) {
    for (position, part) in parts.iter().enumerate() {
        if position > 0 {
            out.push_str(word);
        }
        // BETWEEN stands beside AND and OR in parentheses only.
        let is_first = position == 0 && !matches!(part.kind, ExprKind::Between { .. });
        write_operand(part, level + u8::from(!is_first), out);
    }
}

fn write_base(base: &Expr, out: &mut String) {
    // `5.a` would be read as a malformed number.
    let is_number = matches!(base.kind, ExprKind::Number(_));
    write_grouped(is_number || precedence::of(base) < precedence::SINGLE, base, out);
}

fn write_expr(expr: &Expr, out: &mut String) {
    match &expr.kind {
        ExprKind::Undefined => out.push_str("undefined"),
        ExprKind::Null => out.push_str("null"),
        ExprKind::Bool(bool) => out.push_str(if *bool { "true" } else { "false" }),
        ExprKind::Number(number) => write_number(*number, out),
        ExprKind::String(text) => out.push_str(&string_literal(text)),
        ExprKind::Parameter(name) | ExprKind::Identifier(name) => out.push_str(name),
        ExprKind::Member(base, name) => {
            write_base(base, out);
            write_member(name, out);
        }
        ExprKind::Index(base, index) => {
            write_base(base, out);
            out.push('[');
            write_expr(index, out);
            out.push(']');
        }
        ExprKind::Array(elements) => {
            out.push('[');
            write_separated(elements, out, write_expr);
            out.push(']');
        }
        ExprKind::Object(members) => {
            out.push('{');
            write_separated(members, out, |(name, expr), out| {
                out.push_str(&string_literal(name));
                out.push_str(": ");
                write_expr(expr, out);
            });
            out.push('}');
        }
        ExprKind::And(parts) => write_chain(parts, " AND ", precedence::AND, out),
        ExprKind::Or(parts) => write_chain(parts, " OR ", precedence::OR, out),
        ExprKind::Call { name, user, arguments, .. } => {
            out.push_str(if *user { "udf." } else { "" });
            out.push_str(name);
            out.push('(');
            write_separated(arguments, out, write_expr);
            out.push(')');
        }
        ExprKind::Subquery(kind, query) => {
            out.push_str(subquery_word(*kind));
            write_parenthesised(query, out);
        }
        _ => write_operation(expr, out),
    }
}

fn write_operation(expr: &Expr, out: &mut String) {
    match &expr.kind {
        ExprKind::Unary(operator, operand) => write_unary(*operator, operand, out),
        ExprKind::Binary(operator, left, right) => {
            let level = precedence::of_operator(*operator);
            // `??` goes from right to left, everything else from left to right.
            let rightwards = u8::from(level == precedence::COALESCE);
            write_operand(left, level + rightwards, out);
            write_infix(*operator, right, level + 1 - rightwards, out);
        }
        ExprKind::Chain(first, rest) => {
            let level = precedence::of(expr);
            write_operand(first, level, out);
            for (operator, operand) in rest {
                write_infix(*operator, operand, level + 1, out);
            }
        }
        ExprKind::Let { name, value, body } => {
            out.push_str("(LET ");
            out.push_str(name);
            out.push_str(" = ");
            write_operand(value, precedence::COMPARISON, out);
            out.push_str(" IN ");
            write_expr(body, out);
            out.push(')');
        }
        ExprKind::Conditional(condition, then, otherwise) => {
            write_operand(condition, precedence::COALESCE, out);
            out.push_str(" ? ");
            write_expr(then, out);
            out.push_str(" : ");
            write_expr(otherwise, out);
        }
        ExprKind::In { needle, list, negated } => {
            write_operand(needle, precedence::COMPARISON, out);
            out.push_str(if *negated { " NOT IN (" } else { " IN (" });
            write_separated(list, out, write_expr);
            out.push(')');
        }
        ExprKind::Between { value, low, high, negated } => {
            write_operand(value, precedence::COMPARISON, out);
            out.push_str(if *negated { " NOT BETWEEN " } else { " BETWEEN " });
            write_operand(low, precedence::COMPARISON, out);
            out.push_str(" AND ");
            write_operand(high, precedence::COMPARISON, out);
        }
        ExprKind::Like { value, pattern, escape, negated } => {
            write_operand(value, precedence::COMPARISON, out);
            out.push_str(if *negated { " NOT LIKE " } else { " LIKE " });
            write_operand(pattern, precedence::COMPARISON, out);
            if let Some(escape) = escape {
                out.push_str(" ESCAPE ");
                out.push_str(&string_literal(escape));
            }
        }
        _ => unreachable!("write_expr handles everything that is no operation"),
    }
}

fn write_infix(operator: BinaryOperator, right: &Expr, minimum: u8, out: &mut String) {
    out.push(' ');
    out.push_str(operator.symbol());
    out.push(' ');
    write_operand(right, minimum, out);
}

fn write_unary(operator: UnaryOperator, operand: &Expr, out: &mut String) {
    out.push_str(match operator {
        UnaryOperator::Minus => "-",
        UnaryOperator::Plus => "+",
        UnaryOperator::BitNot => "~",
        UnaryOperator::Not => "NOT ",
    });
    // `--` would begin a comment.
    if operator != UnaryOperator::Not && matches!(operand.kind, ExprKind::Unary(..)) {
        out.push(' ');
    }
    write_operand(operand, precedence::UNARY, out);
}

fn subquery_word(kind: SubqueryKind) -> &'static str {
    match kind {
        SubqueryKind::Scalar => "",
        SubqueryKind::Exists => "EXISTS",
        SubqueryKind::Array => "ARRAY",
        SubqueryKind::All => "ALL",
        SubqueryKind::First => "FIRST",
        SubqueryKind::Last => "LAST",
    }
}

#[cfg(test)]
mod tests {
    use crate::parser::parse;

    #[test]
    fn printed_queries_parse_to_the_same_tree() {
        for text in [
            "SELECT * FROM c",
            "SELECT DISTINCT TOP 5 VALUE c.a FROM c WHERE NOT (c.b = -1) ORDER BY c.a DESC, c.b",
            "SELECT c['order'], c.a[0]['x'] y FROM f JOIN c IN f.x['y z'][3] JOIN (SELECT 1) AS q",
            "SELECT {a: 1, 'b c': [1, 2]}.a, (5).x, udf.f(1, @p) FROM c",
            "SELECT VALUE a ? b : c ? d : e FROM x WHERE x.a LIKE 'a%' ESCAPE '!' AND x IN (1,2) OR (1 NOT BETWEEN 2 AND 3)",
            "SELECT c.t, COUNT(1) AS n FROM c GROUP BY c.t OFFSET @o LIMIT 10",
            "SELECT EXISTS(SELECT 1 FROM t IN c.t), ARRAY(SELECT * FROM c), ALL(SELECT 1), (SELECT 2) FROM c",
            "SELECT * FROM c ORDER BY RANK RRF(FullTextScore(c.a, 'x'), VectorDistance(c.v, [1]))",
            "SELECT all, first.x, rank FROM rank ORDER BY rank.x",
            "SELECT 1 - 2 - 3 * 4 ?? 5 || 'x' | 7, - -5, ~NOT true",
            "SELECT 1 - (2 - 3), (a ?? b) ?? (c ?? d), (a OR b) AND (c AND d) AND NOT (e AND f)",
            "SELECT (a ? b : c) ? (d ? e : f) : (g ? h : i), (a ? b : c).d, (-a)[0], -(a.b), (a = b) = (c = d)",
            "SELECT (a IN (1)) IN (2), a LIKE (b LIKE c), a BETWEEN (b AND c) AND (d BETWEEN e AND f)",
            "SELECT VALUE 1 FROM rank ORDER BY (rank)",
            "SELECT c.a & 4 = 4, c.a & (4 = 4), 1 << 2 | 1, (1 << 2) | 1, a || b = c || d, a || (b = c)",
            "SELECT a ?? b ?? c, (a ?? b) ?? c, a IN (1) ?? b, (a BETWEEN 1 AND 2) AND b, a BETWEEN 1 AND 2 ?? c",
            "SELECT c.a AS 'a b', c.b 'order', c['end'] AS x FROM c",
            "SELECT VALUE (LET x = c.a + 1 IN [x, x.y]) FROM c",
        ] {
            let tree = parse(text).unwrap();
            let printed = super::query(&tree);
            assert_eq!(parse(&printed).unwrap(), tree, "{text} printed as {printed}");
        }
    }

    #[test]
    fn printing_nests_no_deeper_than_what_was_written() {
        let deepest = |text: &dyn Fn(usize) -> String| {
            let fitting = (1..400).take_while(|depth| parse(&text(*depth)).is_ok()).last();
            text(fitting.expect("a shallow text is read"))
        };
        for text in [
            deepest(&|depth| format!("SELECT VALUE {}1", "- ".repeat(depth))),
            deepest(&|depth| format!("SELECT VALUE {}1", "a ? b : ".repeat(depth))),
            deepest(&|depth| {
                format!("SELECT VALUE {}1{}", "a - (".repeat(depth), ")".repeat(depth))
            }),
            deepest(&|depth| format!("SELECT VALUE {}1{}", "[".repeat(depth), "]".repeat(depth))),
            deepest(&|depth| {
                format!("SELECT VALUE {}1{}", "(".repeat(depth), " + 1)".repeat(depth))
            }),
            deepest(&|depth| format!("SELECT VALUE 1{}", " + 1 * 2".repeat(depth))),
            deepest(&|depth| {
                format!("SELECT VALUE {}1{}", "NOT (a AND ".repeat(depth), ")".repeat(depth))
            }),
        ] {
            let tree = parse(&text).unwrap();
            let printed = super::query(&tree);
            assert_eq!(
                parse(&printed).unwrap_or_else(|error| panic!("{printed}: {error:?}")),
                tree
            );
        }
    }
}
