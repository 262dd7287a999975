//! `armilla lab`: the same questions asked of several designs of one data model, side by side.
//!
//! A [model] file says what exists, how each design stores it, and what each must do to answer. The lab
//! [loads](load) the data into a server (its own, unless one is named), [runs](run) every request the
//! way an SDK would, and [reports](report) what it cost: request units, requests, partitions, time.

mod check;
mod data;
mod fan_out;
mod fields;
mod footprint;
mod html;
mod load;
mod model;
mod report;
mod run;
mod table;
mod template;
#[cfg(test)]
mod tests;

use crate::client::{Call, Client, ConnectOptions};
use crate::local::LocalServer;
use crate::serve::stop_signal;
use crate::terminal::{note, say};
use armilla_gateway::serve::runtime;
use armilla_model::clock::SystemClock;
use clap::Args;
use data::Data;
use footprint::Footprint;
use http::Method;
use model::{Model, READY, Request};
use report::{Cell, ContainerFigures, Report, Row};
use run::Runner;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Beyond this many items the lab's own server keeps its data in a folder.
const ITEMS_IN_MEMORY_MAX: u64 = 2_000_000;

/// What `armilla lab` takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct LabOptions {
    /// A ready lab (blog, portfolio, publisher, authors, comments) or a model file; without one
    /// the ready labs are listed
    model: Option<String>,
    /// Users of the blog; short for --set users=N
    #[arg(long)]
    users: Option<u64>,
    /// Change a number of the model's [scale]
    #[arg(long = "set", value_name = "NAME=NUMBER")]
    set: Vec<String>,
    /// Another seed than the model's: other data of the same shape
    #[arg(long)]
    seed: Option<u64>,
    /// Repetitions of each request; the time shown is the median
    #[arg(long, default_value_t = 11)]
    repeat: usize,
    /// Write the report as one page with charts
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the report as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Print the model file instead, as a beginning for your own
    #[arg(long)]
    show: bool,
    /// Use the server of --endpoint instead of one inside this process; its database "lab-NAME" is
    /// made new
    #[arg(long)]
    remote: bool,
    /// Folder for the data of the server inside this process; a temporary one when there is much
    #[arg(long, value_name = "FOLDER")]
    lab_data: Option<PathBuf>,
    #[command(flatten)]
    connect: ConnectOptions,
}

/// Runs a lab and prints what it found.
pub(crate) fn run(options: &LabOptions) -> Result<(), String> {
    let Some(name) = &options.model else {
        say(&list()?);
        return Ok(());
    };
    if options.show {
        let ready = READY.iter().find(|(ready, _)| ready == name);
        say(ready.ok_or_else(|| format!("there is no ready lab '{name}'"))?.1);
        return Ok(());
    }
    let mut model = Model::find(name)?;
    model.seed = options.seed.unwrap_or(model.seed);
    let data = Data { scale: scale(&model, options)?, model: Arc::new(model) };
    let runtime = runtime(None).map_err(|error| error.to_string())?;
    let report = runtime.block_on(perform(options, &data))?;
    if let Some(file) = &options.json {
        let text = serde_json::to_string_pretty(&report).map_err(|error| error.to_string())?;
        write(file, &text)?;
    }
    if let Some(file) = &options.html {
        write(file, &html::page(&report))?;
    }
    say(&table::text(&report));
    Ok(())
}

fn list() -> Result<String, String> {
    let mut text = "Ready labs (armilla lab NAME):\n".to_owned();
    for (name, file) in READY {
        text.push_str(&format!("  {name:12} {}\n", Model::parse(file)?.title));
    }
    text.push_str(
        "A model file of your own works too; armilla lab NAME --show prints one to begin with.",
    );
    Ok(text)
}

fn scale(model: &Model, options: &LabOptions) -> Result<BTreeMap<String, u64>, String> {
    let mut scale = model.scale.clone();
    let users = options.users.map(|users| format!("users={users}"));
    for setting in options.set.iter().chain(&users) {
        let pair =
            setting.split_once('=').and_then(|(name, number)| Some((name, number.parse().ok()?)));
        let Some((name, number)) = pair else {
            return Err(format!("'{setting}' is not of the form NAME=NUMBER"));
        };
        match scale.get_mut(name) {
            Some(place) => *place = number,
            None => {
                return Err(format!(
                    "the model '{}' has no number '{name}' in [scale]",
                    model.name
                ));
            }
        }
    }
    Ok(scale)
}

async fn perform(options: &LabOptions, data: &Data) -> Result<Report, String> {
    if options.remote {
        let client = Client::new(&options.connect.endpoint()?, Arc::new(SystemClock))?;
        let database = format!("lab-{}", data.model.name);
        let mut report = measure(&client, &database, data, options.repeat).await?;
        // What this process takes says nothing about that server.
        report.footprint = Footprint::default();
        if let Err(error) = hand_over(&client, &report).await {
            note(&format!("the server did not take the report for its explorer: {error}"));
        }
        return Ok(report);
    }
    let mut items = 0;
    for container in &data.model.containers {
        items += data.items(container)?;
    }
    let temporary = match &options.lab_data {
        Some(_) => None,
        None if items <= ITEMS_IN_MEMORY_MAX => None,
        None => Some(tempfile::tempdir().map_err(|error| error.to_string())?),
    };
    let folder = options.lab_data.as_deref().or(temporary.as_ref().map(|folder| folder.path()));
    let server = LocalServer::start(server_flags(folder)).await?;
    let client = Client::new(&server.endpoint(), Arc::new(SystemClock))?;
    // Whoever stops a long load must not find its folder left behind.
    let outcome = tokio::select! {
        outcome = measure(&client, &data.model.name, data, options.repeat) => outcome,
        () = stop_signal() => Err("stopped before the end".to_owned()),
    };
    drop(client);
    server.stop().await;
    let mut report = outcome?;
    report.footprint.after_stop(folder, report.load.items);
    Ok(report)
}

/// Leaves the report with the server, whose explorer shows it.
async fn hand_over(client: &Client, report: &Report) -> Result<(), String> {
    let body = serde_json::to_vec(report).map_err(|error| error.to_string())?;
    let path = ["_armilla", "lab", "reports", report.name.as_str()];
    client.send(Call::new(Method::PUT, &path).body(body)).await?.success()?;
    Ok(())
}

fn server_flags(folder: Option<&Path>) -> Vec<OsString> {
    match folder {
        None => vec!["--in-memory".into()],
        Some(folder) => {
            vec!["--durability=relaxed".into(), "--data".into(), folder.as_os_str().to_owned()]
        }
    }
}

async fn measure(
    client: &Client,
    database: &str,
    data: &Data,
    repeat: usize,
) -> Result<Report, String> {
    let loaded = load::load(client, database, data).await?;
    let footprint = Footprint::after_load();
    let runner = Runner::new(client, database, data).await?;
    let mut containers = Vec::new();
    for container in &data.model.containers {
        let items = data.items(container)?;
        let ranges = runner.ranges_of(&container.name);
        let (name, key) = (container.name.clone(), container.key.clone());
        containers.push(ContainerFigures { name, key, items, ranges });
    }
    let mut report = Report::new(&data.model, data.scale.clone(), &loaded, containers);
    let mut rows: BTreeMap<usize, Row> = BTreeMap::new();
    // What changes data comes last, so that every design is asked about the same data.
    for writes in [false, true] {
        for (position, request) in data.model.requests.iter().enumerate() {
            if request.writes == writes {
                rows.insert(position, row(&runner, request, repeat).await?);
            }
        }
    }
    report.rows = rows.into_values().collect();
    report.footprint = footprint;
    report.footprint.after_requests();
    report.judge();
    Ok(report)
}

async fn row(runner: &Runner, request: &Request, repeat: usize) -> Result<Row, String> {
    let model = runner.model();
    let mut cells = Vec::new();
    for design in &model.designs {
        let Some(pattern) = model.pattern(request, design) else {
            cells.push(None);
            continue;
        };
        let place = |error: String| format!("{} by {design}: {error}", request.name);
        let counts = runner.run(pattern).await.map_err(place)?;
        let mut times = Vec::with_capacity(repeat);
        for _ in 0..repeat.max(1) {
            let started = Instant::now();
            runner.run(pattern).await.map_err(place)?;
            times.push(started.elapsed());
        }
        let source = request.by.get(design).and_then(|pattern| pattern.source);
        cells.push(Some(Cell::new(&counts, &mut times, source)));
    }
    let (name, title) = (request.name.clone(), request.title.clone());
    Ok(Row { name, title, cells, order_agrees: None })
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    std::fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
}
