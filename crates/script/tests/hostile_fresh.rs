//! The hostile scripts of `hostile.rs` once more, each call in a runtime and a context of its own: what holds
//! because memory is put back after a call must hold without it.

#[path = "hostile.rs"]
mod hostile;
