//! `cargo xtask miri` and `cargo xtask sanitize`: tools of the nightly toolchain that watch memory.
//!
//! Miri interprets the tests of the script crate's arena, which are plain Rust, and finds reads and writes
//! that no rule of the language allows. The address sanitizer watches the JavaScript engine and the code
//! around it while hostile scripts run in contexts of their own, where every block is one of the system's
//! allocator. Neither can run without its tool; then the chore names what is missing and how to get it.

use std::ffi::OsString;
use std::process::Command;

use crate::arguments::Arguments;
use crate::{Outcome, processes, workspace};

const TOOLCHAIN: &str = "+nightly";
const ABOUT_MIRI: &str = "Interprets the tests of the script engine's memory image under Miri.";
const ABOUT_SANITIZE: &str = "Runs hostile scripts under the address sanitizer.";
/// Leaks are the interrupted engine's own; the arena frees what it left behind.
const SANITIZER_OPTIONS: &str = "detect_leaks=0:abort_on_error=1";

/// The chore `miri`.
pub(crate) fn miri(words: &[OsString]) -> Outcome<bool> {
    if Arguments::parse("miri", ABOUT_MIRI, &[], words)?.is_none() {
        return Ok(true);
    }
    need(&["miri", "--version"], "rustup toolchain install nightly --component miri rust-src")?;
    let mut command = nightly();
    command
        .args(["miri", "test", "--package", "armilla-script", "--lib", "arena::"])
        .env("MIRIFLAGS", "-Zmiri-permissive-provenance")
        .env("CARGO_TARGET_DIR", workspace::work().join("miri-target"));
    processes::run("the arena under Miri", &mut command)?;
    println!("1 passed, 0 failed");
    Ok(true)
}

/// The chore `sanitize`.
pub(crate) fn sanitize(words: &[OsString]) -> Outcome<bool> {
    if Arguments::parse("sanitize", ABOUT_SANITIZE, &[], words)?.is_none() {
        return Ok(true);
    }
    need(&["--version"], "rustup toolchain install nightly")?;
    // Naming the target keeps the instrumentation out of build scripts.
    let host = processes::probe("rustc", &["--print", "host-tuple"])
        .ok_or("rustc does not say what machine it is for")?;
    let mut command = nightly();
    command
        .args(["test", "--package", "armilla-script", "--lib"])
        .args(["--test", "hostile", "--test", "hostile_fresh", "--target", &host])
        .env("RUSTFLAGS", "-Zsanitizer=address")
        .env("ASAN_OPTIONS", SANITIZER_OPTIONS)
        .env("CARGO_TARGET_DIR", workspace::work().join("sanitize-target"));
    processes::run("hostile scripts under the address sanitizer", &mut command)?;
    println!("1 passed, 0 failed");
    Ok(true)
}

/// A cargo command of the nightly toolchain. The variables of the toolchain that runs us would win over it.
fn nightly() -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(workspace::root()).arg(TOOLCHAIN);
    for name in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(name);
    }
    command
}

/// Refuses to go on without a tool.
fn need(arguments: &[&str], install: &str) -> Outcome<()> {
    let found = nightly().args(arguments).output().is_ok_and(|output| output.status.success());
    if found {
        return Ok(());
    }
    let what = arguments.join(" ");
    Err(format!("`cargo {TOOLCHAIN} {what}` does not run here; install it with `{install}`").into())
}
