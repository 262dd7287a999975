//! Who wants to know how long things took, and what nobody asked for.

use crate::container::Container;
use armilla_model::charge::RequestCharge;
use std::sync::OnceLock;
use std::time::Duration;

/// Hears of durations and of work in the background. Called on the threads that did the work, so it must be quick.
pub trait Observer: Send + Sync {
    /// A transaction was durable and visible so long after it was queued.
    fn committed(&self, took: Duration);
    /// The index wrote or merged a segment, which took so long.
    fn compacted(&self, took: Duration);
    /// Work that no request asked for has cost a partition of a container so much.
    fn charged_in_background(&self, container: &Container, partition: u32, charge: RequestCharge);
}

/// The observer of an account, if there is one.
#[derive(Default)]
pub struct Observed {
    observer: OnceLock<Box<dyn Observer>>,
}

impl Observed {
    /// Sets the observer; a second one is not heard.
    pub fn set(&self, observer: Box<dyn Observer>) {
        let _taken = self.observer.set(observer);
    }

    pub(crate) fn get(&self) -> Option<&dyn Observer> {
        self.observer.get().map(|observer| &**observer)
    }
}
