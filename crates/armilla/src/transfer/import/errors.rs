//! What could not be imported: the first are shown, all are counted, and all are written to a file
//! for whoever names one.

use crate::bulk::Rejection;
use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

/// Errors that are printed.
const SHOWN_MAX: usize = 20;
/// Errors among which those are chosen, by their lines: answers come in no order.
const KEPT_MAX: usize = 1000;

/// The errors of an import.
#[derive(Default)]
pub(super) struct Errors {
    kept: Vec<Rejection>,
    /// All of them, those of an interrupted import included.
    pub(super) count: u64,
    file: Option<(PathBuf, File)>,
    /// Bytes of the file.
    pub(super) bytes: u64,
}

impl Errors {
    /// Goes on behind what an interrupted import had counted and written.
    pub(super) fn open(file: Option<&Path>, count: u64, bytes: u64) -> Result<Self, String> {
        let mut errors = Self { count, ..Self::default() };
        if let Some(file) = file {
            let failed = |error: std::io::Error| format!("{}: {error}", file.display());
            let options = File::options().create(true).truncate(false).write(true).open(file);
            let mut opened = options.map_err(failed)?;
            let bytes = bytes.min(opened.metadata().map_err(failed)?.len());
            opened.set_len(bytes).map_err(failed)?;
            opened.seek(SeekFrom::Start(bytes)).map_err(failed)?;
            (errors.file, errors.bytes) = (Some((file.to_owned(), opened)), bytes);
        }
        Ok(errors)
    }

    /// Takes errors, in any order.
    pub(super) fn extend(&mut self, errors: Vec<Rejection>) -> Result<(), String> {
        self.count += errors.len() as u64;
        if let Some((file, opened)) = &mut self.file {
            let text: String = errors.iter().map(|error| line(error) + "\n").collect();
            let written = opened.write_all(text.as_bytes());
            written.map_err(|error| format!("{}: {error}", file.display()))?;
            self.bytes += text.len() as u64;
        }
        let room = KEPT_MAX.saturating_sub(self.kept.len());
        self.kept.extend(errors.into_iter().take(room));
        Ok(())
    }

    /// Prints the first.
    pub(super) fn show(&mut self) {
        self.kept.sort_by_key(|error| error.line);
        for error in self.kept.iter().take(SHOWN_MAX) {
            eprintln!("{}", line(error));
        }
        let shown = self.kept.len().min(SHOWN_MAX) as u64;
        if self.count > shown {
            eprintln!("… and {} more", self.count - shown);
        }
    }
}

fn line(error: &Rejection) -> String {
    match error.status {
        0 => format!("line {}: {}", error.line, error.message),
        status => format!("line {}: {status} {}", error.line, error.message.trim()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_errors_goes_on_where_it_was_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("errors");
        let refused = |line| Rejection { line, status: 400, message: "no\n".to_owned() };
        let mut errors = Errors::open(Some(&file), 0, 0).unwrap();
        errors.extend(vec![refused(2)]).unwrap();
        let (count, bytes) = (errors.count, errors.bytes);
        errors.extend(vec![refused(3)]).unwrap();
        let mut again = Errors::open(Some(&file), count, bytes).unwrap();
        again.extend(vec![refused(4)]).unwrap();
        assert_eq!(again.count, 2);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "line 2: 400 no\nline 4: 400 no\n");
    }
}
