//! Raw bindings of QuickJS-ng, as `rquickjs` expects them.
#![allow(non_upper_case_globals)]
#![allow(non_camel_case_types)]
#![allow(non_snake_case)]
#![allow(clippy::all)]
#![no_std]

use ::core::ptr;

/// Common error message for converting between C `size_t` and Rust `usize`;
pub const SIZE_T_ERROR: &str =
    "conversion between C type 'size_t' and Rust type 'usize' overflowed.";

#[cfg(not(target_pointer_width = "64"))]
compile_error!("only the bindings of 64-bit systems are here");

include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
include!("inlines/ptr_64.rs");
include!("inlines/common.rs");

unsafe extern "C" {
    /// Checks of a context until its interrupt handler is asked.
    pub fn JS_SetInterruptCounter(ctx: *mut JSContext, checks: ::core::ffi::c_int);
    /// What is left of them.
    pub fn JS_GetInterruptCounter(ctx: *mut JSContext) -> ::core::ffi::c_int;
    /// Whether the handler is being asked inside one long operation.
    pub fn JS_IsWorkLook(ctx: *mut JSContext) -> bool;
    /// References to objects that come from outside of the engine's own memory.
    pub fn JS_CountHeldReferences(rt: *mut JSRuntime) -> i64;
    /// A function that writes JSON; every member is an interrupt check.
    pub fn JS_NewCheckedJSONWriter(ctx: *mut JSContext) -> JSValue;
    /// A function that says whether a function can see its argument of a number.
    pub fn JS_NewArgumentProbe(ctx: *mut JSContext) -> JSValue;
}
