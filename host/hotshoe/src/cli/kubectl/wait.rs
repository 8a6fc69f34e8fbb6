//! Waits until a host has done what an object says, or its status shows why it does not.

use std::process::ExitCode;

use anyhow::anyhow;
use clap::ArgAction;

use crate::cli::kubectl::objects::{self, Objects, Patched};
use crate::cli::reload;
use crate::cli::target::POLL_INTERVAL;
use crate::cli::terminal;
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::quantity::Span;
use hotshoe_core::plugin::past::{self, Event};
use hotshoe_operator::config::plugin_resource::{Condition, Pending, PluginStatus, short};
use hotshoe_operator::rollout::history::{Entry, History};
use hotshoe_sandbox::error::Reason;

/// The reasons for which a host does nothing that an object says.
const STOPPED: [&str; 2] = ["InvalidSpec", "ParentsTaken"];

/// Whether a command waits for its outcome, and for how long.
#[derive(clap::Args, Debug)]
pub(super) struct Wait {
    /// Wait until a host has done it, or its status shows why it does not
    #[arg(long, value_name = "BOOL", default_value_t = true, default_missing_value = "true")]
    #[arg(num_args = 0..=1, require_equals = true, action = ArgAction::Set)]
    wait: bool,
    /// How long to wait
    #[arg(long, value_name = "TIME", default_value = "5m")]
    timeout: Span,
}

/// What was asked of a plugin.
pub(super) enum Asked {
    /// To activate a component, which waits for an approval by this status.
    Approval(Digest, Box<PluginStatus>),
    /// To activate a revision, and no other.
    Rollback(Digest),
    /// To activate what the source has.
    Follow,
}

/// How far it is.
#[derive(Debug, PartialEq, Eq)]
enum Progress {
    Done,
    /// It waits for this.
    Waits(String),
    /// It is not done, for this reason.
    Refused(String),
}

impl Wait {
    /// Prints what was asked, waits for the outcome and prints that, too, unless it is not to be waited for.
    ///
    /// # Errors
    /// When the object cannot be read any more, or the time is over.
    pub(super) async fn end(
        &self,
        objects: &Objects,
        patched: Patched<'_>,
        asked: Asked,
        text: String,
    ) -> anyhow::Result<ExitCode> {
        if !self.wait {
            terminal::line(text)?;
            return Ok(ExitCode::SUCCESS);
        }
        terminal::note(text);
        let (plugin, mut waits) = (patched.plugin, String::new());
        let outcome = tokio::time::timeout(self.timeout.0, outcome(objects, &patched, &asked, &mut waits)).await;
        let (status, refused) = outcome.map_err(|_| {
            let limit = self.timeout;
            anyhow!(
                "{plugin}: it is not done after {limit}: {waits}; the host keeps trying, and `kubectl hotshoe status {plugin}` shows the outcome"
            )
        })??;
        let active = status.digest.as_deref().and_then(|digest| digest.parse().ok());
        if let Some(why) = refused {
            reload::note_refusal(plugin, active, &why);
            return Ok(ExitCode::FAILURE);
        }
        terminal::print(reload::decides(plugin, active, status.version.as_deref(), status.canary.as_ref()))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Reads the status until what was asked is done or refused, and reports what it waits for. Returns that status, and
/// why it is refused.
async fn outcome(
    objects: &Objects,
    patched: &Patched<'_>,
    asked: &Asked,
    waits: &mut String,
) -> anyhow::Result<(PluginStatus, Option<String>)> {
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        let status = PluginStatus::of(&objects.get(patched.plugin).await?);
        match asked.progress(&status, patched.generation) {
            Progress::Done => return Ok((status, None)),
            Progress::Refused(why) => return Ok((status, Some(why))),
            Progress::Waits(news) if news != *waits => {
                terminal::note(&news);
                *waits = news;
            }
            Progress::Waits(_) => {}
        }
    }
}

impl Asked {
    /// Returns how far it is. A status that is about an earlier generation says nothing about it.
    fn progress(&self, status: &PluginStatus, generation: i64) -> Progress {
        if status.observed_generation < generation {
            return Progress::Waits("no host has seen the change yet".to_owned());
        }
        if let Some(stalled) = holding(status, "Stalled").filter(|stalled| STOPPED.contains(&&*stalled.reason)) {
            return Progress::Refused(format!("{}: {}", stalled.reason, stalled.message));
        }
        let ended = match self {
            Self::Approval(digest, before) => approved(*digest, before, status),
            Self::Rollback(to) => returned(*to, status),
            Self::Follow => followed(status),
        };
        ended.unwrap_or_else(|| Progress::Waits(awaited(status)))
    }
}

/// Returns the outcome of an approval; none if there is none yet.
fn approved(digest: Digest, before: &PluginStatus, status: &PluginStatus) -> Option<Progress> {
    let is_it = |text: Option<&str>| text.is_some_and(|text| text == digest.full());
    if is_it(status.digest.as_deref()) || is_it(status.canary.as_ref().map(|canary| &*canary.digest)) {
        return Some(Progress::Done);
    }
    let pending = status.pending.as_ref().filter(|pending| pending.digest.is_some());
    let Some(pending) = pending.filter(|pending| is_it(pending.digest.as_deref())) else {
        let is_other = pending.is_some() || status.digest != before.digest;
        return is_other.then(|| Progress::Refused(format!("the source does not hold {digest} any more")));
    };
    // Until the approval is recorded, the status says what it said before.
    let last = last(status, digest);
    let is_refused_again =
        last.as_ref().is_some_and(|last| last.event != Event::Approved) && last != self::last(before, digest);
    (!objects::can_be_approved(pending) || is_refused_again).then(|| refusal(pending))
}

/// Returns the last entry of the history that decides the state of a component.
fn last(status: &PluginStatus, digest: Digest) -> Option<Entry> {
    past::last(&History::read(&status.history), digest).cloned()
}

/// Returns the outcome of a rollback; none if there is none yet.
fn returned(to: Digest, status: &PluginStatus) -> Option<Progress> {
    if status.digest.as_deref() == Some(&*to.full()) && status.canary.is_none() {
        return Some(Progress::Done);
    }
    // An earlier value may have failed just before.
    let is_about_it = |stalled: &&Condition| stalled.message.starts_with(&format!("spec.revision {}: ", to.full()));
    holding(status, "Stalled").filter(is_about_it).map(|stalled| Progress::Refused(stalled.message.clone()))
}

/// Returns the outcome of following the source again; none if there is none yet.
fn followed(status: &PluginStatus) -> Option<Progress> {
    if holding(status, "Reconciling").is_some_and(|reconciling| reconciling.reason != "Canary") {
        return None;
    }
    match &status.pending {
        None => Some(Progress::Done),
        // The component of the source was not offered again yet.
        Some(pending) if pending.reason == Reason::RevisionPinned.as_str() => None,
        Some(pending) => Some(refusal(pending)),
    }
}

fn refusal(pending: &Pending) -> Progress {
    let digest = pending.digest.as_deref().map_or("-", short);
    Progress::Refused(format!("{digest}: {}: {}", pending.reason, pending.message))
}

/// Returns the condition of this type if it is true.
fn holding<'a>(status: &'a PluginStatus, type_: &str) -> Option<&'a Condition> {
    status.conditions.iter().find(|condition| condition.type_ == type_ && condition.status == "True")
}

/// Returns what the plugin waits for.
fn awaited(status: &PluginStatus) -> String {
    let shown = holding(status, "Reconciling").or_else(|| holding(status, "Stalled"));
    match shown {
        Some(Condition { reason, message, .. }) if reason == "Activating" => {
            format!("activating: {}", message.strip_prefix("revision ").unwrap_or(message))
        }
        Some(Condition { reason, message, .. }) => format!("{reason}: {message}"),
        None => "the host is about to act upon it".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn digest(text: &str) -> Digest {
        Digest::of(text.as_bytes())
    }

    /// Returns the status of generation 2 of a plugin with the active component `a`.
    fn status(more: &Value) -> PluginStatus {
        let mut status = json!({ "observedGeneration": 2, "digest": digest("a") });
        status.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        PluginStatus::of(&json!({ "status": status }))
    }

    fn pending(text: &str, reason: &str) -> Value {
        json!({ "digest": digest(text), "reason": reason, "message": "look" })
    }

    fn entry(text: &str, at: u64, event: &str) -> Value {
        json!({ "digest": digest(text), "version": "1", "at": at, "event": event })
    }

    fn condition(type_: &str, reason: &str, message: &str) -> Value {
        json!([{ "type": type_, "status": "True", "reason": reason, "message": message }])
    }

    fn is_waiting(progress: &Progress) -> bool {
        matches!(progress, Progress::Waits(_))
    }

    fn refused(why: &str) -> Progress {
        Progress::Refused(why.to_owned())
    }

    #[test]
    fn a_status_of_an_earlier_generation_ends_nothing() {
        let done = status(&json!({}));
        assert_eq!(Asked::Rollback(digest("a")).progress(&done, 2), Progress::Done);
        for asked in [Asked::Rollback(digest("a")), Asked::Follow] {
            assert_eq!(asked.progress(&done, 3), Progress::Waits("no host has seen the change yet".to_owned()));
        }
        let stopped = status(&json!({ "conditions": condition("Stalled", "InvalidSpec", "bad") }));
        assert_eq!(Asked::Follow.progress(&stopped, 2), refused("InvalidSpec: bad"));
    }

    #[test]
    fn an_approval_ends_once_the_component_decides_or_is_refused_again() {
        let waits = [entry("b", 1, "ApprovalRequired")];
        let before = status(&json!({ "pending": pending("b", "ApprovalRequired"), "history": waits }));
        let asked = Asked::Approval(digest("b"), Box::new(before.clone()));
        let of = |more: Value| asked.progress(&status(&more), 2);
        assert!(is_waiting(&asked.progress(&before, 2)), "it is not recorded yet");
        let recorded = json!([waits[0], entry("b", 2, "Approved")]);
        let is_pending = pending("b", "ApprovalRequired");
        assert!(is_waiting(&of(json!({ "pending": is_pending, "history": recorded }))));
        assert!(is_waiting(&of(json!({ "history": recorded }))));
        assert_eq!(of(json!({ "digest": digest("b") })), Progress::Done);
        assert_eq!(of(json!({ "canary": { "digest": digest("b") } })), Progress::Done);
        let again = json!([waits[0], entry("b", 2, "Approved"), entry("b", 3, "RolledBack")]);
        let why = refused(&format!("{}: RolledBack: look", digest("b")));
        assert_eq!(of(json!({ "pending": pending("b", "RolledBack"), "history": again })), why);
        let why = refused(&format!("{}: NotGranted: look", digest("b")));
        assert_eq!(of(json!({ "pending": pending("b", "NotGranted"), "history": waits })), why);
    }

    #[test]
    fn an_approval_ends_where_the_source_has_another_component_meanwhile() {
        let asked = Asked::Approval(digest("b"), Box::new(status(&json!({ "pending": pending("b", "RolledBack") }))));
        for other in [json!({ "digest": digest("c") }), json!({ "pending": pending("c", "SelfTestFailed") })] {
            let why = format!("the source does not hold {} any more", digest("b"));
            assert_eq!(asked.progress(&status(&other), 2), refused(&why));
        }
    }

    #[test]
    fn a_rollback_ends_once_the_revision_is_active_alone_or_cannot_be() {
        let of = |text: &str, more: Value| Asked::Rollback(digest(text)).progress(&status(&more), 2);
        assert!(is_waiting(&of("a", json!({ "canary": { "digest": digest("c") } }))), "the canary has not ended yet");
        let failed = |text: &str| {
            let why = format!("spec.revision {}: it is gone", digest(text).full());
            (why.clone(), json!({ "conditions": condition("Stalled", "RevisionUnavailable", &why) }))
        };
        let (why, of_it) = failed("b");
        assert_eq!(of("b", of_it), refused(&why));
        assert!(is_waiting(&of("b", failed("c").1)), "that was about an earlier value");
        let activating = condition("Reconciling", "Activating", "revision 3f: it is compiled");
        let waits = Progress::Waits("activating: 3f: it is compiled".to_owned());
        assert_eq!(of("b", json!({ "conditions": activating })), waits);
    }

    #[test]
    fn following_ends_once_the_component_of_the_source_decides_or_is_refused() {
        let of = |more: Value| Asked::Follow.progress(&status(&more), 2);
        assert_eq!(of(json!({})), Progress::Done);
        assert_eq!(of(json!({ "conditions": condition("Reconciling", "Canary", "") })), Progress::Done);
        assert!(is_waiting(&of(json!({ "conditions": condition("Reconciling", "Activating", "") }))));
        assert!(is_waiting(&of(json!({ "pending": pending("b", "RevisionPinned") }))), "it is not offered again yet");
        let why = refused(&format!("{}: RolledBack: look", digest("b")));
        assert_eq!(of(json!({ "pending": pending("b", "RolledBack") })), why);
    }
}
