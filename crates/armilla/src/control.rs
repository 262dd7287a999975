//! The control socket: how a second process asks a running server for a backup or a merge.
//!
//! It lies in the data folder, so whoever may write there may use it, and nobody else. One line in,
//! one line out.

use armilla_engine::Account;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SOCKET: &str = "control.sock";

/// The listening end; the socket goes when it is dropped.
pub(crate) struct Control {
    path: PathBuf,
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Listens for commands on a thread of its own.
#[cfg(unix)]
pub(crate) fn start(folder: &Path, account: Arc<Account>) -> Control {
    use std::os::unix::net::UnixListener;
    let path = folder.join(SOCKET);
    // A socket that a killed server left behind; the folder's lock says that no other lives.
    let _ = std::fs::remove_file(&path);
    match UnixListener::bind(&path) {
        Ok(listener) => {
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let _ = answer(stream, &account);
                }
            });
        }
        Err(error) => tracing::warn!(%error, "no control socket: backups need the server stopped"),
    }
    Control { path }
}

#[cfg(not(unix))]
pub(crate) fn start(folder: &Path, _account: Arc<Account>) -> Control {
    Control { path: folder.join(SOCKET) }
}

#[cfg(unix)]
fn answer(mut stream: std::os::unix::net::UnixStream, account: &Account) -> std::io::Result<()> {
    let mut line = String::new();
    BufReader::new(stream.try_clone()?).read_line(&mut line)?;
    let reply = match line.trim_end().split_once(' ') {
        Some(("backup", folder)) => {
            match armilla_storage::backup::backup(&*account.snapshot(), Path::new(folder)) {
                Ok(_) => "done".to_owned(),
                Err(error) => format!("failed {error}"),
            }
        }
        Some(("merge", names)) => merge(account, names),
        _ => "failed the command is not known".to_owned(),
    };
    writeln!(stream, "{reply}")
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
        writeln!(stream, "{command}")?;
        let mut reply = String::new();
        BufReader::new(&stream).read_line(&mut reply)?;
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
