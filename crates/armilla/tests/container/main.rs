//! The contract of the official containers (`docs/container.md`), a test per row: the binary is started with that
//! environment and those flags, and asked at those ports.

#![allow(clippy::unwrap_used, reason = "this whole target is a test")]
#![allow(clippy::disallowed_methods, reason = "a client signs its requests with the time of day")]

mod certificates;
mod image;
mod support;

use armilla_gateway::auth::WELL_KNOWN_KEY;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use support::{Container, command, get, next_port, read_account, read_account_with_unsigned_token};

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
    let ready = "System is now fully ready to accept requests";
    assert!(container.said.iter().any(|line| line == ready), "{:?}", container.said);
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
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let port = free.to_string();
    for (variables, flags, is_served, own_port) in [
        (&[("ENABLE_EXPLORER", "false")][..], &[][..], false, false),
        (&[], &["--enable-explorer", "false"], false, false),
        (&[("ENABLE_EXPLORER", "true"), ("EXPLORER_PORT", &port)], &[], true, true),
        (&[], &["--enable-explorer", "--explorer-port", &port], true, true),
        (&[("EXPLORER_PROTOCOL", "https")], &[], true, false),
    ] {
        let container = Container::start(variables, flags);
        let expected = if is_served { 200 } else { 404 };
        assert_eq!(get(container.port, "/_explorer/").0, expected, "{variables:?} {flags:?}");
        if own_port {
            assert_eq!(get(free, "/_explorer/").0, 200, "{variables:?} {flags:?}");
        }
        container.stop();
    }
}

#[test]
fn variables_without_effect_are_named_in_one_line_each() {
    let variables = [
        ("AZURE_COSMOS_EMULATOR_PARTITION_COUNT", "10"),
        ("AZURE_COSMOS_EMULATOR_ENABLE_DATA_PERSISTENCE", "true"),
        ("AZURE_COSMOS_EMULATOR_IP_ADDRESS_OVERRIDE", "127.0.0.1"),
        ("AZURE_COSMOS_EMULATOR_ARGS", "/enablepreview /partitioncount=5"),
        ("AZURE_COSMOS_EMULATOR_ENABLE_MONGODB_ENDPOINT", "4.0"),
        ("AZURE_COSMOS_EMULATOR_ENABLE_CASSANDRA_ENDPOINT", "true"),
        ("AZURE_COSMOS_EMULATOR_ENABLE_GREMLIN_ENDPOINT", "true"),
        ("AZURE_COSMOS_EMULATOR_ENABLE_TABLE_ENDPOINT", "true"),
    ];
    let remarks = Container::start(&variables, &["--enable-telemetry=true"]).stop();
    for (name, _) in variables {
        assert_eq!(remarks.matches(&format!("{name} has no effect")).count(), 1, "{remarks}");
    }
    assert!(remarks.contains("nothing is exported"), "{remarks}");
}

#[test]
fn a_public_endpoint_is_a_host_or_a_url() {
    for (given, has_port) in [("cosmos", false), ("http://cosmos:9443/", true)] {
        let container = Container::start(&[("GATEWAY_PUBLIC_ENDPOINT", given)], &[]);
        let (status, account) = read_account(container.port, WELL_KNOWN_KEY);
        assert_eq!(status, 200, "{account}");
        let port = if has_port { 9443 } else { container.port };
        let told = format!(r#""databaseAccountEndpoint":"http://cosmos:{port}/""#);
        assert!(account.contains(&told), "{account}");
        container.stop();
    }
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
        let port = next_port();
        let output = command(&variables, &flags, port).output().unwrap();
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && why.contains("missing.pfx"), "{why}");
    }
}

#[test]
fn a_key_in_the_environment_is_taken_and_not_shown() {
    let key = "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQQ==";
    let local = ["--host", "127.0.0.1"];
    let container = Container::start(&[("AZURE_COSMOS_EMULATOR_KEY", key)], &local);
    assert!(!container.has_said(key), "a key of the user's own is not shown");
    assert!(container.has_said("AZURE_COSMOS_EMULATOR_KEY"));
    assert_eq!(read_account(container.port, key).0, 200);
    // What everybody has opens nothing beside it.
    assert_eq!(read_account(container.port, WELL_KNOWN_KEY).0, 401);
    assert_eq!(read_account_with_unsigned_token(container.port), 401);
    container.stop();
    let container = Container::start(&[("AZURE_COSMOS_EMULATOR_KEY", "")], &local);
    assert_eq!(read_account(container.port, WELL_KNOWN_KEY).0, 200, "an empty key is none");
    assert_eq!(read_account_with_unsigned_token(container.port), 200);
    container.stop();
}

/// As a compose file passes what is not set.
#[test]
fn variables_that_are_empty_are_not_given() {
    let variables = [
        "PROTOCOL",
        "ENABLE_EXPLORER",
        "EXPLORER_PROTOCOL",
        "EXPLORER_PORT",
        "LOG_LEVEL",
        "ARMILLA_PARTITIONS",
    ];
    let container = Container::start(&variables.map(|name| (name, "")), &[]);
    assert_eq!(read_account(container.port, WELL_KNOWN_KEY).0, 200);
    container.stop();
}

/// The store below says much while it opens its files, at the levels of those who look for faults.
#[test]
fn levels_of_the_log_are_understood() {
    let log_of = |variables: &[(&str, &str)], flags: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data").to_string_lossy().into_owned();
        let own = [("ARMILLA_IN_MEMORY", "false"), ("DATA_PATH", path.as_str())];
        Container::start(&[variables, &own].concat(), flags).stop()
    };
    for level in ["quiet", "error", "warn", "info", "debug", "trace"] {
        let log = log_of(&[("LOG_LEVEL", level)], &[]);
        let expected = match level {
            "quiet" | "error" | "warn" => [false, false],
            "info" => [true, false],
            _ => [true, true],
        };
        assert_eq!(["INFO", "DEBUG"].map(|word| log.contains(word)), expected, "{level}: {log}");
        assert!(!log.contains('\u{1b}'), "colours where nobody sees them: {log}");
    }
    assert!(!log_of(&[], &["--log-level", "quiet"]).contains("INFO"));
    assert!(log_of(&[], &["--log-level", "info"]).contains("INFO"));
}

#[test]
fn the_port_is_taken_from_the_flag_too() {
    let port = next_port();
    let container = Container::start(&[], &["--port", &port.to_string()]);
    assert!(container.has_said(&format!("localhost:{port}/")), "{:?}", container.said);
    assert_eq!(get(port, "/ready").0, 200);
    // The account is there, for those who have a key.
    assert_eq!((get(port, "/").0, read_account(port, WELL_KNOWN_KEY).0), (401, 200));
    container.stop();
}

#[test]
fn a_key_file_is_made_once_and_its_key_is_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    let path = file.to_string_lossy().into_owned();
    let mut keys = Vec::new();
    for (variables, flags) in
        [(vec![("KEY_FILE", path.as_str())], vec![]), (vec![], vec!["--key-file", path.as_str()])]
    {
        let container = Container::start(&variables, &flags);
        let key = std::fs::read_to_string(&file).unwrap().trim().to_owned();
        assert!(key.len() > 40 && !container.has_said(&key), "{:?}", container.said);
        assert_eq!(read_account(container.port, &key).0, 200);
        assert_eq!(read_account(container.port, WELL_KNOWN_KEY).0, 401, "the published one");
        keys.push(key);
        container.stop();
    }
    assert_eq!(keys[0], keys[1], "a key that is there is used");
}

#[test]
fn exporters_are_taken_and_nothing_is_sent() {
    for (name, flag) in [
        ("ENABLE_TELEMETRY", "--enable-telemetry"),
        ("ENABLE_OTLP_EXPORTER", "--enable-otlp"),
        ("ENABLE_CONSOLE_EXPORTER", "--enable-console"),
    ] {
        for (variables, flags) in [(vec![(name, "true")], vec![]), (vec![], vec![flag])] {
            let remarks = Container::start(&variables, &flags).stop();
            assert!(remarks.contains("nothing is exported"), "{name}: {remarks}");
        }
    }
}

#[test]
fn a_taken_port_of_the_explorer_is_one_line_in_the_log() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port().to_string();
    let container = Container::start(&[("EXPLORER_PORT", &port)], &[]);
    assert_eq!(get(container.port, "/_explorer/").0, 200, "the main port has it");
    let remarks = container.stop();
    assert_eq!(remarks.matches(&port).count(), 1, "{remarks}");
}
