//! The files an index needs: a small trait, so that the index is handed its disk.
//! Torn and damaged files are noticed where they are decoded: `segment` and `manifest` check every byte they read.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, MutexGuard},
};

use bytes::Bytes;

/// A folder that belongs to one index alone. Names are plain file names without separators.
pub trait Files: Send + Sync {
    /// Creates a file, or empties it, for writing from the beginning.
    fn create(&self, name: &str) -> io::Result<Box<dyn Output>>;

    /// The content of a file, mapped or read. It stays readable after [`Files::remove`]: a system
    /// that cannot remove a mapped file answers with an error, and the file goes at the next open.
    fn map(&self, name: &str) -> io::Result<Bytes>;

    /// Gives a file another name, replacing what has it. Durable when it returns: the folder is
    /// synced as well.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file; it is no error if there is none.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// The names of all files.
    fn list(&self) -> io::Result<Vec<String>>;
}

/// A file being written.
pub trait Output: io::Write {
    /// Returns when everything written so far, and the file itself, will survive a power loss.
    fn sync(&mut self) -> io::Result<()>;
}

/// Files in memory, for tests and for servers that keep nothing. Clones share the files.
///
/// [`MemoryFiles::crash`] loses what was not synced, as a power loss may.
#[derive(Clone, Default)]
pub struct MemoryFiles {
    files: Arc<Mutex<BTreeMap<String, Stored>>>,
}

#[derive(Clone, Default)]
struct Stored {
    written: Vec<u8>,
    synced: Option<Vec<u8>>,
}

impl MemoryFiles {
    /// No files.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets everything that was not synced.
    pub fn crash(&self) {
        let mut files = self.lock();
        files.retain(|_, stored| stored.synced.is_some());
        for stored in files.values_mut() {
            stored.written = stored.synced.clone().unwrap_or_default();
        }
    }

    /// Replaces the content of a file, to see what happens to a damaged one.
    pub fn damage(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        if let Some(stored) = self.lock().get_mut(name) {
            change(&mut stored.written);
            stored.synced = Some(stored.written.clone());
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Stored>> {
        self.files.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Files for MemoryFiles {
    fn create(&self, name: &str) -> io::Result<Box<dyn Output>> {
        self.lock().insert(name.to_owned(), Stored::default());
        Ok(Box::new(MemoryOutput { files: self.clone(), name: name.to_owned() }))
    }

    fn map(&self, name: &str) -> io::Result<Bytes> {
        match self.lock().get(name) {
            Some(stored) => Ok(Bytes::from(stored.written.clone())),
            None => Err(io::Error::from(io::ErrorKind::NotFound)),
        }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut files = self.lock();
        let Some(stored) = files.remove(from) else {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        };
        files.insert(to.to_owned(), stored);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.lock().remove(name);
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.lock().keys().cloned().collect())
    }
}

struct MemoryOutput {
    files: MemoryFiles,
    name: String,
}

impl io::Write for MemoryOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.files.lock().get_mut(&self.name) {
            Some(stored) => stored.written.extend_from_slice(bytes),
            None => return Err(io::Error::from(io::ErrorKind::NotFound)),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Output for MemoryOutput {
    fn sync(&mut self) -> io::Result<()> {
        if let Some(stored) = self.files.lock().get_mut(&self.name) {
            stored.synced = Some(stored.written.clone());
        }
        Ok(())
    }
}
