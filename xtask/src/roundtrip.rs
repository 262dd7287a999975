//! `cargo xtask roundtrip`: what goes in comes out, also when it is interrupted.
//!
//! Each file of a folder is imported into a container of its own and exported again, with the
//! commands that users have. The largest are killed (SIGKILL) in the middle of both, once, and
//! started again with the same words. In the end every line that went in must have come out, byte
//! for byte, in whatever order. Without a folder a small blog is [made](sample).

mod compare;
mod sample;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::arguments::{Arguments, Choice};
use crate::server::{self, Server};
use crate::summary::{Row, Summary};
use crate::workspace::{self, Profile};
use crate::{Outcome, processes};

/// Names of containers and their partition keys; what has another name is keyed by its id.
const KEYS: [(&str, &str); 5] = [
    ("users", "/id"),
    ("posts_v1", "/postId"),
    ("posts", "/postId"),
    ("users_v3", "/userId"),
    ("feed", "/type"),
];
/// A file with fewer bytes is gone before anybody could interrupt it.
const INTERRUPTED_BYTES_MIN: u64 = 2_000_000;
/// How often the file is looked at that says how far a transfer came.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// With this many lines there is time to wait for a third of them; smaller files are interrupted as
/// soon as anything is remembered.
const LARGE_LINES_MIN: u64 = 100_000;
const TRANSFER_WITHIN: Duration = Duration::from_secs(60 * 60);

const ABOUT: &str = "\
Imports every .jsonl file of a folder and exports it again, both killed (SIGKILL) in the middle and
started again where the file is large enough; every line must come back byte for byte, in any order.";

const CHOICES: &[Choice] = &[
    Choice { name: "data", value: "FOLDER", meaning: "The files; without it a small blog is made" },
    Choice { name: "binary", value: "PATH", meaning: "The server to test, instead of building it" },
    Choice { name: "release", value: "", meaning: "Build the server optimised" },
    Choice {
        name: "work",
        value: "FOLDER",
        meaning: "Where to put what is made (default: temporary)",
    },
];

/// The chore: reads its options, runs, prints the closing line.
pub(crate) fn roundtrip(words: &[OsString]) -> Outcome<bool> {
    let Some(arguments) = Arguments::parse("roundtrip", ABOUT, CHOICES, words)? else {
        return Ok(true);
    };
    let profile = if arguments.has("release") { Profile::Release } else { Profile::Dev };
    let binary = match arguments.text("binary") {
        Some(path) => PathBuf::from(path).canonicalize()?,
        None => workspace::build_server(profile)?,
    };
    let place = |name: &str| arguments.text(name).map(PathBuf::from);
    let mut summary = Summary::default();
    summary.add(run_with(&binary, place("data").as_deref(), place("work").as_deref()));
    Ok(summary.close())
}

/// The usual run, as part of all tests.
pub(crate) fn run(binary: &Path) -> Row {
    run_with(binary, None, None)
}

fn run_with(binary: &Path, data: Option<&Path>, work: Option<&Path>) -> Row {
    let name = "round trip";
    processes::announce("round trip: import and export, interrupted and resumed");
    let started = Instant::now();
    match Trip::new(binary, data, work).and_then(|trip| trip.run()) {
        Ok((passed, note)) => {
            Row { name: name.into(), passed, failed: 0, took: started.elapsed(), note }
        }
        Err(error) => Row::broken(name, started.elapsed(), error.to_string()),
    }
}

/// One run over one folder.
struct Trip<'a> {
    binary: &'a Path,
    files: Vec<PathBuf>,
    folder: tempfile::TempDir,
}

/// What a transfer took.
#[derive(Default)]
struct Took {
    time: Duration,
    interrupted: bool,
}

impl<'a> Trip<'a> {
    fn new(binary: &'a Path, data: Option<&Path>, work: Option<&Path>) -> Outcome<Self> {
        let mut builder = tempfile::Builder::new();
        let builder = builder.prefix("armilla-roundtrip-");
        let folder = match work {
            Some(work) => builder.tempdir_in(work)?,
            None => builder.tempdir()?,
        };
        // Sources are reached by names in our own folder, because an import leaves notes beside.
        let sources = folder.path().join("in");
        std::fs::create_dir(&sources)?;
        let mut files = Vec::new();
        match data {
            None => files.extend(sample::write(&sources)?),
            Some(data) => {
                for entry in std::fs::read_dir(data)? {
                    let path = entry?.path().canonicalize()?;
                    if path.extension().is_some_and(|found| found == "jsonl") {
                        let link = sources.join(path.file_name().unwrap_or_default());
                        std::os::unix::fs::symlink(&path, &link)?;
                        files.push(link);
                    }
                }
            }
        }
        files.sort();
        if files.is_empty() {
            return Err("the folder has no .jsonl files".into());
        }
        std::fs::create_dir(folder.path().join("out"))?;
        Ok(Self { binary, files, folder })
    }

    fn run(&self) -> Outcome<(u64, String)> {
        let log = self.folder.path().join("server.log");
        let server = Server::start(self.binary, &self.folder.path().join("data"), &log)?;
        let mut interruptions = (0, 0);
        let (mut items, mut imported, mut exported) = (0, Duration::ZERO, Duration::ZERO);
        for file in &self.files {
            let trip = self.one(&server, file);
            let (count, import, export) = trip
                .map_err(|error| format!("{}: {error}; {}", name_of(file), server::tail(&log)))?;
            interruptions.0 += u64::from(import.interrupted);
            interruptions.1 += u64::from(export.interrupted);
            items += count;
            imported += import.time;
            exported += export.time;
        }
        server.stop()?;
        if interruptions.0 == 0 || interruptions.1 == 0 {
            return Err("nothing was large enough to be interrupted".into());
        }
        let rate = |time: Duration| items as f64 / time.as_secs_f64().max(1e-9);
        let note = format!(
            "{items} items came back; {} imports and {} exports killed and resumed; {:.0} items/s in, {:.0} out",
            interruptions.0,
            interruptions.1,
            rate(imported),
            rate(exported)
        );
        Ok((self.files.len() as u64, note))
    }

    fn one(&self, server: &Server, file: &Path) -> Outcome<(u64, Took, Took)> {
        let name = name_of(file);
        let key = KEYS.iter().find(|(found, _)| *found == name).map_or("/id", |(_, key)| key);
        let size = std::fs::metadata(file)?.len();
        let lines = compare::lines(file)?;
        let third = if lines >= LARGE_LINES_MIN { lines / 3 } else { 1 };
        let interrupted_at = (size >= INTERRUPTED_BYTES_MIN).then_some(third);
        let import = self.transfer(
            server,
            &["import", "--container", &name, "--partition-key", key],
            file,
            ".armilla-import",
            interrupted_at,
        )?;
        let back = self.folder.path().join("out").join(format!("{name}.jsonl"));
        let export = self.transfer(
            server,
            &["export", "--container", &name],
            &back,
            ".armilla-export",
            interrupted_at,
        )?;
        let count = compare::same_lines(file, &back)?;
        let rate = |took: &Took| count as f64 / took.time.as_secs_f64().max(1e-9);
        let resumed = |took: &Took| if took.interrupted { ", killed and resumed" } else { "" };
        println!(
            "{name:10} {count:>9} items  in {:>6.1} s ({:>6.0}/s{})  out {:>6.1} s ({:>6.0}/s{})  equal",
            import.time.as_secs_f64(),
            rate(&import),
            resumed(&import),
            export.time.as_secs_f64(),
            rate(&export),
            resumed(&export),
        );
        std::fs::remove_file(&back)?;
        Ok((count, import, export))
    }

    /// Runs a transfer to its end; one that is interrupted is killed as soon as it has remembered
    /// so many items, and started again.
    fn transfer(
        &self,
        server: &Server,
        words: &[&str],
        file: &Path,
        suffix: &str,
        interrupted_at: Option<u64>,
    ) -> Outcome<Took> {
        let started = Instant::now();
        let mut command = Command::new(self.binary);
        server::forget_settings(&mut command);
        command
            .args(words)
            .args(["--database", "roundtrip", "--endpoint", &server.endpoint("http")])
            .arg(file)
            .stdin(Stdio::null())
            .stderr(Stdio::piped());
        let mut took = Took::default();
        if let Some(items) = interrupted_at {
            let mut state = file.as_os_str().to_owned();
            state.push(suffix);
            took.interrupted = kill_once_remembered(&mut command, Path::new(&state), items)?;
            if !took.interrupted {
                return Err(format!("{} was over before it could be killed", words[0]).into());
            }
        }
        let output = command.spawn()?.wait_with_output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() {
            return Err(format!("{} ended with {}: {said}", words[0], output.status).into());
        }
        if took.interrupted && !said.contains("going on behind") {
            return Err(format!("{} began anew: {said}", words[0]).into());
        }
        took.time = started.elapsed();
        Ok(took)
    }
}

/// Kills a transfer once its state file tells of so many items; false when it ended before.
fn kill_once_remembered(command: &mut Command, state: &Path, items: u64) -> Outcome<bool> {
    let mut child = command.spawn()?;
    let deadline = Instant::now() + TRANSFER_WITHIN;
    while Instant::now() < deadline {
        if child.try_wait()?.is_some() {
            return Ok(false);
        }
        if remembered(state) >= items {
            kill(&mut child)?;
            return Ok(state.exists());
        }
        thread::sleep(LOOK_EVERY);
    }
    kill(&mut child)?;
    Err("no progress was remembered in time".into())
}

/// The items that a state file tells of.
fn remembered(state: &Path) -> u64 {
    let Ok(text) = std::fs::read(state) else { return 0 };
    let Ok(kept) = serde_json::from_slice::<serde_json::Value>(&text) else { return 0 };
    kept["records"].as_u64().or(kept["items"].as_u64()).unwrap_or(0)
}

fn kill(child: &mut Child) -> Outcome<()> {
    child.kill()?;
    child.wait()?;
    Ok(())
}

fn name_of(file: &Path) -> String {
    file.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
