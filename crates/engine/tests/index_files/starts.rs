//! What a start takes up: files and the end of the log, or all items when files are of no use.

use crate::bench::{Bench, small};
use armilla_engine::query::Access;
use armilla_index::Limits;
use armilla_storage::disk::Disk;
use std::path::PathBuf;

const ITEMS: u64 = 200;

fn filled(limits: Limits) -> Bench {
    let bench = Bench::new(limits);
    for id in 0..ITEMS {
        bench.put(id, id % 7, &format!(r#","n":{},"s":"x{}""#, id % 10, id % 3));
    }
    bench
}

fn count(bench: &Bench) -> usize {
    bench.rows("SELECT VALUE c.id FROM c WHERE c.n = 3", Access::Index).len()
}

fn segments(bench: &Bench) -> Vec<PathBuf> {
    let segment = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "segment");
    bench.disk.paths().into_iter().filter(segment).collect()
}

#[test]
fn a_proper_stop_leaves_nothing_to_replay() {
    let mut bench = filled(Limits::default());
    bench.delete(3, 3);
    bench.restart();
    assert_eq!(bench.account.opened_indexes(), (0, 0));
    assert_eq!(count(&bench), 19);
    assert_eq!(bench.container.document_count(), ITEMS - 1);
    let size = bench.container.size();
    bench.verify();
    // Counted from scratch the size is the same.
    let no_files = armilla_storage::disk::MemoryDisk::new();
    let store = bench.store().clone();
    bench.reopen(no_files, store);
    assert_eq!(bench.account.opened_indexes(), (0, ITEMS - 1));
    assert_eq!((bench.container.size(), bench.container.document_count()), (size, ITEMS - 1));
}

#[test]
fn a_crash_replays_only_what_no_manifest_covers() {
    let mut bench = filled(Limits::default());
    bench.restart();
    for id in ITEMS..ITEMS + 5 {
        bench.put(id, 1, r#","n":3"#);
    }
    bench.delete(13, 6);
    bench.crash();
    assert_eq!(bench.account.opened_indexes(), (6, 0));
    assert_eq!(count(&bench), 24);
    bench.verify();
}

#[test]
fn removals_are_forgotten_once_files_know_them() {
    let mut bench = filled(small());
    for id in 0..50 {
        bench.delete(id, id % 7);
    }
    bench.restart();
    bench.account.clean_up().unwrap();
    let head = bench.container.session_tokens();
    bench.crash();
    assert_eq!(bench.account.opened_indexes(), (0, 0));
    assert_eq!(bench.container.session_tokens(), head);
    bench.verify();
}

#[test]
fn files_older_than_forgotten_removals_are_not_used() {
    let mut bench = filled(small());
    bench.restart();
    let old = bench.disk.after_crash();
    for id in 0..50 {
        bench.delete(id, id % 7);
    }
    bench.restart();
    bench.account.clean_up().unwrap();
    let store = bench.store().clone();
    bench.reopen(old, store);
    assert_eq!(bench.account.opened_indexes(), (0, ITEMS - 50));
    assert_eq!(count(&bench), 15);
}

#[test]
fn files_that_know_acknowledged_writes_which_the_store_lost_are_a_refusal() {
    let mut bench = filled(small());
    let store = std::sync::Arc::new(bench.store().fork());
    for id in 0..50 {
        bench.delete(id, id % 7);
    }
    bench.account.close().unwrap();
    let disk = bench.disk.after_crash();
    let refused = bench.try_reopen(disk.clone(), store.clone()).unwrap_err().to_string();
    assert!(refused.contains("acknowledged writes are gone"), "{refused}");
    // The way out that the refusal names.
    let folder = refused.split("move the folder ").nth(1).unwrap().split(' ').next().unwrap();
    assert!(disk.paths().iter().any(|path| path.starts_with(folder)), "{folder}");
    disk.remove_folder(std::path::Path::new(folder)).unwrap();
    bench.reopen(disk, store);
    assert_eq!(bench.account.opened_indexes(), (0, ITEMS));
    assert_eq!(count(&bench), 20);
}

#[test]
fn damaged_or_missing_files_are_told_and_built_anew() {
    for case in 0..4 {
        let mut bench = filled(small());
        bench.account.close().unwrap();
        let segment = segments(&bench).remove(0);
        let manifest = segment.with_file_name("MANIFEST");
        match case {
            0 => bench.damage(&segment, |bytes| {
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
            }),
            1 => bench.damage(&segment, |bytes| bytes.truncate(100)),
            2 => bench.damage(&manifest, |bytes| bytes[20] ^= 1),
            _ => {
                bench.disk.remove(&segment).unwrap();
                bench.disk.sync_folder(segment.parent().unwrap()).unwrap();
            }
        }
        let disk = bench.disk.after_crash();
        let store = bench.store().clone();
        bench.reopen(disk, store);
        assert_eq!(bench.account.opened_indexes(), (0, ITEMS), "case {case}");
        assert_eq!(count(&bench), 20);
        assert_eq!(bench.account.verify().unwrap().findings.len(), 1, "case {case}");
        bench.restart();
        assert_eq!(bench.account.opened_indexes(), (0, 0));
        bench.verify();
    }
}

#[test]
fn a_new_policy_is_built_while_the_old_index_serves() {
    let mut bench = filled(small());
    let old = segments(&bench);
    bench.redefine(
        r#","indexingPolicy":{"includedPaths":[{"path":"/n/?"}],"excludedPaths":[{"path":"/*"}]}"#,
    );
    // Whichever of the two serves, the answer is the same.
    assert_eq!(count(&bench), 20);
    bench.put(1000, 1, r#","n":3,"s":"x1""#);
    bench.container.wait_for_index();
    assert_eq!(bench.container.index_progress(), 100);
    assert_eq!(count(&bench), 21);
    assert_eq!(bench.rows("SELECT VALUE c.id FROM c WHERE c.s = 'x1'", Access::Index).len(), 68);
    bench.verify();
    let left = segments(&bench);
    assert!(old.iter().all(|path| !left.contains(path)), "old files are removed");
    bench.restart();
    assert_eq!(bench.account.opened_indexes(), (0, 0));
    assert_eq!(count(&bench), 21);
    bench.verify();
}

#[test]
fn files_of_dropped_containers_go() {
    let bench = filled(small());
    bench.account.delete_container(&bench.container, None).unwrap();
    bench.account.clean_up().unwrap();
    // A job that was out may have written one more file, which the next start removes.
    let disk = bench.disk.after_crash();
    let mut bench = bench;
    let options = bench.store().clone();
    let definition = armilla_model::json::parse(br#"{"id":"c","partitionKey":{"paths":["/pk"]}}"#);
    let new = armilla_engine::account::NewContainer {
        definition: &definition.unwrap(),
        throughput: None,
    };
    bench.account.create_container("d", &new).unwrap();
    bench.reopen(disk, options);
    assert!(segments(&bench).is_empty());
}

#[test]
fn terms_of_computed_properties_are_built_anew_when_functions_changed() {
    let mut bench = filled(small());
    let policy = r#","computedProperties":[{"name":"up","query":"SELECT VALUE UPPER(c.s) FROM c"}],
        "indexingPolicy":{"includedPaths":[{"path":"/*"},{"path":"/up/?"}]}"#;
    bench.redefine(policy);
    bench.container.wait_for_index();
    bench.restart();
    assert_eq!(bench.account.opened_indexes(), (0, 0));
    let found = |bench: &Bench| {
        bench.rows("SELECT VALUE c.id FROM c WHERE c.up = 'X1'", Access::Index).len()
    };
    assert_eq!(found(&bench), 67);
    bench.account.close().unwrap();
    // An older server named the folder by the generation alone.
    for path in bench.disk.paths() {
        let folder = path.parent().unwrap();
        let Some((partition, id)) = folder.file_name().unwrap().to_str().unwrap().split_once('-')
        else {
            continue;
        };
        let generation = u64::from_str_radix(id, 16).unwrap() & u64::from(u32::MAX);
        let older = folder.with_file_name(format!("{partition}-{generation:x}"));
        let bytes = bench.disk.read(&path).unwrap().unwrap().to_vec();
        let mut file = bench.disk.create(&older.join(path.file_name().unwrap())).unwrap();
        file.write(&bytes).unwrap();
        file.sync().unwrap();
        bench.disk.sync_folder(&older).unwrap();
        bench.disk.remove(&path).unwrap();
        bench.disk.sync_folder(folder).unwrap();
    }
    let (disk, store) = (bench.disk.after_crash(), std::sync::Arc::new(bench.store().fork()));
    bench.reopen(disk, store);
    assert_eq!(bench.account.opened_indexes(), (0, ITEMS));
    assert_eq!(found(&bench), 67);
    bench.verify();
}

#[test]
fn cleaning_behind_a_stop_comes_to_an_end() {
    let bench = Bench::new(small());
    for item in 0..20 {
        bench.put(item, item % 3, "");
    }
    for item in 0..10 {
        bench.delete(item, item % 3);
    }
    // The files of the index know the removals now, and nothing is committed any more.
    bench.account.close().unwrap();
    bench.account.clean_up().unwrap();
}

/// The store takes no key of that length; the names of all paths that were new with such a one were lost.
#[test]
fn names_longer_than_a_key_of_the_store_are_indexed_like_others() {
    let mut bench = Bench::new(small());
    let long = "n".repeat(200_000);
    bench.put(1, 1, &format!(r#","{long}a":1,"{long}b":2,"short":3"#));
    bench.put(2, 1, &format!(r#","{long}a":2,"{long}b":1,"short":4"#));
    let check = |bench: &Bench| {
        for (name, id) in [("a", "1"), ("b", "2")] {
            let query = format!("SELECT VALUE c.id FROM c WHERE c[\"{long}{name}\"] = 1");
            assert_eq!(bench.rows(&query, Access::Index), [id.into()], "{name}");
        }
        let short = bench.rows("SELECT VALUE c.id FROM c WHERE c.short = 3", Access::Index);
        assert_eq!(short, ["1".into()]);
        bench.verify();
    };
    check(&bench);
    bench.restart();
    check(&bench);
}
