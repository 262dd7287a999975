//! The services of all slices of an account, those that this node owns among them.

use super::LateService;
use super::late::unknown_outcome;
use crate::auth::{PermissionId, Standing};
use crate::limits::{ADOPTION_LOOK_EVERY, ADOPTION_WAIT_MAX, CATALOG_WAIT_MAX, LEASE_RETRY_AFTER};
use crate::reply::Reply;
use crate::routes::ContainerPath;
use crate::service::{
    Call, DirectEvent, KeyShare, RangeAddress, RangeState, Service, ServiceFacts,
};
use arc_swap::ArcSwap;
use armilla_engine::Slice;
use armilla_model::partition_key::PartitionKey;
use armilla_model::{Error, Result};
use http::StatusCode;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::time::{Instant, sleep};

/// Tells how far the slices have the catalog.
pub trait Editions: Send + Sync {
    /// The edition of the first slice, where this node owns it.
    fn first(&self) -> u64;

    /// The edition that every slice has, as far as this node knows.
    fn everywhere(&self) -> u64;

    /// Whether a slice that this node owns is taking over another edition: others may know already that it has it.
    fn is_adopting(&self, slice: u32) -> bool;
}

/// The service of a node that may own some slices of an account. Each slice's [`LateService`] is that of one ownership: the next one gets
/// another. Clones are the same service.
pub struct SlicedService<S> {
    slices: Arc<[ArcSwap<LateService<S>>]>,
    editions: Arc<dyn Editions>,
    /// An edition of the catalog that every slice has.
    settled: Arc<AtomicU64>,
    /// The newest edition that was waited for, and until when.
    pending: Arc<Mutex<Option<(u64, Instant)>>>,
}

impl<S> Clone for SlicedService<S> {
    fn clone(&self) -> Self {
        Self {
            slices: Arc::clone(&self.slices),
            editions: Arc::clone(&self.editions),
            settled: Arc::clone(&self.settled),
            pending: Arc::clone(&self.pending),
        }
    }
}

impl<S: Service> SlicedService<S> {
    /// The services of the slices, in their order.
    pub fn new(slices: Vec<LateService<S>>, editions: Arc<dyn Editions>) -> Self {
        let slices = slices.into_iter().map(ArcSwap::from_pointee).collect();
        Self { slices, editions, settled: Arc::default(), pending: Arc::default() }
    }

    /// Begins another ownership of a slice: what was begun before answers nobody any more.
    pub fn replace(&self, slice: u32, late: LateService<S>) {
        if let Some(place) = self.slices.get(slice as usize) {
            place.store(Arc::new(late));
        }
    }

    fn slice(&self, slice: u32) -> Option<Arc<LateService<S>>> {
        self.slices.get(slice as usize).map(ArcSwap::load_full)
    }

    /// The service of the slice that a range lies in.
    fn slice_of_range(&self, range: u32) -> Option<Arc<LateService<S>>> {
        let count = u32::try_from(self.slices.len()).ok()?;
        self.slice(Slice::of_range(range, count))
    }

    /// The service of some slice that this node owns: all of them know the same catalog.
    fn any_here(&self) -> Option<Arc<LateService<S>>> {
        self.slices.iter().map(ArcSwap::load_full).find(|slice| slice.is_here())
    }

    /// Waits until a slice is not taking over another catalog: a client that was told of it must not meet the one before.
    async fn wait_for_catalog(&self, slice: u32) -> bool {
        let deadline = Instant::now() + CATALOG_WAIT_MAX;
        while self.editions.is_adopting(slice) {
            if Instant::now() >= deadline {
                return false;
            }
            sleep(ADOPTION_LOOK_EVERY).await;
        }
        true
    }

    /// Waits until every slice has the catalog as it is now.
    async fn wait_for_adoption(&self) -> bool {
        let edition = self.editions.first();
        self.wait_for_edition(edition, Instant::now() + ADOPTION_WAIT_MAX).await
    }

    /// Waits until every slice has what an answer tells of the catalog, as long as the client waits that changed it. A slice that has no owner for longer
    /// gets it with its next one, and the catalog is told meanwhile.
    async fn settle_catalog(&self) {
        let edition = self.editions.first();
        if self.settled.load(Ordering::Acquire) >= edition {
            return;
        }
        let deadline = {
            let mut pending = self.pending.lock();
            if pending.is_none_or(|(known, _)| known < edition) {
                *pending = Some((edition, Instant::now() + ADOPTION_WAIT_MAX));
            }
            pending.map_or_else(Instant::now, |(_, deadline)| deadline)
        };
        if self.wait_for_edition(edition, deadline).await {
            self.settled.fetch_max(edition, Ordering::AcqRel);
        }
    }

    async fn wait_for_edition(&self, edition: u64, deadline: Instant) -> bool {
        while self.editions.everywhere() < edition {
            if Instant::now() >= deadline {
                return false;
            }
            sleep(ADOPTION_LOOK_EVERY).await;
        }
        true
    }
}

impl<S: Service> Service for SlicedService<S> {
    async fn call(&self, call: Call<'_>) -> Reply {
        let Some(slice) = self.slice(call.context.slice) else {
            return Reply::error(Error::bad_request("The account has no such slice."));
        };
        if !self.wait_for_catalog(call.context.slice).await {
            return Reply::error(Error::Overloaded { retry_after: LEASE_RETRY_AFTER });
        }
        let is_first = call.context.slice == 0;
        let is_on_catalog = call.operation.items_of().is_none();
        let is_change = is_on_catalog && !call.operation.changes_nothing();
        let reply = slice.call(call).await;
        if is_change && reply.status().is_success() {
            return match self.wait_for_adoption().await {
                true => reply,
                false => Reply::error(unknown_outcome()),
            };
        }
        // Whoever reads of a change, or is refused because of it, may go on to any slice.
        let tells_nothing = reply.status() == StatusCode::TOO_MANY_REQUESTS;
        if is_first && is_on_catalog && !tells_nothing {
            self.settle_catalog().await;
        }
        reply
    }

    /// The first slice has the catalog.
    fn is_here(&self) -> bool {
        self.slice(0).is_some_and(|first| first.is_here())
    }

    async fn settle(&self, slice: u32) -> bool {
        self.wait_for_catalog(slice).await
    }

    fn range_state(&self, address: &RangeAddress<'_>) -> RangeState {
        let slice = self.slice_of_range(address.range);
        slice.map_or(RangeState::Elsewhere, |slice| slice.range_state(address))
    }

    fn key_share(&self, address: &RangeAddress<'_>, key: &PartitionKey) -> KeyShare {
        let slice = self.slice_of_range(address.range);
        slice.map_or(KeyShare::Outside, |slice| slice.key_share(address, key))
    }

    fn ranges(&self, slice: u32, container: ContainerPath<'_>) -> Result<Vec<u32>> {
        let late = self.slice(slice);
        late.ok_or_else(Error::parent_not_found)?.ranges(slice, container)
    }

    fn count_direct(&self, event: DirectEvent) {
        if let Some(slice) = self.any_here() {
            slice.count_direct(event);
        }
    }

    fn facts(&self) -> ServiceFacts {
        self.slice(0).map(|first| first.facts()).unwrap_or_default()
    }

    fn metrics(&self) -> Option<String> {
        self.any_here()?.metrics()
    }
}

impl<S: Service> Standing for SlicedService<S> {
    fn container_rid(&self, path: ContainerPath<'_>) -> Option<String> {
        self.any_here()?.container_rid(path)
    }

    /// As for one slice: where nothing is here, nothing is served, and whoever serves it looks.
    fn permission_stands(&self, permission: &PermissionId) -> bool {
        self.any_here().is_none_or(|slice| slice.permission_stands(permission))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{Access, Principal};
    use crate::headers::RequestContext;
    use crate::routes::Operation;
    use bytes::Bytes;

    struct Nothing;

    impl Service for Nothing {
        async fn call(&self, call: Call<'_>) -> Reply {
            match call.operation {
                Operation::CreateDatabase => Reply::error(Error::conflict()),
                _ => Reply::ok("{}"),
            }
        }
    }

    impl Standing for Nothing {
        fn container_rid(&self, _path: ContainerPath<'_>) -> Option<String> {
            Some("r".to_owned())
        }
    }

    #[derive(Default)]
    struct Counted(AtomicU64);

    impl Editions for Counted {
        fn first(&self) -> u64 {
            3
        }

        fn everywhere(&self) -> u64 {
            self.0.fetch_add(1, Ordering::Relaxed)
        }

        fn is_adopting(&self, slice: u32) -> bool {
            slice == 1
        }
    }

    #[test]
    fn ranges_are_those_of_their_slice() {
        let late = || LateService::<Nothing>::new();
        let sliced = SlicedService::new(vec![late(), late()], Arc::new(Counted::default()));
        let begun = late();
        begun.begin(Nothing, Arc::new(|| true));
        sliced.replace(1, begun.clone());
        let state = |range: u32, range_text| {
            let named = None;
            sliced.range_state(&RangeAddress { container_rid: "x", range, range_text, named })
        };
        assert_eq!(state(2, "2"), RangeState::Elsewhere, "another node has the first slice");
        assert_eq!(state(3, "3"), RangeState::NoContainer, "this one's service was asked");
        let path = ContainerPath { database: "d", container: "c" };
        let status =
            |slice| Reply::error(sliced.ranges(slice, path).unwrap_err()).status().as_u16();
        assert_eq!((status(0), status(1), status(2)), (429, 404, 404));
        begun.shut();
        assert_eq!(state(3, "3"), RangeState::Elsewhere, "it is being handed over");
        assert_eq!(status(1), 429);
    }

    #[tokio::test]
    async fn what_the_first_slice_changed_is_told_when_all_have_it() {
        let late = || LateService::<Nothing>::new();
        let sliced = SlicedService::new(vec![late(), late()], Arc::new(Counted::default()));
        assert!(!sliced.is_here());
        let path = ContainerPath { database: "d", container: "c" };
        assert_eq!(sliced.container_rid(path), None);
        let begun = late();
        begun.begin(Nothing, Arc::new(|| true));
        sliced.replace(1, begun);
        assert_eq!(sliced.container_rid(path).as_deref(), Some("r"));
        assert!(!sliced.is_here(), "the catalog is another node's");
        assert!(sliced.wait_for_catalog(0).await);
        assert!(!sliced.wait_for_catalog(1).await, "it does not come to an end");
        assert!(sliced.wait_for_adoption().await);
        assert_eq!(sliced.editions.everywhere(), 4);
    }

    /// The first slice is at another edition than the rest.
    #[derive(Default)]
    struct Apart {
        first: AtomicU64,
        rest: AtomicU64,
    }

    impl Editions for Apart {
        fn first(&self) -> u64 {
            self.first.load(Ordering::Relaxed)
        }

        fn everywhere(&self) -> u64 {
            self.rest.load(Ordering::Relaxed)
        }

        fn is_adopting(&self, _slice: u32) -> bool {
            false
        }
    }

    async fn asked(sliced: &SlicedService<Nothing>, operation: Operation<'_>, slice: u32) -> u64 {
        let begun = Instant::now();
        let context = &RequestContext { slice, ..RequestContext::default() };
        let (principal, body) = (&Principal::Account(Access::ReadWrite), Bytes::new());
        sliced.call(Call { operation, context, principal, body }).await;
        begun.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn what_others_may_see_of_the_catalog_every_slice_has_but_for_one_without_an_owner() {
        let editions = Arc::new(Apart::default());
        let late = || LateService::<Nothing>::new();
        let sliced = SlicedService::new(vec![late(), late()], editions.clone());
        for slice in 0..2 {
            let begun = late();
            begun.begin(Nothing, Arc::new(|| true));
            sliced.replace(slice, begun);
        }
        let path = ContainerPath { database: "d", container: "c" };
        let (read, item) = (Operation::ReadContainer(path), Operation::ListItems(path));
        assert_eq!(asked(&sliced, read, 0).await, 0, "nothing has changed");
        for (edition, operation) in [(1, read), (2, Operation::CreateDatabase)] {
            editions.first.store(edition, Ordering::Relaxed);
            assert_eq!(asked(&sliced, item, 0).await, 0);
            assert_eq!(asked(&sliced, Operation::ListDatabases, 1).await, 0, "not the catalog's");
            let adopted = async {
                // Pause: on a clock that is stopped, so that it is seen how long the answer waited.
                sleep(std::time::Duration::from_secs(3)).await;
                editions.rest.store(edition, Ordering::Relaxed);
            };
            let (waited, ()) = tokio::join!(asked(&sliced, operation, 0), adopted);
            assert_eq!(waited, 3, "{operation:?}");
        }
        // A slice has no owner: the change is waited for once, and told then.
        editions.first.store(3, Ordering::Relaxed);
        let both = tokio::join!(asked(&sliced, read, 0), asked(&sliced, read, 0));
        assert_eq!(both, (8, 8));
        assert_eq!(asked(&sliced, read, 0).await, 0);
    }
}
