//! The one way scripts run in a transaction: on a script thread, watched, committed or dropped at the end.
//!
//! A procedure and a write with triggers differ in what they run and what they make ([`ScriptCall`]). All
//! else is here: the place in the queue, a client that has gone, the transaction that is lent and may be
//! taken back, the commit, the answer.

use super::custody::{Custody, Lent};
use super::host::TxnHost;
use super::runtime::Runtime;
use super::watchdog::Watched;
use super::{Client, Script};
use crate::core::Core;
use crate::query::ScriptDeadline;
use crate::txn::{Committed, Txn};
use armilla_model::charge::{Rates, RequestCharge};
use armilla_model::error::{Error, Result};
use std::sync::Arc;

/// How scripts in a transaction ended: a procedure, whose response body is JSON text, or another.
#[derive(Debug)]
pub struct Executed<T = String> {
    /// What was made and where the transaction was committed; or why it was dropped.
    pub result: Result<(T, Committed)>,
    /// What the script wrote to its log, if that was asked for; also after a failure.
    pub log: Option<String>,
    /// What it costs, failed or not.
    pub charge: RequestCharge,
}

/// Key and value of an entry of `meta`.
pub(super) type Note = (Vec<u8>, Vec<u8>);

/// Something that runs scripts in a transaction.
pub(super) trait ScriptCall: Send + Sized + 'static {
    /// What it makes.
    type Made: Send + 'static;
    /// What it costs at least.
    const CHARGE_MIN: RequestCharge;

    /// Who waits for it.
    fn client(&self) -> &Client;

    /// The scripts that may run, which are blocked when they do not come back.
    fn scripts(&self) -> Vec<Arc<Script>>;

    /// Runs the scripts; what they write is staged.
    fn run<D>(self, running: &mut Running<'_, D>) -> Result<Self::Made>;

    /// Entries of `meta` that are committed with what the scripts have written.
    fn notes(_made: &mut Self::Made) -> Vec<Note> {
        Vec::new()
    }
}

/// A call that is running.
pub(super) struct Running<'s, D> {
    pub(super) scripts: &'s Runtime,
    pub(super) custody: &'s Arc<Custody<D>>,
    pub(super) rates: Arc<Rates>,
    pub(super) clock: ScriptDeadline,
    /// What it costs so far, without the operations of the scripts.
    pub(super) charge: RequestCharge,
    pub(super) log: Option<String>,
}

impl<D> Running<'_, D> {
    /// The transaction as scripts see it.
    pub(super) fn lend(&self) -> Result<Lent<D>> {
        Lent::new(self.custody)
    }
}

impl Txn {
    /// Runs scripts in this transaction, on a thread made for them. The callback hears when the
    /// transaction is durable, or dropped because something failed.
    pub(super) fn run_scripts<C: ScriptCall>(
        self,
        call: C,
        done: impl FnOnce(Executed<C::Made>) + Send + 'static,
    ) {
        let core = self.container().core.clone();
        let refused =
            |error| Executed { result: Err(error), log: None, charge: RequestCharge::ONE };
        match core.scripts().and_then(|scripts| scripts.pool.reserve()) {
            Err(error) => {
                drop(self);
                done(refused(error));
            }
            Ok(place) => place.fill(move || match core.scripts() {
                _ if call.client().strong_count() == 0 => drop(self),
                Err(error) => done(refused(error)),
                Ok(scripts) => {
                    run(&core, scripts, self, call, done);
                    scripts.engine().tidy();
                }
            }),
        }
    }
}

fn run<C: ScriptCall>(
    core: &Arc<Core>,
    scripts: &Runtime,
    txn: Txn,
    call: C,
    done: impl FnOnce(Executed<C::Made>) + Send + 'static,
) {
    let (clock, rates) = (scripts.clock(), txn.container().rates());
    let custody = Custody::new(TxnHost::new(txn, clock), done);
    let watched = watch(core, scripts, &custody, clock, call.scripts());
    let charge = RequestCharge::ZERO;
    let mut running = Running { scripts, custody: &custody, rates, clock, charge, log: None };
    let made = call.run(&mut running);
    let Running { charge, log, .. } = running;
    // Given up meanwhile: the transaction is gone, and the answer is given.
    let Some((host, done)) = custody.take() else { return };
    let (mut txn, operations, broken) = host.into_parts();
    let charge = (charge + operations).max(C::CHARGE_MIN);
    let made = match (made, broken) {
        (_, Some(error)) | (Err(error), None) => Err(error),
        (Ok(made), None) => scripts.check_conflict().map(|()| made),
    };
    // What is left is the disk's time, not the scripts'.
    drop(watched);
    match made {
        Ok(mut made) => {
            C::notes(&mut made).into_iter().for_each(|(key, value)| txn.note(key, value));
            txn.commit_here(move |committed| {
                let result = committed.map(|committed| (made, committed));
                done(Executed { result, log, charge });
            });
        }
        Err(error) => {
            drop(txn);
            done(Executed { result: Err(error), log, charge });
        }
    }
}

/// Watches this thread's scripts. When they are late, their transaction is dropped and the caller
/// answered.
fn watch<'s, T: Send + 'static, D: FnOnce(Executed<T>) + Send + 'static>(
    core: &Arc<Core>,
    scripts: &'s Runtime,
    custody: &Arc<Custody<D>>,
    clock: ScriptDeadline,
    blocked: Vec<Arc<Script>>,
) -> Watched<'s> {
    let (core, custody) = (core.clone(), custody.clone());
    scripts.pool.watch(scripts.late_at(clock), move || {
        let Some((host, done)) = custody.take_back() else { return false };
        let (txn, operations, _) = host.into_parts();
        drop(txn);
        // Of several it is not known which one it was.
        let error = core.scripts().and_then(|scripts| {
            let mut error = Error::Timeout("The script ran too long.".to_owned());
            for script in &blocked {
                error = scripts.give_up(&scripts.compiled(script)?);
            }
            Ok(error)
        });
        let result = Err(error.unwrap_or_else(|error| error));
        done(Executed { result, log: None, charge: operations.max(RequestCharge::ONE) });
        true
    })
}

/// A promise that was rejected without anybody listening fails nothing; the log tells of it.
pub(super) fn report_rejection(script: &Script, rejection: Option<&str>) {
    if let Some(text) = rejection {
        tracing::warn!(script = &*script.name, text, "a promise rejection was not handled");
    }
}
