//! What a client says it can merge, and what a plan needs.

use super::{DistinctKind, HybridInfo, QueryInfo};
use crate::aggregate::AggregateKind;
use crate::compiled::Rank;
use crate::error::{Result, SqlError};
use crate::limits::GROUP_AGGREGATES_MAX;

/// The features of a client, as its header lists them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    names: Option<Vec<String>>,
    lacking: Vec<String>,
}

impl Features {
    /// Every feature: for plans the server makes for itself.
    pub fn all() -> Self {
        Self { names: None, lacking: Vec::new() }
    }

    /// Reads the header: names separated by commas, blanks allowed.
    pub fn parse(header: &str) -> Self {
        let names = header.split(',').map(str::trim).filter(|name| !name.is_empty());
        let names = Some(names.map(str::to_ascii_lowercase).collect());
        Self { names, lacking: Vec::new() }
    }

    /// The same without one feature.
    pub fn without(mut self, feature: &str) -> Self {
        let feature = feature.to_ascii_lowercase();
        match &mut self.names {
            Some(names) => names.retain(|name| *name != feature),
            None => self.lacking.push(feature),
        }
        self
    }

    pub(super) fn has(&self, feature: &str) -> bool {
        let feature = feature.to_ascii_lowercase();
        !self.lacking.contains(&feature)
            && self.names.as_ref().is_none_or(|names| names.contains(&feature))
    }

    fn require(&self, needed: &[(&str, bool)]) -> Result<()> {
        let missing: Vec<_> = needed
            .iter()
            .filter(|(feature, needed)| *needed && !self.has(feature))
            .map(|(feature, _)| {
                format!("Query contained {feature}, which the calling client does not support.")
            })
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(SqlError::refused(format!(
            "Query contains 1 or more unsupported features. Upgrade your SDK to a version that \
             does support the requested features:\r\n{}",
            missing.join("\r\n")
        )))
    }
}

pub(super) fn check(info: &QueryInfo, features: &Features) -> Result<()> {
    let in_list = info.group_aliases.iter().filter_map(|(_, kind)| *kind);
    let aggregates: Vec<_> = info.aggregates.iter().copied().chain(in_list).collect();
    let grouped = !info.group_by.is_empty();
    if grouped && aggregates.len() > GROUP_AGGREGATES_MAX {
        return Err(SqlError::refused(format!(
            "A GROUP BY over several partitions may have at most {GROUP_AGGREGATES_MAX} aggregates."
        )));
    }
    let without_value = !info.group_aliases.is_empty() && !grouped && !aggregates.is_empty();
    // The .NET SDK merges MAKELIST and MAKESET without naming a feature for it.
    features.require(&[
        ("Aggregate", !info.aggregates.is_empty()),
        ("NonValueAggregate", without_value),
        ("MultipleAggregates", aggregates.len() > 1),
        ("GroupBy", grouped),
        ("Distinct", info.distinct != DistinctKind::None && info.distinct_count_alias.is_none()),
        ("DCount", info.distinct_count_alias.is_some()),
        ("OrderBy", !info.order_by.is_empty()),
        ("MultipleOrderBy", info.order_by.len() > 1),
        ("NonStreamingOrderBy", info.non_streaming_order),
        ("Top", info.top.is_some()),
        ("OffsetAndLimit", info.offset.is_some()),
        ("CountIf", aggregates.contains(&AggregateKind::CountIf)),
    ])
}

pub(super) fn check_hybrid(info: &HybridInfo, rank: &Rank, features: &Features) -> Result<()> {
    let weighted = rank.weights.iter().any(|weight| *weight != 1.0);
    features.require(&[
        ("HybridSearch", true),
        ("WeightedRankFusion", weighted),
        ("NonStreamingOrderBy", !info.components.is_empty()),
    ])
}
