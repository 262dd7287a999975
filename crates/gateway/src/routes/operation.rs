//! Path, method and intent give the operation.

use super::{
    ContainerPath, ItemPath, Route, ScriptKind, ScriptPath, SubscriptionPart, SubscriptionPath,
    UserPath, View,
};
use crate::reply::Subject;
use armilla_model::{Error, Result};
use http::Method;

/// What a client asks for. Names follow the public vocabulary; paths hold names or `_rid`s.
#[allow(missing_docs, reason = "each name says what the protocol's documentation says")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    ListDatabases,
    QueryDatabases,
    CreateDatabase,
    ReadDatabase { database: &'a str },
    DeleteDatabase { database: &'a str },

    ListContainers { database: &'a str },
    QueryContainers { database: &'a str },
    CreateContainer { database: &'a str },
    ReadContainer(ContainerPath<'a>),
    ReplaceContainer(ContainerPath<'a>),
    DeleteContainer(ContainerPath<'a>),
    ReadPartitionKeyRanges(ContainerPath<'a>),

    ListItems(ContainerPath<'a>),
    ReadChangeFeed(ContainerPath<'a>),
    QueryItems(ContainerPath<'a>),
    PlanQuery(ContainerPath<'a>),
    ExecuteBatch(ContainerPath<'a>),
    CreateItem(ContainerPath<'a>),
    UpsertItem(ContainerPath<'a>),
    ReadItem(ItemPath<'a>),
    ReplaceItem(ItemPath<'a>),
    PatchItem(ItemPath<'a>),
    DeleteItem(ItemPath<'a>),
    DeletePartitionKey(ContainerPath<'a>),
    ListAttachments(ItemPath<'a>),

    ListScripts { container: ContainerPath<'a>, kind: ScriptKind },
    QueryScripts { container: ContainerPath<'a>, kind: ScriptKind },
    CreateScript { container: ContainerPath<'a>, kind: ScriptKind, mode: WriteMode },
    ReadScript(ScriptPath<'a>),
    ReplaceScript(ScriptPath<'a>),
    DeleteScript(ScriptPath<'a>),
    ExecuteProcedure(ScriptPath<'a>),

    ListConflicts(ContainerPath<'a>),
    QueryConflicts(ContainerPath<'a>),
    ReadConflict { container: ContainerPath<'a>, conflict: &'a str },
    DeleteConflict { container: ContainerPath<'a>, conflict: &'a str },

    ListUsers { database: &'a str },
    QueryUsers { database: &'a str },
    CreateUser { database: &'a str, mode: WriteMode },
    ReadUser(UserPath<'a>),
    ReplaceUser(UserPath<'a>),
    DeleteUser(UserPath<'a>),

    ListPermissions(UserPath<'a>),
    QueryPermissions(UserPath<'a>),
    CreatePermission { user: UserPath<'a>, mode: WriteMode },
    ReadPermission { user: UserPath<'a>, permission: &'a str },
    ReplacePermission { user: UserPath<'a>, permission: &'a str },
    DeletePermission { user: UserPath<'a>, permission: &'a str },

    ListEncryptionKeys { database: &'a str },
    QueryEncryptionKeys { database: &'a str },
    CreateEncryptionKey { database: &'a str },
    ReadEncryptionKey { database: &'a str, key: &'a str },
    ReplaceEncryptionKey { database: &'a str, key: &'a str },

    ListOffers,
    QueryOffers,
    ReadOffer { rid: &'a str },
    ReplaceOffer { rid: &'a str },

    ReadDials(Option<ContainerPath<'a>>),
    TurnDials(Option<ContainerPath<'a>>),
    ExplainQuery,

    ListSubscriptions(ContainerPath<'a>),
    CreateSubscription(ContainerPath<'a>),
    ReadSubscription(SubscriptionPath<'a>),
    ReplaceSubscription(SubscriptionPath<'a>),
    DeleteSubscription(SubscriptionPath<'a>),
    ReadSubscriptionStatus(SubscriptionPath<'a>),
    PauseSubscription(SubscriptionPath<'a>),
    ResumeSubscription(SubscriptionPath<'a>),
    RewindSubscription(SubscriptionPath<'a>),
    TrySubscription(SubscriptionPath<'a>),
    ListDeadLetters(SubscriptionPath<'a>),
    RedriveDeadLetters(SubscriptionPath<'a>),
    ReadRekey(ContainerPath<'a>),
    BeginRekey(ContainerPath<'a>),
    UndoRekey(ContainerPath<'a>),
    CheckRekey(ContainerPath<'a>),
    SwapRekey(ContainerPath<'a>),

    ReadOverview,
    ReadLanguage,
    CheckQuery,
    ReadShape(ContainerPath<'a>),
    ReadPartitions(ContainerPath<'a>),
    MergePartitions(ContainerPath<'a>),
    PredictWrites(ContainerPath<'a>),
    ReadActivity,
    ListRequests,
    ClearRequests,
    ReadAdvice,
    ListReports,
    ReadReport { name: &'a str },
    WriteReport { name: &'a str },
}

/// Whether a `POST` on a feed may replace what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteMode {
    /// A taken id is a conflict.
    Create,
    /// A taken id is replaced.
    Upsert,
}

/// What the headers add to the method. Booleans, because each is a header of its own; the order in
/// which they count is in [`Operation::find`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Intent {
    /// `x-ms-cosmos-is-query-plan-request`.
    pub query_plan: bool,
    /// `x-ms-cosmos-is-batch-request`.
    pub batch: bool,
    /// `x-ms-documentdb-isquery`, its older spelling, or the content type of a query.
    pub query: bool,
    /// `x-ms-documentdb-is-upsert`.
    pub upsert: bool,
    /// `A-IM` is present.
    pub change_feed: bool,
}

/// The methods of the protocol; `HEAD` reads like `GET`.
#[derive(Clone, Copy)]
enum Verb {
    Get,
    Post,
    Query,
    Put,
    Patch,
    Delete,
}

impl<'a> Operation<'a> {
    /// Finds the operation. Wrong methods on known paths are refused with 405; paths that the
    /// gateway answers by itself have no operation and are refused alike.
    pub fn find(route: Route<'a>, method: &Method, intent: Intent) -> Result<Self> {
        let refused = || {
            Error::MethodNotAllowed(format!("The method {method} is not allowed on this resource."))
        };
        if let Route::Attachment(_) = route {
            return Err(Error::not_found());
        }
        let verb = Verb::of(method, intent).ok_or_else(refused)?;
        Self::lookup(route, verb, intent).ok_or_else(refused)
    }

    fn lookup(route: Route<'a>, verb: Verb, intent: Intent) -> Option<Self> {
        Self::on_containers(route, verb, intent)
            .or_else(|| Self::beside_containers(route, verb, intent))
            .or_else(|| Self::on_subscriptions(route, verb))
            .or_else(|| Self::on_rekeys(route, verb))
    }

    /// Operations on re-keys.
    fn on_rekeys(route: Route<'a>, verb: Verb) -> Option<Self> {
        Some(match (route, verb) {
            (Route::Rekey(path), Verb::Get) => Self::ReadRekey(path),
            (Route::Rekey(path), Verb::Post) => Self::BeginRekey(path),
            (Route::Rekey(path), Verb::Delete) => Self::UndoRekey(path),
            (Route::RekeyCheck(path), Verb::Post) => Self::CheckRekey(path),
            (Route::RekeySwap(path), Verb::Post) => Self::SwapRekey(path),
            _ => return None,
        })
    }

    /// Operations on subscriptions.
    fn on_subscriptions(route: Route<'a>, verb: Verb) -> Option<Self> {
        use SubscriptionPart as P;
        Some(match (route, verb) {
            (Route::Subscriptions(path), Verb::Get) => Self::ListSubscriptions(path),
            (Route::Subscriptions(path), Verb::Post) => Self::CreateSubscription(path),
            (Route::Subscription(path), Verb::Get) => Self::ReadSubscription(path),
            (Route::Subscription(path), Verb::Put) => Self::ReplaceSubscription(path),
            (Route::Subscription(path), Verb::Delete) => Self::DeleteSubscription(path),
            (Route::SubscriptionPart(path, part), verb) => match (part, verb) {
                (P::Status, Verb::Get) => Self::ReadSubscriptionStatus(path),
                (P::Pause, Verb::Post) => Self::PauseSubscription(path),
                (P::Resume, Verb::Post) => Self::ResumeSubscription(path),
                (P::Rewind, Verb::Post) => Self::RewindSubscription(path),
                (P::Try, Verb::Post) => Self::TrySubscription(path),
                (P::DeadLetters, Verb::Get) => Self::ListDeadLetters(path),
                (P::Redrive, Verb::Post) => Self::RedriveDeadLetters(path),
                _ => return None,
            },
            _ => return None,
        })
    }

    /// Operations on databases, containers and what is inside containers.
    #[rustfmt::skip]
    fn on_containers(route: Route<'a>, verb: Verb, intent: Intent) -> Option<Self> {
        let mode = if intent.upsert { WriteMode::Upsert } else { WriteMode::Create };
        Some(match (route, verb) {
            (Route::Databases, Verb::Get) => Self::ListDatabases,
            (Route::Databases, Verb::Query) => Self::QueryDatabases,
            (Route::Databases, Verb::Post) => Self::CreateDatabase,
            (Route::Database(database), Verb::Get) => Self::ReadDatabase { database },
            (Route::Database(database), Verb::Delete) => Self::DeleteDatabase { database },

            (Route::Containers(database), Verb::Get) => Self::ListContainers { database },
            (Route::Containers(database), Verb::Query) => Self::QueryContainers { database },
            (Route::Containers(database), Verb::Post) => Self::CreateContainer { database },
            (Route::Container(path), Verb::Get) => Self::ReadContainer(path),
            (Route::Container(path), Verb::Put) => Self::ReplaceContainer(path),
            (Route::Container(path), Verb::Delete) => Self::DeleteContainer(path),
            (Route::PartitionKeyRanges(path), Verb::Get) => Self::ReadPartitionKeyRanges(path),

            (Route::Items(path), Verb::Get) if intent.change_feed => Self::ReadChangeFeed(path),
            (Route::Items(path), Verb::Get) => Self::ListItems(path),
            (Route::Items(path), Verb::Post | Verb::Query) if intent.query_plan => Self::PlanQuery(path),
            (Route::Items(path), Verb::Post | Verb::Query) if intent.batch => Self::ExecuteBatch(path),
            (Route::Items(path), Verb::Query) => Self::QueryItems(path),
            (Route::Items(path), Verb::Post) if intent.upsert => Self::UpsertItem(path),
            (Route::Items(path), Verb::Post) => Self::CreateItem(path),
            (Route::Item(path), Verb::Get) => Self::ReadItem(path),
            (Route::Item(path), Verb::Put) => Self::ReplaceItem(path),
            (Route::Item(path), Verb::Patch) => Self::PatchItem(path),
            (Route::Item(path), Verb::Delete) => Self::DeleteItem(path),
            (Route::PartitionKeyDelete(path), Verb::Post) => Self::DeletePartitionKey(path),
            (Route::Attachments(path), Verb::Get) => Self::ListAttachments(path),

            (Route::Scripts(container, kind), Verb::Get) => Self::ListScripts { container, kind },
            (Route::Scripts(container, kind), Verb::Query) => Self::QueryScripts { container, kind },
            (Route::Scripts(container, kind), Verb::Post) => Self::CreateScript { container, kind, mode },
            (Route::Script(path), Verb::Get) => Self::ReadScript(path),
            (Route::Script(path), Verb::Put) => Self::ReplaceScript(path),
            (Route::Script(path), Verb::Delete) => Self::DeleteScript(path),
            (Route::Script(path), Verb::Post | Verb::Query) if path.kind == ScriptKind::StoredProcedure => Self::ExecuteProcedure(path),

            (Route::Conflicts(path), Verb::Get) => Self::ListConflicts(path),
            (Route::Conflicts(path), Verb::Query) => Self::QueryConflicts(path),
            (Route::Conflict(container, conflict), Verb::Get) => Self::ReadConflict { container, conflict },
            (Route::Conflict(container, conflict), Verb::Delete) => Self::DeleteConflict { container, conflict },

            _ => return None,
        })
    }

    /// Operations on users and their permissions, encryption keys, throughput and dials.
    #[rustfmt::skip]
    fn beside_containers(route: Route<'a>, verb: Verb, intent: Intent) -> Option<Self> {
        let mode = if intent.upsert { WriteMode::Upsert } else { WriteMode::Create };
        Some(match (route, verb) {
            (Route::Users(database), Verb::Get) => Self::ListUsers { database },
            (Route::Users(database), Verb::Query) => Self::QueryUsers { database },
            (Route::Users(database), Verb::Post) => Self::CreateUser { database, mode },
            (Route::User(path), Verb::Get) => Self::ReadUser(path),
            (Route::User(path), Verb::Put) => Self::ReplaceUser(path),
            (Route::User(path), Verb::Delete) => Self::DeleteUser(path),
            (Route::Permissions(path), Verb::Get) => Self::ListPermissions(path),
            (Route::Permissions(path), Verb::Query) => Self::QueryPermissions(path),
            (Route::Permissions(user), Verb::Post) => Self::CreatePermission { user, mode },
            (Route::Permission(user, permission), Verb::Get) => Self::ReadPermission { user, permission },
            (Route::Permission(user, permission), Verb::Put) => Self::ReplacePermission { user, permission },
            (Route::Permission(user, permission), Verb::Delete) => Self::DeletePermission { user, permission },

            (Route::EncryptionKeys(database), Verb::Get) => Self::ListEncryptionKeys { database },
            (Route::EncryptionKeys(database), Verb::Query) => Self::QueryEncryptionKeys { database },
            (Route::EncryptionKeys(database), Verb::Post) => Self::CreateEncryptionKey { database },
            (Route::EncryptionKey(database, key), Verb::Get) => Self::ReadEncryptionKey { database, key },
            (Route::EncryptionKey(database, key), Verb::Put) => Self::ReplaceEncryptionKey { database, key },

            (Route::Offers, Verb::Get) => Self::ListOffers,
            (Route::Offers, Verb::Query) => Self::QueryOffers,
            (Route::Offer(rid), Verb::Get) => Self::ReadOffer { rid },
            (Route::Offer(rid), Verb::Put) => Self::ReplaceOffer { rid },
            (Route::Dials(container), Verb::Get) => Self::ReadDials(container),
            (Route::Dials(container), Verb::Put) => Self::TurnDials(container),
            (Route::Explain, Verb::Post | Verb::Query) => Self::ExplainQuery,

            (Route::View(View::Overview), Verb::Get) => Self::ReadOverview,
            (Route::View(View::Language), Verb::Get) => Self::ReadLanguage,
            (Route::View(View::Check), Verb::Post | Verb::Query) => Self::CheckQuery,
            (Route::View(View::Shape(path)), Verb::Get) => Self::ReadShape(path),
            (Route::View(View::Partitions(path)), Verb::Get) => Self::ReadPartitions(path),
            (Route::View(View::Merge(path)), Verb::Post) => Self::MergePartitions(path),
            (Route::View(View::Prediction(path)), Verb::Post) => Self::PredictWrites(path),
            (Route::View(View::Activity), Verb::Get) => Self::ReadActivity,
            (Route::View(View::Requests), Verb::Get) => Self::ListRequests,
            (Route::View(View::Requests), Verb::Delete) => Self::ClearRequests,
            (Route::View(View::Advice), Verb::Get) => Self::ReadAdvice,
            (Route::View(View::Reports), Verb::Get) => Self::ListReports,
            (Route::View(View::Report(name)), Verb::Get) => Self::ReadReport { name },
            (Route::View(View::Report(name)), Verb::Put) => Self::WriteReport { name },
            _ => return None,
        })
    }

    /// The container whose items the operation is about; nothing for databases, containers,
    /// scripts and the like.
    pub fn items_of(&self) -> Option<ContainerPath<'a>> {
        use Operation as O;
        match *self {
            O::ListItems(path)
            | O::ReadChangeFeed(path)
            | O::QueryItems(path)
            | O::PlanQuery(path)
            | O::ExecuteBatch(path)
            | O::CreateItem(path)
            | O::UpsertItem(path)
            | O::DeletePartitionKey(path) => Some(path),
            O::ReadItem(path)
            | O::ReplaceItem(path)
            | O::PatchItem(path)
            | O::DeleteItem(path)
            | O::ListAttachments(path) => Some(path.container),
            O::ExecuteProcedure(path) => Some(path.container),
            _ => None,
        }
    }

    /// The operation's name: a word of a fixed list.
    pub fn name(&self) -> &'static str {
        use Operation as O;
        match self {
            O::ListItems(_) => "list_items",
            O::ReadChangeFeed(_) => "change_feed",
            O::QueryItems(_) => "query",
            O::PlanQuery(_) | O::ExplainQuery => "query_plan",
            O::ExecuteBatch(_) => "batch",
            O::CreateItem(_) => "create",
            O::UpsertItem(_) => "upsert",
            O::ReadItem(_) => "read",
            O::ReplaceItem(_) => "replace",
            O::PatchItem(_) => "patch",
            O::DeleteItem(_) => "delete",
            O::DeletePartitionKey(_) => "delete_partition_key",
            O::ExecuteProcedure(_) => "execute",
            operation if operation.is_read() => "metadata_read",
            _ => "metadata_write",
        }
    }

    /// Whether the operation writes items, or may.
    pub fn writes_items(&self) -> bool {
        use Operation as O;
        matches!(
            self,
            O::CreateItem(_)
                | O::UpsertItem(_)
                | O::ReplaceItem(_)
                | O::PatchItem(_)
                | O::DeleteItem(_)
                | O::DeletePartitionKey(_)
                | O::ExecuteBatch(_)
                | O::ExecuteProcedure(_)
        )
    }

    /// Whether the answer's body is one item.
    pub fn is_about_one_item(&self) -> bool {
        use Operation as O;
        matches!(
            self,
            O::CreateItem(_)
                | O::UpsertItem(_)
                | O::ReadItem(_)
                | O::ReplaceItem(_)
                | O::PatchItem(_)
        )
    }

    /// What the operation is about, in the service's words; nothing where no item is concerned.
    pub fn subject(&self) -> Option<Subject> {
        use Operation as O;
        let (resource, operation) = match self {
            O::ListItems(_) | O::ReadChangeFeed(_) => ("Document", "ReadFeed"),
            O::QueryItems(_) => ("Document", "Query"),
            O::PlanQuery(_) => ("Document", "QueryPlan"),
            O::ExecuteBatch(_) => ("Document", "Batch"),
            O::CreateItem(_) => ("Document", "Create"),
            O::UpsertItem(_) => ("Document", "Upsert"),
            O::ReadItem(_) => ("Document", "Read"),
            O::ReplaceItem(_) => ("Document", "Replace"),
            O::PatchItem(_) => ("Document", "Patch"),
            O::DeleteItem(_) => ("Document", "Delete"),
            O::DeletePartitionKey(_) => ("PartitionKey", "Delete"),
            O::ExecuteProcedure(_) => ("StoredProcedure", "ExecuteJavaScript"),
            _ => return None,
        };
        Some(Subject { resource, operation })
    }

    /// Whether the operation is about the server itself: dials, subscriptions, re-keys, and what the explorer shows. Such
    /// requests pay nothing and are not told of.
    pub fn is_about_server(&self) -> bool {
        use Operation as O;
        self.is_view()
            || self.is_on_subscriptions()
            || self.is_on_rekeys()
            || matches!(self, O::ReadDials(_) | O::TurnDials(_) | O::ExplainQuery)
    }

    /// Whether the operation is about re-keys.
    pub(crate) fn is_on_rekeys(&self) -> bool {
        use Operation as O;
        matches!(
            self,
            O::ReadRekey(_)
                | O::BeginRekey(_)
                | O::UndoRekey(_)
                | O::CheckRekey(_)
                | O::SwapRekey(_)
        )
    }

    /// Whether the operation is about subscriptions.
    pub(crate) fn is_on_subscriptions(&self) -> bool {
        use Operation as O;
        matches!(
            self,
            O::ListSubscriptions(_)
                | O::CreateSubscription(_)
                | O::ReadSubscription(_)
                | O::ReplaceSubscription(_)
                | O::DeleteSubscription(_)
                | O::ReadSubscriptionStatus(_)
                | O::PauseSubscription(_)
                | O::ResumeSubscription(_)
                | O::RewindSubscription(_)
                | O::TrySubscription(_)
                | O::ListDeadLetters(_)
                | O::RedriveDeadLetters(_)
        )
    }

    /// Whether the operation is one of what the explorer shows.
    pub(crate) fn is_view(&self) -> bool {
        use Operation as O;
        matches!(
            self,
            O::ReadOverview
                | O::ReadLanguage
                | O::CheckQuery
                | O::ReadShape(_)
                | O::ReadPartitions(_)
                | O::MergePartitions(_)
                | O::PredictWrites(_)
                | O::ReadActivity
                | O::ListRequests
                | O::ClearRequests
                | O::ReadAdvice
                | O::ListReports
                | O::ReadReport { .. }
                | O::WriteReport { .. }
        )
    }

    /// Whether the operation leaves everything as it is: what read-only credentials allow.
    pub fn is_read(&self) -> bool {
        use Operation as O;
        match self {
            O::ListDatabases | O::QueryDatabases | O::ReadDatabase { .. } => true,
            O::ListContainers { .. } | O::QueryContainers { .. } | O::ReadContainer(_) => true,
            O::ReadPartitionKeyRanges(_) => true,
            O::ListItems(_) | O::ReadChangeFeed(_) | O::QueryItems(_) | O::PlanQuery(_) => true,
            O::ReadItem(_) | O::ListAttachments(_) => true,
            O::ListScripts { .. } | O::QueryScripts { .. } | O::ReadScript(_) => true,
            O::ListConflicts(_) | O::QueryConflicts(_) | O::ReadConflict { .. } => true,
            O::ListUsers { .. } | O::QueryUsers { .. } | O::ReadUser(_) => true,
            O::ListEncryptionKeys { .. } | O::QueryEncryptionKeys { .. } => true,
            O::ReadEncryptionKey { .. } => true,
            O::ListOffers | O::QueryOffers | O::ReadOffer { .. } | O::ReadDials(_) => true,
            O::ExplainQuery | O::CheckQuery | O::ReadLanguage | O::PredictWrites(_) => true,
            O::ReadOverview | O::ReadShape(_) | O::ReadPartitions(_) | O::ReadActivity => true,
            O::ListRequests | O::ReadAdvice | O::ListReports | O::ReadReport { .. } => true,
            O::ListSubscriptions(_) | O::ReadSubscription(_) | O::ReadSubscriptionStatus(_) => true,
            O::TrySubscription(_) | O::ListDeadLetters(_) => true,
            O::ReadRekey(_) | O::CheckRekey(_) => true,
            // Permissions carry tokens, which may allow more than their reader is allowed.
            _ => false,
        }
    }

    /// Whether the operation leaves everything as it is, whoever may ask for it: what it answers was read, and is asked again without harm.
    pub fn changes_nothing(&self) -> bool {
        use Operation as O;
        self.is_read()
            || matches!(
                self,
                O::ListPermissions(_) | O::QueryPermissions(_) | O::ReadPermission { .. }
            )
    }
}

impl Verb {
    fn of(method: &Method, intent: Intent) -> Option<Self> {
        Some(match *method {
            Method::GET | Method::HEAD => Self::Get,
            Method::POST if intent.query => Self::Query,
            Method::POST => Self::Post,
            Method::PUT => Self::Put,
            Method::PATCH => Self::Patch,
            Method::DELETE => Self::Delete,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::Segments;

    fn check(method: Method, path: &str, intent: Intent, expected: &str) {
        let segments = Segments::parse(path).unwrap();
        let route = Route::find(&segments).unwrap();
        let found = Operation::find(route, &method, intent);
        let found = found.map_or_else(|error| error.to_string(), |found| format!("{found:?}"));
        assert!(found.starts_with(expected), "{method} {path}: {found}, expected {expected}");
    }

    const ITEMS: &str = "/dbs/d/colls/c/docs";

    #[test]
    fn post_on_items_is_told_apart_in_order() {
        let none = Intent::default();
        let all = Intent { query_plan: true, batch: true, query: true, upsert: true, ..none };
        check(Method::POST, ITEMS, all, "PlanQuery");
        check(Method::POST, ITEMS, Intent { query_plan: false, ..all }, "ExecuteBatch");
        check(Method::POST, ITEMS, Intent { query: true, upsert: true, ..none }, "QueryItems");
        check(Method::POST, ITEMS, Intent { upsert: true, ..none }, "UpsertItem");
        check(Method::POST, ITEMS, none, "CreateItem");
        check(Method::GET, ITEMS, none, "ListItems");
        check(Method::GET, ITEMS, Intent { change_feed: true, ..none }, "ReadChangeFeed");
    }

    #[test]
    fn wrong_methods_are_refused() {
        let none = Intent::default();
        check(Method::PATCH, ITEMS, none, "The method PATCH is not allowed");
        check(Method::POST, "/dbs/d/colls/c/docs/1", none, "The method POST");
        check(Method::POST, "/dbs/d/colls/c/udfs/f", none, "The method POST");
        check(Method::DELETE, "/", none, "The method DELETE");
        check(Method::TRACE, "/dbs", none, "The method TRACE");
    }

    #[test]
    fn reads_are_reads() {
        let segments = Segments::parse(ITEMS).unwrap();
        let route = Route::find(&segments).unwrap();
        let query = Intent { query: true, ..Intent::default() };
        assert!(Operation::find(route, &Method::POST, query).unwrap().is_read());
        assert!(!Operation::find(route, &Method::POST, Intent::default()).unwrap().is_read());
        let permission = Segments::parse("/dbs/d/users/u/permissions/p").unwrap();
        let operation = |method: Method| {
            Operation::find(Route::find(&permission).unwrap(), &method, Intent::default()).unwrap()
        };
        let (read, replaced) = (operation(Method::GET), operation(Method::PUT));
        assert!(!read.is_read() && read.changes_nothing(), "its token may allow more");
        assert!(!replaced.changes_nothing());
    }

    #[test]
    fn head_reads() {
        check(Method::HEAD, "/dbs/d/colls/c/docs/1", Intent::default(), "ReadItem");
        check(Method::HEAD, "/dbs/d/colls/c", Intent::default(), "ReadContainer");
    }
}
