//! Which revision that was active before becomes active again, and in which order they are tried. Those that
//! `spec.source.verify` is known to accept come first: the signatures of the others have to be looked for.

use crate::model::digest::Digest;
use crate::plugin::past::{self, Recorded};
use crate::plugin::wanted::Wanted;

/// Returns the revisions that can be rolled back to from this one, the best first.
pub fn before(entries: &[impl Recorded], from: Option<Digest>, is_accepted: impl Fn(Digest) -> bool) -> Vec<Digest> {
    let mut earlier = past::rollback_targets(entries, from);
    earlier.sort_by_key(|digest| !is_accepted(*digest));
    earlier
}

/// Returns the revisions that an administrator may mean who names none. Just after a start, none is active yet.
pub fn before_active(
    entries: &[impl Recorded],
    active: Option<Digest>,
    is_accepted: impl Fn(Digest) -> bool,
) -> Vec<Digest> {
    before(entries, active.or_else(|| past::current(entries)), is_accepted)
}

/// Returns the revision that is activated again at a start, so that the offered component is verified beside it. None
/// if that component was active itself.
pub fn restored(entries: &[impl Recorded], offered: Digest, is_accepted: impl Fn(Digest) -> bool) -> Option<Digest> {
    let is_new = past::current(entries) != Some(offered);
    is_new.then(|| before(entries, Some(offered), is_accepted))?.first().copied()
}

/// Returns the revisions to try while none is active, because the source offers nothing or this component was refused.
/// Those that `spec.revision` names come first; if it names none of them, that may be the refused one.
pub fn fall_back(
    entries: &[impl Recorded],
    refused: Option<Digest>,
    wanted: &Wanted,
    is_accepted: impl Fn(Digest) -> bool,
) -> Vec<Digest> {
    let mut earlier = before(entries, refused.filter(|refused| wanted.admits(*refused)), is_accepted);
    earlier.sort_by_key(|digest| !wanted.admits(*digest));
    earlier
}

/// Which component stays refused after a rollback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StillRefused {
    /// This one, for what has happened to it.
    ForItsPast(Digest),
    /// The one that was refused before, for the same reason.
    AsBefore,
}

/// Returns which component stays refused after a rollback from `left` to `target`: the one that the source offered
/// last, which may be a third one. If the source was not read, it is taken to have the one that was left. `before` is
/// what was refused before the rollback, of which the digest may not be known.
pub fn still_refused(
    entries: &[impl Recorded],
    offered: Option<Digest>,
    (left, target): (Option<Digest>, Digest),
    before: Option<Option<Digest>>,
) -> Option<StillRefused> {
    if offered == Some(target) {
        return None;
    }
    let for_its_past = |digest: Digest| {
        (past::standing(entries, digest) != past::Standing::Free).then_some(StillRefused::ForItsPast(digest))
    };
    let as_before = before.filter(|before| *before == offered).map(|_| StillRefused::AsBefore);
    match offered {
        Some(offered) => for_its_past(offered).or(as_before),
        None => as_before.or_else(|| for_its_past(left?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::digest_prefix::DigestPrefix;
    use crate::plugin::past::{Entry, Event};

    /// Three components that were active, the last of which is `c`.
    const PAST: [Entry; 3] = [Entry("a", Event::Activated), Entry("b", Event::Activated), Entry("c", Event::Activated)];

    fn digest(text: &str) -> Digest {
        Digest::of(text.as_bytes())
    }

    fn naming(text: &str) -> Wanted {
        Wanted { revision: digest(text).full().parse::<DigestPrefix>().ok(), ..Wanted::default() }
    }

    #[test]
    fn what_verify_accepts_comes_first_and_otherwise_what_was_active_last() {
        let before = |is_accepted: fn(Digest) -> bool| before(&PAST, Some(digest("c")), is_accepted);
        assert_eq!(before(|_| true), ["b", "a"].map(digest));
        assert_eq!(before(|_| false), ["b", "a"].map(digest));
        assert_eq!(before(|earlier| earlier != digest("b")), ["a", "b"].map(digest));
        assert_eq!(before_active(&PAST, Some(digest("b")), |_| true), ["c", "a"].map(digest));
        assert_eq!(before_active(&PAST, None, |_| true), ["b", "a"].map(digest), "just after a start");
    }

    #[test]
    fn at_a_start_the_last_revision_is_active_again_beside_another_component() {
        assert_eq!(restored(&PAST, digest("n"), |_| true), Some(digest("c")));
        assert_eq!(restored(&PAST, digest("b"), |_| true), Some(digest("c")));
        assert_eq!(restored(&PAST, digest("c"), |_| true), None, "it is activated itself");
        assert_eq!(restored(&PAST[..0], digest("n"), |_| true), None);
    }

    #[test]
    fn without_an_active_revision_the_named_one_is_tried_first_and_what_was_refused_last_or_never() {
        let tried = |refused: Option<&str>, wanted: &Wanted| fall_back(&PAST, refused.map(digest), wanted, |_| true);
        assert_eq!(tried(None, &Wanted::default()), ["c", "b", "a"].map(digest));
        assert_eq!(tried(Some("c"), &Wanted::default()), ["b", "a"].map(digest));
        assert_eq!(tried(Some("c"), &naming("a")), ["a", "c", "b"].map(digest), "it was refused for being another one");
        assert_eq!(tried(Some("c"), &naming("c")), ["b", "a"].map(digest));
    }

    #[test]
    fn after_a_rollback_what_the_source_has_stays_refused_for_its_past_or_as_before() {
        let past = [Entry("a", Event::Activated), Entry("c", Event::RolledBack), Entry("w", Event::ApprovalRequired)];
        let path = (Some(digest("c")), digest("a"));
        let refused = |offered: Option<&str>, before: Option<Option<&str>>| {
            still_refused(&past, offered.map(digest), path, before.map(|before| before.map(digest)))
        };
        let for_its_past = |text| Some(StillRefused::ForItsPast(digest(text)));
        assert_eq!(refused(Some("a"), Some(Some("a"))), None, "it is active");
        assert_eq!(refused(Some("w"), None), for_its_past("w"));
        assert_eq!(refused(Some("c"), Some(Some("c"))), for_its_past("c"));
        assert_eq!(refused(Some("n"), Some(Some("n"))), Some(StillRefused::AsBefore));
        assert_eq!(refused(Some("n"), Some(Some("m"))), None, "another one was refused");
        assert_eq!(refused(None, None), for_its_past("c"), "the source was not read");
        assert_eq!(refused(None, Some(None)), Some(StillRefused::AsBefore));
    }
}
