//! `armilla script run`: a stored procedure in one logical partition, or in every one that a query
//! finds.
//!
//! The second form asks the server page by page; a page is run in parallel there. Between two pages
//! nothing is under way, so its continuation says exactly what is left. With `--state` it is kept in a
//! file after every page: the same command goes on where an interrupted one stopped.

use crate::client::items::{ContainerName, Key};
use crate::client::scripts::ForEachPage;
use crate::client::{Client, ConnectOptions};
use crate::terminal::{note, say};
use armilla_model::clock::SystemClock;
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The bar is a thousand steps long.
const PROGRESS_STEPS: f64 = 1000.0;
/// Failures that are shown in full; the rest are counted.
const FAILURES_SHOWN_MAX: usize = 20;

#[derive(Clone, Debug, Args)]
pub(crate) struct ScriptArguments {
    #[command(subcommand)]
    command: ScriptCommand,
}

#[derive(Clone, Debug, Subcommand)]
enum ScriptCommand {
    /// Run a stored procedure in one logical partition, or in every one that a query finds
    Run(RunOptions),
}

#[derive(Clone, Debug, Args)]
#[command(group(clap::ArgGroup::new("where").required(true).args(["partition_key", "for_each_partition"])))]
struct RunOptions {
    /// Name of the stored procedure
    procedure: String,
    #[command(flatten)]
    connect: ConnectOptions,
    /// The database
    #[arg(long)]
    database: String,
    /// The container
    #[arg(long)]
    container: String,
    /// Arguments of the procedure, as a JSON array
    #[arg(long, default_value = "[]", value_name = "JSON")]
    args: String,
    /// Run in this logical partition: a JSON array of key values
    #[arg(long, value_name = "JSON")]
    partition_key: Option<String>,
    /// Run once in every logical partition in which this query finds something
    #[arg(long, value_name = "QUERY")]
    for_each_partition: Option<String>,
    /// File that remembers how far a run for each partition got; the next one goes on there
    #[arg(long, value_name = "FILE", requires = "for_each_partition")]
    state: Option<PathBuf>,
    /// Rows of the query that the server takes at a time
    #[arg(long, default_value_t = 100, value_name = "ROWS", requires = "for_each_partition")]
    page: u32,
    /// Print what the procedure answers in each partition, one JSON line each
    #[arg(long, requires = "for_each_partition")]
    results: bool,
}

/// How far a run got, as its file keeps it.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Bill {
    /// What the run is: a file of another one is refused.
    run: Value,
    continuation: Option<String>,
    partitions: u64,
    failures: u64,
    request_units: f64,
    finished: bool,
}

/// One answer of the server.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageReport {
    partitions: u64,
    failures: Vec<Failure>,
    results: Vec<Value>,
    results_left_out: u64,
    progress: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Failure {
    partition_key: Value,
    status: u16,
    substatus: u32,
    message: String,
}

/// Runs the command.
pub(crate) fn run(arguments: &ScriptArguments) -> Result<(), String> {
    let ScriptCommand::Run(options) = &arguments.command;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let client = Client::new(&options.connect.endpoint()?, Arc::new(SystemClock))?;
        match (&options.for_each_partition, &options.partition_key) {
            (Some(query), _) => for_each(&client, options, query).await,
            (None, Some(key)) => once(&client, options, key).await,
            (None, None) => Err("say --partition-key or --for-each-partition".to_owned()),
        }
    })
}

fn arguments(options: &RunOptions) -> Result<Vec<Value>, String> {
    serde_json::from_str(&options.args)
        .map_err(|error| format!("--args is not a JSON array: {error}"))
}

async fn once(client: &Client, options: &RunOptions, key: &str) -> Result<(), String> {
    let values: Vec<Value> = serde_json::from_str(key)
        .map_err(|error| format!("--partition-key is not a JSON array: {error}"))?;
    let container = ContainerName::new(&options.database, &options.container);
    let (key, arguments) = (Key::of_values(&values), arguments(options)?);
    let answer = client.execute(container, &options.procedure, &key, &arguments).await?;
    let charge = answer.charge();
    let answer = answer.success()?;
    say(&String::from_utf8_lossy(&answer.body));
    note(&format!("{charge:.2} RU"));
    Ok(())
}

async fn for_each(client: &Client, options: &RunOptions, query: &str) -> Result<(), String> {
    let arguments = arguments(options)?;
    let container = ContainerName::new(&options.database, &options.container);
    let run = json!({
        "database": options.database, "container": options.container,
        "procedure": options.procedure, "query": query, "arguments": arguments,
    });
    let mut bill = Bill::load(options.state.as_deref(), run)?;
    if bill.finished {
        note("this run has ended already; remove its state file to begin anew");
        return Ok(());
    }
    let bar = progress_bar();
    loop {
        let page = ForEachPage {
            query,
            arguments: &arguments,
            rows: options.page,
            continuation: bill.continuation.as_deref(),
        };
        let answer = client.execute_for_each(container, &options.procedure, page).await?;
        let answer = answer.success()?;
        let report: PageReport = serde_json::from_slice(&answer.body)
            .map_err(|error| format!("the server's answer cannot be read: {error}"))?;
        bill.add(&report, answer.charge(), answer.continuation());
        bill.save(options.state.as_deref())?;
        show(&bar, &bill, &report, options.results);
        if bill.finished {
            break;
        }
    }
    bar.finish_and_clear();
    note(&format!(
        "{} in {} partitions, {} failed, {:.2} RU",
        options.procedure, bill.partitions, bill.failures, bill.request_units
    ));
    match bill.failures {
        0 => Ok(()),
        failures => Err(format!("the procedure failed in {failures} partitions")),
    }
}

impl Bill {
    /// What the file knows of this run, or a new one.
    fn load(file: Option<&Path>, run: Value) -> Result<Self, String> {
        let new = |run| Self { run, ..Self::default() };
        let Some(file) = file else { return Ok(new(run)) };
        let text = match std::fs::read(file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(new(run)),
            Err(error) => return Err(format!("{}: {error}", file.display())),
        };
        let bill: Self = serde_json::from_slice(&text)
            .map_err(|error| format!("{} is no state file: {error}", file.display()))?;
        if bill.run != run {
            return Err(format!("{} belongs to another run", file.display()));
        }
        Ok(bill)
    }

    /// Keeps how far the run got: a new file takes the place of the old one whole.
    fn save(&self, file: Option<&Path>) -> Result<(), String> {
        let Some(file) = file else { return Ok(()) };
        let fresh = file.with_extension("new");
        let text = serde_json::to_vec_pretty(self).map_err(|error| error.to_string())?;
        std::fs::write(&fresh, text)
            .and_then(|()| std::fs::rename(&fresh, file))
            .map_err(|error| format!("{}: {error}", file.display()))
    }

    fn add(&mut self, report: &PageReport, request_units: f64, continuation: Option<String>) {
        self.partitions += report.partitions;
        self.failures += report.failures.len() as u64;
        self.request_units += request_units;
        self.finished = continuation.is_none();
        self.continuation = continuation;
    }
}

fn progress_bar() -> ProgressBar {
    let bar =
        ProgressBar::with_draw_target(Some(PROGRESS_STEPS as u64), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{wide_bar} {percent:>3} %  {msg}  {elapsed}");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn show(bar: &ProgressBar, bill: &Bill, report: &PageReport, results: bool) {
    let progress = report.progress.unwrap_or(0.0).clamp(0.0, 1.0);
    bar.set_position((progress * PROGRESS_STEPS) as u64);
    bar.set_message(format!("{} partitions, {:.0} RU", bill.partitions, bill.request_units));
    let before = bill.failures as usize - report.failures.len();
    let room = FAILURES_SHOWN_MAX.saturating_sub(before);
    bar.suspend(|| {
        for Failure { partition_key, status, substatus, message } in
            report.failures.iter().take(room)
        {
            note(&format!("{partition_key} failed with {status}/{substatus}: {message}"));
        }
        if results {
            report.results.iter().for_each(|result| say(&result.to_string()));
            if report.results_left_out > 0 {
                note(&format!("{} results are too long to be sent", report.results_left_out));
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::items::OnConflict;
    use crate::config::{Arguments, Command};
    use crate::local::LocalServer;
    use clap::Parser as _;

    fn options(words: &[&str]) -> RunOptions {
        let words = ["armilla", "script", "run", "mark", "--database=d", "--container=c"]
            .into_iter()
            .chain(words.iter().copied());
        let Some(Command::Script(arguments)) = Arguments::parse_from(words).command else {
            panic!("not the command that was given")
        };
        let ScriptCommand::Run(options) = arguments.command;
        options
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_run_goes_on_where_it_stopped_and_ends_with_one_bill() {
        let server = LocalServer::start_in_memory(Some(3)).await.unwrap();
        let client = Client::new(&server.endpoint(), Arc::new(SystemClock)).unwrap();
        client.ensure_database("d").await.unwrap();
        let definition = json!({ "id": "c", "partitionKey": { "paths": ["/pk"] } });
        client.create_container("d", &definition, None).await.unwrap().success().unwrap();
        let container = ContainerName::new("d", "c");
        for number in 0..20 {
            let key = Key::of(&format!("p{number}"));
            let item = json!({ "id": "i", "pk": format!("p{number}"), "runs": 0 }).to_string();
            let made = client.write_item(container, &key, OnConflict::Refuse, item).await.unwrap();
            made.success().unwrap();
        }
        let code = "function (by) { __.readDocuments(__.getSelfLink(), function (e, items) { \
            if (e) throw e; items[0].runs += by; __.replaceDocument(items[0]._self, items[0]); }); }";
        client.put_procedure(container, "mark", code).await.unwrap();

        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("run.json");
        let given = format!("--state={}", state.display());
        let query = "SELECT * FROM c";
        let words = ["--args=[2]", "--page=4", "--for-each-partition", query, &given];
        let options = options(&words);
        // What a run leaves that was cut off after its first page.
        let run = json!({ "database": "d", "container": "c", "procedure": "mark", "query": query,
            "arguments": [2] });
        let mut bill = Bill::load(Some(&state), run.clone()).unwrap();
        let given = [json!(2)];
        let page = ForEachPage { query, arguments: &given, rows: 4, continuation: None };
        let first = client.execute_for_each(container, "mark", page);
        let first = first.await.unwrap().success().unwrap();
        let report: PageReport = serde_json::from_slice(&first.body).unwrap();
        assert_eq!(report.partitions, 4);
        bill.add(&report, first.charge(), first.continuation());
        bill.save(Some(&state)).unwrap();

        for_each(&client, &options, query).await.unwrap();
        for_each(&client, &options, query).await.unwrap();
        let bill = Bill::load(Some(&state), run).unwrap();
        assert_eq!((bill.partitions, bill.failures, bill.finished), (20, 0, true));
        assert!(bill.request_units > 20.0 * 5.0, "{}", bill.request_units);
        for number in 0..20 {
            let key = Key::of(&format!("p{number}"));
            let item = client.read_item(container, "i", &key).await.unwrap().json().unwrap();
            assert_eq!(item["runs"], json!(2), "every partition was visited once");
        }
        server.stop().await;
    }

    #[test]
    fn a_state_file_belongs_to_its_run() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("state.json");
        let mut bill = Bill::load(Some(&file), json!(1)).unwrap();
        assert_eq!(bill, Bill { run: json!(1), ..Bill::default() });
        bill.continuation = Some("E1::x".to_owned());
        bill.partitions = 7;
        bill.save(Some(&file)).unwrap();
        assert_eq!(Bill::load(Some(&file), json!(1)).unwrap(), bill);
        assert!(Bill::load(Some(&file), json!(2)).unwrap_err().contains("another run"));
        std::fs::write(&file, "nonsense").unwrap();
        assert!(Bill::load(Some(&file), json!(1)).unwrap_err().contains("no state file"));
    }
}
