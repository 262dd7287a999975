//! The lane: the session of the appends, which lives on no thread of its own.
//!
//! Whoever appends moves the connection's bytes while it waits for the answer, so nobody is woken between a writer and the database. Threads
//! that append at the same time share the connection: one of them moves the bytes of all, and hands that on when it has its answer.

use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;

use super::session::Line;
use super::statements;
use crate::ledger::{Entry, LedgerError, Verdict};

/// The session of the appends, and what runs it while somebody appends.
pub(super) struct AppendLine {
    /// Until the end.
    runtime: Option<Runtime>,
    line: Line,
}

impl AppendLine {
    pub(super) fn new(line: Line) -> Result<Self, LedgerError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| {
            LedgerError::Unreachable(format!("the lane of the ledger cannot be made: {error}"))
        })?;
        Ok(Self { runtime: Some(runtime), line })
    }

    /// Adds rows to journals. Not for a thread that runs other tasks: this one waits.
    pub(super) fn append(&self, entries: &[Entry]) -> Result<Vec<Verdict>, LedgerError> {
        let runtime = self.runtime.as_ref().expect("the lane is there until it is dropped");
        runtime.block_on(async {
            self.look().await;
            let appended = statements::append(&self.line, entries).await;
            if appended.is_err() {
                // The connection was given up; here it is closed.
                self.look().await;
            }
            appended
        })
    }

    /// Lets the connection see what has come since the last append: perhaps its end. The first pause asks the system, the second lets the
    /// connection's task have it.
    async fn look(&self) {
        yield_now().await;
        yield_now().await;
    }
}

impl Drop for AppendLine {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // The last owner may be a thread that must not wait.
            runtime.shutdown_background();
        }
    }
}
