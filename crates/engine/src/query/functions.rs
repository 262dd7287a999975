//! User functions called from queries.

use crate::container::Container;
use crate::core::Core;
use crate::scripts::{Scripts, out_of_script};
use armilla_model::charge::RequestCharge;
use armilla_model::error::Error;
use armilla_model::value::Value;
use armilla_script::{CallOptions, ScriptError, ScriptErrorKind, UdfSession};
use armilla_sql::udf::Functions;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// The user functions of a container during one page.
pub(super) struct Users<'c> {
    core: &'c Core,
    scripts: Arc<Scripts>,
    started: Instant,
    sessions: RefCell<HashMap<Box<str>, UdfSession<'c>>>,
    /// The first stop of a function: out of time, or blocked for its past.
    stop: RefCell<Option<Error>>,
}

impl<'c> Users<'c> {
    pub(super) fn new(container: &'c Container, started: Instant) -> Self {
        let (core, scripts) = (&*container.core, container.scripts());
        Self { core, scripts, started, sessions: RefCell::default(), stop: RefCell::default() }
    }

    /// What the calls so far cost.
    pub(super) fn charge(&self) -> RequestCharge {
        let of = |session: &UdfSession<'_>| {
            RequestCharge::FUNCTION_CALL * session.calls()
                + RequestCharge::SCRIPT_TICK * session.ticks()
        };
        self.sessions.borrow().values().map(of).sum()
    }

    /// What stopped a function, when that is more than an error of the query.
    pub(super) fn into_stop(self) -> Option<Error> {
        self.stop.into_inner()
    }

    /// The text for the query's error; a stop is remembered as what it is.
    fn failed(&self, name: &str, error: &ScriptError) -> String {
        if matches!(error.kind, ScriptErrorKind::Timeout | ScriptErrorKind::Blocked) {
            self.stop.borrow_mut().get_or_insert_with(|| out_of_script(error));
        }
        format!("The function '{name}' failed: {}", error.detail)
    }

    fn open(&self, name: &str) -> Result<UdfSession<'c>, String> {
        let script = self
            .scripts
            .functions
            .get(name)
            .ok_or_else(|| format!("The user defined function '{name}' does not exist."))?;
        let runtime = self.core.scripts().map_err(|error| error.message().to_owned())?;
        let compiled = runtime.compiled(script).map_err(|error| error.message().to_owned())?;
        let options = CallOptions { script_id: name, started: Some(self.started), logging: false };
        let session = runtime.engine().udf_session(&[(name, &compiled)], options);
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
        let texts: Vec<String> = arguments.iter().map(Value::to_json).collect();
        let texts: Vec<Option<&str>> = texts.iter().map(|text| Some(text.as_str())).collect();
        match session.call(name, &texts) {
            Ok(None) => Ok(Value::Undefined),
            Ok(Some(json)) => armilla_model::json::parse(json.as_bytes())
                .map_err(|error| format!("The function '{name}' returned no JSON: {error}")),
            Err(error) => Err(self.failed(name, &error)),
        }
    }
}
