//! A service that begins when its node takes the account over, and whose answers count while the lease is held.

use crate::auth::{PermissionId, Standing};
use crate::limits::{LEASE_LOOK_EVERY, LEASE_RETRY_AFTER};
use crate::reply::Reply;
use crate::routes::ContainerPath;
use crate::service::{
    Call, DirectEvent, KeyShare, RangeAddress, RangeState, Service, ServiceFacts,
};
use armilla_model::Error;
use armilla_model::partition_key::PartitionKey;
use http::StatusCode;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::time::timeout;

/// Tells whether this node holds its lease now.
type HoldsLease = Arc<dyn Fn() -> bool + Send + Sync>;

/// The service of a node that may come to own the account. Clones are the same service.
pub struct LateService<S> {
    service: Arc<OnceLock<S>>,
    holds_lease: HoldsLease,
    gate: Arc<Gate>,
}

impl<S> Clone for LateService<S> {
    fn clone(&self) -> Self {
        let (service, gate) = (Arc::clone(&self.service), Arc::clone(&self.gate));
        Self { service, holds_lease: Arc::clone(&self.holds_lease), gate }
    }
}

/// Who is inside while the account is handed over. Whoever enters is counted before it looks whether the gate is shut, so that nobody is
/// inside and not counted once it is.
#[derive(Default)]
struct Gate {
    is_shut: AtomicBool,
    inside: AtomicUsize,
}

impl Gate {
    fn enter(&self) -> Option<Inside<'_>> {
        self.inside.fetch_add(1, Ordering::SeqCst);
        let inside = Inside(self);
        (!self.is_shut()).then_some(inside)
    }

    fn is_shut(&self) -> bool {
        self.is_shut.load(Ordering::SeqCst)
    }
}

/// One request, which is inside until this is dropped.
struct Inside<'a>(&'a Gate);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

impl<S: Service> LateService<S> {
    /// A service that has not begun.
    pub fn new(holds_lease: HoldsLease) -> Self {
        Self { service: Arc::default(), holds_lease, gate: Arc::default() }
    }

    /// Lets nobody in any more: the account is handed over.
    pub fn shut(&self) {
        self.gate.is_shut.store(true, Ordering::SeqCst);
    }

    /// Requests that are being answered.
    #[must_use]
    pub fn inside(&self) -> usize {
        self.gate.inside.load(Ordering::SeqCst)
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
        let Some(_inside) = self.gate.enter() else {
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

    fn is_here(&self) -> bool {
        self.service.get().is_some() && !self.gate.is_shut() && (self.holds_lease)()
    }

    fn facts(&self) -> ServiceFacts {
        self.service.get().map(Service::facts).unwrap_or_default()
    }

    fn range_state(&self, address: &RangeAddress<'_>) -> RangeState {
        match self.service.get() {
            Some(service) if self.is_here() => service.range_state(address),
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

    /// Where the account is elsewhere nobody knows, and nothing is served: whoever comes with a permission is sent to the owner, which looks.
    fn permission_stands(&self, permission: &PermissionId) -> bool {
        match self.service.get() {
            Some(service) if self.is_here() => service.permission_stands(permission),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn who_is_inside_when_the_gate_is_shut_is_counted_and_nobody_else_gets_in() {
        let late = LateService::<Nothing>::new(Arc::new(|| true));
        late.begin(Nothing);
        let inside = late.gate.enter();
        assert!(inside.is_some());
        late.shut();
        assert!(late.gate.enter().is_none());
        assert_eq!(late.inside(), 1);
        drop(inside);
        assert_eq!(late.inside(), 0);
        let address = RangeAddress { container_rid: "x", range: 0, range_text: "0", named: None };
        assert_eq!(late.range_state(&address), RangeState::Elsewhere);
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
