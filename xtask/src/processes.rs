//! Running other programs: with their output shown, or captured while it is shown.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::Outcome;

/// Prints what is about to happen, so that a long silence has a name.
pub(crate) fn announce(what: &str) {
    println!("\n=== {what}");
}

/// Runs a command to its end; anything but success is an error that names `what`.
pub(crate) fn run(what: &str, command: &mut Command) -> Outcome<()> {
    announce(what);
    let status = command.status().map_err(|error| cannot_start(what, command, &error))?;
    if status.success() { Ok(()) } else { Err(format!("{what}: ended with {status}").into()) }
}

/// Runs a command, shows its output as it comes and also returns what it wrote to stdout. One that
/// has not ended `within` the time is killed, so that a hanging server cannot hang the run.
pub(crate) fn run_and_keep(
    what: &str,
    command: &mut Command,
    within: Duration,
) -> Outcome<(bool, String)> {
    announce(what);
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| cannot_start(what, command, &error))?;
    let stdout = child.stdout.take().expect("stdout was asked to be piped");
    let reader = thread::spawn(move || show_and_keep(stdout));
    let status = wait_within(&mut child, within)?;
    let kept = reader.join().map_err(|_| format!("{what}: its output could not be read"))?;
    match status {
        Some(status) => Ok((status.success(), kept)),
        None => Err(format!("{what}: killed after {} s", within.as_secs()).into()),
    }
}

/// Runs a command quietly; returns its first line of output when it succeeded.
pub(crate) fn probe(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().ok()?;
    if !output.status.success() {
        return None;
    }
    let text = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    Some(String::from_utf8_lossy(&text).lines().next().unwrap_or_default().trim().to_owned())
}

/// Waits for the end of a child, or kills it when the time is up.
fn wait_within(child: &mut Child, within: Duration) -> Outcome<Option<ExitStatus>> {
    const POLL: Duration = Duration::from_millis(20);
    let deadline = Instant::now() + within;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(POLL);
    }
}

fn show_and_keep(stdout: impl Read) -> String {
    let mut kept = String::new();
    for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line).into_owned();
        println!("{line}");
        kept.push_str(&line);
        kept.push('\n');
    }
    kept
}

fn cannot_start(what: &str, command: &Command, error: &std::io::Error) -> String {
    format!("{what}: {} does not start: {error}", command.get_program().to_string_lossy())
}
