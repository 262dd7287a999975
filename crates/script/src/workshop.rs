//! A JavaScript runtime with one context that is as new for every call.
//!
//! Making a context and loading the library takes most of a millisecond. So it is done once; then a
//! picture is taken of all the runtime's memory, and after a call the picture is put back
//! ([`crate::arena`]). A workshop serves one call at a time.
//!
//! What the picture does not hold is what lies outside the runtime's memory: the native functions,
//! which are Rust closures. They are alive in the picture, so no script may ever bring them to an end:
//! the workshop has a reference of its own to them. The engine draws random numbers from a state
//! inside its memory, which would be the same in every call; so `Math.random` is ours.
#![allow(unsafe_code, reason = "putting memory back is something no compiler can check")]

use std::ffi::CStr;
use std::sync::Arc;

use rquickjs::context::intrinsic;
use rquickjs::{Context, Ctx, Error, Function, Object, Persistent, Runtime, Value};

use crate::arena::{Arena, Picture};
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
    picture: Picture,
    used_bytes: usize,
    is_used: bool,
}

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
        let arena = Arc::new(Arena::new().ok_or(Error::Allocation)?);
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
        // SAFETY: the runtime is on this thread, and nothing runs in it.
        let picture = unsafe { arena.picture() }.ok_or(Error::Allocation)?;
        let used_bytes = meter.memory.used();
        let is_used = false;
        Ok(Self { kept, context, _runtime: runtime, meter, arena, picture, used_bytes, is_used })
    }

    /// The driver of the context, for a call. The workshop must be tended before the next one.
    pub(crate) fn driver(&self) -> Persistent<Object<'static>> {
        self.kept.driver.clone()
    }

    /// Notes that a call is about to begin.
    pub(crate) fn begin(&mut self) {
        self.is_used = true;
    }

    /// Makes the context as new, if it was used. No value of a call may be alive any more.
    pub(crate) fn tend(&mut self) {
        if !self.is_used {
            return;
        }
        // SAFETY: the picture was taken of this arena. Values of the engine are held by the code
        // inside `Context::with`, which borrows the workshop, and by the driver handed out for the
        // call, which ended; what is left are the context, the runtime and `kept`, all of which were
        // there when the picture was taken. Whatever Rust owns through the engine's objects, which
        // are the native functions and nothing else, is alive because of `kept`.
        // The runtime itself keeps objects too, one table of them: the prototypes of classes made in
        // Rust, each since its class was first used. The only such class is that of native functions,
        // which is there before the picture is taken (`native_functions`); a second one, first used
        // during a call, would leave a dangling prototype behind. So this crate has none, which a
        // test sees to (`no_class_is_made_in_rust`).
        unsafe { self.arena.restore(&self.picture) };
        self.meter.memory.set_used(self.used_bytes);
        self.is_used = false;
    }

    /// Whether the context is as new.
    pub(crate) fn is_ready(&self) -> bool {
        !self.is_used
    }

    /// Whether the last call left so much behind that it should not wait.
    pub(crate) fn is_littered(&self) -> bool {
        self.meter.memory.used() > self.used_bytes + LEFTOVER_BYTES_MAX
    }
}

impl Drop for Workshop {
    /// The engine takes a runtime apart without complaint if nothing of a call is left in it.
    fn drop(&mut self) {
        self.tend();
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
    use std::fs;
    use std::path::Path;

    /// See the reason in [`super::Workshop::tend`].
    #[test]
    fn no_class_is_made_in_rust() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        // Put together here, so that this file does not have them.
        let words = [["Js", "Class"], ["rquickjs::", "class"], ["#[", "qjs"], ["Class", "::<"]];
        let mut files = 0;
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            files += 1;
            let text = fs::read_to_string(&path).unwrap();
            for word in words.iter().map(|parts| parts.concat()) {
                assert!(!text.contains(&word), "{} uses {word}", path.display());
            }
        }
        assert!(files > 10);
    }
}
