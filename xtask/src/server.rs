//! The server as a child process: started on a free port, waited for, killed.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::rest::Client;

/// How long a server may take until it answers.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// The same for one that is watched by a tool.
const READY_WATCHED_WITHIN: Duration = Duration::from_secs(240);
const READY_POLL: Duration = Duration::from_millis(10);
/// How long a server may take to stop when asked politely.
const STOP_WITHIN: Duration = Duration::from_secs(20);
/// Below what systems give to outgoing connections: one of those could have the port of a server that was killed when it is started again.
const PORTS: Range<u16> = 20_000..32_000;

/// A running server; killed when dropped.
pub(crate) struct Server {
    child: Child,
    port: u16,
}

impl Server {
    /// Starts `binary` on a free loopback port over the data folder, and waits until it is ready.
    /// What the server prints goes to `log`.
    pub(crate) fn start(binary: &Path, data: &Path, log: &Path) -> Outcome<Self> {
        Self::start_with(binary, data, log, &[])
    }

    /// The same with further options.
    pub(crate) fn start_with(
        binary: &Path,
        data: &Path,
        log: &Path,
        options: &[&str],
    ) -> Outcome<Self> {
        let mut server = Self::spawn(binary, data, log, options)?;
        server.wait_until_ready(log)?;
        Ok(server)
    }

    /// The same at a port that clients have in their source.
    pub(crate) fn start_at(
        port: u16,
        binary: &Path,
        data: &Path,
        log: &Path,
        options: &[&str],
    ) -> Outcome<Self> {
        let mut server = Self::spawn_as(Command::new(binary), port, data, log, options)?;
        server.wait_until_ready(log)?;
        Ok(server)
    }

    /// The same for a server that may open so many files, and no more whatever it asks.
    pub(crate) fn start_with_files(
        binary: &Path,
        data: &Path,
        log: &Path,
        files: u64,
    ) -> Outcome<Self> {
        let mut shell = Command::new("sh");
        // Sets the soft and the hard limit; the process then becomes the server.
        shell.arg("-c").arg(format!("ulimit -n {files}; exec \"$0\" \"$@\"")).arg(binary);
        let mut server = Self::spawn_as(shell, free_port()?, data, log, &[])?;
        server.wait_until_ready(log)?;
        Ok(server)
    }

    /// The same for a server that may have so many bytes of memory of its own; what it asks for beyond them is refused by the system.
    pub(crate) fn start_with_memory(
        binary: &Path,
        data: &Path,
        log: &Path,
        mebibytes: u64,
    ) -> Outcome<Self> {
        let mut shell = Command::new("sh");
        let kilobytes = mebibytes * 1024;
        shell.arg("-c").arg(format!("ulimit -d {kilobytes}; exec \"$0\" \"$@\"")).arg(binary);
        let mut server = Self::spawn_as(shell, free_port()?, data, log, &[])?;
        server.wait_until_ready(log)?;
        Ok(server)
    }

    /// The same for a command that runs the server under a tool which makes it many times slower. The command becomes the server.
    pub(crate) fn start_watched(
        command: Command,
        data: &Path,
        log: &Path,
        options: &[&str],
    ) -> Outcome<Self> {
        let mut server = Self::spawn_as(command, free_port()?, data, log, options)?;
        server.wait_until_ready_within(READY_WATCHED_WITHIN, log)?;
        Ok(server)
    }

    /// Starts `binary` without waiting for it.
    pub(crate) fn spawn(binary: &Path, data: &Path, log: &Path, options: &[&str]) -> Outcome<Self> {
        Self::spawn_as(Command::new(binary), free_port()?, data, log, options)
    }

    fn spawn_as(
        mut command: Command,
        port: u16,
        data: &Path,
        log: &Path,
        options: &[&str],
    ) -> Outcome<Self> {
        let output = std::fs::File::options().create(true).append(true).open(log)?;
        forget_settings(&mut command);
        let child = command
            .args(["serve", "--host", "127.0.0.1", "--port", &port.to_string(), "--data"])
            .arg(data)
            .args(options)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .map_err(|error| {
                format!("{} does not start: {error}", command.get_program().to_string_lossy())
            })?;
        Ok(Self { child, port })
    }

    /// The address to give to a client. SDK tests prefer the name to the number, as users do.
    pub(crate) fn endpoint(&self, scheme: &str) -> String {
        format!("{scheme}://localhost:{}/", self.port)
    }

    /// A signing client for this server.
    pub(crate) fn client(&self) -> Client {
        Client::new(&self.base())
    }

    /// Where it listens, as the beginning of an address without its path.
    pub(crate) fn base(&self) -> String {
        format!("http://{}", self.address())
    }

    /// The number of its process.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Whether the process has ended by itself, and how.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Ends the process at once, with SIGKILL, as a power failure would.
    pub(crate) fn kill(mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    /// Asks the process to stop (SIGTERM) and waits for a clean end.
    pub(crate) fn stop(mut self) -> Outcome<()> {
        let id = self.child.id().to_string();
        let asked = Command::new("kill").args(["-TERM", &id]).status()?;
        if !asked.success() {
            return Err("the server could not be asked to stop".into());
        }
        let deadline = Instant::now() + STOP_WITHIN;
        while Instant::now() < deadline {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(format!("the server stopped with {status}").into()),
                None => thread::sleep(READY_POLL),
            }
        }
        Err(format!("the server did not stop within {} s of SIGTERM", STOP_WITHIN.as_secs()).into())
    }

    fn wait_until_ready(&mut self, log: &Path) -> Outcome<()> {
        self.wait_until_ready_within(READY_WITHIN, log)
    }

    fn wait_until_ready_within(&mut self, within: Duration, log: &Path) -> Outcome<()> {
        let client = self.client();
        let deadline = Instant::now() + within;
        while Instant::now() < deadline {
            if let Some(status) = self.ended() {
                return Err(format!("the server ended with {status}:\n{}", tail(log)).into());
            }
            if client.is_ready() {
                return Ok(());
            }
            thread::sleep(READY_POLL);
        }
        let seconds = within.as_secs();
        Err(format!("the server was not ready within {seconds} s:\n{}", tail(log)).into())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only when the process is gone already, which is what we want.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The environment can configure a server; a test server must not hear what was meant for another.
pub(crate) fn forget_settings(command: &mut Command) {
    const SHARED: [&str; 7] = [
        "PORT",
        "PROTOCOL",
        "KEY_FILE",
        "DATA_PATH",
        "CERT_PATH",
        "CERT_SECRET",
        "GATEWAY_PUBLIC_ENDPOINT",
    ];
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("ARMILLA_") || SHARED.contains(&&*text) {
            command.env_remove(&name);
        }
    }
}

/// The last lines of a log, for an error message.
pub(crate) fn tail(log: &Path) -> String {
    const LINES: usize = 20;
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().collect();
    let start = lines.len().saturating_sub(LINES);
    lines.get(start..).unwrap_or_default().join("\n")
}

/// A port nobody listens on at this moment. Each is given once.
pub(crate) fn free_port() -> io::Result<u16> {
    const MANY: u16 = PORTS.end - PORTS.start;
    // Two chores at a time begin at different places.
    static NEXT: LazyLock<AtomicU16> = LazyLock::new(|| AtomicU16::new(fastrand::u16(..MANY)));
    let mut ports = (0..MANY).map(|_| PORTS.start + NEXT.fetch_add(1, Ordering::Relaxed) % MANY);
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    ports.find(is_free).ok_or_else(|| io::ErrorKind::AddrInUse.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_given_twice_and_none_that_an_outgoing_connection_may_have() {
        let mut given: Vec<u16> = (0..100).map(|_| free_port().unwrap()).collect();
        assert!(given.iter().all(|port| PORTS.contains(port)));
        given.sort_unstable();
        given.dedup();
        assert_eq!(given.len(), 100);
    }
}
