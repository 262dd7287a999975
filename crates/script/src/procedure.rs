//! Running a stored procedure.

use std::time::{Duration, Instant};

use crate::compile::Compiled;
use crate::engine::{Call, Ran, Role, ScriptEngine};
use crate::error::ScriptError;
use crate::host::Host;

/// How a call is made.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallOptions<'a> {
    /// Id of the script, for stack traces.
    pub script_id: &'a str,
    /// Whether `console.log` is kept.
    pub logging: bool,
    /// When the clock of the call began; now, if not given. Triggers share the clock of the write
    /// they belong to.
    pub started: Option<Instant>,
}

/// What a call may use that is made where nobody may be held up.
#[derive(Debug, Clone, Copy)]
pub struct AttemptBounds {
    /// Wall clock.
    pub time: Duration,
    /// Memory, in bytes.
    pub memory_bytes_max: usize,
}

/// How a call ended and what it used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptOutcome {
    /// The response body as JSON text, or why the transaction is to be dropped.
    pub result: Result<String, ScriptError>,
    /// What `console.log` wrote, if it was asked for; also after a failure.
    pub log: Option<String>,
    /// Interrupt ticks to charge.
    pub ticks: u64,
    /// Operations that were accepted.
    pub operations: u64,
    /// Text of a promise rejection that nobody handled. The transaction commits all the same; the
    /// server writes one line to its log.
    pub swallowed_rejection: Option<String>,
}

impl ScriptEngine {
    /// Runs a procedure to its end. `arguments_json` is the request body: a JSON array, or empty or
    /// `null` for no arguments. The host's transaction is to be committed when the result is `Ok`,
    /// and dropped otherwise.
    pub fn run_procedure(
        &self,
        script: &Compiled,
        arguments_json: &str,
        host: &mut dyn Host,
        options: CallOptions<'_>,
    ) -> ScriptOutcome {
        procedure_outcome(self.run(procedure_call(script, arguments_json, options), host))
    }

    /// The same within tighter bounds, for a script that was called before and is likely to keep within them: nothing when it does not, and then
    /// nothing was counted against it. The host's transaction is to be begun anew.
    pub fn attempt_procedure(
        &self,
        script: &Compiled,
        arguments_json: &str,
        host: &mut dyn Host,
        options: CallOptions<'_>,
        bounds: AttemptBounds,
    ) -> Option<ScriptOutcome> {
        let call = procedure_call(script, arguments_json, options);
        self.attempt(call, host, bounds).map(procedure_outcome)
    }
}

fn procedure_call<'a>(
    script: &'a Compiled,
    arguments_json: &'a str,
    options: CallOptions<'a>,
) -> Call<'a> {
    let blank = arguments_json.trim().is_empty();
    let arguments = if blank { "[]" } else { arguments_json };
    Call { script, role: Role::Procedure { arguments }, options }
}

fn procedure_outcome(ran: Ran) -> ScriptOutcome {
    ScriptOutcome {
        result: ran.result.map(|bodies| bodies.response.unwrap_or_else(|| "\"\"".to_owned())),
        log: ran.log,
        ticks: ran.ticks,
        operations: ran.operations,
        swallowed_rejection: ran.swallowed_rejection,
    }
}
