//! The interrupt countdown: how many checks the engine makes before it asks its interrupt handler.
//!
//! A check is a loop iteration or a call, and an interrupt that the handler asks for cannot be caught by
//! a script. By itself the engine asks once in ten thousand checks. Two things are wrong with that. Ten
//! thousand steps may be an hour, when each of them works on a large value. And some built-in
//! operations swallow an interrupt by accident: a promise constructor turns it into a rejection,
//! closing an iterator drops it, so that an endless loop inside such an operation, inside another
//! loop, would be interrupted for ever inside and never outside.
//!
//! So the handler sets the countdown itself: to a few hundred while all is well, to one once the script
//! must end. The engine has a function for it in our build (`vendor/rquickjs-sys`); it also asks the handler
//! inside long operations, which are looks but no checks ([`Look::Work`]).
#![allow(unsafe_code, reason = "the safe API has no way to the engine's countdown")]

use std::fmt;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rquickjs::{Ctx, qjs};

/// Checks from one look of the engine at its handler to the next, by itself.
pub(crate) const CHECKS_PER_LOOK: u64 = 10_000;

/// Why the engine asks its handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// The countdown has come to its end.
    Checks,
    /// A long operation is going on.
    Work,
}

/// Makes the engine look at its handler after `left` checks of a context that runs nothing now.
pub(crate) fn preset(ctx: &Ctx<'_>, left: u64) {
    let checks = i32::try_from(left).unwrap_or(i32::MAX);
    // SAFETY: the context is alive and its runtime on this thread, as `ctx` proves.
    unsafe { qjs::JS_SetInterruptCounter(ctx.as_raw().as_ptr(), checks) };
}

/// Where the handler finds the context of the running call, if one is running.
#[derive(Default)]
pub(crate) struct Countdown(Mutex<Option<Running>>);

/// The context of a running call.
#[derive(Clone, Copy)]
struct Running(NonNull<qjs::JSContext>);

// SAFETY: the pointer is used only by the handler of the runtime that the context belongs to and by the
// code that runs it, on the thread that runs it; it is moved with that runtime.
unsafe impl Send for Running {}

impl Countdown {
    /// Runs `action`, during which the countdown of `ctx` can be read and set.
    pub(crate) fn with<R>(&self, ctx: &Ctx<'_>, action: impl FnOnce() -> R) -> R {
        struct Clear<'a>(&'a Countdown);
        impl Drop for Clear<'_> {
            fn drop(&mut self) {
                *self.0.running() = None;
            }
        }
        *self.running() = Some(Running(ctx.as_raw()));
        let _clear = Clear(self);
        action()
    }

    /// Makes the engine look again after `left` checks.
    pub(crate) fn set(&self, left: u64) {
        let checks = i32::try_from(left).unwrap_or(i32::MAX).max(1);
        if let Some(Running(context)) = *self.running() {
            // SAFETY: `with` holds the context while it is here, and the caller runs on its thread.
            unsafe { qjs::JS_SetInterruptCounter(context.as_ptr(), checks) };
        }
    }

    /// Checks until the next look, while a call is running.
    pub(crate) fn left(&self) -> Option<u64> {
        let Running(context) = (*self.running())?;
        // SAFETY: `with` holds the context while it is here, and the caller runs on its thread.
        let left = unsafe { qjs::JS_GetInterruptCounter(context.as_ptr()) };
        Some(u64::try_from(left).unwrap_or(0))
    }

    /// Why the handler is asked; nothing when no call is running. For the handler only.
    pub(crate) fn look(&self) -> Option<Look> {
        let Running(context) = (*self.running())?;
        // SAFETY: `with` holds the context while it is here, and the caller runs on its thread.
        let is_work = unsafe { qjs::JS_IsWorkLook(context.as_ptr()) };
        Some(if is_work { Look::Work } else { Look::Checks })
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Countdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Countdown")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rquickjs::{Context, Runtime};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    /// Runs an endless loop, one check a round, whose second look at the handler sets the countdown
    /// and whose third one ends it; returns how many rounds lay between the two.
    fn rounds_after(left: u64) -> u64 {
        let runtime = Runtime::new().unwrap();
        let countdown = Arc::new(Countdown::default());
        let (shared, mut looks) = (Arc::clone(&countdown), 0);
        runtime.set_interrupt_handler(Some(Box::new(move || {
            assert_eq!(shared.look(), Some(Look::Checks));
            looks += 1;
            if looks == 2 {
                shared.set(left);
            }
            // The first look is at the very first check of a context, before the loop.
            looks > 2
        })));
        let context = Context::full(&runtime).unwrap();
        context.with(|ctx| {
            countdown.with(&ctx, || {
                let endless = "globalThis.rounds = 0; for (;;) rounds++;";
                ctx.eval::<(), _>(endless).unwrap_err();
            });
            ctx.catch();
            ctx.globals().get::<_, u64>("rounds").unwrap() - CHECKS_PER_LOOK
        })
    }

    #[test]
    fn the_engine_looks_after_as_many_checks_as_it_is_told() {
        assert_eq!(rounds_after(1), 1);
        assert_eq!(rounds_after(50), 50);
        assert_eq!(rounds_after(CHECKS_PER_LOOK), CHECKS_PER_LOOK);
    }

    #[test]
    fn this_engine_has_a_countdown_and_looks_inside_long_operations() {
        let runtime = Runtime::new().unwrap();
        let countdown = Arc::new(Countdown::default());
        let context = Context::full(&runtime).unwrap();
        context.with(|ctx| {
            preset(&ctx, 7);
            countdown.with(&ctx, || assert_eq!(countdown.left(), Some(7)));
            assert_eq!(countdown.left(), None);
        });
        let (shared, work) = (Arc::clone(&countdown), Arc::new(AtomicU64::new(0)));
        let seen = Arc::clone(&work);
        runtime.set_interrupt_handler(Some(Box::new(move || {
            if shared.look() == Some(Look::Work) {
                seen.fetch_add(1, Relaxed);
            }
            false
        })));
        context.with(|ctx| {
            for long in [
                "(1n << 200000n).toString().length",
                "`${3n ** 100000n}`.length",
                "((1n << 500000n) - 1n) * ((1n << 500000n) - 1n) > 0n",
                "((1n << 1000000n) - 1n) / ((1n << 500000n) - 1n) > 0n",
                "BigInt('9'.repeat(100000)) > 0n",
                "JSON.stringify(new Array(100000).fill(1)).length",
                "JSON.parse('[' + '1,'.repeat(100000) + '1]').length",
                "new Array(20000).fill('a'.repeat(1000)).sort().length",
            ] {
                let before = work.load(Relaxed);
                countdown.with(&ctx, || {
                    preset(&ctx, 1_000_000);
                    ctx.eval::<rquickjs::Value<'_>, _>(long).unwrap();
                });
                assert!(work.load(Relaxed) > before, "{long}");
            }
        });
    }
}
