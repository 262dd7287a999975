//! `armilla advise`: asks a server for advice and prints it. The observer inside a server that is asked is in [`watching`].

mod allowance;
mod backlog;
mod watching;

pub(crate) use watching::{Watching, watch};

use crate::client::{Call, Client, ConnectOptions};
use crate::terminal::say;
use armilla_advisor::report;
use armilla_model::clock::SystemClock;
use clap::Args;
use http::Method;
use std::path::PathBuf;
use std::sync::Arc;

/// How the workload is observed.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Advisor")]
pub(crate) struct ObserveOptions {
    /// Do not observe the workload: there is no advice
    #[arg(long, env = "ARMILLA_NO_OBSERVE")]
    pub(crate) no_observe: bool,
}

/// What `armilla advise` takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct AdviseOptions {
    #[command(flatten)]
    connect: ConnectOptions,
    /// This database alone
    #[arg(long)]
    database: Option<String>,
    /// Print JSON
    #[arg(long, conflicts_with = "html")]
    json: bool,
    /// Print one page of HTML, or write it to FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    html: Option<PathBuf>,
    /// Build the proposal in a throw-away account, replay what was recorded on it, and show what that cost beside what was predicted
    #[arg(long)]
    prove: bool,
}

/// Asks a server for advice and prints it.
pub(crate) fn run(options: &AdviseOptions) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(ask(options))
}

async fn ask(options: &AdviseOptions) -> Result<(), String> {
    let client = Client::new(&options.connect.endpoint()?, Arc::new(SystemClock))?;
    let mut pairs = Vec::new();
    if let Some(database) = &options.database {
        pairs.push(("database", database.as_str()));
    }
    if options.prove {
        pairs.push(("prove", "1"));
    }
    let call = Call::new(Method::GET, &["_armilla", "advice"]).query(&pairs);
    let answer = client.send(call).await?.success()?;
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    if options.json {
        say(&text);
        return Ok(());
    }
    let document =
        armilla_model::json::parse(text.as_bytes()).map_err(|error| error.to_string())?;
    match &options.html {
        Some(file) if file.as_os_str() == "-" => say(&report::html::page(&document)),
        Some(file) => std::fs::write(file, report::html::page(&document))
            .map_err(|error| format!("{}: {error}", file.display()))?,
        None => say(&report::text::page(&document)),
    }
    Ok(())
}
