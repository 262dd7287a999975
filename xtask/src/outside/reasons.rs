//! Known failures, each with its reason, one per line: the test's name, two spaces or more, the reason. A name that ends in `*`
//! stands for all that begin so. Lines that begin with `#` are for the reader.

use crate::Outcome;
use crate::workspace;

/// The known failures of a suite.
pub(super) struct Reasons {
    names: Vec<String>,
}

impl Reasons {
    /// Reads `conformance/outside/NAME.txt`.
    pub(super) fn read(suite: &str) -> Outcome<Self> {
        let file = workspace::root().join(format!("conformance/outside/{suite}.txt"));
        let text = std::fs::read_to_string(&file)
            .map_err(|error| format!("{}: {error}", file.display()))?;
        Self::parse(&text).map_err(|error| format!("{}: {error}", file.display()).into())
    }

    /// Reads the text of a file; a name without a reason is refused.
    pub(super) fn parse(text: &str) -> Outcome<Self> {
        let mut names = Vec::new();
        for line in text.lines().map(str::trim_end) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match line.split_once("  ") {
                Some((name, reason)) if !reason.trim().is_empty() => names.push(name.to_owned()),
                _ => return Err(format!("`{line}` has no reason").into()),
            }
        }
        Ok(Self { names })
    }

    /// Whether this test is known to fail.
    pub(super) fn knows(&self, test: &str) -> bool {
        self.names.iter().any(|name| match name.strip_suffix('*') {
            Some(prefix) => test.starts_with(prefix),
            None => test == name,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_reasons() {
        let reasons = Reasons::parse("# why\n\nA.b  because\nC.*  all of them\n").unwrap();
        assert!(reasons.knows("A.b") && reasons.knows("C.d"));
        assert!(!reasons.knows("A.bc") && !reasons.knows("B"));
        assert!(Reasons::parse("A.b").is_err());
    }
}
