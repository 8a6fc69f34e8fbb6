//! `hotshoe webhooks`: prints what makes the API server ask a host about proposed parents.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use serde_json::{Value, json};

use crate::cli::rbac::Installed;
use crate::cli::terminal;
use hotshoe_core::model::limits::Size;
use hotshoe_core::rbac::webhooks;
use hotshoe_operator::config::manifest::Admission;
use hotshoe_operator::webhooks::configuration::{self, Access, FailurePolicy, Target};
use hotshoe_platform::safe_file;

/// The maximum size of a file with certificates.
const MAX_FILE_SIZE: Size = Size(1 << 20);

/// Print what makes the API server ask the host before it stores a parent of these plugins
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    hotshoe webhooks plugins/a --cert-manager system/webhooks | kubectl apply -f -\n  \
    hotshoe webhooks plugins/a --url https://192.0.2.1:9443 --ca-file ca.crt\n\n\
    For a host with --webhooks and --webhooks-cert-dir; one without the latter registers its webhooks itself. What it \
    answers is said in plugin.yaml by spec.admission: Warn or Enforce. To switch it off: kubectl delete \
    validatingwebhookconfiguration,mutatingwebhookconfiguration hotshoe-NAME.")]
pub struct Args {
    /// Plugins: folders with a plugin.yaml, or such files
    #[arg(value_name = "PLUGIN", required = true)]
    plugins: Vec<PathBuf>,
    #[command(flatten)]
    installed: Installed,
    /// The address of a host outside of the cluster [default: the Service hotshoe-webhooks, which is printed too]
    #[arg(long, value_name = "URL", value_parser = url)]
    url: Option<String>,
    /// A file with the certificates, in PEM, of the authorities that signed the host's certificate
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// The Certificate of cert-manager whose Secret the host has mounted: cert-manager fills the authorities in
    #[arg(long, value_name = "NAMESPACE/NAME", conflicts_with = "ca_file", value_parser = certificate)]
    cert_manager: Option<String>,
    /// What becomes of a parent while the host does not answer
    #[arg(long, default_value = "ignore", value_name = "POLICY")]
    failure_policy: Policy,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Policy {
    /// It is admitted, and the reconcile says later what is wrong
    Ignore,
    /// It is refused
    Fail,
}

impl From<Policy> for FailurePolicy {
    fn from(policy: Policy) -> Self {
        match policy {
            Policy::Ignore => Self::Ignore,
            Policy::Fail => Self::Fail,
        }
    }
}

/// Checks the address of a host. The API server accepts no other scheme.
fn url(text: &str) -> Result<String, &'static str> {
    let host = text.strip_prefix("https://").map(|rest| rest.trim_end_matches('/'));
    let is_valid = host.is_some_and(|host| !host.is_empty() && !host.contains(['/', '?', '#', '@']));
    is_valid.then(|| text.to_owned()).ok_or("write https://HOST:PORT, without a path")
}

/// Checks the name of a Certificate.
fn certificate(text: &str) -> Result<String, &'static str> {
    let is_valid = text.split_once('/').is_some_and(|(namespace, name)| {
        let is_name = |name: &str| hotshoe_core::model::names::is_subdomain(name);
        is_name(namespace) && is_name(name)
    });
    is_valid.then(|| text.to_owned()).ok_or("write NAMESPACE/NAME of a Certificate")
}

impl Args {
    /// Loads the plugins and prints the objects.
    ///
    /// # Errors
    /// When a plugin cannot be loaded, asks for more than it is granted, or may not have such a webhook.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let access = self.access()?;
        let plugins = self.installed.load(&self.plugins).await?;
        let served = self.installed.served(&plugins).await;
        let installation = self.installed.installation()?;
        let service = matches!(access.target, Target::Service).then(|| configuration::service(&installation));
        let mut objects = Vec::from_iter(service);
        for plugin in &plugins {
            let (name, parent) = (&plugin.config.name, &plugin.revision.descriptor().parent);
            if plugin.config.admission == Admission::Off {
                terminal::note(format_args!(
                    "note: the host admits all parents of {name}: its plugin.yaml does not say `admission: Warn` or `Enforce`"
                ));
            }
            let reads = webhooks::definitions_of_plugin(&plugin.as_plugin(), &installation, &served);
            for right in reads {
                objects.push(serde_json::to_value(&right)?);
            }
            let served = served(parent);
            objects.push(configuration::validating(name, parent, &served, &access, &installation)?);
            if plugin.revision.defaults() {
                objects.extend(configuration::mutating(name, parent, &served, &access, &installation));
            }
            if plugin.revision.converts() {
                let conversion = configuration::conversion(name, &access, &installation);
                objects.push(conversion_of(&webhooks::definition(parent, &served), &conversion));
                terminal::note(format_args!(
                    "note: {name} converts {parent}: what is printed of the CustomResourceDefinition is only its \
                     spec.conversion, for `kubectl apply --server-side`, and is refused without it; if the definition \
                     has versions that are not served yet, serve them then"
                ));
            }
        }
        if access.authorities.is_none() && access.certificate.is_none() {
            terminal::note(format_args!(
                "note: the API server will trust the host only if a public authority signed its certificate; name the \
                 authority with --ca-file or --cert-manager otherwise"
            ));
        }
        terminal::print(to_yaml(&objects)?)?;
        Ok(ExitCode::SUCCESS)
    }

    fn access(&self) -> anyhow::Result<Access> {
        let authorities = match &self.ca_file {
            Some(path) => {
                let read = safe_file::read_whole(path, MAX_FILE_SIZE);
                let read = read.with_context(|| format!("cannot read {}", path.display()))?;
                Some(read.with_context(|| format!("{} is larger than {MAX_FILE_SIZE}", path.display()))?)
            }
            None => None,
        };
        let target = self.url.clone().map_or(Target::Service, Target::Url);
        let (certificate, failure_policy) = (self.cert_manager.clone(), self.failure_policy.into());
        Ok(Access { target, authorities, certificate, failure_policy })
    }
}

/// Returns the part of a definition by which the API server has a plugin convert, for a server-side apply.
fn conversion_of(definition: &str, conversion: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": definition },
        "spec": { "conversion": conversion },
    })
}

fn to_yaml(objects: &[Value]) -> anyhow::Result<String> {
    let documents = objects.iter().map(serde_saphyr::to_string).collect::<Result<Vec<_>, _>>();
    Ok(documents.context("the objects cannot be written as YAML")?.join("---\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_address_that_the_api_server_accepts_is_an_address() {
        for good in ["https://127.0.0.1:9443", "https://host.example.com/"] {
            assert_eq!(url(good).as_deref(), Ok(good));
        }
        for bad in ["http://a:1", "a:1", "https://", "https://a/path", "https://me@a"] {
            assert!(url(bad).is_err(), "{bad}");
        }
    }
}
