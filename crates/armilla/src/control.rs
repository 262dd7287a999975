//! The control socket: how a second process asks a running server for a backup or a merge.
//!
//! It lies in the data folder, so whoever may write there may use it, and nobody else. One line in,
//! one line out. Each peer has a thread of its own and a bounded time to send its line, so one that
//! says nothing holds up nobody; commands run one after the other.

use armilla_engine::Account;
use armilla_gateway::auth::Authenticator;
use armilla_model::clock::Clock;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const SOCKET: &str = "control.sock";
/// Peers served at once; further ones are told so.
const PEERS_MAX: usize = 16;
/// Time to send a line, and to take the answer.
const PEER_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of a line.
const LINE_LENGTH_MAX: u64 = 64 * 1024;

/// How browsers are let in that this machine's user opens.
pub(crate) struct Tickets {
    pub(crate) authenticator: Arc<Authenticator>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Where the explorer is.
    pub(crate) address: String,
}

impl Tickets {
    #[cfg(unix)]
    fn issue(&self) -> String {
        match self.authenticator.sessions().issue_ticket(self.clock.now_seconds()) {
            Ok(ticket) => format!("done {}#ticket={ticket}", self.address),
            Err(error) => format!("failed {error}"),
        }
    }
}

/// The listening end; the socket goes when it is dropped.
pub(crate) struct Control {
    path: PathBuf,
    over: Arc<AtomicBool>,
}

impl Drop for Control {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        // The thread finds it out when somebody comes.
        #[cfg(unix)]
        let _ = std::os::unix::net::UnixStream::connect(&self.path);
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Listens for commands on a thread of its own.
#[cfg(unix)]
pub(crate) fn start(folder: &Path, account: Arc<Account>, tickets: Tickets) -> Control {
    listen(folder, PEER_TIMEOUT, move |command| run(command, &account, &tickets))
}

/// Answers each line with what `run` makes of it.
#[cfg(unix)]
fn listen(
    folder: &Path,
    peer_timeout: Duration,
    run: impl Fn(&str) -> String + Send + Sync + 'static,
) -> Control {
    use std::os::unix::net::UnixListener;
    let (path, over) = (folder.join(SOCKET), Arc::new(AtomicBool::new(false)));
    // A socket that a killed server left behind; the folder's lock says that no other lives.
    let _ = std::fs::remove_file(&path);
    match UnixListener::bind(&path) {
        Ok(listener) => {
            let peers = Arc::new(Peers { open: AtomicUsize::new(0), run: Mutex::new(run) });
            let is_over = Arc::clone(&over);
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    if is_over.load(Ordering::Acquire) {
                        return;
                    }
                    let _ = stream.set_read_timeout(Some(peer_timeout));
                    let _ = stream.set_write_timeout(Some(peer_timeout));
                    admit(stream, &peers);
                }
            });
        }
        Err(error) => tracing::warn!(%error, "no control socket: backups need the server stopped"),
    }
    Control { path, over }
}

/// What the threads of peers share.
struct Peers<R> {
    open: AtomicUsize,
    /// Held while a command runs: two backups at once would only slow each other down.
    run: Mutex<R>,
}

/// Gives a peer its thread, or turns it away when there are too many.
#[cfg(unix)]
fn admit<R: Fn(&str) -> String + Send + Sync + 'static>(
    mut stream: std::os::unix::net::UnixStream,
    peers: &Arc<Peers<R>>,
) {
    if peers.open.fetch_add(1, Ordering::AcqRel) >= PEERS_MAX {
        peers.open.fetch_sub(1, Ordering::AcqRel);
        let _ = writeln!(stream, "failed too many commands are waiting; try again");
        return;
    }
    let shared = Arc::clone(peers);
    let answering = std::thread::Builder::new().name("control".to_owned()).spawn(move || {
        let _ = answer(stream, &shared.run);
        shared.open.fetch_sub(1, Ordering::AcqRel);
    });
    if answering.is_err() {
        peers.open.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(not(unix))]
pub(crate) fn start(folder: &Path, _account: Arc<Account>, _tickets: Tickets) -> Control {
    Control { path: folder.join(SOCKET), over: Arc::default() }
}

#[cfg(unix)]
fn answer(
    mut stream: std::os::unix::net::UnixStream,
    run: &Mutex<impl Fn(&str) -> String>,
) -> std::io::Result<()> {
    let mut line = String::new();
    BufReader::new(stream.try_clone()?).take(LINE_LENGTH_MAX).read_line(&mut line)?;
    let reply = {
        let run = run.lock().unwrap_or_else(PoisonError::into_inner);
        run(line.trim_end())
    };
    writeln!(stream, "{reply}")
}

/// Runs a command and says how it went.
#[cfg(unix)]
fn run(command: &str, account: &Account, tickets: &Tickets) -> String {
    match command.split_once(' ') {
        Some(("backup", _)) if !account.slice().is_whole() => {
            "failed this node has one slice of the account open: use armilla backup --store URL"
                .to_owned()
        }
        Some(("backup", folder)) => {
            match armilla_storage::backup::backup(&*account.snapshot(), Path::new(folder)) {
                Ok(_) => "done".to_owned(),
                Err(error) => format!("failed {error}"),
            }
        }
        Some(("merge", names)) => merge(account, names),
        Some(("ticket", _)) => tickets.issue(),
        _ => "failed the command is not known".to_owned(),
    }
}

#[cfg(unix)]
fn merge(account: &Account, names: &str) -> String {
    let Some((database, container)) = names.split_once('/') else {
        return "failed a merge needs a database and a container".to_owned();
    };
    match account.merge_partitions(database, container) {
        Ok(count) => format!("done {count}"),
        Err(error) => format!("failed {error}"),
    }
}

/// Asks the server that has this folder open, which answers `done`, perhaps with a word more, or
/// `failed` and why; `None` when there is none to ask.
#[cfg(unix)]
pub(crate) fn ask(folder: &Path, command: &str) -> Option<Result<String, String>> {
    use std::os::unix::net::UnixStream;
    let mut stream = UnixStream::connect(folder.join(SOCKET)).ok()?;
    let mut exchange = || -> std::io::Result<String> {
        let written = writeln!(stream, "{command}");
        let mut reply = String::new();
        // A server that turns us away says why before it hears the command.
        BufReader::new(&stream).read_line(&mut reply)?;
        if reply.is_empty() {
            written?;
        }
        Ok(reply.trim_end().to_owned())
    };
    Some(match exchange() {
        Ok(reply) => match reply.strip_prefix("done") {
            Some(word) => Ok(word.trim().to_owned()),
            None => Err(reply.strip_prefix("failed ").unwrap_or(&reply).to_owned()),
        },
        Err(error) => Err(error.to_string()),
    })
}

#[cfg(not(unix))]
pub(crate) fn ask(_folder: &Path, _command: &str) -> Option<Result<String, String>> {
    None
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    /// Longer than any test should take.
    const NEVER: Duration = Duration::from_secs(600);

    fn echo(command: &str) -> String {
        format!("done {command}")
    }

    #[test]
    fn silent_peers_hold_up_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let _control = listen(folder.path(), NEVER, echo);
        let connect = || UnixStream::connect(folder.path().join(SOCKET)).unwrap();
        let silent: Vec<_> = (0..PEERS_MAX - 1).map(|_| connect()).collect();
        assert_eq!(ask(folder.path(), "backup here"), Some(Ok("backup here".to_owned())));
        drop(silent);
    }

    #[test]
    fn silent_peers_are_sent_away_after_their_time() {
        let folder = tempfile::tempdir().unwrap();
        let _control = listen(folder.path(), Duration::from_millis(50), echo);
        let mut silent = UnixStream::connect(folder.path().join(SOCKET)).unwrap();
        let mut said = String::new();
        silent.read_to_string(&mut said).unwrap();
        assert_eq!(said, "", "the server closes without an answer");
        assert_eq!(ask(folder.path(), "x"), Some(Ok("x".to_owned())));
    }

    #[test]
    fn too_many_peers_are_told_so() {
        let folder = tempfile::tempdir().unwrap();
        let _control = listen(folder.path(), NEVER, echo);
        let silent: Vec<_> = (0..PEERS_MAX)
            .map(|_| UnixStream::connect(folder.path().join(SOCKET)).unwrap())
            .collect();
        let refused = ask(folder.path(), "x").unwrap().unwrap_err();
        assert!(refused.contains("too many"), "{refused}");
        drop(silent);
    }
}
