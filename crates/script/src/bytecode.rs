//! Compiled classic scripts.
//!
//! The safe API of the JavaScript crate keeps bytecode for modules only, but scripts of this API
//! are classic sloppy-mode scripts. So four raw calls are made here: compile, write, read,
//! evaluate. The engine does not verify bytecode it reads; bytes that did not come from its own
//! writer can corrupt memory. [`Bytecode`] therefore can be had in one way only: from [`compile`], in
//! this process.
#![allow(unsafe_code, reason = "the safe API keeps no classic scripts")]

use std::ffi::CStr;
use std::sync::Arc;

use rquickjs::{Ctx, Error, Value, qjs};

/// Bytecode of one script, as the engine wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bytecode(Arc<[u8]>);

impl Bytecode {
    /// Bytes of it.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it is the same one, and not merely an equal one.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
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
    let function = read(ctx, code)?;
    // SAFETY: the function was made in this context just now and belongs to nobody else.
    unsafe { run(ctx, function) }
}

/// Makes the function of a script in `ctx` without running anything of it. It belongs to the caller.
pub(crate) fn read(ctx: &Ctx<'_>, code: &Bytecode) -> Result<qjs::JSValue, Error> {
    // SAFETY: the bytes come from `compile`, so they are what this engine wrote.
    unsafe {
        let raw = ctx.as_raw().as_ptr();
        let flags = qjs::JS_READ_OBJ_BYTECODE as i32;
        let function = qjs::JS_ReadObject(raw, code.0.as_ptr(), code.0.len() as _, flags);
        if qjs::JS_IsException(function) { Err(Error::Exception) } else { Ok(function) }
    }
}

/// Runs what [`read`] made, which is taken over.
///
/// # Safety
///
/// The function is a living one of this context, and the caller has a reference to it to give away.
pub(crate) unsafe fn run<'js>(ctx: &Ctx<'js>, function: qjs::JSValue) -> Result<Value<'js>, Error> {
    // SAFETY: as the caller promises. The result is owned by us and handed to `Value`.
    unsafe {
        let result = qjs::JS_EvalFunction(ctx.as_raw().as_ptr(), function);
        if qjs::JS_IsException(result) {
            return Err(Error::Exception);
        }
        Ok(Value::from_raw(ctx.clone(), result))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rquickjs::{Context, Runtime};

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
}
