//! The server: flags, configuration, start and stop.
//!
//! `armilla` alone serves. The other commands work on a data folder: `backup` also while a server
//! has it open, `restore` and `verify` while none does, `merge` only through a running server. Others
//! are clients of a server: `script`, `query` and `rekey`.

mod advise;
mod allocator;
mod ask;
mod bulk;
mod client;
mod cluster;
mod config;
mod control;
mod descriptors;
mod dials;
mod emulator;
mod entra;
mod explorer;
mod given_file;
mod keys;
mod lab;
mod local;
mod memory;
mod offline;
mod private;
mod progress;
mod ready;
mod rekey;
mod salvage;
mod script;
mod serve;
mod terminal;
mod tls;
mod transfer;
mod webhooks;

use config::Command;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;

fn main() -> ExitCode {
    let arguments = config::from_command_line();
    let outcome = match arguments.command.unwrap_or(Command::Serve(Box::new(arguments.serve))) {
        Command::Serve(options) => serve::run(&options),
        Command::Backup(options) => offline::backup(&options),
        Command::Restore(options) => offline::restore(&options),
        Command::Script(arguments) => script::run(&arguments),
        Command::Query(options) => ask::run(&options),
        Command::Verify(options) => offline::verify(&options),
        Command::Salvage(options) => salvage::run(&options),
        Command::Lab(options) => lab::run(&options),
        Command::Import(options) => transfer::import(&options),
        Command::Export(options) => transfer::export(&options),
        Command::Explorer(options) => explorer::open(&options),
        Command::Advise(options) => advise::run(&options),
        Command::Ready(options) => ready::run(&options),
        Command::Merge(options) => offline::merge(&options),
        Command::Rekey(options) => rekey::run(&options),
        Command::Cluster { command } => return told(cluster::run(&command)),
    };
    told(outcome.map(|()| ExitCode::SUCCESS))
}

/// The exit status of a command, whose failure is told in one line.
fn told(outcome: Result<ExitCode, String>) -> ExitCode {
    match outcome {
        Ok(code) => code,
        Err(message) => {
            terminal::note(&message);
            ExitCode::FAILURE
        }
    }
}
