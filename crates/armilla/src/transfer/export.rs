//! `armilla export`.
//!
//! A file grows under the name `FILE.part` and takes its own name only when it is whole. Beside it
//! `FILE.armilla-export` remembers a [`ExportState`]: how far the container was read, and how long the
//! file was then. An export that was killed cuts the file back to that length and goes on.

use super::remote::{self, Arrived, Position};
use super::sheet::Sheet;
use super::state::{StateFile, beside};
use super::{Described, Format, describe};
use crate::client::items::ContainerName;
use crate::client::{Client, ConnectOptions};
use crate::progress;
use crate::terminal::note;
use armilla_gateway::serve::runtime;
use armilla_model::clock::SystemClock;
use clap::Args;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufWriter, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Buffer of a file that is written.
const WRITE_BUFFER: usize = 1024 * 1024;

/// What `armilla export` takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct ExportOptions {
    /// File to write; - or nothing is standard output
    file: Option<PathBuf>,
    /// Database to read
    #[arg(long)]
    database: String,
    /// Container to read
    #[arg(long)]
    container: String,
    /// Format; told by the file's name where it is not given, else jsonl
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Begin anew even where an interrupted export could go on
    #[arg(long)]
    restart: bool,
    #[command(flatten)]
    connect: ConnectOptions,
}

/// How far an export came.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct ExportState {
    position: Position,
    /// Items and bytes of the file up to here.
    items: u64,
    bytes: u64,
    /// The same where the range began that is being read.
    range_items: u64,
    range_bytes: u64,
    /// The columns of a table.
    #[serde(default)]
    names: Vec<String>,
}

/// Exports a container.
pub(crate) fn run(options: &ExportOptions) -> Result<(), String> {
    let file = options.file.as_deref().filter(|file| *file != Path::new("-"));
    let format = match (file, options.format) {
        (None, None) => Format::Jsonl,
        (file, given) => Format::of(given, file)?,
    };
    let runtime = runtime(None).map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let client = Client::new(&options.connect.endpoint()?, Arc::new(SystemClock))?;
        let container = ContainerName::new(&options.database, &options.container);
        let described = describe(&client, container).await?;
        let source = ExportSource { client: &client, container, format, described };
        match file {
            Some(file) => source.to_file(options, file).await,
            None => source.to_pipe().await,
        }
    })
}

/// From where to where. A container that was made anew is another one.
pub(super) fn what(
    base: &str,
    container: ContainerName<'_>,
    rid: &str,
    file: &Path,
    format: Format,
) -> String {
    let ContainerName { database, container } = container;
    format!("{base} {database}/{container} ({rid}) to {} as {format:?}", file.display())
}

/// What is exported.
struct ExportSource<'a> {
    client: &'a Client,
    container: ContainerName<'a>,
    format: Format,
    described: Described,
}

impl ExportSource<'_> {
    async fn to_pipe(&self) -> Result<(), String> {
        let names = self.names().await?;
        let out = BufWriter::with_capacity(WRITE_BUFFER, std::io::stdout());
        let mut sheet = Sheet::new(out, self.format, names, (0, 0));
        sheet.begin()?;
        let mut pages = remote::read(self.client, self.container, Position::default());
        while let Some(arrived) = pages.recv().await {
            match arrived? {
                Arrived::Page(items, _) => {
                    items.iter().try_for_each(|item| sheet.item(item))?;
                }
                Arrived::Again(_) => {
                    return Err("the container was split while it was read, and what is piped \
                                cannot be taken back; export to a file"
                        .to_owned());
                }
            }
        }
        sheet.end()
    }

    async fn to_file(&self, options: &ExportOptions, file: &Path) -> Result<(), String> {
        let started = Instant::now();
        let part = beside(file, ".part");
        let base = options.connect.endpoint()?.base;
        let what = what(&base, self.container, &self.described.rid, file, self.format);
        let mut state = StateFile::new(Some(beside(file, ".armilla-export")), what);
        let kept: Option<ExportState> = if options.restart { None } else { state.read()? };
        let interrupted = match kept {
            Some(place) => Growing::go_on(&part, self.format, place)?,
            None => None,
        };
        let mut growing = match interrupted {
            Some(growing) => growing,
            None => {
                state.remove();
                Growing::begin(&part, self.format, self.names().await?)?
            }
        };
        let before = growing.place.items;
        if before > 0 {
            note(&format!("going on behind item {before}"));
        }
        let bar = progress::items_or_endless(self.described.items, "exporting");
        bar.set_position(before);
        bar.reset_eta();
        let mut pages = remote::read(self.client, self.container, growing.place.position.clone());
        while let Some(arrived) = pages.recv().await {
            match arrived? {
                Arrived::Page(items, position) => {
                    items.iter().try_for_each(|item| growing.sheet.item(item))?;
                    growing.reached(position);
                }
                Arrived::Again(position) => growing.go_back(position)?,
            }
            bar.set_position(growing.sheet.items);
            if state.is_due() {
                growing.save()?;
                state.write(&growing.place)?;
            }
        }
        let items = growing.finish()?;
        std::fs::rename(&part, file).map_err(|error| format!("{}: {error}", file.display()))?;
        state.remove();
        bar.finish_and_clear();
        let seconds = started.elapsed().as_secs_f64();
        let rate = (items - before) as f64 / seconds.max(1e-9);
        note(&format!(
            "{items} items written to {}, {seconds:.1} s, {rate:.0} items/s",
            file.display()
        ));
        Ok(())
    }

    /// Every property that occurs, in the order of first sight: a table needs its head first.
    async fn names(&self) -> Result<Vec<String>, String> {
        let mut names: Vec<String> = Vec::new();
        if self.format != Format::Csv {
            return Ok(names);
        }
        let mut pages = remote::read(self.client, self.container, Position::default());
        while let Some(arrived) = pages.recv().await {
            let Arrived::Page(items, _) = arrived? else { continue };
            for (name, _) in items.iter().flat_map(|item| &item.0) {
                if !names.contains(name) {
                    names.push(name.clone());
                }
            }
        }
        Ok(names)
    }
}

/// A file on its way.
struct Growing {
    file: PathBuf,
    sheet: Sheet<BufWriter<File>>,
    place: ExportState,
}

impl Growing {
    fn begin(file: &Path, format: Format, names: Vec<String>) -> Result<Self, String> {
        let opened = File::create(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let place = ExportState { names, ..ExportState::default() };
        let mut growing = Self::over(file, opened, format, place);
        growing.begin_file()?;
        Ok(growing)
    }

    /// Goes on where an interrupted export stopped, if what it had written is still there.
    fn go_on(file: &Path, format: Format, place: ExportState) -> Result<Option<Self>, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", file.display());
        let opened = match File::options().read(true).write(true).open(file) {
            Ok(opened) => opened,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        if opened.metadata().map_err(failed)?.len() < place.bytes {
            return Ok(None);
        }
        let (items, bytes) = (place.items, place.bytes);
        let mut growing = Self::over(file, opened, format, place);
        growing.cut(items, bytes)?;
        Ok(Some(growing))
    }

    fn over(file: &Path, opened: File, format: Format, place: ExportState) -> Self {
        let out = BufWriter::with_capacity(WRITE_BUFFER, opened);
        let sheet = Sheet::new(out, format, place.names.clone(), (place.items, place.bytes));
        Self { file: file.to_owned(), sheet, place }
    }

    /// Writes what comes before the first item.
    fn begin_file(&mut self) -> Result<(), String> {
        self.sheet.begin()?;
        (self.place.items, self.place.bytes) = (0, self.sheet.bytes);
        (self.place.range_items, self.place.range_bytes) = (0, self.sheet.bytes);
        self.place.position = Position::default();
        Ok(())
    }

    /// Everything before this position is written.
    fn reached(&mut self, position: Position) {
        let (items, bytes) = (self.sheet.items, self.sheet.bytes);
        if position.range != self.place.position.range {
            (self.place.range_items, self.place.range_bytes) = (items, bytes);
        }
        (self.place.items, self.place.bytes, self.place.position) = (items, bytes, position);
    }

    /// Everything behind this position comes again.
    fn go_back(&mut self, position: Position) -> Result<(), String> {
        if position.range == self.place.position.range {
            self.cut(self.place.range_items, self.place.range_bytes)?;
        } else {
            self.cut(0, 0)?;
            self.begin_file()?;
        }
        self.reached(position);
        Ok(())
    }

    /// Cuts the file to a length it had.
    fn cut(&mut self, items: u64, bytes: u64) -> Result<(), String> {
        self.sheet.flush()?;
        let failed = |error: std::io::Error| format!("{}: {error}", self.file.display());
        let file = self.sheet.out.get_mut();
        file.set_len(bytes).map_err(failed)?;
        file.seek(SeekFrom::Start(bytes)).map_err(failed)?;
        (self.sheet.items, self.sheet.bytes) = (items, bytes);
        Ok(())
    }

    /// Makes what is written so far last, so that it may be remembered.
    fn save(&mut self) -> Result<(), String> {
        self.sheet.flush()?;
        let saved = self.sheet.out.get_ref().sync_data();
        saved.map_err(|error| format!("{}: {error}", self.file.display()))
    }

    fn finish(mut self) -> Result<u64, String> {
        self.sheet.end()?;
        self.save()?;
        Ok(self.sheet.items)
    }
}
