//! The clauses of a query.

use super::checks::split_checks;
use super::{Binder, Binding, Grouping, Place, contains_aggregate, contains_subquery};
use crate::ast::{self, Collection, Count, CountValue, Name, Query, Selection};
use crate::compiled::{
    Aggregation, Compiled, Expr, Input, Order, PathRef, Projection, Source, Step,
};
use crate::error::Code;
use crate::limits::{COUNT_MAX, GROUP_KEYS_MAX};
use std::collections::HashSet;

impl Binder<'_> {
    pub(super) fn query(&mut self, query: &Query, place: Place) -> Compiled {
        let outer_grouping = self.grouping.take();
        let outer_user_calls = std::mem::take(&mut self.calls_user_functions);
        let (base, bindings_from) = (self.depth, self.bindings.len());
        let (input, sources) = self.sources(&query.from, place);
        self.check_aliases(&query.from);
        let arrays = |source: &&Source| !matches!(source, Source::One(_));
        self.multiplies |= place != Place::Top || sources.iter().filter(arrays).count() > 1;
        let filter = query.filter.as_ref().map(|filter| self.expression(filter));
        let order = self.order(query, place);
        let (aggregation, projection) = if is_aggregated(query) {
            let (aggregation, projection) = self.aggregation(query, base, bindings_from);
            (Some(aggregation), projection)
        } else {
            (None, self.projection(query))
        };
        self.bindings.truncate(bindings_from);
        self.depth = base;
        self.grouping = outer_grouping;
        let calls_user_functions = self.calls_user_functions;
        self.calls_user_functions |= outer_user_calls;
        let top = query.top.as_ref().and_then(|count| self.count(count, Code::Top));
        let (offset, limit) = match &query.offset_limit {
            Some((offset, limit)) => {
                (self.count(offset, Code::Offset), self.count(limit, Code::Limit))
            }
            None => (None, None),
        };
        let filter = filter.filter(|filter| filter.constant() != Some(&true.into()));
        let checks = split_checks(filter.as_ref(), sources.len());
        Compiled {
            input,
            sources,
            filter,
            checks,
            aggregation,
            projection,
            distinct: query.distinct,
            order,
            top,
            offset: offset.unwrap_or(0),
            limit,
            calls_user_functions,
            multiplies: self.multiplies,
        }
    }

    fn sources(&mut self, from: &[ast::Source], place: Place) -> (Input, Vec<Source>) {
        let mut input = Input::Single;
        let mut sources = Vec::with_capacity(from.len());
        for (position, source) in from.iter().enumerate() {
            let names_container = position == 0 && place == Place::Top;
            let compiled = if names_container {
                let (source_input, source) = self.first_source(source);
                input = source_input;
                source
            } else {
                Some(self.source(source))
            };
            if compiled.is_some() {
                self.depth += 1;
            }
            self.bindings.push(Binding {
                name: source.effective_alias().cloned(),
                depth: self.depth,
                is_item: compiled.is_none() && matches!(input, Input::Items),
                hidden: false,
                lifted: false,
            });
            sources.extend(compiled);
        }
        (input, sources)
    }

    /// The first source of a query over the container.
    fn first_source(&mut self, source: &ast::Source) -> (Input, Option<Source>) {
        let root = |steps| Expr::Path(PathRef { hops: 0, steps });
        match &source.collection {
            Collection::Path { steps, .. } if steps.is_empty() && !source.iterate => {
                (Input::Items, None)
            }
            Collection::Path { steps, .. } => {
                let path = root(compile_steps(steps));
                let source = if source.iterate { Source::Each(path) } else { Source::One(path) };
                (Input::Items, Some(source))
            }
            Collection::Query(query) => {
                let inner = Input::Query(Box::new(self.query(query, Place::Top)));
                (inner, source.iterate.then(|| Source::Each(root(Box::default()))))
            }
            Collection::Call(_) => (Input::Single, Some(self.source(source))),
        }
    }

    fn source(&mut self, source: &ast::Source) -> Source {
        let value = match &source.collection {
            Collection::Query(query) => {
                let rows = Box::new(self.query(query, Place::Inner));
                return if source.iterate { Source::EachOfRows(rows) } else { Source::Rows(rows) };
            }
            Collection::Call(call) => self.expression(call),
            Collection::Path { root, steps } => {
                let steps: Vec<_> = compile_steps(steps).into_vec();
                self.path(root, steps, source.location)
            }
        };
        if source.iterate { Source::Each(value) } else { Source::One(value) }
    }

    fn check_aliases(&mut self, from: &[ast::Source]) {
        for (position, source) in from.iter().enumerate() {
            let Some(alias) = source.effective_alias() else { continue };
            let seen = from[..position].iter().any(|other| other.effective_alias() == Some(alias));
            if seen {
                let message = format!("The input alias '{alias}' is specified more than once.");
                self.error(Code::DuplicateName, message, source.location);
            }
        }
    }

    fn aggregation(
        &mut self,
        query: &Query,
        base: usize,
        bindings_from: usize,
    ) -> (Aggregation, Projection) {
        if let Selection::Star(location) = query.select {
            let message = "'SELECT *' is not allowed with GROUP BY.";
            self.error(Code::StarWithGroupBy, message, location);
        }
        for key in query.group_by.iter().filter(|key| contains_subquery(key)) {
            let message = "A GROUP BY expression cannot contain a subquery.";
            self.error(Code::Unsupported, message, key.location);
        }
        if query.group_by.len() > GROUP_KEYS_MAX {
            let message = format!("GROUP BY takes at most {GROUP_KEYS_MAX} expressions.");
            self.error(Code::TooLarge, message, query.group_by[GROUP_KEYS_MAX].location);
            return (Aggregation::default(), Projection::Star);
        }
        let keys: Vec<_> = query.group_by.iter().map(|key| self.expression(key)).collect();
        self.bindings[bindings_from..].iter_mut().for_each(|binding| binding.hidden = true);
        let row_depth = std::mem::replace(&mut self.depth, base + 1);
        self.grouping = Some(Grouping {
            keys: query.group_by.clone(),
            aggregates: Vec::new(),
            row_depth,
            bindings_from,
        });
        let projection = match &query.select {
            Selection::Star(_) => Projection::Star,
            _ => self.projection(query),
        };
        let grouping = self.grouping.take();
        let aggregates = grouping.map(|grouping| grouping.aggregates).unwrap_or_default();
        let aggregates = aggregates.into_iter().map(|(_, aggregate)| aggregate).collect();
        (Aggregation { keys, aggregates, grouped: !query.group_by.is_empty() }, projection)
    }

    fn projection(&mut self, query: &Query) -> Projection {
        match &query.select {
            Selection::Star(location) => {
                let message = match query.from.len() {
                    0 => "'SELECT *' is not valid if FROM clause is omitted.",
                    1 => return Projection::Star,
                    _ => "'SELECT *' is only valid with a single input set.",
                };
                self.error(Code::StarNeedsOneSource, message, *location);
                Projection::Star
            }
            Selection::Value(expr) => Projection::Value(self.expression(expr)),
            Selection::List(items) => {
                let names = output_names(items);
                self.check_output_names(items, &names);
                let exprs = items.iter().map(|item| self.expression(&item.expr));
                Projection::Object(names.into_iter().zip(exprs.collect::<Vec<_>>()).collect())
            }
        }
    }

    fn check_output_names(&mut self, items: &[ast::SelectItem], names: &[Name]) {
        let mut known = HashSet::with_capacity(names.len());
        for (name, item) in names.iter().zip(items) {
            if !known.insert(name) {
                let message = format!("The output name '{name}' is specified more than once.");
                self.error(Code::DuplicateName, message, item.expr.location);
            }
        }
    }

    fn count(&mut self, count: &Count, code: Code) -> Option<u64> {
        let number = match &count.value {
            CountValue::Literal(number) => Some(*number),
            CountValue::Parameter(name) => {
                let value = self.parameter(name, count.location)?;
                value.as_number()
            }
        };
        let fits =
            number.and_then(|number| number.as_i64()).and_then(|int| u64::try_from(int).ok());
        let result = fits.filter(|count| *count <= COUNT_MAX);
        if result.is_none() {
            let message = match code {
                Code::Top => "The count value provided for a TOP clause must be an integer.",
                Code::Limit => "The LIMIT count value exceeds the maximum allowed value.",
                _ => "The OFFSET count value exceeds the maximum allowed value.",
            };
            self.error(code, message, count.location);
        }
        result
    }

    fn order(&mut self, query: &Query, place: Place) -> Order {
        if query.order_by.is_empty() {
            return Order::None;
        }
        if !query.group_by.is_empty() {
            let message = "'ORDER BY' is not allowed in the presence of 'GROUP BY'.";
            let location = query.order_by[0].expr.location;
            self.error(Code::GroupByWithOrderBy, message, location);
            return Order::None;
        }
        self.order_by(query, place)
    }
}

/// True when rows are aggregated: GROUP BY, or an aggregate in the SELECT list.
pub(crate) fn is_aggregated(query: &Query) -> bool {
    let selected = match &query.select {
        Selection::Star(_) => false,
        Selection::Value(expr) => contains_aggregate(expr),
        Selection::List(items) => items.iter().any(|item| contains_aggregate(&item.expr)),
    };
    selected || !query.group_by.is_empty()
}

/// The names of the output members: the alias, the last name of a reference, or `$n`.
pub(crate) fn output_names(items: &[ast::SelectItem]) -> Vec<Name> {
    let mut unnamed = 0;
    let name = |item: &ast::SelectItem| match item.alias.as_ref().or(item.expr.inferred_name()) {
        Some(name) => name.clone(),
        None => {
            unnamed += 1;
            format!("${unnamed}").into()
        }
    };
    items.iter().map(name).collect()
}

fn compile_steps(steps: &[ast::Step]) -> Box<[Step]> {
    let step = |step: &ast::Step| match step {
        ast::Step::Member(name) => Step::Member(name.clone()),
        // An index beyond the address space finds nothing, as any other that is too large.
        ast::Step::Element(index) => Step::Element(usize::try_from(*index).unwrap_or(usize::MAX)),
    };
    steps.iter().map(step).collect()
}
