//! Files that are missing, one by one: refused by name, and nothing is changed.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use super::*;
use crate::{Batch, Durability, EmbeddedOptions, EmbeddedStore, Store};

/// How the store of a test was stopped.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stop {
    Clean,
    /// As after a kill: the newest writes are in a journal.
    Killed,
}

fn open(folder: &Path) -> Result<EmbeddedStore, StoreError> {
    EmbeddedStore::open(folder, &EmbeddedOptions::default())
}

fn put(store: &EmbeddedStore, number: u8) {
    let mut batch = Batch::new();
    for keyspace in Keyspace::ALL {
        batch.put(keyspace, vec![number], vec![number; 100]);
    }
    store.commit(batch, Durability::Synced).unwrap();
}

/// A folder with an entry in every keyspace, in sorted files and, when it was killed, in the journal.
fn written(stop: Stop) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).unwrap();
    put(&store, 1);
    store.close().unwrap();
    drop(store);
    if stop == Stop::Killed {
        let store = open(folder.path()).unwrap();
        put(&store, 2);
    }
    folder
}

/// Every file with its content.
fn listing(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        found.insert(folder.clone(), Vec::new());
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(path.clone(), fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// Opening in every way is refused with this word, and changes nothing.
fn check_refused(folder: &Path, word: &str) {
    let before = listing(folder);
    let refused = open(folder).err().unwrap_or_else(|| panic!("opened without {word}"));
    assert!(refused.is_corruption(), "{refused}");
    assert!(refused.to_string().contains(word), "{word}: {refused}");
    let scratch = tempfile::tempdir().unwrap();
    let options = EmbeddedOptions::default();
    assert!(EmbeddedStore::open_read_only(folder, scratch.path(), &options).is_err());
    assert!(before == listing(folder), "{word}: the folder was changed");
}

#[test]
fn a_tree_without_its_list_or_folder_is_refused() {
    for stop in [Stop::Clean, Stop::Killed] {
        let all = written(stop);
        for tree in tree_files::trees(&engine_path(all.path())).unwrap() {
            let name = format!("keyspaces/{tree}");
            let folder = written(stop);
            let path = tree_path(&engine_path(folder.path()), tree);
            fs::remove_file(path.join("current")).unwrap();
            check_refused(folder.path(), &format!("{name}/current"));
            fs::remove_dir_all(path).unwrap();
            check_refused(folder.path(), &name);
        }
    }
}

#[test]
fn a_tree_whose_list_or_sorted_file_is_missing_or_changed_is_refused() {
    let folder = written(Stop::Clean);
    let files = TreeFiles::read(&engine_path(folder.path()), 2).unwrap();
    let list = files.folder().join(format!("v{}", files.version));
    for path in [list, files.tables[0].path.clone()] {
        let bytes = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        check_refused(folder.path(), path.to_str().unwrap());
        fs::write(&path, b"").unwrap();
        check_refused(folder.path(), path.to_str().unwrap());
        fs::write(&path, &bytes).unwrap();
    }
    let list = files.folder().join(format!("v{}", files.version));
    let mut bytes = fs::read(&list).unwrap();
    bytes[30] ^= 1;
    fs::write(&list, bytes).unwrap();
    check_refused(folder.path(), list.to_str().unwrap());
}

#[test]
fn a_folder_without_journals_is_refused_also_when_they_were_empty() {
    for stop in [Stop::Clean, Stop::Killed] {
        let folder = written(stop);
        fs::remove_file(engine_path(folder.path()).join("0.jnl")).unwrap();
        check_refused(folder.path(), ".jnl");
    }
}

#[test]
fn a_gap_between_journals_is_refused() {
    let folder = written(Stop::Killed);
    fs::write(engine_path(folder.path()).join("2.jnl"), b"").unwrap();
    check_refused(folder.path(), "1.jnl");
}

#[test]
fn a_cut_journal_is_refused() {
    let folder = written(Stop::Killed);
    let journal = engine_path(folder.path()).join("0.jnl");
    let bytes = fs::read(&journal).unwrap();
    for length in [0, 1, 100] {
        fs::write(&journal, &bytes[..length]).unwrap();
        check_refused(folder.path(), "0.jnl");
        let mut zeros = bytes[..length].to_vec();
        zeros.resize(bytes.len(), 0);
        fs::write(&journal, zeros).unwrap();
        check_refused(folder.path(), "the journal was cut");
    }
    fs::write(&journal, bytes).unwrap();
    open(folder.path()).unwrap();
}

#[test]
fn a_journal_that_is_missing_before_it_was_flushed_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).unwrap();
    // Enough for a second journal; of `items` everything is flushed, of the others nothing.
    let journals = || journal::numbers(&engine_path(folder.path())).unwrap();
    for number in 0..200_u8 {
        let mut batch = Batch::new();
        batch.put(Keyspace::Items, vec![number], vec![number; 800_000]);
        batch.put(Keyspace::Feed, vec![number], "");
        store.commit(batch, Durability::Synced).unwrap();
        if journals().len() > 1 {
            break;
        }
    }
    assert_eq!(journals(), [0, 1]);
    put(&store, 1);
    drop(store);
    fs::remove_file(engine_path(folder.path()).join("0.jnl")).unwrap();
    check_refused(folder.path(), "0.jnl: the journal is missing");
}

#[test]
fn a_missing_engine_version_or_format_is_refused() {
    for name in ["engine/version", "engine", "format"] {
        let folder = written(Stop::Clean);
        let path = folder.path().join(name);
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap()
        } else {
            fs::remove_file(path).unwrap()
        }
        check_refused(folder.path(), name);
    }
}

#[test]
fn what_only_guards_may_be_lost_alone() {
    for name in ["engine.manifest", "engine.covered", "engine/lock", "lock"] {
        let folder = written(Stop::Killed);
        fs::remove_file(folder.path().join(name)).unwrap();
        let store = open(folder.path()).unwrap();
        assert!(store.snapshot().contains(Keyspace::Items, &[2]).unwrap(), "{name}");
        assert!(folder.path().join(name).exists());
    }
    let folder = written(Stop::Killed);
    fs::write(folder.path().join("engine.manifest"), "armilla-engine 1\n").unwrap();
    check_refused(folder.path(), "engine.manifest");
}

#[test]
fn a_folder_from_before_the_manifest_gets_one_after_the_other_checks() {
    let folder = written(Stop::Killed);
    fs::remove_file(folder.path().join("engine.manifest")).unwrap();
    fs::remove_file(folder.path().join("engine.covered")).unwrap();
    let current = tree_path(&engine_path(folder.path()), 3).join("current");
    let bytes = fs::read(&current).unwrap();
    fs::remove_file(&current).unwrap();
    check_refused(folder.path(), "keyspaces/3/current");
    fs::write(&current, bytes).unwrap();
    drop(open(folder.path()).unwrap());
    let manifest = Manifest::read(folder.path()).unwrap().unwrap();
    assert_eq!(manifest.keyspaces.len(), Keyspace::ALL.len());
    assert!(manifest.journals[&0].unflushed.len() == Keyspace::ALL.len(), "{manifest:?}");
}

#[test]
fn a_store_is_made_only_where_nothing_is() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("photographs")).unwrap();
    let refused = open(folder.path()).err().unwrap().to_string();
    assert!(refused.contains("photographs") && refused.contains("empty folder"), "{refused}");
    assert_eq!(listing(folder.path()).len(), 2);
    // What a volume and its administrator bring along is fine.
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("lost+found")).unwrap();
    fs::write(folder.path().join("key"), "a key").unwrap();
    open(folder.path()).unwrap();
}

#[test]
fn a_new_store_that_was_killed_before_its_format_was_written_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    let options = EmbeddedOptions::default();
    super::super::make_engine(&engine_path(folder.path()), &options).unwrap();
    drop(open(folder.path()).unwrap());
    assert!(folder.path().join("format").exists());
}

/// The way from the working directory, as users give paths.
fn relative(path: &Path) -> PathBuf {
    let here = std::env::current_dir().unwrap();
    let mut way: PathBuf = here.components().skip(1).map(|_| "..").collect();
    way.extend(path.components().skip(1));
    assert!(way.is_relative() && way.exists());
    way
}

#[test]
fn reading_only_sees_everything_and_changes_nothing() {
    for stop in [Stop::Clean, Stop::Killed] {
        let folder = written(stop);
        let before = listing(folder.path());
        let scratch = tempfile::tempdir().unwrap();
        let options = EmbeddedOptions::default();
        let path = relative(folder.path());
        let store = EmbeddedStore::open_read_only(&path, scratch.path(), &options).unwrap();
        let snapshot = store.snapshot();
        for keyspace in Keyspace::ALL {
            assert!(snapshot.contains(keyspace, &[1]).unwrap());
            assert_eq!(snapshot.contains(keyspace, &[2]).unwrap(), stop == Stop::Killed);
        }
        assert!(matches!(open(folder.path()), Err(StoreError::Locked { .. })));
        store.close().unwrap();
        drop((store, snapshot));
        assert!(before == listing(folder.path()), "{stop:?}");
    }
    let nothing = tempfile::tempdir().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let options = EmbeddedOptions::default();
    let refused = EmbeddedStore::open_read_only(nothing.path(), scratch.path(), &options);
    assert!(refused.err().unwrap().to_string().contains("no store"));
    assert_eq!(fs::read_dir(nothing.path()).unwrap().count(), 0);
}

/// Copies a folder as it is now, as a kill of its process leaves it.
fn copy_of(folder: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for (path, bytes) in listing(folder) {
        let to = copy.path().join(path.strip_prefix(folder).unwrap());
        if path.is_dir() {
            fs::create_dir_all(to).unwrap();
        } else {
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::write(to, bytes).unwrap();
        }
    }
    copy
}

#[test]
fn a_journal_cut_right_after_an_acknowledged_commit_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).unwrap();
    let journal = engine_path(folder.path()).join("0.jnl");
    for number in 0..20 {
        let before = whole_bytes(&journal);
        put(&store, number);
        // Nobody waits: the folder is taken the moment the commit is answered.
        let killed = copy_of(folder.path());
        drop(open(killed.path()).unwrap());
        let cut = copy_of(folder.path());
        let path = engine_path(cut.path()).join("0.jnl");
        let file = fs::OpenOptions::new().write(true).open(path).unwrap();
        file.set_len(before).unwrap();
        check_refused(cut.path(), "0.jnl");
    }
}

/// Where the last batch of a journal ends; the engine makes the file longer than it needs.
fn whole_bytes(journal: &Path) -> u64 {
    let bytes = fs::read(journal).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    u64::try_from(end).unwrap()
}
