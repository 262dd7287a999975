//! Procedures that are quick, run where they are asked for.
//!
//! Handing a call to a script's thread and being woken by it costs as much as a short script. A procedure whose last calls were all
//! quick is therefore tried on the thread that has the request, within bounds that leave no room for anything else: a millisecond, little memory,
//! items of a few kilobytes, no queries and no feeds. Until its commit a script has no effect but on its own transaction. So one that meets a bound is as
//! if it had never run: its transaction begins anew and it runs on a script's thread, with all that scripts may use, and is charged for
//! that run alone. It is not tried here again before it was quick there several times.

use super::call::{Executed, report_rejection};
use super::failure::out_of_script;
use super::host::TxnHost;
use super::runtime::Runtime;
use super::{Procedure, Script};
use crate::container::Container;
use crate::limits::{SCRIPT_QUICK_BYTES, SCRIPT_QUICK_MEMORY, SCRIPT_QUICK_TIME};
use crate::txn::Txn;
use armilla_model::error::Result;
use armilla_script::{AttemptBounds, CallOptions, Compiled, ScriptOutcome};

const BOUNDS: AttemptBounds =
    AttemptBounds { time: SCRIPT_QUICK_TIME, memory_bytes_max: SCRIPT_QUICK_MEMORY };

/// A call that was not made here, as it was.
pub struct NotHere<D> {
    /// The transaction, in which nothing was written.
    pub txn: Txn,
    /// What is to be run.
    pub procedure: Procedure,
    /// Who waits for it.
    pub done: D,
}

/// Whether a procedure has been quick, so that [`Txn::execute_procedure_here`] is worth a try.
pub fn is_quick(container: &Container, script: &Script) -> bool {
    let runtime = container.core.started_scripts();
    runtime.is_some_and(|runtime| runtime.quick(script).is_some())
}

impl Txn {
    /// Runs a procedure in this transaction on this thread, if it was quick before and is so now; all else is as for
    /// [`execute_procedure`](Self::execute_procedure). As there, it is committed on the thread that has run it when nobody else has been writing for a while.
    ///
    /// # Errors
    ///
    /// Gives the call back, as it was, when it is not for this thread.
    pub fn execute_procedure_here<D: FnOnce(Executed) + Send + 'static>(
        self,
        procedure: Procedure,
        done: D,
    ) -> Result<(), Box<NotHere<D>>> {
        let core = self.container().core.clone();
        let Some(scripts) = core.started_scripts() else {
            return Err(Box::new(NotHere { txn: self, procedure, done }));
        };
        let is_small = procedure.arguments.len() <= SCRIPT_QUICK_BYTES;
        let compiled = scripts.quick(&procedure.script).filter(|_| is_small);
        let Some(compiled) = compiled else {
            return Err(Box::new(NotHere { txn: self, procedure, done }));
        };
        let rates = self.container().rates();
        let (host, outcome) = attempt(scripts, self, &compiled, &procedure);
        let is_beyond = host.is_beyond();
        let (mut txn, operations, broken) = host.into_parts();
        let Some(outcome) = outcome.filter(|_| !is_beyond) else {
            scripts.note(&procedure.script, false);
            return Err(Box::new(NotHere { txn: txn.restarted(), procedure, done }));
        };
        txn.limit_loading(None);
        report_rejection(&procedure.script, outcome.swallowed_rejection.as_deref());
        let (log, charge) = (outcome.log, rates.script(outcome.ticks) + operations);
        let made = match (outcome.result, broken) {
            (_, Some(error)) => Err(error),
            (Err(error), None) => Err(out_of_script(&error)),
            (Ok(body), None) => scripts.check_conflict().map(|()| body),
        };
        match made {
            Ok(body) => {
                txn.commit_here_at_disk(move |committed| {
                    let result = committed.map(|committed| (body, committed));
                    done(Executed { result, log, charge });
                });
            }
            Err(error) => {
                drop(txn);
                done(Executed { result: Err(error), log, charge });
            }
        }
        // While others wait for the disk, or at the latest before the next call.
        scripts.engine().tidy();
        Ok(())
    }
}

/// Runs a procedure within the bounds of this thread; no outcome when it met one.
fn attempt(
    scripts: &Runtime,
    txn: Txn,
    compiled: &Compiled,
    procedure: &Procedure,
) -> (TxnHost, Option<ScriptOutcome>) {
    let clock = scripts.clock();
    let mut host = TxnHost::bounded(txn, clock);
    let options = CallOptions {
        script_id: &procedure.script.name,
        logging: procedure.logging,
        started: Some(clock.started),
    };
    let arguments = &procedure.arguments;
    let outcome =
        scripts.engine().attempt_procedure(compiled, arguments, &mut host, options, BOUNDS);
    (host, outcome)
}
