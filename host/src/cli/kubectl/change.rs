//! The commands that change `Plugin` objects.

use std::process::ExitCode;

use anyhow::{Context, bail};
use serde_json::{Value, json};

use crate::cli::kubectl::{Objects, short, status_of};
use crate::cli::terminal;
use crate::config::plugin_resource::PluginStatus;

pub(super) async fn approve(objects: &Objects, plugin: &str, digest: Option<String>) -> anyhow::Result<ExitCode> {
    let object = objects.get(plugin).await?;
    let status = status_of(&object);
    let waiting =
        status.pending.as_ref().filter(|pending| ["ApprovalRequired", "RolledBack"].contains(&&*pending.reason));
    let digest = match (digest, waiting.and_then(|pending| pending.digest.clone())) {
        (Some(named), _) => named,
        (None, Some(waiting)) => waiting,
        (None, None) => {
            bail!(
                "no component of {plugin} waits for an approval; `kubectl hotshoe status {plugin}` shows what is active"
            )
        }
    };
    // A host acts on each value once, so to approve the same digest again it is written in its other form.
    let again = object.pointer("/spec/approve").and_then(Value::as_str) == Some(&digest);
    let digest = match digest.strip_prefix("sha256:") {
        Some(digits) if again => digits.to_owned(),
        None if again => format!("sha256:{digest}"),
        _ => digest,
    };
    objects.patch(plugin, json!({ "approve": digest })).await?;
    done(format!("{plugin}: {} is approved", short(&digest)))
}

pub(super) async fn roll_back(objects: &Objects, plugin: &str, digest: Option<String>) -> anyhow::Result<ExitCode> {
    let status = status_of(&objects.get(plugin).await?);
    let digest = match digest {
        Some(named) => named,
        None => previous(&status).with_context(|| format!("no revision of {plugin} was active before the present one; name one of `kubectl hotshoe status {plugin}`"))?,
    };
    objects.patch(plugin, json!({ "revision": digest })).await?;
    done(format!("{plugin}: {} is to be active, and no other until `kubectl hotshoe follow {plugin}`", short(&digest)))
}

/// Returns the revision that was active before the present one.
fn previous(status: &PluginStatus) -> Option<String> {
    let replaced = status.revisions.iter().find(|revision| revision.state == "Replaced");
    replaced.map(|revision| revision.digest.clone())
}

pub(super) async fn follow(objects: &Objects, plugin: &str) -> anyhow::Result<ExitCode> {
    objects.patch(plugin, json!({ "revision": null })).await?;
    done(format!("{plugin}: the component of its source is to be active"))
}

pub(super) async fn pause(objects: &Objects, plugin: &str, paused: bool) -> anyhow::Result<ExitCode> {
    objects.patch(plugin, json!({ "paused": paused })).await?;
    let what =
        if paused { "nothing is reconciled until `kubectl hotshoe resume" } else { "everything is reconciled again" };
    done(if paused { format!("{plugin}: {what} {plugin}`") } else { format!("{plugin}: {what}") })
}

pub(super) async fn shadow(objects: &Objects, plugin: &str, on: bool) -> anyhow::Result<ExitCode> {
    let (mode, what) = match on {
        true => ("Shadow", "are compared with the active one, and wait for `kubectl hotshoe approve`"),
        false => ("Active", "are activated as soon as they are verified"),
    };
    objects.patch(plugin, json!({ "mode": mode })).await?;
    done(format!("{plugin}: other components {what}"))
}

fn done(text: String) -> anyhow::Result<ExitCode> {
    terminal::line(text)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::plugin_resource::RevisionStatus;

    #[test]
    fn a_rollback_without_a_digest_goes_to_the_revision_that_was_replaced_last() {
        let revision = |digest: &str, state: &str| RevisionStatus {
            digest: digest.to_owned(),
            state: state.to_owned(),
            ..RevisionStatus::default()
        };
        let revisions = vec![
            revision("c", "Active"),
            revision("b", "RolledBack"),
            revision("a", "Replaced"),
            revision("0", "Replaced"),
        ];
        let status = PluginStatus { revisions, ..PluginStatus::default() };
        assert_eq!(previous(&status).as_deref(), Some("a"));
        assert_eq!(previous(&PluginStatus::default()), None);
    }
}
