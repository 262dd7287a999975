//! The servers of a suite and the processes that ask them. A suite that has many processes may have several servers, each asked by
//! one process at a time: what runs side by side never shares a server.

use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::suites::{Site, Step, Suite};
use crate::server::{Server, free_port};
use crate::{Outcome, processes};

/// A fresh server.
pub(super) struct Lane {
    port: u16,
    certificate: PathBuf,
    _server: Server,
    /// Removed with the lane, behind the server.
    _data: TempDir,
}

impl Lane {
    /// Starts the server; several of a suite are told apart by their number.
    pub(super) fn start(number: usize, suite: &Suite, binary: &Path, out: &Path) -> Outcome<Self> {
        let data = tempfile::Builder::new().prefix("armilla-outside-").tempdir()?;
        let log = out.join(format!("server-{number}.log"));
        let (port, second) = match suite.ports {
            [] => (free_port()?, None),
            [port, others @ ..] => (*port, others.first()),
        };
        let server = Server::start_at(port, binary, data.path(), &log, suite.server)?;
        let certificate = out.join(format!("armilla-{number}.pem"));
        std::fs::write(&certificate, server.client().certificate()?)?;
        if let Some(&second) = second {
            forward(second, port)?;
        }
        Ok(Self { port, certificate, _server: server, _data: data })
    }

    /// What the suite's processes are told.
    pub(super) fn site<'a>(&'a self, folder: &'a Path, out: &'a Path) -> Site<'a> {
        Site { folder, out, certificate: &self.certificate, port: self.port }
    }
}

/// What the processes of a suite left behind.
#[derive(Default)]
pub(super) struct Said {
    pub(super) output: String,
    /// The names of those that did not start or did not end.
    pub(super) broken: Vec<String>,
}

/// Runs the steps, each once: every lane takes the next one and runs its own command for it.
pub(super) fn work_off(suite: &Suite, lanes: Vec<Vec<Step>>) -> Said {
    let next = AtomicUsize::new(0);
    let next = &next;
    thread::scope(|scope| {
        let spawn = |steps| scope.spawn(move || work_off_lane(suite, steps, next));
        let lanes: Vec<_> = lanes.into_iter().map(spawn).collect();
        let mut all = Said::default();
        for lane in lanes {
            match lane.join() {
                Ok(said) => {
                    all.output += &said.output;
                    all.broken.extend(said.broken);
                }
                Err(_) => all.broken.push(format!("{}: a lane panicked", suite.name)),
            }
        }
        all
    })
}

fn work_off_lane(suite: &Suite, mut steps: Vec<Step>, next: &AtomicUsize) -> Said {
    let mut said = Said::default();
    while let Some(step) = steps.get_mut(next.fetch_add(1, Ordering::Relaxed)) {
        let started = Instant::now();
        match processes::run_and_keep(&step.name, &mut step.command, suite.step_within) {
            Ok((_, output)) => said.output += &output,
            Err(error) => {
                println!("{error}");
                said.broken.push(step.name.clone());
            }
        }
        println!("=== {}: {} s", step.name, seconds(started.elapsed()));
    }
    said
}

fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 10.0).round() / 10.0
}

/// Passes connections to a second port on to the server, until this process ends.
fn forward(from: u16, to: u16) -> Outcome<()> {
    let taken = |error| format!("port {from}, at which the suite expects the server: {error}");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, from)).map_err(taken)?;
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            if let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, to)) {
                join(&stream, &server);
                join(&server, &stream);
            }
        }
    });
    Ok(())
}

/// Copies what one side sends to the other, until it has said all.
fn join(from: &TcpStream, to: &TcpStream) {
    if let (Ok(mut from), Ok(mut to)) = (from.try_clone(), to.try_clone()) {
        thread::spawn(move || {
            // A side that breaks off ends the other too.
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
        });
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::super::suites::SUITES;
    use super::*;

    fn step(name: &str, script: &str) -> Step {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Step { name: name.to_owned(), command }
    }

    #[test]
    fn every_step_is_run_once_whatever_the_lanes() {
        let names = ["a", "b", "c", "d", "e"];
        let lane = || names.iter().map(|name| step(name, &format!("echo {name}"))).collect();
        let said = work_off(&SUITES[0], vec![lane(), lane(), lane()]);
        let mut lines: Vec<_> = said.output.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, names);
        assert!(said.broken.is_empty());
    }

    #[test]
    fn what_does_not_start_is_named() {
        let broken = Step { name: "x".into(), command: Command::new("/no/such/program") };
        let said = work_off(&SUITES[0], vec![vec![broken, step("y", "echo y")]]);
        assert_eq!((said.output.as_str(), said.broken), ("y\n", vec!["x".to_owned()]));
    }
}
