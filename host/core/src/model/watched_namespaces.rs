//! The namespaces that a host watches: all, or some that its administrator names.

use std::sync::Arc;

use crate::model::digest::Digest;
use crate::model::kind::Namespace;
use crate::model::names;

/// How many namespaces a host watches at most, unless it watches all. For each of them and each kind there is a watch, which
/// takes the host about 40 kB: ten kinds in 64 namespaces 26 MB.
pub const WATCHED_NAMESPACES: usize = 64;

/// How much of the digest of several names is added to other names.
const SUFFIX_DIGITS: usize = 8;

/// The namespaces that a host watches, each once, sorted. None means all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchedNamespaces(Vec<Arc<str>>);

/// Why these namespaces cannot be watched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnusableNamespaces {
    /// A name is not that of a namespace.
    #[error(
        "{0:?} is no namespace: its name has at most 63 lower-case letters, digits and `-` between them; \
         separate several names by commas"
    )]
    Invalid(String),
    /// A name is there twice.
    #[error("the namespace {0} is named twice; name it once")]
    Duplicate(String),
    /// There are too many.
    #[error(
        "{0} namespaces are named, and a host watches {WATCHED_NAMESPACES} at most, each with connections of its own; \
         name none to watch all of them, or run a host for each group of them"
    )]
    TooMany(usize),
}

impl WatchedNamespaces {
    /// Returns these namespaces; all if none is named.
    ///
    /// # Errors
    /// When a name is invalid or there twice, or there are too many.
    pub fn named<N: AsRef<str>>(names: &[N]) -> Result<Self, UnusableNamespaces> {
        if names.len() > WATCHED_NAMESPACES {
            return Err(UnusableNamespaces::TooMany(names.len()));
        }
        let mut sorted: Vec<Arc<str>> = names.iter().map(|name| name.as_ref().into()).collect();
        if let Some(invalid) = sorted.iter().find(|name| !names::is_label(name)) {
            return Err(UnusableNamespaces::Invalid(invalid.to_string()));
        }
        sorted.sort();
        let twice = sorted.iter().zip(sorted.iter().skip(1)).find(|(name, next)| name == next);
        match twice {
            Some((name, _)) => Err(UnusableNamespaces::Duplicate(name.to_string())),
            None => Ok(Self(sorted)),
        }
    }

    /// Returns the names; none if all namespaces are watched.
    pub fn names(&self) -> &[Arc<str>] {
        &self.0
    }

    /// Returns whether all namespaces are watched.
    pub fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a namespace is watched.
    pub fn includes(&self, name: &str) -> bool {
        self.is_all() || self.0.iter().any(|watched| **watched == *name)
    }

    /// Returns the names in one text, which is different for different namespaces; none if all are watched.
    pub fn joined(&self) -> Option<String> {
        (!self.is_all()).then(|| self.0.join(","))
    }

    /// Returns what is added to the names of what hosts of other namespaces have, too; nothing for a host that watches all.
    pub fn suffix(&self) -> Option<String> {
        match self.0.as_slice() {
            [] => None,
            [one] => Some(one.to_string()),
            // Their names may be longer together than any name.
            several => Some(Digest::of(several.join(",").as_bytes()).digits(SUFFIX_DIGITS)),
        }
    }

    /// Returns the parts in which the objects of a kind are watched: each a namespace, or all objects at once.
    pub fn parts(&self, namespaced: bool) -> Vec<Namespace> {
        match namespaced && !self.is_all() {
            true => self.0.iter().cloned().map(Some).collect(),
            false => vec![None],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_are_watched_in_parts_and_kinds_without_namespaces_whole() {
        let named = WatchedNamespaces::named(&["team-b", "team-a"]).unwrap();
        assert_eq!(named.parts(true), [Some("team-a".into()), Some("team-b".into())]);
        assert_eq!(named.joined().as_deref(), Some("team-a,team-b"));
        let all = WatchedNamespaces::default();
        assert_eq!(WatchedNamespaces::named::<&str>(&[]).unwrap(), all);
        assert_eq!([named.parts(false), all.parts(true), all.parts(false)], [vec![None], vec![None], vec![None]]);
        assert_eq!((all.joined(), all.names().len()), (None, 0));
    }

    #[test]
    fn the_suffix_of_names_is_short_and_depends_on_the_namespaces_and_not_on_their_order() {
        let suffix = |names: &[&str]| WatchedNamespaces::named(names).unwrap().suffix();
        assert_eq!((suffix(&[]), suffix(&["team-a"]).as_deref()), (None, Some("team-a")));
        // As `printf a,b | sha256sum` and the chart have it.
        assert_eq!(suffix(&["b", "a"]).as_deref(), Some("1eb7c54d"));
        assert_ne!(suffix(&["a", "b"]), suffix(&["a", "c"]));
    }

    #[test]
    fn a_name_that_is_invalid_or_there_twice_is_refused_with_what_to_do() {
        for (names, advice) in [
            (["a", ""], "at most 63"),
            (["a", "B"], "\"B\" is no namespace"),
            (["a", "b c"], "separate several names by commas"),
            (["a", "a"], "the namespace a is named twice"),
        ] {
            let refused = WatchedNamespaces::named(&names).unwrap_err().to_string();
            assert!(refused.contains(advice), "{names:?}: {refused}");
        }
    }

    #[test]
    fn more_namespaces_than_the_limit_are_refused() {
        let names: Vec<String> = (0..=WATCHED_NAMESPACES).map(|number| format!("team-{number}")).collect();
        assert_eq!(WatchedNamespaces::named(&names[1..]).unwrap().names().len(), WATCHED_NAMESPACES);
        let refused = WatchedNamespaces::named(&names).unwrap_err();
        assert_eq!(refused, UnusableNamespaces::TooMany(WATCHED_NAMESPACES + 1));
        assert!(refused.to_string().contains("name none to watch all"), "{refused}");
    }
}
