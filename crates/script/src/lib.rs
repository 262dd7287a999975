//! JavaScript in a box with time and memory limits.
//!
//! Stored procedures, triggers and user-defined functions run here. The crate knows nothing of
//! engine, storage, HTTP or SQL: what a script may do to items goes through one trait,
//! [`host::Host`], which a transaction implements.
//!
//! ```text
//!   ScriptEngine ── a pool of workshops, each one JavaScript runtime with one context
//!       │
//!       │ run_procedure / run_pre_trigger / run_post_trigger / udf_session
//!       ▼
//!   a context as new ───► library.js (getContext, __, console, Error)
//!       │                     │ wishes: "create this item, then call me"
//!       ▼                     ▼
//!   driver loop ─────────► Host (one transaction of one logical partition)
//! ```
//!
//! A collection method never reaches the database by itself. It checks its arguments, queues a
//! wish and returns `true`; when the user's function has ended, the driver loop takes the wishes
//! one at a time, asks the host, and runs the callback with the answer. So a host is only ever
//! called from plain Rust code on the caller's thread, and needs no locks or shared ownership.
//!
//! What a script cannot do: outlive its call (after it the memory of its runtime is put back, byte for
//! byte, to what it was before: `arena`), catch or swallow its stop (`meter`, `countdown`), use more
//! memory than allowed without being stopped for it (`memory`), compile source (there is no `eval`),
//! or reach anything but its host.
//!
//! What is *not* promised: that a stop comes to the millisecond. The engine can be interrupted
//! between two steps of a script and inside loops, regular expressions, most array functions, sorting,
//! JSON and the arithmetic of large integers, but not inside every operation on one huge text. No value
//! may be larger than a quarter of the call's memory, the meter looks at least every two hundred
//! steps and more often the longer they take and the more memory is in use, no large block is granted
//! after the deadline, `library/armour.js` takes out the functions that could run for hours, and
//! whoever is more than a second late is blocked at once. `examples/slowest.rs` measures what is left.

mod arena;
mod bytecode;
mod clock;
mod compile;
mod countdown;
mod drive;
mod engine;
mod error;
pub mod host;
mod limits;
mod memory;
mod meter;
mod offenders;
mod procedure;
mod random;
mod status;
mod trigger;
mod udf;
mod workshop;

pub use compile::{Compiled, ScriptKind};
pub use engine::ScriptEngine;
pub use error::{CompileError, ScriptError, ScriptErrorKind};
pub use limits::Limits;
pub use procedure::{AttemptBounds, CallOptions, ScriptOutcome};
pub use trigger::{TriggerOperation, TriggerOutcome, TriggerRequest};
pub use udf::UdfSession;
