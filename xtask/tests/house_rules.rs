//! The rules of the house, checked like any other behaviour: which crate may know which, how files are
//! named, how long they grow. A rule that is wrong is changed here, in the open.
#![allow(clippy::unwrap_used, reason = "every function here is part of a test")]

#[path = "house_rules/callers.rs"]
mod callers;
#[path = "house_rules/clocks.rs"]
mod clocks;
#[path = "house_rules/engine.rs"]
mod engine;
#[path = "house_rules/functions.rs"]
mod functions;
#[path = "house_rules/imports.rs"]
mod imports;
#[path = "house_rules/links.rs"]
mod links;
#[path = "house_rules/protocol.rs"]
mod protocol;
#[path = "house_rules/query.rs"]
mod query;
#[path = "house_rules/rustdoc.rs"]
mod rustdoc;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Who may depend on whom. Arrows only point down; what is absent here is forbidden.
const ARROWS: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("storage", &["model"]),
    ("index", &["model"]),
    ("sql", &["model"]),
    ("script", &["model"]),
    ("explorer", &[]),
    ("engine", &["model", "storage", "index", "sql", "script"]),
    ("gateway", &["model", "engine", "explorer"]),
    // It reads queries, and keeps what it observed in a file.
    ("advisor", &["model", "storage", "sql", "engine"]),
    ("armilla", &["model", "storage", "index", "sql", "script", "engine", "gateway", "advisor"]),
];

/// Names that say nothing about what is inside.
const VAGUE: [&str; 6] = ["util", "utils", "helper", "helpers", "common", "misc"];

/// A source file near this length is asking where its seam is.
const FILE_LINES_MAX: usize = 1000;

fn root() -> PathBuf {
    PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs this")).join("..")
}

fn crates() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("crates")).unwrap();
    let mut folders: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    folders.retain(|folder| folder.join("Cargo.toml").is_file());
    folders.sort();
    folders
}

fn name_of(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}

/// Every Rust file below a folder.
fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// A file without its tests.
fn product(text: &str) -> String {
    text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default().to_owned()
}

fn source_files() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in crates() {
        rust_files(&folder.join("src"), &mut found);
    }
    rust_files(&root().join("bench/src"), &mut found);
    rust_files(&root().join("xtask/src"), &mut found);
    assert!(found.len() > 20, "the walk found only {} files", found.len());
    found
}

/// The crates of this house that a manifest names outside its dev-dependencies.
fn house_dependencies(manifest: &str) -> Vec<String> {
    let mut section = "";
    let mut found = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line;
        } else if section == "[dependencies]"
            && let Some(rest) = line.strip_prefix("armilla-")
        {
            let end = rest.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(rest.len());
            found.push(rest[..end].to_owned());
        }
    }
    found
}

#[test]
fn arrows_between_crates_point_down() {
    for folder in crates() {
        let name = name_of(&folder);
        let allowed = ARROWS.iter().find(|(from, _)| *from == name);
        let (_, allowed) = allowed.unwrap_or_else(|| panic!("crate {name} has no place in ARROWS"));
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        for dependency in house_dependencies(&manifest) {
            assert!(allowed.contains(&dependency.as_str()), "{name} must not know {dependency}");
        }
    }
}

#[test]
fn only_the_outermost_crates_know_http() {
    for folder in crates() {
        let name = name_of(&folder);
        if matches!(name.as_str(), "gateway" | "armilla") {
            continue;
        }
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let dependencies = manifest.split("[dev-dependencies]").next().unwrap();
        for stranger in ["hyper", "http", "tokio", "rustls"] {
            // The client of a remote ledger needs a runtime and TLS; the next rule keeps both where they are.
            if name == "storage" && matches!(stranger, "tokio" | "rustls") {
                continue;
            }
            let named = |line: &str| {
                line.strip_prefix(stranger).is_some_and(|rest| rest.starts_with([' ', '.', '=']))
            };
            assert!(!dependencies.lines().any(named), "{name} must not depend on {stranger}");
        }
    }
}

/// The engine runs to completion: what a remote database needs of `async` stays behind its client.
#[test]
fn nothing_asynchronous_leaves_the_ledgers_client() {
    let client = Path::new("ledger").join("postgres");
    let mut below = Vec::new();
    for folder in crates() {
        if !matches!(name_of(&folder).as_str(), "gateway" | "armilla") {
            rust_files(&folder.join("src"), &mut below);
        }
    }
    below.retain(|path| !path.to_string_lossy().contains(&*client.to_string_lossy()));
    for path in below {
        let text = fs::read_to_string(&path).unwrap();
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let found = code.into_iter().find(|line| {
            ["async fn", "async move", "tokio::", "rustls::"].iter().any(|word| line.contains(word))
        });
        assert!(found.is_none(), "{}: {}", path.display(), found.unwrap_or_default());
    }
}

#[test]
fn files_are_named_after_what_is_inside() {
    for path in source_files() {
        let name = name_of(&path);
        assert!(name != "mod", "{}: use `x.rs` beside `x/`", path.display());
        assert!(!VAGUE.contains(&name.as_str()), "{}: a name that says nothing", path.display());
    }
}

#[test]
fn files_stay_readable() {
    for path in source_files() {
        let lines = fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines <= FILE_LINES_MAX, "{} has {lines} lines", path.display());
    }
}

#[test]
fn every_file_of_a_library_begins_with_its_idea() {
    for path in source_files() {
        let text = fs::read_to_string(&path).unwrap();
        let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        assert!(first.starts_with("//!"), "{}: begin with a module comment", path.display());
    }
}

/// A page of the protocol.
fn protocol_page(name: &str) -> Option<String> {
    fs::read_to_string(root().join("docs/protocol").join(name)).ok()
}

/// The anchor that a heading gets: lower case, words joined by dashes, punctuation left out.
fn anchor_of(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-');
    heading.trim().to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")
}

fn anchors(page: &str) -> Vec<String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| anchor_of(line.trim_start_matches('#'))).collect()
}

/// Every Rust file of the crates, tests included.
fn crate_files() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in crates() {
        rust_files(&folder, &mut found);
    }
    found
}

/// A sleep in a test says why it is not a hope, in a comment above it that begins so.
const PAUSE: &str = "// Pause: ";

fn is_test_file(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tests") || name_of(path) == "tests"
}

/// A test that sleeps and then asserts passes or fails by the load of the machine. It waits for a condition
/// or for a gate instead; what remains are pauses between two looks, and paces that must not matter.
#[test]
fn tests_do_not_sleep_and_hope() {
    for path in crate_files() {
        let text = fs::read_to_string(&path).unwrap();
        let tests = if is_test_file(&path) { Some(0) } else { text.find("#[cfg(test)]") };
        let Some(first) = tests else { continue };
        let lines: Vec<_> = text[first..].lines().collect();
        for (at, line) in lines.iter().enumerate().filter(|(_, line)| line.contains("sleep(")) {
            let explained = at > 0 && lines[at - 1].trim_start().starts_with(PAUSE);
            assert!(explained, "{}: '{}' needs a line `{PAUSE}…`", path.display(), line.trim());
        }
    }
}

/// Phrases that send the reader to a document without saying which.
const NOWHERE: [&str; 6] = [
    "wire contract",
    "language contract",
    "script contract",
    "the contract",
    "contract's",
    "contract, section",
];

#[test]
fn references_to_the_protocol_resolve() {
    let mut links = 0;
    for path in crate_files() {
        let text = fs::read_to_string(&path).unwrap();
        for link in text.split("docs/protocol/").skip(1) {
            let end = link.find(|c: char| !(c.is_ascii_alphanumeric() || "-#.".contains(c)));
            let link = link[..end.unwrap_or(link.len())].trim_end_matches('.');
            let (name, anchor) = link.split_once('#').unwrap_or((link, ""));
            let page = protocol_page(name);
            let page = page.unwrap_or_else(|| panic!("{}: no page {name}", path.display()));
            let known = anchor.is_empty() || anchors(&page).iter().any(|known| known == anchor);
            assert!(known, "{}: {name} has no heading for #{anchor}", path.display());
            links += 1;
        }
        for line in text.lines().filter(|line| line.trim_start().starts_with("//")) {
            let vague = NOWHERE.iter().find(|phrase| line.contains(**phrase));
            assert!(vague.is_none(), "{}: link docs/protocol instead of '{line}'", path.display());
        }
    }
    assert!(links > 20, "only {links} references were found");
}

/// The types that a file declares at its top level, outside its tests.
fn types_of(text: &str) -> Vec<&str> {
    let declared = text.lines().filter_map(|line| {
        let rest = match line.strip_prefix("pub") {
            Some(rest) => rest.trim_start_matches(|c| c != ' ').trim_start(),
            None => line,
        };
        let (keyword, rest) = rest.split_once(' ')?;
        let is_type = ["struct", "enum", "trait", "type", "union"].contains(&keyword);
        let end = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
        is_type.then_some(&rest[..end])
    });
    declared.collect()
}

/// A name is a place to look for: in one crate it means one thing.
#[test]
fn no_two_types_of_a_crate_share_a_name() {
    for folder in crates().into_iter().chain([root().join("bench"), root().join("xtask")]) {
        let mut files = Vec::new();
        rust_files(&folder.join("src"), &mut files);
        let mut seen: BTreeMap<String, PathBuf> = BTreeMap::new();
        for path in files.into_iter().filter(|path| !is_test_file(path)) {
            let text = product(&fs::read_to_string(&path).unwrap());
            for declared in types_of(&text) {
                let before = seen.insert(declared.to_owned(), path.clone());
                let other = before.unwrap_or_default();
                let is_new = other.as_os_str().is_empty();
                let (one, other) = (path.display(), other.display());
                assert!(is_new, "{declared} is the name of two types: {one} and {other}");
            }
        }
    }
}

#[test]
fn declared_types_are_found() {
    let text = "pub(crate) struct One<'a> {\nenum Two {\npub type Three = u8;\n    struct Inner;\n\
                pub trait Four: Send {\n#[cfg(test)]\nmod tests {\nstruct Five;\n";
    assert_eq!(types_of(&product(text)), ["One", "Two", "Three", "Four"]);
}
