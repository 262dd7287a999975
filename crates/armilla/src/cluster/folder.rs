//! The file `node` in a node's data folder: whose copy it is.

use super::record::AccountRecord;
use armilla_storage::disk::{Disk as _, FolderDisk};
use armilla_storage::ledger::Incarnation;
use armilla_storage::{Direction, KeyRange, Keyspace, Store, StoreError};
use serde::{Deserialize, Serialize};
use std::path::Path;

const FILE: &str = "node";

/// Whose copy a folder holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NodeFile {
    pub(super) account: String,
    pub(super) name: String,
    /// The life of the node that had the folder last.
    pub(super) incarnation: u64,
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
    use armilla_storage::{Batch, Durability, MemoryStore};
    use std::time::Duration;

    #[test]
    fn a_folder_remembers_whose_it_is() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path();
        assert_eq!(NodeFile::read(folder).unwrap(), None);
        refuse_node_folder(folder).unwrap();
        let file = NodeFile { account: "x".into(), name: "a".into(), incarnation: 7 };
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
        let file = NodeFile { account: "x".into(), name: "a".into(), incarnation: 7 };
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
        let file = NodeFile { account: "x".into(), name: "a".into(), incarnation: 7 };
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
