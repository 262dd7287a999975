//! The example blog, driven in a real browser: the JavaScript SDK as an application uses it.

use std::path::PathBuf;
use std::process::Command;

use super::{Counts, javascript};
use crate::Outcome;
use crate::{processes, workspace};

const GROUP: &str = "blog";

/// Installs the packages, and a browser where there is none.
pub(super) fn prepare() -> Outcome<()> {
    javascript::install(GROUP, &folder(), "@azure/cosmos")?;
    let mut install = Command::new("sh");
    install.current_dir(folder()).arg("test/install-browser.sh");
    processes::run("blog: look for a browser", &mut install).map_err(|_| {
        "no browser and none could be installed: install Chromium (Debian: apt-get install \
         chromium), or point BLOG_BROWSER at one, or say --without blog"
            .into()
    })
}

/// Runs the browser tests.
pub(super) fn run(name: &str, endpoint: &str) -> Outcome<Counts> {
    javascript::run_folder(name, GROUP, &folder(), endpoint)
}

fn folder() -> PathBuf {
    workspace::root().join("examples/blog")
}
