//! One timer per connection, for idleness, slow request heads and slow readers alike.
//!
//! The timer is armed for the idle time (before the first request for the shorter time of that) and
//! looked at only when it fires: if a request has come since, it is armed again. Only a request head that stays incomplete at the end of a poll, which
//! a healthy client never causes, shortens it. So a busy connection pays one timer per idle period.

use super::watched::Pulse;
use crate::limits::Limits;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::time::{Instant, Sleep, sleep};

/// What the timer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    /// A sign of life; so many requests had been seen when it was armed.
    ForRequest(u64),
    /// The rest of a request head; so many requests had been seen when it began.
    ForHead(u64),
}

/// Why a connection should end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing has happened for the idle time.
    Idle,
    /// A request head took too long.
    SlowHead,
}

/// The timer of one connection.
pub(super) struct Supervisor {
    sleep: Pin<Box<Sleep>>,
    waiting: Waiting,
}

impl Supervisor {
    pub(super) fn new(limits: &Limits) -> Self {
        Self { sleep: Box::pin(sleep(limits.first_wait())), waiting: Waiting::ForRequest(0) }
    }

    /// To be called after each poll of the connection that left it pending.
    pub(super) fn poll(
        &mut self,
        pulse: &Pulse,
        limits: &Limits,
        context: &mut Context<'_>,
    ) -> Poll<Verdict> {
        let requests = pulse.requests();
        if pulse.waits_for_head() && self.waiting != Waiting::ForHead(requests) {
            self.waiting = Waiting::ForHead(requests);
            self.sleep.as_mut().reset(Instant::now() + limits.header_timeout);
        }
        while self.sleep.as_mut().poll(context).is_ready() {
            let waited_for = std::mem::replace(&mut self.waiting, Waiting::ForRequest(requests));
            self.sleep.as_mut().reset(Instant::now() + limits.idle_timeout);
            match waited_for {
                Waiting::ForHead(at) if pulse.waits_for_head() && at == requests => {
                    return Poll::Ready(Verdict::SlowHead);
                }
                Waiting::ForRequest(at) if at == requests && !pulse.is_busy() => {
                    return Poll::Ready(Verdict::Idle);
                }
                _ => {}
            }
        }
        Poll::Pending
    }
}
