//! Plans as the JSON document clients read. Every field is always there: some clients read them
//! without looking first.

use super::hybrid::{ComponentInfo, HybridInfo};
use super::{DistinctKind, PlanKind, PlanRange, QueryInfo, QueryPlan};
use armilla_model::{Object, Value};

impl QueryPlan {
    /// The plan as a JSON value.
    pub fn to_value(&self) -> Value {
        let mut plan = object([("partitionedQueryExecutionInfoVersion", Value::from(2))]);
        if let PlanKind::Query(info) = &self.kind {
            plan.insert("queryInfo", info.to_value());
        }
        plan.insert("queryRanges", array(self.ranges.iter().map(PlanRange::to_value)));
        if let PlanKind::Hybrid(info) = &self.kind {
            plan.insert("hybridSearchQueryInfo", info.to_value());
        }
        Value::object(plan)
    }
}

impl QueryInfo {
    fn to_value(&self) -> Value {
        let aggregate_types = self.group_aliases.iter().map(|(name, kind)| {
            let kind = kind.map_or(Value::Null, |kind| Value::from(kind.plan_name()));
            (name.clone(), kind)
        });
        let distinct_count = self.distinct_count_alias.as_ref().map_or(Value::Null, |alias| {
            Value::object(object([("dCountAlias", Value::from(alias.as_str()))]))
        });
        Value::object(object([
            ("distinctType", Value::from(self.distinct.name())),
            ("top", count(self.top)),
            ("offset", count(self.offset)),
            ("limit", count(self.limit)),
            ("orderBy", array(self.order_by.iter().map(|(_, descending)| direction(*descending)))),
            ("orderByExpressions", texts(self.order_by.iter().map(|(text, _)| text.as_str()))),
            ("groupByExpressions", texts(self.group_by.iter().map(String::as_str))),
            ("groupByAliases", texts(self.group_aliases.iter().map(|(name, _)| &**name))),
            ("aggregates", texts(self.aggregates.iter().map(|kind| kind.plan_name()))),
            ("groupByAliasToAggregateType", Value::object(aggregate_types.collect())),
            ("rewrittenQuery", Value::from(self.rewritten.as_str())),
            ("hasSelectValue", Value::Bool(self.has_select_value)),
            ("dCountInfo", distinct_count),
            ("hasNonStreamingOrderBy", Value::Bool(self.non_streaming_order)),
        ]))
    }
}

impl HybridInfo {
    fn to_value(&self) -> Value {
        Value::object(object([
            ("globalStatisticsQuery", Value::from(self.statistics_query.as_str())),
            ("componentQueryInfos", array(self.components.iter().map(ComponentInfo::to_value))),
            ("componentWithoutPayloadQueryInfos", Value::array(Vec::new())),
            ("projectionQueryInfo", Value::Null),
            ("componentWeights", array(self.weights.iter().map(|weight| Value::from(*weight)))),
            ("skip", count(self.skip)),
            ("take", count(self.take)),
            ("requiresGlobalStatistics", Value::Bool(self.requires_statistics)),
        ]))
    }
}

impl ComponentInfo {
    fn to_value(&self) -> Value {
        QueryInfo {
            top: self.top,
            offset: self.limit.map(|_| 0),
            limit: self.limit,
            order_by: self.order.iter().cloned().collect(),
            rewritten: self.rewritten.clone(),
            non_streaming_order: self.order.is_some(),
            ..QueryInfo::default()
        }
        .to_value()
    }
}

impl PlanRange {
    fn to_value(&self) -> Value {
        Value::object(object([
            ("min", Value::from(self.min.as_str())),
            ("max", Value::from(self.max.as_str())),
            ("isMinInclusive", Value::Bool(true)),
            ("isMaxInclusive", Value::Bool(self.max_inclusive)),
        ]))
    }
}

impl DistinctKind {
    fn name(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Ordered => "Ordered",
            Self::Unordered => "Unordered",
        }
    }
}

fn object<const N: usize>(members: [(&'static str, Value); N]) -> Object {
    Object::from_unique(members.into_iter().map(|(name, value)| (name.into(), value)).collect())
}

fn array(values: impl Iterator<Item = Value>) -> Value {
    Value::array(values.collect())
}

fn texts<'t>(texts: impl Iterator<Item = &'t str>) -> Value {
    array(texts.map(Value::from))
}

fn count(count: Option<u64>) -> Value {
    count.map_or(Value::Null, |count| Value::from(i64::try_from(count).unwrap_or(i64::MAX)))
}

fn direction(descending: bool) -> Value {
    Value::from(if descending { "Descending" } else { "Ascending" })
}
