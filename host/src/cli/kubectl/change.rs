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
    let Rollback { to, ended } = match digest {
        Some(named) => Rollback { to: named, ended: None },
        None => Rollback::of(&status).with_context(|| format!("no revision of {plugin} was active before the present one; name one of `kubectl hotshoe status {plugin}`"))?,
    };
    objects.patch(plugin, json!({ "revision": to })).await?;
    let (to, until) = (short(&to), format!("until `kubectl hotshoe follow {plugin}`"));
    done(match &ended {
        None => format!("{plugin}: {to} is to be active, and no other {until}"),
        Some(canary) => {
            format!("{plugin}: the canary {} ends; {to} stays active, and no other begins {until}", short(canary))
        }
    })
}

/// A rollback to a revision.
#[derive(Debug, PartialEq, Eq)]
struct Rollback {
    /// The digest of the revision.
    to: String,
    /// The digest of the canary that it ends, where the revision is active already.
    ended: Option<String>,
}

impl Rollback {
    /// Returns the rollback of what came last: of the canary, which leaves the active revision in place, or else of the
    /// active revision, to the one that was active before.
    fn of(status: &PluginStatus) -> Option<Self> {
        if let (Some(canary), Some(active)) = (&status.canary, &status.digest) {
            return Some(Self { to: active.clone(), ended: Some(canary.digest.clone()) });
        }
        let replaced = status.revisions.iter().find(|revision| revision.state == "Replaced")?;
        Some(Self { to: replaced.digest.clone(), ended: None })
    }
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
    use crate::config::plugin_resource::{CanaryStatus, RevisionStatus};

    /// Returns a status with these revisions, the newest first.
    fn status(revisions: &[(&str, &str)]) -> PluginStatus {
        let revision = |(digest, state): &(&str, &str)| RevisionStatus {
            digest: (*digest).to_owned(),
            state: (*state).to_owned(),
            ..RevisionStatus::default()
        };
        let with = |wanted: &str| revisions.iter().find(|(_, state)| *state == wanted).map(|(digest, _)| *digest);
        PluginStatus {
            digest: with("Active").map(str::to_owned),
            canary: with("Canary").map(|digest| CanaryStatus { digest: digest.to_owned(), ..CanaryStatus::default() }),
            revisions: revisions.iter().map(revision).collect(),
            ..PluginStatus::default()
        }
    }

    fn rollback(to: &str, ended: Option<&str>) -> Option<Rollback> {
        Some(Rollback { to: to.to_owned(), ended: ended.map(str::to_owned) })
    }

    #[test]
    fn a_rollback_without_a_digest_goes_to_the_revision_that_was_replaced_last() {
        let status = status(&[("c", "Active"), ("b", "RolledBack"), ("a", "Replaced"), ("0", "Replaced")]);
        assert_eq!(Rollback::of(&status), rollback("a", None));
        assert_eq!(Rollback::of(&PluginStatus::default()), None);
    }

    #[test]
    fn a_rollback_without_a_digest_ends_the_canary_and_leaves_the_active_revision_in_place() {
        let first = status(&[("b", "Canary"), ("a", "Active")]);
        assert_eq!(Rollback::of(&first), rollback("a", Some("b")));
        let later = status(&[("c", "Canary"), ("b", "Active"), ("a", "Replaced")]);
        assert_eq!(Rollback::of(&later), rollback("b", Some("c")));
    }
}
