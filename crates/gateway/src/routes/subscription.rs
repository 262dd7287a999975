//! The paths below `/_armilla/subs`.

use super::{ContainerPath, Route};

/// A subscription by its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubscriptionPath<'a> {
    /// Whose feed it reads.
    pub container: ContainerPath<'a>,
    /// Its id or `_rid`.
    pub subscription: &'a str,
}

/// What is below a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriptionPart {
    /// `status`: how far it has come.
    Status,
    /// `pause`.
    Pause,
    /// `resume`.
    Resume,
    /// `rewind`: another position.
    Rewind,
    /// `try`: a dry run.
    Try,
    /// `dead`: entries that were given up.
    DeadLetters,
    /// `redrive`: delivers those again.
    Redrive,
}

/// The route of the segments behind `_armilla/subs`.
pub(super) fn find<'a>(rest: &[&'a str]) -> Option<Route<'a>> {
    let ["dbs", database, "colls", container, behind @ ..] = rest else { return None };
    let container = ContainerPath { database, container };
    Some(match *behind {
        [] => Route::Subscriptions(container),
        [subscription] => Route::Subscription(SubscriptionPath { container, subscription }),
        [subscription, part] => {
            let part = SubscriptionPart::parse(part)?;
            Route::SubscriptionPart(SubscriptionPath { container, subscription }, part)
        }
        _ => return None,
    })
}

impl SubscriptionPart {
    fn parse(segment: &str) -> Option<Self> {
        Some(match segment {
            "status" => Self::Status,
            "pause" => Self::Pause,
            "resume" => Self::Resume,
            "rewind" => Self::Rewind,
            "try" => Self::Try,
            "dead" => Self::DeadLetters,
            "redrive" => Self::Redrive,
            _ => return None,
        })
    }
}
