//! A service that begins when its node takes the account over, and whose answers count while the lease is held.

use crate::auth::{PermissionId, Standing};
use crate::limits::{FORWARD_ANSWER_WAIT_MAX, LEASE_LOOK_EVERY, LEASE_RETRY_AFTER};
use crate::reply::Reply;
use crate::routes::ContainerPath;
use crate::service::{
    Call, DirectEvent, KeyShare, RangeAddress, RangeState, Service, ServiceFacts,
};
use arc_swap::ArcSwapOption;
use armilla_model::partition_key::PartitionKey;
use armilla_model::{Error, Result};
use http::StatusCode;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::time::{Instant, timeout};

/// Tells whether this node holds its lease now.
type HoldsLease = Arc<dyn Fn() -> bool + Send + Sync>;

/// The service of a node that may come to own the account, and to lose it, and to own it again. Clones are the same service.
pub struct LateService<S> {
    begun: Arc<ArcSwapOption<Begun<S>>>,
    gate: Arc<Gate>,
}

/// One ownership: what answers, and whether that counts.
struct Begun<S> {
    service: S,
    holds_lease: HoldsLease,
}

impl<S> Clone for LateService<S> {
    fn clone(&self) -> Self {
        Self { begun: Arc::clone(&self.begun), gate: Arc::clone(&self.gate) }
    }
}

impl<S> Default for LateService<S> {
    fn default() -> Self {
        Self { begun: Arc::default(), gate: Arc::default() }
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
    #[must_use]
    pub fn new() -> Self {
        Self::default()
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

    /// Begins, with one who tells whether this node holds its lease.
    pub fn begin(&self, service: S, holds_lease: HoldsLease) {
        self.begun.store(Some(Arc::new(Begun { service, holds_lease })));
        self.gate.is_shut.store(false, Ordering::SeqCst);
    }

    /// Ends: nothing of the ownership that is over is kept here. It must have been [shut](Self::shut).
    pub fn end(&self) {
        self.begun.store(None);
    }

    /// Asks the service about something that no answer depends on.
    fn asked<T>(&self, ask: impl FnOnce(&S) -> Option<T>) -> Option<T> {
        ask(&self.begun.load().as_ref()?.service)
    }
}

impl<S: Service> Begun<S> {
    /// What may be said at the end of a request. The lease is looked at now, after the answer was made: another node may have taken the
    /// account over meanwhile, and then everything that was read is old.
    fn judge(&self, reply: Reply, changes_nothing: bool) -> Reply {
        if (self.holds_lease)() {
            return reply;
        }
        let (status, wrote) = (reply.status(), reply.has_written());
        match wrote {
            // It is in the ledger, which only the owner could write to, and so is what it went by.
            Some(true) if status.is_success() => reply,
            // Several transactions may be done, or the catalog changed; and who failed to hear of a commit says so by these.
            None if !changes_nothing
                && (status.is_success()
                    || status.is_server_error()
                    || status == StatusCode::REQUEST_TIMEOUT) =>
            {
                Reply::error(unknown_outcome())
            }
            _ => Reply::error(Error::Overloaded { retry_after: LEASE_RETRY_AFTER }),
        }
    }
}

/// A write of which nobody can say whether it was done.
pub(crate) fn unknown_outcome() -> Error {
    Error::Timeout(
        "The answer did not come in time: the request may have been done or not. Read before you write again."
            .to_owned(),
    )
}

impl<S: Service> Service for LateService<S> {
    async fn call(&self, call: Call<'_>) -> Reply {
        let not_here = || Reply::elsewhere(Error::Overloaded { retry_after: LEASE_RETRY_AFTER });
        let Some(_inside) = self.gate.enter() else { return not_here() };
        let Some(begun) = self.begun.load_full() else { return not_here() };
        if call.operation.changes_nothing() {
            return begun.judge(begun.service.call(call).await, true);
        }
        let mut answer = pin!(begun.service.call(call));
        let end = Instant::now() + FORWARD_ANSWER_WAIT_MAX;
        loop {
            match timeout(LEASE_LOOK_EVERY, answer.as_mut()).await {
                Ok(reply) => return begun.judge(reply, false),
                // It waits for a ledger that is away, or that hears beats and takes no rows, and nobody knows for how long.
                Err(_) if !(begun.holds_lease)() || Instant::now() > end => {
                    return Reply::error(unknown_outcome());
                }
                Err(_) => {}
            }
        }
    }

    fn is_here(&self) -> bool {
        let begun = self.begun.load();
        !self.gate.is_shut() && begun.as_ref().is_some_and(|begun| (begun.holds_lease)())
    }

    fn facts(&self) -> ServiceFacts {
        self.asked(|service| Some(service.facts())).unwrap_or_default()
    }

    fn range_state(&self, address: &RangeAddress<'_>) -> RangeState {
        match self.is_here() {
            true => self.asked(|service| Some(service.range_state(address))),
            false => None,
        }
        .unwrap_or(RangeState::Elsewhere)
    }

    fn key_share(&self, address: &RangeAddress<'_>, key: &PartitionKey) -> KeyShare {
        self.asked(|service| Some(service.key_share(address, key))).unwrap_or(KeyShare::Whole)
    }

    fn ranges(&self, slice: u32, container: ContainerPath<'_>) -> Result<Vec<u32>> {
        match self.is_here() {
            true => self.asked(|service| Some(service.ranges(slice, container))),
            false => None,
        }
        .unwrap_or(Err(Error::Overloaded { retry_after: LEASE_RETRY_AFTER }))
    }

    fn count_direct(&self, event: DirectEvent) {
        if let Some(begun) = &*self.begun.load() {
            begun.service.count_direct(event);
        }
    }

    fn metrics(&self) -> Option<String> {
        self.asked(Service::metrics)
    }
}

impl<S: Service> Standing for LateService<S> {
    fn container_rid(&self, path: ContainerPath<'_>) -> Option<String> {
        self.asked(|service| service.container_rid(path))
    }

    /// Where the account is elsewhere nobody knows, and nothing is served: whoever comes with a permission is sent to the owner, which looks.
    fn permission_stands(&self, permission: &PermissionId) -> bool {
        match self.is_here() {
            true => self.asked(|service| Some(service.permission_stands(permission))),
            false => None,
        }
        .unwrap_or(true)
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
        async fn call(&self, _call: Call<'_>) -> Reply {
            Reply::ok("{}")
        }
    }

    impl Standing for Nothing {}

    #[test]
    fn without_the_lease_only_what_was_written_is_told() {
        let holds = Arc::new(AtomicBool::new(true));
        let asked = Arc::clone(&holds);
        let holds_lease: HoldsLease = Arc::new(move || asked.load(Ordering::Relaxed));
        let begun = Begun { service: Nothing, holds_lease };
        let status = |reply: Reply, is_read| begun.judge(reply, is_read).status().as_u16();
        let not_found = || Reply::error(Error::not_found());
        assert_eq!(status(Reply::ok("{}"), true), 200);
        assert_eq!(status(not_found(), true), 404);
        assert_eq!(status(Reply::ok("{}").wrote(false), false), 200);
        holds.store(false, Ordering::Relaxed);
        assert_eq!(status(Reply::ok("{}"), true), 429, "it may be old");
        assert_eq!(status(not_found(), true), 429, "that may be old, too");
        assert_eq!(status(not_found(), false), 429, "and so may be what a write was refused for");
        assert_eq!(status(Reply::created("{}").wrote(true), false), 201, "it is in the ledger");
        assert_eq!(status(Reply::ok("{}").wrote(false), false), 429, "a batch that only read");
        assert_eq!(status(Reply::created("{}"), false), 408, "a container, perhaps");
        assert_eq!(status(Reply::new(StatusCode::MULTI_STATUS), false), 408);
        assert_eq!(status(Reply::error(unknown_outcome()), false), 408, "it may be done");
        assert_eq!(status(Reply::error(Error::Internal("unconfirmed".to_owned())), false), 408);
        assert_eq!(status(Reply::error(Error::Internal("unreadable".to_owned())), true), 429);
    }

    #[test]
    fn who_is_inside_when_the_gate_is_shut_is_counted_and_nobody_else_gets_in() {
        let late = LateService::new();
        late.begin(Nothing, Arc::new(|| true));
        let inside = late.gate.enter();
        assert!(inside.is_some());
        late.shut();
        assert!(late.gate.enter().is_none());
        assert_eq!(late.inside(), 1);
        drop(inside);
        assert_eq!(late.inside(), 0);
        let address = RangeAddress { container_rid: "x", range: 0, range_text: "0", named: None };
        assert_eq!(late.range_state(&address), RangeState::Elsewhere);
        late.end();
        assert!(late.metrics().is_none() && !late.is_here());
        late.begin(Nothing, Arc::new(|| true));
        assert!(late.is_here() && late.gate.enter().is_some(), "a node may own the account again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_the_ledger_never_takes_is_told_in_the_end_although_the_lease_is_held() {
        struct Stuck;
        impl Service for Stuck {
            async fn call(&self, _call: Call<'_>) -> Reply {
                std::future::pending().await
            }
        }
        impl Standing for Stuck {}
        let late = LateService::new();
        late.begin(Stuck, Arc::new(|| true));
        let begun = Instant::now();
        let (operation, principal) =
            (Operation::CreateDatabase, &Principal::Account(Access::ReadWrite));
        let (context, body) = (&RequestContext::default(), Bytes::new());
        let reply = late.call(Call { operation, context, principal, body }).await;
        assert_eq!(reply.status(), StatusCode::REQUEST_TIMEOUT);
        assert!((60..62).contains(&begun.elapsed().as_secs()));
    }

    #[tokio::test]
    async fn before_it_begins_nothing_is_here() {
        let late = LateService::new();
        let address = RangeAddress { container_rid: "x", range: 0, range_text: "0", named: None };
        assert_eq!(late.range_state(&address), RangeState::Elsewhere);
        late.begin(Nothing, Arc::new(|| true));
        assert_eq!(late.range_state(&address), RangeState::NoContainer);
    }
}
