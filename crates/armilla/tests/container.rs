//! The contract of the official containers (`docs/container.md`), a test per row: the binary is started with that
//! environment and those flags, and asked at those ports.

#![allow(clippy::unwrap_used, reason = "this whole target is a test")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

/// Each server has a port of its own, and the one above it for health.
static PORTS: AtomicU16 = AtomicU16::new(18_600);

/// A started binary, and what it has said until it was ready.
struct Container {
    child: Child,
    port: u16,
    said: Vec<String>,
}

/// The variables that the image sets.
fn image() -> Vec<(&'static str, String)> {
    vec![
        ("ARMILLA_HOST", "0.0.0.0".to_owned()),
        ("ARMILLA_ALLOW_WELL_KNOWN_KEY", "true".to_owned()),
        ("ARMILLA_IN_MEMORY", "true".to_owned()),
    ]
}

fn command(variables: &[(&str, &str)], flags: &[&str], port: u16) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_armilla"));
    command.env_clear().envs(image()).env("PORT", port.to_string());
    command.env("ARMILLA_HEALTH_PORT", (port + 1).to_string());
    command.envs(variables.iter().copied()).args(flags);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

impl Container {
    /// Starts and waits as the tools do: for the line `Started`.
    fn start(variables: &[(&str, &str)], flags: &[&str]) -> Self {
        let port = PORTS.fetch_add(4, Ordering::Relaxed);
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
    fn stop(mut self) -> String {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let mut remarks = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut remarks).unwrap();
        remarks
    }

    fn has_said(&self, text: &str) -> bool {
        self.said.iter().any(|line| line.contains(text))
    }
}

/// Status and body of a GET.
fn get(port: u16, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let body = answer.split_once("\r\n\r\n").unwrap().1.to_owned();
    (answer[9..12].parse().unwrap(), body)
}

#[test]
fn health_has_a_port_of_its_own_that_answers_nothing_else() {
    let container = Container::start(&[], &[]);
    for path in ["/alive", "/ready", "/status"] {
        assert_eq!(get(container.port + 1, path).0, 200, "{path}");
        assert_eq!(get(container.port, path).0, 200, "{path}");
    }
    assert!(get(container.port + 1, "/status").1.contains(r#""ready":true"#));
    assert_eq!(get(container.port, "/dbs").0, 401);
    for path in ["/", "/dbs", "/metrics", "/_explorer/emulator.pem"] {
        let (status, body) = get(container.port + 1, path);
        assert_eq!(status, 404, "{path}: {body}");
    }
    container.stop();
}

#[test]
fn the_command_ready_tells_by_its_exit_code() {
    let container = Container::start(&[], &[]);
    let ready = |port: u16| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_armilla"));
        command.env_clear().env("PORT", port.to_string()).arg("ready");
        command.stderr(Stdio::null()).status().unwrap().success()
    };
    assert!(ready(container.port));
    assert!(!ready(container.port + 2), "nobody listens there");
    container.stop();
}

#[test]
fn waiting_tools_find_their_lines() {
    let container = Container::start(&[], &[]);
    let port = container.port;
    assert!(container.has_said(&format!("Now listening on: http://0.0.0.0:{port}")));
    assert_eq!(container.said.last().unwrap(), "Started");
    container.stop();
}

#[test]
fn the_protocol_is_told_and_both_are_spoken() {
    for (variables, flags) in [
        (&[("PROTOCOL", "https")][..], &[][..]),
        (&[], &["--protocol", "https-insecure"]),
        (&[("PROTOCOL", "HTTPS")], &[]),
    ] {
        let container = Container::start(variables, flags);
        assert!(container.has_said("AccountEndpoint=https://localhost:"), "{:?}", container.said);
        assert!(container.has_said("Now listening on: https://0.0.0.0:"));
        assert_eq!(get(container.port, "/ready").0, 200, "http works all the same");
        container.stop();
    }
}

#[test]
fn words_about_the_explorer_are_taken() {
    for (variables, flags, remarked) in [
        (&[("ENABLE_EXPLORER", "false")][..], &[][..], false),
        (&[], &["--enable-explorer", "false"], false),
        (&[("ENABLE_EXPLORER", "true"), ("EXPLORER_PORT", "1234")], &[], true),
        (&[], &["--enable-explorer", "--explorer-port", "9999"], true),
        (&[("EXPLORER_PROTOCOL", "https")], &[], false),
    ] {
        let remarks = Container::start(variables, flags).stop();
        let is_remarked = remarks.contains("the data explorer is not part of this version");
        assert_eq!(is_remarked, remarked, "{variables:?} {flags:?}: {remarks}");
    }
}

#[test]
fn variables_without_effect_are_named_in_one_line_each() {
    let variables = [
        ("AZURE_COSMOS_EMULATOR_PARTITION_COUNT", "10"),
        ("AZURE_COSMOS_EMULATOR_ENABLE_DATA_PERSISTENCE", "true"),
        ("AZURE_COSMOS_EMULATOR_IP_ADDRESS_OVERRIDE", "127.0.0.1"),
    ];
    let remarks = Container::start(&variables, &["--enable-telemetry=true"]).stop();
    for (name, _) in variables {
        assert_eq!(remarks.matches(&format!("{name} has no effect")).count(), 1, "{remarks}");
    }
    assert!(remarks.contains("nothing is exported"), "{remarks}");
}

#[test]
fn a_host_alone_is_a_public_endpoint() {
    let container = Container::start(&[("GATEWAY_PUBLIC_ENDPOINT", "cosmos")], &[]);
    // The account document needs a key; the refusal shows that the name is known, not 421.
    assert_eq!(get(container.port, "/").0, 401);
    container.stop();
}

#[test]
fn data_and_certificates_are_where_the_containers_have_them() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let path = data.to_string_lossy().into_owned();
    for (variables, flags) in
        [(vec![("DATA_PATH", path.as_str())], vec![]), (vec![], vec!["--data-path", path.as_str()])]
    {
        let variables: Vec<_> =
            variables.into_iter().chain([("ARMILLA_IN_MEMORY", "false")]).collect();
        let container = Container::start(&variables, &flags);
        assert!(container.has_said(&path), "{:?}", container.said);
        container.stop();
        assert!(data.join("format").is_file());
    }
    // A certificate that is not there is refused by its name.
    let missing = folder.path().join("missing.pfx");
    let missing = missing.to_string_lossy().into_owned();
    for (variables, flags) in [
        (vec![("CERT_PATH", missing.as_str()), ("CERT_SECRET", "s")], vec![]),
        (vec![], vec!["--cert-path", missing.as_str(), "--cert-secret", "s"]),
    ] {
        let port = PORTS.fetch_add(4, Ordering::Relaxed);
        let output = command(&variables, &flags, port).output().unwrap();
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && why.contains("missing.pfx"), "{why}");
    }
}

#[test]
fn a_key_in_the_environment_is_taken_and_not_shown() {
    let key = "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQQ==";
    let container = Container::start(&[("AZURE_COSMOS_EMULATOR_KEY", key)], &[]);
    assert!(!container.has_said(key), "a key of the user's own is not shown");
    assert!(container.has_said("AZURE_COSMOS_EMULATOR_KEY"));
    container.stop();
}

#[test]
fn levels_of_the_log_are_understood() {
    for level in ["quiet", "error", "warn", "info", "debug", "trace"] {
        let container = Container::start(&[("LOG_LEVEL", level)], &[]);
        container.stop();
    }
    Container::start(&[], &["--log-level", "quiet"]).stop();
}
