//! The rows of the benchmark: ten requests of a blog platform in three data models.
//!
//! V1 is normalised, V2 keeps usernames and counters inside posts, V3 keeps short copies of posts keyed by user and by
//! feed. What a later design shares with an earlier one is measured once, which leaves 22 rows.

use std::fmt;

/// A data model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Design {
    V1,
    V2,
    V3,
}

/// What a user of the platform does: `C` writes, `Q` reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// A user signs up, or edits the profile.
    C1,
    /// A post is written or edited.
    C2,
    /// A comment on a post.
    C3,
    /// A like of a post.
    C4,
    /// A user.
    Q1,
    /// A post with its author's name and its counters.
    Q2,
    /// The posts of a user.
    Q3,
    /// The comments of a post.
    Q4,
    /// The likes of a post.
    Q5,
    /// The hundred newest posts.
    Q6,
}

impl Act {
    /// Whether it writes.
    pub(crate) fn writes(self) -> bool {
        matches!(self, Self::C1 | Self::C2 | Self::C3 | Self::C4)
    }

    /// Keeps the choices of one act apart from those of the others.
    pub(crate) fn stream(self) -> u64 {
        self as u64
    }
}

/// One row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) design: Design,
    pub(crate) act: Act,
}

impl Row {
    const fn of(design: Design, act: Act) -> Self {
        Self { design, act }
    }

    /// Whether one exchange answers it. The others ask again with what they have learnt.
    pub(crate) fn is_composed(self) -> bool {
        let normalised = self.design == Design::V1 && !self.act.writes() && self.act != Act::Q1;
        normalised || (self.design, self.act) == (Design::V2, Act::Q6)
    }

    /// Whether it is asked for by a name like `V2.Q4`, `V2` or `Q4`.
    pub(crate) fn is_named(self, name: &str) -> bool {
        let (design, act) = (format!("{:?}", self.design), format!("{:?}", self.act));
        name == design || name == act || name == format!("{design}.{act}")
    }
}

impl fmt::Display for Row {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} {:?}", self.design, self.act)
    }
}

/// All rows. Reads come first, so that every system reads the data as it was made; C2 comes last, because its edits overwrite
/// counters.
pub(crate) const ROWS: [Row; 22] = {
    use Act::{C1, C2, C3, C4, Q1, Q2, Q3, Q4, Q5, Q6};
    use Design::{V1, V2, V3};
    [
        Row::of(V1, Q1),
        Row::of(V1, Q2),
        Row::of(V1, Q3),
        Row::of(V1, Q4),
        Row::of(V1, Q5),
        Row::of(V1, Q6),
        Row::of(V2, Q2),
        Row::of(V2, Q3),
        Row::of(V2, Q4),
        Row::of(V2, Q5),
        Row::of(V2, Q6),
        Row::of(V3, Q1),
        Row::of(V3, Q3),
        Row::of(V3, Q6),
        Row::of(V1, C1),
        Row::of(V1, C3),
        Row::of(V1, C4),
        Row::of(V2, C3),
        Row::of(V2, C4),
        Row::of(V3, C1),
        Row::of(V1, C2),
        Row::of(V2, C2),
    ]
};

/// A container and the property that its partition key is.
pub(crate) struct Collection {
    pub(crate) name: &'static str,
    pub(crate) key: &'static str,
}

/// The containers of all designs. PostgreSQL has a table for each.
pub(crate) const COLLECTIONS: [Collection; 5] = [
    Collection { name: "users", key: "id" },
    Collection { name: "posts_v1", key: "postId" },
    Collection { name: "posts", key: "postId" },
    Collection { name: "users_v3", key: "userId" },
    Collection { name: "feed", key: "type" },
];

/// Where the posts of a design are.
pub(crate) fn posts(design: Design) -> &'static str {
    if design == Design::V1 { "posts_v1" } else { "posts" }
}

/// Where the users of a design are.
pub(crate) fn users(design: Design) -> &'static str {
    if design == Design::V3 { "users_v3" } else { "users" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_named_by_design_act_or_both() {
        let row = Row::of(Design::V2, Act::Q4);
        assert!(["V2", "Q4", "V2.Q4"].iter().all(|name| row.is_named(name)));
        assert!(!row.is_named("V1.Q4") && !row.is_named("V3"));
        assert_eq!(row.to_string(), "V2 Q4");
    }

    #[test]
    fn normalised_reads_and_the_merged_feed_take_several_exchanges() {
        let composed: Vec<_> =
            ROWS.iter().filter(|row| row.is_composed()).map(Row::to_string).collect();
        assert_eq!(composed, ["V1 Q2", "V1 Q3", "V1 Q4", "V1 Q5", "V1 Q6", "V2 Q6"]);
    }
}
