//! Brief procedures of a lone client, run on the thread that has its request.
//!
//! Handing a call to a script thread and being woken by it costs a lone client as much as a short script. So a procedure that has been
//! brief in its last calls is run where its request is, by callers that may be held up for as long ([`SCRIPT_BRIEF_TIME_MAX`]). A
//! call that turns out to be longer is given up as if it had never begun, and made again on a script thread: what it wrote was only staged, and
//! its runtime's memory is put back. Queries and lists, many operations and large items are left to script threads as well.

use super::call::{Executed, Running, conclude, watch};
use super::custody::Custody;
use super::host::TxnHost;
use super::procedure::Procedure;
use crate::limits::{
    SCRIPT_BRIEF_BYTES_MAX, SCRIPT_BRIEF_CALLS_MIN, SCRIPT_BRIEF_OPERATIONS_MAX,
    SCRIPT_BRIEF_TIME_MAX,
};
use crate::txn::Txn;
use armilla_model::charge::RequestCharge;
use armilla_model::error::{Error, Result};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

/// How long the last calls of a script took.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Calls in a row that were brief.
    brief_calls: AtomicU32,
}

impl Pace {
    /// Notes a call, and whether it did nothing but light operations.
    pub(super) fn note(&self, took: Duration, is_light: bool) {
        if is_light && took <= SCRIPT_BRIEF_TIME_MAX / 2 {
            let calls = self.brief_calls.load(Relaxed);
            self.brief_calls.store(calls.saturating_add(1), Relaxed);
        } else {
            self.brief_calls.store(0, Relaxed);
        }
    }

    fn is_brief(&self) -> bool {
        self.brief_calls.load(Relaxed) >= SCRIPT_BRIEF_CALLS_MIN
    }
}

/// What the operations of a call were about.
#[derive(Debug, Default)]
pub(super) struct Weight {
    bytes: usize,
    operations: usize,
    /// Operations beyond those of a brief call are refused.
    is_bounded: bool,
}

impl Weight {
    /// Of a call that is to be brief.
    pub(super) fn of_brief() -> Self {
        Self { is_bounded: true, ..Self::default() }
    }

    /// Notes an operation about so many bytes.
    pub(super) fn add(&mut self, bytes: usize) -> Result<()> {
        self.bytes = self.bytes.saturating_add(bytes);
        self.operations += 1;
        match self.is_outgrown() {
            true => Err(Error::Internal("The script is not brief.".to_owned())),
            false => Ok(()),
        }
    }

    pub(super) fn is_light(&self) -> bool {
        self.bytes <= SCRIPT_BRIEF_BYTES_MAX && self.operations <= SCRIPT_BRIEF_OPERATIONS_MAX
    }

    pub(super) fn is_outgrown(&self) -> bool {
        self.is_bounded && !self.is_light()
    }
}

/// A call that is to be made on a script thread: the transaction as it began, and what belongs to it.
pub struct NotBrief<D> {
    /// The transaction.
    pub txn: Txn,
    /// The call.
    pub procedure: Procedure,
    /// Who waits for it.
    pub done: D,
}

impl Txn {
    /// Runs a procedure on this thread, which it holds up for a few milliseconds at most, and commits it if nobody else is writing. As
    /// [`execute_procedure`](Self::execute_procedure) otherwise. Gives everything back for a procedure that was not brief before, or is not now.
    pub fn execute_procedure_here<D: FnOnce(Executed) + Send + 'static>(
        self,
        procedure: Procedure,
        done: D,
    ) -> std::result::Result<(), Box<NotBrief<D>>> {
        let core = self.container().core.clone();
        let Ok(scripts) = core.scripts() else {
            return Err(Box::new(NotBrief { txn: self, procedure, done }));
        };
        let cached = scripts.cached(&procedure.script);
        if !cached.is_ok_and(|cached| cached.pace.is_brief()) {
            return Err(Box::new(NotBrief { txn: self, procedure, done }));
        }
        let (clock, rates) = (scripts.clock(), self.container().rates());
        let mut txn = self;
        txn.limit_loading(Some(SCRIPT_BRIEF_BYTES_MAX));
        let custody = Custody::new(TxnHost::brief(txn, clock), done);
        let watched = watch(&core, scripts, &custody, clock, vec![procedure.script.clone()]);
        let charge = RequestCharge::ZERO;
        let mut running = Running { scripts, custody: &custody, rates, clock, charge, log: None };
        let made = procedure.call(&mut running, Some(SCRIPT_BRIEF_TIME_MAX));
        let Running { charge, log, .. } = running;
        // Given up meanwhile: the transaction is gone, and the answer is given.
        let Some((host, done)) = custody.take() else { return Ok(()) };
        drop(watched);
        if host.is_outgrown() || matches!(made, Err(Error::Timeout(_))) {
            let (txn, ..) = host.into_parts();
            return Err(Box::new(NotBrief { txn: txn.restarted(), procedure, done }));
        }
        conclude::<Procedure, _>(scripts, host, done, (made, charge, log));
        Ok(())
    }
}
