//! Whether a host would carry out what a plugin answers to a case: by the check that stands in a
//! host, on the grant of `plugin.yaml`.

use std::path::Path;
use std::sync::Arc;

use crate::cli::inspect::note_options;
use crate::cluster::served;
use crate::config::{HostSettings, PluginConfig};
use crate::sandbox::cases::Case;
use crate::sandbox::revision::Revision;
use hotshoe_core::check;
use hotshoe_core::check::Context;
use hotshoe_core::check::Violation;
use hotshoe_core::model::decision::{Answer, Call};

/// What `plugin.yaml` says. That a host which is started without options would not take it is told,
/// but it is no matter of the cases: their configuration stands in them.
pub(super) fn config(path: &Path) -> Option<PluginConfig> {
    let open = HostSettings { allow_env: vec!["*".to_owned()], ..HostSettings::default() };
    note_options(path);
    PluginConfig::read(path, &open).ok()
}

/// Why a host would refuse the answer, as far as that can be told without a cluster.
pub(super) async fn refusal(case: &Case, revision: &Arc<Revision>, config: &PluginConfig) -> Option<Violation> {
    // A case does not say which labels namespaces have.
    if !config.grant.namespace_labels().is_empty() {
        return None;
    }
    let descriptor = revision.descriptor();
    let observation = Arc::new(case.observation(descriptor).ok()?);
    let answer = revision.decide(case.call, observation.clone()).await.ok()?.result.ok()?;
    let (Answer::Decided(decision) | Answer::Waiting(decision) | Answer::Done(decision)) = answer else { return None };
    let context = Context {
        parent: &observation.parent.reference,
        uid: "",
        plugin: &config.name,
        grant: &config.grant,
        descriptor,
        most_children: config.limits.children as usize,
        namespaced: Box::new(|kind| Some(served::by_rule(kind).namespaced)),
        label_of: Box::new(|_, _| None),
    };
    // As in a host: deleting all children is what clean-up is for.
    let observed = observation.children.iter().filter(|_| case.call == Call::Reconcile);
    let observed: Vec<_> = observed.map(|child| child.reference.clone()).collect();
    let violation = check::check(&decision, &observed, &context).err()?;
    // Scopes are taken by rule here, so of them nothing is certain.
    (violation.rule != "scope").then_some(violation)
}
