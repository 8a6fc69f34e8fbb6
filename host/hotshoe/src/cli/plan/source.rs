//! Where a plan finds what exists: in the files that were named, or in a cluster.

use std::collections::HashMap;

use anyhow::Context;
use serde_json::Value;

use super::plugin::Plugin;
use super::world::World;
use crate::cli::schema::files::Files;
use crate::cli::terminal;
use hotshoe_cluster::client::Cluster;
use hotshoe_cluster::discovery::Kinds;
use hotshoe_cluster::read;
use hotshoe_core::check::selection::SelectionError;
use hotshoe_core::model::decision::{MatchRule, ReadKind};
use hotshoe_core::model::kind::{Kind, ObjectRef};
use hotshoe_core::model::label_selector::LabelSelector;
use hotshoe_core::model::limits::SELECTED_OBJECTS;
use hotshoe_core::model::object::PLUGIN_LABEL;
use hotshoe_core::model::parent_label::parent_label;
use hotshoe_core::model::wanted::Selection;

/// Where what exists is found.
pub(super) enum Source {
    /// These objects, and the CRDs of the project.
    Files { world: World, crds: Files },
    /// A cluster, with the rights of the caller.
    Cluster { cluster: Box<Cluster>, kinds: Kinds },
}

impl Source {
    /// Returns an object that is stored in the cluster.
    ///
    /// # Errors
    /// When there is none, or it cannot be read.
    pub(super) async fn stored(&self, reference: &ObjectRef) -> anyhow::Result<Option<Value>> {
        match self {
            Self::Files { .. } => Ok(None),
            Self::Cluster { cluster, kinds } => Ok(read::object(cluster, kinds, reference).await?),
        }
    }

    /// Returns the CRD of a kind that the cluster has; none if it has none, or that may not be read.
    pub(super) async fn definition(&self, kind: &Kind) -> Option<Files> {
        let Self::Cluster { cluster, kinds } = self else { return None };
        let served = kinds.find(cluster, kind).await.ok()?;
        let name = format!("{}.{}", served.plural, kind.group);
        let of_definitions = Kind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        let reference = ObjectRef { kind: of_definitions, namespace: None, name: name.as_str().into() };
        let definition = read::object(cluster, kinds, &reference).await.ok()??;
        Some(Files::alone(format!("the CRD {name} of the cluster").into(), definition))
    }

    /// Returns the children of a parent.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub(super) async fn children(
        &self,
        parent: &Value,
        reference: &ObjectRef,
        plugin: &Plugin,
    ) -> anyhow::Result<Vec<Value>> {
        let descriptor = plugin.revision.descriptor();
        match self {
            Self::Files { world, .. } => Ok(world.children(parent, descriptor)),
            Self::Cluster { cluster, kinds } => {
                let selector = format!("{PLUGIN_LABEL} in ({})", plugin.config.makers().join(","));
                let namespace = reference.own_namespace().map(|namespace| &**namespace);
                let mut found = Vec::new();
                for owned in &descriptor.owns {
                    found.extend(read::objects(cluster, kinds, &owned.kind, namespace, &selector).await?);
                }
                Ok(World(found).children(parent, descriptor))
            }
        }
    }

    /// Returns the objects of a declared read that belong to a parent.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub(super) async fn related(
        &self,
        read: &ReadKind,
        parent: &ObjectRef,
        parent_object: &Value,
    ) -> anyhow::Result<Vec<Value>> {
        match self {
            Self::Files { world, .. } => world.related(read, parent, parent_object),
            Self::Cluster { cluster, kinds } => {
                let of_parent = match &read.rule {
                    MatchRule::ParentLabel(key) if !key.is_empty() => format!("{key}={}", parent_label(&parent.name)),
                    _ => String::new(),
                };
                let both: Vec<&str> =
                    [read.selector.as_str(), &of_parent].into_iter().filter(|one| !one.is_empty()).collect();
                let found =
                    read::objects(cluster, kinds, &read.kind, parent.namespace.as_deref(), &both.join(",")).await?;
                // The API server has applied the selector.
                let read = ReadKind { selector: String::new(), ..read.clone() };
                World(found).related(&read, parent, parent_object)
            }
        }
    }

    /// Returns an object that a decision needs by its name.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) async fn needed(&self, object: &ObjectRef) -> anyhow::Result<Option<Value>> {
        match self {
            Self::Files { world, .. } => Ok(world.needed(object).cloned()),
            Self::Cluster { cluster, kinds } => Ok(read::object(cluster, kinds, object).await?),
        }
    }

    /// Returns the objects that a decision needs by this label selector, sorted by namespace and name.
    ///
    /// # Errors
    /// When they cannot be listed, or are more than a plugin is shown.
    pub(super) async fn selected(&self, selection: &Selection, selector: &LabelSelector) -> anyhow::Result<Vec<Value>> {
        let found = match self {
            Self::Files { world, .. } => world.selected(selection, selector),
            Self::Cluster { cluster, kinds } => {
                let Selection { kind, namespace, selector } = selection;
                read::objects(cluster, kinds, kind, namespace.as_deref(), selector).await?
            }
        };
        if found.len() > SELECTED_OBJECTS {
            return Err(SelectionError::TooMany(selection.clone()).into());
        }
        Ok(found)
    }

    /// Returns whether the objects of a kind are in namespaces; none if the cluster does not serve it.
    pub(super) async fn is_namespaced(&self, kind: &Kind) -> Option<bool> {
        match self {
            Self::Files { crds, .. } => Some(crds.is_namespaced(kind)),
            Self::Cluster { cluster, kinds } => kinds.find(cluster, kind).await.ok().map(|served| served.namespaced),
        }
    }

    /// Returns the labels of a namespace; none if there is no such namespace.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) async fn namespace_labels(&self, name: &str) -> anyhow::Result<HashMap<String, String>> {
        let reference = ObjectRef { kind: Kind::new("", "v1", "Namespace"), namespace: None, name: name.into() };
        let namespace = self.needed(&reference).await;
        let namespace =
            namespace.with_context(|| format!("the grant selects namespaces by their labels, and {name}"))?;
        if namespace.is_none() && matches!(self, Self::Files { .. }) {
            terminal::note(format_args!(
                "note: the grant selects namespaces by their labels, and no file has the Namespace {name}; add it, or \
                 compare with a cluster (--cluster)"
            ));
        }
        let labels = namespace.as_ref().and_then(|namespace| namespace.pointer("/metadata/labels"));
        let labels = labels.and_then(Value::as_object).into_iter().flatten();
        Ok(labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect())
    }
}
