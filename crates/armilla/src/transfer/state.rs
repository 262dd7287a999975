//! How far a transfer came: a small file beside what it reads or writes, replaced whole.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time between two moments that are remembered.
const REMEMBER_EVERY: Duration = Duration::from_millis(500);

/// What is in the file.
#[derive(Serialize, Deserialize)]
struct KeptState<S> {
    /// From where to where; another transfer does not go on from here.
    what: String,
    #[serde(flatten)]
    state: S,
}

/// The file of one transfer; without a place nothing is remembered.
pub(super) struct StateFile {
    file: Option<PathBuf>,
    what: String,
    /// When it is time to remember again; the first time comes at once.
    due: Option<Instant>,
}

impl StateFile {
    /// The file of a transfer from somewhere to somewhere.
    pub(super) fn new(file: Option<PathBuf>, what: String) -> Self {
        Self { file, what, due: None }
    }

    /// What is remembered of this transfer, if anything.
    pub(super) fn read<S: DeserializeOwned>(&self) -> Result<Option<S>, String> {
        let Some(file) = &self.file else { return Ok(None) };
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("{}: {error}", file.display())),
        };
        let kept: KeptState<S> = serde_json::from_str(&text).map_err(|error| {
            format!("{} is no state of this transfer: {error}; give --restart", file.display())
        })?;
        if kept.what != self.what {
            return Err(format!(
                "{} remembers another transfer ({}); remove it, or give --restart",
                file.display(),
                kept.what
            ));
        }
        Ok(Some(kept.state))
    }

    /// Whether it is time to remember.
    pub(super) fn is_due(&self) -> bool {
        self.file.is_some() && self.due.is_none_or(|due| Instant::now() >= due)
    }

    /// Remembers.
    pub(super) fn write<S: Serialize>(&mut self, state: &S) -> Result<(), String> {
        let Some(file) = &self.file else { return Ok(()) };
        let kept = KeptState { what: self.what.clone(), state };
        let text = serde_json::to_string(&kept).map_err(|error| error.to_string())?;
        replace(file, text.as_bytes())?;
        self.due = Some(Instant::now() + REMEMBER_EVERY);
        Ok(())
    }

    /// Forgets: the transfer is done.
    pub(super) fn remove(&self) {
        if let Some(file) = &self.file {
            let _ = std::fs::remove_file(file);
        }
    }
}

/// A file's name with something behind it.
pub(super) fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn replace(file: &Path, bytes: &[u8]) -> Result<(), String> {
    let fresh = beside(file, ".new");
    std::fs::write(&fresh, bytes)
        .and_then(|()| std::fs::rename(&fresh, file))
        .map_err(|error| format!("{}: {error}", file.display()))
}
