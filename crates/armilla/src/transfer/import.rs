//! `armilla import`.

use super::records::{self, Record};
use super::state::{State, StateFile};
use super::{Format, key_definition, remote};
use crate::bulk::{Item, Loader, Rejection};
use crate::client::items::{ContainerName, OnConflict};
use crate::client::{Client, ConnectOptions, Endpoint};
use crate::progress;
use armilla_gateway::auth::WELL_KNOWN_KEY;
use armilla_gateway::serve::runtime;
use armilla_model::clock::SystemClock;
use armilla_model::json;
use armilla_model::partition_key::{Definition, PartitionKey};
use armilla_model::value::Value;
use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::mpsc;

/// Records handed over at once between reader and loader.
const BUNDLE_RECORDS: usize = 500;
/// Such bundles that may wait.
const BUNDLES_MAX: usize = 8;
/// After this many records everything under way is waited for and the place is remembered.
const CHECKPOINT_RECORDS: u64 = 20_000;
/// Errors that are printed; the rest is counted.
const ERRORS_SHOWN: usize = 20;
/// Buffer of a file that is read.
const READ_BUFFER: usize = 1024 * 1024;

/// What an import does where an item of that id is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConflictOption {
    /// Replace it
    Replace,
    /// Leave it and list the new one as an error
    Refuse,
}

/// What `armilla import` takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct ImportOptions {
    /// File to read; - or nothing is standard input
    file: Option<PathBuf>,
    /// Database to fill
    #[arg(long)]
    database: String,
    /// Container to fill
    #[arg(long)]
    container: String,
    /// Make database and container where they are not there, with this partition key path
    #[arg(long, value_name = "PATH")]
    partition_key: Option<String>,
    /// Throughput of a container that is made
    #[arg(long, requires = "partition_key", value_name = "RU/S")]
    throughput: Option<u32>,
    /// Format of the file; told by its name where it is not given
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// What to do where an item of that id is there already
    #[arg(long, value_enum, default_value_t = ConflictOption::Replace)]
    on_conflict: ConflictOption,
    /// Read and check everything, write nothing
    #[arg(long)]
    check: bool,
    /// Begin anew even where an interrupted import could go on
    #[arg(long)]
    restart: bool,
    /// Where to remember how far it came; beside the file when not given
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Read from this server instead of a file
    #[arg(long, value_name = "URL", conflicts_with = "file")]
    from_endpoint: Option<String>,
    /// Account key of that server
    #[arg(long, env = "ARMILLA_FROM_KEY", hide_env_values = true)]
    from_key: Option<String>,
    /// Database there; the same name when not given
    #[arg(long)]
    from_database: Option<String>,
    /// Container there; the same name when not given
    #[arg(long)]
    from_container: Option<String>,
    #[command(flatten)]
    connect: ConnectOptions,
}

/// Records on their way to the loader.
#[derive(Default)]
struct Bundle {
    items: Vec<Item>,
    errors: Vec<Rejection>,
    records: u64,
    /// Bytes of the source up to here.
    offset: u64,
    /// Where another server goes on.
    next: Option<(usize, Option<String>)>,
}

type Sender = mpsc::Sender<Result<Bundle, String>>;

/// Imports, and says what came of it.
pub(crate) fn run(options: &ImportOptions) -> Result<(), String> {
    let runtime = runtime(None).map_err(|error| error.to_string())?;
    runtime.block_on(import(options))
}

async fn import(options: &ImportOptions) -> Result<(), String> {
    let started = Instant::now();
    let client = Client::new(&options.connect.endpoint()?, Arc::new(SystemClock))?;
    let container = ContainerName::new(&options.database, &options.container);
    if !options.check {
        make_target(&client, options).await?;
    }
    let definition = key_definition(&client, container).await?;
    let state_file = StateFile(options.state_file());
    let what = options.what();
    let kept = if options.restart { None } else { state_file.read(&what)? };
    let mut state = kept.unwrap_or_else(|| State { what, ..State::default() });
    if state.records > 0 {
        eprintln!("armilla: going on behind record {}", state.records);
    }
    let bar = options.bar();
    let (sender, mut receiver) = mpsc::channel(BUNDLES_MAX);
    options.start_reader(&state, &definition, sender)?;
    let on_conflict = match options.on_conflict {
        ConflictOption::Replace => OnConflict::Replace,
        ConflictOption::Refuse => OnConflict::Refuse,
    };
    let mut loader = Loader::new(&client, container, definition, on_conflict).await?;
    let (mut errors, stored_before, refused_before) = (Vec::new(), state.stored, state.refused);
    let (mut unreadable, mut since) = (0, 0);
    while let Some(bundle) = receiver.recv().await {
        let bundle = bundle?;
        for item in bundle.items {
            if !options.check {
                loader.add(item).await?;
            }
        }
        unreadable += bundle.errors.len() as u64;
        errors.extend(bundle.errors);
        state.records += bundle.records;
        since += bundle.records;
        if let Some((range, continuation)) = bundle.next {
            (state.range, state.continuation) = (range, continuation);
        }
        show(&bar, bundle.offset, state.records);
        if since >= CHECKPOINT_RECORDS && !options.check {
            since = 0;
            loader.finish().await?;
            state.stored = stored_before + loader.progress().stored;
            state.refused = refused_before + loader.progress().refused + unreadable;
            state_file.write(&state)?;
        }
    }
    loader.finish().await?;
    bar.finish_and_clear();
    let done = loader.progress();
    let refused = refused_before + done.refused + unreadable;
    errors.extend(done.rejections.iter().cloned());
    errors.sort_by_key(|error| error.line);
    print_errors(&errors);
    let seconds = started.elapsed().as_secs_f64();
    if options.check {
        eprintln!(
            "armilla: {} records read, {refused} of them unusable; nothing was written",
            state.records
        );
    } else {
        state_file.remove();
        eprintln!(
            "armilla: {} items stored in {}/{}, {:.1} s, {:.0} items/s, {:.0} RU",
            stored_before + done.stored,
            options.database,
            options.container,
            seconds,
            done.stored as f64 / seconds.max(1e-9),
            done.charge
        );
    }
    if refused > 0 {
        return Err(format!("{refused} records could not be imported"));
    }
    Ok(())
}

async fn make_target(client: &Client, options: &ImportOptions) -> Result<(), String> {
    let Some(path) = &options.partition_key else { return Ok(()) };
    client.ensure_database(&options.database).await?;
    let definition = serde_json::json!({
        "id": options.container,
        "partitionKey": { "paths": [path], "kind": "Hash", "version": 2 },
    });
    let answer =
        client.create_container(&options.database, &definition, options.throughput).await?;
    if answer.status != 409 {
        answer.success()?;
    }
    Ok(())
}

impl ImportOptions {
    fn is_pipe(&self) -> bool {
        self.file.as_deref().is_none_or(|file| file == Path::new("-"))
    }

    fn what(&self) -> String {
        let from = match (&self.from_endpoint, &self.file) {
            (Some(endpoint), _) => {
                let database = self.from_database.as_deref().unwrap_or(&self.database);
                let container = self.from_container.as_deref().unwrap_or(&self.container);
                format!("{endpoint} {database}/{container}")
            }
            (None, Some(file)) => file.display().to_string(),
            (None, None) => "-".to_owned(),
        };
        format!("{from} to {} {}/{}", self.connect.endpoint, self.database, self.container)
    }

    fn state_file(&self) -> Option<PathBuf> {
        if self.check {
            return None;
        }
        if let Some(file) = &self.state {
            return Some(file.clone());
        }
        if self.from_endpoint.is_some() {
            return Some(PathBuf::from(format!(
                "{}-{}.armilla-import",
                self.database, self.container
            )));
        }
        let file = self.file.as_ref().filter(|_| !self.is_pipe())?;
        let mut name = file.as_os_str().to_owned();
        name.push(".armilla-import");
        Some(PathBuf::from(name))
    }

    fn bar(&self) -> ProgressBar {
        let size = self.file.as_ref().and_then(|file| std::fs::metadata(file).ok());
        match size {
            Some(size) if size.is_file() => progress::bytes(size.len(), "importing"),
            _ => progress::endless("importing"),
        }
    }

    fn start_reader(
        &self,
        state: &State,
        definition: &Definition,
        sender: Sender,
    ) -> Result<(), String> {
        let definition = definition.clone();
        if let Some(endpoint) = &self.from_endpoint {
            let key = self.from_key.as_deref().unwrap_or(WELL_KNOWN_KEY);
            let endpoint = Endpoint::new(endpoint, key, self.connect.insecure)?;
            let client = Client::new(&endpoint, Arc::new(SystemClock))?;
            let database = self.from_database.clone().unwrap_or_else(|| self.database.clone());
            let container = self.from_container.clone().unwrap_or_else(|| self.container.clone());
            let position = (state.range, state.continuation.clone());
            let records = state.records;
            tokio::spawn(async move {
                let from = ContainerName::new(&database, &container);
                let read = read_server(&client, from, position, records, &definition, &sender);
                if let Err(error) = read.await {
                    let _ = sender.send(Err(error)).await;
                }
            });
            return Ok(());
        }
        let file = self.file.clone().filter(|_| !self.is_pipe());
        let format = Format::of(self.format, file.as_deref())?;
        let source: Box<dyn BufRead + Send> = match &file {
            Some(file) => {
                let opened = std::fs::File::open(file)
                    .map_err(|error| format!("{}: {error}", file.display()))?;
                Box::new(BufReader::with_capacity(READ_BUFFER, opened))
            }
            None => Box::new(BufReader::with_capacity(READ_BUFFER, std::io::stdin())),
        };
        let skipped = state.records;
        tokio::task::spawn_blocking(move || {
            if let Err(error) = read_records(format, source, skipped, &definition, &sender) {
                let _ = sender.blocking_send(Err(error));
            }
        });
        Ok(())
    }
}

fn read_records(
    format: Format,
    source: Box<dyn BufRead + Send>,
    skipped: u64,
    definition: &Definition,
    sender: &Sender,
) -> Result<(), String> {
    let mut bundle = Bundle::default();
    for (number, record) in records::read(format, source).enumerate() {
        let record = record?;
        if (number as u64) < skipped {
            continue;
        }
        bundle.records += 1;
        bundle.offset = record.offset;
        match item(record, definition) {
            Ok(item) => bundle.items.push(item),
            Err(error) => bundle.errors.push(error),
        }
        if bundle.items.len() + bundle.errors.len() >= BUNDLE_RECORDS
            && sender.blocking_send(Ok(std::mem::take(&mut bundle))).is_err()
        {
            return Ok(());
        }
    }
    let _ = sender.blocking_send(Ok(bundle));
    Ok(())
}

async fn read_server(
    client: &Client,
    from: ContainerName<'_>,
    mut position: (usize, Option<String>),
    mut line: u64,
    definition: &Definition,
    sender: &Sender,
) -> Result<(), String> {
    let ranges = remote::ranges(client, from).await?;
    loop {
        let page = remote::page(client, from, &ranges, position).await?;
        let mut bundle = Bundle::default();
        for members in page.items {
            line += 1;
            let mut text = Vec::new();
            members.write(&mut text);
            bundle.records += 1;
            match item(Record { line, text: Ok(text), offset: 0 }, definition) {
                Ok(item) => bundle.items.push(item),
                Err(error) => bundle.errors.push(error),
            }
        }
        // The end is remembered as the range behind the last one.
        bundle.next = Some(page.next.clone().unwrap_or((ranges.len(), None)));
        if sender.send(Ok(bundle)).await.is_err() {
            return Ok(());
        }
        match page.next {
            Some(next) => position = next,
            None => return Ok(()),
        }
    }
}

/// The item of a record, or why there is none.
fn item(record: Record, definition: &Definition) -> Result<Item, Rejection> {
    let line = record.line;
    let refused = |line: u64, message: String| Rejection { line, status: 0, message };
    let text = record.text.map_err(|message| refused(line, message))?;
    let value = json::parse(&text).map_err(|error| {
        let column = error.column;
        refused(line + error.line as u64 - 1, format!("{} at column {column}", error.message))
    })?;
    let Value::Object(object) = &value else {
        return Err(refused(line, "an item is an object".to_owned()));
    };
    if !matches!(object.get("id"), Some(Value::String(_))) {
        return Err(refused(line, "the item has no 'id' that is a string".to_owned()));
    }
    Ok(Item { line, key: PartitionKey::of_item(&value, definition), body: text })
}

fn show(bar: &ProgressBar, offset: u64, records: u64) {
    if bar.length().is_some() {
        bar.set_position(offset);
        bar.set_message(format!("importing, {records} items"));
    } else {
        bar.set_position(records);
    }
}

fn print_errors(errors: &[Rejection]) {
    for error in errors.iter().take(ERRORS_SHOWN) {
        match error.status {
            0 => eprintln!("line {}: {}", error.line, error.message),
            status => eprintln!("line {}: {status} {}", error.line, error.message.trim()),
        }
    }
    if errors.len() > ERRORS_SHOWN {
        eprintln!("… and {} more", errors.len() - ERRORS_SHOWN);
    }
}
