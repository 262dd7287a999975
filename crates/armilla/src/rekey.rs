//! `armilla rekey`: a container gets another partition key while it serves.
//!
//! The server does the work and remembers all of it; this command begins it, watches, checks, and asks for the swap. So it may be
//! interrupted at any time, and the same command goes on.

use crate::client::{Call, Client, ConnectOptions};
use crate::progress;
use crate::terminal::{note, say};
use armilla_model::clock::SystemClock;
use clap::Args;
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// How often the server is asked how far it has come.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// A swap is asked for when the copy is at most so many transactions behind.
const BEHIND_MAX: u64 = 1_000;
/// How often a swap that could not catch up is asked for again.
const SWAPS_MAX: u32 = 20;
/// How often the whole check is repeated for items that changed under it.
const CHECKS_MAX: u32 = 3;
/// Most levels of a partition key.
const LEVELS_MAX: usize = 3;

#[derive(Clone, Debug, Args)]
pub(crate) struct RekeyOptions {
    #[command(flatten)]
    connect: ConnectOptions,
    /// The database
    #[arg(long)]
    database: String,
    /// The container
    #[arg(long)]
    container: String,
    /// The new partition key: a path like /customerId; several, separated by commas, are the levels of a hierarchical key
    #[arg(long, value_name = "PATH", required_unless_present_any = ["status", "undo"])]
    partition_key: Option<String>,
    /// Name of the container while it is filled (default: the container's with -rekey behind it)
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Name of the old container afterwards (default: the container's with -before-rekey behind it)
    #[arg(long, value_name = "NAME")]
    old_name: Option<String>,
    /// Throughput of the new container (default: that of the old one)
    #[arg(long, value_name = "RU")]
    throughput: Option<u32>,
    /// Copy and check, and leave the swap for later: the copy goes on following
    #[arg(long)]
    no_swap: bool,
    /// Do not compare every item with its copy before the swap
    #[arg(long)]
    no_check: bool,
    /// Only say how far it has come
    #[arg(long, conflicts_with_all = ["undo", "no_swap", "no_check"])]
    status: bool,
    /// Give up: delete the copy; the container stays as it is
    #[arg(long, conflicts_with_all = ["no_swap", "no_check"])]
    undo: bool,
}

/// How far the server has come.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RekeyState {
    state: String,
    target: String,
    progress: u64,
    items: u64,
    copies: u64,
    lag_transactions: u64,
    lag_seconds: u64,
    #[serde(default)]
    error: Option<String>,
}

/// A page of the check.
#[derive(Debug, Deserialize)]
struct CheckPage {
    compared: u64,
    behind: u64,
    different: Vec<String>,
    #[serde(default)]
    continuation: Option<String>,
}

/// Who is asked about which container.
struct Rekey<'o> {
    client: Client,
    options: &'o RekeyOptions,
}

/// Runs the command.
pub(crate) fn run(options: &RekeyOptions) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(async {
        let client = Client::new(&options.connect.endpoint()?, Arc::new(SystemClock))?;
        Rekey { client, options }.run().await
    })
}

impl Rekey<'_> {
    async fn run(&self) -> Result<(), String> {
        if self.options.undo {
            self.send(Method::DELETE, &[], Value::Null).await?;
            note("the copy is deleted; the container is as it was");
            return Ok(());
        }
        if self.options.status {
            let state: RekeyState = self.read(Method::GET, &[], Value::Null).await?;
            say(&state.told());
            return Ok(());
        }
        let begun: RekeyState = self.read(Method::POST, &[], self.wish()?).await?;
        note(&format!(
            "{} is being filled; interrupt this at any time, and run it again",
            begun.target
        ));
        self.follow().await?;
        if !self.options.no_check {
            self.check().await?;
        }
        if self.options.no_swap {
            note("not swapped, as asked; the copy goes on following");
            return Ok(());
        }
        self.swap().await
    }

    fn wish(&self) -> Result<Value, String> {
        let key = self.options.partition_key.as_deref().unwrap_or_default();
        let paths: Vec<&str> = key.split(',').map(str::trim).collect();
        if paths.len() > LEVELS_MAX || paths.iter().any(|path| !path.starts_with('/')) {
            return Err(format!(
                "--partition-key is one to {LEVELS_MAX} paths that begin with a slash, not '{key}'"
            ));
        }
        let kind = if paths.len() > 1 { "MultiHash" } else { "Hash" };
        let mut wish = json!({"partitionKey": {"paths": paths, "kind": kind, "version": 2}});
        if let Some(name) = &self.options.name {
            wish["name"] = json!(name);
        }
        if let Some(units) = self.options.throughput {
            wish["throughput"] = json!(units);
        }
        Ok(wish)
    }

    /// Waits until the copy has nearly caught up.
    async fn follow(&self) -> Result<(), String> {
        let bar = progress::items(100, "copying, %");
        let mut told = None;
        loop {
            let state: RekeyState = self.read(Method::GET, &[], Value::Null).await?;
            bar.set_position(state.progress);
            if state.error != told {
                if let Some(error) = &state.error {
                    bar.suspend(|| note(&format!("held up: {error}")));
                }
                told.clone_from(&state.error);
            }
            if state.state == "following" && state.lag_transactions <= BEHIND_MAX {
                bar.finish_and_clear();
                note(&state.told());
                return Ok(());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Compares every item with its copy; items that change meanwhile are met again in the next round.
    async fn check(&self) -> Result<(), String> {
        for round in 1..=CHECKS_MAX {
            let (mut compared, mut behind, mut after) = (0, 0, Value::Null);
            loop {
                let asked = json!({ "continuation": after });
                let page: CheckPage = self.read(Method::POST, &["check"], asked).await?;
                if !page.different.is_empty() {
                    page.different.iter().for_each(|one| say(one));
                    return Err(
                        "copies differ from their items; undo the re-key and tell the authors"
                            .to_owned(),
                    );
                }
                compared += page.compared;
                behind += page.behind;
                match page.continuation {
                    Some(next) => after = json!(next),
                    None => break,
                }
            }
            note(&format!(
                "{compared} items compared with their copies, {behind} changed just now"
            ));
            if behind == 0 || round == CHECKS_MAX {
                return Ok(());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    async fn swap(&self) -> Result<(), String> {
        let mut body = json!({});
        if let Some(name) = &self.options.old_name {
            body["oldName"] = json!(name);
        }
        for _ in 0..SWAPS_MAX {
            let answer = self.client.send(self.call(Method::POST, &["swap"], body.clone())).await?;
            if answer.status == 409 {
                let text = String::from_utf8_lossy(&answer.body).into_owned();
                if !text.contains("Try again") {
                    answer.success()?;
                }
                note("the last changes come faster than they can be copied; trying again");
                continue;
            }
            let answer = answer.success()?;
            let swapped: Value = serde_json::from_slice(&answer.body)
                .map_err(|error| format!("the server's answer cannot be read: {error}"))?;
            let name = |member: &str| swapped[member]["id"].as_str().unwrap_or_default().to_owned();
            note(&format!(
                "{} has the new key. {} is the old container, read-only; delete it when nobody needs it",
                name("container"),
                name("old")
            ));
            return Ok(());
        }
        Err("the last changes come faster than they can be copied; nothing was swapped. Give the copy more throughput, or write less for a moment".to_owned())
    }

    fn call(&self, method: Method, rest: &[&str], body: Value) -> Call {
        let RekeyOptions { database, container, .. } = self.options;
        let mut segments = vec!["_armilla", "rekey", "dbs", database, "colls", container];
        segments.extend_from_slice(rest);
        let call = Call::new(method, &segments);
        if body.is_null() { call } else { call.body(body.to_string()) }
    }

    async fn send(&self, method: Method, rest: &[&str], body: Value) -> Result<Vec<u8>, String> {
        let answer = self.client.send(self.call(method, rest, body)).await?.success()?;
        Ok(answer.body.to_vec())
    }

    async fn read<T: for<'d> Deserialize<'d>>(
        &self,
        method: Method,
        rest: &[&str],
        body: Value,
    ) -> Result<T, String> {
        let body = self.send(method, rest, body).await?;
        serde_json::from_slice(&body)
            .map_err(|error| format!("the server's answer cannot be read: {error}"))
    }
}

impl RekeyState {
    fn told(&self) -> String {
        let Self { state, target, progress, items, copies, .. } = self;
        let (transactions, seconds) = (self.lag_transactions, self.lag_seconds);
        let mut told = format!(
            "{target}: {state}, {progress} % of the first copy, {copies} of {items} items, {transactions} transactions and {seconds} s behind"
        );
        if let Some(error) = &self.error {
            told.push_str(": ");
            told.push_str(error);
        }
        told
    }
}
