//! `cargo xtask golden`: queries with their rows, continuations, charges and plans, as text that is reviewed.
//!
//! The scripts and their runner are a test of the engine (`crates/engine/tests/golden`), so
//! `cargo test` compares them as well. This chore runs that test alone, or writes down what is printed
//! now.

use std::ffi::OsString;

use crate::arguments::{Arguments, Choice};
use crate::{Outcome, processes, workspace};

/// Tells the test to write instead of to compare.
const UPDATE: &str = "ARMILLA_GOLDEN_UPDATE";
/// Where the scripts are, from the root of the repository.
const SCRIPTS: &str = "crates/engine/tests/golden/scripts";

const ABOUT: &str = "\
Runs the golden scripts and shows where rows, continuations, charges or plans differ from what they say.
An update is reviewed as a diff: whatever changed there changes for users.";

const CHOICES: &[Choice] = &[
    Choice { name: "update", value: "", meaning: "Write down what is printed now" },
    Choice { name: "only", value: "SCRIPT", meaning: "Run only this script, named without .txt" },
];

/// Runs the scripts; false when one prints something else.
pub(crate) fn golden(words: &[OsString]) -> Outcome<bool> {
    let Some(arguments) = Arguments::parse("golden", ABOUT, CHOICES, words)? else {
        return Ok(true);
    };
    let mut command = workspace::cargo();
    command.args(["test", "--quiet", "--package", "armilla-engine", "--test", "golden"]);
    if let Some(script) = arguments.text("only") {
        let path = workspace::root().join(SCRIPTS).join(format!("{script}.txt"));
        if !path.is_file() {
            return Err(format!("there is no script {script}.txt in {SCRIPTS}").into());
        }
        command.args(["--", "--exact", script]);
    }
    if arguments.has("update") {
        command.env(UPDATE, "1");
    }
    processes::run("golden scripts", &mut command)?;
    if arguments.has("update") {
        println!("Written. `git diff {SCRIPTS}` shows what changed.");
    }
    Ok(true)
}
