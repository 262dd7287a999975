//! Who carries batches out of the server. The engine knows no network: whoever serves it does, and sets one
//! ([decision 0029](../../../../docs/decisions/0029-subscriptions.md)).

use super::queue::DeliveryOutcome;
use super::target::Webhook;
use armilla_model::error::Result;

/// A batch for somebody elsewhere.
#[derive(Debug)]
pub struct Parcel {
    /// Who gets it.
    pub webhook: Webhook,
    /// The same in every attempt with the same entries.
    pub uuid: String,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// The second of now, which is signed.
    pub second: u64,
    /// JSON.
    pub body: Vec<u8>,
}

/// Carries batches out of the server.
pub trait Courier: Send + Sync {
    /// Refuses a webhook that would never be called.
    fn check(&self, webhook: &Webhook) -> Result<()>;

    /// Makes one attempt and tells how it ended. Returns at once.
    fn send(&self, parcel: Parcel, done: Box<dyn FnOnce(DeliveryOutcome) + Send>);
}
