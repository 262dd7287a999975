//! How far an import came: a small file beside its source, replaced whole.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// What is remembered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    /// From where to where; another import does not go on from here.
    pub(super) what: String,
    /// Records that are done, stored or refused.
    pub(super) records: u64,
    /// Items stored so far.
    pub(super) stored: u64,
    /// Records that could not be stored so far.
    pub(super) refused: u64,
    /// The next range of another server, and where in it.
    #[serde(default)]
    pub(super) range: usize,
    #[serde(default)]
    pub(super) continuation: Option<String>,
}

/// The file.
pub(super) struct StateFile(pub(super) Option<PathBuf>);

impl StateFile {
    /// What is remembered of this import, if anything.
    pub(super) fn read(&self, what: &str) -> Result<Option<State>, String> {
        let Some(file) = &self.0 else { return Ok(None) };
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("{}: {error}", file.display())),
        };
        let state: State = serde_json::from_str(&text)
            .map_err(|error| format!("{} is no state of an import: {error}", file.display()))?;
        if state.what != what {
            return Err(format!(
                "{} remembers another import ({}); remove it, or give --restart",
                file.display(),
                state.what
            ));
        }
        Ok(Some(state))
    }

    /// Remembers.
    pub(super) fn write(&self, state: &State) -> Result<(), String> {
        let Some(file) = &self.0 else { return Ok(()) };
        let text = serde_json::to_string(state).map_err(|error| error.to_string())?;
        replace(file, text.as_bytes())
    }

    /// Forgets: the import is done.
    pub(super) fn remove(&self) {
        if let Some(file) = &self.0 {
            let _ = std::fs::remove_file(file);
        }
    }
}

fn replace(file: &Path, bytes: &[u8]) -> Result<(), String> {
    let mut beside = file.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    std::fs::write(&beside, bytes)
        .and_then(|()| std::fs::rename(&beside, file))
        .map_err(|error| format!("{}: {error}", file.display()))
}
