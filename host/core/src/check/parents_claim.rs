//! Decides which of several plugins serves its parents if their kinds and selectors overlap: the one whose object is
//! older. Two plugins that wrote to the same objects would revert each other's writes.

use crate::check::parent_kind::ParentKind;

/// A plugin's claim to its parents.
#[derive(Clone, Debug)]
pub struct Claim<'a> {
    /// The plugin's name.
    pub name: &'a str,
    /// When its object was created, as Kubernetes writes it.
    pub created: &'a str,
    /// Its parents, if their kind is known: the object names it, or a revision was active.
    pub parent: Option<ParentKind>,
}

impl Claim<'_> {
    fn is_before(&self, other: &Self) -> bool {
        (self.created, self.name) < (other.created, other.name)
    }

    fn overlaps(&self, other: &Self) -> bool {
        match (&self.parent, &other.parent) {
            (Some(mine), Some(theirs)) => mine.overlaps(theirs),
            _ => false,
        }
    }
}

/// Returns the plugin that already serves some of the parents that this one claims: the oldest plugin with an
/// overlapping claim, without those that wait for an older plugin themselves.
pub fn holder<'a>(claims: &'a [Claim<'a>], of: &Claim<'_>) -> Option<&'a str> {
    let is_older = |other: &&Claim<'_>| other.name != of.name && other.is_before(of) && other.overlaps(of);
    let mut older: Vec<&Claim<'_>> = claims.iter().filter(is_older).collect();
    older.sort_by_key(|claim| (claim.created, claim.name));
    older.into_iter().find(|older| holder(claims, older).is_none()).map(|holder| holder.name)
}

#[cfg(test)]
mod tests {
    use crate::model::label_selector::LabelSelector;

    use super::*;

    fn parent(kind: &str, tier: &str) -> ParentKind {
        let selector =
            LabelSelector { match_labels: [("tier".to_owned(), tier.to_owned())].into(), ..LabelSelector::default() };
        ParentKind {
            group: "example.com".into(),
            kind: kind.into(),
            selector: Some(selector).filter(|_| !tier.is_empty()),
            annotation_selector: None,
            namespaces: None,
        }
    }

    #[test]
    fn the_older_of_two_serves_the_parents_and_the_newer_waits() {
        let (all, a, b) = (parent("Cache", ""), parent("Cache", "a"), parent("Cache", "b"));
        let claim = |name, created, parent| Claim { name, created, parent };
        let claims = [
            claim("old", "1", Some(a.clone())),
            claim("new", "2", Some(a)),
            claim("apart", "3", Some(b)),
            claim("all", "4", Some(all)),
        ];
        let of = |index: usize| holder(&claims, &claims[index]);
        assert_eq!([of(0), of(1), of(2), of(3)], [None, Some("old"), None, Some("old")]);
    }

    #[test]
    fn of_two_that_were_created_in_the_same_second_the_name_decides() {
        let kind = parent("Cache", "");
        let claims = ["b", "a"].map(|name| Claim { name, created: "1", parent: Some(kind.clone()) });
        assert_eq!([holder(&claims, &claims[0]), holder(&claims, &claims[1])], [Some("a"), None]);
    }

    #[test]
    fn a_plugin_that_waits_for_an_older_one_keeps_no_other_waiting() {
        let (a, both, b) = (parent("Cache", "a"), parent("Cache", ""), parent("Cache", "b"));
        let claim = |name, created, parent| Claim { name, created, parent: Some(parent) };
        let claims = [claim("first", "1", a), claim("second", "2", both), claim("third", "3", b)];
        let of = |index: usize| holder(&claims, &claims[index]);
        assert_eq!([of(0), of(1), of(2)], [None, Some("first"), None]);
    }
}
