//! `cargo xtask explorer`: the committed files of the data explorer are what its sources make; and its pictures.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Outcome;
use crate::arguments::{Arguments, Choice};
use crate::cluster::{self, ClusterPlaces};
use crate::server::Server;
use crate::workspace::{self, Profile, build_server};
use crate::{postgres, processes, sdk};

const ABOUT: &str = "\
The data explorer's files. --check builds them into a temporary folder and compares every byte with what is committed; --pictures
takes the pictures of docs/images in Chromium against a fresh server, and against three nodes where there is a PostgreSQL; --idle measures what the open page costs a server that
answers point reads, and the page itself: first paint, idle processor time, frames while scrolling.";

const CHOICES: &[Choice] = &[
    Choice { name: "check", value: "", meaning: "Build anew and compare with what is committed" },
    Choice { name: "pictures", value: "", meaning: "Take the pictures of docs/images" },
    Choice {
        name: "binary",
        value: "PATH",
        meaning: "The server to look at, instead of building it",
    },
    Choice {
        name: "files",
        value: "FOLDER",
        meaning: "What it serves, instead of the files that are in it",
    },
    Choice {
        name: "idle",
        value: "",
        meaning: "Measure what the open page costs (a quiet machine, please)",
    },
];

/// Runs the chore; false when files differ.
pub(crate) fn explorer(words: &[OsString]) -> Outcome<bool> {
    let Some(arguments) = Arguments::parse("explorer", ABOUT, CHOICES, words)? else {
        return Ok(true);
    };
    if !["check", "pictures", "idle"].iter().any(|name| arguments.has(name)) {
        return Err("say --check, --pictures or --idle".into());
    }
    sdk::prepare_explorer()?;
    if arguments.has("pictures") {
        let binary = match arguments.text("binary") {
            Some(path) => PathBuf::from(path).canonicalize()?,
            None => build_server(Profile::Release)?,
        };
        take_pictures(&binary, arguments.text("files"))?;
    }
    if arguments.has("idle") {
        measure_idle()?;
    }
    if arguments.has("check") {
        let different = compare()?;
        different.iter().for_each(|line| println!("{line}"));
        return Ok(different.is_empty());
    }
    Ok(true)
}

/// Builds into a temporary folder; says which files differ from the committed ones.
pub(crate) fn compare() -> Outcome<Vec<String>> {
    let made = tempfile::Builder::new().prefix("armilla-explorer-").tempdir()?;
    let (dist, table) = (made.path().join("dist"), made.path().join("files.rs"));
    let mut build = Command::new("npm");
    build
        .current_dir(folder())
        .args(["run", "--silent", "build"])
        .env("EXPLORER_OUT", &dist)
        .env("EXPLORER_TABLE", &table);
    processes::run("explorer: build", &mut build)?;
    let committed = workspace::root().join("crates/explorer");
    let mut different = Vec::new();
    let (mut ours, mut theirs) = (BTreeSet::new(), BTreeSet::new());
    list(&committed.join("dist"), "", &mut ours)?;
    list(&dist, "", &mut theirs)?;
    for name in ours.union(&theirs) {
        let read = |folder: &Path| std::fs::read(folder.join(name)).ok();
        if read(&committed.join("dist")) != read(&dist) {
            different.push(format!("crates/explorer/dist/{name} is not what the sources make"));
        }
    }
    if std::fs::read(&table)? != std::fs::read(committed.join("src/files.rs"))? {
        different.push("crates/explorer/src/files.rs is not what the sources make".to_owned());
    }
    if !different.is_empty() {
        different.push("run `npm run build` in explorer/ and commit what it writes".to_owned());
    }
    Ok(different)
}

fn list(folder: &Path, below: &str, found: &mut BTreeSet<String>) -> Outcome<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            list(&path, &format!("{below}{name}/"), found)?;
        } else {
            found.insert(format!("{below}{name}"));
        }
    }
    Ok(())
}

fn take_pictures(binary: &Path, files: Option<&str>) -> Outcome<()> {
    let options: Vec<&str> = files.map_or(Vec::new(), |folder| vec!["--explorer-dir", folder]);
    let data = tempfile::Builder::new().prefix("armilla-pictures-").tempdir()?;
    let log = workspace::work().join("pictures.log");
    std::fs::create_dir_all(workspace::work())?;
    std::fs::write(&log, b"")?;
    let server = Server::start_with(binary, &data.path().join("data"), &log, &options)?;
    let mut pictures = Command::new("npm");
    pictures
        .current_dir(folder())
        .args(["run", "--silent", "pictures"])
        .env("ARMILLA_ENDPOINT", server.endpoint("http"))
        .env("EXPLORER_SERVER", binary);
    processes::run("explorer: pictures", &mut pictures)?;
    server.stop()?;
    if postgres::find().is_none() {
        processes::announce(
            "explorer: no PostgreSQL, so the pictures of several nodes stay as they are",
        );
        return Ok(());
    }
    cluster::show(binary, &options, &|places| take_cluster_pictures(binary, places))
}

/// The partitions over several nodes, and what `armilla cluster status` prints.
fn take_cluster_pictures(binary: &Path, places: &ClusterPlaces) -> Outcome<()> {
    let mut pictures = Command::new("node");
    pictures
        .current_dir(folder())
        .arg("test/cluster.mjs")
        .env("CLUSTER_NODES", places.endpoints.join(" "))
        .env("CLUSTER_KEY", &places.key)
        .env("CLUSTER_STORE", &places.store)
        .env("EXPLORER_SERVER", binary);
    processes::run("explorer: pictures of several nodes", &mut pictures)
}

fn measure_idle() -> Outcome<()> {
    let binary = build_server(Profile::Release)?;
    let mut idle = Command::new("node");
    idle.current_dir(folder()).arg("test/idle.mjs").env("EXPLORER_SERVER", &binary);
    processes::run("explorer: what the open page costs", &mut idle)
}

/// The explorer's sources.
pub(crate) fn folder() -> PathBuf {
    workspace::root().join("explorer")
}
