//! Links of comments name something: every [`x::y`] of a doc comment is declared in its crate, in one that it knows, or
//! in a crate from outside that is named with it.

use super::{crates, rust_files};
use std::collections::HashSet;
use std::fs;

/// Names from outside that comments link to.
const OUTSIDE: &[&str] = &["std", "core", "fmt", "bytes", "tokio", "hyper", "http", "serde_json"];

/// Words that declare what follows them.
const DECLARES: [&str; 9] =
    ["fn", "struct", "enum", "trait", "type", "mod", "const", "static", "macro_rules!"];

/// Everything that a text declares: items, and the variants and fields of types.
fn declared<'t>(text: &'t str, names: &mut HashSet<&'t str>) {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    for line in text.lines() {
        let line = line.trim_start();
        let mut words = line.split([' ', '(']).filter(|word| !word.is_empty());
        while let Some(word) = words.next() {
            if DECLARES.contains(&word)
                && let Some(name) = words.next()
            {
                let end = name.find(|c| !is_name(c)).unwrap_or(name.len());
                names.insert(&name[..end]);
            }
        }
        // A variant, a field, or the name of an import.
        let line = line.trim_start_matches("pub ").trim_start_matches("pub(crate) ");
        let end = line.find(|c| !is_name(c)).unwrap_or(line.len());
        let behind = line[end..].trim_start();
        if end > 0 && (behind.is_empty() || behind.starts_with([',', '(', '{', ':', '='])) {
            names.insert(&line[..end]);
        }
    }
}

/// The links of the doc comments of a text: [`x::y`] and [`words`](x::y).
fn links(text: &str) -> Vec<&str> {
    let comments = text.lines().map(str::trim_start);
    let comments = comments.filter(|line| line.starts_with("///") || line.starts_with("//!"));
    let mut found = Vec::new();
    for line in comments {
        for rest in line.split("[`").skip(1) {
            let Some((shown, behind)) = rest.split_once("`]") else { continue };
            let aimed = behind.strip_prefix('(').and_then(|rest| rest.split_once(')'));
            found.push(aimed.map_or(shown, |(target, _)| target));
        }
    }
    found
}

#[test]
fn links_of_comments_name_something() {
    let mut texts = Vec::new();
    for folder in crates() {
        let mut files = Vec::new();
        rust_files(&folder.join("src"), &mut files);
        texts.extend(files.into_iter().map(|path| (fs::read_to_string(&path).unwrap(), path)));
    }
    let mut names = HashSet::from(["Self", "self", "super", "crate"]);
    texts.iter().for_each(|(text, _)| declared(text, &mut names));
    let mut count = 0;
    for (text, path) in &texts {
        for link in links(text) {
            let link = link.trim_end_matches("()").trim_end_matches('!');
            let mut segments = link.split("::");
            let is_path = link.chars().all(|c| c.is_alphanumeric() || "_:<>".contains(c));
            let is_outside = |name: &str| OUTSIDE.contains(&name) || name.starts_with("armilla_");
            if !is_path || segments.next().is_some_and(is_outside) {
                continue;
            }
            let missing = link.split("::").find(|name| !names.contains(name));
            assert!(missing.is_none(), "{}: nothing is called [`{link}`]", path.display());
            count += 1;
        }
    }
    assert!(count > 100, "only {count} links were found");
}

#[test]
fn names_and_links_are_found() {
    let text = "/// As [`One::two`] and [`it`](crate::Three).\npub(crate) struct One {\n    two: u8,\n\
                enum Three {\n    Four,\n}\npub const FIVE: u8 = 5;\nfn six() {}\n";
    assert_eq!(links(text), ["One::two", "crate::Three"]);
    let mut names = HashSet::new();
    declared(text, &mut names);
    assert!(["One", "two", "Three", "Four", "FIVE", "six"].iter().all(|name| names.contains(name)));
}
