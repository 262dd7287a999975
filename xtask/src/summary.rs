//! The table at the end of a run, and the closing line that scripts read.

use std::time::Duration;

/// What became of one group of tests.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) took: Duration,
    /// A few words: why it failed, or what was left out on request.
    pub(crate) note: String,
}

impl Row {
    /// A group that could not run at all counts as one failure, never as nothing.
    pub(crate) fn broken(name: &str, took: Duration, note: impl Into<String>) -> Self {
        Self { name: name.to_owned(), passed: 0, failed: 1, took, note: note.into() }
    }
}

/// All rows of a run.
#[derive(Default)]
pub(crate) struct Summary {
    rows: Vec<Row>,
}

impl Summary {
    pub(crate) fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Prints the table and the closing line; true when nothing failed and something passed.
    pub(crate) fn close(&self) -> bool {
        println!("\n{}", self.table());
        println!("{}", self.closing_line());
        self.failed() == 0 && self.passed() > 0
    }

    fn passed(&self) -> u64 {
        self.rows.iter().map(|row| row.passed).sum()
    }

    fn failed(&self) -> u64 {
        self.rows.iter().map(|row| row.failed).sum()
    }

    fn closing_line(&self) -> String {
        format!("{} passed, {} failed", self.passed(), self.failed())
    }

    fn table(&self) -> String {
        let width = self.rows.iter().map(|row| row.name.len()).max().unwrap_or(0).max(5);
        let mut text = format!("{:<width$}  passed  failed   seconds  note\n", "tests");
        for row in &self.rows {
            let line = format!(
                "{:<width$}  {:>6}  {:>6}  {:>8.1}  {}",
                row.name,
                row.passed,
                row.failed,
                row.took.as_secs_f64(),
                row.note
            );
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_line_adds_the_rows_up() {
        let mut summary = Summary::default();
        summary.add(Row {
            name: "rust".into(),
            passed: 12,
            failed: 0,
            took: Duration::from_secs(3),
            note: String::new(),
        });
        summary.add(Row::broken("python http", Duration::ZERO, "python3 is missing"));
        assert_eq!(summary.closing_line(), "12 passed, 1 failed");
        assert!(summary.table().contains("python3 is missing"));
        assert!(!summary.close());
    }

    #[test]
    fn a_run_that_ran_nothing_is_not_a_success() {
        assert!(!Summary::default().close());
    }
}
