//! The commands that change `Plugin` objects.

use std::process::ExitCode;

use anyhow::anyhow;
use serde_json::{Value, json};

use crate::cli::kubectl::objects::{Objects, can_be_approved};
use crate::cli::kubectl::wait::{Asked, Wait};
use crate::cli::terminal;
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::digest_prefix::DigestPrefix;
use hotshoe_core::plugin::meant::{Approval, Known, Refused, Rollback};
use hotshoe_operator::config::plugin_resource::PluginStatus;
use hotshoe_operator::rollout::history::{Entry, History};

pub(super) async fn approve(
    objects: &Objects,
    plugin: &str,
    named: Option<DigestPrefix>,
    wait: &Wait,
) -> anyhow::Result<ExitCode> {
    let object = objects.get(plugin).await?;
    let status = PluginStatus::of(&object);
    let approval = meant(&status, |known| known.approval(named.as_ref()));
    let Approval { digest, waits } = approval.map_err(|why| anyhow!("{plugin}: {why}"))?;
    let before = object.pointer("/spec/approve").and_then(Value::as_str);
    let patched = objects.patch(plugin, json!({ "approve": another_form(digest, before) })).await?;
    if !waits {
        return done(format!("{plugin}: {digest} is approved, and is activated once its source has it"));
    }
    let text = format!("{plugin}: {digest} is approved");
    wait.end(objects, patched, Asked::Approval(digest, Box::new(status)), text).await
}

/// Finds out which component an administrator means, by the status of the object.
fn meant<T>(status: &PluginStatus, find: impl FnOnce(&Known<'_, Entry>) -> T) -> T {
    let digest = |text: &str| text.parse().ok();
    let refused = status.pending.as_ref().map(|pending| Refused {
        digest: pending.digest.as_deref().and_then(digest),
        can_be_approved: can_be_approved(pending),
        why: format!("{}: {}", pending.reason, pending.message),
    });
    find(&Known {
        program: "kubectl hotshoe",
        past: &History::read(&status.history),
        active: status.digest.as_deref().and_then(digest),
        canary: status.canary.as_ref().and_then(|canary| digest(&canary.digest)),
        refused,
    })
}

/// Returns a digest in the form in which `spec.approve` does not have it: a host acts on each value once, and the same
/// digest may be approved again.
fn another_form(digest: Digest, before: Option<&str>) -> String {
    let digits = digest.full();
    if before == Some(&digits) { format!("sha256:{digits}") } else { digits }
}

pub(super) async fn roll_back(
    objects: &Objects,
    plugin: &str,
    named: Option<DigestPrefix>,
    wait: &Wait,
) -> anyhow::Result<ExitCode> {
    let status = PluginStatus::of(&objects.get(plugin).await?);
    // The host alone knows what it keeps and by whom it is signed. The status says so if that revision is not available.
    let rollback = meant(&status, |known| known.rollback(named.as_ref(), |_| true, |_| true));
    let Rollback { to, ended } = rollback.map_err(|why| anyhow!("{plugin}: {why}"))?;
    let patched = objects.patch(plugin, json!({ "revision": to })).await?;
    let until = format!("until `kubectl hotshoe follow {plugin}`");
    let text = match ended {
        None => format!("{plugin}: {to} is to be active, and no other {until}"),
        Some(canary) => format!("{plugin}: the canary {canary} ends; {to} stays active, and no other begins {until}"),
    };
    wait.end(objects, patched, Asked::Rollback(to), text).await
}

pub(super) async fn follow(objects: &Objects, plugin: &str, wait: &Wait) -> anyhow::Result<ExitCode> {
    let patched = objects.patch(plugin, json!({ "revision": null })).await?;
    wait.end(objects, patched, Asked::Follow, format!("{plugin}: the component of its source is to be active")).await
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

    fn digest(text: &str) -> Digest {
        Digest::of(text.as_bytes())
    }

    #[test]
    fn a_component_is_found_by_the_status_of_the_object() {
        let [a, b, c, d] = ["a", "b", "c", "d"].map(digest);
        let entry = |digest: Digest| json!({ "digest": digest, "version": "1", "at": 1, "event": "Activated" });
        let pending = |reason: &str| json!({ "digest": d, "reason": reason, "message": "look" });
        let status = |reason: &str, canary: Value| {
            let (history, pending) = ([a, b].map(entry), pending(reason));
            let status = json!({ "digest": b, "canary": canary, "pending": pending, "history": history });
            PluginStatus::of(&json!({ "status": status }))
        };
        let waits = status("ApprovalRequired", Value::Null);
        assert_eq!(meant(&waits, |known| known.approval(None)), Ok(Approval { digest: d, waits: true }));
        let lacks = status("NotGranted", json!({ "digest": c }));
        let why = meant(&lacks, |known| known.approval(None)).unwrap_err();
        assert_eq!(why, format!("{d} cannot be approved: NotGranted: look"));
        let rollback = |status| meant(status, |known| known.rollback(None, |_| true, |_| true));
        assert_eq!(rollback(&waits), Ok(Rollback { to: a, ended: None }));
        assert_eq!(rollback(&lacks), Ok(Rollback { to: b, ended: Some(c) }));
    }

    #[test]
    fn a_digest_is_approved_again_in_its_other_form() {
        let digits = digest("a").full();
        let again = another_form(digest("a"), Some(&digits));
        assert_eq!(again, format!("sha256:{digits}"));
        for before in [None, Some(&*again), digits.get(..8)] {
            assert_eq!(another_form(digest("a"), before), digits);
        }
    }
}
