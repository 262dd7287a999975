//! The blog platform as a benchmark: Armilla, PostgreSQL and the floors of the machine, cell beside cell.
//!
//! `cargo xtask bench` builds and starts everything and calls this program; `docs/benchmarks.md` says how figures are read. It runs on Linux,
//! which tells what a process has used.
#![allow(clippy::print_stdout, reason = "a chore talks to the person at the terminal")]

mod armilla;
mod armilla_data;
mod blog;
mod cell;
mod chance;
mod dataset;
mod exchange;
mod floor;
mod postgres;
mod processes;
mod report;
mod rows;
mod run;
mod signed;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use run::{Settings, System};

/// What a step returns: the reason it could not be done, as a sentence.
type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const HELP: &str = "\
bench floor --port PORT --threads N     serve the HTTP floor
bench load  --armilla HOST:PORT --armilla-process ID --scratch FOLDER [--users N] [--only posts_v1,posts]
            load only, and wait until the server rests
bench run   --armilla HOST:PORT --armilla-process ID --floor HOST:PORT --floor-process ID --scratch FOLDER --report FILE
            [--postgres 'host=… port=… user=…' --postgres-process ID] [--gin yes] [--users N] [--growth N]
            [--seconds N] [--repeats N] [--connections 16,1] [--only V2.Q4,C3] [--patience SECONDS] [--data FOLDER]
            [--loaded FILE] [--brief yes]";

fn main() -> ExitCode {
    match start() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn start() -> Outcome<()> {
    let mut words = std::env::args_os().skip(1);
    let command = words.next().unwrap_or_default();
    let options = Options::parse(words)?;
    match command.to_str() {
        Some("floor") => {
            let threads = usize::try_from(options.number("threads", 2)?)?;
            floor::serve(u16::try_from(options.number("port", 0)?)?, threads)
        }
        Some("load") => load_only(&options),
        Some("run") => measure(&options),
        _ => {
            println!("{HELP}");
            Ok(())
        }
    }
}

fn measure(options: &Options) -> Outcome<()> {
    let settings = settings(options)?;
    let report_file = options.required("report")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let results = runtime.block_on(run::run(&settings))?;
    let text = report::report(&results);
    println!("\n{text}");
    std::fs::write(report_file, text)?;
    Ok(())
}

fn load_only(options: &Options) -> Outcome<()> {
    let users = options.number("users", 100)?.max(1);
    let only = options.list("only").unwrap_or_default();
    let scratch = options.required("scratch")?.as_ref();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run::load_only(&options.system("armilla")?, users, scratch, &only))
}

fn settings(options: &Options) -> Outcome<Settings> {
    let system = |name: &str| options.system(name);
    let list = |name: &str| options.list(name);
    let connections: Vec<String> =
        list("connections").unwrap_or_else(|| vec!["16".into(), "1".into()]);
    let growth = options.number("growth", 0)?;
    Ok(Settings {
        armilla: system("armilla")?,
        postgres: options.text("postgres").map(|_| system("postgres")).transpose()?,
        floor: system("floor")?,
        scratch: options.required("scratch")?.into(),
        users: options.number("users", 1000)?.max(1),
        growth: (growth > 0).then_some(growth),
        cell_time: Duration::from_secs(options.number("seconds", 3)?),
        connections: connections.iter().map(|word| word.parse()).collect::<Result<_, _>>()?,
        repeats: usize::try_from(options.number("repeats", 1)?)?.max(1),
        only: list("only").unwrap_or_default(),
        gin: options.text("gin").is_some(),
        patience: Duration::from_secs(options.number("patience", 0)?),
        data: options.text("data").map(Into::into),
        loaded_mark: options.text("loaded").map(Into::into),
        is_brief: options.text("brief").is_some(),
    })
}

/// `--name value` pairs.
struct Options(BTreeMap<String, String>);

impl Options {
    fn parse(words: impl Iterator<Item = std::ffi::OsString>) -> Outcome<Self> {
        let mut parser = lexopt::Parser::from_args(words);
        let mut options = BTreeMap::new();
        while let Some(word) = parser.next()? {
            let lexopt::Arg::Long(name) = word else { return Err(word.unexpected().into()) };
            let name = name.to_owned();
            options.insert(name, parser.value()?.to_string_lossy().into_owned());
        }
        Ok(Self(options))
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    fn required(&self, name: &str) -> Outcome<&str> {
        self.text(name)
            .ok_or_else(|| format!("--{name} is missing; `bench help` lists the options").into())
    }

    fn list(&self, name: &str) -> Option<Vec<String>> {
        self.text(name).map(|text| text.split(',').map(str::to_owned).collect())
    }

    fn system(&self, name: &str) -> Outcome<System> {
        let process = self.required(&format!("{name}-process"))?.parse()?;
        Ok(System { address: self.required(name)?.to_owned(), process })
    }

    fn number(&self, name: &str, default: u64) -> Outcome<u64> {
        let number = self.text(name).map(|text| {
            text.parse().map_err(|_| format!("--{name} takes a whole number, not `{text}`").into())
        });
        number.unwrap_or(Ok(default))
    }
}
