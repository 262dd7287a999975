//! The server: flags, configuration, start and stop.
//!
//! `armilla` alone serves. The other commands work on a data folder: `backup` also while a server
//! has it open, `restore` and `verify` while none does, `merge` only through a running server. Others
//! are clients of a server: `script` and `query`.

mod ask;
mod bulk;
#[allow(dead_code, reason = "the commands that use the rest are on their way")]
mod client;
mod config;
mod control;
mod descriptors;
mod dials;
mod emulator;
mod entra;
mod given_file;
mod keys;
mod lab;
#[allow(dead_code, reason = "TLS is used by tests alone")]
mod local;
mod offline;
mod private;
mod progress;
mod ready;
mod salvage;
mod script;
mod serve;
mod terminal;
mod tls;
mod transfer;

use clap::Parser;
use config::{Arguments, Command};
use std::process::ExitCode;

/// Many small objects from many threads: the system's allocator fragments and keeps memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
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
        Command::Ready(options) => ready::run(&options),
        Command::Merge(options) => offline::merge(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            terminal::note(&message);
            ExitCode::FAILURE
        }
    }
}
