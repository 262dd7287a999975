//! The paths below `/_armilla/` that the explorer asks for.

use super::ContainerPath;

/// Something that the explorer shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View<'a> {
    /// `overview`: the account and its containers, in figures.
    Overview,
    /// `language`: keywords and functions of queries.
    Language,
    /// `check`: errors and advice of a query that is not run.
    Check,
    /// `shape/dbs/{db}/colls/{c}`: what a sample of the items looks like.
    Shape(ContainerPath<'a>),
    /// `partitions/dbs/{db}/colls/{c}`: physical partitions and hot keys.
    Partitions(ContainerPath<'a>),
    /// `partitions/dbs/{db}/colls/{c}/merge`.
    Merge(ContainerPath<'a>),
    /// `prediction/dbs/{db}/colls/{c}`: what writes would cost under another definition.
    Prediction(ContainerPath<'a>),
    /// `activity`: requests and units, second by second.
    Activity,
    /// `requests`: the last requests, one by one.
    Requests,
    /// `advice`: what the advisor found.
    Advice,
    /// `lab/reports`.
    Reports,
    /// `lab/reports/{name}`.
    Report(&'a str),
}

impl<'a> View<'a> {
    /// The view of the segments behind `_armilla`.
    pub(super) fn find(rest: &[&'a str]) -> Option<Self> {
        Some(match *rest {
            ["overview"] => Self::Overview,
            ["language"] => Self::Language,
            ["check"] => Self::Check,
            ["shape", "dbs", database, "colls", container] => {
                Self::Shape(ContainerPath { database, container })
            }
            ["partitions", "dbs", database, "colls", container] => {
                Self::Partitions(ContainerPath { database, container })
            }
            ["partitions", "dbs", database, "colls", container, "merge"] => {
                Self::Merge(ContainerPath { database, container })
            }
            ["prediction", "dbs", database, "colls", container] => {
                Self::Prediction(ContainerPath { database, container })
            }
            ["activity"] => Self::Activity,
            ["requests"] => Self::Requests,
            ["advice"] => Self::Advice,
            ["lab", "reports"] => Self::Reports,
            ["lab", "reports", name] => Self::Report(name),
            _ => return None,
        })
    }
}
