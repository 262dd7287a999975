//! An index file that somebody cuts while a server has it mapped.
//!
//! The next look at what is gone ends the process, on systems that map files as Linux does: no program can read
//! mapped bytes that are not there. What must hold is that nothing is lost and nothing is answered wrong: the next
//! start notices the file and builds the index anew from the items.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "this whole target is a test")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// `{"alg":"none"}` and no claims: a server without keys of its own takes it from this machine's users.
const UNSIGNED: &str = "type%3Daad%26ver%3D1.0%26sig%3DeyJhbGciOiJub25lIn0.e30.";
const ITEMS: usize = 3000;
const IN_ONE_BATCH: usize = 100;
const WITHIN: Duration = Duration::from_secs(120);

struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(data: &Path, port: u16) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_armilla"));
        command.env_clear().args(["serve", "--port", &port.to_string(), "--data"]).arg(data);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut server = Self { child, port };
        let started = Instant::now();
        while server.ask("GET", "/ready", "", "").is_none_or(|(status, _)| status != 200) {
            assert_eq!(server.child.try_wait().unwrap(), None, "the server ended");
            assert!(started.elapsed() < WITHIN, "the server is not ready");
            // Pause: between two looks at the condition that is awaited.
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }

    /// Status and body; nothing when the server ends before it answers.
    fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: {UNSIGNED}\r\nx-ms-version: 2020-07-15\r\n\
             {headers}content-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let body = answer.split_once("\r\n\r\n")?.1.to_owned();
        Some((answer.get(9..12)?.parse().ok()?, body))
    }

    /// Whether a query that needs the index finds every item, or what was answered instead.
    fn count(&self) -> Option<(u16, String)> {
        let headers = "content-type: application/query+json\r\nx-ms-documentdb-isquery: True\r\n\
            x-ms-documentdb-query-enablecrosspartition: true\r\n";
        let query = r#"{"query":"SELECT VALUE COUNT(1) FROM c WHERE c.n >= 0 AND STARTSWITH(c.text, 'some text')"}"#;
        self.ask("POST", "/dbs/d/colls/c/docs", headers, query)
    }

    fn stop(mut self) {
        let asked = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        assert!(asked.unwrap().success());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn fill(server: &Server) {
    server.ask("POST", "/dbs", "", r#"{"id":"d"}"#).unwrap();
    let definition = r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
    assert_eq!(server.ask("POST", "/dbs/d/colls", "", definition).unwrap().0, 201);
    let headers = "x-ms-documentdb-partitionkey: [\"p\"]\r\nx-ms-cosmos-is-batch-request: True\r\n\
        x-ms-cosmos-batch-atomic: True\r\n";
    for first in (0..ITEMS).step_by(IN_ONE_BATCH) {
        let operation = |n: usize| {
            format!(
                r#"{{"operationType":"Create","resourceBody":{{"id":"{n}","pk":"p","n":{n},"text":"some text, and {}"}}}}"#,
                n * 7919
            )
        };
        let operations: Vec<_> = (first..first + IN_ONE_BATCH).map(operation).collect();
        let body = format!("[{}]", operations.join(","));
        assert_eq!(server.ask("POST", "/dbs/d/colls/c/docs", headers, &body).unwrap().0, 200);
    }
}

fn segments(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(segments(&path));
        } else if path.extension().is_some_and(|ending| ending == "segment") {
            found.push(path);
        }
    }
    found
}

#[test]
fn a_mapped_index_file_that_is_cut_is_built_anew_and_no_answer_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let port = 18_590;
    let server = Server::start(&data, port);
    fill(&server);
    let right = (200, format!("[{ITEMS}]"));
    let answer = |server: &Server| {
        server.count().map(|(status, body)| {
            let rows = body.split("\"Documents\":").nth(1).and_then(|rest| rest.split(']').next());
            (status, rows.map_or(body.clone(), |rows| format!("{rows}]")))
        })
    };
    assert_eq!(answer(&server).unwrap(), right);
    server.stop();

    // This one has its index from the files.
    let server = Server::start(&data, port);
    let files = segments(&data);
    assert!(!files.is_empty(), "a clean stop leaves the index in files");
    for file in &files {
        std::fs::File::options().write(true).open(file).unwrap().set_len(100).unwrap();
    }
    if let Some(found) = answer(&server) {
        assert_eq!(found, right, "an answer is right, or there is none");
    }
    drop(server);

    let server = Server::start(&data, port);
    assert_eq!(answer(&server).unwrap(), right);
    server.stop();
    let mut verify = Command::new(env!("CARGO_BIN_EXE_armilla"));
    verify.env_clear().args(["verify", "--data"]).arg(&data).stdout(Stdio::null());
    assert!(verify.status().unwrap().success());
}
