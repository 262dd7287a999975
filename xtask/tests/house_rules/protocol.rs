//! Header names and the members of clients' documents are the gateway's; below it there are typed values.

use super::{crates, name_of, product, root, rust_files};
use std::fs;
use std::path::PathBuf;

/// Crates that speak with clients.
const OUTER: [&str; 2] = ["gateway", "armilla"];

/// How header names begin, and members that only clients' documents have.
const WIRE_WORDS: [&str; 21] = [
    "x-ms-",
    "operationType",
    "resourceBody",
    "minimalReturnPreference",
    "resumeFilter",
    "offerThroughput",
    "offerAutopilotSettings",
    "subStatusCode",
    "retryAfterMilliseconds",
    "permissionMode",
    "resourcePartitionKey",
    "triggerType",
    "triggerOperation",
    "orderByItems",
    "groupByItems",
    "queryInfo",
    "queryRanges",
    "rewrittenQuery",
    "distinctType",
    "hasSelectValue",
    "partitionedQueryExecutionInfoVersion",
];

/// Where words of that spelling are somebody's own language and not the protocol's. Each is at home in one
/// place, and nobody else below the gateway may use it.
const HOMES: [(&str, &[&str]); 3] = [
    // Names inside the first version of the file format, which data folders have for ever.
    ("crates/engine/src/catalog/stored/offers.rs", &["offerThroughput", "offerAutopilotSettings"]),
    // A property of the object that scripts see: the interface that JavaScript is written against.
    ("crates/script/src/engine.rs", &["operationType"]),
    // The SQL that clients send back to each range, and the document that tells them which: the planner
    // writes the names into the text, so it must know them. The engine asks it by function.
    (
        "crates/sql/src/plan",
        &[
            "orderByItems",
            "groupByItems",
            "queryInfo",
            "queryRanges",
            "rewrittenQuery",
            "distinctType",
            "hasSelectValue",
            "partitionedQueryExecutionInfoVersion",
        ],
    ),
];

/// The files of the crates below the gateway, with their places in the repository.
fn inner_files() -> Vec<(String, PathBuf)> {
    let mut files: Vec<PathBuf> = Vec::new();
    for folder in crates().iter().filter(|folder| !OUTER.contains(&&*name_of(folder))) {
        rust_files(&folder.join("src"), &mut files);
    }
    assert!(files.len() > 100, "the walk found only {} files", files.len());
    let relative =
        |path: PathBuf| (path.strip_prefix(root()).unwrap().to_string_lossy().into_owned(), path);
    files.into_iter().map(relative).collect()
}

#[test]
fn the_protocol_stays_in_the_gateway() {
    let mut unused: Vec<_> = HOMES
        .iter()
        .flat_map(|(home, words)| words.iter().map(move |word| (*home, *word)))
        .collect();
    for (relative, path) in inner_files() {
        let text = fs::read_to_string(&path).unwrap();
        for word in WIRE_WORDS.into_iter().filter(|word| text.contains(word)) {
            let at_home = |(home, words): &(&str, &[&str])| {
                relative.starts_with(home) && words.contains(&word)
            };
            let home = HOMES.iter().find(|home| at_home(home));
            let (home, _) = home.unwrap_or_else(|| {
                panic!("{relative} knows the protocol's '{word}'; give it a typed value")
            });
            unused.retain(|known| *known != (*home, word));
        }
    }
    assert!(unused.is_empty(), "words that are no longer at home where it is said: {unused:?}");
}

/// The numbers of answers that scripts are told too.
const STATUSES: [&str; 12] =
    ["200", "201", "204", "304", "400", "403", "404", "409", "412", "413", "449", "500"];

/// Scripts compare `error.number` with them, so the script engine must know them: in one file. The engine
/// hands it kinds of errors.
#[test]
fn numbers_of_answers_are_in_one_file() {
    for (relative, path) in inner_files() {
        let about_scripts = relative.starts_with("crates/script/src/")
            || relative.starts_with("crates/engine/src/scripts");
        if !about_scripts || relative == "crates/script/src/status.rs" {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for line in product(&text).lines().filter(|line| !line.trim_start().starts_with("//")) {
            let numbers = line.split(|c: char| !(c.is_alphanumeric() || c == '_'));
            let status = numbers.into_iter().find(|word| STATUSES.contains(word));
            let is_limit = line.contains("const ");
            assert!(status.is_none() || is_limit, "{relative}: '{}' is for status.rs", line.trim());
        }
    }
}
