//! A JavaScript runtime with contexts that are ready to be used once.
//!
//! Making a context and loading the library takes a fraction of a millisecond; doing it ahead of
//! time leaves a few microseconds on the way of a request, and still every call starts from fresh
//! globals. All contexts of a workshop share one runtime, and with it one memory limit, one job
//! queue and one interrupt handler; so a workshop serves one call at a time, and one whose runtime
//! came out of a call in doubt is thrown away whole.

use std::ffi::CStr;
use std::sync::Arc;

use rquickjs::context::intrinsic;
use rquickjs::{Context, Ctx, Error, Function, Object, Runtime, Value};

use crate::brake;
use crate::bytecode::{self, Bytecode};
use crate::error::Thrown;
use crate::limits::Limits;
use crate::memory::Metered;
use crate::meter::{CHECKS_BEFORE_FIRST_LOOK, Meter, Stop};

/// The built-ins a script finds. Left out on purpose: `WeakRef` and `FinalizationRegistry`, whose
/// callbacks could run after the call they belong to; `eval` and `new Function`, because the parser
/// can be interrupted by nothing (source is compiled when it is registered, and only then);
/// `performance` and `DOMException`.
type Builtins = (
    intrinsic::Date,
    intrinsic::RegExpCompiler,
    intrinsic::RegExp,
    intrinsic::Json,
    intrinsic::Proxy,
    intrinsic::MapSet,
    intrinsic::TypedArrays,
    intrinsic::Promise,
);

/// Where a context keeps its driver until its one call takes it.
const DRIVER: &str = "armilla driver";
/// The engine collects cycles by itself once this much is allocated: above what the pool takes, so
/// that only a script's own garbage makes it happen during a call.
const GARBAGE_BYTES: usize = 24 << 20;
/// Used-up contexts are collected between calls once there are this many.
const USED_CONTEXTS_MAX: usize = 24;

/// Our own JavaScript, compiled once per engine.
#[derive(Debug, Clone)]
pub(crate) struct Library {
    armour: Bytecode,
    library: Bytecode,
    query: Bytecode,
    /// Rounds to count in a fresh context whose countdown cannot be set, so that the first look
    /// comes early.
    first_count: u64,
}

impl Library {
    pub(crate) fn compile() -> Result<Self, Error> {
        let runtime = Runtime::new()?;
        let context = Context::full(&runtime)?;
        let (mut library, endless) = context.with(|ctx| {
            let part = |source: &str, file: &CStr| bytecode::compile_stripped(&ctx, source, file);
            let library = Self {
                armour: part(include_str!("library/armour.js"), c"armilla:armour")?,
                library: part(include_str!("library/library.js"), c"armilla:library")?,
                query: part(include_str!("library/query.js"), c"armilla:query")?,
                first_count: 0,
            };
            Ok::<_, Error>((library, part("rounds = 0; for (;;) rounds++;", c"armilla:checks")?))
        })?;
        let checks = checks_left(&library, &endless)?;
        library.first_count = checks.saturating_sub(CHECKS_BEFORE_FIRST_LOOK) / 2;
        Ok(library)
    }
}

pub(crate) struct Workshop {
    // Contexts come first, so that they are dropped before their runtime.
    ready: Vec<Context>,
    runtime: Runtime,
    pub(crate) meter: Arc<Meter>,
    calls: usize,
}

impl Workshop {
    pub(crate) fn new(limits: &Limits) -> Result<Self, Error> {
        let meter = Arc::new(Meter::default());
        let runtime = Runtime::new_with_alloc(Metered(Arc::clone(&meter.memory)))?;
        runtime.set_max_stack_size(limits.stack_bytes_max);
        runtime.set_gc_threshold(GARBAGE_BYTES);
        let handler = Arc::clone(&meter);
        runtime.set_interrupt_handler(Some(Box::new(move || handler.tick())));
        let tracker = Arc::clone(&meter);
        runtime.set_host_promise_rejection_tracker(Some(Box::new(
            move |_ctx, _promise, reason, is_handled| note_rejection(&tracker, &reason, is_handled),
        )));
        Ok(Self { ready: Vec::new(), runtime, meter, calls: 0 })
    }

    /// A context nobody has used, made now if none is ready.
    pub(crate) fn take_context(&mut self, library: &Library) -> Result<Context, Error> {
        self.calls += 1;
        match self.ready.pop() {
            Some(context) => Ok(context),
            None => fresh_context(&self.runtime, &self.meter, library),
        }
    }

    /// Collects garbage and refills the ready contexts. For moments when nobody waits.
    pub(crate) fn tend(&mut self, library: &Library, warm_contexts: usize) -> Result<(), Error> {
        // Collecting walks over ready contexts too, so it is done when there are few of them.
        if self.calls >= USED_CONTEXTS_MAX {
            self.runtime.run_gc();
            self.runtime.set_gc_threshold(GARBAGE_BYTES);
            self.calls = 0;
        }
        while self.ready.len() < warm_contexts {
            self.ready.push(fresh_context(&self.runtime, &self.meter, library)?);
        }
        Ok(())
    }

    pub(crate) fn ready_contexts(&self) -> usize {
        self.ready.len()
    }

    /// Whether promise jobs of the last call are still waiting. They must never run.
    pub(crate) fn has_leftover_jobs(&self) -> bool {
        self.runtime.is_job_pending()
    }
}

fn note_rejection(meter: &Meter, reason: &Value<'_>, is_handled: bool) {
    if is_handled {
        meter.handled();
        return;
    }
    let message = reason.as_exception().and_then(rquickjs::Exception::message);
    let text = message.or_else(|| reason.as_string().and_then(|text| text.to_string().ok()));
    meter.rejected(text.unwrap_or_else(|| reason.type_name().to_owned()));
}

fn fresh_context(
    runtime: &Runtime,
    meter: &Arc<Meter>,
    library: &Library,
) -> Result<Context, Error> {
    let context = Context::custom::<Builtins>(runtime)?;
    context.with(|ctx| {
        let part = |code: &Bytecode| bytecode::evaluate(&ctx, code)?.get::<Function<'_>>();
        let native = native_functions(&ctx, meter)?;
        let driver: Object<'_> = part(&library.library)?.call((native.clone(),))?;
        let parts: Object<'_> = driver.get("parts")?;
        part(&library.query)?.call::<_, ()>((parts,))?;
        // Last, so that the library itself works with the originals.
        part(&library.armour)?.call::<_, ()>((native,))?;
        if !brake::preset(&ctx, CHECKS_BEFORE_FIRST_LOOK) {
            driver.get::<_, Function<'_>>("count")?.call::<_, ()>((library.first_count,))?;
        }
        ctx.globals().set(DRIVER, driver)
    })?;
    Ok(context)
}

/// Checks that a fresh context has left before the engine looks at its handler. They are the same
/// in every context, because the library always does the same when it is loaded.
fn checks_left(library: &Library, endless: &Bytecode) -> Result<u64, Error> {
    let runtime = Runtime::new()?;
    let context = fresh_context(&runtime, &Arc::default(), library)?;
    runtime.set_interrupt_handler(Some(Box::new(|| true)));
    context.with(|ctx| {
        let _ended_by_the_handler = bytecode::evaluate(&ctx, endless);
        ctx.catch();
        ctx.globals().get("rounds")
    })
}

/// Takes the driver out of the context; user code loaded afterwards cannot find it.
pub(crate) fn take_driver<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>, Error> {
    let globals = ctx.globals();
    let driver = globals.get(DRIVER)?;
    globals.remove(DRIVER)?;
    Ok(driver)
}

fn native_functions<'js>(ctx: &Ctx<'js>, meter: &Arc<Meter>) -> Result<Object<'js>, Error> {
    let native = Object::new(ctx.clone())?;
    let shared = Arc::clone(meter);
    native.set("accept", Function::new(ctx.clone(), move || shared.accept())?)?;
    let shared = Arc::clone(meter);
    native.set("open", Function::new(ctx.clone(), move || shared.is_open())?)?;
    let shared = Arc::clone(meter);
    native.set("late", Function::new(ctx.clone(), move || shared.is_past_deadline())?)?;
    let shared = Arc::clone(meter);
    let log = move |text: rquickjs::String<'js>| shared.log(&lossless(&text));
    native.set("log", Function::new(ctx.clone(), log)?)?;
    let shared = Arc::clone(meter);
    let abort = move |number: Option<f64>,
                      text: rquickjs::String<'js>,
                      stack: rquickjs::String<'js>| {
        let thrown =
            Thrown { number: as_number(number), text: lossless(&text), stack: lossless(&stack) };
        shared.stop(Stop::Abort(thrown));
    };
    native.set("abort", Function::new(ctx.clone(), abort)?)?;
    Ok(native)
}

/// Text of a JavaScript string; half a surrogate pair, which UTF-8 cannot hold, makes it empty.
pub(crate) fn lossless(text: &rquickjs::String<'_>) -> String {
    text.to_string().unwrap_or_default()
}

/// An error number as substatus: a whole number that fits.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the range was checked in the line above"
)]
pub(crate) fn as_number(number: Option<f64>) -> Option<u32> {
    let number = number.filter(|number| number.fract() == 0.0)?;
    (0.0..=f64::from(u32::MAX)).contains(&number).then_some(number as u32)
}
