//! A server inside this process, on a free port of the loopback: for commands that need one only
//! for their own time, and for tests.

use crate::advise::Watching;
use crate::client::Endpoint;
use crate::config::{Arguments, Command, ServeOptions};
use crate::serve;
use armilla_engine::Account;
use clap::Parser as _;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A running server; it serves until [`stop`](Self::stop).
pub(crate) struct LocalServer {
    address: SocketAddr,
    key: String,
    account: Arc<Account>,
    watching: Option<Arc<Watching>>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl LocalServer {
    /// A server that keeps nothing, with a fixed number of ranges per container if given.
    #[cfg(test)]
    pub(crate) async fn start_in_memory(partitions: Option<u32>) -> Result<Self, String> {
        let partitions = partitions.map(|count| format!("--partitions={count}"));
        let flags = ["--in-memory".to_owned()].into_iter().chain(partitions);
        Self::start(flags.map(OsString::from)).await
    }

    /// A server with these flags of `armilla serve`.
    pub(crate) async fn start(flags: impl IntoIterator<Item = OsString>) -> Result<Self, String> {
        let options = options(flags)?;
        let prepared = serve::prepare(&options)?;
        let bound = prepared.server.local_addresses().map_err(|error| error.to_string())?;
        let address = *bound.first().ok_or("the server has no address")?;
        let (stop, stopped) = oneshot::channel::<()>();
        let running = prepared.server.run(async {
            // A dropped sender stops the server too.
            let _ = stopped.await;
        });
        let task = tokio::spawn(async {
            running.await;
        });
        let (key, account, watching) = (prepared.key, prepared.account, prepared.watching);
        Ok(Self { address, key, account, watching, stop, task })
    }

    /// How to reach it.
    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint {
            base: format!("http://{}", self.address),
            key: self.key.clone(),
            insecure: false,
        }
    }

    /// Who observes its requests.
    #[cfg(test)]
    pub(crate) fn watching(&self) -> &Watching {
        self.watching.as_deref().expect("nobody switched it off")
    }

    /// How to reach it over TLS; its certificate is its own.
    #[cfg(test)]
    pub(crate) fn https_endpoint(&self) -> Endpoint {
        Endpoint {
            base: format!("https://{}", self.address),
            key: self.key.clone(),
            insecure: true,
        }
    }

    /// Answers what is in flight, then closes the data.
    pub(crate) async fn stop(self) {
        let _ = self.stop.send(());
        let _ = self.task.await;
        // What was observed is kept before the data is closed.
        drop(self.watching);
        if let Err(error) = self.account.close() {
            tracing::warn!(%error, "the server inside this process did not close cleanly");
        }
    }
}

pub(crate) fn options(flags: impl IntoIterator<Item = OsString>) -> Result<ServeOptions, String> {
    let fixed = ["armilla", "serve", "--host=127.0.0.1", "--port=0"].map(OsString::from);
    let parsed = Arguments::try_parse_from(fixed.into_iter().chain(flags));
    match parsed.map_err(|error| error.to_string())?.command {
        Some(Command::Serve(options)) => Ok(*options),
        _ => Err("only the flags of serve will do here".to_owned()),
    }
}
