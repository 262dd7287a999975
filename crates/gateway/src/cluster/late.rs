//! A service that begins when its node takes the account over, and whose answers count while the lease is held.

use crate::auth::{PermissionId, Standing};
use crate::limits::{LEASE_LOOK_EVERY, LEASE_RETRY_AFTER};
use crate::reply::Reply;
use crate::routes::ContainerPath;
use crate::service::{Call, DirectEvent, KeyShare, RangeAddress, RangeState, Service};
use armilla_model::Error;
use armilla_model::partition_key::PartitionKey;
use http::StatusCode;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use tokio::time::timeout;

/// Tells whether this node holds its lease now.
type HoldsLease = Arc<dyn Fn() -> bool + Send + Sync>;

/// The service of a node that may come to own the account. Clones are the same service.
pub struct LateService<S> {
    service: Arc<OnceLock<S>>,
    holds_lease: HoldsLease,
}

impl<S> Clone for LateService<S> {
    fn clone(&self) -> Self {
        Self { service: Arc::clone(&self.service), holds_lease: Arc::clone(&self.holds_lease) }
    }
}

impl<S: Service> LateService<S> {
    /// A service that has not begun.
    pub fn new(holds_lease: HoldsLease) -> Self {
        Self { service: Arc::default(), holds_lease }
    }

    /// Begins. Only the first word counts.
    pub fn begin(&self, service: S) {
        let _already_begun = self.service.set(service);
    }

    /// What may be said at the end of a request. The lease is looked at now, after the answer was made: another node may have taken the
    /// account over meanwhile, and then everything that was read is old.
    fn judge(&self, reply: Reply, is_read: bool) -> Reply {
        if (self.holds_lease)() {
            return reply;
        }
        match reply.status() {
            // It is in the ledger, which only the owner could write to.
            status if !is_read && status.is_success() && status != StatusCode::MULTI_STATUS => {
                reply
            }
            // Some of its operations may be done.
            StatusCode::MULTI_STATUS => Reply::error(unknown_outcome()),
            _ => Reply::error(Error::Overloaded { retry_after: LEASE_RETRY_AFTER }),
        }
    }
}

/// A write of which nobody can say whether it was done.
pub(super) fn unknown_outcome() -> Error {
    Error::Timeout(
        "The answer did not come in time: the request may have been done or not. Read before you write again."
            .to_owned(),
    )
}

impl<S: Service> Service for LateService<S> {
    async fn call(&self, call: Call<'_>) -> Reply {
        let Some(service) = self.service.get() else {
            return Reply::error(Error::Overloaded { retry_after: LEASE_RETRY_AFTER });
        };
        if call.operation.is_read() {
            return self.judge(service.call(call).await, true);
        }
        let mut answer = pin!(service.call(call));
        loop {
            match timeout(LEASE_LOOK_EVERY, answer.as_mut()).await {
                Ok(reply) => return self.judge(reply, false),
                // It waits for a ledger that is away, and nobody knows for how long.
                Err(_) if !(self.holds_lease)() => return Reply::error(unknown_outcome()),
                Err(_) => {}
            }
        }
    }

    fn range_state(&self, address: &RangeAddress<'_>) -> RangeState {
        match self.service.get() {
            Some(service) if (self.holds_lease)() => service.range_state(address),
            _ => RangeState::Elsewhere,
        }
    }

    fn key_share(&self, address: &RangeAddress<'_>, key: &PartitionKey) -> KeyShare {
        self.service.get().map_or(KeyShare::Whole, |service| service.key_share(address, key))
    }

    fn ranges(&self, container: ContainerPath<'_>) -> Option<Vec<u32>> {
        self.service.get()?.ranges(container)
    }

    fn count_direct(&self, event: DirectEvent) {
        if let Some(service) = self.service.get() {
            service.count_direct(event);
        }
    }

    fn metrics(&self) -> Option<String> {
        self.service.get()?.metrics()
    }
}

impl<S: Service> Standing for LateService<S> {
    fn container_rid(&self, path: ContainerPath<'_>) -> Option<String> {
        self.service.get()?.container_rid(path)
    }

    fn permission_stands(&self, permission: &PermissionId) -> bool {
        self.service.get().is_some_and(|service| service.permission_stands(permission))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    struct Nothing;

    impl Service for Nothing {
        async fn call(&self, _call: Call<'_>) -> Reply {
            Reply::ok("{}")
        }
    }

    impl Standing for Nothing {}

    #[test]
    fn without_the_lease_only_finished_writes_are_told() {
        let holds = Arc::new(AtomicBool::new(true));
        let asked = Arc::clone(&holds);
        let late = LateService::<Nothing>::new(Arc::new(move || asked.load(Ordering::Relaxed)));
        let status = |reply: Reply, is_read| late.judge(reply, is_read).status().as_u16();
        let not_found = || Reply::error(Error::not_found());
        assert_eq!(status(Reply::ok("{}"), true), 200);
        assert_eq!(status(not_found(), true), 404);
        holds.store(false, Ordering::Relaxed);
        assert_eq!(status(Reply::ok("{}"), true), 429, "it may be old");
        assert_eq!(status(not_found(), true), 429, "that may be old, too");
        assert_eq!(status(not_found(), false), 429, "and so may be what a write was refused for");
        assert_eq!(status(Reply::created("{}"), false), 201, "it is in the ledger");
        assert_eq!(status(Reply::new(StatusCode::MULTI_STATUS), false), 408);
    }

    #[tokio::test]
    async fn before_it_begins_nothing_is_here() {
        let late = LateService::new(Arc::new(|| true));
        let address = RangeAddress { container_rid: "x", range: 0, range_text: "0", named: None };
        assert_eq!(late.range_state(&address), RangeState::Elsewhere);
        late.begin(Nothing);
        assert_eq!(late.range_state(&address), RangeState::NoContainer);
    }
}
