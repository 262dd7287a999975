//! User functions called from queries.

use crate::container::Container;
use crate::core::Core;
use crate::scripts::Scripts;
use armilla_model::charge::RequestCharge;
use armilla_model::value::Value;
use armilla_script::{CallOptions, Compiled, ScriptKind, UdfSession};
use armilla_sql::udf::Functions;
use quick_cache::sync::Cache;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::time::Instant;

/// Compiled functions kept.
const COMPILED_MAX: usize = 256;

static COMPILED: LazyLock<Cache<Arc<str>, Compiled>> = LazyLock::new(|| Cache::new(COMPILED_MAX));

/// The user functions of a container during one page.
pub(super) struct Users<'c> {
    core: &'c Core,
    scripts: Arc<Scripts>,
    started: Instant,
    sessions: RefCell<HashMap<Box<str>, UdfSession<'c>>>,
}

impl<'c> Users<'c> {
    pub(super) fn new(container: &'c Container, started: Instant) -> Self {
        let (core, scripts) = (&*container.core, container.scripts());
        Self { core, scripts, started, sessions: RefCell::default() }
    }

    /// What the calls so far cost.
    pub(super) fn charge(&self) -> RequestCharge {
        let of = |session: &UdfSession<'_>| {
            RequestCharge::FUNCTION_CALL * session.calls()
                + RequestCharge::SCRIPT_TICK * session.ticks()
        };
        self.sessions.borrow().values().map(of).sum()
    }

    fn open(&self, name: &str) -> Result<UdfSession<'c>, String> {
        let script = self
            .scripts
            .functions
            .get(name)
            .ok_or_else(|| format!("The user defined function '{name}' does not exist."))?;
        let engine = self.core.script_engine().map_err(|error| error.message().to_owned())?;
        let compiled = COMPILED.get_or_insert_with(&script.body, || {
            engine.compile(ScriptKind::Function, &script.body)
        });
        let compiled = compiled.map_err(|error| error.message)?;
        let options = CallOptions { script_id: name, started: Some(self.started), logging: false };
        engine.udf_session(&[(name, &compiled)], options).map_err(|error| error.detail)
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
            Err(error) => Err(format!("The function '{name}' failed: {}", error.detail)),
        }
    }
}
