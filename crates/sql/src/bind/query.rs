//! The clauses of a query.

use super::checks::split_checks;
use super::{
    Binder, Binding, Clause, Grouping, Mapping, Place, Purpose, Seen, contains_aggregate,
    contains_let, contains_reference, contains_subquery, is_path,
};
use crate::ast::{self, Collection, Count, CountValue, Name, Query, Selection};
use crate::compiled::{
    Aggregation, Compiled, CompiledExpr, Input, Order, OrderKey, PathRef, Projection, Source, Step,
};
use crate::error::Code;
use crate::limits::{GROUP_KEYS_MAX, LIMIT_MAX, PLANNED_LIMIT_MAX, TOP_MAX};

impl Binder<'_> {
    /// Binds a query. Errors come in the order of the service: FROM, WHERE, GROUP BY, ORDER BY, SELECT.
    pub(super) fn query(&mut self, query: &Query, place: Place) -> Compiled {
        let nested = std::mem::replace(&mut self.nested, true);
        let clause = if query.rank { Clause::Ranked } else { Clause::Select };
        let outer_clause = std::mem::replace(&mut self.clause, clause);
        let outer_grouping = self.grouping.take();
        let outer_user_calls = std::mem::take(&mut self.calls_user_functions);
        let outer_groups_are_wrong = std::mem::take(&mut self.groups_are_wrong);
        let outer_aggregate = std::mem::take(&mut self.inside_aggregate);
        let (base, bindings_from) = (self.depth, self.bindings.len());
        self.check_head(query, nested);
        let (input, sources) = self.sources(query, place);
        let arrays = |source: &&Source| !matches!(source, Source::One(_));
        self.multiplies |= place != Place::Top || sources.iter().filter(arrays).count() > 1;
        let filter = query.filter.as_ref().map(|filter| self.filter(filter));
        let keys = self.group_keys(query);
        let (order, aggregation, projection) = if is_aggregated(query) && !query.rank {
            self.aggregation(query, place, keys, (base, bindings_from), nested)
        } else {
            (self.order(query, place, nested), None, self.projection(query))
        };
        self.bindings.truncate(bindings_from);
        self.depth = base;
        self.grouping = outer_grouping;
        self.groups_are_wrong = outer_groups_are_wrong;
        self.inside_aggregate = outer_aggregate;
        (self.clause, self.nested) = (outer_clause, nested);
        let calls_user_functions = self.calls_user_functions;
        self.calls_user_functions |= outer_user_calls;
        let top = query.top.as_ref().and_then(|count| self.count(count, Code::Top, TOP_MAX));
        let (offset, limit) = match &query.offset_limit {
            Some((offset, limit)) => {
                let offset = self.count(offset, Code::Offset, PLANNED_LIMIT_MAX);
                // Clients that merge ask every range for all that they skip and take.
                let is_merged = self.purpose == Purpose::Run && offset == Some(0);
                let largest = if is_merged { LIMIT_MAX } else { PLANNED_LIMIT_MAX };
                (offset, self.count(limit, Code::Limit, largest))
            }
            None => (None, None),
        };
        if nested && query.offset_limit.is_some() {
            let message = "'OFFSET LIMIT' clause is not supported in subqueries.";
            self.error(Code::OffsetInSubquery, message, query.places.offset_limit);
        }
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

    fn check_head(&mut self, query: &Query, nested: bool) {
        if query.top.is_some() && query.offset_limit.is_some() {
            let message = "A TOP cannot be used in the same query or subquery as an OFFSET.";
            self.error(Code::TopWithOffset, message, query.location);
        }
        if query.rank && query.distinct {
            let message = "The DISTINCT keyword is not allowed with the ORDER BY RANK clause.";
            self.error(Code::RankWithDistinct, message, query.places.select);
        }
        if nested && query.top.is_some() {
            let message = "'TOP' is not supported in subqueries.";
            self.error(Code::TopInSubquery, message, query.places.top);
        }
    }

    fn filter(&mut self, filter: &ast::Expr) -> CompiledExpr {
        let clause = if self.clause == Clause::Ranked { Clause::Ranked } else { Clause::Where };
        let outer = std::mem::replace(&mut self.clause, clause);
        let filter = self.expression(filter);
        self.clause = outer;
        filter
    }

    fn sources(&mut self, query: &Query, place: Place) -> (Input, Vec<Source>) {
        let from = &query.from;
        if query.rank {
            self.check_ranked_sources(from);
        }
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
            let alias = source.effective_alias().cloned();
            if let Some(alias) = &alias
                && self.find(alias).is_some()
            {
                let message = format!(
                    "The input set name or alias '{alias}' is specified more than once in the FROM \
                     clause."
                );
                self.error(Code::DuplicateAlias, message, source.alias_location);
            }
            self.bindings.push(Binding {
                is_item: compiled.is_none() && matches!(input, Input::Items),
                mapping: mapping(source),
                joined: position > 0,
                ..Binding::new(alias, self.depth)
            });
            sources.extend(compiled);
        }
        (input, sources)
    }

    fn check_ranked_sources(&mut self, from: &[ast::FromItem]) {
        if let [first, .., last] = from {
            let message = "The JOIN operator is not allowed with the ORDER BY RANK clause.";
            self.error(Code::RankWithJoin, message, first.location.to(last.location));
        }
        for source in from {
            if source.iterate {
                let message = "The FROM clause with the IN operator is not allowed with the ORDER \
                               BY RANK clause.";
                self.error(Code::RankWithIn, message, source.location);
            }
            if let Collection::Query(_) = source.collection {
                let message =
                    "Subqueries in the FROM clause are not allowed with the ORDER BY RANK clause.";
                self.error(Code::RankWithSubquery, message, source.location);
            }
        }
    }

    /// The first source of a query over the container.
    fn first_source(&mut self, source: &ast::FromItem) -> (Input, Option<Source>) {
        let root = |steps| CompiledExpr::Path(PathRef { hops: 0, steps });
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
        }
    }

    fn source(&mut self, source: &ast::FromItem) -> Source {
        let value = match &source.collection {
            Collection::Query(query) => {
                let rows = Box::new(self.query(query, Place::Inner));
                return if source.iterate { Source::EachOfRows(rows) } else { Source::Rows(rows) };
            }
            Collection::Path { root, root_location, steps } => {
                if self.find(root).is_some_and(|binding| binding.hidden) {
                    let place = root_location.to(source.location);
                    self.not_grouped(place);
                }
                self.path(root, compile_steps(steps).into_vec(), *root_location)
            }
        };
        if source.iterate { Source::Each(value) } else { Source::One(value) }
    }

    fn group_keys(&mut self, query: &Query) -> Vec<CompiledExpr> {
        if query.rank && !query.group_by.is_empty() {
            let message = "The GROUP BY clause is not allowed with the ORDER BY RANK clause.";
            self.error(Code::RankWithGroupBy, message, query.places.group_by);
        }
        if query.group_by.len() > GROUP_KEYS_MAX {
            let message = format!("GROUP BY takes at most {GROUP_KEYS_MAX} expressions.");
            self.error(Code::TooLarge, message, query.group_by[GROUP_KEYS_MAX].location);
            self.groups_are_wrong = true;
            return Vec::new();
        }
        query.group_by.iter().map(|key| self.group_key(key)).collect()
    }

    fn group_key(&mut self, key: &ast::Expr) -> CompiledExpr {
        let refusal = if contains_let(key) {
            Some((Code::LetInGroupBy, "LET expressions are not allowed in the GROUP BY clause."))
        } else if contains_aggregate(key) || contains_subquery(key) {
            let message = "Cannot use an aggregate or a subquery in an expression used for the \
                           group by list of a GROUP BY clause.";
            Some((Code::GroupByAggregate, message))
        } else {
            None
        };
        if let Some((code, message)) = refusal {
            self.groups_are_wrong = true;
            return self.wrong(code, message, key.location);
        }
        let errors = self.errors.len();
        let bound = self.expression(key);
        if !contains_reference(key) {
            let message = "Each GROUP BY expression must contain at least one property reference.";
            self.error(Code::GroupByConstant, message, key.location);
        }
        self.groups_are_wrong |= self.errors.len() > errors;
        bound
    }

    /// What stands behind the aggregation: ORDER BY and the select list see groups and not rows.
    fn aggregation(
        &mut self,
        query: &Query,
        place: Place,
        keys: Vec<CompiledExpr>,
        (base, bindings_from): (usize, usize),
        nested: bool,
    ) -> (Order, Option<Aggregation>, Projection) {
        let ungrouped = query.group_by.is_empty();
        let order = if ungrouped { self.order_of_rows(query, place, nested) } else { Order::None };
        self.bindings[bindings_from..].iter_mut().for_each(|binding| binding.hidden = true);
        let row_depth = std::mem::replace(&mut self.depth, base + 1);
        self.grouping = Some(Grouping {
            keys: query.group_by.clone(),
            aggregates: Vec::new(),
            row_depth,
            bindings_from,
        });
        let group_order = self.order_of_groups(query, nested);
        let projection = self.projection(query);
        let aggregates = self.grouping.take().map(|grouping| grouping.aggregates);
        let aggregates = aggregates.unwrap_or_default().into_iter();
        let aggregation = Aggregation {
            keys,
            aggregates: aggregates.map(|(_, aggregate)| aggregate).collect(),
            grouped: !ungrouped,
            order: group_order,
        };
        (order, Some(aggregation), projection)
    }

    /// ORDER BY of groups: only what is grouped, paths below that, and distances from these.
    fn order_of_groups(&mut self, query: &Query, nested: bool) -> Vec<OrderKey> {
        if !query.group_by.is_empty() {
            self.check_order_place(query, nested);
        }
        self.clause = Clause::Order;
        let mut keys = Vec::with_capacity(query.order_by.len());
        for item in &query.order_by {
            if query.group_by.is_empty() {
                if !is_path(&item.expr) {
                    let _bound = self.expression(&item.expr);
                }
                continue;
            }
            let errors = self.errors.len();
            let (key, _) = self.order_key(item);
            let is_slot = is_path(&item.expr) && self.errors.len() == errors;
            if is_slot || matches!(key.expr, CompiledExpr::Call(..)) {
                keys.push(key);
            } else {
                self.orders_by_no_path = true;
            }
        }
        self.clause = Clause::Select;
        keys
    }

    fn projection(&mut self, query: &Query) -> Projection {
        match &query.select {
            Selection::Star(location) => {
                if self.grouping.is_some() && !query.group_by.is_empty() {
                    if !self.groups_are_wrong {
                        let message = "'SELECT *' is not allowed with GROUP BY.";
                        self.error(Code::StarWithGroupBy, message, *location);
                    }
                } else if self.grouping.is_some() {
                    let message = "'SELECT *' is not allowed with aggregate functions.";
                    self.error(Code::StarWithAggregates, message, *location);
                } else if query.from.len() > 1 {
                    let message = "'SELECT *' is only valid with a single input set.";
                    self.error(Code::StarNeedsOneSource, message, *location);
                } else if query.from.is_empty() {
                    // A sub-query without FROM has no members to select.
                    return Projection::Object(Vec::new());
                }
                Projection::Star
            }
            Selection::Value(expr) => Projection::Value(self.expression(expr)),
            Selection::List(items) => {
                let names = output_names(items);
                let exprs: Vec<_> = items.iter().map(|item| self.expression(&item.expr)).collect();
                self.check_output_names(items, &names);
                Projection::Object(names.into_iter().zip(exprs).collect())
            }
        }
    }

    fn check_output_names(&mut self, items: &[ast::SelectItem], names: &[Name]) {
        let mut seen = Seen::new(names.len());
        for (name, item) in names.iter().zip(items) {
            if !seen.insert(name) {
                self.duplicate_property(name, item.expr.location);
            }
        }
    }

    fn count(&mut self, count: &Count, code: Code, largest: u64) -> Option<u64> {
        let number = match &count.value {
            CountValue::Literal(number) => Some(*number),
            CountValue::Parameter(name) => {
                let value = self.parameter(name, count.location)?;
                value.as_number()
            }
        };
        let fits =
            number.and_then(|number| number.as_i64()).and_then(|int| u64::try_from(int).ok());
        let result = fits.filter(|count| *count <= largest);
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
}

/// How the rows of a source lie in documents.
fn mapping(source: &ast::FromItem) -> Mapping {
    let Collection::Query(query) = &source.collection else { return Mapping::Document };
    match &query.select {
        Selection::Star(_) => query.from.first().map_or(Mapping::Nowhere, mapping),
        Selection::Value(expr) if is_path(expr) => Mapping::Document,
        Selection::Value(ast::Expr { kind: ast::ExprKind::Object(members), .. }) => {
            let paths = members.iter().filter(|(_, expr)| is_path(expr));
            Mapping::Members(paths.map(|(name, _)| name.clone()).collect())
        }
        Selection::Value(_) => Mapping::Nowhere,
        Selection::List(items) => {
            let named = output_names(items).into_iter().zip(items);
            Mapping::Members(
                named.filter(|(_, item)| is_path(&item.expr)).map(|(name, _)| name).collect(),
            )
        }
    }
}

/// True when rows are aggregated: GROUP BY, or an aggregate in the SELECT list or in ORDER BY.
pub(crate) fn is_aggregated(query: &Query) -> bool {
    let selected = match &query.select {
        Selection::Star(_) => false,
        Selection::Value(expr) => contains_aggregate(expr),
        Selection::List(items) => items.iter().any(|item| contains_aggregate(&item.expr)),
    };
    selected
        || !query.group_by.is_empty()
        || (!query.rank && query.order_by.iter().any(|item| contains_aggregate(&item.expr)))
}

/// The names of the output members: the alias, the last name of a reference, or `$n`.
pub(crate) fn output_names(items: &[ast::SelectItem]) -> Vec<Name> {
    let mut unnamed = 0;
    let inferred =
        |item: &ast::SelectItem| item.expr.inferred_name().filter(|name| !name.is_empty()).cloned();
    let name = |item: &ast::SelectItem| match item.alias.clone().or_else(|| inferred(item)) {
        Some(name) => name,
        None => {
            unnamed += 1;
            format!("${unnamed}").into()
        }
    };
    items.iter().map(name).collect()
}

fn compile_steps(steps: &[ast::SourceStep]) -> Box<[Step]> {
    let step = |step: &ast::SourceStep| match step {
        ast::SourceStep::Member(name) => Step::Member(name.clone()),
        // An index beyond the address space finds nothing, as any other that is too large.
        ast::SourceStep::Element(index) => {
            Step::Element(usize::try_from(*index).unwrap_or(usize::MAX))
        }
    };
    steps.iter().map(step).collect()
}
