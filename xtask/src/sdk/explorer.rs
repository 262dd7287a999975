//! The data explorer: its files compared with its sources, its logic, and its pages in a real browser.

use std::path::Path;
use std::process::Command;

use super::{Counts, javascript};
use crate::Outcome;
use crate::explorer::{compare, folder};
use crate::{processes, workspace};

const GROUP: &str = "explorer";

/// Installs the packages, and a browser where there is none.
pub(super) fn prepare() -> Outcome<()> {
    javascript::install(GROUP, &folder(), "svelte")?;
    let mut install = Command::new("sh");
    install.current_dir(workspace::root().join("examples/blog")).arg("test/install-browser.sh");
    processes::run("explorer: look for a browser", &mut install).map_err(|_| {
        "no browser and none could be installed: install Chromium (Debian: apt-get install \
         chromium), or point BLOG_BROWSER at one, or say --without explorer"
            .into()
    })
}

/// Compares the files, then runs the tests of logic and pages. Those that restart a server, or need one with
/// other settings, start it from the binary.
pub(super) fn run(name: &str, endpoint: &str, binary: Option<&Path>) -> Outcome<Counts> {
    let different = compare()?;
    if !different.is_empty() {
        return Err(different.join("; ").into());
    }
    let variables: Vec<_> =
        binary.iter().map(|binary| ("EXPLORER_SERVER", binary.as_os_str())).collect();
    javascript::run_folder_with(name, GROUP, &folder(), endpoint, &variables)
}
