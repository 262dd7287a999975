//! Requests that wait to be looked at: all of them, or runs of a busy server.
//!
//! ```text
//! following   every request is taken from the log, and waits
//!    │  more than may wait, or the log lost some: the server is busy
//!    ▼
//! collecting  consecutive requests, until a run of them is full
//!    ▼
//! resting     nothing is taken, and requests leave nothing for the observer; they are only counted
//!    │  the work on the run is paid for, or somebody asks, or there is little traffic again
//!    ▼
//! the run stands for itself and for what came around it; another is collected, or all requests are followed again
//! ```
//!
//! So every request is either seen or stands behind one run, and the sum is exact.

use armilla_gateway::observed::{ObservedPage, ObservedRequest};
use std::collections::VecDeque;

/// Requests of a run, which are as many as may wait, and their bytes.
pub(super) const RUN_MAX: usize = 10_000;
const RUN_BYTES_MAX: usize = 16 << 20;

/// Requests that are looked at in the same way.
pub(super) struct BacklogPiece {
    pub(super) requests: VecDeque<ObservedRequest>,
    bytes: usize,
    /// Of a run, how many others it stands for; nothing when all were seen.
    pub(super) dropped: Option<u64>,
}

impl BacklogPiece {
    fn new(dropped: Option<u64>) -> Self {
        Self { requests: VecDeque::new(), bytes: 0, dropped }
    }

    /// As long as a run may be.
    pub(super) fn is_full(&self) -> bool {
        self.requests.len() >= RUN_MAX || self.bytes >= RUN_BYTES_MAX
    }

    /// How long they took to come.
    pub(super) fn millis(&self) -> u64 {
        let at = |request: Option<&ObservedRequest>| request.map_or(0, |one| one.at_millis);
        at(self.requests.back()).saturating_sub(at(self.requests.front()))
    }

    fn push(&mut self, requests: Vec<ObservedRequest>) {
        self.bytes += requests.iter().map(ObservedRequest::bytes).sum::<usize>();
        self.requests.extend(requests);
    }

    /// Takes what came behind it; if some of that is lost, it begins anew.
    fn extend(&mut self, page: ObservedPage) {
        if page.dropped > 0 {
            let seen = self.requests.len() as u64;
            self.dropped = Some(self.dropped.unwrap_or(0) + page.dropped + seen);
            self.requests.clear();
            self.bytes = 0;
        }
        self.push(page.requests);
    }
}

/// How requests are taken from the log.
enum TakingWay {
    Following,
    Collecting(BacklogPiece),
    Resting(BacklogPiece),
}

/// What was taken from the log and not looked at yet.
pub(super) struct Backlog {
    way: TakingWay,
    /// The last request that was taken from the log.
    position: u64,
    /// The newest request when somebody last came by.
    newest: u64,
    /// What waits, oldest first.
    ready: VecDeque<BacklogPiece>,
}

impl Default for Backlog {
    fn default() -> Self {
        Self { way: TakingWay::Following, position: 0, newest: 0, ready: VecDeque::new() }
    }
}

impl Backlog {
    /// Where the log is to be read on.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    pub(super) fn is_resting(&self) -> bool {
        matches!(self.way, TakingWay::Resting(_))
    }

    /// Requests of the run that rests.
    pub(super) fn resting(&self) -> usize {
        if let TakingWay::Resting(run) = &self.way { run.requests.len() } else { 0 }
    }

    pub(super) fn is_collecting(&self) -> bool {
        matches!(self.way, TakingWay::Collecting(_))
    }

    /// Takes what the log holds behind the position.
    pub(super) fn take(&mut self, page: ObservedPage) {
        self.position = page.newest;
        self.newest = page.newest;
        if let TakingWay::Collecting(run) = &mut self.way {
            run.extend(page);
            return;
        }
        if page.dropped > 0 {
            let mut run = BacklogPiece::new(Some(0));
            run.extend(page);
            self.way = TakingWay::Collecting(run);
            return;
        }
        if self.ready.back().is_none_or(|piece| piece.dropped.is_some()) {
            self.ready.push_back(BacklogPiece::new(None));
        }
        let Some(waiting) = self.ready.back_mut() else { return };
        waiting.push(page.requests);
        // More than can be looked at: what waits is a run.
        if waiting.is_full()
            && let Some(piece) = self.ready.pop_back()
        {
            self.way = TakingWay::Resting(BacklogPiece { dropped: Some(0), ..piece });
        }
    }

    /// Ends the collecting of a run: the traffic goes on, or has ended with it.
    pub(super) fn collected(&mut self, goes_on: bool) {
        match std::mem::replace(&mut self.way, TakingWay::Following) {
            TakingWay::Collecting(run) if goes_on => self.way = TakingWay::Resting(run),
            TakingWay::Collecting(run) => self.ready.push_back(run),
            other => self.way = other,
        }
    }

    /// Whether the run that is collected is as long as it may be.
    pub(super) fn is_full(&self) -> bool {
        matches!(&self.way, TakingWay::Collecting(run) if run.is_full())
    }

    /// Requests that came since this was last asked.
    pub(super) fn arrived(&mut self, newest: u64) -> u64 {
        let before = std::mem::replace(&mut self.newest, newest);
        newest.saturating_sub(before)
    }

    /// Ends a rest: what came up to a request stands behind the run. What comes then is followed, or collected as the next run.
    pub(super) fn end_rest(&mut self, newest: u64, collects: bool) {
        let next = if collects {
            TakingWay::Collecting(BacklogPiece::new(Some(0)))
        } else {
            TakingWay::Following
        };
        match std::mem::replace(&mut self.way, next) {
            TakingWay::Resting(mut run) => {
                let gap = newest.saturating_sub(self.position);
                run.dropped = Some(run.dropped.unwrap_or(0) + gap);
                self.ready.push_back(run);
                self.position = newest.max(self.position);
                self.newest = self.position;
            }
            other => self.way = other,
        }
    }

    /// What is to be looked at first.
    pub(super) fn front(&mut self) -> Option<&mut BacklogPiece> {
        while self.ready.front().is_some_and(|piece| piece.requests.is_empty()) {
            self.ready.pop_front();
        }
        self.ready.front_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(set: impl FnOnce(&mut ObservedRequest)) -> ObservedRequest {
        let mut request = ObservedRequest::default();
        set(&mut request);
        request
    }

    fn page(numbers: std::ops::Range<u64>, dropped: u64) -> ObservedPage {
        ObservedPage {
            newest: numbers.end - 1,
            requests: numbers.map(|number| request(|request| request.number = number)).collect(),
            dropped,
        }
    }

    /// Requests and others that they stand for, piece by piece.
    fn pieces(backlog: &mut Backlog) -> Vec<(usize, Option<u64>)> {
        let all = backlog.ready.iter().map(|piece| (piece.requests.len(), piece.dropped));
        all.collect()
    }

    #[test]
    fn little_traffic_waits_whole() {
        let mut backlog = Backlog::default();
        backlog.take(page(1..101, 0));
        backlog.take(page(101..151, 0));
        assert_eq!(pieces(&mut backlog), [(150, None)]);
        assert_eq!(backlog.position(), 150);
    }

    #[test]
    fn a_run_goes_on_until_something_is_lost_and_then_begins_anew() {
        let mut backlog = Backlog::default();
        backlog.take(page(1..11, 0));
        backlog.take(page(101..201, 90));
        assert!(backlog.is_collecting());
        backlog.take(page(201..251, 0));
        backlog.take(page(301..401, 50));
        backlog.collected(true);
        assert!(backlog.is_resting() && backlog.resting() == 100);
        // What was collected before the gap was not seen either; what came during the rest stands behind the run too.
        assert_eq!(backlog.arrived(900), 500);
        backlog.end_rest(900, true);
        assert_eq!(pieces(&mut backlog), [(10, None), (100, Some(90 + 150 + 50 + 500))]);
        assert!(backlog.is_collecting() && backlog.position() == 900);
        // The traffic ends with the next run.
        backlog.take(page(901..911, 0));
        backlog.collected(false);
        backlog.take(page(911..921, 0));
        let waiting = pieces(&mut backlog);
        assert_eq!(waiting[2..], [(10, Some(0)), (10, None)]);
        let all = waiting.iter().map(|(seen, dropped)| *seen as u64 + dropped.unwrap_or(0));
        assert_eq!(all.sum::<u64>(), 920);
    }

    #[test]
    fn more_than_may_wait_is_a_run() {
        let mut backlog = Backlog::default();
        let many = RUN_MAX as u64;
        backlog.take(page(1..many, 0));
        assert!(!backlog.is_resting());
        backlog.take(page(many..many + 100, 0));
        assert!(backlog.is_resting());
        backlog.end_rest(2 * many, false);
        assert_eq!(pieces(&mut backlog), [(RUN_MAX + 99, Some(many - 99))]);
    }

    #[test]
    fn the_bytes_of_a_run_have_an_end() {
        let body = bytes::Bytes::from(vec![0; RUN_BYTES_MAX / 4]);
        let large = request(|request| request.written = Some(body));
        let mut backlog = Backlog::default();
        backlog.take(ObservedPage { newest: 4, requests: vec![large; 4], dropped: 0 });
        assert!(backlog.is_resting());
    }
}
