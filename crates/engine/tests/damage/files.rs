//! Copies, listings and damage of files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A new folder, in memory where the system has that: a thousand trials sync more than they compute.
pub(crate) fn new_folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// What happens to a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Action {
    Delete,
    Empty,
    Cut,
    Zero,
    Flip,
}

pub(crate) const ACTIONS: [Action; 6] =
    [Action::Delete, Action::Empty, Action::Cut, Action::Zero, Action::Flip, Action::Flip];

/// Places inside files: xorshift, reproduced by its seed.
pub(crate) struct Places(pub(crate) u64);

impl Places {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }
}

/// The files below a folder, without it in front.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let all = listing(folder).into_iter();
    all.filter(|(path, _)| folder.join(path).is_file()).map(|(path, _)| path).collect()
}

/// The folders below a folder.
pub(crate) fn folders(folder: &Path) -> Vec<PathBuf> {
    let all = listing(folder).into_keys();
    all.filter(|path| folder.join(path).is_dir() && !path.as_os_str().is_empty()).collect()
}

/// Every name below a folder with its content.
pub(crate) fn listing(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![folder.to_path_buf()];
    while let Some(path) = waiting.pop() {
        let name = path.strip_prefix(folder).unwrap().to_path_buf();
        if path.is_dir() {
            waiting.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            found.insert(name, Vec::new());
        } else {
            found.insert(name, fs::read(&path).unwrap());
        }
    }
    found
}

/// The names that differ between two listings.
pub(crate) fn changed(
    before: &BTreeMap<PathBuf, Vec<u8>>,
    after: &BTreeMap<PathBuf, Vec<u8>>,
) -> Vec<PathBuf> {
    let names = before.keys().chain(after.keys());
    names.filter(|name| before.get(*name) != after.get(*name)).cloned().collect()
}

/// Copies a folder.
pub(crate) fn copy(from: &Path, to: &Path) {
    for (name, bytes) in listing(from) {
        let target = to.join(&name);
        if from.join(&name).is_dir() {
            fs::create_dir_all(target).unwrap();
        } else {
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            fs::write(target, bytes).unwrap();
        }
    }
}

/// Damages a file or removes a folder; says how, or nothing when it cannot be done to this file.
pub(crate) fn damage(path: &Path, action: Action, places: &mut Places) -> Option<String> {
    if path.is_dir() {
        fs::remove_dir_all(path).unwrap();
        return Some("deleted".to_owned());
    }
    let mut bytes = fs::read(path).unwrap();
    let length = bytes.len();
    if length == 0 && action != Action::Delete {
        return None;
    }
    // A journal has zeros behind its last batch, in which damage is no damage.
    let length = bytes.iter().rposition(|byte| *byte != 0).map_or(length, |last| last + 1);
    let said = match action {
        Action::Delete => {
            fs::remove_file(path).unwrap();
            return Some("deleted".to_owned());
        }
        Action::Empty => {
            bytes.clear();
            "emptied".to_owned()
        }
        Action::Cut => {
            let at = places.below(length);
            bytes.truncate(at);
            format!("cut at {at}")
        }
        Action::Zero => {
            let at = places.below(length);
            let end = (at + 64).min(length);
            bytes[at..end].fill(0);
            format!("zeros from {at} to {end}")
        }
        Action::Flip => {
            let (at, bit) = (places.below(length), places.below(8));
            bytes[at] ^= 1 << bit;
            format!("bit {bit} of byte {at} flipped")
        }
    };
    fs::write(path, bytes).unwrap();
    Some(said)
}

/// What a file of a data folder is.
pub(crate) fn kind_of(path: &Path) -> &'static str {
    let text = path.to_str().unwrap();
    let name = path.file_name().unwrap().to_str().unwrap();
    match name {
        "current" => "current",
        "format" => "format",
        "version" => "engine version",
        "lock" if text.contains('/') => "engine lock",
        "lock" => "lock",
        "engine.manifest" => "engine manifest",
        "engine.covered" => "covered",
        "MANIFEST" => "index manifest",
        "observed" => "observations",
        _ if name.ends_with(".jnl") => "journal",
        _ if name.ends_with(".segment") => "index segment",
        _ if text.contains("/tables/") => "table",
        _ if name.starts_with('v') && name[1..].parse::<u64>().is_ok() => "version",
        _ => "folder",
    }
}
