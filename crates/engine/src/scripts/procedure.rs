//! Running a stored procedure: one transaction, committed when the script ends.

use super::call::{Executed, Note, Running, ScriptCall, report_rejection};
use super::failure::out_of_script;
use super::{Client, Script};
use crate::limits::{PROCEDURE_ARGUMENTS_MAX, SCRIPT_QUICK_TIME};
use crate::txn::Txn;
use armilla_model::charge::RequestCharge;
use armilla_model::error::{Error, Result};
use armilla_model::value::{Object, Value};
use armilla_script::CallOptions;
use std::sync::Arc;

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
    if length > PROCEDURE_ARGUMENTS_MAX {
        return Err(Error::bad_request(format!(
            "A procedure may have at most {PROCEDURE_ARGUMENTS_MAX} arguments, and these are {length}."
        )));
    }
    let element = |position: usize| object.get(&position.to_string()).cloned();
    let elements = (0..length).map(|position| element(position).unwrap_or(Value::Null)).collect();
    Ok(Value::array(elements).to_json())
}

impl Txn {
    /// Runs a procedure in this transaction, on a thread made for it. The callback hears when the
    /// transaction is durable, or dropped because the script failed.
    pub fn execute_procedure(
        self,
        procedure: Procedure,
        done: impl FnOnce(Executed) + Send + 'static,
    ) {
        self.run_scripts(procedure, done);
    }

    /// The same for a procedure whose effects are noted: what `notes` makes of the response body is
    /// committed with the writes of the script, unless it writes nothing.
    pub(crate) fn execute_noted(
        self,
        procedure: Procedure,
        notes: impl FnOnce(&str) -> Vec<Note> + Send + 'static,
        done: impl FnOnce(Executed) + Send + 'static,
    ) {
        let noted = NotedProcedure { procedure, notes: Box::new(notes) };
        self.run_scripts(noted, |executed| {
            let Executed { result, log, charge } = executed;
            let result = result.map(|((body, _), committed)| (body, committed));
            done(Executed { result, log, charge });
        });
    }
}

struct NotedProcedure {
    procedure: Procedure,
    notes: MakeNotes,
}

/// Makes notes of a response body.
type MakeNotes = Box<dyn FnOnce(&str) -> Vec<Note> + Send>;

impl ScriptCall for NotedProcedure {
    type Made = (String, Vec<Note>);
    const CHARGE_MIN: RequestCharge = RequestCharge::ZERO;

    fn client(&self) -> &Client {
        self.procedure.client()
    }

    fn scripts(&self) -> Vec<Arc<Script>> {
        self.procedure.scripts()
    }

    fn run<D>(self, running: &mut Running<'_, D>) -> Result<Self::Made> {
        let body = self.procedure.run(running)?;
        let notes = (self.notes)(&body);
        Ok((body, notes))
    }

    fn notes(made: &mut Self::Made) -> Vec<Note> {
        std::mem::take(&mut made.1)
    }
}

impl ScriptCall for Procedure {
    type Made = String;
    const CHARGE_MIN: RequestCharge = RequestCharge::ZERO;

    fn client(&self) -> &Client {
        &self.client
    }

    fn scripts(&self) -> Vec<Arc<Script>> {
        vec![self.script.clone()]
    }

    fn run<D>(self, running: &mut Running<'_, D>) -> Result<String> {
        let compiled = running.scripts.compiled(&self.script).inspect_err(|_| {
            running.charge = RequestCharge::ONE;
        })?;
        let mut host = running.lend()?;
        let options = CallOptions {
            script_id: &self.script.name,
            logging: self.logging,
            started: Some(running.clock.started),
        };
        let engine = running.scripts.engine();
        let outcome = engine.run_procedure(&compiled, &self.arguments, &mut host, options);
        let took = running.clock.started.elapsed();
        running.scripts.note(&self.script, took <= SCRIPT_QUICK_TIME);
        report_rejection(&self.script, outcome.swallowed_rejection.as_deref());
        running.charge += running.rates.script(outcome.ticks);
        running.log = outcome.log;
        outcome.result.map_err(|error| out_of_script(&error))
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
