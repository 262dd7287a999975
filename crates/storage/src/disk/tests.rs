//! The disks agree with each other, and each keeps its own promise.

use std::sync::Arc;

use super::*;

fn write(disk: &dyn Disk, path: &str, bytes: &[u8]) {
    let mut file = disk.create(Path::new(path)).unwrap();
    file.write(bytes).unwrap();
    file.sync().unwrap();
}

fn text(disk: &dyn Disk, path: &str) -> Option<String> {
    disk.read(Path::new(path)).unwrap().map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
}

/// What every disk must do.
fn check_disk(disk: &dyn Disk) {
    assert_eq!(text(disk, "a/one"), None);
    assert!(disk.map(Path::new("a/one")).is_err());
    assert!(disk.list(Path::new("a")).unwrap().is_empty());

    write(disk, "a/one", b"1");
    write(disk, "a/one", b"uno");
    disk.append(Path::new("a/one")).unwrap().write(b"!").unwrap();
    write(disk, "a/two", b"");
    write(disk, "a/b/three", b"3");
    assert_eq!(disk.list(Path::new("a")).unwrap(), ["b", "one", "two"]);
    assert_eq!(disk.list(Path::new("")).unwrap(), ["a"]);
    assert_eq!(disk.map(Path::new("a/two")).unwrap(), Bytes::new());

    let mapped = disk.map(Path::new("a/one")).unwrap();
    disk.rename(Path::new("a/one"), Path::new("a/two")).unwrap();
    disk.sync_folder(Path::new("a")).unwrap();
    disk.remove(Path::new("a/two")).unwrap();
    disk.remove(Path::new("a/two")).unwrap();
    assert_eq!(mapped, "uno!");
    assert!(disk.rename(Path::new("a/one"), Path::new("a/two")).is_err());

    disk.replace(Path::new("a/four"), b"4").unwrap();
    disk.replace(Path::new("a/four"), b"four").unwrap();
    assert_eq!(text(disk, "a/four").as_deref(), Some("four"));
    assert_eq!(disk.list(Path::new("a")).unwrap(), ["b", "four"]);

    disk.rename(Path::new("a"), Path::new("z")).unwrap();
    assert_eq!(text(disk, "z/b/three").as_deref(), Some("3"));
    disk.remove_folder(Path::new("z")).unwrap();
    disk.remove_folder(Path::new("z")).unwrap();
    assert!(disk.list(Path::new("")).unwrap().is_empty());
}

#[test]
fn a_folder_keeps_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    check_disk(&FolderDisk::new(folder.path()).unwrap());
}

#[test]
fn memory_keeps_the_contract() {
    check_disk(&MemoryDisk::new());
}

#[test]
fn a_crash_takes_what_was_not_synced() {
    let disk = MemoryDisk::new();
    disk.replace(Path::new("kept"), b"old").unwrap();
    let mut file = disk.append(Path::new("kept")).unwrap();
    file.write(b" and new").unwrap();
    write(&disk, "nameless", b"synced, but its name was not");
    disk.crash();
    assert_eq!(text(&disk, "kept").as_deref(), Some("old"));
    assert_eq!(text(&disk, "nameless"), None);
    file.write(b"from before").unwrap();
    assert_eq!(text(&disk, "kept").as_deref(), Some("old"));
}

#[test]
fn replace_leaves_the_old_or_the_new_file_wherever_the_disk_stops() {
    let operations = {
        let disk = FailingDisk::new(Arc::new(MemoryDisk::new()), 1000);
        disk.replace(Path::new("f"), b"new").unwrap();
        1000 - disk.left()
    };
    let mut seen = std::collections::BTreeSet::new();
    for limit in 0..=operations {
        let memory = MemoryDisk::new();
        memory.replace(Path::new("f"), b"old").unwrap();
        let result =
            FailingDisk::new(Arc::new(memory.clone()), limit).replace(Path::new("f"), b"new");
        assert_eq!(result.is_ok(), limit == operations);
        memory.crash();
        let found = text(&memory, "f").unwrap();
        assert!(found == "old" || (found == "new" && limit == operations), "{limit}: {found}");
        seen.insert(found);
    }
    assert_eq!(seen.len(), 2);
}

#[test]
fn a_locked_folder_is_refused_until_the_lock_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let lock = FolderLock::acquire(folder.path()).unwrap();
    let refused = FolderLock::acquire(folder.path()).unwrap_err();
    assert!(matches!(refused, StoreError::Locked { .. }));
    assert!(refused.to_string().ends_with("is in use by another process"));
    drop(lock);
    FolderLock::acquire(folder.path()).unwrap();
}

#[test]
fn an_overlay_keeps_the_contract_and_leaves_its_folder_alone() {
    let folder = tempfile::tempdir().unwrap();
    check_disk(&OverlayDisk::new(folder.path()));
    let below = FolderDisk::new(folder.path()).unwrap();
    write(&below, "a/one", b"1");
    write(&below, "a/two", b"2");
    let disk = OverlayDisk::new(folder.path());
    disk.append(Path::new("a/one")).unwrap().write(b"!").unwrap();
    disk.rename(Path::new("a/two"), Path::new("a/three")).unwrap();
    assert_eq!(disk.list(Path::new("a")).unwrap(), ["one", "three"]);
    assert_eq!(text(&disk, "a/one").as_deref(), Some("1!"));
    assert_eq!((text(&disk, "a/two"), text(&disk, "a/three").as_deref()), (None, Some("2")));
    disk.remove_folder(Path::new("a")).unwrap();
    assert!(disk.list(Path::new("a")).unwrap().is_empty());
    write(&disk, "a/two", b"new");
    assert_eq!(text(&disk, "a/two").as_deref(), Some("new"));
    assert_eq!(below.list(Path::new("a")).unwrap(), ["one", "two"]);
    assert_eq!(
        (text(&below, "a/one").as_deref(), text(&below, "a/two").as_deref()),
        (Some("1"), Some("2"))
    );
}

#[cfg(target_os = "linux")]
#[test]
fn mapped_bytes_stay_the_same_when_their_memory_is_given_back() {
    const BYTES: usize = 48 << 20;
    let resident = || super::folder::resident_file_bytes().unwrap() as usize;
    let folder = tempfile::tempdir().unwrap();
    let disk = FolderDisk::new(folder.path()).unwrap();
    let written: Vec<u8> = (0..BYTES).map(|at| (at / 4096 % 251) as u8).collect();
    write(&disk, "mapped", &written);
    let mapped = disk.map(Path::new("mapped")).unwrap();
    assert_eq!(mapped, written);
    let touched = resident();
    assert!(touched >= BYTES);
    disk.trim_maps(touched as u64 * 2);
    assert!(resident() >= BYTES, "it is given back only beyond the limit");
    disk.trim_maps(BYTES as u64 / 2);
    assert!(resident() + BYTES / 2 < touched, "{} of {touched} are left", resident());
    assert_eq!(mapped, written);
    // Maps of one disk are those of its clones, and what nobody holds any more is in nobody's way.
    drop(mapped);
    disk.clone().trim_maps(0);
}
