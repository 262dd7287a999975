//! The table against the folder: what is embedded is what was built, and nothing else.
#![allow(clippy::unwrap_used, reason = "every function here is part of a test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Bytes of the whole, and what a person waits for before the first view.
const RAW_MAX: usize = 1_258_291;

fn walk(folder: &Path, below: &str, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = format!("{below}{}", path.file_name().unwrap().to_string_lossy());
        if path.is_dir() {
            walk(&path, &format!("{name}/"), found);
        } else {
            found.insert(name);
        }
    }
}

#[test]
fn the_table_lists_every_file_of_dist_and_nothing_else() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("dist");
    let mut built = BTreeSet::new();
    walk(&folder, "", &mut built);
    let listed: Vec<_> = armilla_explorer::all().iter().map(|file| file.path).collect();
    assert!(listed.is_sorted(), "{listed:?}");
    let listed: BTreeSet<_> = listed.into_iter().map(str::to_owned).collect();
    assert_eq!(built, listed);
    for file in armilla_explorer::all() {
        assert_eq!(fs::read(folder.join(file.path)).unwrap(), file.bytes, "{}", file.path);
    }
}

#[test]
fn the_index_names_only_files_of_the_table() {
    let (_, index) = armilla_explorer::find("").unwrap();
    let text = std::str::from_utf8(index.bytes).unwrap();
    assert!(text.contains(armilla_explorer::NONCE_PLACE), "the index has no place for a nonce");
    let mut count = 0;
    for attribute in ["src=\"./", "href=\"./"] {
        for rest in text.split(attribute).skip(1) {
            let name = rest.split('"').next().unwrap();
            assert!(armilla_explorer::find(name).is_some(), "{name} is not in the table");
            count += 1;
        }
    }
    assert!(count >= 2, "the index names {count} files");
    assert!(!text.contains("http://") && !text.contains("https://"), "the index looks elsewhere");
}

#[test]
fn files_that_are_not_there_are_nothing() {
    for path in ["/", "..", "../Cargo.toml", "index.htm", "assets"] {
        assert!(armilla_explorer::find(path).is_none(), "{path}");
    }
}

#[test]
fn the_whole_stays_small() {
    let raw: usize = armilla_explorer::all().iter().map(|file| file.bytes.len()).sum();
    assert!(raw <= RAW_MAX, "{raw} bytes");
}
