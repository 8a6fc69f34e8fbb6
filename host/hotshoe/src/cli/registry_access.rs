//! The options by which `hotshoe push` and `hotshoe pull` reach a registry.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;

use hotshoe_registry::credentials::Credentials;
use hotshoe_registry::{Access, connection};

/// The options by which a registry is reached.
#[derive(clap::Args, Debug)]
pub(super) struct AccessOptions {
    /// Trust the authorities in this file too (PEM)
    #[arg(long, value_name = "FILE")]
    registry_ca: Option<PathBuf>,
    /// Use no TLS. Without this option, only a registry on this machine is reached without TLS
    #[arg(long)]
    plain_http: bool,
    /// Send the user and the password to this server too, if the registry hands out its tokens there
    #[arg(long, value_name = "HOST", value_parser = token_host)]
    token_host: Option<String>,
}

fn token_host(text: &str) -> Result<String, String> {
    connection::check_token_host(text).map(|()| text.to_owned())
}

impl AccessOptions {
    /// Reads the authorities from their file, and the credentials that `docker login` has saved.
    pub(super) fn read(&self) -> anyhow::Result<Access> {
        let authorities = self.registry_ca.as_ref().map(|path| {
            fs::read_to_string(path)
                .with_context(|| format!("cannot read the authorities of registries in {}", path.display()))
        });
        let credentials = Credentials::of_user()?;
        let (plain_http, token_host) = (self.plain_http, self.token_host.clone());
        Ok(Access { credentials, authorities: authorities.transpose()?, plain_http, token_host })
    }
}
