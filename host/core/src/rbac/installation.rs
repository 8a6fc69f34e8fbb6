//! Where a host is installed, and in which namespaces its rights and its plugins' hold.

use std::collections::BTreeSet;

use crate::check::grant::{Keyword, Namespaces};
use crate::model::watched_namespaces::WatchedNamespaces;

/// The namespace and the account of a host, and the namespaces that it watches.
#[derive(Clone, Debug)]
pub struct Installation {
    /// The namespace of the host and of the plugins' accounts.
    pub namespace: String,
    /// The host's account.
    pub account: String,
    /// The namespaces that the host watches.
    pub watched: WatchedNamespaces,
}

impl Installation {
    /// Returns the watched namespaces, or a single `None` for all namespaces.
    pub(super) fn watched_namespaces(&self) -> BTreeSet<Option<String>> {
        match self.watched.names() {
            [] => BTreeSet::from([None]),
            some => some.iter().map(|name| Some(name.to_string())).collect(),
        }
    }

    /// Returns the scopes of rights on all objects of a kind: the watched namespaces, or the cluster.
    pub(super) fn scopes(&self, namespaced: bool) -> BTreeSet<Option<String>> {
        if namespaced { self.watched_namespaces() } else { BTreeSet::from([None]) }
    }

    /// Returns the scopes of a rule. With a parent in a namespace (`has_parent_namespace`), writes stay in that
    /// namespace.
    pub(super) fn scopes_of(
        &self,
        namespaces: &Namespaces,
        namespaced: bool,
        has_parent_namespace: bool,
        reads: bool,
    ) -> BTreeSet<Option<String>> {
        let beside_parent = has_parent_namespace && !reads;
        match namespaces {
            Namespaces::Keyword(Keyword::Cluster) if !namespaced && beside_parent => BTreeSet::new(),
            Namespaces::Keyword(Keyword::Cluster) if !namespaced => BTreeSet::from([None]),
            _ if !namespaced => BTreeSet::new(),
            Namespaces::Keyword(Keyword::Own) if !has_parent_namespace => BTreeSet::new(),
            Namespaces::Keyword(Keyword::Own) => self.watched_namespaces(),
            Namespaces::Keyword(Keyword::Cluster) | Namespaces::Selected(_) if beside_parent => {
                self.watched_namespaces()
            }
            Namespaces::Keyword(Keyword::Cluster) | Namespaces::Selected(_) => BTreeSet::from([None]),
            Namespaces::Named(names) => {
                let watched = |name: &&String| !beside_parent || self.watched.includes(name);
                names.iter().filter(watched).cloned().map(Some).collect()
            }
        }
    }
}
