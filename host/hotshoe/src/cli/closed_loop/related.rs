//! What a plugin is shown beside the parent and its children: the related objects of the case, and the Pods that its
//! workloads have made, where the plugin asks for Pods. Pure.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::cli::plan::world::World;
use hotshoe_core::check::access_request::{Access, Request};
use hotshoe_core::check::selection::selector_of;
use hotshoe_core::model::decision::{Descriptor, Requirement};
use hotshoe_core::model::kind::{Kind, ObjectRef};
use hotshoe_core::model::wanted::Wanted;
use hotshoe_core::simulation::Cluster;
use hotshoe_operator::config::PluginConfig;
use hotshoe_sandbox::cases::Case;

/// Where related objects are looked for.
#[derive(Clone, Copy)]
pub(super) struct Around<'a> {
    pub(super) case: &'a Case,
    pub(super) cluster: &'a Cluster,
    pub(super) config: &'a PluginConfig,
}

/// Returns the cluster in which a case begins. The plugin has the first of these names, and takes over the children of the
/// others.
///
/// # Errors
/// If a child of the case is no object with a kind and a name.
pub(super) fn cluster(case: &Case, plugins: &[&str]) -> Result<Cluster, String> {
    Cluster::with(&case.children, case.related.values().flatten(), plugins)
}

/// Returns the related objects of a case without the Pods of its children.
pub(super) fn without_pods_of_children(case: &Case) -> BTreeMap<String, Vec<Value>> {
    let mut related = case.related.clone();
    if let Ok(cluster) = cluster(case, &[]) {
        let is_taken = |object: &Value| ObjectRef::of(object).is_ok_and(|object| cluster.is_taken(&object));
        related.values_mut().for_each(|objects| objects.retain(|object| !is_taken(object)));
    }
    related
}

impl Around<'_> {
    /// Returns what is related before the plugin has asked for more. Of the case's objects, only Pods go that a workload has
    /// replaced or removed.
    ///
    /// # Errors
    /// If the selector of a read is none.
    pub(super) fn related(self, descriptor: &Descriptor) -> anyhow::Result<BTreeMap<String, Vec<Value>>> {
        let mut related = self.case.related.clone();
        let is_gone = |object: &Value| ObjectRef::of(object).is_ok_and(|object| self.cluster.is_gone(&object));
        related.values_mut().for_each(|objects| objects.retain(|object| !is_gone(object)));
        if !descriptor.reads.iter().any(|read| is_pod(&read.kind)) {
            return Ok(related);
        }
        let (pods, parent) = (self.made_pods(), self.parent()?);
        for read in descriptor.reads.iter().filter(|read| is_pod(&read.kind)) {
            let found = pods.related(read, &parent, &self.case.parent)?;
            add(related.entry(read.key.clone()).or_default(), found);
        }
        Ok(related)
    }

    /// Returns what the plugin needs, as far as a workload has made it: what else a case does not have does not exist.
    ///
    /// # Errors
    /// If the parent is no object with a kind and a name.
    pub(super) fn needed(self, need: &Requirement) -> anyhow::Result<Vec<Value>> {
        if !is_pod(need.wanted.kind()) {
            return Ok(Vec::new());
        }
        let namespace = need.wanted.namespace().clone().or(self.parent()?.own_namespace().cloned());
        let pods = self.made_pods();
        Ok(match need.wanted.in_namespace(namespace) {
            Wanted::Object(object) => pods.needed(&object).into_iter().cloned().collect(),
            Wanted::Selection(selection) => pods.selected(&selection, &selector_of(&selection)?),
        })
    }

    /// Returns the Pods that the workloads have made, as far as the plugin may read them.
    fn made_pods(self) -> World {
        let Ok(parent) = self.parent() else { return World::default() };
        let may_read = |pod: &Value| {
            let Ok(object) = ObjectRef::of(pod) else { return false };
            let request = Request { parent: &parent, object: &object, namespaced: true, access: Access::Read };
            self.config.grant.authorise(&request, &|_, _| None).is_ok()
        };
        World(self.cluster.made_pods().into_iter().filter(may_read).collect())
    }

    fn parent(self) -> anyhow::Result<ObjectRef> {
        ObjectRef::of(&self.case.parent).map_err(anyhow::Error::msg)
    }
}

fn is_pod(kind: &Kind) -> bool {
    kind.is("", "Pod")
}

/// Adds objects, unless one of that name is there already.
fn add(known: &mut Vec<Value>, more: Vec<Value>) {
    let name = |object: &Value| ObjectRef::of(object).ok();
    let names: Vec<_> = known.iter().filter_map(name).collect();
    known.extend(more.into_iter().filter(|object| name(object).is_none_or(|name| !names.contains(&name))));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use hotshoe_core::check::Desired;
    use hotshoe_core::model::decision::{MatchRule, ReadKind};
    use hotshoe_core::model::kind::Namespace;
    use hotshoe_core::model::wanted::Selection;
    use hotshoe_operator::config::HostSettings;

    fn config(grants: &str) -> PluginConfig {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("plugin.yaml");
        let text = format!(
            "apiVersion: hotshoe.dev/v1alpha1\nkind: Plugin\nmetadata: {{name: demo}}\nspec:\n  \
             source: {{file: demo.wasm}}\n  grants: [{grants}]\n"
        );
        std::fs::write(&path, text).unwrap();
        PluginConfig::read(&path, &HostSettings::default()).unwrap()
    }

    fn pods() -> Kind {
        Kind::new("", "v1", "Pod")
    }

    fn descriptor() -> Descriptor {
        let rule = MatchRule::ParentLabel("of".into());
        let read = ReadKind { key: "pods".into(), kind: pods(), selector: "app=x".into(), rule, fields: Vec::new() };
        Descriptor { reads: vec![read], ..Descriptor::default() }
    }

    fn pod(name: &str) -> Value {
        let labels = json!({ "app": "x", "of": "a" });
        let metadata = json!({ "name": name, "namespace": "n", "labels": labels });
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata })
    }

    /// Returns a case with two Pods, of which the first is one of its StatefulSet.
    fn case() -> Case {
        let metadata = json!({ "name": "a", "namespace": "n", "uid": "u" });
        let mut case =
            Case::of_parent("c".into(), json!({ "apiVersion": "e/v1", "kind": "Test", "metadata": metadata }));
        case.children = vec![set("1")];
        case.related.insert("pods".to_owned(), vec![pod("set-0"), pod("other")]);
        case
    }

    fn set(image: &str) -> Value {
        let template = json!({ "metadata": { "labels": { "app": "x", "of": "a" } }, "spec": { "image": image } });
        let metadata = json!({ "name": "set", "namespace": "n", "uid": "s" });
        json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata,
            "spec": { "replicas": 2, "template": template },
        })
    }

    fn apply(cluster: &mut Cluster, body: Value) {
        let reference = ObjectRef::of(&body).unwrap();
        let desired = Desired {
            reference,
            body: Arc::new(body),
            digest: "d".into(),
            is_created_once: false,
            left: Arc::default(),
            strategy: Default::default(),
        };
        cluster.carry_out(&[desired]);
        cluster.run_controllers();
    }

    fn names(objects: &[Value]) -> Vec<&str> {
        objects.iter().filter_map(|object| object["metadata"]["name"].as_str()).collect()
    }

    const MAY_READ: &str = "{kind: Pod, verbs: [get, list, watch]}";

    #[test]
    fn pods_that_workloads_make_are_beside_those_of_the_case_until_these_are_replaced() {
        let (case, config) = (case(), config(MAY_READ));
        let mut cluster = cluster(&case, &["demo"]).unwrap();
        let shown = |cluster: &Cluster| {
            let around = Around { case: &case, cluster, config: &config };
            around.related(&descriptor()).unwrap().remove("pods").unwrap()
        };
        assert_eq!(names(&shown(&cluster)), ["set-0", "other"], "the first decision sees the case");
        apply(&mut cluster, set("1"));
        let pods = shown(&cluster);
        assert_eq!((names(&pods), &pods[0]), (vec!["set-0", "other", "set-1"], &pod("set-0")));
        apply(&mut cluster, set("2"));
        let pods = shown(&cluster);
        assert_eq!((names(&pods), &pods[1]["spec"]["image"]), (vec!["other", "set-0", "set-1"], &json!("2")));
        cluster.carry_out(&[]);
        assert_eq!(names(&shown(&cluster)), ["other"], "they go with their workload");
        assert_eq!(names(&without_pods_of_children(&case)["pods"]), ["other"]);
    }

    #[test]
    fn pods_are_found_by_name_and_by_labels_in_the_parents_namespace_as_far_as_they_may_be_read() {
        let case = Case { related: BTreeMap::new(), ..case() };
        let mut cluster = cluster(&case, &["demo"]).unwrap();
        apply(&mut cluster, set("1"));
        let found = |wanted: Wanted, grants: &str| {
            let config = config(grants);
            let around = Around { case: &case, cluster: &cluster, config: &config };
            names(&around.needed(&Requirement { key: "k".into(), wanted }).unwrap()).join(" ")
        };
        let by_name =
            |kind: Kind, namespace: Namespace| Wanted::Object(ObjectRef { kind, namespace, name: "set-1".into() });
        assert_eq!(found(by_name(pods(), None), MAY_READ), "set-1");
        assert_eq!(found(by_name(pods(), Some("elsewhere".into())), MAY_READ), "");
        assert_eq!(found(by_name(Kind::new("", "v1", "Secret"), None), MAY_READ), "");
        assert_eq!(found(by_name(pods(), None), "{kind: Secret, verbs: [get], names: [a]}"), "");
        let by_labels =
            |selector: &str| Wanted::Selection(Selection { kind: pods(), namespace: None, selector: selector.into() });
        assert_eq!(found(by_labels("app in (x,y)"), MAY_READ), "set-0 set-1");
        assert_eq!(found(by_labels("app=y"), MAY_READ), "");
    }
}
