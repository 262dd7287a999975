//! Writes that name triggers: pre-trigger, write and post-trigger in one transaction.

use super::call::{Executed, Running, ScriptCall, report_rejection};
use super::failure::out_of_script;
use super::{Client, Kind, Script, TriggerOperation};
use crate::container::Container;
use crate::items::{WriteOptions, Written};
use crate::txn::Txn;
use armilla_model::charge::RequestCharge;
use armilla_model::error::{Error, Result};
use armilla_model::value::Value;
use armilla_script::{CallOptions, TriggerOutcome, TriggerRequest};
use bytes::Bytes;
use std::sync::Arc;

/// The triggers that a write names.
#[derive(Clone, Debug, Default)]
pub struct Triggers {
    /// Runs before the write and may change its body.
    pub pre: Option<Arc<Script>>,
    /// Runs after the write and before the commit.
    pub post: Option<Arc<Script>>,
}

/// A write with triggers.
pub struct TriggeredWrite {
    /// The write.
    pub verb: TriggeredVerb,
    /// Under which conditions.
    pub options: WriteOptions,
    /// What runs around it.
    pub triggers: Triggers,
    /// Who waits for it.
    pub client: Client,
}

/// Writes that can have triggers.
#[derive(Clone, Debug)]
pub enum TriggeredVerb {
    /// Create this body.
    Create(Bytes),
    /// Create or replace this body.
    Upsert(Bytes),
    /// Replace this id by this body.
    Replace(String, Bytes),
    /// Delete this id.
    Delete(String),
}

/// How a write with triggers ended: the write, its text as the post-trigger left it for the client.
pub type Triggered = Executed<Written>;

impl Container {
    /// The triggers of a write by name: at most one before it and one after.
    pub fn triggers<'n>(
        &self,
        pre: impl Iterator<Item = &'n str>,
        post: impl Iterator<Item = &'n str>,
    ) -> Result<Triggers> {
        Ok(Triggers { pre: self.trigger(pre, true)?, post: self.trigger(post, false)? })
    }

    fn trigger<'n>(
        &self,
        mut names: impl Iterator<Item = &'n str>,
        before: bool,
    ) -> Result<Option<Arc<Script>>> {
        let Some(name) = names.next() else { return Ok(None) };
        if names.next().is_some() {
            return Err(Error::bad_request("A request may name one trigger of each type at most."));
        }
        let script = self.script(Kind::Trigger, name).map_err(|_| {
            Error::bad_request(format!("The trigger '{name}' named by the request does not exist."))
        })?;
        if script.trigger.as_ref().is_some_and(|trigger| trigger.before == before) {
            return Ok(Some(script));
        }
        let wanted = if before { "pre" } else { "post" };
        Err(Error::bad_request(format!("The trigger '{name}' is not a {wanted}-trigger.")))
    }
}

impl Txn {
    /// Runs a write and its triggers, on a thread made for scripts. The callback hears when all of
    /// it is durable, or dropped because something failed.
    pub fn write_triggered(
        self,
        write: TriggeredWrite,
        done: impl FnOnce(Triggered) + Send + 'static,
    ) {
        self.run_scripts(write, done);
    }
}

impl ScriptCall for TriggeredWrite {
    type Made = Written;
    const CHARGE_MIN: RequestCharge = RequestCharge::ONE;

    fn client(&self) -> &Client {
        &self.client
    }

    fn scripts(&self) -> Vec<Arc<Script>> {
        self.triggers.pre.iter().chain(&self.triggers.post).cloned().collect()
    }

    fn run<D>(self, running: &mut Running<'_, D>) -> Result<Written> {
        TriggeredRun { running }.write(self)
    }
}

/// A write with its triggers under way.
struct TriggeredRun<'r, 's, D> {
    running: &'r mut Running<'s, D>,
}

impl<D> TriggeredRun<'_, '_, D> {
    fn write(&mut self, write: TriggeredWrite) -> Result<Written> {
        let TriggeredWrite { mut verb, options, triggers, .. } = write;
        let before = self.before(&verb)?;
        for script in triggers.pre.iter().chain(&triggers.post) {
            check_covered(script, &verb, before.is_some())?;
        }
        if let Some(script) = &triggers.pre {
            let body = verb.body().or(before.as_ref()).cloned().unwrap_or_default();
            if let Some(changed) = self.run(script, &verb, &body, None)? {
                verb.set_body(changed.into());
            }
        }
        let mut written = self.stage(&verb, &options)?;
        self.running.charge += written.charge;
        self.running.custody.with(|host| {
            host.remember(&written);
            Ok(())
        })?;
        if let Some(script) = &triggers.post {
            let body =
                if verb.body().is_some() { &written.text } else { &before.unwrap_or_default() };
            if let Some(changed) = self.run(script, &verb, body, Some(&written.text))? {
                written.text = changed.into();
            }
        }
        Ok(written)
    }

    /// The text of the item that the write meets, if there is one.
    fn before(&mut self, verb: &TriggeredVerb) -> Result<Option<Bytes>> {
        self.running.custody.with(|host| {
            let txn = host.txn();
            let item = match verb {
                TriggeredVerb::Create(_) => None,
                TriggeredVerb::Replace(id, _) => txn.read_item(id)?,
                TriggeredVerb::Delete(id) => Some(txn.read_item(id)?.ok_or_else(Error::not_found)?),
                TriggeredVerb::Upsert(body) => {
                    let body = armilla_model::json::parse(body)?;
                    match body.get("id").and_then(Value::as_str) {
                        Some(id) => txn.read_item(id)?,
                        None => None,
                    }
                }
            };
            Ok(item.map(|item| item.text))
        })
    }

    fn stage(&mut self, verb: &TriggeredVerb, options: &WriteOptions) -> Result<Written> {
        self.running.custody.with(|host| {
            let txn = host.txn();
            match verb {
                TriggeredVerb::Create(body) => txn.create_item(body, options),
                TriggeredVerb::Upsert(body) => txn.upsert_item(body, options),
                TriggeredVerb::Replace(id, body) => txn.replace_item(id, body, options),
                TriggeredVerb::Delete(id) => txn.delete_item(id, options),
            }
        })
    }

    /// Runs a trigger: before the write, or after it when there is a response.
    fn run(
        &mut self,
        script: &Script,
        verb: &TriggeredVerb,
        body: &[u8],
        response: Option<&[u8]>,
    ) -> Result<Option<String>> {
        let compiled = self.running.scripts.compiled(script)?;
        let request = TriggerRequest { operation: verb.operation(), body: text(body)? };
        // The triggers share the time limit.
        let started = Some(self.running.clock.started);
        let options = CallOptions { script_id: &script.name, logging: false, started };
        let engine = self.running.scripts.engine();
        let host = &mut self.running.lend()?;
        let outcome: TriggerOutcome = match response {
            None => engine.run_pre_trigger(&compiled, request, host, options),
            Some(response) => {
                engine.run_post_trigger(&compiled, request, text(response)?, host, options)
            }
        };
        report_rejection(script, outcome.swallowed_rejection.as_deref());
        self.running.charge += self.running.rates.script(outcome.ticks);
        outcome.result.map_err(|error| out_of_script(&error))
    }
}

impl TriggeredVerb {
    fn body(&self) -> Option<&Bytes> {
        match self {
            Self::Create(body) | Self::Upsert(body) | Self::Replace(_, body) => Some(body),
            Self::Delete(_) => None,
        }
    }

    fn set_body(&mut self, changed: Bytes) {
        match self {
            Self::Create(body) | Self::Upsert(body) | Self::Replace(_, body) => *body = changed,
            // There is nothing to write instead.
            Self::Delete(_) => {}
        }
    }

    fn operation(&self) -> armilla_script::TriggerOperation {
        match self {
            Self::Create(_) => armilla_script::TriggerOperation::Create,
            Self::Upsert(_) => armilla_script::TriggerOperation::Upsert,
            Self::Replace(..) => armilla_script::TriggerOperation::Replace,
            Self::Delete(_) => armilla_script::TriggerOperation::Delete,
        }
    }
}

/// Refuses a trigger that is for other writes.
fn check_covered(script: &Script, verb: &TriggeredVerb, exists: bool) -> Result<()> {
    let operation =
        script.trigger.as_ref().map_or(TriggerOperation::All, |trigger| trigger.operation);
    let covered = match (operation, verb) {
        (TriggerOperation::All, _) => true,
        (TriggerOperation::Create, TriggeredVerb::Create(_)) => true,
        (TriggerOperation::Create, TriggeredVerb::Upsert(_)) => !exists,
        (TriggerOperation::Update, TriggeredVerb::Upsert(_)) => exists,
        (TriggerOperation::Update | TriggerOperation::Replace, TriggeredVerb::Replace(..)) => true,
        (TriggerOperation::Delete, TriggeredVerb::Delete(_)) => true,
        (TriggerOperation::Upsert, TriggeredVerb::Upsert(_)) => true,
        _ => false,
    };
    if covered {
        return Ok(());
    }
    Err(Error::bad_request(format!(
        "The trigger '{}' is for the operation {} and cannot be used with {}.",
        script.name,
        operation.text(),
        verb.operation().name()
    )))
}

fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|_| Error::bad_request("The body must be UTF-8."))
}
