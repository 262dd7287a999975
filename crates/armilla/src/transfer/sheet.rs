//! Items written down in one of the formats, with a count of items and bytes.

use super::Format;
use super::members::Members;
use super::records::cell;
use std::io::Write;

/// Where items are written.
pub(super) struct Sheet<W: Write> {
    pub(super) out: W,
    format: Format,
    /// The columns of a table; other formats have none.
    names: Vec<String>,
    /// Items so far.
    pub(super) items: u64,
    /// Bytes so far.
    pub(super) bytes: u64,
    text: Vec<u8>,
}

impl<W: Write> Sheet<W> {
    /// A sheet that has so many items and bytes already.
    pub(super) fn new(
        out: W,
        format: Format,
        names: Vec<String>,
        (items, bytes): (u64, u64),
    ) -> Self {
        Self { out, format, names, items, bytes, text: Vec::new() }
    }

    /// What comes before the first item.
    pub(super) fn begin(&mut self) -> Result<(), String> {
        match self.format {
            Format::Json => self.text.push(b'['),
            Format::Jsonl => {}
            Format::Csv => write_line(&mut self.text, &self.names)?,
        }
        self.write_out()
    }

    /// One item.
    pub(super) fn item(&mut self, item: &Members) -> Result<(), String> {
        match self.format {
            Format::Json => {
                self.text.extend_from_slice(if self.items == 0 { b"\n" } else { b",\n" });
                item.write(&mut self.text);
            }
            Format::Jsonl => {
                item.write(&mut self.text);
                self.text.push(b'\n');
            }
            Format::Csv => {
                let value = |name: &String| {
                    let found = item.0.iter().find(|(found, _)| found == name);
                    found.map_or(String::new(), |(name, value)| cell(name, value.get()))
                };
                let cells: Vec<String> = self.names.iter().map(value).collect();
                write_line(&mut self.text, &cells)?;
            }
        }
        self.items += 1;
        self.write_out()
    }

    /// What comes behind the last item.
    pub(super) fn end(&mut self) -> Result<(), String> {
        if self.format == Format::Json {
            self.text.extend_from_slice(b"\n]\n");
        }
        self.write_out()?;
        self.flush()
    }

    /// Hands everything to the system.
    pub(super) fn flush(&mut self) -> Result<(), String> {
        self.out.flush().map_err(|error| error.to_string())
    }

    fn write_out(&mut self) -> Result<(), String> {
        self.bytes += self.text.len() as u64;
        let written = self.out.write_all(&self.text).map_err(|error| error.to_string());
        self.text.clear();
        written
    }
}

fn write_line(out: &mut Vec<u8>, cells: &[String]) -> Result<(), String> {
    let mut line = csv::Writer::from_writer(out);
    line.write_record(cells).map_err(|error| error.to_string())?;
    line.flush().map_err(|error| error.to_string())
}
