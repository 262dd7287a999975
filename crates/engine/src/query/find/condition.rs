//! A condition over the paths of one container: what the index can say about it.
//!
//! The same tree exists three times, each time closer to the data: [`Node`] has names of paths and values (the
//! text's), [`Condition`] numbers of paths and spans of encoded values (the container's), and the selector of a
//! part ordinals of its dictionaries.

use crate::container::Container;
use crate::query::find::leaf::Leaf;
use armilla_model::number::Number;
use armilla_model::ordered::read_term;
use armilla_model::policy::ContainerPolicy;
use armilla_model::value::Value;
use armilla_sql::access::Node;

/// A condition over the paths of one container.
#[derive(Clone, Debug)]
pub(in crate::query) enum Condition {
    /// Every item.
    All,
    /// No item.
    Nothing,
    /// Any item may match.
    Unknown,
    /// A test on a path.
    Leaf(Leaf),
    /// All of these.
    And(Vec<Self>),
    /// Any of these.
    Or(Vec<Self>),
}

impl Condition {
    /// Finds the paths of a condition in a container.
    pub(in crate::query) fn resolve(
        node: &Node,
        container: &Container,
        policy: &ContainerPolicy,
    ) -> Self {
        if !policy.indexing.enabled {
            return Self::Unknown;
        }
        let all = |parts: &[Node]| -> Vec<Self> {
            parts.iter().map(|part| Self::resolve(part, container, policy)).collect()
        };
        match node {
            Node::All => Self::All,
            Node::Nothing => Self::Nothing,
            Node::Unknown => Self::Unknown,
            Node::Atom(atom) => {
                Leaf::resolve(atom, container, policy).map_or(Self::Unknown, Self::Leaf)
            }
            Node::And(parts) => {
                let mut conditions = all(parts);
                let composite = Leaf::composite(parts, container, policy);
                conditions.extend(composite.map(Self::Leaf));
                Self::And(conditions)
            }
            Node::Or(parts) => {
                let parts = all(parts);
                let unknown = parts.iter().any(|part| matches!(part, Self::Unknown));
                if unknown { Self::Unknown } else { Self::Or(parts) }
            }
        }
    }

    /// True when the index leaves something out.
    pub(in crate::query) fn is_useful(&self) -> bool {
        match self {
            Self::All | Self::Unknown => false,
            Self::Nothing | Self::Leaf(_) => true,
            Self::And(parts) => parts.iter().any(Self::is_useful),
            Self::Or(parts) => parts.iter().all(Self::is_useful),
        }
    }

    /// True when every document that the index finds meets the condition.
    pub(in crate::query) fn is_exact(&self) -> bool {
        match self {
            Self::All | Self::Nothing => true,
            Self::Unknown => false,
            Self::Leaf(leaf) => leaf.exact && leaf.filter.is_none(),
            Self::And(parts) | Self::Or(parts) => parts.iter().all(Self::is_exact),
        }
    }

    /// True when values are tried one by one.
    pub(in crate::query) fn tries_values(&self) -> bool {
        match self {
            Self::All | Self::Unknown | Self::Nothing => false,
            Self::Leaf(leaf) => leaf.filter.is_some(),
            Self::And(parts) | Self::Or(parts) => parts.iter().any(Self::tries_values),
        }
    }

    /// How many searches in dictionaries it takes, not counting those for paths that choose the
    /// logical partition.
    pub(in crate::query) fn seeks(&self, key_paths: &[u32]) -> u64 {
        match self {
            Self::All | Self::Unknown | Self::Nothing => 0,
            Self::Leaf(leaf) if leaf.path.is_some_and(|path| key_paths.contains(&path)) => 0,
            Self::Leaf(leaf) => leaf.ranges.len() as u64,
            Self::And(parts) | Self::Or(parts) => {
                parts.iter().map(|part| part.seeks(key_paths)).sum()
            }
        }
    }
}

/// The value that an entry of the index stands for; nothing when only the item knows it.
pub(in crate::query) fn known_value(value: armilla_index::Value<'_>) -> Option<Value> {
    let known = read_term(value.bytes).filter(|_| !value.cut)?;
    // From here on an integer and a double of one value are added and printed in different ways.
    let is_large = known.as_number().is_some_and(Number::is_beyond_doubles);
    (!is_large).then_some(known)
}
