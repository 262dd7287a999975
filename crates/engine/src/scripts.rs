//! Stored procedures, triggers and user functions as resources of a container.
//!
//! ```text
//! Txn (holds the lock of its logical partition)
//!   ├─ execute_procedure ─┐   ┌─ a thread of the pool ─► script engine ─► TxnHost over the Txn
//!   └─ write_triggered ───┴───┘                                            │
//!                             commit, or drop after any error ◄────────────┘
//! query ── FunctionSession ── a thread of its own ─► script engine
//! ```

mod attempt;
mod cache;
mod call;
mod custody;
mod failure;
mod function_threads;
mod host;
mod pool;
mod procedure;
mod runtime;
mod triggered;
mod watchdog;

pub use attempt::{NotHere, is_quick};
pub use call::Executed;
pub(crate) use failure::out_of_script;
pub(crate) use function_threads::FunctionSession;
pub use procedure::{Procedure, arguments};
pub(crate) use runtime::Runtime;
pub use triggered::{Triggered, TriggeredVerb, TriggeredWrite, Triggers};

/// Says whether somebody still waits for an answer. A script that has not begun when nobody does is
/// not run at all; one that has begun always comes to its end. A query ends where it is.
pub type Client = std::sync::Weak<()>;

use crate::account::NewScript;
use armilla_model::error::{Error, Result};
use armilla_model::etag::ETag;
use armilla_model::rid::ChildKind;
use armilla_script::ScriptEngine;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The scripts of a container, by name.
#[derive(Clone, Debug, Default)]
pub struct Scripts {
    /// Stored procedures.
    pub procedures: BTreeMap<Arc<str>, Arc<Script>>,
    /// Triggers.
    pub triggers: BTreeMap<Arc<str>, Arc<Script>>,
    /// User functions.
    pub functions: BTreeMap<Arc<str>, Arc<Script>>,
}

/// What a script is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A stored procedure.
    Procedure,
    /// A trigger.
    Trigger,
    /// A user function.
    Function,
}

/// A script.
#[derive(Clone, Debug)]
pub struct Script {
    /// Number inside the account.
    pub number: u32,
    /// What it is.
    pub kind: Kind,
    /// Name.
    pub name: Arc<str>,
    /// JavaScript.
    pub body: Arc<str>,
    /// When it runs, for triggers.
    pub trigger: Option<Trigger>,
    /// Version.
    pub etag: ETag,
    /// Second of the last change.
    pub ts: u64,
}

/// When a trigger runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// Before the write (or after it).
    pub before: bool,
    /// For which writes.
    pub operation: TriggerOperation,
    /// The operation as its owner spelled it; kept for those who show the trigger.
    pub spelling: Arc<str>,
}

/// For which writes a trigger runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerOperation {
    /// All.
    All,
    /// Creates, and upserts of new items.
    Create,
    /// Replaces, and upserts of existing items.
    Update,
    /// Deletes.
    Delete,
    /// Replaces.
    Replace,
    /// Upserts, of new items and of existing ones.
    Upsert,
}

impl Kind {
    /// The kind in the script's rid.
    pub fn child(self) -> ChildKind {
        match self {
            Self::Procedure => ChildKind::Procedure,
            Self::Trigger => ChildKind::Trigger,
            Self::Function => ChildKind::Function,
        }
    }
}

impl TriggerOperation {
    /// Reads an operation by its name, in any case.
    pub fn parse(text: &str) -> Result<Self> {
        Ok(match text.to_ascii_lowercase().as_str() {
            "all" => Self::All,
            "create" => Self::Create,
            "update" => Self::Update,
            "delete" => Self::Delete,
            "replace" => Self::Replace,
            "upsert" => Self::Upsert,
            _ => {
                return Err(Error::bad_request(format!(
                    "The trigger operation '{text}' is not one of All, Create, Replace, Update, Upsert, Delete."
                )));
            }
        })
    }

    /// Its name.
    pub fn text(self) -> &'static str {
        match self {
            Self::All => "All",
            Self::Create => "Create",
            Self::Update => "Update",
            Self::Delete => "Delete",
            Self::Replace => "Replace",
            Self::Upsert => "Upsert",
        }
    }
}

impl Scripts {
    /// The scripts of one kind.
    pub fn of(&self, kind: Kind) -> &BTreeMap<Arc<str>, Arc<Script>> {
        match kind {
            Kind::Procedure => &self.procedures,
            Kind::Trigger => &self.triggers,
            Kind::Function => &self.functions,
        }
    }

    /// The scripts of one kind, to be changed.
    pub fn of_mut(&mut self, kind: Kind) -> &mut BTreeMap<Arc<str>, Arc<Script>> {
        match kind {
            Kind::Procedure => &mut self.procedures,
            Kind::Trigger => &mut self.triggers,
            Kind::Function => &mut self.functions,
        }
    }
}

/// Refuses a script that cannot run. One that was blocked for its past gets another chance.
pub(crate) fn check(engine: &ScriptEngine, new: &NewScript<'_>) -> Result<()> {
    // What holds no function at all is kept as the text it is, as the service does; running it fails.
    if !new.body.contains("function") && !new.body.contains("=>") {
        return Ok(());
    }
    let compiled = engine
        .compile(new.kind.for_engine(), new.body)
        .map_err(|error| Error::ScriptSyntax(format!("The script does not compile: {error}.")))?;
    engine.forgive(&compiled);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use armilla_script::Limits;

    fn outcome(kind: Kind, name: &str, body: &str) -> Result<()> {
        let engine = ScriptEngine::new(Limits::default()).unwrap();
        check(&engine, &NewScript { kind, name, body, trigger: None })
    }

    #[test]
    fn bodies_must_compile() {
        outcome(Kind::Procedure, "odd name", "function () { }").unwrap();
        let error = outcome(Kind::Procedure, "p", "function () { return").unwrap_err();
        assert!(matches!(error, Error::ScriptSyntax(_)), "{error}");
    }

    #[test]
    fn text_without_a_function_is_kept_as_it_is() {
        outcome(Kind::Procedure, "p", "Line Separator & Paragraph Separator").unwrap();
    }
}
