//! The observer inside a server: a thread that takes requests from the log and adds them up, and answers who asks for advice.
//!
//! Taking requests is cheap, looking at them is not: they wait in a [`Backlog`] until the [`Allowance`] has room for the work, or somebody asks
//! for advice, who then waits for it. What is known is kept in a file.

use super::ObserveOptions;
use super::allowance::{Allowance, Reading, Stopwatch};
use super::backlog::Backlog;
use armilla_advisor::observe::{self, Kept, Observer, RunTaken, Seen, Verb};
use armilla_advisor::{advise, prove, report};
use armilla_engine::Account;
use armilla_gateway::advice::{AdviceQuestion, Adviser};
use armilla_gateway::observed::{ObservedRequest, RequestFeed};
use armilla_gateway::ops::EngineService;
use armilla_model::clock::monotonic;
use armilla_model::{Error, Result as Answered};
use armilla_storage::disk::Disk;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::{Duration, Instant};

/// Between two looks at the log.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Requests between two looks up to which all are followed again after a rest.
const FOLLOWED_MAX: u64 = 25;
/// Requests that are looked at between two readings of the clock.
const CHUNK: usize = 8;
/// What looking at a request takes, before the first was looked at.
const LOOK_COST: Duration = Duration::from_micros(15);
/// Between two visits to the log while a run is collected: it must not overflow meanwhile. Also the time that requests take at most
/// which began before the run.
const RUN_STEP: Duration = Duration::from_millis(5);
/// How long a run is collected.
const RUN_TIME: Duration = Duration::from_secs(1);
/// How often what is known is written to its file.
const KEEP_EVERY: Duration = Duration::from_secs(60);
/// Work on what still waits when the server stops: nobody waits longer for a stop.
const LAST_LOOK_MAX: Duration = Duration::from_millis(200);
/// How long an answer is good for others who ask.
const ANSWER_FRESH: Duration = Duration::from_secs(2);

/// Sets an observer over a service, unless it is not wanted.
pub(crate) fn watch(
    service: EngineService,
    account: &Arc<Account>,
    disk: Option<Arc<dyn Disk>>,
    options: &ObserveOptions,
) -> Result<(EngineService, Option<Arc<Watching>>), String> {
    if options.no_observe {
        return Ok((service, None));
    }
    let feed = service.request_feed();
    if !feed.is_kept() {
        return Ok((service, None));
    }
    let kept = match disk.as_deref().map(observe::kept) {
        Some(Ok(Kept::Found(workload))) => *workload,
        Some(Err(error)) => return Err(format!("{}: {error}", observe::FILE)),
        _ => observe::Workload::default(),
    };
    let watching = Arc::new(Watching {
        account: account.clone(),
        observer: Observer::new(kept),
        feed,
        disk,
        backlog: Mutex::new(WatchedBacklog {
            waiting: Backlog::default(),
            run: None,
            cost: LOOK_COST,
        }),
        answer: Mutex::default(),
        hasher: RandomState::new(),
    });
    let weak = Arc::downgrade(&watching);
    std::thread::Builder::new()
        .name("observer".to_owned())
        .spawn(move || look_again_and_again(&weak))
        .map_err(|error| format!("the observer's thread cannot be started: {error}"))?;
    Ok((service.with_adviser(watching.clone()), Some(watching)))
}

/// The observer of a server.
pub(crate) struct Watching {
    account: Arc<Account>,
    observer: Observer,
    feed: RequestFeed,
    disk: Option<Arc<dyn Disk>>,
    backlog: Mutex<WatchedBacklog>,
    /// The last answer, and when it was made.
    answer: Mutex<Option<(AdviceQuestion, Instant, String)>>,
    hasher: RandomState,
}

/// What waits, and how far it was looked at.
struct WatchedBacklog {
    waiting: Backlog,
    /// The run of which a part was looked at.
    run: Option<RunTaken>,
    /// What looking at a request takes.
    cost: Duration,
}

fn look_again_and_again(watching: &Weak<Watching>) {
    let started = monotonic();
    let (mut kept, mut worked) = (started, Duration::ZERO);
    let mut allowance = Allowance::new(Reading::now(started, worked));
    loop {
        std::thread::sleep(LOOK_EVERY);
        // Nobody is held back by an observer that sleeps.
        let Some(here) = watching.upgrade() else { return };
        let stopwatch = Stopwatch::start();
        allowance.settle(Reading::now(started, worked));
        here.look(&allowance);
        if kept.elapsed() >= KEEP_EVERY {
            here.keep();
            kept = monotonic();
        }
        worked += stopwatch.spent();
    }
}

impl Watching {
    fn backlog(&self) -> MutexGuard<'_, WatchedBacklog> {
        self.backlog.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what the log holds, and looks at as much of it as there is room for.
    fn look(&self, allowance: &Allowance) {
        let mut backlog = self.backlog();
        self.take(&mut backlog, allowance);
        self.work(&mut backlog, Some(allowance.slice()));
    }

    /// Looks at everything, whatever that costs: somebody wants to know.
    pub(crate) fn look_at_all(&self) {
        self.look_at_rest(None);
    }

    /// Looks at what is left, up to so much work.
    fn look_at_rest(&self, allowed: Option<Duration>) {
        let mut backlog = self.backlog();
        if backlog.waiting.is_resting() {
            self.feed.open();
            backlog.waiting.end_rest(self.feed.newest(), false);
        }
        self.follow(&mut backlog);
        self.work(&mut backlog, allowed);
    }

    fn take(&self, backlog: &mut WatchedBacklog, allowance: &Allowance) {
        let waiting = &mut backlog.waiting;
        if !waiting.is_resting() {
            return self.follow(backlog);
        }
        let newest = self.feed.newest();
        if waiting.arrived(newest) <= FOLLOWED_MAX {
            self.feed.open();
            waiting.end_rest(newest, false);
        } else if waiting.front().is_none() {
            let work = backlog.cost * u32::try_from(waiting.resting()).unwrap_or(u32::MAX);
            if allowance.affords(work) {
                self.feed.open();
                // Requests that were under way when the feed was opened say less.
                std::thread::sleep(RUN_STEP);
                waiting.end_rest(self.feed.newest(), true);
                self.collect(backlog);
            }
        }
    }

    /// Takes all requests there are; of a busy server, a run that begins now.
    fn follow(&self, backlog: &mut WatchedBacklog) {
        let waiting = &mut backlog.waiting;
        waiting.take(self.feed.after(waiting.position()));
        match waiting.is_collecting() {
            true => self.collect(backlog),
            false if waiting.is_resting() => self.feed.close(),
            false => {}
        }
    }

    /// Makes a run as long as it may be.
    fn collect(&self, backlog: &mut WatchedBacklog) {
        let waiting = &mut backlog.waiting;
        let (started, mut goes_on) = (monotonic(), true);
        while goes_on && !waiting.is_full() && started.elapsed() < RUN_TIME {
            std::thread::sleep(RUN_STEP);
            let page = self.feed.after(waiting.position());
            goes_on = !page.requests.is_empty();
            waiting.take(page);
        }
        waiting.collected(goes_on);
        if goes_on {
            self.feed.close();
        }
    }

    /// Looks at what waits, up to so much work.
    fn work(&self, backlog: &mut WatchedBacklog, allowed: Option<Duration>) {
        let stopwatch = Stopwatch::start();
        let mut looked_at = 0_u32;
        let is_allowed =
            |looked_at| looked_at == 0 || allowed.is_none_or(|allowed| stopwatch.spent() < allowed);
        if allowed.is_some_and(|allowed| allowed.is_zero()) {
            return;
        }
        while is_allowed(looked_at)
            && let Some(piece) = backlog.waiting.front()
        {
            let count = piece.requests.len();
            let (dropped, millis) = (piece.dropped, piece.millis());
            let chunk = piece.requests.drain(..count.min(CHUNK));
            let seen: Vec<Seen> = chunk.map(|request| self.seen(&request)).collect();
            looked_at += seen.len() as u32;
            match dropped {
                // Activities that go on in what still waits are not over.
                None => {
                    let last = seen.last().map_or(0, |request| request.at_millis);
                    self.observer.take(&self.account, seen, last);
                }
                Some(dropped) => {
                    let run = backlog.run.get_or_insert_with(|| {
                        self.observer.begin_run(&self.account, (count, millis), dropped)
                    });
                    self.observer.go_on(&self.account, run, seen);
                    if count <= CHUNK {
                        backlog.run = None;
                    }
                }
            }
        }
        if looked_at > 0 {
            let each = stopwatch.spent() / looked_at;
            backlog.cost = (backlog.cost * 7 + each) / 8;
        }
        if backlog.waiting.front().is_none() {
            self.observer.take(&self.account, Vec::new(), self.account.clock().now_millis());
        }
    }

    /// Forgets what was observed, or takes activities that may still go on as ended, so that tests need not wait.
    #[cfg(test)]
    pub(crate) fn observer(&self) -> &Observer {
        self.look_at_all();
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = None;
        &self.observer
    }

    fn seen(&self, request: &ObservedRequest) -> Seen {
        Seen {
            at_millis: request.at_millis,
            agent: self.hasher.hash_one(request.agent()),
            activity: request.activity,
            verb: Verb::named(request.operation),
            container: request.container,
            key: request.key().map(str::to_owned),
            item: request.item().map(str::to_owned),
            query: request.query().map(str::to_owned),
            written: request.written.clone(),
            replaced: request.replaced.clone(),
            continues: request.continues,
            status: request.status,
            units: request.units,
            range: request.range,
            partitions: request.partitions,
            rows: request.rows.unwrap_or(0),
        }
    }

    fn keep(&self) {
        let Some(disk) = &self.disk else { return };
        if let Err(error) = observe::keep(&**disk, &self.observer.workload()) {
            tracing::warn!(%error, file = observe::FILE, "what was observed could not be kept");
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.look_at_rest(Some(LAST_LOOK_MAX));
        self.observer.close();
        self.keep();
    }
}

impl Adviser for Watching {
    fn advice(&self, question: &AdviceQuestion) -> Answered<String> {
        // One at a time: who comes meanwhile is told to come later.
        let mut answer = match self.answer.try_lock() {
            Ok(answer) => answer,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                return Err(Error::TooManyRequests { retry_after: ANSWER_FRESH });
            }
        };
        let is_fresh = |(asked, made, _): &&(AdviceQuestion, Instant, String)| {
            asked == question && made.elapsed() < ANSWER_FRESH
        };
        if let Some((_, _, text)) = answer.as_ref().filter(|known| is_fresh(known)) {
            return Ok(text.clone());
        }
        self.look_at_all();
        let workload = self.observer.workload_so_far();
        let database = question.database.as_deref();
        let advice = match question.prove {
            true => prove(&self.account, &workload, database)?,
            false => advise(&self.account, &workload, database)?,
        };
        let text = report::advice_json(&advice);
        *answer = Some((question.clone(), monotonic(), text.clone()));
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{Call, Client};
    use crate::local::LocalServer;
    use armilla_model::clock::SystemClock;
    use http::Method;
    use std::ffi::OsString;

    /// With a log that is far too short for the traffic, all requests are counted all the same.
    #[tokio::test(flavor = "multi_thread")]
    async fn what_a_short_log_loses_is_counted() {
        let flags = ["--in-memory".into(), "--request-log=10".into()];
        let server = LocalServer::start(flags).await.unwrap();
        read(&server, 600).await;
        let observed = asked(&server).await["observed"].clone();
        let (requests, lost) = (&observed["requests"], &observed["requestsLeftOut"]);
        let near = |count: i64| (580..=640).contains(&count);
        assert!(near(requests.as_i64().unwrap()) && lost.as_i64().unwrap() > 0, "{observed}");
        server.stop().await;
    }

    /// A stop looks at what waits for so long and no longer, whatever waits.
    #[test]
    fn a_bounded_look_leaves_the_rest() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let server = runtime.block_on(LocalServer::start(["--in-memory".into()])).unwrap();
        let watching = server.watching();
        // Nobody else looks meanwhile.
        let mut backlog = watching.backlog();
        runtime.block_on(read(&server, 100));
        let waiting = &mut backlog.waiting;
        if waiting.is_resting() {
            waiting.end_rest(0, false);
        }
        waiting.take(watching.feed.after(waiting.position()));
        watching.work(&mut backlog, Some(Duration::from_nanos(1)));
        let left = backlog.waiting.front().map(|piece| piece.requests.len());
        assert!(left.is_some_and(|left| left > 50), "{left:?}");
        drop(backlog);
        runtime.block_on(server.stop());
    }

    fn flags(folder: &std::path::Path) -> Vec<OsString> {
        vec!["--durability=relaxed".into(), "--data".into(), folder.as_os_str().to_owned()]
    }

    async fn asked(server: &LocalServer) -> serde_json::Value {
        let client = Client::new(&server.endpoint(), Arc::new(SystemClock)).unwrap();
        let call = Call::new(Method::GET, &["_armilla", "advice"]);
        client.send(call).await.unwrap().success().unwrap().json().unwrap()
    }

    /// Makes a container and reads an item of it so often.
    async fn read(server: &LocalServer, times: usize) {
        use crate::client::items::{ContainerName, Key, OnConflict};
        let client = Client::new(&server.endpoint(), Arc::new(SystemClock)).unwrap();
        client.ensure_database("d").await.unwrap();
        let definition = serde_json::json!({"id": "c", "partitionKey": {"paths": ["/id"], "kind": "Hash", "version": 2}});
        client.create_container("d", &definition, None).await.unwrap();
        let (name, key) = (ContainerName::new("d", "c"), Key::of_values(&["i".into()]));
        let item = r#"{"id":"i"}"#.to_owned();
        client.write_item(name, &key, OnConflict::Replace, item).await.unwrap().success().unwrap();
        for _ in 0..times {
            client.read_item(name, "i", &key).await.unwrap().success().unwrap();
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_was_observed_outlives_the_server_and_a_damaged_file_is_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        let server = LocalServer::start(flags(folder.path())).await.unwrap();
        read(&server, 5).await;
        server.stop().await;
        let file = folder.path().join(observe::FILE);
        let server = LocalServer::start(flags(folder.path())).await.unwrap();
        let known = asked(&server).await;
        assert_eq!(known["observed"]["requests"], 6, "{known:#}");
        server.stop().await;
        let mut bytes = std::fs::read(&file).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&file, &bytes).unwrap();
        let server = LocalServer::start(flags(folder.path())).await.unwrap();
        assert_eq!(asked(&server).await["observed"]["requests"], 0);
        assert_eq!(std::fs::read(file.with_extension("damaged")).unwrap(), bytes);
        server.stop().await;
    }

    /// Who asks right behind the last request is told of all of them, and of the activities that may still go on.
    #[tokio::test(flavor = "multi_thread")]
    async fn little_traffic_is_seen_whole_and_at_once() {
        let server = LocalServer::start(["--in-memory".into()]).await.unwrap();
        read(&server, 300).await;
        let answer = asked(&server).await;
        assert_eq!(answer["observed"]["requests"], 301, "{answer:#}");
        assert_eq!(answer["observed"]["requestsLeftOut"], 0);
        // All of them follow from the one that wrote the item: one activity, which may still go on.
        let steps = answer["workload"][0]["steps"].as_array().unwrap();
        let times: f64 = steps.iter().map(|step| step["times"].as_f64().unwrap()).sum();
        assert_eq!(times, 301.0, "{steps:#?}");
        server.stop().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn observing_is_off_by_one_flag() {
        for flag in ["--no-observe", "--request-log=0"] {
            let server = LocalServer::start(["--in-memory".into(), flag.into()]).await.unwrap();
            let answer = asked(&server).await;
            assert_eq!(
                (&answer["state"], &answer["findings"]),
                (&"off".into(), &serde_json::json!([])),
                "{flag}"
            );
            server.stop().await;
        }
    }
}
