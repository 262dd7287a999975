//! The file `node` in a node's data folder: whose copy it is, and whether the node is being drained.

use super::record::AccountRecord;
use super::serve::patiently;
use armilla_storage::disk::{Disk as _, FolderDisk};
use armilla_storage::ledger::{Incarnation, Member};
use armilla_storage::{Direction, KeyRange, Keyspace, Store, StoreError};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

const FILE: &str = "node";

/// Whose copy a folder holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NodeFile {
    pub(super) account: String,
    pub(super) name: String,
    /// The life of the node that had the folder last.
    pub(super) incarnation: u64,
    /// That life is being drained, and was not ended in order. Others forget it once the node is gone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) draining: bool,
}

/// A node that has joined, with what its folder notes of it.
pub(super) struct Joined {
    pub(super) member: Member,
    pub(super) notes: NodeNotes,
}

/// Keeps the file of a folder up to whether the node is being drained.
#[derive(Default)]
pub(super) struct NodeNotes(Option<Mutex<(PathBuf, NodeFile)>>);

impl Joined {
    /// Notes the life that begins. A node whose life before was being drained and ended without an order is drained again, however long ago that was.
    pub(super) fn enter(member: Member, folder: &Path, file: NodeFile) -> Result<Self, String> {
        let incarnation = member.incarnation().0;
        let file = NodeFile { incarnation, ..file };
        file.write(folder)?;
        if file.draining {
            patiently(|| member.drain())?;
        }
        let notes = NodeNotes(Some(Mutex::new((folder.to_owned(), file))));
        Ok(Self { member, notes })
    }
}

impl NodeNotes {
    /// Notes whether the node is being drained, where that is news.
    pub(super) fn note_draining(&self, is_draining: bool) {
        let Some(noted) = &self.0 else { return };
        let (folder, file) = &mut *noted.lock();
        if file.draining == is_draining {
            return;
        }
        let news = NodeFile { draining: is_draining, ..file.clone() };
        match news.write(folder) {
            Ok(()) => *file = news,
            Err(error) => {
                tracing::warn!(%error, "the data folder could not note whether this node is drained");
            }
        }
    }
}

impl NodeFile {
    /// What the file says; nothing where there is none.
    pub(super) fn read(folder: &Path) -> Result<Option<Self>, String> {
        if !folder.is_dir() {
            return Ok(None);
        }
        let disk = FolderDisk::new(folder).map_err(|error| error.to_string())?;
        let bytes = disk.read(Path::new(FILE)).map_err(|error| error.to_string())?;
        let Some(bytes) = bytes else { return Ok(None) };
        let found = serde_json::from_slice(&bytes).map_err(|error| {
            format!(
                "{} is damaged: {error}. Move the data folder away: the node copies the account anew",
                folder.join(FILE).display()
            )
        })?;
        Ok(Some(found))
    }

    pub(super) fn write(&self, folder: &Path) -> Result<(), String> {
        let disk = FolderDisk::new(folder).map_err(|error| error.to_string())?;
        let bytes = serde_json::to_vec(self).map_err(|error| error.to_string())?;
        disk.replace(Path::new(FILE), &bytes).map_err(|error| error.to_string())
    }

    /// What a folder with this file is to the node of a name in an account.
    pub(super) fn belongs(
        found: Option<&Self>,
        folder: &Path,
        (account, name, record): (&str, &str, &AccountRecord),
    ) -> Result<FolderCopy, String> {
        let Some(found) = found else { return Ok(FolderCopy::None) };
        let is_lost = record.is_lost(&found.account);
        if found.account != account && !is_lost {
            return Err(format!(
                "{} holds a copy of another account: give another --data, or move it away",
                folder.display()
            ));
        }
        if found.name != name {
            return Err(format!(
                "{} is the folder of the node '{}', not of '{name}': each node has a folder of its own",
                folder.display(),
                found.name
            ));
        }
        let life = Incarnation(found.incarnation);
        Ok(if is_lost { FolderCopy::Lost(life) } else { FolderCopy::Own(life) })
    }
}

/// What a data folder is to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FolderCopy {
    /// No node has had it.
    None,
    /// This node has, in this life.
    Own(Incarnation),
    /// This node has, before a loss that was accepted: its copy may hold what the account does not.
    Lost(Incarnation),
}

impl FolderCopy {
    pub(super) fn incarnation(self) -> Option<Incarnation> {
        match self {
            Self::None => None,
            Self::Own(life) | Self::Lost(life) => Some(life),
        }
    }
}

/// Throws away what lies in a folder that no other process may have open.
pub(super) fn empty(folder: &Path) -> Result<(), String> {
    let disk = FolderDisk::existing(folder);
    // The name goes last: a folder without one that holds something is nobody's.
    let names = disk.list(Path::new("")).map_err(|error| error.to_string())?;
    for name in names.iter().filter(|name| *name != FILE) {
        let path = Path::new(name);
        let removed =
            if folder.join(path).is_dir() { disk.remove_folder(path) } else { disk.remove(path) };
        removed.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Refuses to serve a node's copy as if it were a server's own data: what it would acknowledge, no other node would know of.
pub(crate) fn refuse_node_folder(folder: &Path) -> Result<(), String> {
    match NodeFile::read(folder)? {
        None => Ok(()),
        Some(node) => Err(format!(
            "{} is the copy of the node '{}' of an account that lies in a database: give --store. To make a server of \
             its own of it, back it up (armilla backup) and restore that into another folder",
            folder.display(),
            node.name
        )),
    }
}

/// Refuses a folder that holds something and belongs to no node.
pub(super) fn refuse_foreign_data(store: &dyn Store, folder: &Path) -> Result<(), String> {
    let is_empty = |keyspace| {
        let snapshot = store.snapshot();
        let first = snapshot.first(keyspace, &KeyRange::all(), Direction::Forward)?;
        Ok::<_, StoreError>(first.is_none())
    };
    for keyspace in Keyspace::ALL {
        if !is_empty(keyspace).map_err(|error| error.to_string())? {
            return Err(format!(
                "{} holds the data of a server without --store: give a node a folder of its own. Data gets into an account \
                 with several nodes by armilla export and import",
                folder.display()
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use armilla_storage::ledger::{ACCOUNT, Ledger as _, MemoryLedger, NodeCard};
    use armilla_storage::{Batch, Durability, MemoryStore};
    use std::sync::Arc;
    use std::time::Duration;

    fn file_of(name: &str) -> NodeFile {
        NodeFile { account: "x".into(), name: name.into(), incarnation: 7, draining: false }
    }

    /// Joins as the life before of this folder left it.
    fn join(ledger: &MemoryLedger, folder: &Path) -> Joined {
        let found = NodeFile::read(folder).unwrap().unwrap_or_else(|| file_of("a"));
        let (address, version) = (String::new(), String::new());
        let card = NodeCard { name: found.name.clone(), address, version };
        let before = Some(Incarnation(found.incarnation));
        let member = Member::join(Arc::new(ledger.clone()), card, before, Duration::from_secs(10));
        Joined::enter(member.unwrap(), folder, found).unwrap()
    }

    #[test]
    fn a_drained_node_stays_drained_after_a_crash_of_any_length_and_not_after_a_stop() {
        let temporary = tempfile::tempdir().unwrap();
        let ledger = MemoryLedger::new();
        ledger.open(ACCOUNT.home, &[(ACCOUNT.shard, 0)]).unwrap();
        let is_drained = |joined: &Joined| joined.member.look().unwrap().is_draining;
        let row = || ledger.nodes().unwrap().into_iter().next().unwrap();
        let first = join(&ledger, temporary.path());
        assert!(!is_drained(&first));
        assert!(ledger.drain(&row()).unwrap());
        first.notes.note_draining(is_drained(&first));
        // It crashes, and the others declare it gone after its lease.
        assert!(ledger.evict(&row()).unwrap());
        let second = join(&ledger, temporary.path());
        assert!(is_drained(&second));
        assert!(ledger.evict(&row()).unwrap());
        let third = join(&ledger, temporary.path());
        assert!(is_drained(&third), "it had not been stopped in order since");
        third.notes.note_draining(false);
        third.member.leave().unwrap();
        assert!(!is_drained(&join(&ledger, temporary.path())));
    }

    #[test]
    fn a_file_of_an_earlier_version_is_of_a_node_that_is_not_drained() {
        let temporary = tempfile::tempdir().unwrap();
        let text = r#"{"account":"x","name":"a","incarnation":7}"#;
        std::fs::write(temporary.path().join(FILE), text).unwrap();
        assert_eq!(NodeFile::read(temporary.path()).unwrap(), Some(file_of("a")));
        file_of("a").write(temporary.path()).unwrap();
        assert_eq!(std::fs::read_to_string(temporary.path().join(FILE)).unwrap(), text);
    }

    #[test]
    fn a_folder_remembers_whose_it_is() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path();
        assert_eq!(NodeFile::read(folder).unwrap(), None);
        refuse_node_folder(folder).unwrap();
        let file = file_of("a");
        file.write(folder).unwrap();
        let found = NodeFile::read(folder).unwrap();
        assert_eq!(found.as_ref(), Some(&file));
        let record = AccountRecord::new(Duration::from_secs(7), Vec::new(), 1).unwrap();
        let own =
            |account, name| NodeFile::belongs(found.as_ref(), folder, (account, name, &record));
        assert_eq!(own("x", "a").unwrap(), FolderCopy::Own(Incarnation(7)));
        assert!(own("y", "a").unwrap_err().contains("another account"));
        assert!(own("x", "b").unwrap_err().contains("'a'"));
        let after = record.clone().with_loss_of("x");
        let lost = NodeFile::belongs(found.as_ref(), folder, ("y", "a", &after));
        assert_eq!(lost.unwrap(), FolderCopy::Lost(Incarnation(7)));
        assert!(refuse_node_folder(folder).unwrap_err().contains("--store"));
    }

    #[test]
    fn a_lost_copy_is_thrown_away_and_the_name_stays() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path();
        let file = file_of("a");
        file.write(folder).unwrap();
        std::fs::create_dir_all(folder.join("index/1")).unwrap();
        std::fs::write(folder.join("index/1/segment"), b"x").unwrap();
        std::fs::write(folder.join("other"), b"x").unwrap();
        empty(folder).unwrap();
        let left: Vec<_> = std::fs::read_dir(folder).unwrap().collect();
        assert_eq!(left.len(), 1);
        assert_eq!(NodeFile::read(folder).unwrap(), Some(file));
    }

    #[test]
    fn every_damaged_byte_is_refused_or_changes_a_name() {
        let temporary = tempfile::tempdir().unwrap();
        let file = file_of("a");
        file.write(temporary.path()).unwrap();
        let path = temporary.path().join(FILE);
        let whole = std::fs::read(&path).unwrap();
        for length in 0..whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            let refused = NodeFile::read(temporary.path()).unwrap_err();
            assert!(refused.contains("node is damaged"), "{refused}");
        }
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            std::fs::write(&path, &bytes).unwrap();
            // A life that is not the folder's own is waited for; a name that is not the node's is refused.
            assert_ne!(NodeFile::read(temporary.path()), Ok(Some(file.clone())), "byte {at}");
        }
    }

    #[test]
    fn data_of_a_server_of_its_own_is_not_overwritten() {
        let store = MemoryStore::new();
        let folder = Path::new("data");
        refuse_foreign_data(&store, folder).unwrap();
        let mut batch = Batch::new();
        batch.put(Keyspace::Items, b"k".to_vec(), "v");
        store.commit(batch, Durability::Synced).unwrap();
        assert!(refuse_foreign_data(&store, folder).unwrap_err().contains("without --store"));
    }
}
