//! Servers that are started as the official containers are, and what is asked of them.

use armilla_gateway::auth::Signer;
use http::Method;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::SystemTime;

/// Each server has a port of its own, and the one above it for health.
static PORTS: AtomicU16 = AtomicU16::new(18_600);

/// A port that nobody has, and neither the one above it.
pub(crate) fn next_port() -> u16 {
    loop {
        let port = PORTS.fetch_add(4, Ordering::Relaxed);
        if [port, port + 1].iter().all(|&port| TcpListener::bind(("0.0.0.0", port)).is_ok()) {
            return port;
        }
    }
}

/// A started binary, and what it has said until it was ready.
pub(crate) struct Container {
    child: Child,
    pub(crate) port: u16,
    pub(crate) said: Vec<String>,
}

/// The variables that the image sets, as the Dockerfile has them, but for its ports and its volume, which
/// several servers of one machine cannot share.
fn image() -> Vec<(String, String)> {
    let own = ["ARMILLA_HEALTH_PORT", "ARMILLA_EXPLORER_PORT", "ARMILLA_DATA"];
    let mut variables = crate::image::variables();
    variables.retain(|(name, _)| !own.contains(&name.as_str()));
    variables.push(("ARMILLA_IN_MEMORY".to_owned(), "true".to_owned()));
    variables
}

pub(crate) fn command(variables: &[(&str, &str)], flags: &[&str], port: u16) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_armilla"));
    command.env_clear().envs(image()).env("PORT", port.to_string());
    command.env("ARMILLA_HEALTH_PORT", (port + 1).to_string());
    command.envs(variables.iter().copied()).args(flags);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

impl Container {
    /// Starts and waits as the tools do: for the line `Started`.
    pub(crate) fn start(variables: &[(&str, &str)], flags: &[&str]) -> Self {
        let port = next_port();
        let mut child = command(variables, flags, port).spawn().unwrap();
        let mut said = Vec::new();
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            said.push(line.unwrap());
            if said.last().unwrap() == "Started" {
                return Self { child, port, said };
            }
        }
        let mut why = String::new();
        child.stderr.take().unwrap().read_to_string(&mut why).unwrap();
        child.wait().unwrap();
        panic!("the server ended: {why}\n{said:?}");
    }

    /// Stops it; everything it wrote beside its results.
    pub(crate) fn stop(mut self) -> String {
        self.end();
        let mut remarks = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut remarks).unwrap();
        remarks
    }

    fn end(&mut self) {
        // One that has ended by itself cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub(crate) fn has_said(&self, text: &str) -> bool {
        self.said.iter().any(|line| line.contains(text))
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        self.end();
    }
}

/// Status and body of a GET.
pub(crate) fn get(port: u16, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    exchange(&mut stream, path, "")
}

/// Status and body of the account document, asked for with a key.
pub(crate) fn read_account(port: u16, key: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    exchange(&mut stream, "/", &signed("/", key))
}

/// Status of the account document, asked for with a token of a directory that nobody has signed.
pub(crate) fn read_account_with_unsigned_token(port: u16) -> u16 {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let token = "type%3Daad%26ver%3D1.0%26sig%3DeyJhbGciOiJub25lIn0.e30.";
    let date = httpdate::fmt_http_date(SystemTime::now());
    let headers =
        format!("authorization: {token}\r\nx-ms-date: {date}\r\nx-ms-version: 2020-07-15\r\n");
    exchange(&mut stream, "/", &headers).0
}

/// The headers of a GET that is signed with a key.
pub(crate) fn signed(path: &str, key: &str) -> String {
    let date = httpdate::fmt_http_date(SystemTime::now());
    let signer = Signer::new(key).unwrap();
    let authorization = signer.authorization(&Method::GET, path, &date).unwrap();
    format!("authorization: {authorization}\r\nx-ms-date: {date}\r\nx-ms-version: 2020-07-15\r\n")
}

/// Sends a GET with further headers and reads the answer to the end of the connection.
pub(crate) fn exchange(stream: &mut (impl Read + Write), path: &str, more: &str) -> (u16, String) {
    let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{more}\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let body = answer.split_once("\r\n\r\n").unwrap().1.to_owned();
    (answer[9..12].parse().unwrap(), body)
}
