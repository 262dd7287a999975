//! Three nodes that somebody looks at: the pictures of several nodes in the docs.

use std::path::Path;

use super::nodes::{Encryption, Nodes};
use crate::Outcome;

/// Where the nodes of an account are, for whoever looks at them.
pub(crate) struct ClusterPlaces {
    /// The nodes, the owner first.
    pub(crate) endpoints: Vec<String>,
    /// The account's key.
    pub(crate) key: String,
    /// The database, as `armilla cluster status` takes it.
    pub(crate) store: String,
}

/// Starts three nodes with further options over a PostgreSQL, has them looked at, and stops them.
pub(crate) fn show(
    binary: &Path,
    options: &[&str],
    look: &dyn Fn(&ClusterPlaces) -> Outcome<()>,
) -> Outcome<()> {
    let options = options.iter().map(|&word| word.to_owned()).collect();
    let mut nodes = Nodes::start(binary, "pictures", Encryption::None, options)?;
    let owner = nodes.owner().ok_or("nobody owns the account")?;
    let others = (0..nodes.len()).filter(|node| *node != owner);
    let endpoints = [owner].into_iter().chain(others).map(|node| nodes.access(node).0);
    let places = ClusterPlaces {
        endpoints: endpoints.collect(),
        key: nodes.access(owner).1,
        store: nodes.postgres.address("pictures"),
    };
    look(&places)?;
    nodes.stop_all()
}
