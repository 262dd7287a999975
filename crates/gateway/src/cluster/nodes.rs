//! The seam to the nodes of a cluster: whoever starts a node tells the views of the explorer who else there is.

use armilla_model::value::{Object, Value};

/// What a node does for the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeRole {
    /// It answers, and has every partition.
    Owner,
    /// It keeps a copy of everything, and passes requests on.
    Standby,
}

/// A node that lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    /// Its name.
    pub name: String,
    /// Where others reach it.
    pub address: String,
    /// The version of its program.
    pub version: String,
    /// What it does.
    pub role: NodeRole,
    /// Rows of the journal that its copy lacked when it was last heard of.
    pub rows_behind: u64,
}

/// Tells of the nodes of a cluster.
pub trait Nodes: Send + Sync {
    /// Those that live, as they were last seen, the owner first. Asks nobody.
    fn nodes(&self) -> Vec<NodeFacts>;
}

impl NodeFacts {
    pub(crate) fn shown(self) -> Value {
        let role = match self.role {
            NodeRole::Owner => "owner",
            NodeRole::Standby => "standby",
        };
        Value::object(Object::of([
            ("name", self.name.into()),
            ("address", self.address.into()),
            ("version", self.version.into()),
            ("role", role.into()),
            ("rowsBehind", i64::try_from(self.rows_behind).unwrap_or(i64::MAX).into()),
        ]))
    }
}
