//! The rules inside `engine::query`: which of its modules may know which, and where its thresholds are.

use super::{root, rust_files};
use std::fs;
use std::path::{Path, PathBuf};

/// Modules that all others may know: plain values.
const LEAVES: [&str; 6] = ["bounded", "counters", "explain", "page", "request", "token"];

/// Who may know whom beside the leaves. Nothing below `exec` knows it.
const ARROWS: &[(&str, &[&str])] = &[
    ("bounded", &[]),
    ("counters", &[]),
    ("explain", &[]),
    ("page", &[]),
    ("request", &[]),
    ("token", &[]),
    ("prepare", &[]),
    ("client_merge", &["prepare"]),
    ("find", &[]),
    ("view", &["find"]),
    ("plan", &["find", "view", "prepare"]),
    ("read", &["plan", "find", "view", "prepare"]),
    ("charge", &["plan", "find", "view"]),
    ("exec", &["plan", "read", "charge", "find", "view", "prepare"]),
    ("explained", &["plan", "find", "view", "prepare"]),
];

/// Constants that decide nothing: formats, units, what a thing weighs, how much of a value is shown.
const NOT_THRESHOLDS: [&str; 12] = [
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
        (inside.components().map(segment).collect(), product(path))
    };
    found.iter().filter(|path| !path.ends_with("tests.rs")).map(read).collect()
}

/// A file without its tests.
fn product(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default().to_owned()
}

/// Every path that `use` statements name, one by one.
fn used(text: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for statement in text.split("use ").skip(1) {
        let statement = statement.split(';').next().unwrap_or_default();
        if statement.starts_with("crate::query") || statement.starts_with("super::") {
            expand(statement, "", &mut paths);
        }
    }
    paths
}

/// `a::{b, c::d}` is `a::b` and `a::c::d`.
fn expand(tree: &str, prefix: &str, paths: &mut Vec<String>) {
    let tree = tree.trim();
    let Some((head, rest)) = tree.split_once('{') else {
        paths.push(format!("{prefix}{tree}"));
        return;
    };
    let prefix = format!("{prefix}{}", head.trim());
    let inner = rest.trim_end().trim_end_matches('}');
    let (mut depth, mut start) = (0usize, 0);
    for (at, letter) in inner.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(&inner[start..at], &prefix, paths);
                start = at + 1;
            }
            _ => {}
        }
    }
    if !inner[start..].trim().is_empty() {
        expand(&inner[start..], &prefix, paths);
    }
}

/// A path from the module on; nothing when it leads out of it.
fn resolved(path: &str, from: &[String]) -> Option<Vec<String>> {
    let segments = |path: &str| path.split("::").map(|part| part.trim().to_owned()).collect();
    if let Some(path) = path.strip_prefix("crate::query::") {
        return Some(segments(path));
    }
    let (mut base, mut rest) = (from.to_vec(), path);
    while let Some(behind) = rest.strip_prefix("super::") {
        base.pop()?;
        rest = behind;
    }
    base.extend::<Vec<String>>(segments(rest));
    Some(base)
}

#[test]
fn modules_of_queries_know_each_other_downwards() {
    for (file, text) in files() {
        let own = &file[0];
        let arrows = ARROWS.iter().find(|(from, _)| from == own);
        let (_, allowed) = arrows.unwrap_or_else(|| panic!("query::{own} has no place in ARROWS"));
        for path in used(&text) {
            let Some(path) = resolved(&path, &file) else { continue };
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
