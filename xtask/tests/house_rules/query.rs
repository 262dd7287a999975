//! The rules inside `engine::query`: which of its modules may know which, and where its thresholds are.

use super::{imports, product, root, rust_files};
use std::fs;
use std::path::PathBuf;

/// Modules that all others may know: plain values.
const LEAVES: [&str; 8] =
    ["bounded", "counters", "explain", "page", "part", "request", "stopwatch", "token"];

/// Who may know whom beside the leaves. Nothing below `exec` knows it.
const ARROWS: &[(&str, &[&str])] = &[
    ("bounded", &[]),
    ("counters", &[]),
    ("explain", &[]),
    ("language", &[]),
    ("page", &[]),
    ("part", &[]),
    ("request", &[]),
    ("stopwatch", &[]),
    ("token", &[]),
    ("prepare", &[]),
    ("client_merge", &["prepare"]),
    ("gathered", &["exec", "plan", "prepare"]),
    ("find", &[]),
    ("view", &["find"]),
    ("plan", &["find", "view", "prepare"]),
    ("read", &["plan", "find", "view", "prepare"]),
    ("charge", &["plan", "find", "view"]),
    ("exec", &["plan", "read", "charge", "find", "view", "prepare"]),
    ("explained", &["plan", "find", "view", "prepare"]),
];

/// Constants that decide nothing: formats, units, what a thing weighs, how much of a value is shown.
const NOT_THRESHOLDS: [&str; 13] = [
    "FORM",
    "KEY_LEVEL_LENGTH",
    "KEY_TAIL",
    "TICKS_PER_MILLISECOND",
    "ENTRY_SIZE",
    "GROUP_SIZE",
    "ENTRY_WEIGHT",
    "ROW_SIZE_MAX",
    "VALUES_MAX",
    "VALUE_MAX",
    "KEY_PREFIX_MAX",
    "VALUE_SHOWN_MAX",
    "PARTS_SHOWN_MAX",
];

fn folder() -> PathBuf {
    root().join("crates/engine/src/query")
}

/// Files of the module, with their paths inside it: `exec/stream.rs` is `["exec", "stream"]`.
fn files() -> Vec<(Vec<String>, String)> {
    let mut found = Vec::new();
    rust_files(&folder(), &mut found);
    assert!(found.len() > 30, "the walk found only {} files", found.len());
    let read = |path: &PathBuf| {
        let inside = path.strip_prefix(folder()).unwrap().with_extension("");
        let segment = |part: std::path::Component<'_>| part.as_os_str().to_string_lossy().into();
        (inside.components().map(segment).collect(), product(&fs::read_to_string(path).unwrap()))
    };
    found.iter().filter(|path| !path.ends_with("tests.rs")).map(read).collect()
}

#[test]
fn modules_of_queries_know_each_other_downwards() {
    for (file, text) in files() {
        let own = &file[0];
        let arrows = ARROWS.iter().find(|(from, _)| from == own);
        let (_, allowed) = arrows.unwrap_or_else(|| panic!("query::{own} has no place in ARROWS"));
        for path in imports::of(&text, &file, "crate::query::") {
            let known = &path[0];
            let is_module = ARROWS.iter().any(|(from, _)| from == known);
            let is_costs = path.starts_with(&["plan".to_owned(), "costs".to_owned()]);
            let fits = known == own
                || is_costs
                || LEAVES.contains(&known.as_str())
                || allowed.contains(&known.as_str());
            assert!(
                !is_module || fits,
                "query::{} must not know {}",
                file.join("::"),
                path.join("::")
            );
        }
    }
}

#[test]
fn thresholds_of_queries_are_in_one_file() {
    for (file, text) in files() {
        if file == ["plan", "costs"] {
            continue;
        }
        for line in text.lines().map(str::trim_start) {
            let line = line.trim_start_matches("pub(in crate::query) ").trim_start_matches("pub ");
            let Some((name, kind)) = line.strip_prefix("const ").and_then(|it| it.split_once(':'))
            else {
                continue;
            };
            let kind = kind.trim_start().split([' ', '=']).next().unwrap_or_default();
            let counts = matches!(kind, "u8" | "u16" | "u32" | "u64" | "usize" | "i64" | "f64");
            let decides = counts || kind.ends_with("Duration");
            assert!(
                !decides || NOT_THRESHOLDS.contains(&name),
                "query::{}: {name} belongs into plan/costs.rs, with the reason behind it",
                file.join("::")
            );
        }
    }
}
