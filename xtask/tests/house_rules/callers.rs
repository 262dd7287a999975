//! What is public has a caller: between crates the compiler does not tell.

use super::{is_test_file, source_files};
use std::collections::HashMap;
use std::fs;

/// Functions that only tests and tools call: they make a state or look at one that the product has no need to.
const TEST_SEAMS: [&str; 12] = [
    "advance_seconds",
    "after_crash",
    "another_node",
    "at_seconds",
    "brief_page",
    "charge_of_steps",
    "go_back_seconds",
    "opened_indexes",
    "parse_compact",
    "settle_subscriptions",
    "take_flush_job",
    "wait_for_index",
];

/// The name of the function that a line declares for others.
fn declared(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub")?;
    let (before, name) = rest.split_once("fn ")?;
    let is_declaration = before.chars().all(|c| c.is_alphanumeric() || " ():_".contains(c));
    let end = name.find(|c: char| !(c.is_alphanumeric() || c == '_'))?;
    is_declaration.then_some(&name[..end])
}

#[test]
fn public_functions_have_callers() {
    let files: Vec<_> = source_files().into_iter().filter(|path| !is_test_file(path)).collect();
    let code = |path| {
        let text = fs::read_to_string(path).unwrap();
        let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let lines = product.lines().filter(|line| !line.trim_start().starts_with("//"));
        lines.collect::<Vec<_>>().join("\n")
    };
    let texts: Vec<_> = files.iter().map(|path| (path, code(path))).collect();
    let mut mentions: HashMap<&str, usize> = HashMap::new();
    for (_, text) in &texts {
        for word in text.split(|c: char| !(c.is_alphanumeric() || c == '_')) {
            *mentions.entry(word).or_default() += 1;
        }
    }
    let mut seams = 0;
    for (path, text) in &texts {
        let lines = text.lines();
        let mut is_for_tests = false;
        for line in lines {
            if let Some(name) = declared(line).filter(|_| !is_for_tests) {
                let is_alone = mentions.get(name) == Some(&1);
                let is_seam = TEST_SEAMS.contains(&name);
                assert!(!is_alone || is_seam, "{}: nobody calls {name}", path.display());
                seams += usize::from(is_seam);
            }
            is_for_tests = line.trim() == "#[cfg(test)]";
        }
    }
    assert_eq!(seams, TEST_SEAMS.len(), "a function that is gone is taken off the list");
}

#[test]
fn declared_functions_are_found() {
    assert_eq!(declared("    pub(crate) async fn one<T>(&self) {"), Some("one"));
    assert_eq!(declared("pub const fn two() -> u8 {"), Some("two"));
    assert_eq!(declared("fn three() {}"), None);
}
