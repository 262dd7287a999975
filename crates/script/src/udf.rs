//! User-defined functions: pure functions called for each row of a query.
//!
//! A session belongs to one query page on one thread. All its functions live in one context, their
//! code is loaded once, and all calls share one time limit. There is no `getContext` and no host:
//! values in, value out, as JSON text.

use crate::clock::monotonic;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::time::Instant;

use rquickjs::Ctx;
use rquickjs::function::Args;

use crate::compile::Compiled;
use crate::drive::{Driver, Failure};
use crate::engine::ScriptEngine;
use crate::error::{ScriptError, ScriptErrorKind};
use crate::procedure::CallOptions;
use crate::workshop::Workshop;

/// Functions one session may hold, as many as a query may use.
const SESSION_FUNCTIONS_MAX: usize = 10;

/// The user-defined functions of one query, ready to be called.
pub struct UdfSession<'engine> {
    engine: &'engine ScriptEngine,
    /// There until the session is dropped.
    workshop: Option<Workshop>,
    functions: HashMap<String, Compiled>,
    started: Instant,
    /// The stop that ended the session; every later call gets it again.
    ended: RefCell<Option<ScriptError>>,
    calls: Cell<u64>,
}

impl ScriptEngine {
    /// Loads the functions a query uses, by name. Of the options only `started` matters: the clock
    /// runs from there, and all calls share it.
    pub fn udf_session(
        &self,
        functions: &[(&str, &Compiled)],
        options: CallOptions<'_>,
    ) -> Result<UdfSession<'_>, ScriptError> {
        if functions.len() > SESSION_FUNCTIONS_MAX {
            return Err(refused(format!(
                "A query may use at most {SESSION_FUNCTIONS_MAX} user-defined functions."
            )));
        }
        for (_, script) in functions {
            self.check_blocked(script)?;
        }
        let workshop = self.take_workshop(None)?;
        let started = options.started.unwrap_or_else(monotonic);
        workshop.meter.begin(&self.limits, started);
        let mut session = UdfSession {
            engine: self,
            workshop: Some(workshop),
            functions: HashMap::new(),
            started,
            ended: RefCell::new(None),
            calls: Cell::new(0),
        };
        session.open()?;
        for (name, script) in functions {
            session.load(name, script)?;
        }
        Ok(session)
    }
}

impl UdfSession<'_> {
    /// Calls a function for one row. Arguments and result are JSON texts; `None` is undefined. An
    /// error fails the query.
    pub fn call(
        &self,
        name: &str,
        arguments: &[Option<&str>],
    ) -> Result<Option<String>, ScriptError> {
        if let Some(error) = self.ended.borrow().as_ref() {
            return Err(error.clone());
        }
        let Some(script) = self.functions.get(name) else {
            return Err(refused(format!("The user-defined function '{name}' does not exist.")));
        };
        self.calls.set(self.calls.get() + 1);
        self.with_driver(|ctx, driver, workshop| {
            let engine = |error: rquickjs::Error| Failure::Engine(error.to_string());
            let mut list = Args::new(ctx.clone(), arguments.len() + 1);
            list.push_arg(name).map_err(engine)?;
            list.push_args(arguments.iter().copied()).map_err(engine)?;
            let invoke = driver.function(&workshop.meter, "invoke")?;
            let json = driver.watch(&workshop.meter, list.apply(&invoke))?;
            driver.drain_jobs(&workshop.meter)?;
            Ok(json)
        })
        .map_err(|failure| self.failed(name, script, failure))
    }

    /// Calls made so far.
    pub fn calls(&self) -> u64 {
        self.calls.get()
    }

    /// Interrupt ticks used so far.
    pub fn ticks(&self) -> u64 {
        self.workshop().meter.ticks()
    }

    /// Hides what user functions must not see.
    fn open(&mut self) -> Result<(), ScriptError> {
        let workshop = self.workshop();
        let opened = workshop.context.with(|ctx| {
            let driver = Driver::restore(&ctx, workshop.driver())?;
            driver.call::<()>(&workshop.meter, "hideContext", ())
        });
        opened.map_err(|_| ScriptError::internal("a context could not be prepared"))
    }

    fn load(&mut self, name: &str, script: &Compiled) -> Result<(), ScriptError> {
        let loaded = self.with_driver(|_, driver, workshop| {
            let function = driver.load(workshop, script)?;
            driver.call::<()>(&workshop.meter, "addFunction", (name, function))
        });
        loaded.map_err(|failure| self.failed(name, script, failure))?;
        self.functions.insert(name.to_owned(), script.clone());
        Ok(())
    }

    fn with_driver<R>(
        &self,
        action: impl for<'js> FnOnce(&Ctx<'js>, &Driver<'js>, &Workshop) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let workshop = self.workshop();
        workshop.context.with(|ctx| {
            let driver = Driver::restore(&ctx, workshop.driver())?;
            driver.stoppable(&workshop.meter, || action(&ctx, &driver, workshop))
        })
    }

    /// The error for the client. A stop ends the session, a throw does not.
    fn failed(&self, name: &str, script: &Compiled, failure: Failure) -> ScriptError {
        let error = self.engine.judge(script, name, self.started, failure);
        if !error.is_throw() {
            *self.ended.borrow_mut() = Some(error.clone());
        }
        error
    }

    fn workshop(&self) -> &Workshop {
        self.workshop.as_ref().expect("taken only when dropped")
    }
}

impl Drop for UdfSession<'_> {
    fn drop(&mut self) {
        let Some(mut workshop) = self.workshop.take() else { return };
        workshop.meter.end();
        workshop.end(self.ended.borrow().is_none());
        self.engine.put_back(workshop);
    }
}

fn refused(detail: String) -> ScriptError {
    ScriptError::new(ScriptErrorKind::Threw { number: None }, detail)
}
