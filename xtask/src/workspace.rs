//! Folders of the repository, and how cargo is called for it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use crate::Outcome;
use crate::processes;

/// The folder of this crate. Cargo tells it when it runs us; what was compiled in may be another
/// clone's, where several share a target folder.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from)
});

/// The root of the repository: the parent of this crate's folder.
pub(crate) fn root() -> &'static Path {
    FOLDER.parent().expect("xtask lies one level below the root")
}

/// The git-ignored folder for whatever the SDK tests install and write.
pub(crate) fn work() -> PathBuf {
    root().join("conformance/.work")
}

/// Where cargo puts what it builds.
pub(crate) fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root().join(folder),
        None => root().join("target"),
    }
}

/// Which profile the server is built with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Quick to build; what `test` uses.
    Dev,
    /// What users run.
    Release,
}

/// A cargo command in the root of the repository.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(
        std::env::var_os("CARGO").unwrap_or_else(|| std::ffi::OsString::from("cargo")),
    );
    command.current_dir(root());
    command
}

/// Builds the server and returns the path of its binary.
pub(crate) fn build_server(profile: Profile) -> Outcome<PathBuf> {
    let mut command = cargo();
    command.args(["build", "--package", "armilla", "--bin", "armilla"]);
    let folder = match profile {
        Profile::Dev => "debug",
        Profile::Release => {
            command.arg("--release");
            "release"
        }
    };
    processes::run("build the server", &mut command)?;
    let binary = target().join(folder).join(format!("armilla{}", std::env::consts::EXE_SUFFIX));
    if binary.is_file() {
        Ok(binary)
    } else {
        Err(format!("the build left no binary at {}", binary.display()).into())
    }
}
