//! Whether two files have the same lines, in whatever order and however long they are.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::Outcome;

/// Half of a digest is enough to tell lines apart.
type Mark = [u8; 16];

/// The number of lines when both files have the same; else a line that one of them lacks.
pub(super) fn same_lines(left: &Path, right: &Path) -> Outcome<u64> {
    let (ours, theirs) = (marks(left)?, marks(right)?);
    if ours == theirs {
        return Ok(ours.len() as u64);
    }
    let example = |from: &[Mark], other: &[Mark], file: &Path| -> Outcome<Option<String>> {
        let lacking = from.iter().find(|mark| other.binary_search(mark).is_err());
        lacking.map(|mark| line_of(file, mark)).transpose()
    };
    let lost = example(&ours, &theirs, left)?.unwrap_or_else(|| "none".into());
    let new = example(&theirs, &ours, right)?.unwrap_or_else(|| "none".into());
    Err(format!(
        "{} lines went in and {} came out; one that is lost: {lost}; one that is new: {new}",
        ours.len(),
        theirs.len()
    )
    .into())
}

/// How many lines a file has.
pub(super) fn lines(file: &Path) -> Outcome<u64> {
    let mut count = 0;
    for line in BufReader::new(File::open(file)?).split(b'\n') {
        line?;
        count += 1;
    }
    Ok(count)
}

fn marks(file: &Path) -> Outcome<Vec<Mark>> {
    let mut marks = Vec::new();
    for line in BufReader::new(File::open(file)?).split(b'\n') {
        let line = line?;
        if !line.is_empty() {
            marks.push(mark(&line));
        }
    }
    marks.sort_unstable();
    Ok(marks)
}

fn mark(line: &[u8]) -> Mark {
    let digest = Sha256::digest(line);
    let mut mark = Mark::default();
    mark.copy_from_slice(&digest[..16]);
    mark
}

fn line_of(file: &Path, wanted: &Mark) -> Outcome<String> {
    for line in BufReader::new(File::open(file)?).split(b'\n') {
        let line = line?;
        if mark(&line) == *wanted {
            return Ok(String::from_utf8_lossy(&line).into_owned());
        }
    }
    Ok(String::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_does_not_count_and_every_line_does() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let first = file("a", "1\n2\n2\n");
        assert_eq!(same_lines(&first, &file("b", "2\n1\n2")).unwrap(), 3);
        let error = same_lines(&first, &file("c", "2\n1\n3\n")).unwrap_err().to_string();
        assert!(error.contains("new: 3"), "{error}");
        assert!(same_lines(&first, &file("d", "2\n1\n")).is_err());
    }
}
