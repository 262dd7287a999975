//! A pooled JavaScript runtime with one context that is reset after every call.
//!
//! Making a context and loading the library takes most of a millisecond. So it is done once; then an
//! image is taken of all the runtime's memory, and after a call the image is put back
//! ([`crate::arena`]). A workshop serves one call at a time.
//!
//! A script that is called twice in a row becomes part of a second image, as the function that its bytecode
//! describes; nothing of it has run. Making that function anew would be a tenth of a short call.
//!
//! What the image does not hold is what lies outside the runtime's memory: the native functions,
//! which are Rust closures. They are alive in the image, so no script may ever bring them to an end:
//! the workshop has a reference of its own to them. The engine draws random numbers from a state
//! inside its memory, which would be the same in every call; so `Math.random` is ours.
//!
//! Putting memory back is right only if nothing outside refers to objects that came later. Debug builds
//! assert it after every call that came to its end: the engine counts the references to its objects that
//! none of its own objects has, and there must be as many as when the image was taken.
#![allow(unsafe_code, reason = "putting memory back is something no compiler can check")]

use std::ffi::CStr;
use std::sync::Arc;

use rquickjs::context::intrinsic;
use rquickjs::{Context, Ctx, Error, Function, Object, Persistent, Runtime, Value, qjs};

use crate::arena::{Arena, MemoryImage};
use crate::bytecode::{self, Bytecode};
use crate::countdown;
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

/// The engine collects cycles by itself once this much is allocated: above what a ready context
/// takes, so that only a script's own garbage makes it happen.
const GARBAGE_BYTES: usize = 24 << 20;
/// A call that used more than this is cleaned up after at once, not when there is time.
const LEFTOVER_BYTES_MAX: usize = 4 << 20;
/// Bytecode of a script that is kept in an image: what is left of the arena's chunk is for its calls.
const KEPT_CODE_BYTES_MAX: usize = 64 << 10;

/// Our own JavaScript, compiled once per engine.
#[derive(Debug, Clone)]
pub(crate) struct Library {
    armour: Bytecode,
    library: Bytecode,
    query: Bytecode,
}

impl Library {
    pub(crate) fn compile() -> Result<Self, Error> {
        let runtime = Runtime::new()?;
        let context = Context::full(&runtime)?;
        context.with(|ctx| {
            let part = |source: &str, file: &CStr| bytecode::compile_stripped(&ctx, source, file);
            Ok(Self {
                armour: part(include_str!("library/armour.js"), c"armilla:armour")?,
                library: part(include_str!("library/library.js"), c"armilla:library")?,
                query: part(include_str!("library/query.js"), c"armilla:query")?,
            })
        })
    }
}

pub(crate) struct Workshop {
    // First, so that it is dropped before the context and that before its runtime.
    kept: Kept,
    pub(crate) context: Context,
    _runtime: Runtime,
    pub(crate) meter: Arc<Meter>,
    arena: Arc<Arena>,
    /// How it was without any script; nothing in a workshop that serves one call only.
    new: Option<Ready>,
    /// How it was with a script.
    loaded: Option<Loaded>,
    /// The script of the last call.
    last: Option<Bytecode>,
    is_used: bool,
    /// The last call came to its end by itself.
    is_whole: bool,
}

/// A runtime that is ready for a call.
struct Ready {
    image: MemoryImage,
    used_bytes: usize,
    /// References from outside into the engine's memory when the image was taken.
    held: i64,
}

/// A runtime that is ready for a call of one script.
struct Loaded {
    ready: Ready,
    code: Bytecode,
    /// Lies in the image, which has the one reference that it counts.
    function: qjs::JSValue,
}

// SAFETY: the function belongs to the runtime of the same workshop and is used with that runtime's lock.
unsafe impl Send for Loaded {}

/// References from outside of the engine into its memory: to the driver, which user code cannot
/// reach, and through it to the native functions.
struct Kept {
    driver: Persistent<Object<'static>>,
}

// SAFETY: the references belong to the runtime of the same workshop, are used with that runtime's
// lock or, when the workshop is dropped, by its only owner; and they are moved together with it.
unsafe impl Send for Kept {}

impl Workshop {
    pub(crate) fn new(limits: &Limits, library: &Library) -> Result<Self, Error> {
        let meter = Arc::new(Meter::default());
        let arena = match limits.fresh_contexts {
            false => Arena::new(),
            true => Arena::of_single_blocks(),
        };
        let arena = Arc::new(arena.ok_or(Error::Allocation)?);
        let budget = Arc::clone(&meter.memory);
        let runtime = Runtime::new_with_alloc(Metered { budget, arena: Arc::clone(&arena) })?;
        runtime.set_max_stack_size(limits.stack_bytes_max);
        runtime.set_gc_threshold(GARBAGE_BYTES);
        let handler = Arc::clone(&meter);
        runtime.set_interrupt_handler(Some(Box::new(move || handler.tick())));
        let tracker = Arc::clone(&meter);
        runtime.set_host_promise_rejection_tracker(Some(Box::new(
            move |_ctx, _promise, reason, is_handled| note_rejection(&tracker, &reason, is_handled),
        )));
        let (context, kept) = fresh_context(&runtime, &meter, library)?;
        let (new, loaded, last) = (None, None, None);
        let (is_used, is_whole) = (false, false);
        let _runtime = runtime;
        let mut workshop =
            Self { kept, context, _runtime, meter, arena, new, loaded, last, is_used, is_whole };
        if !limits.fresh_contexts {
            workshop.new = Some(workshop.ready().ok_or(Error::Allocation)?);
        }
        Ok(workshop)
    }

    /// The runtime as it is now; nothing if it is too large for an image.
    fn ready(&self) -> Option<Ready> {
        let held = if cfg!(debug_assertions) { held_references(&self.context) } else { 0 };
        // SAFETY: the runtime is on this thread, and nothing runs in it.
        let image = unsafe { self.arena.image() }?;
        Some(Ready { image, used_bytes: self.meter.memory.used(), held })
    }

    /// Whether a script is part of what the workshop is put back to.
    pub(crate) fn has(&self, script: &Bytecode) -> bool {
        self.loaded.as_ref().is_some_and(|loaded| loaded.code.is(script))
    }

    /// Makes a script part of what the workshop is put back to, if it comes for the second time.
    pub(crate) fn prepare(&mut self, script: &Bytecode) {
        if self.has(script) || self.new.is_none() {
            return;
        }
        let is_again = self.last.as_ref().is_some_and(|last| last.is(script));
        self.last = Some(script.clone());
        if !is_again || script.len() > KEPT_CODE_BYTES_MAX {
            return;
        }
        self.unload();
        let read = self.context.with(|ctx| bytecode::read(&ctx, script).ok());
        // What an error leaves behind is put back as well.
        self.is_used = true;
        if let Some((function, ready)) = read.and_then(|function| Some((function, self.ready()?))) {
            self.loaded = Some(Loaded { ready, code: script.clone(), function });
        }
        self.is_whole = false;
        self.reset();
    }

    /// Puts the workshop back to how it was without any script.
    fn unload(&mut self) {
        if self.loaded.take().is_some() {
            self.is_used = true;
            self.is_whole = false;
        }
        self.reset();
    }

    /// Runs the script that is part of the image, if it is this one, and returns the value of its last expression.
    pub(crate) fn run_loaded<'js>(
        &self,
        ctx: &Ctx<'js>,
        script: &Bytecode,
    ) -> Option<Result<Value<'js>, Error>> {
        let loaded = self.loaded.as_ref().filter(|loaded| loaded.code.is(script))?;
        // SAFETY: the workshop was put back to the image that has the function, and the image's own reference
        // to it stays: another one is given away.
        Some(unsafe {
            let function = qjs::JS_DupValue(ctx.as_raw().as_ptr(), loaded.function);
            bytecode::run(ctx, function)
        })
    }

    /// The driver of the context, for a call. The workshop must be reset before the next one.
    pub(crate) fn driver(&self) -> Persistent<Object<'static>> {
        self.kept.driver.clone()
    }

    /// Notes that a call is about to begin.
    pub(crate) fn begin(&mut self) {
        self.is_used = true;
        self.is_whole = false;
    }

    /// Notes that the call has ended; `is_whole` if nothing ended it from outside or inside.
    pub(crate) fn end(&mut self, is_whole: bool) {
        self.is_whole = is_whole;
    }

    /// Makes the context as new, if it was used. No value of a call may be alive any more.
    pub(crate) fn reset(&mut self) {
        let ready = self.loaded.as_ref().map(|loaded| &loaded.ready).or(self.new.as_ref());
        let Some(ready) = ready.filter(|_| self.is_used) else { return };
        // A script that was stopped in the middle leaves jobs, exceptions and values that the engine had
        // in hand; they are part of its memory, but not of any object.
        if std::mem::take(&mut self.is_whole) && cfg!(debug_assertions) {
            let held = held_references(&self.context);
            assert_eq!(held, ready.held, "a call left references into the engine's memory behind");
        }
        // SAFETY: the image was taken of this arena. Values of the engine are held by the code
        // inside `Context::with`, which borrows the workshop, and by the driver handed out for the
        // call, which ended; what is left are the context, the runtime and `kept`, all of which were
        // there when the image was taken, and the function of the script whose image it is. Whatever Rust owns through the engine's objects, which
        // are the native functions and nothing else, is alive because of `kept`.
        // The runtime itself keeps objects too, one table of them: the prototypes of classes made in
        // Rust, each since its class was first used. The only such class is that of native functions,
        // which is there before the image is taken (`native_functions`); a second one, first used
        // during a call, would leave a dangling prototype behind, and fail the assertion above.
        unsafe { self.arena.restore(&ready.image) };
        self.meter.memory.set_used(ready.used_bytes);
        self.is_used = false;
    }

    /// Whether another call may follow.
    pub(crate) fn is_reusable(&self) -> bool {
        self.new.is_some()
    }

    /// Whether the context is as new.
    pub(crate) fn is_ready(&self) -> bool {
        !self.is_used
    }

    /// Whether the last call left so much behind that it should not wait.
    pub(crate) fn is_littered(&self) -> bool {
        let before = self.new.as_ref().map_or(0, |new| new.used_bytes);
        self.meter.memory.used() > before + LEFTOVER_BYTES_MAX
    }
}

impl Drop for Workshop {
    /// The engine takes a runtime apart without complaint if nothing of a call is left in it.
    fn drop(&mut self) {
        self.unload();
    }
}

/// References to the engine's objects that none of its objects has.
fn held_references(context: &Context) -> i64 {
    // SAFETY: the context is alive and its runtime locked by this thread.
    context.with(|ctx| unsafe {
        qjs::JS_CountHeldReferences(qjs::JS_GetRuntime(ctx.as_raw().as_ptr()))
    })
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
) -> Result<(Context, Kept), Error> {
    let context = Context::custom::<Builtins>(runtime)?;
    let driver = context.with(|ctx| {
        let part = |code: &Bytecode| bytecode::evaluate(&ctx, code)?.get::<Function<'_>>();
        let native = native_functions(&ctx, meter)?;
        let driver: Object<'_> = part(&library.library)?.call((native.clone(),))?;
        let parts: Object<'_> = driver.get("parts")?;
        part(&library.query)?.call::<_, ()>((parts,))?;
        // Last, so that the library itself works with the originals.
        part(&library.armour)?.call::<_, ()>((native,))?;
        countdown::preset(&ctx, CHECKS_BEFORE_FIRST_LOOK);
        Ok::<_, Error>(Persistent::save(&ctx, driver))
    })?;
    Ok((context, Kept { driver }))
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
    native.set("random", Function::new(ctx.clone(), move || shared.random())?)?;
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
    // SAFETY: the context is alive and its runtime locked by this thread; the functions are ours and handed
    // to `Value`, which frees them. Like all built-in functions they lie in the engine's memory.
    let (write, sees) = unsafe {
        let context = ctx.as_raw().as_ptr();
        let of = |raw| Value::from_raw(ctx.clone(), raw);
        (of(qjs::JS_NewCheckedJSONWriter(context)), of(qjs::JS_NewArgumentProbe(context)))
    };
    native.set("write", write)?;
    native.set("sees", sees)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of prototypes that the assertion in [`Workshop::reset`] is about.
    #[test]
    fn a_class_that_is_first_used_is_seen_as_a_held_reference() {
        let runtime = Runtime::new().unwrap();
        let context = Context::full(&runtime).unwrap();
        let before = held_references(&context);
        // Functions are the one class made in Rust; the function goes, its prototype stays.
        let make = || context.with(|ctx| drop(Function::new(ctx, || 1).unwrap()));
        make();
        let after = held_references(&context);
        assert!(after > before);
        make();
        assert_eq!(held_references(&context), after);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "left references into the engine's memory behind")]
    fn a_reference_that_outlives_its_call_fails_the_assertion() {
        let limits = Limits::default();
        let mut workshop = Workshop::new(&limits, &Library::compile().unwrap()).unwrap();
        workshop.begin();
        let held =
            workshop.context.with(|ctx| Persistent::save(&ctx, Object::new(ctx.clone()).unwrap()));
        workshop.end(true);
        std::mem::forget(held);
        workshop.reset();
    }

    #[test]
    fn a_fresh_context_serves_one_call() {
        let limits = Limits { fresh_contexts: true, ..Limits::default() };
        let workshop = Workshop::new(&limits, &Library::compile().unwrap()).unwrap();
        assert!(!workshop.is_reusable());
    }
}
