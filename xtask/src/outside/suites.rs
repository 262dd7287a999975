//! The suites: where they are in their checkouts, how they are started, where their verdicts are.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::java;
use super::reports::Report;
use crate::Outcome;
use crate::rest::WELL_KNOWN_KEY;
use crate::{processes, workspace};

/// A suite and how it is run.
pub(super) struct Suite {
    /// Its option, and its file of known failures.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// What its first run against this server reached.
    pub(super) first: &'static str,
    /// Options of the server.
    pub(super) server: &'static [&'static str],
    /// The ports at which the suite expects the server, because its source says so; what comes to the second is passed on. None:
    /// it is told, and any will do.
    pub(super) ports: &'static [u16],
    /// How many servers its steps are dealt out to.
    pub(super) lanes: usize,
    /// No step may take longer.
    pub(super) step_within: Duration,
    tool: (&'static str, &'static str),
    /// What is built or looked up once, before servers are started: given the checkout and the folder for reports.
    pub(super) prepare: fn(&Path, &Path) -> Outcome<()>,
    /// What is run; their outputs are read as one. The same steps in the same order for every server.
    pub(super) steps: fn(&Site<'_>) -> Outcome<Vec<Step>>,
    pub(super) report: Report,
}

/// One process of a suite.
pub(super) struct Step {
    /// What it is called when it does not end.
    pub(super) name: String,
    pub(super) command: Command,
}

/// Where a suite finds things.
pub(super) struct Site<'a> {
    /// The checkout.
    pub(super) folder: &'a Path,
    /// For reports.
    pub(super) out: &'a Path,
    /// The server's authority in PEM.
    pub(super) certificate: &'a Path,
    pub(super) port: u16,
}

/// Tests that ask for 12,000 or 30,000 RU/s expect two or five ranges.
const RANGES: &[&str] = &["--in-memory", "--partition-rus", "6000"];
/// The same for suites that set every weaker level of consistency.
const STRONG: &[&str] = &["--in-memory", "--partition-rus", "6000", "--consistency", "strong"];

/// The official emulator, and its second gateway: Go's tests ask both.
const EMULATOR_PORTS: &[u16] = &[8081, 8903];
/// A whole suite in one process.
const SUITE_WITHIN: Duration = Duration::from_secs(3 * 60 * 60);
/// One test, or one class of tests.
const PART_WITHIN: Duration = Duration::from_secs(20 * 60);

pub(super) const SUITES: &[Suite] = &[
    Suite {
        name: "go",
        title: "Go azcosmos, emulator tests",
        first: "36 of 43",
        server: STRONG,
        ports: EMULATOR_PORTS,
        lanes: 1,
        step_within: PART_WITHIN,
        tool: ("go", "version"),
        prepare: compile_go,
        steps: go,
        report: Report::Go,
    },
    Suite {
        name: "gocosmos",
        title: "gocosmos, REST client and SQL driver",
        first: "83 of 119",
        server: RANGES,
        ports: &[],
        lanes: 1,
        step_within: SUITE_WITHIN,
        tool: ("go", "version"),
        prepare: nothing,
        steps: gocosmos,
        report: Report::Go,
    },
    Suite {
        name: "rust-plans",
        title: "Rust driver, query plans beside the gateway's",
        first: "59 of 70",
        server: RANGES,
        ports: &[],
        lanes: 1,
        step_within: SUITE_WITHIN,
        tool: ("cargo", "--version"),
        prepare: nothing,
        steps: rust_plans,
        report: Report::Cargo,
    },
    Suite {
        name: "java",
        title: "Java azure-cosmos-tests, group emulator",
        first: "1827 of 2006",
        server: STRONG,
        ports: &[],
        lanes: 3,
        step_within: PART_WITHIN,
        tool: ("mvn", "--version"),
        prepare: java::prepare,
        steps: java::steps,
        report: Report::Tally,
    },
    Suite {
        name: "langchain",
        title: "langchain-azure-cosmosdb, integration tests",
        first: "109 of 109 without an embedding key",
        server: RANGES,
        ports: &[],
        lanes: 1,
        step_within: SUITE_WITHIN,
        tool: ("python3", "--version"),
        prepare: nothing,
        steps: langchain,
        report: Report::Junit,
    },
    Suite {
        name: "dotnet-emulator",
        title: ".NET SDK, EmulatorTests",
        first: "783 of 1034 in Gateway mode, 304 of 1117 in Direct mode",
        server: STRONG,
        ports: &[8081],
        lanes: 1,
        step_within: SUITE_WITHIN,
        tool: ("dotnet", "--version"),
        prepare: nothing,
        steps: dotnet_emulator,
        report: Report::Trx,
    },
    Suite {
        name: "efcore",
        title: "EF Core, functional tests of the Cosmos provider",
        first: "5275 of 5303 (EF 10), 847 of 3946 (EF 11)",
        server: RANGES,
        ports: &[],
        lanes: 1,
        step_within: SUITE_WITHIN,
        tool: ("dotnet", "--version"),
        prepare: nothing,
        steps: efcore,
        report: Report::Trx,
    },
];

impl Suite {
    /// A tool that the suite needs and this machine has not.
    pub(super) fn missing_tool(&self) -> Option<&'static str> {
        let (tool, version) = self.tool;
        processes::probe(tool, &[version]).is_none().then_some(tool)
    }
}

impl Site<'_> {
    pub(super) fn endpoint(&self, scheme: &str) -> String {
        format!("{scheme}://localhost:{}/", self.port)
    }

    fn connection_string(&self, scheme: &str) -> String {
        format!("AccountEndpoint={};AccountKey={WELL_KNOWN_KEY};", self.endpoint(scheme))
    }
}

fn nothing(_folder: &Path, _out: &Path) -> Outcome<()> {
    Ok(())
}

fn compile_go(folder: &Path, out: &Path) -> Outcome<()> {
    let mut compile = Command::new("go");
    compile.current_dir(folder.join("sdk/data/azcosmos"));
    compile.args(["test", "-c", "-o"]).arg(out.join("azcosmos.test")).arg(".");
    processes::run("go: compile the tests", &mut compile)
}

/// Each test is a process of its own: one that fails ends its process, and with it those behind it.
fn go(site: &Site<'_>) -> Outcome<Vec<Step>> {
    let folder = site.folder.join("sdk/data/azcosmos");
    let step = |name: String| {
        let mut command = Command::new(site.out.join("azcosmos.test"));
        command.current_dir(&folder).args(["-test.v", "-test.timeout=10m", "-test.run"]);
        command.arg(format!("^{name}$"));
        command.env("EMULATOR", "true").env("SSL_CERT_FILE", site.certificate);
        Step { name, command }
    };
    Ok(emulator_tests(&folder)?.into_iter().map(step).collect())
}

/// A suite that runs in one process.
fn whole(name: &str, command: Command) -> Vec<Step> {
    vec![Step { name: name.to_owned(), command }]
}

/// The tests of the files `emulator_…`: nothing but the file tells them from the others.
fn emulator_tests(folder: &Path) -> Outcome<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if !path.file_name().unwrap_or_default().to_string_lossy().starts_with("emulator_") {
            continue;
        }
        let text = std::fs::read_to_string(&path)?;
        let name = |line: &str| {
            let name = line.strip_prefix("func ")?.split('(').next()?;
            name.starts_with("Test").then(|| name.to_owned())
        };
        names.extend(text.lines().filter_map(name));
    }
    names.sort();
    Ok(names)
}

fn gocosmos(site: &Site<'_>) -> Outcome<Vec<Step>> {
    let mut command = Command::new("go");
    command
        .current_dir(site.folder.join("module_test"))
        .args(["test", "-v", "-count=1", "-p=1", "-timeout=2h", "./"])
        .env("COSMOSDB_URL", format!("{}TimeoutMs=30000", site.connection_string("http")));
    Ok(whole("module_test", command))
}

/// Works in a checkout of the repository and in the sources of the published crate.
fn rust_plans(site: &Site<'_>) -> Outcome<Vec<Step>> {
    let mut command = workspace::cargo();
    command
        .current_dir(site.folder)
        .args(["test", "-p", "azure_data_cosmos_driver", "--features", "__internal_testing"])
        .args(["--test", "gateway_query_plan_comparison", "--no-fail-fast"])
        // They are marked as ignored, because they need a server.
        .args(["--", "--include-ignored"])
        .env("CARGO_TARGET_DIR", site.out.join("target"))
        .env("AZURE_COSMOS_CONNECTION_STRING", site.connection_string("http"))
        .env("AZURE_COSMOS_TEST_MODE", "required");
    Ok(whole("gateway_query_plan_comparison", command))
}

fn langchain(site: &Site<'_>) -> Outcome<Vec<Step>> {
    let mut command = Command::new("python3");
    command
        .current_dir(site.folder.join("libs/azure-cosmosdb"))
        // Files that need an embedding service cannot be loaded without its packages.
        .args(["-m", "pytest", "-q", "--continue-on-collection-errors"])
        .args(["tests/integration_tests", "--junit-xml"])
        .arg(site.out.join("report.xml"))
        .env("COSMOSDB_CONN_STRING", site.connection_string("http"))
        .env("COSMOSDB_ENDPOINT", site.endpoint("http"))
        .env("COSMOSDB_KEY", WELL_KNOWN_KEY);
    Ok(whole("tests/integration_tests", command))
}

fn dotnet_emulator(site: &Site<'_>) -> Outcome<Vec<Step>> {
    let project = "Microsoft.Azure.Cosmos/tests/Microsoft.Azure.Cosmos.EmulatorTests";
    Ok(whole("EmulatorTests", dotnet_test(site, project)))
}

fn efcore(site: &Site<'_>) -> Outcome<Vec<Step>> {
    let mut command = dotnet_test(site, "test/EFCore.Cosmos.FunctionalTests");
    command.env("Test__Cosmos__DefaultConnection", site.endpoint("https"));
    Ok(whole("EFCore.Cosmos.FunctionalTests", command))
}

fn dotnet_test(site: &Site<'_>, project: &str) -> Command {
    let mut command = Command::new("dotnet");
    command
        .current_dir(site.folder.join(project))
        .args(["test", "--logger", "trx;LogFileName=report.trx", "--results-directory"])
        .arg(site.out)
        .env("SSL_CERT_FILE", site.certificate)
        .env("DOTNET_CLI_TELEMETRY_OPTOUT", "1");
    command
}
