//! `armilla advise`, and the observer inside a server that it asks.
//!
//! The observer is a thread that comes by now and then, takes the requests that the log holds, and adds them up; it takes no more than
//! a hundredth of one processor, however many requests there are. When the log has lost some of them since the last look, the server is
//! busy: then a long run of consecutive requests is collected, which is cheap, and looked at in one go. What it knows is kept in a file.

use crate::client::{Call, Client, ConnectOptions};
use crate::terminal::say;
use armilla_advisor::observe::{self, Kept, Observer, Seen, Verb};
use armilla_advisor::{advise, prove, report};
use armilla_engine::Account;
use armilla_gateway::advice::{AdviceQuestion, Adviser};
use armilla_gateway::observed::{ObservedPage, ObservedRequest, RequestFeed};
use armilla_gateway::ops::EngineService;
use armilla_model::clock::{SystemClock, monotonic};
use armilla_model::{Error, Result as Answered};
use armilla_storage::disk::Disk;
use clap::Args;
use http::Method;
use std::hash::{BuildHasher as _, RandomState};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::{Duration, Instant};

/// Between two looks at the log, at least.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A look is followed by a pause of so many times its own length, once [`BURST`] is used up.
const PAUSE_FACTOR: u32 = 100;
/// Work that may be done without such pauses, so that short bursts of requests are seen whole. It comes back with
/// the time that passes, a [`PAUSE_FACTOR`]th of it.
const BURST: Duration = Duration::from_secs(2);
/// Requests of a busy server that are collected to be looked at together, and their bytes.
const RUN_MAX: usize = 10_000;
const RUN_BYTES_MAX: usize = 16 << 20;
/// Between two visits to the log while a run is collected: it must not overflow meanwhile.
const RUN_STEP: Duration = Duration::from_millis(5);
/// How long a run is collected.
const RUN_TIME: Duration = Duration::from_secs(1);
/// How often what is known is written to its file.
const KEEP_EVERY: Duration = Duration::from_secs(60);
/// How long an answer is good for others who ask.
const ANSWER_FRESH: Duration = Duration::from_secs(2);

/// How the workload is observed.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Advisor")]
pub(crate) struct ObserveOptions {
    /// Do not observe the workload: there is no advice
    #[arg(long, env = "ARMILLA_NO_OBSERVE")]
    pub(crate) no_observe: bool,
}

/// What `armilla advise` takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct AdviseOptions {
    #[command(flatten)]
    connect: ConnectOptions,
    /// This database alone
    #[arg(long)]
    database: Option<String>,
    /// Print JSON
    #[arg(long, conflicts_with = "html")]
    json: bool,
    /// Print one page of HTML, or write it to FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    html: Option<PathBuf>,
    /// Build the proposal in a throw-away account, replay what was recorded on it, and show what that cost beside what was predicted
    #[arg(long)]
    prove: bool,
}

/// Asks a server for advice and prints it.
pub(crate) fn run(options: &AdviseOptions) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(ask(options))
}

async fn ask(options: &AdviseOptions) -> Result<(), String> {
    let client = Client::new(&options.connect.endpoint()?, Arc::new(SystemClock))?;
    let mut pairs = Vec::new();
    if let Some(database) = &options.database {
        pairs.push(("database", database.as_str()));
    }
    if options.prove {
        pairs.push(("prove", "1"));
    }
    let call = Call::new(Method::GET, &["_armilla", "advice"]).query(&pairs);
    let answer = client.send(call).await?.success()?;
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    if options.json {
        say(&text);
        return Ok(());
    }
    let document =
        armilla_model::json::parse(text.as_bytes()).map_err(|error| error.to_string())?;
    match &options.html {
        Some(file) if file.as_os_str() == "-" => say(&report::html::page(&document)),
        Some(file) => std::fs::write(file, report::html::page(&document))
            .map_err(|error| format!("{}: {error}", file.display()))?,
        None => say(&report::text::page(&document)),
    }
    Ok(())
}

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
        position: Mutex::default(),
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
    /// The last request that was taken up.
    position: Mutex<u64>,
    /// The last answer, and when it was made.
    answer: Mutex<Option<(AdviceQuestion, Instant, String)>>,
    hasher: RandomState,
}

fn look_again_and_again(watching: &Weak<Watching>) {
    let mut kept = monotonic();
    let mut credit = BURST;
    loop {
        let Some(here) = watching.upgrade() else { return };
        let started = monotonic();
        let look = here.look();
        if kept.elapsed() >= KEEP_EVERY {
            here.keep();
            kept = monotonic();
        }
        let spent = started.elapsed().saturating_sub(look.slept);
        // Nobody is held back by an observer that sleeps.
        drop(here);
        // A busy server has nothing to give away.
        let pause = match look.is_run {
            true => LOOK_EVERY.max(spent * PAUSE_FACTOR),
            false => pause_after(spent, &mut credit),
        };
        std::thread::sleep(pause);
    }
}

/// What a look at the log was.
#[derive(Default)]
pub(crate) struct Look {
    /// A run of a busy server was taken up.
    is_run: bool,
    /// Time in which nothing was done.
    slept: Duration,
}

/// Consecutive requests.
struct Run {
    requests: Vec<ObservedRequest>,
    /// Requests before them that were not seen.
    dropped: u64,
    bytes: usize,
}

impl Run {
    fn is_full(&self) -> bool {
        self.requests.len() >= RUN_MAX || self.bytes >= RUN_BYTES_MAX
    }

    /// Takes what came behind it; if some of that is lost, it begins anew.
    fn extend(&mut self, page: ObservedPage) {
        if page.dropped > 0 {
            self.dropped += page.dropped + self.requests.len() as u64;
            self.requests.clear();
            self.bytes = 0;
        }
        self.bytes += page.requests.iter().map(bytes_of).sum::<usize>();
        self.requests.extend(page.requests);
    }
}

fn bytes_of(request: &ObservedRequest) -> usize {
    let texts = [&request.agent, &request.key, &request.item, &request.query];
    let bodies = [&request.written, &request.replaced];
    size_of::<ObservedRequest>()
        + texts.into_iter().flatten().map(String::len).sum::<usize>()
        + bodies.into_iter().flatten().map(bytes::Bytes::len).sum::<usize>()
}

/// How long to pause after a look, and what is left of the burst behind that pause.
fn pause_after(spent: Duration, credit: &mut Duration) -> Duration {
    match credit.checked_sub(spent) {
        Some(left) => {
            *credit = BURST.min(left + LOOK_EVERY / PAUSE_FACTOR);
            LOOK_EVERY
        }
        // Paid for by the pause.
        None => LOOK_EVERY.max(spent * PAUSE_FACTOR),
    }
}

impl Watching {
    fn position(&self) -> MutexGuard<'_, u64> {
        self.position.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes up what the log holds; of a busy server, a run of requests that begins now.
    pub(crate) fn look(&self) -> Look {
        let mut position = self.position();
        let page = self.feed.after(*position);
        *position = page.newest;
        if page.dropped == 0 {
            let seen = page.requests.into_iter().map(|request| self.seen(request)).collect();
            self.observer.take(&self.account, seen, self.account.clock().now_millis());
            return Look::default();
        }
        let mut run = Run { requests: Vec::new(), dropped: 0, bytes: 0 };
        run.extend(page);
        let slept = self.collect(&mut run, &mut position);
        let seen = run.requests.into_iter().map(|request| self.seen(request)).collect();
        self.observer.take_run(&self.account, seen, run.dropped);
        Look { is_run: true, slept }
    }

    /// Makes a run as long as it may be; how long nothing was done for it.
    fn collect(&self, run: &mut Run, position: &mut u64) -> Duration {
        let (started, mut slept) = (monotonic(), Duration::ZERO);
        while !run.is_full() && started.elapsed() < RUN_TIME {
            let asleep = monotonic();
            std::thread::sleep(RUN_STEP);
            slept += asleep.elapsed();
            let page = self.feed.after(*position);
            *position = page.newest;
            if page.requests.is_empty() {
                break;
            }
            run.extend(page);
        }
        slept
    }

    /// Forgets what was observed, or takes activities that may still go on as ended, so that tests need not wait.
    #[cfg(test)]
    pub(crate) fn observer(&self) -> &Observer {
        self.look();
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = None;
        &self.observer
    }

    fn seen(&self, request: ObservedRequest) -> Seen {
        Seen {
            at_millis: request.at_millis,
            agent: self.hasher.hash_one(&request.agent),
            activity: request.activity,
            verb: Verb::named(request.operation),
            container: request.container,
            key: request.key,
            item: request.item,
            query: request.query,
            written: request.written,
            replaced: request.replaced,
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
        self.look();
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
        self.look();
        let workload = self.observer.workload();
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
    use crate::local::LocalServer;
    use std::ffi::OsString;

    #[test]
    fn a_burst_is_seen_whole_and_long_work_keeps_to_its_share() {
        let (look, mut credit) = (Duration::from_millis(20), BURST);
        let (mut worked, mut passed) = (Duration::ZERO, Duration::ZERO);
        while worked < BURST {
            assert_eq!(pause_after(look, &mut credit), LOOK_EVERY);
            worked += look;
        }
        worked = Duration::ZERO;
        for _ in 0..1_000 {
            worked += look;
            passed += look + pause_after(look, &mut credit);
        }
        assert!(worked * (PAUSE_FACTOR - 3) < passed, "{worked:?} of {passed:?}");
    }

    #[test]
    fn a_run_goes_on_until_something_is_lost_and_then_begins_anew() {
        let page = |numbers: std::ops::Range<u64>, dropped| ObservedPage {
            newest: numbers.end,
            requests: numbers
                .map(|number| ObservedRequest { number, ..ObservedRequest::default() })
                .collect(),
            dropped,
        };
        let mut run = Run { requests: Vec::new(), dropped: 0, bytes: 0 };
        run.extend(page(100..200, 100));
        run.extend(page(200..250, 0));
        assert_eq!((run.requests.len(), run.dropped), (150, 100));
        run.extend(page(300..400, 50));
        // What was collected before the gap was not seen either.
        assert_eq!((run.requests.len(), run.dropped), (100, 300));
        assert!(!run.is_full());
        run.extend(page(400..400 + RUN_MAX as u64, 0));
        assert!(run.is_full());
    }

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
