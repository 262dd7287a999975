//! The rule inside `engine`: its modules lie in layers, and arrows point down or sideways.

use super::{imports, product, root, rust_files};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

/// The layers, the lowest first. A module may know its own layer and those below it.
const LAYERS: &[(&str, &[&str])] = &[
    (
        "forms: bytes, names and numbers, nothing of an account",
        &[
            "encryption",
            "feed_entry",
            "geo_grid",
            "index_files",
            "item_cache",
            "keys",
            "limits",
            "locks",
            "names",
            "quick_hash",
            "ranges",
            "ranked",
            "record",
            "slice",
            "users",
        ],
    ),
    (
        "state: what an account is made of while it runs",
        &[
            "admission",
            "catalog",
            "computed",
            "container",
            "core",
            "damage",
            "dials",
            "generation",
            "indexing",
            "observe",
            "offers",
            "ordinals",
            "partition",
            "partition_sizes",
            "paths",
            "prediction",
            "throttle",
        ],
    ),
    (
        "operations on one partition or one log",
        &["address", "feed", "items", "listing", "reindex", "split", "txn", "versions"],
    ),
    ("what runs on top of operations", &["query", "scripts", "subscriptions", "views"]),
    ("the account, which holds all of it", &["account"]),
    ("what works on a whole account", &["restore", "salvage", "verify"]),
];

/// Arrows that point up all the same, each with its reason. One that is gone is taken off the list.
const UPWARD: &[(&str, &str, &str)] = &[
    ("admission", "account", "methods of the account that ask for room"),
    ("catalog", "scripts", "the kinds of scripts, which are stored"),
    ("computed", "query", "whether a computed property depends on its item alone"),
    ("container", "scripts", "compiled scripts are kept with their container"),
    ("container", "subscriptions", "the state of a container's subscriptions is kept with it"),
    ("container", "views", "what a view still has to take over is kept with its container"),
    ("core", "query", "caches of compiled queries and of orders"),
    ("core", "scripts", "the runtime of scripts, started with the first one"),
    ("core", "subscriptions", "the thread that delivers changes"),
    ("core", "views", "the thread that keeps views up to date"),
    ("damage", "account", "a method of the account that counts damaged partitions"),
    ("dials", "views", "a dial of views"),
    ("generation", "feed", "an index is brought up to date from the feed"),
    ("items", "query", "several reads at once are a query of points"),
    ("partition", "txn", "what a committed transaction changes is applied here"),
    ("scripts", "account", "scripts are resources of an account"),
    ("subscriptions", "account", "a subscription is made with its container"),
    ("views", "account", "a view is made with its container"),
];

/// What `lib.rs` hands on under its own name, and where it is from.
const HANDED_ON: &[(&str, &str)] = &[
    ("Account", "account"),
    ("Options", "account"),
    ("ItemAddress", "address"),
    ("Container", "container"),
    ("ContainerSettings", "container"),
    ("Slice", "slice"),
    ("SliceBounds", "slice"),
    ("Txn", "txn"),
    ("store_failure", "damage"),
];

fn layer_of(module: &str) -> Option<usize> {
    LAYERS.iter().position(|(_, modules)| modules.contains(&module))
}

/// The arrows between top modules: from, to, and a file that has it.
fn arrows() -> BTreeSet<(String, String, PathBuf)> {
    let folder = root().join("crates/engine/src");
    let mut files = Vec::new();
    rust_files(&folder, &mut files);
    assert!(files.len() > 100, "the walk found only {} files", files.len());
    let mut arrows = BTreeSet::new();
    for path in files {
        let inside = path.strip_prefix(&folder).unwrap().with_extension("");
        let segment = |part: std::path::Component<'_>| part.as_os_str().to_string_lossy().into();
        let file: Vec<String> = inside.components().map(segment).collect();
        if file[0] == "lib" || path.ends_with("tests.rs") {
            continue;
        }
        let text = product(&fs::read_to_string(&path).unwrap());
        for known in imports::of(&text, &file, "crate::") {
            let first = &known[0];
            let handed_on = HANDED_ON.iter().find(|(name, _)| name == first);
            let to = handed_on.map_or_else(|| first.clone(), |(_, module)| (*module).to_owned());
            if to != file[0] && layer_of(&to).is_some() {
                arrows.insert((file[0].clone(), to, inside.clone()));
            }
        }
    }
    arrows
}

#[test]
fn modules_of_the_engine_know_each_other_downwards() {
    let arrows = arrows();
    for (from, to, file) in &arrows {
        let place = |module: &str| {
            layer_of(module).unwrap_or_else(|| panic!("engine::{module} has no place in LAYERS"))
        };
        let is_listed = UPWARD.iter().any(|(one, other, _)| (one, other) == (&&**from, &&**to));
        let points_down = place(to) <= place(from);
        assert!(points_down || is_listed, "engine::{} must not know {to}", file.display());
    }
    for (from, to, reason) in UPWARD {
        let is_there = arrows.iter().any(|(one, other, _)| one == from && other == to);
        assert!(is_there, "{from} does not know {to} any more ({reason}): take it off the list");
    }
}

#[test]
fn every_module_of_the_engine_has_its_layer() {
    let text = fs::read_to_string(root().join("crates/engine/src/lib.rs")).unwrap();
    let declared = text.lines().filter_map(|line| {
        let line = line.strip_prefix("pub ").unwrap_or(line);
        line.strip_prefix("mod ")?.strip_suffix(';')
    });
    for module in declared {
        assert!(layer_of(module).is_some(), "engine::{module} has no place in LAYERS");
    }
}
