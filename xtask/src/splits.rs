//! `cargo xtask splits`: physical partitions split and merge under sixteen writers and eight queriers.
//!
//! Everything goes over HTTP to the real binary. Writers own a logical partition each, so the model of
//! what must be there is exact; whatever answers them with an error that no SDK tries again ends the
//! test. Queriers ask about items that nobody writes to any more, in the ways SDKs ask: by range with
//! the ranges read anew after 410, over the whole container with the server merging, in order, by
//! aggregate and by key, with tokens that must stay good when a range goes away between two pages.
//! Their answers are known to the last row. Readers of both change feeds follow.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::arguments::{Arguments, Choice};
use crate::crash::check::{self, STILL};
use crate::crash::follower::Follower;
use crate::crash::model::{Journal, KEY_HEADER, Partition, key_header};
use crate::crash::writer::Writer;
use crate::crash::{self, CONTAINER, scaler};
use crate::rest::{Answer, Client};
use crate::server::{self, Server};
use crate::summary::{Row, Summary};
use crate::workspace::{self, Profile};
use crate::{Outcome, processes};

const WRITERS: u64 = 16;
const QUERIERS: u64 = 8;
const SECONDS_DEFAULT: u64 = 20;
/// Items that nobody writes to after the start, each in a logical partition of its own.
const STILL_ITEMS: u64 = 120;
/// Rows of a page: small, so that ranges go away between pages.
const PAGE_ITEMS: &str = "7";
/// No walk over pages needs more.
const PAGES_MAX: usize = 10_000;
const RANGE_HEADER: &str = "x-ms-documentdb-partitionkeyrangeid";

const ABOUT: &str = "\
Splits and merges the partitions of a container again and again while 16 clients write and 8 ask queries
over HTTP; no write may be lost, no answer wrong, and no error may come that SDKs do not try again.";

const CHOICES: &[Choice] = &[
    Choice { name: "seconds", value: "N", meaning: "How long (default 20)" },
    Choice { name: "seed", value: "N", meaning: "Repeat the choices of an earlier run" },
    Choice { name: "binary", value: "PATH", meaning: "The server to test, instead of building it" },
];

/// The chore: reads its options, runs, prints the closing line.
pub(crate) fn splits(words: &[OsString]) -> Outcome<bool> {
    let Some(arguments) = Arguments::parse("splits", ABOUT, CHOICES, words)? else {
        return Ok(true);
    };
    let binary = match arguments.text("binary") {
        Some(path) => PathBuf::from(path).canonicalize()?,
        None => workspace::build_server(Profile::Dev)?,
    };
    let seconds = arguments.number("seconds", SECONDS_DEFAULT)?;
    let seed = arguments.number("seed", fastrand::u64(0..1_000_000))?;
    let mut summary = Summary::default();
    summary.add(run_with(&binary, seconds, seed));
    Ok(summary.close())
}

/// The usual run, as part of all tests.
pub(crate) fn run(binary: &Path) -> Row {
    run_with(binary, SECONDS_DEFAULT, fastrand::u64(0..1_000_000))
}

fn run_with(binary: &Path, seconds: u64, seed: u64) -> Row {
    let name = "splits under load";
    processes::announce(&format!(
        "splits under load: {WRITERS} writers, {QUERIERS} queriers, {seconds} s, seed {seed}"
    ));
    let started = Instant::now();
    let outcome =
        tempfile::Builder::new().prefix("armilla-splits-").tempdir().map_err(Into::into).and_then(
            |folder| {
                let log = folder.path().join("server.log");
                trial(binary, folder.path(), &log, seconds, seed)
                    .map_err(|error| format!("{error}; {}", server::tail(&log)).into())
            },
        );
    match outcome {
        Ok(note) => Row { name: name.into(), passed: 1, failed: 0, took: started.elapsed(), note },
        Err(error) => {
            let error: Box<dyn std::error::Error + Send + Sync> = error;
            Row::broken(name, started.elapsed(), format!("seed {seed}: {error}"))
        }
    }
}

fn trial(binary: &Path, folder: &Path, log: &Path, seconds: u64, seed: u64) -> Outcome<String> {
    let data = folder.join("data");
    let server = Server::start_with(binary, &data, log, &crash::OPTIONS)?;
    let client = &server.client();
    crash::create_container(client)?;
    prepare(client)?;
    let mut followers = Follower::all();
    followers.iter_mut().try_for_each(|follower| follower.begin(client))?;
    let mut partitions: Vec<_> = (0..WRITERS).map(Partition::new).collect();
    let mut random = fastrand::Rng::with_seed(seed);
    let (over, never) = (AtomicBool::new(false), AtomicBool::new(false));
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut journal = Journal::default();
    let (reports, changes, answers) = thread::scope(|scope| {
        let (over, never) = (&over, &never);
        let writing: Vec<_> = partitions
            .iter_mut()
            .map(|partition| {
                let writer =
                    Writer::new(client.clone(), partition, random.fork(), never).until(end);
                scope.spawn(move || writer.run())
            })
            .collect();
        let mut choices = random.fork();
        let data = &data;
        let scaling = scope.spawn(move || scaler::run(client, binary, data, &mut choices, over));
        let following: Vec<_> = followers
            .iter_mut()
            .map(|follower| scope.spawn(move || follower.follow(client, over)))
            .collect();
        let asking: Vec<_> = (0..QUERIERS)
            .map(|number| scope.spawn(move || Querier { client, number }.run(over)))
            .collect();
        let reports: Outcome<Vec<_>> = writing
            .into_iter()
            .map(|writer| writer.join().map_err(|_| "a writer panicked")?)
            .collect();
        // Whatever became of the writers, the others end now.
        over.store(true, Ordering::SeqCst);
        let mut answers = 0;
        for querier in asking {
            answers += querier.join().map_err(|_| "a querier panicked")??;
        }
        for follower in following {
            follower.join().map_err(|_| "a follower panicked")??;
        }
        let changes = scaling.join().map_err(|_| "the scaler panicked")??;
        Outcome::Ok((reports?, changes, answers))
    })?;
    reports.into_iter().for_each(|report| journal.take_over(report));
    check::check(client, &mut partitions, &mut journal)?;
    followers.iter_mut().try_for_each(|follower| follower.check(client, &partitions))?;
    crash::see_all_ends(client, &mut followers)?;
    server.stop()?;
    let writes: u64 = partitions.iter().map(Partition::acknowledged).sum::<u64>() + journal.len();
    if changes.splits == 0 || changes.merges == 0 {
        return Err("nothing was split or merged: the run was too short".into());
    }
    Ok(format!(
        "{} splits, {} merges, {writes} writes, {answers} answers",
        changes.splits, changes.merges
    ))
}

/// Stores the items that queriers ask about.
fn prepare(client: &Client) -> Outcome<()> {
    for number in 0..STILL_ITEMS {
        let key = format!("{STILL}{number}");
        let item = json!({"id": key, "pk": key, "kind": "still", "n": number, "odd": number % 2});
        let key = key_header(&key);
        let path = format!("{CONTAINER}/docs");
        let answer = client.send("POST", &path, &[(KEY_HEADER, &key)], Some(&item))?;
        if answer.status != 201 {
            return Err(format!("{path} answered {}: {}", answer.status, answer.body).into());
        }
    }
    Ok(())
}

/// One who asks, again and again.
struct Querier<'a> {
    client: &'a Client,
    number: u64,
}

impl Querier<'_> {
    /// Asks until it is over; how many answers came, all of them right.
    fn run(&self, over: &AtomicBool) -> Outcome<u64> {
        let mut answers = 0;
        while !over.load(Ordering::SeqCst) {
            match (self.number + answers) % 5 {
                0 => self.by_range()?,
                1 => self.in_order()?,
                2 => self.merged()?,
                3 => self.aggregated()?,
                _ => self.by_key(answers % STILL_ITEMS)?,
            }
            answers += 1;
        }
        Ok(answers)
    }

    /// As SDKs fan out: each range by itself, its heirs when it is gone.
    fn by_range(&self) -> Outcome<()> {
        let text = "SELECT VALUE c.n FROM c WHERE c.kind = 'still'";
        let mut found = BTreeSet::new();
        let mut todo = vec![(String::new(), "FF".to_owned())];
        for _ in 0..PAGES_MAX {
            let Some((min, max)) = todo.pop() else {
                return same("by range", found, (0..STILL_ITEMS).collect());
            };
            for (range, min, max) in self.ranges(&min, &max)? {
                let mut scope = vec![(RANGE_HEADER, range.as_str()), ("x-ms-end-epk", &max)];
                if !min.is_empty() {
                    scope.push(("x-ms-start-epk", &min));
                }
                match self.all_rows(text, &scope)? {
                    Some(rows) => {
                        for n in rows.iter().filter_map(Value::as_u64) {
                            if !found.insert(n) {
                                return Err(format!("the item {n} was found in two ranges").into());
                            }
                        }
                    }
                    None => todo.push((min, max)),
                }
            }
        }
        Err("the ranges do not come to an end".into())
    }

    /// The server merges, in order; its tokens go on over splits.
    fn in_order(&self) -> Outcome<()> {
        let text = "SELECT VALUE c.n FROM c WHERE c.kind = 'still' ORDER BY c.n DESC";
        let rows = self.whole(text)?;
        let found: Vec<_> = rows.iter().filter_map(Value::as_u64).collect();
        let wanted: Vec<_> = (0..STILL_ITEMS).rev().collect();
        if found == wanted { Ok(()) } else { Err(format!("in order: {found:?}").into()) }
    }

    /// The server goes through all ranges, page by page.
    fn merged(&self) -> Outcome<()> {
        let rows = self.whole("SELECT VALUE c.n FROM c WHERE c.kind = 'still' AND c.odd = 1")?;
        let found: BTreeSet<_> = rows.iter().filter_map(Value::as_u64).collect();
        if found.len() != rows.len() {
            return Err(format!("merged: {} rows, {} items", rows.len(), found.len()).into());
        }
        same("merged", found, (0..STILL_ITEMS).filter(|n| n % 2 == 1).collect())
    }

    fn aggregated(&self) -> Outcome<()> {
        let text = "SELECT COUNT(1) AS items, SUM(c.n) AS sum FROM c WHERE c.kind = 'still'";
        let rows = self.whole(text)?;
        let sum = STILL_ITEMS * (STILL_ITEMS - 1) / 2;
        let wanted = json!([{"items": STILL_ITEMS, "sum": sum}]);
        if json!(rows) == wanted { Ok(()) } else { Err(format!("aggregated: {rows:?}").into()) }
    }

    /// By its key an item is always there, whichever range has it.
    fn by_key(&self, number: u64) -> Outcome<()> {
        let key = format!("{STILL}{number}");
        let item = check::read_item(self.client, &key, &key)?;
        let rows = check::query(self.client, &key, "SELECT VALUE c.n FROM c")?;
        match item {
            Some(item) if item["n"] == number && rows == [json!(number)] => Ok(()),
            item => Err(format!("{key} is {item:?}, and by query {rows:?}").into()),
        }
    }

    /// All rows of a query over the whole container.
    fn whole(&self, text: &str) -> Outcome<Vec<Value>> {
        let rows =
            self.all_rows(text, &[("x-ms-documentdb-query-enablecrosspartition", "True")])?;
        rows.ok_or_else(|| {
            format!("`{text}` over everything was told of a range that is gone").into()
        })
    }

    /// All rows of a query in a scope; nothing when its range is gone.
    fn all_rows(&self, text: &str, scope: &[(&str, &str)]) -> Outcome<Option<Vec<Value>>> {
        let body = json!({"query": text, "parameters": []});
        let (mut rows, mut continuation) = (Vec::new(), None::<String>);
        for _ in 0..PAGES_MAX {
            let mut headers = scope.to_vec();
            headers.push(("x-ms-documentdb-isquery", "True"));
            headers.push(("x-ms-max-item-count", PAGE_ITEMS));
            headers.extend(continuation.as_deref().map(|token| ("x-ms-continuation", token)));
            let path = format!("{CONTAINER}/docs");
            let answer = self.client.send("POST", &path, &headers, Some(&body))?;
            match answer.status {
                200 => {}
                410 if is_gone(&answer) => return Ok(None),
                status => return Err(format!("`{text}` answered {status}: {}", answer.body).into()),
            }
            let page = answer.body["Documents"].as_array().ok_or("a page has no rows")?;
            rows.extend(page.iter().cloned());
            match answer.header("x-ms-continuation") {
                Some(token) => continuation = Some(token.to_owned()),
                None => return Ok(Some(rows)),
            }
        }
        Err(format!("`{text}` does not end").into())
    }

    /// The ranges of now that lie between two keys, cut to them.
    fn ranges(&self, min: &str, max: &str) -> Outcome<Vec<(String, String, String)>> {
        let answer = self.client.send("GET", &format!("{CONTAINER}/pkranges"), &[], None)?;
        let ranges = answer.body["PartitionKeyRanges"].as_array().ok_or("no ranges came")?;
        let cut = ranges.iter().map(|range| {
            let text = |name: &str| range[name].as_str().unwrap_or_default().to_owned();
            let (low, high) = (text("minInclusive"), text("maxExclusive"));
            (text("id"), low.max(min.to_owned()), high.min(max.to_owned()))
        });
        Ok(cut.filter(|(_, low, high)| low < high).collect())
    }
}

/// The one refusal that tells SDKs to read the ranges anew.
fn is_gone(answer: &Answer) -> bool {
    answer.header("x-ms-substatus") == Some("1002")
}

fn same(how: &str, found: BTreeSet<u64>, wanted: BTreeSet<u64>) -> Outcome<()> {
    if found == wanted {
        return Ok(());
    }
    let odd: Vec<_> = found.symmetric_difference(&wanted).take(10).collect();
    Err(format!("{how}: {} items found, {} there; {odd:?}", found.len(), wanted.len()).into())
}
