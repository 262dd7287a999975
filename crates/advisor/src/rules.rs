//! The rules: a file for each kind of change.

pub(crate) mod capped_list;
pub(crate) mod composite_index;
pub(crate) mod counter;
mod embed;
pub(crate) mod extended_reference;
mod hierarchical_key;
mod index_policy;
mod partition_key;
mod reference;
mod reverse_reference;
pub(crate) mod synthetic_key;
pub(crate) mod throughput;
pub(crate) mod view;

use crate::propose::{Case, Proposal};

/// Everything that the rules put forward.
pub(crate) fn propose(case: &Case<'_>) -> Proposal {
    let mut proposal = Proposal::default();
    extended_reference::propose(case, &mut proposal);
    counter::propose(case, &mut proposal);
    embed::propose(case, &mut proposal);
    reverse_reference::propose(case, &mut proposal);
    reference::propose(case, &mut proposal);
    capped_list::propose(case, &mut proposal);
    index_policy::propose(case, &mut proposal);
    composite_index::propose(case, &mut proposal);
    synthetic_key::propose(case, &mut proposal);
    partition_key::propose(case, &mut proposal);
    hierarchical_key::propose(case, &mut proposal);
    // Behind those that change what a view would copy.
    view::propose(case, &mut proposal);
    proposal
}
