//! The handle the rest of the server holds: a pool of workshops and the memory of offenders.

use crate::clock::monotonic;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rquickjs::{Ctx, Object};

use crate::compile::{self, Compiled, ScriptKind};
use crate::drive::{Driver, Failure};
use crate::error::{CompileError, ScriptError, ScriptErrorKind, Thrown};
use crate::host::{CollectionLinks, CollectionSize, Host};
use crate::limits::Limits;
use crate::meter::{Meter, Stop};
use crate::offenders::Offenders;
use crate::procedure::{AttemptBounds, CallOptions};
use crate::status;
use crate::trigger::TriggerRequest;
use crate::workshop::{Library, Workshop};

/// A script that had to be waited for this long after its time was up is blocked at once: it
/// spends its time where the engine cannot interrupt it.
const OVERRUN_BEFORE_BLOCK: Duration = Duration::from_secs(1);

/// The quotes around a body that is text do not count.
const QUOTES: usize = 2;

/// Compiles and runs scripts. Share it between threads; every call takes a runtime of its own
/// from the pool, so calls never wait for one another. Calls block their thread for as long as the
/// script runs: make them on threads set aside for it.
pub struct ScriptEngine {
    pub(crate) limits: Limits,
    pub(crate) library: Library,
    offenders: Offenders,
    idle: Mutex<Vec<Workshop>>,
}

/// What is run, and as what.
pub(crate) struct Call<'a> {
    pub(crate) script: &'a Compiled,
    pub(crate) role: Role<'a>,
    pub(crate) options: CallOptions<'a>,
}

pub(crate) enum Role<'a> {
    Procedure { arguments: &'a str },
    PreTrigger { request: TriggerRequest<'a> },
    PostTrigger { request: TriggerRequest<'a>, response_body: &'a str },
}

/// What a call left behind.
pub(crate) struct Ran {
    pub(crate) result: Result<Bodies, ScriptError>,
    pub(crate) log: Option<String>,
    pub(crate) ticks: u64,
    pub(crate) operations: u64,
    pub(crate) swallowed_rejection: Option<String>,
}

/// The same before anybody has judged why it failed.
struct Ended {
    result: Result<Bodies, Failure>,
    log: Option<String>,
    ticks: u64,
    operations: u64,
    swallowed_rejection: Option<String>,
    was_refused_memory: bool,
}

impl Ended {
    fn judged(self, judge: impl FnOnce(Failure) -> ScriptError) -> Ran {
        Ran {
            result: self.result.map_err(judge),
            log: self.log,
            ticks: self.ticks,
            operations: self.operations,
            swallowed_rejection: self.swallowed_rejection,
        }
    }
}

/// The bodies a script set, as JSON text.
#[derive(Debug, Default)]
pub(crate) struct Bodies {
    pub(crate) request: Option<String>,
    pub(crate) response: Option<String>,
}

impl ScriptEngine {
    /// An engine with its limits. Fails only when the JavaScript engine cannot be started.
    pub fn new(limits: Limits) -> Result<Self, ScriptError> {
        let library =
            Library::compile().map_err(|error| ScriptError::internal(&error.to_string()))?;
        let (offenders, idle) = (Offenders::default(), Mutex::default());
        Ok(Self { limits, library, offenders, idle })
    }

    /// The limits the engine was made with.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Checks a body and prepares it to be run. Nothing of it is executed.
    pub fn compile(&self, kind: ScriptKind, body: &str) -> Result<Compiled, CompileError> {
        compile::compile(kind, body, self.limits.body_bytes_max)
    }

    /// Makes one pooled runtime ready for the next call, or makes one when there is none. Worker
    /// threads call this when they start and after they have answered, so that the next call finds
    /// everything ready; without it all works, a little slower.
    pub fn tidy(&self) {
        let workshop = {
            let mut idle = self.idle();
            match idle.iter().position(|idle| !idle.is_ready()) {
                Some(at) => Some(idle.swap_remove(at)),
                None if idle.is_empty() => None,
                None => return,
            }
        };
        let made = || Workshop::new(&self.limits, &self.library).ok();
        if let Some(mut workshop) = workshop.or_else(made) {
            workshop.reset();
            self.put_back(workshop);
        }
    }

    /// Gives a blocked script another chance; for the moment when it is registered anew.
    pub fn forgive(&self, script: &Compiled) {
        self.offenders.forgive(script.body_hash());
    }

    /// Blocks a script that did not come back in time, and gives the error for its caller.
    pub fn give_up(&self, script: &Compiled) -> ScriptError {
        self.offenders.record(script.body_hash(), self.limits.stops_before_block);
        self.too_long()
    }

    fn too_long(&self) -> ScriptError {
        let time = self.limits.time.as_millis();
        let text = format!("The script ran longer than {time} ms and was stopped.");
        ScriptError::new(ScriptErrorKind::Timeout, text)
    }

    /// Refuses scripts that had to be stopped too often.
    pub(crate) fn check_blocked(&self, script: &Compiled) -> Result<(), ScriptError> {
        if self.offenders.stops(script.body_hash()) < self.limits.stops_before_block {
            return Ok(());
        }
        Err(ScriptError::new(
            ScriptErrorKind::Blocked,
            "The script has exceeded its time or memory limit too often and is blocked until it \
             is replaced.",
        ))
    }

    /// Runs a script in a context that is as new.
    pub(crate) fn run(&self, call: Call<'_>, host: &mut dyn Host) -> Ran {
        let taken =
            self.check_blocked(call.script).and_then(|()| self.take_workshop(Some(call.script)));
        match taken {
            Ok(workshop) => self.run_in(workshop, call, host),
            Err(error) => Ran {
                result: Err(error),
                log: call.options.logging.then(String::new),
                ticks: 0,
                operations: 0,
                swallowed_rejection: None,
            },
        }
    }

    fn run_in(&self, workshop: Workshop, call: Call<'_>, host: &mut dyn Host) -> Ran {
        let started = call.options.started.unwrap_or_else(monotonic);
        let ended = self.run_within(&self.limits, workshop, &call, started, host);
        ended.judged(|failure| self.judge(call.script, call.options.script_id, started, failure))
    }

    /// Runs a script that was called before within tighter bounds than its own: nothing when it does not come to its end within
    /// them, or no runtime is ready for it. What it has asked of its host is then to be forgotten, and it may be run again.
    pub(crate) fn attempt(
        &self,
        call: Call<'_>,
        host: &mut dyn Host,
        bounds: AttemptBounds,
    ) -> Option<Ran> {
        let AttemptBounds { time, memory_bytes_max } = bounds;
        if self.limits.time <= time || self.limits.memory_bytes_max <= memory_bytes_max {
            return None;
        }
        self.check_blocked(call.script).ok()?;
        let workshop = self.take_prepared(call.script)?;
        let limits = Limits { time, memory_bytes_max, ..self.limits.clone() };
        let started = call.options.started.unwrap_or_else(monotonic);
        let ended = self.run_within(&limits, workshop, &call, started, host);
        let is_within = match &ended.result {
            Ok(_) | Err(Failure::Threw(_) | Failure::Stopped(Stop::Abort(_))) => true,
            Err(Failure::Stopped(Stop::Time | Stop::Memory) | Failure::Engine(_)) => false,
        };
        // Whoever was refused something may have made something else of it.
        if !is_within || ended.was_refused_memory || started.elapsed() >= time {
            return None;
        }
        let judge = |failure| self.judge(call.script, call.options.script_id, started, failure);
        Some(ended.judged(judge))
    }

    fn run_within(
        &self,
        limits: &Limits,
        mut workshop: Workshop,
        call: &Call<'_>,
        started: Instant,
        host: &mut dyn Host,
    ) -> Ended {
        let meter = &workshop.meter;
        meter.begin(limits, started);
        let result = workshop.context.with(|ctx| execute(&ctx, &workshop, limits, call, host));
        let ended = Ended {
            log: call.options.logging.then(|| meter.take_log()),
            ticks: meter.ticks(),
            operations: meter.operations(),
            swallowed_rejection: meter.take_swallowed(),
            was_refused_memory: meter.was_refused_memory(),
            result,
        };
        meter.end();
        workshop.end(ended.result.is_ok());
        self.put_back(workshop);
        ended
    }

    /// The error for the client; stops are remembered.
    pub(crate) fn judge(
        &self,
        script: &Compiled,
        script_id: &str,
        started: Instant,
        failure: Failure,
    ) -> ScriptError {
        match failure {
            Failure::Threw(thrown) | Failure::Stopped(Stop::Abort(thrown)) => {
                thrown.into_error(script_id)
            }
            Failure::Stopped(Stop::Time) => {
                let overrun = started.elapsed().saturating_sub(self.limits.time);
                let late = overrun >= OVERRUN_BEFORE_BLOCK;
                let stops = if late { self.limits.stops_before_block } else { 1 };
                self.offenders.record(script.body_hash(), stops);
                self.too_long()
            }
            Failure::Stopped(Stop::Memory) => {
                self.offenders.record(script.body_hash(), 1);
                ScriptError::new(
                    ScriptErrorKind::OutOfMemory,
                    format!(
                        "The script ran out of memory: more than {} bytes, or more than a \
                         quarter of them for one value.",
                        self.limits.memory_bytes_max
                    ),
                )
            }
            Failure::Engine(what) => ScriptError::internal(&what),
        }
    }

    /// A runtime for one call, of this script if it is known.
    pub(crate) fn take_workshop(&self, script: Option<&Compiled>) -> Result<Workshop, ScriptError> {
        let taken = {
            let mut idle = self.idle();
            let is_prepared = |idle: &Workshop| {
                idle.is_ready() && script.is_some_and(|script| idle.has(&script.code))
            };
            // Of those that are ready, the last one put back has its memory in the caches.
            let ready = || idle.iter().rposition(Workshop::is_ready);
            match idle.iter().rposition(is_prepared).or_else(ready) {
                Some(at) => Some(idle.swap_remove(at)),
                None => idle.pop(),
            }
        };
        let mut workshop = match taken {
            Some(workshop) => workshop,
            None => Workshop::new(&self.limits, &self.library)
                .map_err(|error| ScriptError::internal(&error.to_string()))?,
        };
        workshop.reset();
        if let Some(script) = script {
            workshop.prepare(&script.code);
        }
        workshop.begin();
        Ok(workshop)
    }

    /// A runtime that has this script loaded, if one is idle.
    fn take_prepared(&self, script: &Compiled) -> Option<Workshop> {
        let mut idle = self.idle();
        let is_prepared = |idle: &Workshop| idle.has(&script.code);
        let at = idle.iter().rposition(is_prepared)?;
        let mut workshop = idle.swap_remove(at);
        drop(idle);
        workshop.reset();
        workshop.begin();
        Some(workshop)
    }

    /// Takes a runtime back. Nothing of its call may be held any more.
    pub(crate) fn put_back(&self, mut workshop: Workshop) {
        if !workshop.is_reusable() {
            return;
        }
        if workshop.is_littered() {
            workshop.reset();
        }
        let mut idle = self.idle();
        if idle.len() < self.limits.idle_runtimes_max {
            idle.push(workshop);
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Workshop>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn execute(
    ctx: &Ctx<'_>,
    workshop: &Workshop,
    limits: &Limits,
    call: &Call<'_>,
    host: &mut dyn Host,
) -> Result<Bodies, Failure> {
    let meter = &*workshop.meter;
    let driver = Driver::restore(ctx, workshop.driver())?;
    begin(&driver, meter, limits, call, host)?;
    driver.stoppable(meter, || {
        let function = driver.load(workshop, call.script)?;
        driver.run(meter, function, host)?;
        let response: Option<String> = driver.call(meter, "responseBody", ())?;
        check_response(limits, response.as_deref())?;
        Ok(Bodies { request: driver.call(meter, "requestBody", ())?, response })
    })
}

/// The body was checked when it was set, roughly; it may have grown since, and counts in bytes.
fn check_response(limits: &Limits, response: Option<&str>) -> Result<(), Failure> {
    let bytes_max = limits.response_bytes_max;
    if response.is_none_or(|json| json.len() <= bytes_max + QUOTES) {
        return Ok(());
    }
    let text = format!("Error: The response body is larger than {bytes_max} bytes.");
    Err(Failure::Threw(Thrown {
        number: Some(status::TOO_LARGE.into()),
        text,
        ..Thrown::default()
    }))
}

/// Tells the library about the call.
fn begin(
    driver: &Driver<'_>,
    meter: &Meter,
    limits: &Limits,
    call: &Call<'_>,
    host: &dyn Host,
) -> Result<(), Failure> {
    let CollectionLinks { self_link, alt_link } = host.collection();
    let size = host.collection_size();
    let (megabytes, megabytes_max) = (size.megabytes.to_string(), size.megabytes_max.to_string());
    let arguments = match call.role {
        Role::Procedure { arguments } => Some(arguments),
        Role::PreTrigger { .. } | Role::PostTrigger { .. } => None,
    };
    let (length_max, logging) = (limits.response_bytes_max, call.options.logging);
    let about = (self_link, alt_link, megabytes, megabytes_max, length_max, logging, arguments);
    driver.call::<()>(meter, "begin", about)?;
    let written = match call.role {
        Role::Procedure { .. } => return Ok(()),
        Role::PreTrigger { request } => about_write(driver.ctx(), request, None),
        Role::PostTrigger { request, response_body } => {
            about_write(driver.ctx(), request, Some((response_body, size)))
        }
    };
    let written = written.map_err(|error| Failure::Engine(error.to_string()))?;
    driver.call(meter, "beginTrigger", (written,))
}

/// The write that a trigger belongs to; behind it, with its answer.
fn about_write<'js>(
    ctx: &Ctx<'js>,
    request: TriggerRequest<'_>,
    written: Option<(&str, CollectionSize)>,
) -> Result<Object<'js>, rquickjs::Error> {
    let about = Object::new(ctx.clone())?;
    about.set("requestBody", request.body)?;
    about.set("operationType", request.operation.name())?;
    about.set("kind", if written.is_some() { "post" } else { "pre" })?;
    if let Some((response_body, size)) = written {
        about.set("responseBody", response_body)?;
        about.set("quotaUsage", quota_text(size.megabytes))?;
        about.set("quotaMax", quota_text(size.megabytes_max))?;
    }
    Ok(about)
}

/// Quotas as the service writes them: in kilobytes.
fn quota_text(megabytes: u64) -> String {
    format!("collectionSize={};", megabytes * 1024)
}
