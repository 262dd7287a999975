//! User functions called from queries.

use crate::container::Container;
use crate::core::Core;
use crate::scripts::{FunctionSession, Scripts, out_of_script};
use armilla_model::error::Error;
use armilla_model::value::Value;
use armilla_script::{ScriptError, ScriptErrorKind};
use armilla_sql::udf::Functions;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// How often user functions were called, and the ticks that took.
#[derive(Debug, Default)]
pub(in crate::query) struct Calls {
    calls: Cell<u64>,
    ticks: Cell<u64>,
}

impl Calls {
    /// Calls and ticks.
    pub(in crate::query) fn so_far(&self) -> (u64, u64) {
        (self.calls.get(), self.ticks.get())
    }
}

/// The user functions of a container during one page.
pub(in crate::query) struct Users<'c> {
    core: &'c Arc<Core>,
    scripts: Arc<Scripts>,
    started: Instant,
    calls: Rc<Calls>,
    sessions: RefCell<HashMap<Box<str>, FunctionSession>>,
    /// The first stop of a function: out of time, or blocked for its past.
    stop: RefCell<Option<Error>>,
}

impl<'c> Users<'c> {
    pub(in crate::query) fn new(
        container: &'c Container,
        started: Instant,
        calls: Rc<Calls>,
    ) -> Self {
        let (core, scripts) = (&container.core, container.scripts());
        let (sessions, stop) = (RefCell::default(), RefCell::default());
        Self { core, scripts, started, calls, sessions, stop }
    }

    /// What stopped a function, when that is more than an error of the query.
    pub(in crate::query) fn into_stop(self) -> Option<Error> {
        self.stop.into_inner()
    }

    /// The text for the query's error; a stop is remembered as what it is.
    fn failed(&self, name: &str, error: &ScriptError) -> String {
        if matches!(error.kind, ScriptErrorKind::Timeout | ScriptErrorKind::Blocked) {
            self.stop.borrow_mut().get_or_insert_with(|| out_of_script(error));
        }
        format!("The function '{name}' failed: {}", error.detail)
    }

    fn open(&self, name: &str) -> Result<FunctionSession, String> {
        let script = self
            .scripts
            .functions
            .get(name)
            .ok_or_else(|| format!("The user defined function '{name}' does not exist."))?;
        let runtime = self.core.scripts().map_err(|error| error.message().to_owned())?;
        let compiled = runtime.compiled(script).map_err(|error| error.message().to_owned())?;
        let session = FunctionSession::open(self.core, name, &compiled, self.started);
        let session = session.map_err(|error| error.message().to_owned())?;
        session.map_err(|error| self.failed(name, &error))
    }
}

impl Functions for Users<'_> {
    fn call(&self, name: &str, arguments: &[Value]) -> Result<Value, String> {
        let mut sessions = self.sessions.borrow_mut();
        if !sessions.contains_key(name) {
            let session = self.open(name)?;
            sessions.insert(name.into(), session);
        }
        let session = sessions.get(name).ok_or("the session was just opened")?;
        let (outcome, ticks) = session.call(arguments.iter().map(Value::to_json).collect());
        self.calls.calls.set(self.calls.calls.get() + 1);
        self.calls.ticks.set(self.calls.ticks.get() + ticks);
        match outcome {
            Ok(None) => Ok(Value::Undefined),
            Ok(Some(json)) => armilla_model::json::parse(json.as_bytes())
                .map_err(|error| format!("The function '{name}' returned no JSON: {error}")),
            Err(error) => Err(self.failed(name, &error)),
        }
    }
}
