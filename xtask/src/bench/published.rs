//! The tables of a run inside `docs/benchmarks.md`: what stands between two marks is made by a run, and by nothing else.

use std::ffi::OsString;

use crate::{Outcome, processes, workspace};

const PAGE: &str = "docs/benchmarks.md";
const BEGIN: &str = "<!-- The tables below are written by `cargo xtask bench --publish`. -->";
const END: &str = "<!-- The tables of the run end here. -->";

/// What a reader needs to repeat a run: the command, the day, the code.
pub(super) fn head(words: &[OsString]) -> Outcome<String> {
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let told = words.iter().filter(|word| **word != "--publish").map(|word| format!(" {word}"));
    let options: String = told.collect();
    let asked = |program: &str, arguments: &[&str]| -> Outcome<String> {
        let answer = processes::probe(program, arguments);
        Ok(answer.ok_or_else(|| format!("{program} does not answer"))?.trim().to_owned())
    };
    let day = asked("date", &["-u", "+%-d %B %Y"])?;
    let commit = asked("git", &["rev-parse", "--short", "HEAD"])?;
    Ok(format!("{day}, commit {commit}: `cargo xtask bench{options}`"))
}

/// Replaces the tables of the last run.
pub(super) fn publish(head: &str, tables: &str) -> Outcome<()> {
    let path = workspace::root().join(PAGE);
    let page = std::fs::read_to_string(&path)?;
    let page = replaced(&page, head, tables).ok_or(format!("{PAGE} has lost its two marks"))?;
    std::fs::write(&path, page)?;
    println!("{PAGE} has the tables.");
    Ok(())
}

fn replaced(page: &str, head: &str, tables: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, behind) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{head}\n\n{}\n\n{END}{behind}", tables.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_of_the_last_run_are_replaced_and_nothing_else() {
        let page = format!("before\n{BEGIN}\nold\n{END}\nbehind\n");
        let new = replaced(&page, "head", "| a |\n").unwrap();
        assert_eq!(new, format!("before\n{BEGIN}\n\nhead\n\n| a |\n\n{END}\nbehind\n"));
        assert_eq!(replaced(&new, "head", "| a |").as_deref(), Some(&*new));
        assert_eq!(replaced("no marks", "head", ""), None);
    }

    #[test]
    fn the_page_has_the_marks() {
        let page = std::fs::read_to_string(workspace::root().join(PAGE)).unwrap();
        assert!(replaced(&page, "", "").is_some());
    }
}
