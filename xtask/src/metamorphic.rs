//! The same queries in many ways, with the same answers: `conformance/metamorphic` tells the idea.
//!
//! The Python tests load the containers and keep their answers, the JavaScript tests ask as well, the
//! server is stopped and started on its folder, and both ask again.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Instant;

use crate::Outcome;
use crate::sdk::{self, Sdk};
use crate::server::Server;
use crate::summary::Row;
use crate::workspace;

const NAME: &str = "metamorphic";
const MOMENTS: [&str; 2] = ["before a restart", "after it"];

/// Runs both SDKs before and after a restart: a row for each.
pub(crate) fn run(binary: &Path) -> Vec<Row> {
    let started = Instant::now();
    let mut rows = Vec::new();
    if let Err(error) = run_all(binary, &mut rows) {
        rows.push(Row::broken(NAME, started.elapsed(), error.to_string()));
    }
    rows
}

fn run_all(binary: &Path, rows: &mut Vec<Row>) -> Outcome<()> {
    for sdk in [Sdk::Python, Sdk::JavaScript] {
        sdk.prepare()?;
    }
    std::fs::create_dir_all(workspace::work())?;
    let log = workspace::work().join("metamorphic-server.log");
    std::fs::write(&log, b"")?;
    let folder = tempfile::Builder::new().prefix("armilla-metamorphic-").tempdir()?;
    let answers = folder.path().join("answers.json");
    for (number, moment) in MOMENTS.into_iter().enumerate() {
        let server = Server::start(binary, &folder.path().join("data"), &log)?;
        let endpoint = server.endpoint("http");
        let number = number.to_string();
        let variables =
            [("ARMILLA_ANSWERS", answers.as_os_str()), ("ARMILLA_RUN", OsStr::new(&number))];
        for sdk in [Sdk::Python, Sdk::JavaScript] {
            rows.push(ask(sdk, moment, &endpoint, &variables));
        }
        server.stop()?;
    }
    Ok(())
}

fn ask(sdk: Sdk, moment: &str, endpoint: &str, variables: &[(&str, &OsStr)]) -> Row {
    let name = format!("{NAME}, {} {moment}", sdk.title());
    let started = Instant::now();
    let counts = match sdk {
        Sdk::Python => sdk::run_python_file(&name, endpoint, "metamorphic.py", variables),
        _ => sdk::run_javascript_file(&name, endpoint, "metamorphic.mjs", variables),
    };
    match counts {
        Ok(counts) => counts.into_row(&name, started.elapsed()),
        Err(error) => Row::broken(&name, started.elapsed(), error.to_string()),
    }
}
