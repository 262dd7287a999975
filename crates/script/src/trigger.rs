//! Running a trigger. It shares the transaction, and the clock, of the write it belongs to.

use crate::compile::Compiled;
use crate::engine::{Call, Role, ScriptEngine};
use crate::error::ScriptError;
use crate::host::Host;
use crate::procedure::CallOptions;

/// The write a trigger belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TriggerOperation {
    /// A create.
    Create,
    /// A replace.
    Replace,
    /// An upsert, whether it creates or replaces.
    Upsert,
    /// A delete.
    Delete,
}

impl TriggerOperation {
    /// What `getOperationType()` answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "Create",
            Self::Replace => "Replace",
            Self::Upsert => "Upsert",
            Self::Delete => "Delete",
        }
    }
}

/// The request a trigger sees.
#[derive(Debug, Clone, Copy)]
pub struct TriggerRequest<'a> {
    /// What is being done.
    pub operation: TriggerOperation,
    /// The item as JSON text: to be written, written, or (on delete) being deleted.
    pub body: &'a str,
}

/// How a trigger ended and what it used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriggerOutcome {
    /// The body the trigger set, as JSON text, or nothing when it left it alone: after a
    /// pre-trigger the item to write instead, after a post-trigger the item to answer with. An
    /// error undoes the write.
    pub result: Result<Option<String>, ScriptError>,
    /// What `console.log` wrote, if it was asked for; also after a failure.
    pub log: Option<String>,
    /// Interrupt ticks to charge.
    pub ticks: u64,
    /// Operations that were accepted.
    pub operations: u64,
    /// Text of a promise rejection that nobody handled; one line for the server's log.
    pub swallowed_rejection: Option<String>,
}

impl ScriptEngine {
    /// Runs a trigger before its write. A changed body is checked to be an object and nothing
    /// more: the normal checks of the write come after this call.
    pub fn run_pre_trigger(
        &self,
        script: &Compiled,
        request: TriggerRequest<'_>,
        host: &mut dyn Host,
        options: CallOptions<'_>,
    ) -> TriggerOutcome {
        let ran = self.run(Call { script, role: Role::PreTrigger { request }, options }, host);
        TriggerOutcome {
            result: ran.result.map(|bodies| bodies.request),
            log: ran.log,
            ticks: ran.ticks,
            operations: ran.operations,
            swallowed_rejection: ran.swallowed_rejection,
        }
    }

    /// Runs a trigger after its write and before the commit. `response_body` is the stored item,
    /// empty after a delete.
    pub fn run_post_trigger(
        &self,
        script: &Compiled,
        request: TriggerRequest<'_>,
        response_body: &str,
        host: &mut dyn Host,
        options: CallOptions<'_>,
    ) -> TriggerOutcome {
        let role = Role::PostTrigger { request, response_body };
        let ran = self.run(Call { script, role, options }, host);
        TriggerOutcome {
            result: ran.result.map(|bodies| bodies.response),
            log: ran.log,
            ticks: ran.ticks,
            operations: ran.operations,
            swallowed_rejection: ran.swallowed_rejection,
        }
    }
}
