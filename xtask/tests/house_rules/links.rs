//! Links of documents lead somewhere: to a file that is there and, with a `#`, to a heading in it.

use super::{anchors, root};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Every document of the project, the vendored one excepted.
fn documents() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in [".", "docs", "docs/decisions", "docs/protocol", "docs/sdks", "conformance"] {
        let entries = fs::read_dir(root().join(folder)).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        found.extend(paths.filter(|path| path.extension().is_some_and(|kind| kind == "md")));
    }
    assert!(found.len() > 30, "the walk found only {} documents", found.len());
    found
}

/// The targets of `[text](target)` in a document, outside blocks of code.
fn targets(text: &str) -> Vec<&str> {
    let mut in_code = false;
    let mut found = Vec::new();
    for line in text.lines() {
        in_code ^= line.trim_start().starts_with("```");
        if in_code {
            continue;
        }
        found.extend(line.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0)));
    }
    found
}

fn check(document: &Path, text: &str, target: &str) -> Result<(), String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return Ok(());
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = document.parent().unwrap().join(file);
    if !file.is_empty() && !path.exists() {
        return Err(format!("there is no {file}"));
    }
    let is_document = file.is_empty() || file.ends_with(".md");
    if anchor.is_empty() || !is_document {
        return Ok(());
    }
    let page = if file.is_empty() { text.to_owned() } else { fs::read_to_string(path).unwrap() };
    let known = anchors(&page).iter().any(|known| known == anchor);
    if known { Ok(()) } else { Err(format!("{file} has no heading for #{anchor}")) }
}

#[test]
fn links_of_documents_lead_somewhere() {
    let mut links = 0;
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        for target in targets(&text) {
            let checked = check(&document, &text, target);
            assert!(checked.is_ok(), "{}: {target}: {}", document.display(), checked.unwrap_err());
            links += 1;
        }
    }
    assert!(links > 50, "only {links} links were found");
}

/// The two kinds of entries that readers of a changelog look for, in each release.
#[test]
fn the_changelog_tells_news_and_repairs() {
    let text = fs::read_to_string(root().join("CHANGELOG.md")).unwrap();
    let releases: Vec<_> = text.split("\n## ").skip(1).collect();
    assert!(!releases.is_empty(), "no release is told of");
    for release in releases {
        let name = release.lines().next().unwrap_or_default();
        for section in ["### New", "### Fixed"] {
            assert!(release.contains(section), "{name} has no section '{section}'");
        }
        let fixed = release.split("### Fixed").nth(1).unwrap_or_default();
        let fixed = fixed.split("\n### ").next().unwrap_or_default();
        assert!(fixed.contains("\n- "), "{name} tells of nothing that was fixed");
    }
}

/// Changes of the product that may stand behind the changelog.
const UNTOLD_MAX: usize = 15;

/// The commits since one that touched a path, or all, that touched another; nothing where there is no history.
fn commits(range: &str, paths: &[&str]) -> Option<Vec<String>> {
    let mut git = Command::new("git");
    git.args(["log", "--format=%H", range, "--"]).args(paths).current_dir(root());
    let output = git.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

/// Whoever changes the product tells its users; not with every commit, but soon. A copy without a history
/// says nothing.
#[test]
fn the_changelog_keeps_up_with_the_product() {
    let told = commits("HEAD", &["CHANGELOG.md"]).unwrap_or_default();
    let Some(last) = told.first() else { return };
    let untold = commits(&format!("{last}..HEAD"), &["crates/*/src"]).unwrap_or_default();
    assert!(
        untold.len() <= UNTOLD_MAX,
        "{} commits changed the product since CHANGELOG.md was touched last",
        untold.len()
    );
}

/// A decision is cited by its number.
#[test]
fn decisions_have_numbers_of_their_own() {
    let entries = fs::read_dir(root().join("docs/decisions")).unwrap();
    let mut numbers: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().to_string_lossy().chars().take(4).collect())
        .collect();
    numbers.sort();
    let count = numbers.len();
    numbers.dedup();
    assert_eq!(numbers.len(), count, "two decisions share a number: {numbers:?}");
}
