//! Header names and the members of clients' documents are the gateway's; below it there are typed values.

use super::{crates, name_of, root, rust_files};
use std::fs;
use std::path::PathBuf;

/// Crates that speak with clients.
const OUTER: [&str; 2] = ["gateway", "armilla"];

/// How header names begin, and members that only clients' documents have.
const WIRE_WORDS: [&str; 9] = [
    "x-ms-",
    "operationType",
    "resourceBody",
    "minimalReturnPreference",
    "resumeFilter",
    "offerThroughput",
    "offerAutopilotSettings",
    "subStatusCode",
    "retryAfterMilliseconds",
];

/// Where such a word means something else. The list only shrinks.
const EXCEPTIONS: [(&str, &str); 3] = [
    // Names in the first version of the file format.
    ("crates/engine/src/catalog/stored/offers.rs", "offerThroughput"),
    ("crates/engine/src/catalog/stored/offers.rs", "offerAutopilotSettings"),
    // A property of the object that scripts see.
    ("crates/script/src/engine.rs", "operationType"),
];

#[test]
fn the_protocol_stays_in_the_gateway() {
    let mut files: Vec<PathBuf> = Vec::new();
    for folder in crates().iter().filter(|folder| !OUTER.contains(&&*name_of(folder))) {
        rust_files(&folder.join("src"), &mut files);
    }
    assert!(files.len() > 100, "the walk found only {} files", files.len());
    let mut unused = EXCEPTIONS.to_vec();
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        let relative = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
        for word in WIRE_WORDS.into_iter().filter(|word| text.contains(word)) {
            let excepted = EXCEPTIONS.contains(&(&relative, word));
            assert!(excepted, "{relative} knows the protocol's '{word}'; give it a typed value");
            unused.retain(|exception| *exception != (&*relative, word));
        }
    }
    assert!(unused.is_empty(), "exceptions that nobody needs any more: {unused:?}");
}
