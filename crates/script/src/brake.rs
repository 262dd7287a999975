//! How the engine is made to look at its interrupt handler when we want it to.
//!
//! The engine looks once in ten thousand checks (a check is a loop iteration or a call), and an
//! interrupt that the handler asks for cannot be caught by a script. Two things are wrong with that.
//! Ten thousand steps may be an hour, when each of them multiplies large numbers. And some built-in
//! operations swallow an interrupt by accident: a promise constructor turns it into a rejection,
//! closing an iterator drops it, so that an endless loop inside such an operation, inside another
//! loop, would be interrupted for ever inside and never outside.
//!
//! So the handler sets the engine's countdown itself: to a few hundred while all is well, to one once
//! the script must end. The countdown is a private number inside the engine's context. Its place is
//! found by experiment when the first engine starts ([`countdown_offset`]): the one number of the
//! context that goes down with the checks, and whose change is seen to bring the next look. Should an
//! engine have no such number, the handler uses checks up instead, by calling a function that
//! counts; that is slower, so it is done for stops and for scripts with much memory only.
#![allow(unsafe_code, reason = "the safe API has no way to the engine's countdown")]

use std::collections::BTreeMap;
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rquickjs::allocator::{Allocator, RustAllocator};
use rquickjs::{Context, Ctx, Function, Runtime, qjs};

/// Checks from one look of the engine at its handler to the next, by itself.
pub(crate) const CHECKS_PER_LOOK: u64 = 10_000;
/// Stack that counting may use beyond the script's own limit.
const BRAKE_STACK_BYTES: usize = 32 << 10;

/// What to hand to the counting function right after a look, so that `left` checks remain. A round
/// is two checks; the call, the end of the loop and the last line are one each.
fn rounds_leaving(left: u64) -> u64 {
    (CHECKS_PER_LOOK - 3).saturating_sub(left) / 2
}

/// The brake of one context.
pub(crate) struct Brake {
    context: NonNull<qjs::JSContext>,
    count: qjs::JSValue,
    stack_bytes_max: usize,
    countdown: Option<Countdown>,
}

// SAFETY: a brake is used only by the handler of the runtime that its pointers belong to, on the
// thread that runs it; it is moved with that runtime.
unsafe impl Send for Brake {}

impl Brake {
    /// A brake for a context. `count` is the counting function, made in that very context (checks
    /// are counted per context).
    fn new(ctx: &Ctx<'_>, count: &Function<'_>, stack_bytes_max: usize) -> Self {
        let countdown = countdown_offset().map(|offset| Countdown::at(ctx, offset));
        Self { context: ctx.as_raw(), count: count.as_raw(), stack_bytes_max, countdown }
    }

    /// Makes the engine look again after `left` checks.
    ///
    /// # Safety
    ///
    /// The context and the counting function must still be alive, and the caller must be the
    /// interrupt handler of their runtime.
    unsafe fn apply(&self, left: u64) {
        // SAFETY: as the caller promises.
        unsafe {
            match &self.countdown {
                Some(countdown) => countdown.set(i32::try_from(left).unwrap_or(i32::MAX)),
                None => self.count(left),
            }
        }
    }

    /// Uses up checks, all but `left` of those until the next look.
    ///
    /// # Safety
    ///
    /// As for [`Brake::apply`].
    unsafe fn count(&self, left: u64) {
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

/// The engine's countdown in one context.
struct Countdown(NonNull<i32>);

impl Countdown {
    /// The countdown of a context, by its place.
    fn at(ctx: &Ctx<'_>, offset: usize) -> Self {
        let context = ctx.as_raw().cast::<u8>();
        // SAFETY: `countdown_offset` found the place inside the block of a context of this very
        // engine; all its contexts are of one size, and the place is aligned for an `i32`.
        Self(unsafe { context.add(offset) }.cast())
    }

    /// # Safety
    ///
    /// The context must be alive and its runtime on this thread.
    unsafe fn get(&self) -> i32 {
        // SAFETY: the place is valid, and nobody else looks at it now.
        unsafe { self.0.as_ptr().read_volatile() }
    }

    /// # Safety
    ///
    /// As for [`Countdown::get`].
    unsafe fn set(&self, checks: i32) {
        // SAFETY: the place is valid, nobody else looks at it now, and any number is a valid one.
        unsafe { self.0.as_ptr().write_volatile(checks.max(1)) }
    }
}

/// Makes the engine look at its handler after `left` checks of a context that runs nothing now.
/// False when this engine has no countdown to set.
pub(crate) fn preset(ctx: &Ctx<'_>, left: u64) -> bool {
    let Some(offset) = countdown_offset() else { return false };
    // SAFETY: the context is alive and its runtime on this thread, as `ctx` proves.
    unsafe { Countdown::at(ctx, offset).set(i32::try_from(left).unwrap_or(i32::MAX)) };
    true
}

/// Where the countdown is inside a context, if this engine has one.
fn countdown_offset() -> Option<usize> {
    static OFFSET: OnceLock<Option<usize>> = OnceLock::new();
    *OFFSET.get_or_init(find_countdown)
}

/// Finds the one number that goes down with the checks, and tries it.
fn find_countdown() -> Option<usize> {
    let blocks = Blocks::default();
    let runtime = Runtime::new_with_alloc(Recorder(Arc::clone(&blocks))).ok()?;
    let looks = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&looks);
    runtime.set_interrupt_handler(Some(Box::new(move || {
        counted.fetch_add(1, Relaxed);
        false
    })));
    let context = Context::full(&runtime).ok()?;
    context.with(|ctx| {
        let count: Function<'_> = ctx.eval("(function (n) { while (n > 0) n--; })").ok()?;
        let run = |rounds: i32| count.call::<_, ()>((rounds,)).ok();
        run(1)?;
        let first = numbers(&ctx, &blocks);
        run(100)?;
        let second = numbers(&ctx, &blocks);
        run(300)?;
        let third = numbers(&ctx, &blocks);
        // Two hundred rounds more are so many checks more.
        let per_round = [200, 400];
        let mut places = (0..first.len()).filter(|at| {
            let (short, long) = (
                i64::from(first[*at]) - i64::from(second[*at]),
                i64::from(second[*at]) - i64::from(third[*at]),
            );
            let counts = (1..=CHECKS_PER_LOOK as i64).contains(&i64::from(third[*at]));
            counts && (100..=210).contains(&short) && per_round.contains(&(long - short))
        });
        let offset = places.next().filter(|_| places.next().is_none())? * size_of::<i32>();
        let (countdown, seen) = (Countdown::at(&ctx, offset), || looks.load(Relaxed));
        // SAFETY: the context is alive and on this thread.
        unsafe {
            let before = seen();
            countdown.set(50);
            run(5)?;
            let untouched = seen() == before && countdown.get() < 50;
            countdown.set(1);
            run(1)?;
            (untouched && seen() == before + 1).then_some(offset)
        }
    })
}

/// All the numbers of a context, up to the end of its block.
fn numbers(ctx: &Ctx<'_>, blocks: &Blocks) -> Vec<i32> {
    let context = ctx.as_raw().as_ptr().cast::<i32>();
    let blocks = blocks.lock().unwrap_or_else(PoisonError::into_inner);
    let block = blocks.range(..=context.addr()).next_back();
    let end = block.map_or(0, |(start, size)| start + size);
    let length = end.saturating_sub(context.addr()) / size_of::<i32>();
    // SAFETY: the context lies in that block, which the engine asked for filled with zeros, so all of
    // it may be read.
    (0..length).map(|at| unsafe { context.add(at).read_unaligned() }).collect()
}

/// Blocks filled with zeros, by their address, and their sizes.
type Blocks = Arc<Mutex<BTreeMap<usize, usize>>>;

/// An allocator that remembers the blocks it filled with zeros.
struct Recorder(Blocks);

// SAFETY: everything is done by `RustAllocator`, which keeps the promises of the trait.
unsafe impl Allocator for Recorder {
    fn alloc(&mut self, size: usize) -> *mut u8 {
        RustAllocator.alloc(size)
    }

    fn calloc(&mut self, count: usize, size: usize) -> *mut u8 {
        let block = RustAllocator.calloc(count, size);
        let mut blocks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        blocks.insert(block.addr(), count * size);
        block
    }

    unsafe fn dealloc(&mut self, block: *mut u8) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&block.addr());
        // SAFETY: as the caller promises.
        unsafe { RustAllocator.dealloc(block) }
    }

    unsafe fn realloc(&mut self, block: *mut u8, new_size: usize) -> *mut u8 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&block.addr());
        // SAFETY: as the caller promises.
        unsafe { RustAllocator.realloc(block, new_size) }
    }

    unsafe fn usable_size(block: *mut u8) -> usize {
        // SAFETY: as the caller promises.
        unsafe { RustAllocator::usable_size(block) }
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

    /// Whether a look costs next to nothing, so that many may be asked for.
    pub(crate) fn is_cheap(&self) -> bool {
        self.lock().as_ref().is_some_and(|brake| brake.countdown.is_some())
    }

    /// Checks until the next look, if that can be known.
    pub(crate) fn left(&self) -> Option<u64> {
        let slot = self.lock();
        // SAFETY: `with` holds the context while the slot is filled; the caller runs on its thread.
        let left = unsafe { slot.as_ref()?.countdown.as_ref()?.get() };
        Some(u64::try_from(left).unwrap_or(0))
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

    const LIBRARY: &str = include_str!("library/library.js");

    /// Runs an endless loop, one check a round, whose second look at the handler applies the brake
    /// and whose third one ends it; returns how many rounds lay between the two.
    fn rounds_after_brake(count: &str, by_countdown: bool) -> i32 {
        let runtime = Runtime::new().unwrap();
        let slot = Arc::new(BrakeSlot::default());
        let (shared, mut looks) = (Arc::clone(&slot), 0);
        runtime.set_interrupt_handler(Some(Box::new(move || {
            looks += 1;
            if looks == 2 {
                shared.apply(1);
            }
            // The first look is at the very first check of a context, before the loop.
            looks > 2
        })));
        let context = Context::full(&runtime).unwrap();
        context.with(|ctx| {
            let count: Function<'_> = ctx.eval(format!("({count})")).unwrap();
            slot.with(&ctx, &count, 256 << 10, || {
                if !by_countdown {
                    slot.lock().as_mut().unwrap().countdown = None;
                }
                let endless = "globalThis.rounds = 0; for (;;) rounds++;";
                ctx.eval::<(), _>(endless).unwrap_err();
            });
            ctx.catch();
            ctx.globals().get::<_, i32>("rounds").unwrap() - 9_999
        })
    }

    #[test]
    fn after_the_brake_the_engine_looks_at_every_check() {
        assert!(rounds_after_brake("() => 0", false) > 9_900);
        let start = LIBRARY.find("function count(left)").unwrap();
        let length = LIBRARY[start..].find("\n  }").unwrap() + "\n  }".len();
        assert_eq!(rounds_after_brake(&LIBRARY[start..start + length], false), 1);
        assert_eq!(rounds_after_brake("() => 0", true), 1);
    }

    #[test]
    fn this_engine_has_a_countdown() {
        assert!(countdown_offset().is_some());
    }
}
