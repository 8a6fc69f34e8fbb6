//! Which component an administrator means who approves one or rolls back, by the beginning of a digest or without one.
//! The host asks for a command, and `kubectl hotshoe` before it changes an object, of which it knows the status.

use crate::model::digest::Digest;
use crate::model::digest_prefix::DigestPrefix;
use crate::plugin::earlier;
use crate::plugin::past::{self, Recorded, Standing};

/// Why a component that was active cannot be activated again.
pub const NOT_KEPT: &str = "it is not kept any more; build it again, and have the source offer it";

/// What is known of a plugin's components.
#[derive(Clone, Debug)]
pub struct Known<'a, E> {
    /// The program whose commands an error advises: `hotshoe` or `kubectl hotshoe`.
    pub program: &'static str,
    /// What has happened to them.
    pub past: &'a [E],
    /// The active one.
    pub active: Option<Digest>,
    /// The canary.
    pub canary: Option<Digest>,
    /// The one that was refused last.
    pub refused: Option<Refused>,
}

/// A component that was refused.
#[derive(Clone, Debug)]
pub struct Refused {
    /// Its digest; none if no bytes could be read.
    pub digest: Option<Digest>,
    /// Whether an approval activates it anyway.
    pub can_be_approved: bool,
    /// The reason.
    pub why: String,
}

/// An approval of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Approval {
    /// The component.
    pub digest: Digest,
    /// Whether it waits for the approval. Otherwise the source has another one now.
    pub waits: bool,
}

/// A rollback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rollback {
    /// The revision that is active afterwards.
    pub to: Digest,
    /// The canary that ends, if the rollback is about that alone and the active revision stays.
    pub ended: Option<Digest>,
}

impl<E: Recorded> Known<'_, E> {
    /// Returns the approval of the named component, or else of the one that waits for an approval.
    ///
    /// # Errors
    /// Why there is no such component, or several.
    pub fn approval(&self, named: Option<&DigestPrefix>) -> Result<Approval, String> {
        let waiting = self.waiting();
        let Some(named) = named else {
            return Ok(Approval { digest: waiting?, waits: true });
        };
        let earlier = self.past.iter().map(Recorded::digest);
        let earlier = earlier.filter(|digest| past::standing(self.past, *digest) != Standing::Free);
        let found = one_of(named, earlier.chain(waiting.clone().ok()))?;
        let waits = |digest| waiting.as_ref() == Ok(&digest);
        found.map(|digest| Approval { digest, waits: waits(digest) }).ok_or_else(|| {
            let instead =
                waiting.as_ref().map_or_else(String::clone, |digest| format!("{digest} waits for an approval"));
            format!("no component that can be approved has a digest that begins with {}; {instead}", named.hex())
        })
    }

    /// Returns the component that waits for an approval.
    fn waiting(&self) -> Result<Digest, String> {
        match &self.refused {
            None => Err(format!("nothing waits for an approval; `{} status` shows the active revision", self.program)),
            Some(Refused { digest: Some(digest), can_be_approved: true, .. }) => Ok(*digest),
            Some(Refused { digest, why, .. }) => {
                let named = digest.map_or_else(|| "the component".to_owned(), |digest| digest.to_string());
                Err(format!("{named} cannot be approved: {why}"))
            }
        }
    }

    /// Returns the rollback to the named revision, or else of what came last: of the canary, or of the active revision
    /// to the last good one before it that is available.
    ///
    /// # Errors
    /// Why there is no such revision, or several.
    pub fn rollback(
        &self,
        named: Option<&DigestPrefix>,
        is_accepted: impl Fn(Digest) -> bool,
        is_available: impl Fn(Digest) -> bool,
    ) -> Result<Rollback, String> {
        let to = match (named, self.canary, self.active) {
            (Some(named), ..) => self.was_active(named)?,
            (None, Some(_), Some(active)) => active,
            (None, ..) => {
                self.last_available(&earlier::before_active(self.past, self.active, is_accepted), is_available)?
            }
        };
        Ok(Rollback { to, ended: self.canary.filter(|_| self.active == Some(to)) })
    }

    /// Returns the named component, which is active or was.
    ///
    /// # Errors
    /// When no component is named, or several, or one that was never active.
    pub fn was_active(&self, named: &DigestPrefix) -> Result<Digest, String> {
        let known = self.past.iter().map(Recorded::digest).chain(self.active);
        let found = one_of(named, known)?.ok_or_else(|| {
            format!("no revision has a digest that begins with {}; `{} history` lists them", named.hex(), self.program)
        })?;
        match self.active == Some(found) || past::activated(self.past).contains(&found) {
            true => Ok(found),
            false => Err(format!(
                "{found} was never active, so it cannot be rolled back to; `{} approve` activates a component that requires approval",
                self.program
            )),
        }
    }

    /// Returns the first available of the revisions `before` the active one, which are ordered best first.
    fn last_available(&self, before: &[Digest], is_available: impl Fn(Digest) -> bool) -> Result<Digest, String> {
        let history = format!("`{} history` shows what there was", self.program);
        let last = before.first().ok_or_else(|| {
            format!(
                "there is no earlier revision to roll back to that was good; {history}, \
                 and a rollback that names a digest goes to any that is kept"
            )
        })?;
        let available = before.iter().copied().find(|earlier| is_available(*earlier));
        available.ok_or_else(|| format!("{last} cannot be activated: {NOT_KEPT}; {history}"))
    }
}

/// Returns the only one of these components whose digest begins so; none if there is none.
fn one_of(named: &DigestPrefix, known: impl Iterator<Item = Digest>) -> Result<Option<Digest>, String> {
    let mut found: Vec<Digest> = known.filter(|digest| named.is_of(*digest)).collect();
    found.sort_unstable();
    found.dedup();
    match *found {
        [] => Ok(None),
        [only] => Ok(Some(only)),
        // Who makes components can make two whose digests begin alike.
        _ => {
            let found: Vec<String> = found.iter().map(Digest::full).collect();
            Err(format!("{} names several: {}; give more digits", named.hex(), found.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::past::{Entry, Event};

    /// Three components that were active, of which `b` was rolled back, and one that never was.
    const PAST: [Entry; 5] = [
        Entry("a", Event::Activated),
        Entry("b", Event::Activated),
        Entry("b", Event::RolledBack),
        Entry("n", Event::ApprovalRequired),
        Entry("c", Event::Activated),
    ];

    fn digest(text: &str) -> Digest {
        Digest::of(text.as_bytes())
    }

    fn prefix(text: &str) -> DigestPrefix {
        text.parse().unwrap()
    }

    fn known(canary: Option<&str>) -> Known<'static, Entry> {
        let (active, canary) = (Some(digest("c")), canary.map(digest));
        Known { program: "kubectl hotshoe", past: &PAST, active, canary, refused: None }
    }

    fn refusing(text: &str, can_be_approved: bool) -> Known<'static, Entry> {
        let why = "NotGranted: it asks for Secrets".to_owned();
        Known { refused: Some(Refused { digest: Some(digest(text)), can_be_approved, why }), ..known(None) }
    }

    fn rollback(known: &Known<'_, Entry>, named: Option<&str>) -> Result<Rollback, String> {
        known.rollback(named.map(prefix).as_ref(), |_| true, |_| true)
    }

    fn to(text: &str, ended: Option<&str>) -> Result<Rollback, String> {
        Ok(Rollback { to: digest(text), ended: ended.map(digest) })
    }

    #[test]
    fn a_rollback_without_a_digest_goes_to_the_last_good_revision_that_is_available() {
        assert_eq!(rollback(&known(None), None), to("a", None));
        let gone = known(None).rollback(None, |_| true, |_| false).unwrap_err();
        assert!(gone.contains(&digest("a").to_string()) && gone.contains("not kept any more"), "{gone}");
        let nothing = Known { past: &PAST[..0], ..known(None) };
        assert!(rollback(&nothing, None).unwrap_err().contains("no earlier revision"));
    }

    #[test]
    fn a_rollback_of_a_canary_ends_it_and_leaves_the_active_revision_in_place() {
        let known = known(Some("n"));
        assert_eq!(rollback(&known, None), to("c", Some("n")));
        assert_eq!(rollback(&known, Some(&digest("c").full())), to("c", Some("n")));
        assert_eq!(rollback(&known, Some(&digest("b").full())), to("b", None));
    }

    #[test]
    fn a_rollback_to_a_digest_needs_a_revision_that_was_active() {
        let digits = digest("b").full();
        for named in [&*digits, &digits.to_uppercase(), &format!("sha256:{}", digest("b"))] {
            assert_eq!(rollback(&known(None), Some(named)), to("b", None), "{named}");
        }
        assert_eq!(rollback(&known(None), Some(&digest("c").full())), to("c", None), "it is named to stay");
        let why = rollback(&known(None), Some(&digest("n").full())).unwrap_err();
        assert!(why.contains("never active") && why.contains("approve"), "{why}");
        let why = rollback(&known(None), Some(&digest("unknown").full())).unwrap_err();
        assert!(
            why.contains("no revision has a digest that begins with") && why.contains("`kubectl hotshoe history`"),
            "{why}"
        );
    }

    #[test]
    fn an_approval_without_a_digest_is_for_the_component_that_waits() {
        assert_eq!(refusing("n", true).approval(None), Ok(Approval { digest: digest("n"), waits: true }));
        let why = refusing("n", false).approval(None).unwrap_err();
        assert!(why.ends_with("cannot be approved: NotGranted: it asks for Secrets"), "{why}");
        assert!(known(None).approval(None).unwrap_err().starts_with("nothing waits"));
    }

    #[test]
    fn a_named_component_is_approved_if_it_waits_or_did() {
        let known = refusing("n", true);
        let approval = |text: &str| known.approval(Some(&prefix(&digest(text).full())));
        assert_eq!(approval("n"), Ok(Approval { digest: digest("n"), waits: true }));
        assert_eq!(approval("b"), Ok(Approval { digest: digest("b"), waits: false }));
        for other in ["a", "c", "unknown"] {
            let why = approval(other).unwrap_err();
            assert!(why.contains(&digest(other).full()) && why.contains(&format!("{} waits", digest("n"))), "{why}");
        }
    }

    #[test]
    fn a_beginning_that_several_digests_have_names_none_of_them() {
        let [one, other] = ["1", "2"].map(|end| format!("{}0{end}", "ab".repeat(31)).parse::<Digest>().unwrap());
        let found = |text: &str| one_of(&prefix(text), [one, other, one].into_iter());
        let why = found("ABAB").unwrap_err();
        assert!(why.starts_with("abab names several: ") && why.contains(&one.full()), "{why}");
        assert_eq!(found(&other.full()), Ok(Some(other)));
        assert_eq!(found("0"), Ok(None));
    }
}
