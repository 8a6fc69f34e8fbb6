//! The host on this machine that serves a plugin from the component that is built here.

use std::path::Path;

use anyhow::Context;

use super::history::Activation;
use crate::cli::host_client::{HostOptions, read};
use crate::cli::project::{Folder, shown};
use crate::cli::reload::why_not;
use crate::server::verb::AdminVerb;
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::sanitize::clean;
use hotshoe_operator::api::HostStatus;
use hotshoe_operator::api::status::PluginStatus;

/// The maximum length of a host's reason, in bytes: it may contain names that the component chose.
const MAX_REASON_BYTES: usize = 8_000;

/// A host that serves the plugin.
pub(super) struct Serving {
    host: HostOptions,
    status: PluginStatus,
}

impl Serving {
    /// Finds the host whose component of this plugin is the build product of this folder.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) async fn find(options: &HostOptions, folder: &Folder) -> anyhow::Result<Self> {
        let product = folder.product();
        let mut others = Vec::new();
        for host in options.each() {
            let Some(status) = plugin(&host, &folder.name).await else { continue };
            if is_same(Path::new(&status.source), &product) {
                return Ok(Self { host, status });
            }
            others.push(status.source);
        }
        let name = &folder.name;
        match others.first() {
            None => anyhow::bail!(
                "no host on this machine serves {name}, so nothing is activated; start one with `just run`"
            ),
            Some(other) => anyhow::bail!(
                "the host on this machine serves {name} from {}, and not from {}, so nothing is activated",
                clean(other.clone(), MAX_REASON_BYTES),
                shown(&product).display()
            ),
        }
    }

    /// Has the host activate the component with this digest, and waits for the outcome. Returns why it is not active, if
    /// it is not.
    ///
    /// # Errors
    /// When the host no longer answers, or refuses the command.
    pub(super) async fn activate(&self, digest: Digest) -> anyhow::Result<(Activation, Option<String>)> {
        if self.status.digest == Some(digest) && self.status.refused.is_none() && self.status.canary.is_none() {
            return Ok((Activation::Unchanged, None));
        }
        let answer = self.host.post(&AdminVerb::Reload.path(&self.status.name, None)).await;
        let status: PluginStatus = read(&answer.context("the host does not activate the component")?)?;
        let why = why_not(&status);
        let activation = match (why.is_empty(), status.digest == Some(digest), status.canary.is_some()) {
            (false, ..) => Activation::Refused,
            (true, true, _) => Activation::Active,
            (true, false, true) => Activation::Canary,
            (true, false, false) => Activation::Refused,
        };
        let why = match (why.is_empty(), activation) {
            (false, _) => Some(why.join("\n")),
            (true, Activation::Refused) => {
                Some("the host decides with another component; `hotshoe status` says why".to_owned())
            }
            _ => None,
        };
        Ok((activation, why.map(|why| clean(why, MAX_REASON_BYTES))))
    }
}

/// Returns the status of a plugin, if the host answers and has it.
async fn plugin(host: &HostOptions, name: &str) -> Option<PluginStatus> {
    let status: HostStatus = read(&host.get("/status").await.ok()?).ok()?;
    status.plugins.into_iter().find(|plugin| plugin.name == name)
}

fn is_same(a: &Path, b: &Path) -> bool {
    a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}
