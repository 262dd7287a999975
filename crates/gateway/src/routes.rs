//! Every path of the protocol, on one screen; every operation, on the next.
//!
//! [`Segments`] splits and decodes a path once. [`Route::find`] says which resource the path
//! names; [`Operation::find`] adds the method and the few headers that tell one `POST` from
//! another. Everything borrows from the request.

mod operation;
mod segments;
mod subscription;
mod view;

pub use operation::{Intent, Operation, WriteMode};
pub use segments::{SEGMENTS_MAX, Segments};
pub(crate) use segments::{hex_digit, percent_decode};
pub use subscription::{SubscriptionPart, SubscriptionPath};
pub use view::View;

/// The resource that a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route<'a> {
    /// `/`: the account document.
    Account,
    /// `/dbs`.
    Databases,
    /// `/dbs/{db}`.
    Database(&'a str),
    /// `/dbs/{db}/colls`.
    Containers(&'a str),
    /// `/dbs/{db}/colls/{c}`.
    Container(ContainerPath<'a>),
    /// `…/pkranges`.
    PartitionKeyRanges(ContainerPath<'a>),
    /// `…/docs`.
    Items(ContainerPath<'a>),
    /// `…/docs/{id}`.
    Item(ItemPath<'a>),
    /// `…/docs/{id}/attachments`.
    Attachments(ItemPath<'a>),
    /// `…/docs/{id}/attachments/{a}`.
    Attachment(ItemPath<'a>),
    /// `…/sprocs`, `…/triggers`, `…/udfs`.
    Scripts(ContainerPath<'a>, ScriptKind),
    /// One stored procedure, trigger or user function.
    Script(ScriptPath<'a>),
    /// `…/conflicts`.
    Conflicts(ContainerPath<'a>),
    /// `…/conflicts/{id}`.
    Conflict(ContainerPath<'a>, &'a str),
    /// `…/operations/partitionkeydelete`.
    PartitionKeyDelete(ContainerPath<'a>),
    /// `/dbs/{db}/users`.
    Users(&'a str),
    /// `/dbs/{db}/users/{u}`.
    User(UserPath<'a>),
    /// `…/permissions`.
    Permissions(UserPath<'a>),
    /// `…/permissions/{p}`.
    Permission(UserPath<'a>, &'a str),
    /// `/dbs/{db}/clientencryptionkeys`.
    EncryptionKeys(&'a str),
    /// `/dbs/{db}/clientencryptionkeys/{id}`.
    EncryptionKey(&'a str, &'a str),
    /// `/offers`.
    Offers,
    /// `/offers/{rid}`.
    Offer(&'a str),
    /// `/clientconfigs`: the telemetry switch that the .NET SDK polls.
    ClientConfigs,
    /// `/addresses`: a client in Direct mode.
    Addresses,
    /// `/_explorer/emulator.pem`: the certificate to trust.
    Certificate,
    /// `/metrics`.
    Metrics,
    /// `/_armilla/dials`, and below it a container's.
    Dials(Option<ContainerPath<'a>>),
    /// `/_armilla/explain`.
    Explain,
    /// `/_armilla/session`.
    Session,
    /// `/_armilla/subs/dbs/{db}/colls/{c}`.
    Subscriptions(ContainerPath<'a>),
    /// `…/{id}`.
    Subscription(SubscriptionPath<'a>),
    /// `…/{id}/status` and the like.
    SubscriptionPart(SubscriptionPath<'a>, SubscriptionPart),
    /// `/_armilla/rekey/dbs/{db}/colls/{c}`.
    Rekey(ContainerPath<'a>),
    /// `…/check`.
    RekeyCheck(ContainerPath<'a>),
    /// `…/swap`.
    RekeySwap(ContainerPath<'a>),
    /// `/_armilla/…`: what the explorer shows.
    View(View<'a>),
    /// `/alive`.
    Alive,
    /// `/ready`.
    Ready,
    /// `/status`: both in words.
    Status,
}

/// A container by its two path segments, each a name or a `_rid`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerPath<'a> {
    /// The database's segment.
    pub database: &'a str,
    /// The container's segment.
    pub container: &'a str,
}

/// An item by its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemPath<'a> {
    /// Where it lives.
    pub container: ContainerPath<'a>,
    /// Its id or `_rid`.
    pub item: &'a str,
}

/// A script by its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptPath<'a> {
    /// Where it lives.
    pub container: ContainerPath<'a>,
    /// What it is.
    pub kind: ScriptKind,
    /// Its id or `_rid`.
    pub script: &'a str,
}

/// A user by its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserPath<'a> {
    /// The database's segment.
    pub database: &'a str,
    /// The user's segment.
    pub user: &'a str,
}

/// The three kinds of server-side script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScriptKind {
    /// `sprocs`.
    StoredProcedure,
    /// `triggers`.
    Trigger,
    /// `udfs`.
    UserFunction,
}

impl<'a> Route<'a> {
    /// Finds the resource; nothing when the path belongs to none.
    #[rustfmt::skip]
    pub fn find(segments: &'a Segments<'_>) -> Option<Self> {
        let texts = segments.texts();
        let texts = texts.get(..segments.len())?;
        let route = match *texts {
            [] => Self::Account,
            ["dbs"] => Self::Databases,
            ["dbs", db] => Self::Database(db),
            ["dbs", db, "colls"] => Self::Containers(db),
            ["dbs", db, "users"] => Self::Users(db),
            ["dbs", db, "users", user] => Self::User(UserPath { database: db, user }),
            ["dbs", db, "users", user, "permissions"] => Self::Permissions(UserPath { database: db, user }),
            ["dbs", db, "users", user, "permissions", id] => Self::Permission(UserPath { database: db, user }, id),
            ["dbs", db, "clientencryptionkeys"] => Self::EncryptionKeys(db),
            ["dbs", db, "clientencryptionkeys", id] => Self::EncryptionKey(db, id),
            ["dbs", db, "colls", c, ref rest @ ..] => return in_container(ContainerPath { database: db, container: c }, rest),
            ["offers"] => Self::Offers,
            ["offers", rid] => Self::Offer(rid),
            ["clientconfigs"] => Self::ClientConfigs,
            ["addresses", ..] => Self::Addresses,
            ["_explorer", "emulator.pem"] => Self::Certificate,
            ["metrics"] => Self::Metrics,
            ["_armilla", "dials"] => Self::Dials(None),
            ["_armilla", "dials", "dbs", database, "colls", container] => Self::Dials(Some(ContainerPath { database, container })),
            ["_armilla", "explain"] => Self::Explain,
            ["_armilla", "session"] => Self::Session,
            ["_armilla", "subs", ref rest @ ..] => return subscription::find(rest),
            ["_armilla", "rekey", "dbs", database, "colls", container] => Self::Rekey(ContainerPath { database, container }),
            ["_armilla", "rekey", "dbs", database, "colls", container, "check"] => Self::RekeyCheck(ContainerPath { database, container }),
            ["_armilla", "rekey", "dbs", database, "colls", container, "swap"] => Self::RekeySwap(ContainerPath { database, container }),
            ["_armilla", ref rest @ ..] => return View::find(rest).map(Self::View),
            ["alive"] => Self::Alive,
            ["ready"] => Self::Ready,
            ["status"] => Self::Status,
            _ => return None,
        };
        Some(route)
    }
}

impl<'a> Route<'a> {
    /// The container at or above the resource, if there is one.
    pub fn container(&self) -> Option<ContainerPath<'a>> {
        match *self {
            Self::Container(path)
            | Self::PartitionKeyRanges(path)
            | Self::Items(path)
            | Self::Scripts(path, _)
            | Self::Conflicts(path)
            | Self::Conflict(path, _)
            | Self::Subscriptions(path)
            | Self::Rekey(path)
            | Self::RekeyCheck(path)
            | Self::RekeySwap(path)
            | Self::PartitionKeyDelete(path) => Some(path),
            Self::Subscription(path) | Self::SubscriptionPart(path, _) => Some(path.container),
            Self::Item(path) | Self::Attachments(path) | Self::Attachment(path) => {
                Some(path.container)
            }
            Self::Script(path) => Some(path.container),
            _ => None,
        }
    }
}

#[rustfmt::skip]
fn in_container<'a>(container: ContainerPath<'a>, rest: &[&'a str]) -> Option<Route<'a>> {
    Some(match *rest {
        [] => Route::Container(container),
        ["docs"] => Route::Items(container),
        ["docs", item] => Route::Item(ItemPath { container, item }),
        ["docs", item, "attachments"] => Route::Attachments(ItemPath { container, item }),
        ["docs", item, "attachments", _] => Route::Attachment(ItemPath { container, item }),
        ["pkranges"] => Route::PartitionKeyRanges(container),
        ["conflicts"] => Route::Conflicts(container),
        ["conflicts", id] => Route::Conflict(container, id),
        ["operations", "partitionkeydelete"] => Route::PartitionKeyDelete(container),
        [kind] => Route::Scripts(container, ScriptKind::parse(kind)?),
        [kind, script] => Route::Script(ScriptPath { container, kind: ScriptKind::parse(kind)?, script }),
        _ => return None,
    })
}

impl ScriptKind {
    fn parse(segment: &str) -> Option<Self> {
        match segment {
            "sprocs" => Some(Self::StoredProcedure),
            "triggers" => Some(Self::Trigger),
            "udfs" => Some(Self::UserFunction),
            _ => None,
        }
    }

    /// The path segment: `sprocs`, `triggers` or `udfs`.
    pub fn segment(self) -> &'static str {
        match self {
            Self::StoredProcedure => "sprocs",
            Self::Trigger => "triggers",
            Self::UserFunction => "udfs",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POSTS: ContainerPath<'_> = ContainerPath { database: "blog", container: "posts" };

    fn check(path: &str, expected: Option<Route<'_>>) {
        let segments = Segments::parse(path).unwrap();
        assert_eq!(Route::find(&segments), expected, "{path}");
    }

    #[test]
    fn paths_of_the_table() {
        check("/", Some(Route::Account));
        check("/dbs", Some(Route::Databases));
        check("/dbs/blog", Some(Route::Database("blog")));
        check("/dbs/blog/colls", Some(Route::Containers("blog")));
        check("/dbs/blog/colls/posts", Some(Route::Container(POSTS)));
        check("/dbs/blog/colls/posts/pkranges", Some(Route::PartitionKeyRanges(POSTS)));
        check("/dbs/blog/colls/posts/docs", Some(Route::Items(POSTS)));
        let item = ItemPath { container: POSTS, item: "p1" };
        check("/dbs/blog/colls/posts/docs/p1", Some(Route::Item(item)));
        check("/dbs/blog/colls/posts/docs/p1/attachments", Some(Route::Attachments(item)));
        check("/dbs/blog/colls/posts/udfs", Some(Route::Scripts(POSTS, ScriptKind::UserFunction)));
        let procedure =
            ScriptPath { container: POSTS, kind: ScriptKind::StoredProcedure, script: "s" };
        check("/dbs/blog/colls/posts/sprocs/s", Some(Route::Script(procedure)));
        check(
            "/dbs/blog/colls/posts/operations/partitionkeydelete",
            Some(Route::PartitionKeyDelete(POSTS)),
        );
        let mary = UserPath { database: "blog", user: "mary" };
        check("/dbs/blog/users/mary/permissions/p", Some(Route::Permission(mary, "p")));
        check("/offers/Xk3c", Some(Route::Offer("Xk3c")));
        check("/_explorer/emulator.pem", Some(Route::Certificate));
        check("/_armilla/subs/dbs/blog/colls/posts", Some(Route::Subscriptions(POSTS)));
        let mail = SubscriptionPath { container: POSTS, subscription: "mail" };
        check("/_armilla/subs/dbs/blog/colls/posts/mail", Some(Route::Subscription(mail)));
        let dead = Route::SubscriptionPart(mail, SubscriptionPart::DeadLetters);
        check("/_armilla/subs/dbs/blog/colls/posts/mail/dead", Some(dead));
        check("/_armilla/subs/dbs/blog/colls/posts/mail/else", None);
        check("/_armilla/rekey/dbs/blog/colls/posts", Some(Route::Rekey(POSTS)));
        check("/_armilla/rekey/dbs/blog/colls/posts/swap", Some(Route::RekeySwap(POSTS)));
        check("/_armilla/rekey/dbs/blog/colls/posts/else", None);
    }

    #[test]
    fn slashes_may_trail_and_double() {
        check("//addresses/", Some(Route::Addresses));
        check("/dbs/blog/colls/posts/docs/", Some(Route::Items(POSTS)));
        check("//dbs//blog/", Some(Route::Database("blog")));
        check("", Some(Route::Account));
    }

    #[test]
    fn unknown_paths_are_nothing() {
        check("/dbs/blog/tables", None);
        check("/dbs/blog/colls/posts/views", None);
        check("/dbs/blog/colls/posts/operations/else", None);
        check("/DBS", None);
        check("/favicon.ico", None);
    }
}
