//! Reads the definition of a plugin's kind from its source: a binary of its crate, or a file.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::cli::project::{Folder, Language};
use hotshoe_operator::config::file;

/// The source file of the binary that prints the definition.
const BINARY: &str = "src/bin/crd.rs";
/// The file with the definition.
const FILE: &str = "crd.yaml";

/// Where the definition of a plugin's kind comes from.
#[derive(Debug)]
pub(super) enum Source {
    /// A binary of its crate, which prints it.
    Crate,
    /// A file beside `plugin.yaml`.
    File(PathBuf),
}

impl Source {
    /// Returns where the definition of a plugin's kind comes from, if it has one.
    pub(super) fn of(folder: &Folder) -> Option<Self> {
        let file = folder.dir.join(FILE);
        if folder.language() == Some(Language::Rust) && folder.dir.join(BINARY).is_file() {
            return Some(Self::Crate);
        }
        file.is_file().then_some(Self::File(file))
    }

    /// Returns the path of the crate or file, relative to the root of the project.
    pub(super) fn place(&self, folder: &Folder) -> String {
        let path: &Path = match self {
            Self::Crate => &folder.dir,
            Self::File(file) => file,
        };
        path.strip_prefix(folder.root())
            .ok()
            .filter(|path| !path.as_os_str().is_empty())
            .unwrap_or(path)
            .display()
            .to_string()
    }

    /// Reads the definition.
    ///
    /// # Errors
    /// If the crate does not compile, or neither its output nor the file is YAML.
    pub(super) fn definition(&self, folder: &Folder) -> anyhow::Result<Value> {
        match self {
            Self::Crate => printed(folder),
            Self::File(path) => {
                serde_saphyr::from_str(&file::read(path)?).with_context(|| format!("{} is no YAML", path.display()))
            }
        }
    }
}

/// Returns what the crate's binary prints. It is built in the same target directory as the components, so that nothing
/// is compiled twice.
fn printed(folder: &Folder) -> anyhow::Result<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["run", "--quiet", "--features", "crd", "--bin", "crd", "--manifest-path"])
        .arg(folder.crate_manifest())
        .arg("--target-dir")
        .arg(folder.guests())
        .current_dir(&folder.dir)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo: install Rust from https://rustup.rs")?;
    let status = output.status;
    ensure!(status.success(), "`cargo run --features crd --bin crd` ended with {status}; its output is above");
    serde_json::from_slice(&output.stdout).or_else(|_| serde_saphyr::from_slice(&output.stdout)).context(
        "its binary `crd` prints neither JSON nor YAML; have it print the definition alone, by hotshoe_sdk::crd::print",
    )
}
