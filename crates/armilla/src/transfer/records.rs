//! Records of a file or a pipe, one after the other, with the line each begins on.

use super::Format;
use serde_json::{Map, Value};
use std::io::{BufRead, Read};

/// Longest record that is read; the service stores no more than two million bytes.
const RECORD_SIZE_MAX: usize = 16 * 1024 * 1024;

/// One record: its line and its JSON text, or why it has none.
pub(super) struct Record {
    pub(super) line: u64,
    pub(super) text: Result<Vec<u8>, String>,
    /// Bytes of the source up to its end.
    pub(super) offset: u64,
}

/// The records of a source.
pub(super) fn read(
    format: Format,
    source: Box<dyn BufRead + Send>,
) -> Box<dyn Iterator<Item = Result<Record, String>> + Send> {
    match format {
        Format::Jsonl => Box::new(Lines { source, line: 0, offset: 0 }),
        Format::Json => Box::new(Values { source, line: 1, offset: 0, ended: false }),
        Format::Csv => Box::new(Cells::new(source)),
    }
}

/// One JSON value per line; empty lines are passed over.
struct Lines {
    source: Box<dyn BufRead + Send>,
    line: u64,
    offset: u64,
}

impl Iterator for Lines {
    type Item = Result<Record, String>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let mut text = Vec::new();
            let limit = RECORD_SIZE_MAX as u64;
            match self.source.by_ref().take(limit).read_until(b'\n', &mut text) {
                Err(error) => return Some(Err(error.to_string())),
                Ok(0) => return None,
                Ok(count) => self.offset += count as u64,
            }
            self.line += 1;
            if text.len() == RECORD_SIZE_MAX {
                return Some(Err(format!(
                    "line {} is longer than {RECORD_SIZE_MAX} bytes",
                    self.line
                )));
            }
            let trimmed = text.trim_ascii();
            if !trimmed.is_empty() {
                let text = Ok(trimmed.to_vec());
                return Some(Ok(Record { line: self.line, text, offset: self.offset }));
            }
        }
    }
}

/// The elements of an array, or values one behind the other. Only brackets and strings are looked at, so an
/// element that is wrong inside costs only itself.
struct Values {
    source: Box<dyn BufRead + Send>,
    line: u64,
    offset: u64,
    ended: bool,
}

impl Values {
    fn byte(&mut self) -> Result<Option<u8>, String> {
        let byte = self.source.fill_buf().map_err(|error| error.to_string())?.first().copied();
        if byte.is_some() {
            self.source.consume(1);
            self.offset += 1;
        }
        Ok(byte)
    }

    fn value(&mut self) -> Result<Option<Record>, String> {
        let mut text = Vec::new();
        let (mut depth, mut in_string, mut escaped, mut begun_on) =
            (0_usize, false, false, self.line);
        while let Some(byte) = self.byte()? {
            self.line += u64::from(byte == b'\n');
            if text.is_empty() {
                // Between the elements: the array's own brackets, commas and space.
                if byte.is_ascii_whitespace() || matches!(byte, b'[' | b']' | b',') {
                    continue;
                }
                begun_on = self.line;
            }
            let between = depth == 0 && !in_string;
            if between && !text.is_empty() && matches!(byte, b',' | b']' | b'\n') {
                return Ok(Some(self.record(begun_on, text)));
            }
            text.push(byte);
            if text.len() > RECORD_SIZE_MAX {
                return Err(format!(
                    "the value on line {begun_on} is longer than {RECORD_SIZE_MAX} bytes"
                ));
            }
            match byte {
                _ if escaped => escaped = false,
                b'\\' if in_string => escaped = true,
                b'"' => in_string = !in_string,
                b'{' | b'[' if !in_string => depth += 1,
                b'}' | b']' if !in_string => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return Ok(Some(self.record(begun_on, text)));
                    }
                }
                _ => {}
            }
        }
        self.ended = true;
        Ok((!text.is_empty()).then(|| self.record(begun_on, text)))
    }

    fn record(&self, line: u64, text: Vec<u8>) -> Record {
        Record { line, text: Ok(text), offset: self.offset }
    }
}

impl Iterator for Values {
    type Item = Result<Record, String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        self.value().transpose()
    }
}

/// A header line, then cells. An empty cell is a property that is not there; `id` is always text.
struct Cells {
    reader: csv::Reader<Box<dyn BufRead + Send>>,
    names: Result<csv::StringRecord, String>,
}

impl Cells {
    fn new(source: Box<dyn BufRead + Send>) -> Self {
        let mut reader = csv::Reader::from_reader(source);
        let names = reader.headers().cloned().map_err(|error| error.to_string());
        Self { reader, names }
    }
}

impl Iterator for Cells {
    type Item = Result<Record, String>;

    fn next(&mut self) -> Option<Self::Item> {
        let names = match &self.names {
            Ok(names) => names,
            Err(error) => return Some(Err(error.clone())),
        };
        let mut cells = csv::StringRecord::new();
        let read = self.reader.read_record(&mut cells);
        let line = cells.position().map_or(self.reader.position().line(), csv::Position::line);
        let offset = self.reader.position().byte();
        let text = match read {
            Ok(false) => return None,
            Ok(true) => Ok(object(names, &cells).to_string().into_bytes()),
            Err(error) if error.is_io_error() => return Some(Err(error.to_string())),
            Err(error) => Err(error.to_string()),
        };
        Some(Ok(Record { line, text, offset }))
    }
}

fn object(names: &csv::StringRecord, cells: &csv::StringRecord) -> Value {
    let mut members = Map::new();
    for (name, cell) in names.iter().zip(cells) {
        if !cell.is_empty() {
            members.insert(name.to_owned(), cell_value(name, cell));
        }
    }
    Value::Object(members)
}

/// A cell as a value; an export writes text that would be mistaken with quotes of its own.
fn cell_value(name: &str, cell: &str) -> Value {
    if name == "id" {
        return Value::from(cell);
    }
    match serde_json::from_str(cell) {
        Ok(value) => value,
        _ => Value::from(cell),
    }
}

/// A value as a cell, the other way round.
pub(super) fn cell(name: &str, json: &str) -> String {
    match serde_json::from_str(json) {
        Ok(Value::String(text)) => {
            let mistaken =
                name != "id" && (text.is_empty() || serde_json::from_str::<Value>(&text).is_ok());
            if mistaken { json.to_owned() } else { text }
        }
        _ => json.to_owned(),
    }
}
