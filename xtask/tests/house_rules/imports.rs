//! What a file names of its own crate: its `use` statements, and paths in the middle of its code.

/// The paths below a module (such as `crate::query::`) that a file names. `from` is where the file is below that
/// module: `exec/stream.rs` is `["exec", "stream"]`.
pub(super) fn of(text: &str, from: &[String], module: &str) -> Vec<Vec<String>> {
    let is_comment = |line: &&str| line.trim_start().starts_with("//");
    let code: Vec<&str> = text.lines().filter(|line| !is_comment(line)).collect();
    let code = code.join("\n");
    let mut paths = Vec::new();
    for statement in code.split("use ").skip(1) {
        let statement = statement.split(';').next().unwrap_or_default();
        if statement.starts_with("crate::") || statement.starts_with("super::") {
            expand(statement, "", &mut paths);
        }
    }
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let inline = code.split(module).skip(1).map(|rest| {
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        format!("{module}{}", rest[..end].trim_end_matches(':'))
    });
    paths.extend(inline.filter(|path| path.len() > module.len()));
    paths.iter().filter_map(|path| resolved(path, from, module)).collect()
}

/// `a::{b, c::d}` is `a::b` and `a::c::d`.
fn expand(tree: &str, prefix: &str, paths: &mut Vec<String>) {
    let tree = tree.trim();
    let Some((head, rest)) = tree.split_once('{') else {
        paths.push(format!("{prefix}{tree}"));
        return;
    };
    let prefix = format!("{prefix}{}", head.trim());
    let inner = rest.trim_end();
    let inner = inner.strip_suffix('}').unwrap_or(inner);
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
fn resolved(path: &str, from: &[String], module: &str) -> Option<Vec<String>> {
    let segments = |path: &str| path.split("::").map(|part| part.trim().to_owned()).collect();
    if let Some(path) = path.strip_prefix(module) {
        return Some(segments(path));
    }
    if !path.starts_with("super::") {
        return None;
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
fn imports_are_read() {
    let text = "use crate::a::{b, c::{d, E}};\nuse super::x::Y;\n// use crate::not;\nlet z = crate::f::g(1);";
    let from = ["one".to_owned(), "two".to_owned()];
    let paths: Vec<_> = of(text, &from, "crate::").iter().map(|path| path.join("::")).collect();
    assert_eq!(paths[..4], ["a::b", "a::c::d", "a::c::E", "one::x::Y"]);
    assert!(paths.contains(&"f::g".to_owned()) && !paths.iter().any(|path| path == "not"));
}
