//! Compiled classic scripts, and the only `unsafe` code of this crate.
//!
//! The safe API of the JavaScript crate keeps bytecode for modules only, but scripts of this API
//! are classic sloppy-mode scripts. So four raw calls are made here: compile, write, read,
//! evaluate. The engine does not verify bytecode it reads; bytes that did not come from its own
//! writer can corrupt memory. [`Bytecode`] therefore can be had in two ways only: from
//! [`compile`], or from [`Bytecode::from_stored`], which wants the header and checksum that
//! [`Bytecode::to_stored`] wrote and refuses bytes of another engine version or machine.
//! Whoever can write the server's own data files is trusted.
//!
//! The other thing the safe API cannot do is to call a function from inside the interrupt handler;
//! [`Brake`] does, and says there why that is needed.
#![allow(
    unsafe_code,
    reason = "the safe API neither keeps classic scripts nor calls from the handler"
)]

use std::ffi::CStr;
use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rquickjs::{Ctx, Error, Function, Value, qjs};

/// Changes whenever stored bytecode of older builds must not be read: the versions of the crate
/// and of the engine inside it, and what the engine's format depends on.
const FORMAT: &str = concat!("armilla-bytecode-1 rquickjs-0.14.0 quickjs-ng-0.16.2 ", "bc-28");

/// Bytecode of one script, as the engine wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bytecode(Arc<[u8]>);

impl Bytecode {
    /// The bytes to keep: header, checksum, code.
    pub(crate) fn to_stored(&self) -> Vec<u8> {
        let mut out = header();
        out.extend_from_slice(&fnv1a(&self.0).to_le_bytes());
        out.extend_from_slice(&self.0);
        out
    }

    /// Reads kept bytes back; nothing when they are of another version or damaged, in which case
    /// the script is compiled again.
    pub(crate) fn from_stored(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(header().as_slice())?;
        let (checksum, code) = rest.split_first_chunk::<8>()?;
        (u64::from_le_bytes(*checksum) == fnv1a(code)).then(|| Self(code.into()))
    }
}

fn header() -> Vec<u8> {
    let order = if cfg!(target_endian = "little") { "le" } else { "be" };
    format!("{FORMAT} {}{order}\n", usize::BITS).into_bytes()
}

/// A 64-bit FNV-1a hash: finds accidents, not attackers.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Parses a classic script without running it. On failure the exception is pending in `ctx`.
pub(crate) fn compile(ctx: &Ctx<'_>, source: &str, file: &CStr) -> Result<Bytecode, Error> {
    compile_with(ctx, source, file, 0)
}

/// Parses a script of our own; source text and line numbers are left out, which makes it faster to
/// load.
pub(crate) fn compile_stripped(
    ctx: &Ctx<'_>,
    source: &str,
    file: &CStr,
) -> Result<Bytecode, Error> {
    compile_with(ctx, source, file, qjs::JS_WRITE_OBJ_STRIP_SOURCE | qjs::JS_WRITE_OBJ_STRIP_DEBUG)
}

fn compile_with(
    ctx: &Ctx<'_>,
    source: &str,
    file: &CStr,
    write_flags: u32,
) -> Result<Bytecode, Error> {
    // The engine wants a terminating zero behind the text; zeros inside it are its own business.
    let mut text = Vec::with_capacity(source.len() + 1);
    text.extend_from_slice(source.as_bytes());
    text.push(0);
    let flags = (qjs::JS_EVAL_TYPE_GLOBAL | qjs::JS_EVAL_FLAG_COMPILE_ONLY) as i32;
    // SAFETY: `text` is `source.len()` bytes and a zero, `file` is a C string, both outlive the
    // call, and `ctx` is a live context whose runtime this thread has locked. The returned value
    // is owned by us and handed to `Value`, which frees it.
    let function = unsafe {
        let raw = qjs::JS_Eval(
            ctx.as_raw().as_ptr(),
            text.as_ptr().cast(),
            source.len() as _,
            file.as_ptr(),
            flags,
        );
        if qjs::JS_IsException(raw) {
            return Err(Error::Exception);
        }
        Value::from_raw(ctx.clone(), raw)
    };
    write(ctx, &function, write_flags)
}

fn write(ctx: &Ctx<'_>, function: &Value<'_>, flags: u32) -> Result<Bytecode, Error> {
    let mut length: qjs::size_t = 0;
    // SAFETY: `function` is a live value of this context. The engine returns a buffer of `length`
    // bytes or null; the buffer is copied and then freed with the engine's own allocator.
    unsafe {
        let raw = ctx.as_raw().as_ptr();
        let flags = (qjs::JS_WRITE_OBJ_BYTECODE | flags) as i32;
        let buffer = qjs::JS_WriteObject(raw, &mut length, function.as_raw(), flags);
        if buffer.is_null() {
            return Err(Error::Exception);
        }
        let code = std::slice::from_raw_parts(buffer, length as usize).into();
        qjs::js_free(raw, buffer.cast());
        Ok(Bytecode(code))
    }
}

/// Runs a compiled script in `ctx` and returns the value of its last expression.
pub(crate) fn evaluate<'js>(ctx: &Ctx<'js>, code: &Bytecode) -> Result<Value<'js>, Error> {
    // SAFETY: the bytes come from `compile` or passed the checks of `from_stored`, so they are what
    // this engine version wrote. `JS_EvalFunction` takes over the function it is given; its result
    // is owned by us and handed to `Value`.
    unsafe {
        let raw = ctx.as_raw().as_ptr();
        let flags = qjs::JS_READ_OBJ_BYTECODE as i32;
        let function = qjs::JS_ReadObject(raw, code.0.as_ptr(), code.0.len() as _, flags);
        if qjs::JS_IsException(function) {
            return Err(Error::Exception);
        }
        let result = qjs::JS_EvalFunction(raw, function);
        if qjs::JS_IsException(result) {
            return Err(Error::Exception);
        }
        Ok(Value::from_raw(ctx.clone(), result))
    }
}

/// Makes a stop stick.
///
/// The engine looks at its interrupt handler once in ten thousand checks (a check is a loop
/// iteration or a call), and an interrupt that the handler asks for cannot be caught by a script.
/// But some built-in operations swallow it by accident: a promise constructor turns it into a
/// rejection, closing an iterator drops it. Code that wraps an endless loop into such an operation,
/// and that into another loop, would be interrupted for ever inside and never outside.
///
/// So the handler, once it wants a script to end, uses up the nine thousand odd checks until the
/// next look itself, by calling a function of ours that counts to a number. From then on the engine
/// looks at *every* check, and nothing that loops or calls gets any further. In the same way the
/// handler can ask for an earlier look at a script whose single steps may take long.
pub(crate) struct Brake {
    context: NonNull<qjs::JSContext>,
    count: qjs::JSValue,
    stack_bytes_max: usize,
}

/// Checks from one look of the engine at its handler to the next.
pub(crate) const CHECKS_PER_LOOK: u64 = 10_000;

/// What to hand to the counting function right after a look, so that `left` checks remain. A round
/// is two checks; the call, the end of the loop and the last line are one each.
pub(crate) fn rounds_leaving(left: u64) -> u64 {
    (CHECKS_PER_LOOK - 3).saturating_sub(left) / 2
}

/// Stack that counting may use beyond the script's own limit.
const BRAKE_STACK_BYTES: usize = 32 << 10;

// SAFETY: a brake is used only by the handler of the runtime that both pointers belong to, on the
// thread that runs it; it is moved with that runtime.
unsafe impl Send for Brake {}

impl Brake {
    /// A brake for a context. `count` is the counting function, made in that very context (checks
    /// are counted per context).
    pub(crate) fn new(ctx: &Ctx<'_>, count: &Function<'_>, stack_bytes_max: usize) -> Self {
        Self { context: ctx.as_raw(), count: count.as_raw(), stack_bytes_max }
    }

    /// Uses up checks, all but `left` of those until the next look.
    ///
    /// # Safety
    ///
    /// The context and the counting function must still be alive, and the caller must be the
    /// interrupt handler of their runtime.
    unsafe fn apply(&self, left: u64) {
        // SAFETY: the engine calls its handler between two instructions, where calling a function is
        // what a native function would do. The counting function allocates nothing and touches
        // nothing but its own counter; if it cannot run, its exception is dropped here. A script
        // near its stack limit must not keep it from running, hence the allowance.
        unsafe {
            let raw = self.context.as_ptr();
            let runtime = qjs::JS_GetRuntime(raw);
            let allowance = self.stack_bytes_max + BRAKE_STACK_BYTES;
            qjs::JS_SetMaxStackSize(runtime, allowance as _);
            let rounds = i32::try_from(rounds_leaving(left)).unwrap_or(0);
            let mut rounds = qjs::JS_MKVAL(qjs::JS_TAG_INT, rounds);
            let result = qjs::JS_Call(raw, self.count, qjs::JS_UNDEFINED, 1, &mut rounds);
            qjs::JS_SetMaxStackSize(runtime, self.stack_bytes_max as _);
            if qjs::JS_IsException(result) {
                qjs::JS_FreeValue(raw, qjs::JS_GetException(raw));
            } else {
                qjs::JS_FreeValue(raw, result);
            }
        }
    }
}

/// Where the handler finds the brake of the running call.
#[derive(Default)]
pub(crate) struct BrakeSlot(Mutex<Option<Brake>>);

impl BrakeSlot {
    /// Runs `action` with a brake in place. The context and the function the brake was made of are
    /// borrowed for as long as it can be used.
    pub(crate) fn with<'js, R>(
        &self,
        ctx: &Ctx<'js>,
        count: &Function<'js>,
        stack_bytes_max: usize,
        action: impl FnOnce() -> R,
    ) -> R {
        struct Clear<'a>(&'a BrakeSlot);
        impl Drop for Clear<'_> {
            fn drop(&mut self) {
                *self.0.lock() = None;
            }
        }
        *self.lock() = Some(Brake::new(ctx, count, stack_bytes_max));
        let _clear = Clear(self);
        action()
    }

    /// Makes the engine look again after `left` checks. Called by the interrupt handler, and by
    /// nobody else. While counting, the handler may be asked again; then this does nothing.
    pub(crate) fn apply(&self, left: u64) {
        // The brake is not in its slot while it is used.
        let brake = self.lock().take();
        if let Some(brake) = brake {
            // SAFETY: `with` holds the context and the function while the slot is filled, and the
            // handler only runs inside that context's runtime.
            unsafe { brake.apply(left) };
            *self.lock() = Some(brake);
        }
    }

    /// Whether there is a brake to be applied: a call is running, and not just counting.
    pub(crate) fn is_ready(&self) -> bool {
        self.lock().is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Brake>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for BrakeSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BrakeSlot")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rquickjs::{Context, Runtime};

    #[test]
    fn stored_bytecode_runs_and_damaged_bytes_are_refused() {
        let runtime = Runtime::new().unwrap();
        let context = Context::full(&runtime).unwrap();
        context.with(|ctx| {
            let code = compile(&ctx, "x = 20; x + 22", c"test").unwrap();
            let stored = code.to_stored();
            let loaded = Bytecode::from_stored(&stored).unwrap();
            assert_eq!(evaluate(&ctx, &loaded).unwrap().as_int(), Some(42));
            for at in 0..stored.len() {
                let mut damaged = stored.clone();
                damaged[at] ^= 0x10;
                assert_eq!(Bytecode::from_stored(&damaged), None, "byte {at}");
                assert_eq!(Bytecode::from_stored(&stored[..at]), None, "cut at {at}");
            }
        });
    }

    #[test]
    fn compiling_does_not_run() {
        let runtime = Runtime::new().unwrap();
        let context = Context::full(&runtime).unwrap();
        context.with(|ctx| {
            compile(&ctx, "globalThis.ran = true", c"test").unwrap();
            assert!(!ctx.globals().contains_key("ran").unwrap());
            assert!(compile(&ctx, "function (", c"test").is_err());
            ctx.catch();
        });
    }

    /// Runs an endless loop, one check a round, whose first look at the handler applies the brake
    /// and whose second one ends it; returns how many rounds lay between the two.
    fn rounds_after_brake(count: &str) -> i32 {
        let runtime = Runtime::new().unwrap();
        let slot = Arc::new(BrakeSlot::default());
        let (shared, mut looks) = (Arc::clone(&slot), 0);
        runtime.set_interrupt_handler(Some(Box::new(move || {
            looks += 1;
            shared.apply(1);
            // The first look is at the very first check of a context, before the loop.
            looks > 2
        })));
        let context = Context::full(&runtime).unwrap();
        context.with(|ctx| {
            let count: Function<'_> = ctx.eval(format!("({count})")).unwrap();
            slot.with(&ctx, &count, 256 << 10, || {
                let endless = "globalThis.rounds = 0; for (;;) rounds++;";
                ctx.eval::<(), _>(endless).unwrap_err();
            });
            ctx.catch();
            ctx.globals().get::<_, i32>("rounds").unwrap() - 9_999
        })
    }

    #[test]
    fn after_the_brake_the_engine_looks_at_every_check() {
        assert!(rounds_after_brake("() => 0") > 9_900);
        let library = include_str!("library/library.js");
        let start = library.find("function count(left)").unwrap();
        let length = library[start..].find("\n  }").unwrap() + "\n  }".len();
        assert_eq!(rounds_after_brake(&library[start..start + length]), 1);
    }
}
