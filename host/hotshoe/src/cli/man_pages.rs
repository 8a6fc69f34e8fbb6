//! `hotshoe man-pages`: writes the manual pages that a release has.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Command;

/// Write a manual page for each command
#[derive(clap::Args, Debug)]
#[command(after_help = "Example: hotshoe man-pages man/man1 && man man/man1/hotshoe-run.1")]
pub struct Args {
    /// The folder to write them into; it is created if it is missing
    folder: PathBuf,
}

impl Args {
    /// Writes the pages of this command line; a hidden command has none.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn run(self, commands: Command) -> anyhow::Result<ExitCode> {
        let written = fs::create_dir_all(&self.folder).and_then(|()| clap_mangen::generate_to(commands, &self.folder));
        written.with_context(|| {
            format!("no manual pages are written into {}; name a folder that you may write", self.folder.display())
        })?;
        Ok(ExitCode::SUCCESS)
    }
}
