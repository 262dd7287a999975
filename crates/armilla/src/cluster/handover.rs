//! Handing the account over to a named node, in order and without waiting for a lease.
//!
//! ```text
//!   requests held ─► those inside answered ─► journal released, account closed ─► the heir takes ─► held requests passed on ─► another life
//! ```
//!
//! The answers that a client gets are those of the old owner before the release, and those of the new one after it; nothing of this node's
//! account is answered in between or later. Then the node begins another life ([`super::life`]), or, where something of the account
//! cannot be got rid of, its process starts itself anew, with the same program, arguments and process id.

use super::life::OpenAccount;
use super::node::{LOST_STATUS, NodeState, end};
use crate::terminal::note;
use armilla_gateway::cluster::LateService;
use armilla_gateway::ops::EngineService;
use armilla_model::clock::monotonic;
use armilla_storage::ledger::NodeRow;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// How long requests that are being answered are waited for.
const INSIDE_WAIT_MAX: Duration = Duration::from_secs(6);
/// How long the heir is waited for, so that held requests can be passed on to it.
const HEIR_WAIT_MAX: Duration = Duration::from_secs(10);
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Tells when the account was handed over, and to whom.
#[derive(Default)]
pub(super) struct Handover {
    heir: OnceLock<String>,
    done: Notify,
}

impl Handover {
    /// Waits until it was; answers who has the account now.
    pub(super) async fn done(&self) -> String {
        self.done.notified().await;
        self.heir.get().cloned().unwrap_or_default()
    }
}

/// Waits on a thread of its own for the word to hand over, and does so once.
pub(super) fn start(
    node: Arc<NodeState>,
    late: LateService<EngineService>,
    opened: Arc<Mutex<OpenAccount>>,
    told: mpsc::Receiver<NodeRow>,
) -> Arc<Handover> {
    let handover = Arc::new(Handover::default());
    let ours = Arc::clone(&handover);
    let waiting = move || {
        // An error says that the node is gone.
        let Ok(heir) = told.recv() else { return };
        if !node.pause_serving() {
            return;
        }
        let begun = monotonic();
        late.shut();
        wait(INSIDE_WAIT_MAX, || late.inside() == 0);
        late.end();
        node.stop();
        opened.lock().give_up();
        let held_ms = begun.elapsed().as_millis();
        tracing::warn!(heir = heir.card.name, held_ms, "the account is handed over");
        if let Err(error) = opened.lock().close() {
            end(LOST_STATUS, &format!("this node gave the account up, not in order: {error}"));
        }
        wait(HEIR_WAIT_MAX, || node.is_elsewhere());
        let _only_once = ours.heir.set(heir.card.name);
        ours.done.notify_one();
    };
    let spawned = thread::Builder::new().name("handover".to_owned()).spawn(waiting);
    spawned.expect("a thread can be started while the node starts");
    handover
}

fn wait(at_most: Duration, is_over: impl Fn() -> bool) {
    let end: Instant = monotonic() + at_most;
    while !is_over() && monotonic() < end {
        thread::sleep(LOOK_EVERY);
    }
}

/// Replaces this process by a fresh one that does the same from the start.
pub(super) fn start_again(heir: &str) -> ! {
    note(&format!("the account was handed over to '{heir}'; this node starts again and follows"));
    end(LOST_STATUS, &format!("it could not ({}): start it again", replace_process()))
}

#[cfg(unix)]
fn replace_process() -> String {
    use std::os::unix::process::CommandExt as _;
    match std::env::current_exe() {
        // Returns only when it failed.
        Ok(program) => {
            let arguments = std::env::args_os().skip(1);
            std::process::Command::new(program).args(arguments).exec().to_string()
        }
        Err(error) => error.to_string(),
    }
}

#[cfg(not(unix))]
fn replace_process() -> String {
    "a process cannot replace itself on this system".to_owned()
}
