//! Generations: how a new index takes the place of the serving one.
//!
//! A changed policy, a split and a merge all need the same act: *build indexes for some ranges of
//! keys beside the ones that serve, catch up with the writers, switch*. Readers and writers go on
//! all the while; only for the last few entries do the writers of the partitions concerned wait.
//!
//! ```text
//! build     a snapshot's items become terms under the new definition, files, a manifest
//! catch_up  what the logs (`feed`, `gone`) say since, round by round, until little is left
//! switch    the sequencers are held: the queue drains, the last entries are applied, one batch and
//!           one act on the committer's thread put the new indexes in place
//! ```
//!
//! [`build::NewIndex`] is one index in the making. [`open`] takes up the index of a partition when
//! the account opens: the files and the entries above their covered LSN, or all items when the
//! files are lost, damaged or from another time. [`derive`] is what all of them share.

pub(crate) mod build;
pub(crate) mod derive;
pub(crate) mod open;

use crate::computed;
use armilla_model::policy::ContainerPolicy;
use armilla_model::value::Value;
use armilla_sql::functions::EDITION;
use std::sync::Arc;

/// What an index was built for. Every partition of a container serves the same one, except for the
/// moment in which they switch.
#[derive(Debug)]
pub struct IndexDefinition {
    /// Names the index among all that the container ever had: the generation of the definition and,
    /// above [`GENERATION_BITS`], the edition of the functions that made its terms.
    pub id: u64,
    /// The policy that decided what has terms.
    pub policy: ContainerPolicy,
}

/// Bits of an index id that hold the generation.
const GENERATION_BITS: u32 = 32;

impl IndexDefinition {
    /// The index of a policy, given the generation of the definition it came with or the id of an index
    /// for that generation.
    ///
    /// Terms of computed properties are what functions answered when they were written. An index with
    /// such terms has another id when the functions change, so that the files of before are not found
    /// and the index is built anew.
    pub fn new(generation: u64, policy: ContainerPolicy) -> Self {
        let generation = generation & ((1 << GENERATION_BITS) - 1);
        let edition = if computed::are_named(&policy) { u64::from(EDITION) } else { 0 };
        Self { id: generation | edition << GENERATION_BITS, policy }
    }

    /// True when an index under this definition serves a policy as well as a new one would.
    pub fn serves(&self, policy: &ContainerPolicy) -> bool {
        ["indexingPolicy", "computedProperties"]
            .iter()
            .all(|name| is_same(self.policy.definition.get(name), policy.definition.get(name)))
    }
}

/// Whether two values are equal. Copies share what they hold, and every write asks: those are not compared member by member.
fn is_same(one: Option<&Value>, other: Option<&Value>) -> bool {
    match (one, other) {
        (Some(Value::Object(one)), Some(Value::Object(other))) if Arc::ptr_eq(one, other) => true,
        (Some(Value::Array(one)), Some(Value::Array(other))) if Arc::ptr_eq(one, other) => true,
        _ => one == other,
    }
}
