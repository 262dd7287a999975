//! Running a stored procedure: one transaction, committed when the script ends.

use super::custody::{Custody, Lent};
use super::failure::out_of_script;
use super::host::TxnHost;
use super::runtime::Runtime;
use super::watchdog::Watched;
use super::{Client, Script};
use crate::core::Core;
use crate::txn::{Committed, Txn};
use armilla_model::charge::RequestCharge;
use armilla_model::error::{Error, Result};
use armilla_model::value::{Object, Value};
use armilla_script::{CallOptions, Compiled};
use std::sync::Arc;
use std::time::Instant;

/// A call of a procedure.
pub struct Procedure {
    /// What is run.
    pub script: Arc<Script>,
    /// A JSON array, as [`arguments`] makes it; empty for none.
    pub arguments: String,
    /// Keep what the script writes to its log.
    pub logging: bool,
    /// Who waits for it.
    pub client: Client,
}

/// How a procedure ended.
#[derive(Debug)]
pub struct Executed {
    /// The response body as JSON and where the transaction was committed; or why it was dropped.
    pub result: Result<(String, Committed)>,
    /// What the script wrote to its log, if that was asked for; also after a failure.
    pub log: Option<String>,
    /// What it costs, failed or not.
    pub charge: RequestCharge,
}

/// The arguments in the body of a request, as `Function.prototype.apply` takes them: an array, an object
/// that looks like one, any other object for none, or nothing.
pub fn arguments(body: &[u8]) -> Result<String> {
    let text = std::str::from_utf8(body)
        .map_err(|_| Error::bad_request("The arguments of a procedure must be UTF-8."))?;
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.is_empty() || text == "null" {
        return Ok(String::new());
    }
    match armilla_model::json::parse(text.as_bytes())? {
        Value::Array(_) => Ok(text.to_owned()),
        Value::Object(object) => spread(&object),
        other => Err(Error::bad_request(format!(
            "The arguments of a procedure must be an array, and are {other}."
        ))),
    }
}

/// The elements of an object that has a `length`.
fn spread(object: &Object) -> Result<String> {
    let length = object.get("length").and_then(Value::as_i64).unwrap_or(0).max(0);
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if length > ARGUMENTS_MAX {
        return Err(Error::bad_request(format!(
            "A procedure may have at most {ARGUMENTS_MAX} arguments, and these are {length}."
        )));
    }
    let element = |position: usize| object.get(&position.to_string()).cloned();
    let elements = (0..length).map(|position| element(position).unwrap_or(Value::Null)).collect();
    Ok(Value::array(elements).to_json())
}

/// Arguments that an object without brackets may stand for.
const ARGUMENTS_MAX: usize = 1024;

impl Txn {
    /// Runs a procedure in this transaction, on a thread made for it. The callback hears when the
    /// transaction is durable, or dropped because the script failed.
    pub fn execute_procedure(
        self,
        procedure: Procedure,
        done: impl FnOnce(Executed) + Send + 'static,
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
                _ if procedure.client.strong_count() == 0 => drop(self),
                Err(error) => done(refused(error)),
                Ok(scripts) => {
                    run(&core, scripts, self, &procedure, done);
                    scripts.engine().tidy();
                }
            }),
        }
    }
}

fn run(
    core: &Arc<Core>,
    scripts: &Runtime,
    txn: Txn,
    procedure: &Procedure,
    done: impl FnOnce(Executed) + Send + 'static,
) {
    let script = &procedure.script;
    let compiled = match scripts.compiled(script) {
        Ok(compiled) => compiled,
        Err(error) => {
            drop(txn);
            return done(Executed { result: Err(error), log: None, charge: RequestCharge::ONE });
        }
    };
    let rates = txn.container().rates();
    let clock = scripts.clock();
    let custody = Custody::new(TxnHost::new(txn, clock), done);
    let Ok(mut host) = Lent::new(&custody) else { return };
    let _watched = watch(scripts, core, &custody, scripts.late_at(clock), &compiled);
    let options = CallOptions {
        script_id: &script.name,
        logging: procedure.logging,
        started: Some(clock.started),
    };
    let outcome =
        scripts.engine().run_procedure(&compiled, &procedure.arguments, &mut host, options);
    report_rejection(script, outcome.swallowed_rejection.as_deref());
    // Given up meanwhile: the transaction is gone, and the answer is given.
    let Some((host, done)) = custody.take() else { return };
    let (txn, operations, broken) = host.into_parts();
    let charge = rates.script(outcome.ticks) + operations;
    let log = outcome.log;
    let body = match (outcome.result, broken) {
        (_, Some(error)) => Err(error),
        (Err(error), None) => Err(out_of_script(&error)),
        (Ok(body), None) => scripts.check_conflict().map(|()| body),
    };
    match body {
        Ok(body) => txn.commit(move |committed| {
            done(Executed { result: committed.map(|committed| (body, committed)), log, charge });
        }),
        Err(error) => {
            drop(txn);
            done(Executed { result: Err(error), log, charge });
        }
    }
}

/// Watches this thread's script. When it is late, its transaction is dropped and the caller answered.
fn watch<'s, D: FnOnce(Executed) + Send + 'static>(
    scripts: &'s Runtime,
    core: &Arc<Core>,
    custody: &Arc<Custody<D>>,
    late_at: Instant,
    compiled: &Compiled,
) -> Watched<'s> {
    let (core, custody, compiled) = (core.clone(), custody.clone(), compiled.clone());
    scripts.pool.watch(late_at, move || {
        let Some((host, done)) = custody.take_back() else { return false };
        let (txn, operations, _) = host.into_parts();
        drop(txn);
        let error = core.scripts().map_or_else(|error| error, |scripts| scripts.give_up(&compiled));
        let charge = operations.max(RequestCharge::ONE);
        done(Executed { result: Err(error), log: None, charge });
        true
    })
}

/// A promise that was rejected without anybody listening fails nothing; the log tells of it.
pub(super) fn report_rejection(script: &Script, rejection: Option<&str>) {
    if let Some(text) = rejection {
        tracing::warn!(script = &*script.name, text, "a promise rejection was not handled");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_come_in_several_shapes() {
        for (body, wanted) in [
            ("", ""),
            (" null ", ""),
            ("[]", "[]"),
            ("\u{feff} [1,\"a\"] ", "[1,\"a\"]"),
            ("{\"a\":[1]}", "[]"),
            ("{\"0\":\"one\",\"1\":2,\"length\":2}", "[\"one\",2]"),
            ("{\"1\":2,\"length\":2.0}", "[null,2]"),
        ] {
            assert_eq!(arguments(body.as_bytes()).unwrap(), wanted, "{body}");
        }
        for body in [&b"[1"[..], b"word", b"\xff", b"5", b"\"abc\"", b"{\"length\":1e9}"] {
            assert!(arguments(body).is_err());
        }
    }
}
