//! `engine.manifest`: what must be in the engine's folder, in our words.
//!
//! The engine deletes what it cannot resolve and begins anew where something is missing. The manifest
//! lets us refuse such a folder before the engine sees it. Text, so that a person can read it:
//!
//! ```text
//! armilla-engine 1
//! keyspace 1 meta                       a tree that commits may use, with its number
//! journal 3 floor 17 unflushed 1:4 2:7  a journal; no batch in it has a number below the floor; when
//!                                       it was noted, trees 1 and 2 had writes in it that their
//!                                       lists of version 4 and 7 did not hold yet
//! crc32c 8d3a01f0                       of everything above
//! ```
//!
//! It is always true of a healthy folder, whenever the process ends: a tree is noted before its first
//! commit; a journal is noted as soon as it is seen, and a note only says what a journal held *then*.
//! The engine removes a journal when every tree with writes in it has flushed them, which raises the
//! version of the tree's list. So a noted journal may be absent only if all those versions have risen.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use parking_lot::Mutex;

use super::tree_files::damaged;
use crate::StoreError;
use crate::disk::{Disk, FolderDisk};

pub(super) const MANIFEST_FILE: &str = "engine.manifest";
const HEAD: &str = "armilla-engine 1";
const CHECKSUM: &str = "crc32c";

/// What must be there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Manifest {
    /// Names of trees by number.
    pub(super) keyspaces: BTreeMap<u64, String>,
    /// What is known of each journal, by number.
    pub(super) journals: BTreeMap<u64, JournalNote>,
}

/// What is known of a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct JournalNote {
    /// No batch has a smaller sequence number.
    pub(super) floor: u64,
    /// Trees with unflushed writes in it, and the version of their list of files at that time.
    pub(super) unflushed: Vec<(u64, u64)>,
}

impl Manifest {
    /// Reads the manifest beside the engine's folder; `None` when there is none.
    pub(super) fn read(folder: &Path) -> Result<Option<Self>, StoreError> {
        let path = folder.join(MANIFEST_FILE);
        match std::fs::read(&path) {
            Ok(bytes) => {
                let found = Self::decode(&bytes);
                found.map(Some).ok_or_else(|| damaged(&path, "its checksum is wrong; if it alone is damaged, move it away: it is made anew after all other checks"))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::file("read", &path, error)),
        }
    }

    /// Whether these notes, of an earlier start, refuse nothing that newer ones allow.
    fn is_true_beside(&self, newer: &Self) -> bool {
        let floor = |number: &u64| newer.journals.get(number).map_or(u64::MAX, |note| note.floor);
        self.keyspaces == newer.keyspaces
            && self.journals.iter().all(|(number, note)| note.floor <= floor(number))
    }

    fn encode(&self) -> String {
        let mut text = format!("{HEAD}\n");
        for (tree, name) in &self.keyspaces {
            let _ = writeln!(text, "keyspace {tree} {name}");
        }
        for (journal, note) in &self.journals {
            let _ = write!(text, "journal {journal} floor {} unflushed", note.floor);
            for (tree, version) in &note.unflushed {
                let _ = write!(text, " {tree}:{version}");
            }
            text.push('\n');
        }
        let checksum = crc32c::crc32c(text.as_bytes());
        let _ = writeln!(text, "{CHECKSUM} {checksum:08x}");
        text
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let body = text.get(..text.trim_end().rfind('\n')? + 1)?;
        let checksum = text.get(body.len()..)?.strip_suffix('\n')?.strip_prefix(CHECKSUM)?;
        let checksum = u32::from_str_radix(checksum.strip_prefix(' ')?, 16).ok()?;
        if checksum != crc32c::crc32c(body.as_bytes()) {
            return None;
        }
        let mut lines = body.lines();
        let mut manifest = (lines.next()? == HEAD).then(Self::default)?;
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["keyspace", tree, name] => {
                    manifest.keyspaces.insert(tree.parse().ok()?, name.to_owned());
                }
                ["journal", journal, "floor", floor, "unflushed", ref trees @ ..] => {
                    let pair = |pair: &&str| {
                        let (tree, version) = pair.split_once(':')?;
                        Some((tree.parse().ok()?, version.parse().ok()?))
                    };
                    let unflushed = trees.iter().map(pair).collect::<Option<_>>()?;
                    let note = JournalNote { floor: floor.parse().ok()?, unflushed };
                    manifest.journals.insert(journal.parse().ok()?, note);
                }
                _ => return None,
            }
        }
        Some(manifest)
    }
}

/// The manifest of an open store: changed in memory and on disk together.
pub(super) struct ManifestFile {
    disk: FolderDisk,
    state: Mutex<Manifest>,
}

impl ManifestFile {
    /// The manifest that was read from this folder.
    pub(super) fn new(folder: &Path, manifest: Manifest) -> Result<Self, StoreError> {
        Ok(Self { disk: FolderDisk::new(folder)?, state: Mutex::new(manifest) })
    }

    /// The notes of a start. On a full disk the ones of before may stay, if they are still true.
    pub(super) fn begin(&self, manifest: Manifest) -> Result<(), StoreError> {
        let still_true = self.state.lock().is_true_beside(&manifest);
        match self.change(|state| *state = manifest) {
            Err(error) if still_true && error.is_full_disk() => Ok(()),
            other => other,
        }
    }

    /// Changes it; durable when this returns.
    pub(super) fn change(&self, change: impl FnOnce(&mut Manifest)) -> Result<(), StoreError> {
        let mut state = self.state.lock();
        let mut next = state.clone();
        change(&mut next);
        if next != *state {
            self.disk.replace(Path::new(MANIFEST_FILE), next.encode().as_bytes())?;
            *state = next;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Manifest {
        let note = |floor, unflushed: &[_]| JournalNote { floor, unflushed: unflushed.to_vec() };
        Manifest {
            keyspaces: BTreeMap::from([(1, "meta".to_owned()), (2, "items".to_owned())]),
            journals: BTreeMap::from([(3, note(17, &[(1, 4), (2, 7)])), (4, note(90, &[]))]),
        }
    }

    #[test]
    fn a_manifest_survives_its_text() {
        for manifest in [sample(), Manifest::default()] {
            assert_eq!(Manifest::decode(manifest.encode().as_bytes()), Some(manifest));
        }
    }

    #[test]
    fn any_changed_or_missing_byte_is_noticed() {
        let text = sample().encode().into_bytes();
        for at in 0..text.len() {
            assert_eq!(Manifest::decode(&text[..at]), None, "cut at {at}");
            for bit in [1, 0x20, 0x80] {
                let mut changed = text.clone();
                changed[at] ^= bit;
                // A digit of the checksum may change its case and nothing else.
                let found = Manifest::decode(&changed);
                assert!(found.is_none() || found == Some(sample()), "bit {bit} at {at}");
            }
        }
    }
}
