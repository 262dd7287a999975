//! One procedure in every logical partition that a query finds.
//!
//! ```text
//! POST …/sprocs/{id}   x-armilla-for-each-partition: true
//!   {"query": "SELECT * FROM c WHERE …", "parameters": […], "arguments": […]}
//! 200  {"partitions", "succeeded", "failures", "results", "resultsLeftOut", "progress"}
//!      x-ms-continuation: go on here; absent at the end.  x-ms-request-charge: all of it
//! ```
//!
//! One request is one page of the query: it finds the logical partitions among the page's rows, runs
//! the procedure in each of them, several at a time, and answers when all have ended. Rows come in
//! the order of effective keys, so those of a logical partition are neighbours, and the position behind
//! the last one is all that the next request needs: nothing is kept between requests, and a client
//! that was cut off goes on with the last continuation it saw. A partition whose procedure fails is
//! told and holds up no other. Who repeats a request runs the procedure again in its partitions.

use super::scripts::run;
use super::{EngineService, addressed};
use crate::auth::{Belongs, Principal};
use crate::error::status_of;
use crate::{Call, Reply};
use armilla_engine::query::{Limit, PageOptions, Query, Request, Scope};
use armilla_engine::ranges::EpkSpan;
use armilla_engine::scripts::{Executed, Script};
use armilla_engine::{Container, ItemAddress};
use armilla_model::charge::RequestCharge;
use armilla_model::partition_key::{Definition, Epk, Hashing, PartitionKey};
use armilla_model::value::{Object, Value};
use armilla_model::{Error, Result, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Rows of the query in one request, when the client does not say.
const ROWS_DEFAULT: usize = 100;
/// Rows of the query in one request at most.
const ROWS_MAX: usize = 1000;
/// Procedures that one request runs at a time.
const PARALLEL_MAX: usize = 8;
/// How often a procedure is put off when the server has no room for it, and for how long each time.
const RETRIES_MAX: u32 = 100;
const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// Bytes of results that are sent back.
const RESULTS_SIZE_MAX: usize = 2 << 20;
/// What a continuation begins with.
const TOKEN_MARK: &str = "E1";

/// Where a run goes on.
#[derive(Debug, Default, PartialEq, Eq)]
struct Position {
    /// The last logical partition that was seen.
    last: Option<Epk>,
    /// Where the query goes on.
    query: Option<String>,
}

/// What is wanted of each partition.
struct Task {
    request: Request,
    arguments: String,
}

/// How it went.
#[derive(Default)]
struct Report {
    succeeded: usize,
    failures: Vec<Value>,
    results: Vec<Value>,
    results_size: usize,
    results_left_out: usize,
    charge: RequestCharge,
}

pub(super) async fn execute(
    service: &EngineService,
    call: &Call<'_>,
    container: &Arc<Container>,
    script: Arc<Script>,
) -> Result<Reply> {
    if matches!(call.principal, Principal::Resource(_)) {
        return Err(Error::Forbidden(
            "Running a procedure for each partition needs an account key.".to_owned(),
        ));
    }
    if call.context.partition_key.is_some() {
        return Err(Error::bad_request(
            "A procedure runs for one partition key or for each partition, not both.",
        ));
    }
    let Task { request, arguments } = Task::read(&call.body)?;
    let seal = service.authenticator.seal();
    let name = script.name.clone();
    let belongs =
        Belongs { kind: "partitions", owner: &container.rid_text, scope: name.as_bytes() };
    let position = match call.context.continuation {
        None => Position::default(),
        Some(token) => Position::read(seal.open(belongs, token)?)?,
    };
    let scope = Scope { span: EpkSpan::all(), limit: Limit::Container, cross_partition: true };
    let query = Query::new(container.clone(), request, &scope)?;
    if !query.follows_items() {
        return Err(Error::bad_request(
            "The query that finds partitions may have no ORDER BY, GROUP BY, DISTINCT or aggregate.",
        ));
    }
    let rows = call.context.max_item_count.map_or(ROWS_DEFAULT, |count| count as usize);
    let (count_max, after) = (rows.clamp(1, ROWS_MAX), position.query);
    let page = service
        .reading(move || {
            query.page(PageOptions {
                count_max,
                continuation: after.as_deref(),
                range_by_range: false,
            })
        })
        .await?;
    let definition = container.key_definition();
    let (keys, last) = keys_of(&page.rows, definition, position.last)?;
    let mut report = run_all(container, &script, keys, &arguments).await;
    report.charge += page.charge;
    let progress = match &page.continuation {
        Some(_) => last.as_ref().and_then(|last| progress(last, definition.hashing)),
        None => Some(1.0),
    };
    let next = page.continuation.map(|query| Position { last, query: Some(query) }.write());
    let next = next.map(|token| seal.close(belongs, &token));
    let reply = Reply::ok(report.to_json(progress)).charge(report.charge).continuation(next);
    Ok(addressed::from_container(reply, container))
}

impl Task {
    fn read(body: &[u8]) -> Result<Self> {
        let body = json::parse(body)?;
        let request = Request::from_value(&body)?;
        let arguments = match body.get("arguments") {
            None | Some(Value::Null) => String::new(),
            Some(list @ Value::Array(_)) => list.to_json(),
            Some(_) => return Err(Error::bad_request("'arguments' must be an array.")),
        };
        Ok(Self { request, arguments })
    }
}

impl Position {
    fn write(&self) -> String {
        let last = self.last.as_ref().map(Epk::to_string).unwrap_or_default();
        format!("{TOKEN_MARK}:{last}:{}", self.query.as_deref().unwrap_or_default())
    }

    fn read(token: &str) -> Result<Self> {
        let foreign = || {
            Error::bad_request(
                "The continuation token is not one of a run over partitions. Send the token of the last \
                 answer of this run, or none to begin anew.",
            )
        };
        let mut parts = token.splitn(3, ':');
        let (Some(TOKEN_MARK), Some(last), Some(query)) =
            (parts.next(), parts.next(), parts.next())
        else {
            return Err(foreign());
        };
        let last = match last {
            "" => None,
            hex => Some(Epk::parse_hex(hex).map_err(|_| foreign())?),
        };
        Ok(Self { last, query: Some(query.to_owned()) })
    }
}

/// The logical partitions among the rows that were not seen before, and the last one.
fn keys_of(
    rows: &[bytes::Bytes],
    definition: &Definition,
    mut last: Option<Epk>,
) -> Result<(Vec<PartitionKey>, Option<Epk>)> {
    let mut keys = Vec::new();
    for row in rows {
        let row = json::parse(row)?;
        let tells_key = definition.paths.iter().all(|path| path.find(&row).is_some());
        // An item may lack its key; any other row must have it.
        if !tells_key && row.get("_rid").is_none() {
            return Err(Error::bad_request(
                "The rows of the query that finds partitions must be items, or objects with the \
                 properties of the partition key.",
            ));
        }
        let key = PartitionKey::of_item(&row, definition);
        let epk = definition.epk(&key);
        if last.as_ref() != Some(&epk) {
            keys.push(key);
            last = Some(epk);
        }
    }
    Ok((keys, last))
}

/// Runs the procedure in each partition, several at a time.
async fn run_all(
    container: &Arc<Container>,
    script: &Arc<Script>,
    keys: Vec<PartitionKey>,
    arguments: &str,
) -> Report {
    let mut report = Report::default();
    let mut keys = keys.into_iter();
    let mut running = JoinSet::new();
    loop {
        while running.len() < PARALLEL_MAX
            && let Some(key) = keys.next()
        {
            let (container, script) = (container.clone(), script.clone());
            let arguments = arguments.to_owned();
            running.spawn(async move {
                let outcome = run_one(&container, &script, &key, &arguments).await;
                (key, outcome)
            });
        }
        match running.join_next().await {
            None => return report,
            Some(Ok((key, outcome))) => report.add(&key, outcome),
            // A panic was logged where it happened; it has no key to be told with.
            Some(Err(_)) => report.failures.push(failure(
                Value::Null,
                &Error::Internal("A call of the procedure ended in a defect of this server; its log has the reason. \
                                 Its transaction was dropped.".to_owned()),
            )),
        }
    }
}

/// Runs the procedure in one partition; while the server is too busy for it, it waits.
async fn run_one(
    container: &Arc<Container>,
    script: &Arc<Script>,
    key: &PartitionKey,
    arguments: &str,
) -> Result<Executed> {
    let mut put_off = 0;
    loop {
        let address = ItemAddress::of(container, key.clone())?;
        let ran = run(None, address, script.clone(), arguments.to_owned(), false).await;
        let ran = ran.map(|(executed, _)| executed);
        let error = match &ran {
            Ok(executed) => executed.result.as_ref().err(),
            Err(error) => Some(error),
        };
        let busy = matches!(
            error,
            Some(Error::Overloaded { .. } | Error::TooManyRequests { .. } | Error::WriteConflict)
        );
        if !busy || put_off == RETRIES_MAX {
            return ran;
        }
        put_off += 1;
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

impl Report {
    fn add(&mut self, key: &PartitionKey, outcome: Result<Executed>) {
        let shown = json::parse(key.to_header().as_bytes()).unwrap_or_default();
        let executed = match outcome {
            Ok(executed) => executed,
            Err(error) => return self.failures.push(failure(shown, &error)),
        };
        self.charge += executed.charge;
        match executed.result {
            Err(error) => self.failures.push(failure(shown, &error)),
            Ok((body, _)) => {
                self.succeeded += 1;
                self.results_size += body.len();
                if self.results_size > RESULTS_SIZE_MAX {
                    self.results_left_out += 1;
                    return;
                }
                let body = json::parse(body.as_bytes()).unwrap_or_default();
                let result = Object::of([("partitionKey", shown), ("body", body)]);
                self.results.push(Value::Object(Arc::new(result)));
            }
        }
    }

    fn to_json(&self, progress: Option<f64>) -> String {
        let count = |count: usize| Value::from(i64::try_from(count).unwrap_or(i64::MAX));
        let report = Object::of([
            ("partitions", count(self.succeeded + self.failures.len())),
            ("succeeded", count(self.succeeded)),
            ("failures", Value::array(self.failures.clone())),
            ("results", Value::array(self.results.clone())),
            ("resultsLeftOut", count(self.results_left_out)),
            ("progress", progress.map_or(Value::Null, Value::from)),
        ]);
        Value::Object(Arc::new(report)).to_json()
    }
}

fn failure(key: Value, error: &Error) -> Value {
    let status = status_of(error);
    let failure = Object::of([
        ("partitionKey", key),
        ("status", i64::from(status.status.as_u16()).into()),
        ("substatus", i64::from(status.substatus).into()),
        ("message", error.message().into()),
    ]);
    Value::Object(Arc::new(failure))
}

/// How far a run is, told by how far the last effective key is in the key space. Keys are hashes, so
/// that is also the part of the partitions behind it. The first version's keys do not tell.
fn progress(last: &Epk, hashing: Hashing) -> Option<f64> {
    const KEY_SPACE: f64 = (1u32 << 30) as f64;
    let start = last.as_bytes().first_chunk::<4>().filter(|_| hashing != Hashing::V1)?;
    Some((f64::from(u32::from_be_bytes(*start)) / KEY_SPACE).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use armilla_model::policy::ContainerPolicy;

    #[test]
    fn positions_are_read_back_and_foreign_ones_refused() {
        for (last, query) in [(None, "q"), (Some(Epk::from_bytes(&[1, 255])), "a:b:c")] {
            let position = Position { last, query: Some(query.to_owned()) };
            assert_eq!(Position::read(&position.write()).unwrap(), position);
        }
        for token in ["", "E1", "E1:zz:q", "E2::q", "other"] {
            assert!(Position::read(token).is_err(), "{token}");
        }
    }

    #[test]
    fn neighbours_of_one_partition_count_once() {
        let body = json::parse(br#"{"id":"c","partitionKey":{"paths":["/pk"]}}"#).unwrap();
        let definition = ContainerPolicy::parse(&body).unwrap().partition_key;
        let rows = |texts: &[&'static str]| -> Vec<bytes::Bytes> {
            texts.iter().map(|text| bytes::Bytes::from_static(text.as_bytes())).collect()
        };
        let first = rows(&[r#"{"pk":"a"}"#, r#"{"pk":"a"}"#, r#"{"pk":"b"}"#]);
        let (keys, last) = keys_of(&first, &definition, None).unwrap();
        assert_eq!(keys.len(), 2);
        let (keys, _) =
            keys_of(&rows(&[r#"{"pk":"b"}"#, r#"{"_rid":"x"}"#]), &definition, last).unwrap();
        assert_eq!(keys.len(), 1);
        assert!(keys_of(&rows(&["{}"]), &definition, None).is_err());
    }
}
