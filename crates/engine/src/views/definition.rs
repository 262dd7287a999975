//! Which definitions of views are accepted.
//!
//! `SELECT *` or a list of property paths `FROM alias`, and nothing else: what the service documents. The
//! dial `views=extended` also takes `WHERE` with a condition that the item alone determines, `AS`, and `TOP n …
//! ORDER BY path DESC`: of each key of the view only the first items. The SQL parser reads the text, so a
//! refusal says where the offence stands.

use crate::limits::{VIEW_CAP_MAX, VIEW_COLUMNS_MAX};
use crate::query::is_pure;
use armilla_model::error::{Error, Result};
use armilla_model::value::{Object, Value};
use armilla_sql::ast::{
    Collection, CountValue, Expr, ExprKind, OrderItem, Query, SelectItem, Selection,
};
use armilla_sql::error::Location;
use armilla_sql::{Compiled, Schema, compile, parse};
use std::collections::HashSet;
use std::sync::Arc;

/// The definition's name of today.
pub const MEMBER: &str = "globalSecondaryIndexDefinition";
/// The definition's older name, which templates and the explorer use.
pub const OLD_MEMBER: &str = "materializedViewDefinition";
/// The member that names the source.
pub const SOURCE_ID: &str = "sourceCollectionId";
/// The member that holds the `_rid` of the source.
pub const SOURCE_RID: &str = "sourceCollectionRid";
/// The member that holds the query.
pub const QUERY: &str = "definition";
/// Members that are stored as they come and answered.
const ECHOED: [&str; 3] = ["apiSpecificDefinition", "containerType", "throughputBucketForBuild"];

/// How much a definition may say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// What the service documents.
    #[default]
    Service,
    /// Also `WHERE`, `AS`, `TOP … ORDER BY`, and views of views.
    Extended,
}

/// What a client says about the view it wants.
#[derive(Clone, Debug, PartialEq)]
pub struct Wish {
    /// Name of the source.
    pub source: Arc<str>,
    /// Its `_rid`, where the client knows it.
    pub source_rid: Option<Arc<str>>,
    /// The query.
    pub query: Arc<str>,
    echoed: Object,
}

/// A definition that was accepted.
#[derive(Clone, Debug)]
pub struct ViewDefinition {
    /// What is copied.
    pub columns: Columns,
    /// Which items are copied; all without it.
    pub filter: Option<Arc<Compiled>>,
    /// How many items of one key are copied; all without it.
    pub cap: Option<Cap>,
}

/// The first items of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cap {
    /// How many.
    pub count: usize,
    /// The path whose highest values come first.
    pub by: Vec<Arc<str>>,
}

/// What is copied of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Columns {
    /// Everything but the system's properties.
    All,
    /// These paths, each under one name.
    Listed(Vec<Column>),
}

/// One path that is copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Names from the item down.
    pub steps: Vec<Arc<str>>,
    /// What it is called in the view.
    pub name: Arc<str>,
}

impl ViewDefinition {
    /// Everything, as it is.
    pub(crate) fn everything() -> Self {
        Self { columns: Columns::All, filter: None, cap: None }
    }
}

impl Wish {
    /// Takes the definition of a view out of a container's body; the body without it, and the wish.
    pub fn take(body: &Value) -> Result<(Value, Option<Self>)> {
        let Some(members) = body.as_object() else { return Ok((body.clone(), None)) };
        let given = |name: &str| members.get(name).filter(|value| !matches!(value, Value::Null));
        let wishes = [given(MEMBER), given(OLD_MEMBER)];
        let wishes = wishes.into_iter().flatten().map(Self::read).collect::<Result<Vec<_>>>()?;
        let Some(wish) = wishes.first().cloned() else { return Ok((body.clone(), None)) };
        if wishes.iter().any(|other| *other != wish) {
            return refuse(format!(
                "'{MEMBER}' and '{OLD_MEMBER}' are two names of one definition, and they differ. Send one of them, or the same under both."
            ));
        }
        let mut rest = members.clone();
        rest.remove(MEMBER);
        rest.remove(OLD_MEMBER);
        Ok((Value::object(rest), Some(wish)))
    }

    fn read(value: &Value) -> Result<Self> {
        let text = |name: &str| match value.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => refuse(format!("'{name}' in the definition of a view must be a string.")),
        };
        let required = |name: &str| {
            let missing =
                || Error::bad_request(format!("'{name}' is missing in the definition of a view."));
            text(name).and_then(|text| text.ok_or_else(missing))
        };
        let echoed = ECHOED.iter().filter_map(|name| {
            let value = value.get(name).filter(|value| !matches!(value, Value::Null))?;
            Some(((*name).into(), value.clone()))
        });
        Ok(Self {
            source: required(SOURCE_ID)?,
            source_rid: text(SOURCE_RID)?.filter(|rid| !rid.is_empty()),
            query: required(QUERY)?,
            echoed: echoed.collect(),
        })
    }

    /// The members that are stored, once the source is known.
    pub(crate) fn stored(&self, source_rid: &Arc<str>) -> Object {
        let mut stored = Object::of([
            (SOURCE_ID, Value::String(self.source.clone())),
            (SOURCE_RID, Value::String(source_rid.clone())),
            (QUERY, Value::String(self.query.clone())),
        ]);
        for (name, value) in self.echoed.iter() {
            stored.insert(name.clone(), value.clone());
        }
        stored
    }

    /// Refuses another definition than the stored one, in a body that replaces a view.
    pub(crate) fn check_unchanged(&self, stored: &Object) -> Result<()> {
        let is = |name: &str, text: &str| stored.get(name).and_then(Value::as_str) == Some(text);
        let same_rid = self.source_rid.as_deref().is_none_or(|rid| is(SOURCE_RID, rid));
        if is(SOURCE_ID, &self.source) && is(QUERY, &self.query) && same_rid {
            return Ok(());
        }
        refuse(
            "The source and the definition of a view cannot be changed. Make another view, and delete this one when that is built.",
        )
    }
}

impl ViewDefinition {
    /// Refuses more paths than a view may list, and one that is listed twice: each is a copy of its own.
    pub(crate) fn check_columns(&self) -> Result<()> {
        let Columns::Listed(columns) = &self.columns else { return Ok(()) };
        if columns.len() > VIEW_COLUMNS_MAX {
            return refuse(format!("A view lists at most {VIEW_COLUMNS_MAX} paths."));
        }
        let mut seen = HashSet::new();
        match columns.iter().find(|column| !seen.insert(&column.steps)) {
            None => Ok(()),
            Some(twice) => refuse(format!(
                "The definition of the view lists a path twice, the second time as '{}'.",
                twice.name
            )),
        }
    }

    /// What the listed paths are called in the view.
    pub(crate) fn column_names(&self) -> impl Iterator<Item = &str> {
        let listed = match &self.columns {
            Columns::All => &[][..],
            Columns::Listed(columns) => columns,
        };
        listed.iter().map(|column| &*column.name)
    }

    /// Reads the query of a definition.
    ///
    /// # Errors
    ///
    /// When it says more than the dialect allows; the message has the place.
    pub fn parse(text: &str, dialect: Dialect) -> Result<Self> {
        let query = parse(text)?;
        let alias = check_clauses(&query, dialect)?;
        let columns = match &query.select {
            Selection::Star(_) => Columns::All,
            Selection::Value(value) => {
                return offence(value.location, "VALUE is not allowed: list property paths, or *");
            }
            Selection::List(items) => Columns::Listed(columns(items, &alias, dialect)?),
        };
        let filter = match &query.filter {
            None => None,
            Some(filter) => Some(Arc::new(condition(&query, filter)?)),
        };
        let cap = cap(&query, &alias)?;
        Ok(Self { columns, filter, cap })
    }
}

/// Refuses clauses that have no place in a definition; the alias of the source.
fn check_clauses(query: &Query, dialect: Dialect) -> Result<Arc<str>> {
    let places = &query.places;
    let last_group = query.group_by.last().map(|_| places.group_by);
    let order = query.order_by.first().filter(|_| dialect == Dialect::Service || query.rank);
    let top = query.top.as_ref().filter(|_| dialect == Dialect::Service);
    let filter = query.filter.as_ref().filter(|_| dialect == Dialect::Service);
    let clauses = [
        (query.distinct.then_some(places.select), "DISTINCT is not allowed"),
        (
            top.map(|_| places.top),
            "TOP is not allowed (the dial views=extended allows it with ORDER BY)",
        ),
        (query.from.get(1).map(|source| source.location), "JOIN is not allowed"),
        (
            filter.map(|filter| filter.location),
            "WHERE is not allowed (the dial views=extended allows it)",
        ),
        (last_group, "GROUP BY is not allowed"),
        (
            order.map(|_| places.order_by),
            "ORDER BY is not allowed (the dial views=extended allows it with TOP)",
        ),
        (query.offset_limit.as_ref().map(|_| places.offset_limit), "OFFSET is not allowed"),
    ];
    for (place, why) in clauses {
        if let Some(place) = place {
            return offence(place, why);
        }
    }
    let Some(source) = query.from.first() else {
        return offence(query.location, "FROM is missing");
    };
    match &source.collection {
        Collection::Path { root, steps, .. }
            if steps.is_empty() && !source.iterate && source.alias.is_none() =>
        {
            Ok(root.clone())
        }
        _ => offence(source.location, "FROM takes one name, the one that the paths begin with"),
    }
}

fn columns(items: &[SelectItem], alias: &str, dialect: Dialect) -> Result<Vec<Column>> {
    let mut names = HashSet::new();
    let mut columns = Vec::with_capacity(items.len());
    for SelectItem { expr, alias: given } in items {
        let Some(steps) = path(expr, alias) else {
            return offence(
                expr.location,
                format!("only paths of property names below '{alias}' are allowed"),
            );
        };
        if given.is_some() && dialect == Dialect::Service {
            let why = "AS is not allowed (the dial views=extended allows it)";
            return offence(expr.location, why);
        }
        let last = steps.last().cloned().unwrap_or_default();
        let name = in_the_view(given.clone().unwrap_or(last));
        if !names.insert(name.clone()) {
            let why = format!("two paths would be called '{name}' in the view");
            return offence(expr.location, why);
        }
        columns.push(Column { steps, name });
    }
    Ok(columns)
}

/// The `id` of a view's item is the server's; that of the source stands under another name.
fn in_the_view(name: Arc<str>) -> Arc<str> {
    if &*name == "id" { super::project::SOURCE_ITEM_ID.into() } else { name }
}

/// The names of a path below the alias; nothing for any other expression.
fn path(expr: &Expr, alias: &str) -> Option<Vec<Arc<str>>> {
    let mut steps = Vec::new();
    let mut at = expr;
    while let ExprKind::Member(base, name) = &at.kind {
        steps.push(name.clone());
        at = base;
    }
    let is_alias = matches!(&at.kind, ExprKind::Identifier(name) if &**name == alias);
    steps.reverse();
    (is_alias && !steps.is_empty()).then_some(steps)
}

/// How many items of a key are copied, and by which order.
fn cap(query: &Query, alias: &str) -> Result<Option<Cap>> {
    let places = &query.places;
    let top = match (&query.top, query.order_by.is_empty()) {
        (None, true) => return Ok(None),
        (None, false) => {
            return offence(places.order_by, "ORDER BY needs TOP: a view has no order");
        }
        (Some(_), true) => return offence(places.top, "TOP needs ORDER BY a path DESC"),
        (Some(top), false) => top,
    };
    let count = match &top.value {
        CountValue::Literal(number) => Value::Number(*number).as_i64(),
        CountValue::Parameter(_) => None,
    };
    let count = count.and_then(|count| usize::try_from(count).ok());
    let Some(count) = count.filter(|count| (1..=VIEW_CAP_MAX).contains(count)) else {
        return offence(places.top, format!("TOP takes a number from 1 to {VIEW_CAP_MAX}"));
    };
    match &query.order_by[..] {
        [OrderItem { expr, descending: true, .. }] => match path(expr, alias) {
            Some(by) => Ok(Some(Cap { count, by })),
            None => offence(expr.location, "ORDER BY takes a path"),
        },
        _ => offence(places.order_by, "ORDER BY takes one path, DESC"),
    }
}

/// The condition of a definition, compiled.
fn condition(query: &Query, filter: &Expr) -> Result<Compiled> {
    let place = filter.location;
    let everything =
        Query { select: Selection::Star(place), top: None, order_by: Vec::new(), ..query.clone() };
    let compiled = compile(&everything, &[], &Schema::none())?;
    if !is_pure(&compiled) {
        return offence(
            place,
            "the condition is not determined by the item: user-defined functions and functions of time and chance are not allowed",
        );
    }
    Ok(compiled)
}

fn offence<T>(place: Location, why: impl AsRef<str>) -> Result<T> {
    let Location { start, end } = place;
    refuse(format!("The definition of the view is refused at {start} to {end}: {}.", why.as_ref()))
}

fn refuse<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::bad_request(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str, dialect: Dialect) -> String {
        ViewDefinition::parse(text, dialect).expect_err(text).to_string()
    }

    #[test]
    fn a_refusal_says_where() {
        let at = |text: &str| {
            let message = refusal(text, Dialect::Service);
            let place = message.split(" at ").nth(1).expect("a place");
            place.split(':').next().expect("a place").to_owned()
        };
        assert_eq!(at("SELECT c.total AS t FROM c"), "7 to 14");
        assert_eq!(at("SELECT c.a, UPPER(c.b) FROM c"), "12 to 22");
        assert_eq!(at("SELECT c.a FROM c WHERE c.b = 1"), "24 to 31");
        assert_eq!(at("SELECT c.a.x, c.b.x FROM c"), "14 to 19");
        assert_eq!(at("SELECT c.id, c._id FROM c"), "13 to 18");
        assert_eq!(at("SELECT c.a FROM c IN c.items"), "16 to 28");
    }

    #[test]
    fn the_dial_allows_conditions_and_names() {
        let accepted = |text| ViewDefinition::parse(text, Dialect::Extended);
        assert!(accepted("SELECT c.a AS b FROM c WHERE c.type = 'post' AND c.n > 3").is_ok());
        let capped =
            accepted("SELECT TOP 100 c.a FROM c WHERE c.b ORDER BY c.at.day DESC").unwrap();
        assert_eq!(capped.cap, Some(Cap { count: 100, by: vec!["at".into(), "day".into()] }));
        assert!(accepted("SELECT * FROM c WHERE EXISTS(SELECT VALUE t FROM t IN c.tags)").is_ok());
        for text in [
            "SELECT * FROM c WHERE udf.f(c.a)",
            "SELECT * FROM c WHERE c.at < GetCurrentTimestamp()",
            "SELECT c.a AS x, c.b AS x FROM c",
            "SELECT c.a AS id, c._id FROM c",
            "SELECT LOWER(c.a) AS x FROM c",
            "SELECT TOP 10 * FROM c",
            "SELECT * FROM c ORDER BY c.at DESC",
            "SELECT TOP 10 * FROM c ORDER BY c.at",
            "SELECT TOP 0 * FROM c ORDER BY c.at DESC",
            "SELECT TOP 1001 * FROM c ORDER BY c.at DESC",
            "SELECT TOP 10 * FROM c ORDER BY LOWER(c.at) DESC",
        ] {
            refusal(text, Dialect::Extended);
        }
    }

    #[test]
    fn both_names_must_agree() {
        let body = |new: &str, old: &str| {
            let definition = |query: &str| {
                Value::object(Object::of([
                    ("sourceCollectionId", "s".into()),
                    (QUERY, query.into()),
                ]))
            };
            Value::object(Object::of([
                ("id", "v".into()),
                (MEMBER, definition(new)),
                (OLD_MEMBER, definition(old)),
            ]))
        };
        let (rest, wish) = Wish::take(&body("SELECT * FROM c", "SELECT * FROM c")).unwrap();
        assert_eq!(rest.to_json(), r#"{"id":"v"}"#);
        assert_eq!(&*wish.unwrap().source, "s");
        assert!(Wish::take(&body("SELECT * FROM c", "SELECT * FROM d")).is_err());
    }
}
