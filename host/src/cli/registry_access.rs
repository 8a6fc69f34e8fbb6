//! The options by which `hotshoe push` and `hotshoe pull` reach a registry.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;

use crate::registry::Access;
use crate::registry::credentials::Credentials;

/// The options by which a registry is reached.
#[derive(clap::Args, Debug)]
pub(super) struct AccessOptions {
    /// Trust the authorities in this file too (PEM)
    #[arg(long, value_name = "FILE")]
    registry_ca: Option<PathBuf>,
    /// Use no TLS. Without this option, only a registry on this machine is reached without TLS
    #[arg(long)]
    plain_http: bool,
}

impl AccessOptions {
    /// Reads the authorities from their file, and the credentials that `docker login` has saved.
    pub(super) fn read(&self) -> anyhow::Result<Access> {
        let authorities = self.registry_ca.as_ref().map(|path| {
            fs::read_to_string(path)
                .with_context(|| format!("cannot read the authorities of registries in {}", path.display()))
        });
        let credentials = Credentials::of_user()?;
        Ok(Access { credentials, authorities: authorities.transpose()?, plain_http: self.plain_http })
    }
}
