//! Memory that nobody uses any more goes back to the system while the server rests.
//!
//! The allocator keeps what was freed for a second and gives it back when somebody asks for memory afterwards. A server that has been busy
//! and is asked nothing more would keep all of it, so a thread of little work asks in its place.

use std::thread;
use std::time::Duration;

use crate::terminal::note;

/// How often the allocator is reminded. What was freed in the last second stays: it is likely to be wanted again.
const REMINDED_EVERY: Duration = Duration::from_secs(2);

/// Starts the thread; it lasts as long as the process.
pub(crate) fn give_back_at_rest() {
    let spawned = thread::Builder::new().name("allocator".to_owned()).spawn(|| {
        loop {
            thread::park_timeout(REMINDED_EVERY);
            remind();
        }
    });
    if let Err(error) = spawned {
        note(&format!("memory will be given back late, a thread could not be started: {error}"));
    }
}

/// Has the allocator give back what has been free for longer than its delay.
#[allow(
    unsafe_code,
    reason = "the allocator's own function, which its crate leaves unsafe as all foreign ones"
)]
fn remind() {
    // SAFETY: it may be called from any thread at any time, and touches only the allocator's own state.
    unsafe { libmimalloc_sys::mi_collect(false) };
}
