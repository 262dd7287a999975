//! The contract of the official emulator containers: their flags and variables, and the lines that waiting tools look
//! for in their log. Tools such as Aspire and Testcontainers start a container with these words; Armilla understands
//! each of them, or says in one line that it has no effect ([`docs/container.md`](../../../docs/container.md)).

use crate::terminal::{note, say};
use clap::{Args, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Flags of the official containers. Most have a variable of the same name in capitals.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "As in the official containers")]
pub(crate) struct EmulatorOptions {
    /// Port that answers /alive, /ready and /status and nothing else; 8080 in the container
    #[arg(long, env = "ARMILLA_HEALTH_PORT")]
    pub(crate) health_port: Option<u16>,
    /// The protocol that the connection string names; the port speaks http and https all the same
    #[arg(long, env = "PROTOCOL", value_enum, ignore_case = true)]
    pub(crate) protocol: Option<Scheme>,
    /// The same as --data
    #[arg(long, value_name = "DIR")]
    pub(crate) data_path: Option<PathBuf>,
    /// The same as --tls-pfx
    #[arg(long, value_name = "FILE")]
    pub(crate) cert_path: Option<PathBuf>,
    /// The same as --tls-secret
    #[arg(long, value_name = "SECRET")]
    pub(crate) cert_secret: Option<String>,
    /// The same as --log; quiet logs nothing
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log_level: Option<String>,
    /// Whether the data explorer is served; false is the same as --no-explorer
    #[arg(long, env = "ENABLE_EXPLORER", num_args = 0..=1, default_missing_value = "true", value_parser = truth)]
    pub(crate) enable_explorer: Option<bool>,
    /// A port of its own for the data explorer; 1234 in the container [environment also: EXPLORER_PORT]
    #[arg(long, env = "ARMILLA_EXPLORER_PORT")]
    pub(crate) explorer_port: Option<u16>,
    /// Has no effect: the port speaks http and https
    #[arg(long, env = "EXPLORER_PROTOCOL", value_enum, ignore_case = true)]
    pub(crate) explorer_protocol: Option<Scheme>,
    /// Has no effect: nothing is sent anywhere
    #[arg(long, env = "ENABLE_TELEMETRY", num_args = 0..=1, default_missing_value = "true", value_parser = truth)]
    pub(crate) enable_telemetry: Option<bool>,
    /// Has no effect: metrics are at /metrics
    #[arg(long, env = "ENABLE_OTLP_EXPORTER", num_args = 0..=1, default_missing_value = "true", value_parser = truth)]
    pub(crate) enable_otlp: Option<bool>,
    /// Has no effect: metrics are at /metrics
    #[arg(long, env = "ENABLE_CONSOLE_EXPORTER", num_args = 0..=1, default_missing_value = "true", value_parser = truth)]
    pub(crate) enable_console: Option<bool>,
}

/// How clients are told to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scheme {
    Http,
    Https,
    /// https with a certificate that nobody vouches for; here the one that is made is as good
    HttpsInsecure,
}

impl Scheme {
    /// As in an address.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https | Self::HttpsInsecure => "https",
        }
    }
}

/// What the official images say when they are ready: the one of today, then the one before it.
const READY: [&str; 2] = ["System is now fully ready to accept requests", "Started"];

/// Variables that have no effect here, and why.
const WITHOUT_EFFECT: [(&str, &str); 8] = [
    (
        "AZURE_COSMOS_EMULATOR_PARTITION_COUNT",
        "partitions are made as containers need them; --partitions sets those of new containers",
    ),
    (
        "AZURE_COSMOS_EMULATOR_ENABLE_DATA_PERSISTENCE",
        "data is kept in the data folder; --in-memory keeps nothing",
    ),
    ("AZURE_COSMOS_EMULATOR_IP_ADDRESS_OVERRIDE", "clients are told the address that they used"),
    ("AZURE_COSMOS_EMULATOR_ARGS", "they are flags of another program"),
    ("AZURE_COSMOS_EMULATOR_ENABLE_MONGODB_ENDPOINT", "only the API for NoSQL is served"),
    ("AZURE_COSMOS_EMULATOR_ENABLE_CASSANDRA_ENDPOINT", "only the API for NoSQL is served"),
    ("AZURE_COSMOS_EMULATOR_ENABLE_GREMLIN_ENDPOINT", "only the API for NoSQL is served"),
    ("AZURE_COSMOS_EMULATOR_ENABLE_TABLE_ENDPOINT", "only the API for NoSQL is served"),
];

impl EmulatorOptions {
    /// Whether somebody speaks to this server as to an official container.
    fn is_container(&self, has: impl Fn(&str) -> bool) -> bool {
        self.health_port.is_some()
            || self.protocol.is_some()
            || self.enable_explorer.is_some()
            || WITHOUT_EFFECT.iter().any(|(name, _)| has(name))
    }

    /// A line for each word that has no effect.
    fn remarks(&self, has: impl Fn(&str) -> bool) -> Vec<String> {
        let line = |(name, why): &(&str, &str)| format!("{name} has no effect: {why}");
        let mut remarks: Vec<_> =
            WITHOUT_EFFECT.iter().filter(|(name, _)| has(name)).map(line).collect();
        let exporters = [self.enable_telemetry, self.enable_otlp, self.enable_console];
        if exporters.contains(&Some(true)) {
            remarks
                .push("nothing is exported or sent anywhere: metrics are at /metrics".to_owned());
        }
        remarks
    }

    /// Says what has no effect.
    pub(crate) fn remark(&self) {
        self.remarks(is_set).iter().for_each(|remark| note(remark));
    }

    /// The lines by which waiting tools know that the server is ready, last of all.
    pub(crate) fn tell_waiting_tools(&self, bound: &[SocketAddr]) {
        if self.is_container(is_set) {
            self.ready_lines(bound).iter().for_each(|line| say(line));
        }
    }

    fn ready_lines(&self, bound: &[SocketAddr]) -> Vec<String> {
        let scheme = self.protocol.unwrap_or(Scheme::Http).text();
        let listening = |address: &SocketAddr| format!("Now listening on: {scheme}://{address}");
        bound.iter().map(listening).chain(READY.map(str::to_owned)).collect()
    }

    /// The level of the log in our words.
    pub(crate) fn log_level(given: &str) -> String {
        match given.to_ascii_lowercase().as_str() {
            "quiet" => "off".to_owned(),
            level => level.to_owned(),
        }
    }
}

fn is_set(name: &str) -> bool {
    crate::config::environment(name).is_some()
}

/// An address for clients, where only a host may be given.
pub(crate) fn public_endpoint(given: &str, scheme: Scheme, port: u16) -> String {
    if given.contains("://") {
        return given.to_owned();
    }
    let has_port = given.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let port = if has_port { String::new() } else { format!(":{port}") };
    format!("{}://{given}{port}", scheme.text())
}

/// `true`, `True`, `1`, `false`, `False`, `0`.
fn truth(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" => Ok(true),
        "false" | "0" | "no" => Ok(false),
        _ => Err(format!("'{text}' is neither true nor false")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_endpoints_may_be_hosts() {
        let check = |given, scheme, expected| {
            assert_eq!(public_endpoint(given, scheme, 8081), expected);
        };
        check("cosmos", Scheme::Http, "http://cosmos:8081");
        check("cosmos:9000", Scheme::HttpsInsecure, "https://cosmos:9000");
        check("https://db.example/", Scheme::Http, "https://db.example/");
    }

    #[test]
    fn what_has_no_effect_is_said_once() {
        let options = EmulatorOptions {
            enable_explorer: Some(true),
            enable_otlp: Some(true),
            enable_telemetry: Some(false),
            ..EmulatorOptions::default()
        };
        let set = |name: &str| name == "AZURE_COSMOS_EMULATOR_PARTITION_COUNT";
        let remarks = options.remarks(set);
        assert_eq!(remarks.len(), 2, "{remarks:?}");
        assert!(remarks[0].starts_with("AZURE_COSMOS_EMULATOR_PARTITION_COUNT has no effect"));
        assert!(EmulatorOptions::default().remarks(|_| false).is_empty());
    }

    #[test]
    fn nobody_who_does_not_wait_is_told() {
        let options = EmulatorOptions::default();
        assert!(!options.is_container(|_| false));
        assert!(options.is_container(|name| name.starts_with("AZURE_COSMOS")));
        let lines = options.ready_lines(&["0.0.0.0:8081".parse().unwrap()]);
        let ready = "System is now fully ready to accept requests";
        assert_eq!(lines, ["Now listening on: http://0.0.0.0:8081", ready, "Started"]);
    }
}
