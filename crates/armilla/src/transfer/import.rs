//! `armilla import`.

mod errors;
mod source;

use super::remote::Position;
use super::state::{StateFile, beside};
use super::{Format, describe};
use crate::bulk::Loader;
use crate::client::items::{ContainerName, OnConflict};
use crate::client::{Client, ConnectOptions, Endpoint};
use crate::progress;
use crate::terminal::note;
use armilla_gateway::auth::WELL_KNOWN_KEY;
use armilla_gateway::serve::runtime;
use armilla_model::clock::SystemClock;
use armilla_model::partition_key::Definition;
use clap::{Args, ValueEnum};
use errors::Errors;
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};
use source::{BUNDLES_MAX, Receiver, Sender, read_records, read_server};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::mpsc;

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
    /// Write every error with its line to this file; without it the first are printed
    #[arg(long, value_name = "FILE")]
    errors: Option<PathBuf>,
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

/// How far an import came.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    /// Bytes of the file that is read; one that has changed is another.
    #[serde(default)]
    size: u64,
    /// Records that are done, stored or refused.
    pub(super) records: u64,
    /// Items stored so far.
    pub(super) stored: u64,
    /// Records that could not be stored so far.
    refused: u64,
    /// Bytes of the file of errors.
    #[serde(default)]
    errors_bytes: u64,
    /// Where another server goes on.
    #[serde(default)]
    position: Position,
}

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
    let described = describe(&client, container).await?;
    let mut state_file = StateFile::new(options.state_file(), options.what(&described.rid)?);
    let (state, resumed) = options.begin(&mut state_file)?;
    let errors = Errors::open(options.errors.as_deref(), state.refused, state.errors_bytes)?;
    let (sender, receiver) = mpsc::channel(BUNDLES_MAX);
    options.start_reader(&state, &described.key, sender)?;
    let conflict = options.on_conflict(resumed);
    let loader = Loader::new(&client, container, described.key, conflict).await?;
    let stored_before = state.stored;
    let mut import = Import { options, loader, state, state_file, errors, stored_before };
    import.receive(receiver).await?;
    import.report(started)
}

/// An import under way.
struct Import<'a> {
    options: &'a ImportOptions,
    loader: Loader,
    state: State,
    state_file: StateFile,
    errors: Errors,
    /// Items that were stored before it was interrupted.
    stored_before: u64,
}

impl Import<'_> {
    /// Stores what the reader finds until there is no more.
    async fn receive(&mut self, mut receiver: Receiver) -> Result<(), String> {
        let bar = self.options.bar();
        while let Some(bundle) = receiver.recv().await {
            let bundle = bundle?;
            if !self.options.check {
                for item in bundle.items {
                    self.loader.add(item).await?;
                }
            }
            self.errors.extend(bundle.errors)?;
            self.errors.extend(self.loader.take_rejections())?;
            self.state.records += bundle.records;
            if let Some(position) = bundle.position {
                self.state.position = position;
            }
            show(&bar, bundle.offset, self.state.records);
            if self.state_file.is_due() {
                // Only what is stored or refused may be remembered as done.
                self.settle().await?;
                self.state.stored = self.stored_before + self.loader.progress().stored;
                self.state.refused = self.errors.count;
                self.state.errors_bytes = self.errors.bytes;
                self.state_file.write(&self.state)?;
            }
        }
        self.settle().await?;
        bar.finish_and_clear();
        Ok(())
    }

    /// Waits until everything that was sent is stored or refused.
    async fn settle(&mut self) -> Result<(), String> {
        self.loader.finish().await?;
        self.errors.extend(self.loader.take_rejections())
    }

    /// Says what came of it; an error where records could not be imported.
    fn report(mut self, started: Instant) -> Result<(), String> {
        self.errors.show();
        let done = self.loader.progress();
        if self.options.check {
            note(&format!(
                "{} records read, {} of them unusable; nothing was written",
                self.state.records, self.errors.count
            ));
        } else {
            self.state_file.remove();
            let seconds = started.elapsed().as_secs_f64();
            note(&format!(
                "{} items stored in {}/{}, {seconds:.1} s, {:.0} items/s, {:.0} RU",
                self.stored_before + done.stored,
                self.options.database,
                self.options.container,
                done.stored as f64 / seconds.max(1e-9),
                done.charge
            ));
        }
        match self.errors.count {
            0 => Ok(()),
            count => Err(format!("{count} records could not be imported")),
        }
    }
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
    /// Where to begin: behind what an interrupted import had done, or at the front.
    fn begin(&self, state_file: &mut StateFile) -> Result<(State, bool), String> {
        let kept: Option<State> = if self.restart { None } else { state_file.read()? };
        let (size, resumed) = (self.source_size(), kept.is_some());
        let state = kept.unwrap_or_else(|| State { size, ..State::default() });
        if state.size != size {
            return Err(format!(
                "the file had {} bytes when its import was interrupted and has {size} now; give --restart",
                state.size
            ));
        }
        if resumed {
            note(&format!("going on behind record {}", state.records));
        }
        Ok((state, resumed))
    }

    fn is_pipe(&self) -> bool {
        self.file.as_deref().is_none_or(|file| file == Path::new("-"))
    }

    /// From where to where. A container that was made anew is another one.
    fn what(&self, rid: &str) -> Result<String, String> {
        let from = match (&self.from_endpoint, &self.file) {
            (Some(endpoint), _) => {
                let database = self.from_database.as_deref().unwrap_or(&self.database);
                let container = self.from_container.as_deref().unwrap_or(&self.container);
                format!("{endpoint} {database}/{container}")
            }
            (None, Some(file)) => file.display().to_string(),
            (None, None) => "-".to_owned(),
        };
        let to = self.connect.endpoint()?.base;
        Ok(format!("{from} to {to} {}/{} ({rid})", self.database, self.container))
    }

    fn source_size(&self) -> u64 {
        let file = self.file.as_ref().filter(|_| !self.is_pipe());
        file.and_then(|file| std::fs::metadata(file).ok()).map_or(0, |metadata| metadata.len())
    }

    /// After an interruption the items behind the last place that was remembered may be there.
    fn on_conflict(&self, resumed: bool) -> OnConflict {
        match self.on_conflict {
            ConflictOption::Replace => OnConflict::Replace,
            ConflictOption::Refuse if resumed => OnConflict::RefuseOther,
            ConflictOption::Refuse => OnConflict::Refuse,
        }
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
        Some(beside(file, ".armilla-import"))
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
            let (position, records) = (state.position.clone(), state.records);
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

fn show(bar: &ProgressBar, offset: u64, records: u64) {
    if bar.length().is_some() {
        bar.set_position(offset);
        bar.set_message(format!("importing, {records} items"));
    } else {
        bar.set_position(records);
    }
}
