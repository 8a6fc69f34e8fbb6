//! The commands that change `Plugin` objects.

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use serde_json::{Value, json};

use crate::cli::kubectl::objects::Objects;
use crate::cli::terminal;
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::digest_prefix::DigestPrefix;
use hotshoe_operator::config::plugin_resource::{PluginStatus, short};
use hotshoe_sandbox::error::Reason;

pub(super) async fn approve(objects: &Objects, plugin: &str, named: Option<DigestPrefix>) -> anyhow::Result<ExitCode> {
    let object = objects.get(plugin).await?;
    let Approval { digest, waits } = Approval::of(&PluginStatus::of(&object), named.as_ref())
        .map_err(|why| anyhow!("{plugin}: {why}; `kubectl hotshoe status {plugin}` shows its revisions"))?;
    let before = object.pointer("/spec/approve").and_then(Value::as_str);
    objects.patch(plugin, json!({ "approve": another_form(digest, before) })).await?;
    done(match waits {
        true => format!("{plugin}: {digest} is approved"),
        false => format!("{plugin}: {digest} is approved, and is activated once its source has it"),
    })
}

/// An approval of a component.
#[derive(Debug, PartialEq, Eq)]
struct Approval {
    digest: Digest,
    /// Whether the component waits for it. Otherwise the source has another one now.
    waits: bool,
}

impl Approval {
    /// Returns the approval of the component whose digest begins so, or else of the one that waits.
    ///
    /// # Errors
    /// Why nothing can be approved so: a host would ignore the approval.
    fn of(status: &PluginStatus, named: Option<&DigestPrefix>) -> Result<Self, String> {
        let waiting = status.pending.as_ref().filter(|pending| can_be_approved(&pending.reason));
        let waiting: Option<Digest> = waiting.and_then(|pending| pending.digest.as_deref()?.parse().ok());
        let Some(named) = named else {
            let digest = waiting.ok_or("no component waits for an approval")?;
            return Ok(Self { digest, waits: true });
        };
        let known = status.revisions.iter().filter(|revision| can_be_approved(&revision.state));
        let known = known.filter_map(|revision| revision.digest.parse().ok());
        let matching: BTreeSet<Digest> =
            waiting.into_iter().chain(known).filter(|digest| named.is_of(*digest)).collect();
        let mut matching = matching.into_iter();
        match (matching.next(), matching.next()) {
            (Some(digest), None) => Ok(Self { digest, waits: waiting == Some(digest) }),
            // Whoever makes components can make two whose digests begin alike.
            (Some(_), Some(_)) => Err(format!("several digests begin with {}; name more digits", named.hex())),
            (None, _) => {
                let waiting = waiting.map_or_else(|| "none waits".to_owned(), |waiting| format!("{waiting} waits"));
                Err(format!(
                    "no component that can be approved has the digest {}; {waiting} for an approval",
                    named.hex()
                ))
            }
        }
    }
}

/// Returns whether an approval activates a component that is not active for this reason.
fn can_be_approved(reason: &str) -> bool {
    [Reason::ApprovalRequired, Reason::RolledBack].iter().any(|approvable| approvable.as_str() == reason)
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
) -> anyhow::Result<ExitCode> {
    let status = PluginStatus::of(&objects.get(plugin).await?);
    let Rollback { to, ended } = match named {
        Some(named) => Rollback::to(&status, &named)
            .map_err(|why| anyhow!("{plugin}: {why}; `kubectl hotshoe status {plugin}` lists them"))?,
        None => Rollback::of(&status).with_context(|| {
            let others = format!("name one of `kubectl hotshoe status {plugin}`");
            format!("no revision of {plugin} was active before the present one; {others}")
        })?,
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

    /// Returns the rollback to the revision whose digest begins so.
    ///
    /// # Errors
    /// When the plugin has no such revision, or several.
    fn to(status: &PluginStatus, named: &DigestPrefix) -> Result<Self, String> {
        let revisions = status.revisions.iter().map(|revision| &*revision.digest).chain(status.digest.as_deref());
        let earlier = status.history.iter().filter_map(|entry| entry.get("digest")?.as_str());
        let is_named = |digest: &&str| digest.parse().is_ok_and(|digest| named.is_of(digest));
        let matching: BTreeSet<&str> = revisions.chain(earlier).filter(is_named).collect();
        match matching.len() {
            0 => Err(format!("no revision has a digest that begins with {}", named.hex())),
            1 => Ok(Self { to: named.hex(), ended: None }),
            _ => Err(format!("several revisions have digests that begin with {}; name more digits", named.hex())),
        }
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
    use hotshoe_operator::config::plugin_resource::{CanaryStatus, Pending, RevisionStatus};

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

    #[test]
    fn a_rollback_to_a_digest_needs_a_revision_of_the_plugin() {
        let (active, earlier) = (digest("b").full(), digest("a").full());
        let status = PluginStatus { history: vec![json!({ "digest": earlier })], ..status(&[(&active, "Active")]) };
        for (named, is_known) in [(&active, true), (&earlier, true), (&"f".repeat(8), false)] {
            let rollback = Rollback::to(&status, &named.parse().unwrap());
            assert_eq!(rollback.is_ok_and(|rollback| rollback.to == *named), is_known, "{named}");
        }
    }

    fn digest(text: &str) -> Digest {
        Digest::of(text.as_bytes())
    }

    fn approval(text: &str, waits: bool) -> Result<Approval, String> {
        Ok(Approval { digest: digest(text), waits })
    }

    /// Returns a status in which a component waits, for this reason, and others came before.
    fn waiting(text: &str, reason: &str) -> PluginStatus {
        let digits = ["a", "b", "c"].map(|text| digest(text).full());
        let [active, back, refused] = &digits;
        PluginStatus {
            pending: Some(Pending {
                digest: Some(digest(text).full()),
                reason: reason.to_owned(),
                ..Pending::default()
            }),
            ..status(&[(active, "Active"), (back, "RolledBack"), (refused, "Refused")])
        }
    }

    #[test]
    fn an_approval_without_a_digest_is_for_the_component_that_waits() {
        assert_eq!(Approval::of(&waiting("d", "ApprovalRequired"), None), approval("d", true));
        assert_eq!(Approval::of(&waiting("b", "RolledBack"), None), approval("b", true));
        for status in [PluginStatus::default(), waiting("d", "NotGranted")] {
            assert_eq!(Approval::of(&status, None), Err("no component waits for an approval".to_owned()));
        }
    }

    #[test]
    fn a_named_component_is_approved_by_the_beginning_of_its_digest_if_it_can_be_approved() {
        let status = waiting("d", "ApprovalRequired");
        let named = |text: &str| Approval::of(&status, Some(&text.parse().unwrap()));
        let digits = digest("d").full();
        let (short, shortest) = (digest("d").to_string(), digits.get(..8).unwrap());
        for text in [&digits, shortest, &digits.to_uppercase(), &format!("sha256:{short}")] {
            assert_eq!(named(text), approval("d", true), "{text}");
        }
        assert_eq!(named(&digest("b").full()), approval("b", false), "another was rolled back before");
        for other in ["a", "c", "unknown"].map(|text| digest(text).full()) {
            let error = named(&other).unwrap_err();
            assert!(error.contains(&other) && error.contains(&format!("{} waits", digest("d"))), "{error}");
        }
        let error = Approval::of(&waiting("d", "NotGranted"), Some(&digits.parse().unwrap())).unwrap_err();
        assert!(error.contains("none waits for an approval"), "{error}");
    }

    #[test]
    fn a_beginning_that_several_digests_have_is_no_approval() {
        let [one, other] = ["1", "2"].map(|end| format!("{}{end}", "ab".repeat(31) + "0"));
        let status = status(&[(&one, "RolledBack"), (&other, "ApprovalRequired")]);
        let error = Approval::of(&status, Some(&"abababab".parse().unwrap())).unwrap_err();
        assert!(error.contains("several digests begin with abababab"), "{error}");
        assert_eq!(Approval::of(&status, Some(&one.parse().unwrap())).unwrap().digest.full(), one);
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
