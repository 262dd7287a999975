//! Observing: requests, one by one, become shapes, and those of one activity become patterns.
//!
//! ```text
//! requests ─► shape     verb, container, kind of item, query without its values
//!          ─► step      the requests of one logical query: pages, and ranges of a fan-out
//!          ─► activity  the steps of one piece of work of the client
//!          ─► pattern   activities that begin alike, added up, with a few recorded whole
//! ```
//!
//! Requests of one activity have the same activity id. A client that gives each request its own is followed by
//! what it asks: see [`follow`]. Nothing here runs on the path of a request: whoever feeds the observer does so in the
//! background, and says how many requests it missed; what was seen counts for those too.
//!
//! Of a busy server only runs of consecutive requests are seen. An activity that a run begins or ends in the middle of would look like
//! a shorter one, so the first and the last fifth of a run only complete what begins between them: those activities are whole, and
//! count for all.

mod file;
mod follow;
pub mod load;
pub mod shape;
pub mod sketch;
mod workload;

pub use file::{FILE, Kept, keep, kept};
pub use workload::{
    Asked, ContainerId, ContainerSketch, Pattern, Shape, StepFigures, Trace, Verb, Workload,
};

use crate::limits::{ACTIVITY_IDLE, RUN_EDGE, RUN_EDGED_MIN};
use armilla_engine::Account;
use bytes::Bytes;
use follow::Follower;
use parking_lot::Mutex;

/// One request that was answered.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// When, in milliseconds since 1970.
    pub at_millis: u64,
    /// The client, hashed.
    pub agent: u64,
    /// Its activity, hashed; 0 when it named none.
    pub activity: u64,
    /// What it did.
    pub verb: Verb,
    /// The number of the container; plans have none.
    pub container: Option<u32>,
    /// The partition key as the header has it.
    pub key: Option<String>,
    /// The item or procedure of the path.
    pub item: Option<String>,
    /// The body of a query.
    pub query: Option<String>,
    /// The body of a small write.
    pub written: Option<Bytes>,
    /// It goes on from a page before.
    pub continues: bool,
    /// The version that it replaced, of some writes.
    pub replaced: Option<Bytes>,
    /// The status of the answer.
    pub status: u16,
    /// What it cost.
    pub units: f64,
    /// The range that answered, where it was one.
    pub range: Option<u32>,
    /// How many ranges answered.
    pub partitions: usize,
    /// Rows or items of the answer.
    pub rows: usize,
}

/// How many requests one stands for.
#[derive(Clone, Copy, Debug)]
struct Weights {
    request: f64,
    /// The same within its second.
    pace: f64,
    /// The activity that it begins, if that is to count.
    activity: Option<f64>,
}

impl Weights {
    const ONE: Self = Self { request: 1.0, pace: 1.0, activity: Some(1.0) };
}

/// A run of consecutive requests that is taken up piece by piece.
#[derive(Debug)]
pub struct RunTaken {
    count: usize,
    taken: usize,
    /// Requests at each end that only complete activities.
    edge: usize,
    /// How many requests each of its own stands for.
    request: f64,
    /// The same within its second.
    pace: f64,
    /// How many activities each stands for that begins between its ends.
    whole: f64,
}

/// When no further container can be observed, those that are gone make room.
fn make_room(account: &Account, workload: &mut Workload, follower: &mut Follower) {
    if workload.is_full() {
        follower.end(workload, u64::MAX);
        workload.retain(|(database, name)| account.container(database, name).is_ok());
    }
}

/// Watches an account's requests.
#[derive(Default)]
pub struct Observer {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    workload: Workload,
    follower: Follower,
}

impl Observer {
    /// An observer that goes on from what was kept.
    pub fn new(workload: Workload) -> Self {
        Self { state: Mutex::new(State { workload, follower: Follower::default() }) }
    }

    /// Takes requests up, oldest first, that came right behind those before.
    pub fn take(&self, account: &Account, requests: Vec<Seen>, now_millis: u64) {
        let mut state = self.state.lock();
        let State { workload, follower } = &mut *state;
        make_room(account, workload, follower);
        for request in requests {
            follower.take(account, workload, request, Weights::ONE);
        }
        let idle = ACTIVITY_IDLE.as_millis() as u64;
        follower.end(workload, now_millis.saturating_sub(idle));
    }

    /// Begins to take up a run of so many consecutive requests that came within so many milliseconds, and stand for `dropped` others too.
    pub fn begin_run(
        &self,
        account: &Account,
        (count, millis): (usize, u64),
        dropped: u64,
    ) -> RunTaken {
        let mut state = self.state.lock();
        let State { workload, follower } = &mut *state;
        make_room(account, workload, follower);
        // What was under way went on unseen.
        follower.forget_open();
        let edge = if count >= RUN_EDGED_MIN { count / RUN_EDGE } else { 0 };
        let all = count as f64 + dropped as f64;
        workload.missed += dropped;
        RunTaken {
            count,
            taken: 0,
            edge,
            request: all / (count as f64).max(1.0),
            // A run of a tenth of a second shows a tenth of what that second was.
            pace: 1_000.0 / millis.clamp(1, 1_000) as f64,
            whole: all / ((count - 2 * edge) as f64).max(1.0),
        }
    }

    /// Takes the next requests of a run; behind the last of them what it shows is complete.
    pub fn go_on(&self, account: &Account, run: &mut RunTaken, requests: Vec<Seen>) {
        let mut state = self.state.lock();
        let State { workload, follower } = &mut *state;
        for request in requests {
            let begins = (run.edge..run.count - run.edge).contains(&run.taken);
            let weights = Weights {
                request: run.request,
                pace: run.pace,
                activity: begins.then_some(run.whole),
            };
            follower.take(account, workload, request, weights);
            run.taken += 1;
        }
        if run.taken >= run.count {
            follower.end(workload, u64::MAX);
        }
    }

    /// Takes every activity as ended, also those of this moment.
    pub fn close(&self) {
        let mut state = self.state.lock();
        let State { workload, follower } = &mut *state;
        follower.end(workload, u64::MAX);
    }

    /// What was observed so far.
    pub fn workload(&self) -> Workload {
        self.state.lock().workload.clone()
    }

    /// The same with activities that may still go on, as far as they came.
    pub fn workload_so_far(&self) -> Workload {
        let state = self.state.lock();
        let mut workload = state.workload.clone();
        state.follower.add_open(&mut workload);
        workload
    }

    /// Forgets everything.
    pub fn forget(&self) {
        *self.state.lock() = State::default();
    }
}
