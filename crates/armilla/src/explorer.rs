//! The data explorer: its options, and `armilla explorer`, which opens it in the browser, signed in.

use crate::config::{ServeOptions, environment};
use crate::control;
use crate::terminal::{note, say};
use armilla_gateway::explorer::{ExplorerSettings, ExplorerSource};
use armilla_gateway::limits::REQUEST_LOG_ENTRIES;
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// How the explorer is served.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Explorer")]
pub(crate) struct ExplorerOptions {
    /// Do not serve the data explorer at /_explorer/
    #[arg(long, env = "ARMILLA_NO_EXPLORER")]
    pub(crate) no_explorer: bool,
    /// Folder with another build of the explorer, served instead of the one in this binary
    #[arg(long, env = "ARMILLA_EXPLORER_DIR", value_name = "DIR")]
    pub(crate) explorer_dir: Option<PathBuf>,
    /// Requests that the explorer can look back at; 0 keeps none
    #[arg(long, env = "ARMILLA_REQUEST_LOG", default_value_t = REQUEST_LOG_ENTRIES, value_name = "N")]
    pub(crate) request_log: usize,
}

/// Which server's explorer to open.
#[derive(Clone, Debug, Args)]
pub(crate) struct ExplorerCommand {
    /// The data folder of the running server
    #[arg(long, env = "ARMILLA_DATA", default_value = "./armilla-data")]
    data: PathBuf,
    /// Print the address and open nothing
    #[arg(long)]
    print: bool,
}

impl ServeOptions {
    /// The explorer as the gateway is told of it.
    pub(crate) fn explorer(&self) -> Result<ExplorerSettings, String> {
        let off = self.explorer.no_explorer || self.emulator.enable_explorer == Some(false);
        let source = match &self.explorer.explorer_dir {
            _ if off => ExplorerSource::Off,
            Some(folder) if !folder.join("index.html").is_file() => {
                return Err(format!(
                    "--explorer-dir: there is no index.html in {}",
                    folder.display()
                ));
            }
            Some(folder) => ExplorerSource::Folder(folder.clone()),
            None => ExplorerSource::Embedded,
        };
        let port = match (self.emulator.explorer_port, environment("EXPLORER_PORT")) {
            (Some(port), _) => Some(port),
            (None, Some(text)) => Some(
                text.parse().map_err(|_| format!("EXPLORER_PORT is '{text}', which is no port"))?,
            ),
            (None, None) => None,
        };
        let port = port.filter(|_| !off);
        Ok(ExplorerSettings { source, port })
    }

    /// Where a browser on this machine finds the explorer.
    pub(crate) fn explorer_address(&self, bound: &[SocketAddr]) -> String {
        let port = bound.first().map_or(0, SocketAddr::port);
        let host = match self.host.as_str() {
            "127.0.0.1" | "0.0.0.0" | "::" | "::1" => "localhost",
            host => host,
        };
        // Nobody signs in over http beyond this machine.
        let is_near = bound
            .first()
            .is_none_or(|address| address.ip().is_loopback() || address.ip().is_unspecified());
        let scheme = if is_near { "http" } else { "https" };
        format!("{scheme}://{host}:{port}/_explorer/")
    }
}

/// `armilla explorer`.
pub(crate) fn open(command: &ExplorerCommand) -> Result<(), String> {
    let folder = &command.data;
    let Some(answer) = control::ask(folder, "ticket now") else {
        return Err(format!(
            "no server has {} open: start one with `armilla --data {}`",
            folder.display(),
            folder.display()
        ));
    };
    let address = answer?;
    if command.print {
        say(&address);
        return Ok(());
    }
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut browser = Command::new(opener);
    browser.arg(&address).stdout(Stdio::null()).stderr(Stdio::null());
    match browser.status() {
        Ok(status) if status.success() => say("The explorer is open in your browser."),
        _ => {
            note("no browser could be opened; within a minute, open this address yourself:");
            say(&address);
        }
    }
    Ok(())
}
