//! What loaded data takes: bytes on the disk, and memory of the process that serves it.

use serde::Serialize;
use std::path::Path;

/// Disk and memory, where they can be told: not of another server, and memory on Linux only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Footprint {
    /// Bytes of the data folder after a clean stop; nothing where data is kept in memory.
    pub(crate) disk_bytes: Option<u64>,
    /// Those bytes for each item.
    pub(crate) disk_bytes_per_item: Option<f64>,
    /// Resident memory of this process, server and lab together, after the load.
    pub(crate) memory_bytes_loaded: Option<u64>,
    /// The same after all requests.
    pub(crate) memory_bytes: Option<u64>,
    /// The most it ever was.
    pub(crate) memory_bytes_peak: Option<u64>,
}

impl Footprint {
    /// Looks at the memory when everything is loaded.
    pub(crate) fn after_load() -> Self {
        Self { memory_bytes_loaded: resident("VmRSS:"), ..Self::default() }
    }

    /// Looks at the memory when every request is answered.
    pub(crate) fn after_requests(&mut self) {
        self.memory_bytes = resident("VmRSS:");
        self.memory_bytes_peak = resident("VmHWM:");
    }

    /// Looks at the disk when the server has closed its files.
    pub(crate) fn after_stop(&mut self, folder: Option<&Path>, items: u64) {
        self.disk_bytes = folder.and_then(|folder| size_of(folder).ok());
        self.disk_bytes_per_item =
            self.disk_bytes.filter(|_| items > 0).map(|bytes| bytes as f64 / items as f64);
    }
}

/// A line of what the system says about this process, in bytes.
fn resident(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// Bytes of all files of a folder.
fn size_of(folder: &Path) -> std::io::Result<u64> {
    let mut total = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        total += if metadata.is_dir() { size_of(&entry.path())? } else { metadata.len() };
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_added_up_and_shared_out() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("inner")).unwrap();
        std::fs::write(folder.path().join("a"), [0; 300]).unwrap();
        std::fs::write(folder.path().join("inner/b"), [0; 700]).unwrap();
        let mut footprint = Footprint::default();
        footprint.after_stop(Some(folder.path()), 4);
        assert_eq!(footprint.disk_bytes, Some(1000));
        assert_eq!(footprint.disk_bytes_per_item, Some(250.0));
        footprint.after_stop(None, 4);
        assert_eq!(footprint.disk_bytes, None);
    }
}
