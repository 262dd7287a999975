//! Operations: the service that answers requests from an engine, a file per operation or family.
//!
//! Each operation turns the call into typed values, asks the engine, and names the facts of the
//! answer. Point reads and the staging of small writes run right here on the connection's task;
//! whatever waits for a commit is awaited; what takes its time goes to one of the bounded [`pools`], as
//! [`placement`] says. Writes are let in by [`admission`].

mod addressed;
mod admission;
mod batch;
mod bulk;
mod change_feed;
mod containers;
mod databases;
mod dials;
mod encryption_keys;
mod explain;
mod for_each;
mod items;
mod listing;
mod lone;
mod metered;
mod offers;
mod permissions;
mod placement;
mod pools;
mod query;
mod ranges;
mod rekey;
mod replicas;
mod scripts;
mod subscriptions;
mod transaction;
mod users;
mod views;
mod writes;

use crate::advice::Adviser;
use crate::auth::{Authenticator, PermissionId, Standing};
use crate::cluster::Nodes;
use crate::headers::Consistency;
use crate::hot_keys::HotKeys;
use crate::limits::REQUEST_LOG_ENTRIES;
use crate::metrics::{Metrics, Seconds};
use crate::observed::RequestFeed;
use crate::reply::{FeedBody, FeedKind};
use crate::request_log::RequestLog;
use crate::routes::{ContainerPath, Operation};
use crate::service::{DirectEvent, KeyShare, RangeAddress, RangeState, ServiceFacts};
use crate::wire::{self, permission};
use crate::{Call, Reply, Service};
use addressed::ItemTarget;
use armilla_engine::Account;
use armilla_model::charge::RequestCharge;
use armilla_model::partition_key::PartitionKey;
use armilla_model::{Error, Result, binary_json};
use lone::LoneCommits;
use placement::Place;
use pools::Pools;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use views::Reports;

/// Answers requests from an account.
pub struct EngineService {
    pub(crate) account: Arc<Account>,
    /// Issues the tokens of permissions, which it verifies when they come back.
    pub(crate) authenticator: Arc<Authenticator>,
    /// The account's own level.
    pub(crate) consistency: Consistency,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) pools: Pools,
    /// The last requests.
    pub(crate) requests: Arc<RequestLog>,
    /// The keys that they spend most on.
    pub(crate) hot_keys: Arc<HotKeys>,
    /// The last minutes.
    pub(crate) seconds: Arc<Seconds>,
    /// Reports of labs that were sent here.
    pub(crate) reports: Reports,
    /// Who answers `/_armilla/advice`.
    pub(crate) adviser: Option<Arc<dyn Adviser>>,
    /// Who tells of the nodes of a cluster.
    pub(crate) nodes: Option<Arc<dyn Nodes>>,
    pub(crate) presence: Presence,
    pub(crate) lone: LoneCommits,
}

/// How many requests are being answered.
#[derive(Default)]
pub(crate) struct Presence(AtomicUsize);

impl Presence {
    /// Counts a request until the value is dropped, whether it finished or its client went away.
    fn enter(&self) -> Present<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Present(self)
    }

    /// Whether who asks is the only one.
    pub(crate) fn is_alone(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 1
    }
}

/// A request that is being answered.
struct Present<'p>(&'p Presence);

impl Drop for Present<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl EngineService {
    /// A service over an open account.
    pub fn new(account: Arc<Account>, authenticator: Arc<Authenticator>) -> Self {
        let metrics = Arc::new(Metrics::default());
        account.observe(metrics.observer());
        let (consistency, pools) = (Consistency::Session, Pools::default());
        let requests = Arc::new(RequestLog::new(REQUEST_LOG_ENTRIES));
        Self {
            account,
            authenticator,
            consistency,
            metrics,
            pools,
            requests,
            hot_keys: Arc::default(),
            seconds: Arc::default(),
            reports: Reports::default(),
            adviser: None,
            nodes: None,
            presence: Presence::default(),
            lone: LoneCommits::default(),
        }
    }

    /// The same with another consistency level of the account.
    #[must_use]
    pub fn with_consistency(self, consistency: Consistency) -> Self {
        Self { consistency, ..self }
    }

    /// The same with a log of so many requests.
    #[must_use]
    pub fn with_request_log(self, entries: usize) -> Self {
        Self { requests: Arc::new(RequestLog::new(entries)), ..self }
    }

    /// What requests there were, for whoever observes the workload. Noting more than before begins with this call.
    pub fn request_feed(&self) -> RequestFeed {
        RequestFeed::new(self.requests.clone())
    }

    /// The same with somebody who answers `/_armilla/advice`.
    #[must_use]
    pub fn with_adviser(self, adviser: Arc<dyn Adviser>) -> Self {
        Self { adviser: Some(adviser), ..self }
    }

    /// The same as one of several nodes.
    #[must_use]
    pub fn with_nodes(self, nodes: Arc<dyn Nodes>) -> Self {
        Self { nodes: Some(nodes), ..self }
    }

    /// The same with a history of its activity, which a thread looks after.
    #[must_use]
    pub fn with_history(self) -> Self {
        self.seconds.start(&self.metrics, &self.account);
        self
    }

    /// Runs work on the catalog, which waits on its thread.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Account) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let account = self.account.clone();
        self.pools.catalog.run(move || work(&account)).await
    }

    /// Runs a query, a list or a feed that takes its time.
    pub(crate) async fn reading<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.pools.reads.run(work).await
    }

    /// Runs work on a body of so many bytes: here if that is quick, else on the pool of writes.
    pub(crate) async fn staging<T: Send + 'static>(
        &self,
        body_bytes: usize,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        match placement::of_staging(body_bytes) {
            Place::Here => work(),
            Place::Pool => self.pools.writes.run(work).await,
        }
    }
}

impl Service for EngineService {
    async fn call(&self, call: Call<'_>) -> Reply {
        let _present = self.presence.enter();
        let reply = match call.operation {
            Operation::ExplainQuery => Box::pin(explain::answer(self, call)).await,
            _ => metered::call(self, call).await,
        };
        if let Some(latency) = self.account.latency() {
            tokio::time::sleep(latency).await;
        }
        reply
    }

    fn facts(&self) -> ServiceFacts {
        let features = [
            ("advice", self.adviser.is_some()),
            ("nodes", self.nodes.is_some()),
            ("requestLog", self.requests.capacity() > 0),
            ("serverless", self.account.is_serverless()),
        ];
        let features = features.into_iter().filter(|(_, is_on)| *is_on).map(|(name, _)| name);
        let throttle = Some(self.account.dials().throttle.name());
        ServiceFacts { throttle, features: features.collect() }
    }

    fn range_state(&self, address: &RangeAddress<'_>) -> RangeState {
        replicas::state(self, address)
    }

    fn key_share(&self, address: &RangeAddress<'_>, key: &PartitionKey) -> KeyShare {
        replicas::key_share(self, address, key)
    }

    fn ranges(&self, _slice: u32, path: ContainerPath<'_>) -> Result<Vec<u32>> {
        let container = self.account.container(path.database, path.container);
        let container = container.map_err(|_| Error::parent_not_found())?;
        Ok(container.partitions().iter().map(|partition| partition.range.id).collect())
    }

    fn count_direct(&self, event: DirectEvent) {
        self.metrics.count_direct(event);
    }

    fn metrics(&self) -> Option<String> {
        Some(self.metrics.text(&self.account))
    }
}

impl Standing for EngineService {
    fn container_rid(&self, path: ContainerPath<'_>) -> Option<String> {
        let container = self.account.container(path.database, path.container).ok()?;
        Some(container.rid_text.to_string())
    }

    fn permission_stands(&self, id: &PermissionId) -> bool {
        permission::find(&self.account.catalog(), id).is_some()
    }
}

impl EngineService {
    /// Turns a binary body into text, which is what all operations read.
    async fn decode(&self, call: &mut Call<'_>) -> Result<()> {
        if binary_json::is_binary(&call.body) {
            let binary = call.body.clone();
            let text = move || binary_json::to_text(&binary);
            call.body = Box::pin(self.staging(call.body.len(), text)).await?.into();
        }
        Ok(())
    }

    /// Does the work of a request.
    async fn perform(&self, call: Call<'_>, target: Option<ItemTarget>) -> Reply {
        let outcome = match target {
            Some(target) => self.perform_on_items(&call, target).await,
            None => Box::pin(self.perform_on_resources(&call)).await,
        };
        match outcome {
            Ok(reply) if call.context.binary_only && call.operation.is_about_one_item() => {
                reply.in_binary().about(call.operation.subject())
            }
            Ok(reply) => reply.about(call.operation.subject()),
            Err(error) => refused(&call.operation, error),
        }
    }

    /// What is about items.
    // What waits is in a box of its own. A future is as large as the largest of its parts and is
    // moved on its way to the connection; point reads would be copying most of their time.
    async fn perform_on_items(&self, call: &Call<'_>, target: ItemTarget) -> Result<Reply> {
        match call.operation {
            Operation::ReadItem(path) => items::read(call, &target, path.item),
            Operation::CreateItem(_) => Box::pin(writes::create(self, call, target)).await,
            Operation::UpsertItem(_) => Box::pin(writes::upsert(self, call, target)).await,
            Operation::ReplaceItem(path) => {
                Box::pin(writes::replace(self, call, target, path.item)).await
            }
            Operation::PatchItem(path) => {
                Box::pin(writes::patch(self, call, target, path.item)).await
            }
            Operation::DeleteItem(path) => {
                Box::pin(writes::delete(self, call, target, path.item)).await
            }
            Operation::DeletePartitionKey(_) => {
                Box::pin(writes::delete_partition(self, target)).await
            }
            Operation::ExecuteBatch(_) => Box::pin(batch::run(self, call, target)).await,
            Operation::ListItems(_) => Box::pin(listing::list(self, call, target)).await,
            Operation::ReadChangeFeed(_) => Box::pin(change_feed::read(self, call, target)).await,
            Operation::QueryItems(_) => Box::pin(query::query(self, call, target)).await,
            Operation::PlanQuery(_) => Box::pin(query::plan(self, call, target)).await,
            Operation::ListAttachments(_) => {
                Ok(Reply::feed(FeedBody::new(FeedKind::Attachments, "")))
            }
            Operation::ExecuteProcedure(path) => {
                Box::pin(scripts::execute(self, call, target, path.script)).await
            }
            _ => Err(wire::misrouted(call)),
        }
    }

    /// What is about databases, containers, scripts, users, offers and dials.
    async fn perform_on_resources(&self, call: &Call<'_>) -> Result<Reply> {
        use Operation as O;
        match call.operation {
            O::ListDatabases
            | O::QueryDatabases
            | O::CreateDatabase
            | O::ReadDatabase { .. }
            | O::DeleteDatabase { .. } => databases::answer(self, call).await,

            O::ListContainers { .. }
            | O::QueryContainers { .. }
            | O::CreateContainer { .. }
            | O::ReadContainer(_)
            | O::ReplaceContainer(_)
            | O::DeleteContainer(_)
            | O::ListConflicts(_)
            | O::QueryConflicts(_)
            | O::ReadConflict { .. }
            | O::DeleteConflict { .. } => containers::answer(self, call).await,
            O::ReadPartitionKeyRanges(container) => ranges::read(self, call, container),

            O::ListScripts { .. }
            | O::QueryScripts { .. }
            | O::CreateScript { .. }
            | O::ReadScript(_)
            | O::ReplaceScript(_)
            | O::DeleteScript(_) => scripts::answer(self, call).await,

            O::ListUsers { .. }
            | O::QueryUsers { .. }
            | O::CreateUser { .. }
            | O::ReadUser(_)
            | O::ReplaceUser(_)
            | O::DeleteUser(_) => users::answer(self, call).await,
            O::ListPermissions(_)
            | O::QueryPermissions(_)
            | O::CreatePermission { .. }
            | O::ReadPermission { .. }
            | O::ReplacePermission { .. }
            | O::DeletePermission { .. } => permissions::answer(self, call).await,

            O::ListOffers | O::QueryOffers | O::ReadOffer { .. } | O::ReplaceOffer { .. } => {
                offers::answer(self, call).await
            }
            O::ExplainQuery => explain::plan(self, call).await,
            _ if call.operation.is_view() => views::answer(self, call).await,
            _ if call.operation.is_on_rekeys() => rekey::answer(self, call).await,
            _ if call.operation.is_on_subscriptions() => subscriptions::answer(self, call).await,
            O::ReadDials(container) => dials::read(self, container),
            O::TurnDials(container) => dials::turn(self, call, container).await,

            O::ListEncryptionKeys { .. }
            | O::QueryEncryptionKeys { .. }
            | O::CreateEncryptionKey { .. }
            | O::ReadEncryptionKey { .. }
            | O::ReplaceEncryptionKey { .. } => encryption_keys::answer(self, call).await,
            _ => Err(wire::misrouted(call)),
        }
    }
}

/// The answer to an operation that was refused.
fn refused(operation: &Operation<'_>, error: Error) -> Reply {
    Reply::error(error).charge(RequestCharge::ONE).about(operation.subject())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_future<'a, F>(_: fn(&'a EngineService, Call<'a>) -> F) -> usize {
        size_of::<F>()
    }

    fn size_of_work<'a, F>(_: fn(&'a EngineService, Call<'a>, Option<ItemTarget>) -> F) -> usize {
        size_of::<F>()
    }

    /// The future of a request is moved several times before it is polled.
    #[test]
    fn futures_of_requests_stay_small() {
        let performing = size_of_work(EngineService::perform);
        let metered = size_of_future(metered::call);
        assert!(performing <= 2 * size_of::<Call<'_>>() + 1024, "{performing}");
        assert!(metered <= 4 * size_of::<Call<'_>>() + 2048, "{metered}");
    }
}
