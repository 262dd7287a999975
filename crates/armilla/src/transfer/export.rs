//! `armilla export`.

use super::members::Members;
use super::records::cell;
use super::{Format, remote};
use crate::client::items::ContainerName;
use crate::client::{Client, ConnectOptions};
use crate::progress;
use armilla_gateway::serve::runtime;
use armilla_model::clock::SystemClock;
use clap::Args;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
    #[command(flatten)]
    connect: ConnectOptions,
}

/// Exports a container.
pub(crate) fn run(options: &ExportOptions) -> Result<(), String> {
    let file = options.file.as_deref().filter(|file| *file != Path::new("-"));
    let format = match (file, options.format) {
        (None, None) => Format::Jsonl,
        (file, given) => Format::of(given, file)?,
    };
    let runtime = runtime(None).map_err(|error| error.to_string())?;
    let Some(file) = file else {
        let mut out = BufWriter::new(std::io::stdout().lock());
        runtime.block_on(export(options, format, &mut out))?;
        return out.flush().map_err(|error| error.to_string());
    };
    let mut part = file.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let failed = |error: std::io::Error| format!("{}: {error}", part.display());
    let mut out = BufWriter::new(std::fs::File::create(&part).map_err(failed)?);
    let count = runtime.block_on(export(options, format, &mut out))?;
    out.flush().map_err(failed)?;
    out.get_ref().sync_all().map_err(failed)?;
    std::fs::rename(&part, file).map_err(failed)?;
    eprintln!("armilla: {count} items written to {}", file.display());
    Ok(())
}

async fn export(
    options: &ExportOptions,
    format: Format,
    out: &mut (dyn Write + '_),
) -> Result<u64, String> {
    let client = Client::new(&options.connect.endpoint()?, Arc::new(SystemClock))?;
    let container = ContainerName::new(&options.database, &options.container);
    let ranges = remote::ranges(&client, container).await?;
    let names = match format {
        Format::Csv => names(&client, container, &ranges).await?,
        _ => Vec::new(),
    };
    let bar = progress::endless("exporting");
    let mut writer = ItemWriter { format, names, count: 0, out };
    writer.begin()?;
    let mut position = Some((0, None));
    while let Some(next) = position.take() {
        let page = remote::page(&client, container, &ranges, next).await?;
        for item in &page.items {
            writer.item(item)?;
        }
        bar.set_position(writer.count);
        position = page.next;
    }
    writer.end()?;
    bar.finish_and_clear();
    Ok(writer.count)
}

/// Every property that occurs, in the order of first sight: a table needs its head first.
async fn names(
    client: &Client,
    container: ContainerName<'_>,
    ranges: &[String],
) -> Result<Vec<String>, String> {
    let mut names: Vec<String> = Vec::new();
    let mut position = Some((0, None));
    while let Some(next) = position.take() {
        let page = remote::page(client, container, ranges, next).await?;
        for (name, _) in page.items.iter().flat_map(|item| &item.0) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        position = page.next;
    }
    Ok(names)
}

struct ItemWriter<'a> {
    format: Format,
    names: Vec<String>,
    count: u64,
    out: &'a mut (dyn Write + 'a),
}

impl ItemWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.out.write_all(bytes).map_err(|error| error.to_string())
    }

    fn begin(&mut self) -> Result<(), String> {
        match self.format {
            Format::Json => self.write(b"["),
            Format::Jsonl => Ok(()),
            Format::Csv => {
                let head = self.names.clone();
                self.line(&head)
            }
        }
    }

    fn item(&mut self, item: &Members) -> Result<(), String> {
        let mut text = Vec::new();
        match self.format {
            Format::Json => {
                text.extend_from_slice(if self.count == 0 { b"\n" } else { b",\n" });
                item.write(&mut text);
            }
            Format::Jsonl => {
                item.write(&mut text);
                text.push(b'\n');
            }
            Format::Csv => {
                let cells: Vec<String> = self
                    .names
                    .iter()
                    .map(|name| {
                        let found = item.0.iter().find(|(found, _)| found == name);
                        found.map_or(String::new(), |(name, value)| cell(name, value.get()))
                    })
                    .collect();
                self.count += 1;
                return self.line(&cells);
            }
        }
        self.count += 1;
        self.write(&text)
    }

    fn line(&mut self, cells: &[String]) -> Result<(), String> {
        let mut line = csv::Writer::from_writer(Vec::new());
        line.write_record(cells).map_err(|error| error.to_string())?;
        let text = line.into_inner().map_err(|error| error.to_string())?;
        self.write(&text)
    }

    fn end(&mut self) -> Result<(), String> {
        if self.format == Format::Json { self.write(b"\n]\n") } else { Ok(()) }
    }
}
