//! Builds a component that is missing or older than its source, before it is tried.

use std::io::stderr;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, ensure};

use crate::cli::project::{Folder, shown};
use crate::cli::sources;
use hotshoe_platform::child::THIS_PROGRAM;

/// Where components are built to be tried, below the root of a project: no host looks there.
const TRIED: &str = "target/check/";

/// Builds the component of a plugin, if the one that was built to be tried is missing or older than its source. What the
/// build prints goes to standard error. Returns the folder of the component.
///
/// # Errors
/// When it cannot be built.
pub(super) fn build(folder: &Folder) -> anyhow::Result<PathBuf> {
    let tried = folder.root().join(TRIED);
    let component = folder.component(Some(&tried));
    if component.is_ok_and(|component| sources::newer_than(&component, &folder.dir).is_none()) {
        return Ok(tried);
    }
    // In a process of its own: its tools print what they like.
    let build =
        Command::new(THIS_PROGRAM).arg("build").arg(&folder.dir).arg("--out").arg(&tried).stdout(stderr()).status();
    let status = build.context("cannot run this program again")?;
    ensure!(status.success(), "{} cannot be built; the output of the build is above", shown(&folder.dir).display());
    Ok(tried)
}
